"""Signs with a person's or a workflow's own identity through sigstore's public service. Needs the network, for checking too.

``secret`` and each trusted key are ``identity@@issuer``, for example ``ada@example.org@@https://github.com/login/oauth``. Within a
workflow its ambient identity signs; elsewhere a browser asks. The form of these signatures is not yet stable in the library.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence

import sigstore  # noqa: F401  (what the library's signer needs: a missing one is told before a browser opens)
from securesystemslib.signer import Key, Signature, Signer
from securesystemslib.signer._sigstore_signer import SigstoreSigner as Keyless

from quantgate.errors import SignatureError, UsageError
from quantgate.signers import envelope


class _Hexadecimal(Signer):  # type: ignore[misc]
    """The library's signer, with the signature in the digits that its own envelope expects: as it comes it is base64."""

    def __init__(self, keyless: Keyless) -> None:
        self._keyless = keyless

    @property
    def public_key(self) -> Key:
        return self._keyless.public_key

    @classmethod
    def from_priv_key_uri(cls, priv_key_uri: str, public_key: Key, secrets_handler: object = None) -> _Hexadecimal:
        return cls(Keyless.from_priv_key_uri(priv_key_uri, public_key))

    def sign(self, payload: bytes) -> Signature:
        signed = self._keyless.sign(payload)
        return Signature(signed.keyid, base64.b64decode(signed.signature).hex(), signed.unrecognized_fields)


class SigstoreSigner:
    """The signer port over sigstore."""

    def __init__(self, *, ask: Callable[[str], str] | None = None) -> None:
        self._ask = ask

    def sign(self, statement: bytes, secret: str) -> str:
        """The signed envelope as text. Raises ``SignatureError`` where the service cannot be reached or refuses."""
        uri, key = _identity(secret, ambient=self._ask is None)
        try:
            text = envelope.sealed(statement, _Hexadecimal.from_priv_key_uri(uri, key))
            envelope.check(text, [key])  # the library does not compare an ambient identity with the one that was named
            return text
        except Exception as error:  # the library's errors have no common class
            raise SignatureError(f"sigstore did not sign ({error}); it needs the network. A key file does not: --key FILE") from error

    def key_id(self, secret: str) -> str:
        """The id of an identity."""
        return str(_identity(secret, ambient=False)[1].keyid)

    def check(self, text: str, trusted: Sequence[str]) -> str:
        """Key id of the trusted identity that signed. Raises ``SignatureError``."""
        try:
            key_id = envelope.check(text, [_identity(one, ambient=False)[1] for one in trusted])
            _refuse_two_signatures(text)
            return key_id
        except SignatureError as error:
            raise SignatureError(f"{error} (checking an identity needs the network)") from error

    def payload(self, text: str) -> bytes:
        """What the envelope holds, believed or not. Raises ``SignatureError`` where it is none."""
        found: bytes = envelope.opened(text).payload
        envelope.check_statement(found)
        return found


def _refuse_two_signatures(text: str) -> None:
    """The library checks the bundle's signature alone; the one beside it must be the same, or a change there would not be seen."""
    (signature,) = json.loads(text)["signatures"]
    if signature["sig"] != signature["bundle"]["messageSignature"]["signature"]:
        raise SignatureError("its signature is another one than that of its bundle: one of them was changed")


def _identity(text: str, *, ambient: bool) -> tuple[str, Key]:
    identity, found, issuer = text.partition("@@")
    if not found or not identity or not issuer:
        raise UsageError(f"an identity is given as IDENTITY@@ISSUER, found '{text}'")
    uri, key = Keyless.import_(identity, issuer, ambient=ambient)
    return uri, key
