"""``quantgate signoff``: the words of the command, and what it prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from getpass import getpass
from importlib import import_module
from pathlib import Path
from typing import Any

from quantgate.records import Signatory

DECISIONS = ("approve", "approve-with-conditions", "reject")
CODES = """exit codes:
  0    signed, whatever the decision
  2    usage: an option, a key, a library
  4    refused: an approval that the evidence does not carry, an altered run or checkpoint"""


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the command."""
    example = 'quantgate signoff 5f1c --key release.key --name "Ada King" --role "release owner" --decision approve'
    parser = make(commands, "signoff", run, "sign a stored run's release, or its rejection, with a person's name under it", example)
    parser.epilog = f"example:\n  {example}\n\n{CODES}"
    parser.add_argument("run", metavar="RUN", help="a run folder, or a part of a run id that only one run has")
    parser.add_argument("--decision", choices=DECISIONS, required=True, help="what the person decided; a rejection is signed, too")
    parser.add_argument("--name", required=True, help="who signs")
    parser.add_argument("--role", required=True, help="in which role, for example 'release owner'")
    parser.add_argument("--comment", default="", help="what the person says; needed for a rejection")
    parser.add_argument("--conditions", default="", help="what must be kept, for an approval with conditions")
    parser.add_argument("--variant", metavar="NAME", help="another variant than the one the run chose")
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="where the variant's checkpoint lies, if it was moved")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--key", metavar="FILE", help="an ed25519 private key in PEM form")
    how.add_argument("--identity", metavar="ID@@ISSUER", help="sign through sigstore instead; needs the network")
    parser.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)")


def run(arguments: argparse.Namespace) -> int:
    """Sign, and say where the statement and the sheet are."""
    release, plugins, runs = (import_module(f"quantgate.{name}") for name in ("release", "plugins", "runs"))
    adapter = plugins.load("signer", "ed25519" if arguments.key else "sigstore")
    signer = adapter(ask=getpass if sys.stdin.isatty() else None)
    if arguments.key:
        _warn_of_open(Path(arguments.key))
    asked = release.Asked(
        run=runs.find_run(arguments.run, arguments.reports),
        signatory=Signatory(
            name=arguments.name,
            role=arguments.role,
            decision=arguments.decision.replace("-", "_"),
            signed_at=datetime.now(UTC).isoformat(timespec="seconds"),
            comment=arguments.comment,
            conditions=arguments.conditions,
        ),
        secret=arguments.key or arguments.identity,
        variant=arguments.variant,
        checkpoint=arguments.checkpoint,
    )
    file, page = release.sign_off(asked, signer)
    print(f"signed   {file}\nprint    {page}\ncheck    quantgate verify {file} --key PUBLIC_KEY")
    return 0


def _warn_of_open(key: Path) -> None:
    """Tell where others may read the private key."""
    if key.is_file() and key.stat().st_mode & 0o077:
        print(f"quantgate: others may read {key}; keep it to yourself: chmod 600 {key}", file=sys.stderr)
