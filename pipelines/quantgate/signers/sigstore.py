"""Signs with a person's or a workflow's own identity through sigstore's public service. Needs the network, for checking too.

``secret`` and each trusted key are ``identity@@issuer``, for example ``ada@example.org@@https://github.com/login/oauth``. Within a
workflow its ambient identity signs; elsewhere a browser asks. The form of these signatures is not yet stable in the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sigstore  # noqa: F401  (what the library's signer needs: a missing one is told before a browser opens)
from securesystemslib.signer import Key
from securesystemslib.signer._sigstore_signer import SigstoreSigner as Keyless

from quantgate.errors import SignatureError, UsageError
from quantgate.signers import envelope


class SigstoreSigner:
    """The signer port over sigstore."""

    def __init__(self, *, ask: Callable[[str], str] | None = None) -> None:
        self._ask = ask

    def sign(self, statement: bytes, secret: str) -> str:
        """The signed envelope as text. Raises ``SignatureError`` where the service cannot be reached or refuses."""
        uri, key = _identity(secret, ambient=self._ask is None)
        try:
            return envelope.sealed(statement, Keyless.from_priv_key_uri(uri, key))
        except Exception as error:  # the library's errors have no common class
            raise SignatureError(f"sigstore did not sign ({error}); it needs the network. A key file does not: --key FILE") from error

    def key_id(self, secret: str) -> str:
        """The id of an identity."""
        return str(_identity(secret, ambient=False)[1].keyid)

    def check(self, text: str, trusted: Sequence[str]) -> str:
        """Key id of the trusted identity that signed. Raises ``SignatureError``."""
        return envelope.check(text, [_identity(one, ambient=False)[1] for one in trusted])

    def payload(self, text: str) -> bytes:
        """What the envelope holds, believed or not. Raises ``SignatureError`` where it is none."""
        found: bytes = envelope.opened(text).payload
        envelope.check_statement(found)
        return found


def _identity(text: str, *, ambient: bool) -> tuple[str, Key]:
    identity, found, issuer = text.partition("@@")
    if not found or not identity or not issuer:
        raise UsageError(f"an identity is given as IDENTITY@@ISSUER, found '{text}'")
    uri, key = Keyless.import_(identity, issuer, ambient=ambient)
    return uri, key
