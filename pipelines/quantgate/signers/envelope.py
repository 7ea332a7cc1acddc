"""The signed envelope (DSSE) around an in-toto statement: what every signer writes and reads in the same way.

A written envelope has one form only, so that a changed byte outside of what the signature covers is seen, too.
"""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import Key, Signer

from quantgate.errors import SignatureError

PAYLOAD_TYPE = "application/vnd.in-toto+json"


def sealed(statement: bytes, signer: Signer) -> str:
    """The statement in an envelope with one signature, as text. Raises ``SignatureError`` for bytes that are no statement."""
    check_statement(statement)
    envelope = Envelope(payload=statement, payload_type=PAYLOAD_TYPE, signatures={})
    envelope.sign(signer)
    return _text(envelope)


def opened(text: str) -> Envelope:
    """An envelope as it stands in a file, its signature not yet checked. Raises ``SignatureError``."""
    try:
        envelope = Envelope.from_dict(json.loads(text))
    except KeyError as error:
        raise SignatureError(f"it is no signed envelope: key {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise SignatureError(f"it is no signed envelope: {error or type(error).__name__}") from error
    if envelope.payload_type != PAYLOAD_TYPE:
        raise SignatureError(f"it holds {envelope.payload_type!r}; expected is {PAYLOAD_TYPE!r}")
    return envelope


def check(text: str, trusted: list[Key]) -> str:
    """Key id of the trusted key that signed. Raises ``SignatureError`` for a foreign key and for a signature that does not hold."""
    envelope = opened(text)
    found = [str(one) for one in envelope.signatures]
    if len(found) != 1:
        raise SignatureError(f"it carries {len(found)} signatures; expected is one")
    if found[0] not in [key.keyid for key in trusted]:
        names = ", ".join(key.keyid[:16] for key in trusted) or "none"
        raise SignatureError(f"it was signed with the foreign key {found[0][:16]}; trusted: {names}")
    try:
        envelope.verify(trusted, 1)
    except VerificationError as error:
        raise SignatureError("its signature does not hold: the statement or the signature was changed, or another key signed") from error
    if _text(envelope) != text:
        raise SignatureError("its file was changed outside of what the signature covers")
    return found[0]


def check_statement(payload: bytes) -> None:
    """Raise ``SignatureError`` where the payload is no in-toto statement."""
    try:
        proto = json_format.ParseDict(json.loads(payload), statement_pb2.Statement())
        Statement.copy_from_pb(proto).validate()
    except (ValueError, TypeError, json_format.ParseError) as error:
        raise SignatureError(f"its payload is no in-toto statement: {error}") from error


def _text(envelope: Envelope) -> str:
    made: dict[str, Any] = envelope.to_dict()
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
