"""Signing with an identity: what is asked of the sigstore library, over a stand-in of it, and that the real one has what is asked for."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from quantgate.errors import SignatureError, UsageError

ADA, ISSUER = "ada@example.org", "https://github.com/login/oauth"
STATEMENT = json.dumps(
    {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "m", "digest": {"sha256": "ab" * 32}}],
        "predicateType": "https://example.org/p",
        "predicate": {"decision": "approve"},
    }
).encode()


class Refused(Exception):
    """The library's own error of a signature that does not hold."""


class Service:
    """The public service as the library shows it: signs with the identity of whoever is logged in, knows nobody else."""

    def __init__(self, *, identity: str = ADA, issuer: str = ISSUER, reachable: bool = True, ambient: str | None = None) -> None:
        self.token = SimpleNamespace(identity=identity, federated_issuer=issuer)
        self.reachable, self.ambient, self.asked = reachable, ambient, [False]

    def config(self) -> Any:
        if not self.reachable:
            raise ConnectionError("no route to the service")
        return SimpleNamespace(signing_config=SimpleNamespace(get_oidc_url=lambda: "https://oidc.example.org"))

    def login(self) -> Any:
        self.asked.append(True)
        return self.token

    @contextmanager
    def signer(self, token: Any) -> Iterator[Any]:
        yield SimpleNamespace(sign_artifact=lambda payload: SimpleNamespace(to_json=lambda: self._bundle(payload, token)))

    def _bundle(self, payload: bytes, token: Any) -> str:
        digest = base64.b64encode(hashlib.sha256(payload).digest()).decode()
        return json.dumps({"messageSignature": {"signature": digest}, "identity": token.identity, "issuer": token.federated_issuer})

    def verify_artifact(self, payload: bytes, bundle: dict[str, Any], identity: Any) -> None:
        self.config()
        digest = base64.b64encode(hashlib.sha256(payload).digest()).decode()
        same = (bundle["identity"], bundle["issuer"]) == (identity.identity, identity.issuer)
        if bundle["messageSignature"]["signature"] != digest or not same:
            raise Refused("it does not hold")


def install(service: Service, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put the stand-in where the library would be, and load the signer anew."""
    config = SimpleNamespace(production=service.config)
    contents = {
        "sigstore": {},
        "sigstore.errors": {"VerificationError": Refused},
        "sigstore.models": {"ClientTrustConfig": config, "Bundle": SimpleNamespace(from_json=json.loads)},
        "sigstore.oidc": {
            "Issuer": lambda url: SimpleNamespace(identity_token=service.login),
            "IdentityToken": lambda raw: service.token,
            "detect_credential": lambda: service.ambient,
        },
        "sigstore.sign": {"SigningContext": SimpleNamespace(from_trust_config=lambda _: SimpleNamespace(signer=service.signer))},
        "sigstore.verify": {"Verifier": SimpleNamespace(production=lambda: service)},
        "sigstore.verify.policy": {"Identity": lambda *, identity, issuer: SimpleNamespace(identity=identity, issuer=issuer)},
    }
    for name, members in contents.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "quantgate.signers.sigstore", raising=False)
    from quantgate.signers.sigstore import SigstoreSigner

    return SigstoreSigner


def test_what_an_identity_signed_is_checked_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person at a terminal is asked to log in, signs, and the envelope is that identity's and nobody else's."""
    service = Service()
    signer = install(service, monkeypatch)(ask=input)
    sealed = signer.sign(STATEMENT, f"{ADA}@@{ISSUER}")
    assert service.asked[-1]
    assert signer.check(sealed, [f"{ADA}@@{ISSUER}"]) == signer.key_id(f"{ADA}@@{ISSUER}")
    assert signer.payload(sealed) == STATEMENT
    with pytest.raises(SignatureError, match="foreign key"):
        signer.check(sealed, [f"eve@example.org@@{ISSUER}"])


def test_a_changed_statement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload that was swapped under the signature does not hold."""
    signer = install(Service(), monkeypatch)(ask=input)
    envelope = json.loads(signer.sign(STATEMENT, f"{ADA}@@{ISSUER}"))
    envelope["payload"] = base64.b64encode(STATEMENT.replace(b"approve", b"reject")).decode()
    with pytest.raises(SignatureError, match="does not hold"):
        signer.check(json.dumps(envelope, indent=2) + "\n", [f"{ADA}@@{ISSUER}"])


def test_a_changed_signature_beside_its_bundle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The envelope's own signature must be the bundle's, although only the bundle's is checked by the library."""
    signer = install(Service(), monkeypatch)(ask=input)
    sealed = json.loads(signer.sign(STATEMENT, f"{ADA}@@{ISSUER}"))
    sealed["signatures"][0]["sig"] = base64.b64encode(b"another one").decode()
    with pytest.raises(SignatureError, match="another one than that of its bundle"):
        signer.check(json.dumps(sealed, indent=2) + "\n", [f"{ADA}@@{ISSUER}"])


def test_an_ambient_identity_signs_without_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a workflow its own identity is taken; without one the refusal says so and names the other way."""
    service = Service(ambient="token")
    signer = install(service, monkeypatch)()
    assert signer.check(signer.sign(STATEMENT, f"{ADA}@@{ISSUER}"), [f"{ADA}@@{ISSUER}"])
    assert not service.asked[-1]
    nobody = install(Service(), monkeypatch)()
    with pytest.raises(SignatureError, match=r"did not sign \(Failed to detect.*--key FILE"):
        nobody.sign(STATEMENT, f"{ADA}@@{ISSUER}")


@pytest.mark.parametrize("ambient", [None, "token"])
def test_another_identity_than_the_one_named_does_not_sign(monkeypatch: pytest.MonkeyPatch, ambient: str | None) -> None:
    """Who logs in, or runs the workflow, as somebody else than the one named signs nothing that is written."""
    signer = install(Service(identity="eve@example.org", ambient=ambient), monkeypatch)(ask=None if ambient else input)
    with pytest.raises(SignatureError, match="did not sign"):
        signer.sign(STATEMENT, f"{ADA}@@{ISSUER}")


def test_without_the_network_nothing_is_signed_or_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that cannot be reached is an error with what it needs, when signing and when checking."""
    sealed = install(Service(), monkeypatch)(ask=input).sign(STATEMENT, f"{ADA}@@{ISSUER}")
    away = install(Service(reachable=False), monkeypatch)(ask=input)
    with pytest.raises(SignatureError, match=r"no route to the service\); it needs the network"):
        away.sign(STATEMENT, f"{ADA}@@{ISSUER}")
    with pytest.raises(SignatureError, match="needs the network"):
        away.check(sealed, [f"{ADA}@@{ISSUER}"])


@pytest.mark.parametrize("text", ["ada@example.org", "@@https://x", "ada@@", ""])
def test_an_identity_has_two_parts(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Without identity or issuer the form is told before a browser opens."""
    signer = install(Service(), monkeypatch)(ask=input)
    with pytest.raises(UsageError, match="IDENTITY@@ISSUER"):
        signer.sign(STATEMENT, text)


@pytest.mark.skipif(find_spec("sigstore") is None, reason="sigstore is not installed")
def test_the_library_has_what_the_stand_in_has() -> None:
    """Every name and argument that is used exists in the installed library."""
    from sigstore.errors import VerificationError
    from sigstore.models import Bundle, ClientTrustConfig
    from sigstore.oidc import IdentityToken, Issuer, detect_credential
    from sigstore.sign import Signer, SigningContext
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    assert issubclass(VerificationError, Exception) and callable(detect_credential)
    for one in (Bundle.from_json, Bundle.to_json, ClientTrustConfig.production, SigningContext.from_trust_config, Verifier.production):
        assert callable(one)
    assert {"signing_config"} <= set(dir(ClientTrustConfig)) and {"identity", "federated_issuer"} <= set(dir(IdentityToken))
    assert list(inspect.signature(Verifier.verify_artifact).parameters)[1:4] == ["input_", "bundle", "policy"]
    assert {"identity", "issuer"} <= set(inspect.signature(Identity.__init__).parameters)
    assert "identity_token" in dir(Issuer) and "signer" in dir(SigningContext) and "sign_artifact" in dir(Signer)
