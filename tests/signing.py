"""A run of configs/smoke.yaml that was signed off, in a folder of its own, with the keys it was signed with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chain import Chain, Done

ROOT = Path(__file__).resolve().parents[1]
WAIVED = "quality/smoke"
PERSON = ("--name", "Ada King", "--role", "release owner")


def write_keys(folder: Path, name: str) -> None:
    """A private and a public key, as openssl writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.key").write_bytes(private)
    (folder / f"{name}.key").chmod(0o600)
    (folder / f"{name}.pub").write_bytes(public)


def write_inputs(root: Path) -> None:
    """The smoke config with a real date, its golden set, and a policy that waives one check of int4 for a month."""
    shutil.copytree(ROOT / "golden_sets" / "smoke", root / "golden_sets" / "smoke")
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text(encoding="utf-8"))
    del config["provenance"]
    changes = {"cache": "../cache", "executor": "inline", "policy": "policy.yaml"}
    (root / "configs").mkdir()
    (root / "configs" / "smoke.yaml").write_text(yaml.safe_dump({**config, **changes}), encoding="utf-8")
    policy = yaml.safe_load((ROOT / "configs" / "policies" / "default.yaml").read_text(encoding="utf-8"))
    until = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
    waiver = {"check": WAIVED, "variant": "int4", "owner": "Grace", "reason": "pilot only", "expires": until}
    (root / "configs" / "policy.yaml").write_text(yaml.safe_dump({**policy, "waivers": [waiver]}), encoding="utf-8")


@dataclass(kw_only=True)
class Signed:
    """A folder with two runs, of which the first is signed off, and the keys."""

    root: Path
    run: Path
    other: Path
    checkpoint: Path

    @classmethod
    def in_folder(cls, root: Path) -> Signed:
        """Run twice, sign both."""
        write_inputs(root)
        for name in ("ours", "theirs"):
            write_keys(root / "keys", name)
        chain = Chain(root=root)
        for _ in range(2):
            done = chain.cli("run", root / "configs" / "smoke.yaml")
            assert done.code == 0, done.err
        run, other = chain.runs
        report = json.loads((run / "report.json").read_text(encoding="utf-8"))
        place = next(Path(row["artifact_path"]) for row in report["measurements"] if row["variant"] == "int4")
        made = cls(root=root, run=run, other=other, checkpoint=place)
        for folder in (run, other):
            done = made.sign("--decision", "approve", run=folder)
            assert done.code == 0, done.err
        return made

    def copy(self, into: Path) -> Signed:
        """The same elsewhere, to be altered there."""
        shutil.copytree(self.root, into)
        run, other, place = (into / one.relative_to(self.root) for one in (self.run, self.other, self.checkpoint))
        return Signed(root=into, run=run, other=other, checkpoint=place)

    def sign(self, *words: str | Path, run: Path | None = None, key: str = "ours") -> Done:
        """Sign with one of the keys."""
        return self.cli("signoff", run or self.run, "--key", self.root / "keys" / f"{key}.key", *PERSON, *words)

    def verify(self, *words: str | Path, file: Path | None = None) -> Done:
        """Check the sign-off with our public key and the checkpoint in this folder."""
        trusted = ("--key", self.root / "keys" / "ours.pub", "--checkpoint", self.checkpoint)
        return self.cli("verify", file or self.file, *trusted, *words)

    def cli(self, *words: str | Path) -> Done:
        return Chain(root=self.root).cli(*words)

    @property
    def file(self) -> Path:
        """The signed statement of our run."""
        return sorted((self.run / "signoff").glob("*.intoto.json"))[0]

    @property
    def page(self) -> Path:
        return self.file.with_name(self.file.name.replace(".intoto.json", ".html"))


def edit(path: Path, old: str, new: str) -> None:
    """Change the first place where a text stands, and be sure that it was there."""
    text = path.read_text(encoding="utf-8")
    assert old in text, old
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def reseal(path: Path, keys: Sequence[str | int], value: Any) -> None:
    """Change one value in a stored result and give it the digest of its new body, as somebody would who knows the format."""
    envelope = json.loads(path.read_text(encoding="utf-8"))
    at = envelope["body"]
    for key in keys[:-1]:
        at = at[key]
    assert at[keys[-1]] != value
    at[keys[-1]] = value
    text = json.dumps(envelope["body"], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    envelope["sha256"] = sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(envelope, ensure_ascii=False), encoding="utf-8")
