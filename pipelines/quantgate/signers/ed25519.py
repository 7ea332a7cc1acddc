"""Signs with an ed25519 key in a PEM file, and checks against public keys in PEM files. Works without any network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from securesystemslib.signer import CryptoSigner, SSlibKey

from quantgate.errors import UsageError
from quantgate.signers import envelope

MAKE = "openssl genpkey -algorithm ed25519 -out release.key && openssl pkey -in release.key -pubout -out release.pub"


class Ed25519Signer:
    """The signer port over key files. ``ask`` gives the passphrase of an encrypted private key."""

    def __init__(self, *, ask: Callable[[str], str] | None = None) -> None:
        self._ask = ask

    def sign(self, statement: bytes, secret: str) -> str:
        """The signed envelope as text; ``secret`` is the path of a private key. Raises ``UsageError`` for a key that is none."""
        return envelope.sealed(statement, CryptoSigner(self._private(Path(secret))))

    def key_id(self, secret: str) -> str:
        """The id of the public half of a private key."""
        key_id: str = CryptoSigner(self._private(Path(secret))).public_key.keyid
        return key_id

    def check(self, text: str, trusted: Sequence[str]) -> str:
        """Key id of the trusted public key that signed. Raises ``SignatureError``, or ``UsageError`` for a key file that is none."""
        return envelope.check(text, [_public(Path(one)) for one in trusted])

    def payload(self, text: str) -> bytes:
        """What the envelope holds, believed or not. Raises ``SignatureError`` where it is none."""
        found: bytes = envelope.opened(text).payload
        envelope.check_statement(found)
        return found

    def _private(self, path: Path) -> Ed25519PrivateKey:
        data = _read(path)
        try:
            key = load_pem_private_key(data, None)
        except TypeError:
            key = self._decrypted(path, data)
        except ValueError as error:
            raise UsageError(f"{path} holds no private key in PEM form; make one with: {MAKE}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise UsageError(f"{path} holds a {type(key).__name__}; an ed25519 key is needed, made with: {MAKE}")
        return key

    def _decrypted(self, path: Path, data: bytes) -> object:
        if self._ask is None:
            raise UsageError(f"{path} is encrypted and nobody can be asked for its passphrase; sign at a terminal")
        try:
            return load_pem_private_key(data, self._ask(f"passphrase of {path}: ").encode())
        except ValueError as error:
            raise UsageError(f"{path} does not open with this passphrase") from error


def _public(path: Path) -> SSlibKey:
    data = _read(path)
    if b"PRIVATE KEY" in data:
        raise UsageError(f"{path} is a private key: give the public one, made with: openssl pkey -in {path.name} -pubout")
    try:
        key = load_pem_public_key(data)
    except ValueError as error:
        raise UsageError(f"{path} holds no public key in PEM form") from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{path} holds a {type(key).__name__}; an ed25519 key is needed")
    return SSlibKey.from_crypto(key)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the key {path}: {error.strerror or error}") from error
