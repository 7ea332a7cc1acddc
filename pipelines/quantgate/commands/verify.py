"""``quantgate verify``: the words of the command, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

CODES = """exit codes:
  0    verified: an approval by a trusted key, every byte as it was signed
  1    not as signed: each changed, missing or added file, each other difference and a foreign key is named
  2    usage: an option, a file that is not there, a library
  3    as signed, and no approval today: a rejection, or a waiver that has expired
  4    could not be decided: no trusted key was given, or an unexpected error"""
MARKS = {"fault": "CHANGED ", "reservation": "NO      ", "note": "note    "}


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the command."""
    example = "quantgate verify reports/RUN/signoff/FILE.intoto.json --key release.pub"
    parser = make(commands, "verify", run, "check a sign-off: the signature, and every byte that it was given for", example)
    parser.epilog = f"example:\n  {example}\n\n{CODES}"
    parser.add_argument("file", type=Path, metavar="FILE", help="the signed statement that signoff wrote")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--key", action="append", default=[], metavar="FILE", help="a trusted public key in PEM form; may be repeated")
    how.add_argument("--identity", action="append", default=[], metavar="ID@@ISSUER", help="a trusted identity of sigstore")
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="the checkpoint to check, if not where it was signed")
    parser.add_argument("--run", type=Path, metavar="DIR", help="the run folder, if FILE was moved out of it")


def run(arguments: argparse.Namespace) -> int:
    """Check, name everything that was found, and return what came of it."""
    release, plugins = (import_module(f"quantgate.{name}") for name in ("release", "plugins"))
    signer = plugins.load("signer", "sigstore" if arguments.identity else "ed25519")()
    sought = release.Sought(
        file=arguments.file,
        trusted=tuple(arguments.key or arguments.identity),
        run=arguments.run,
        checkpoint=arguments.checkpoint,
    )
    found = release.verify(sought, signer, datetime.now(UTC).isoformat(timespec="seconds"))
    _print(found)
    return int(found.exit_code)


def _print(found: Any) -> None:
    signed = found.signed
    if signed is not None:
        person = signed.signatory
        words = person.decision.replace("_", " ")
        print(f"{words} by {person.name}, {person.role}, {person.signed_at}: {signed.variant or 'no variant'} of run {signed.facts.run_id}")
    for one in found.findings:
        print(f"{MARKS[one.kind]} {one.text}")
    ends = {0: "verified", 1: "NOT AS SIGNED", 3: "as signed, and no approval today", 4: "not decided"}
    key = f", signed with key {found.key_id[:16]}" if found.key_id else ""
    print(f"{ends[found.exit_code]}{key}")
