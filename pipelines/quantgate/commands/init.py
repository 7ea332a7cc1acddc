"""``quantgate init``: the words of the command, and what it prints."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

CODES = """exit codes:
  0    written
  2    no such model, a name that is not allowed, or a file that is there already: nothing was written"""


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the command."""
    example = "quantgate init models/my-model --into gate"
    parser = make(commands, "init", run, "write a commented config, policy and golden-set skeleton for your own model", example)
    parser.epilog = f"example:\n  {example}\n\n{CODES}"
    parser.add_argument("model", metavar="MODEL", help="a model folder, a GGUF file, or a hub id as owner/name@COMMIT")
    parser.add_argument("--into", type=Path, default=Path(), metavar="DIR", help="folder for the files (default: here)")
    parser.add_argument("--revision", metavar="COMMIT", help="commit of a hub model, 40 hexadecimal digits")
    parser.add_argument("--golden-set", default="faq", metavar="NAME", help="name of the golden set (default: faq)")


def run(arguments: argparse.Namespace) -> int:
    """Write the files, read them back as a run would, and say what to do next."""
    skeleton, config, errors = (import_module(f"quantgate.{name}") for name in ("skeleton", "config", "errors"))
    if skeleton.allowed_name(arguments.golden_set) != arguments.golden_set:
        allowed = "letters, digits, '.', '_' and '-', a letter or digit first"
        raise errors.UsageError(f"a golden set cannot be named '{arguments.golden_set}'; allowed are {allowed}")
    model = skeleton.recognise(arguments.model, arguments.revision, arguments.into)
    written = skeleton.write(skeleton.files(model, arguments.golden_set), arguments.into)
    asked = config.load_run(written[0])
    for path in written:
        print(f"written  {path}")
    print(_next(arguments.into, asked, arguments.golden_set))
    return 0


def _next(into: Path, asked: Any, golden_set: str) -> str:
    folder = into / "golden_sets" / golden_set / "v1"
    seal = f"from pathlib import Path; from quantgate import golden; golden.write_manifest(Path({str(folder)!r}), licence='...')"
    run_file, policy = (shlex.quote(str(into / name)) for name in ("run.yaml", "policy.yaml"))
    return "\n".join(
        (
            "\nnext:",
            f"1. Put your own questions into {folder / 'items.jsonl'}; the two in it only show the form.",
            f"   {asked.policy.minimum_items} or more: with fewer the run is refused. What an item may hold: docs/golden-sets.md",
            f"2. Seal the set: python -c {shlex.quote(seal)}",
            f"3. Set the margin and its reason in {into / 'policy.yaml'}, before anything is measured. See what it can resolve:",
            f"   quantgate policy explain {policy} --golden {shlex.quote(str(folder))}",
            f"4. quantgate run {run_file}",
        )
    )
