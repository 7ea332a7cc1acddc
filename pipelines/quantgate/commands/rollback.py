"""``quantgate rollback``: the words of the command, and what it prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

CODES = """exit codes:
  0    the alias was moved back
  2    usage: an option, an alias, several models and none named
  4    refused, and nothing was moved: a version that is not there or did not pass, a checkpoint that is gone or altered,
       another promotion that came first"""


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the command."""
    example = 'quantgate rollback --to 3 --reason "wrong answers about dosage in production"'
    parser = make(commands, "rollback", run, "move the alias back to an earlier version, with the reason on record", example)
    parser.epilog = f"example:\n  {example}\n\n{CODES}"
    parser.add_argument("--to", required=True, metavar="VERSION", help="the version that is to be out again; it must have passed")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; kept with the version")
    parser.add_argument("--alias", metavar="NAME", help="another alias than the config's")
    parser.add_argument("--from", dest="expecting", metavar="VERSION", help="move only if this version is out now")
    parser.add_argument("--run", metavar="RUN", help="a run of the model, where the reports hold runs of several models")
    parser.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)")


def run(arguments: argparse.Namespace) -> int:
    """Move the alias back and say from where to where."""
    names, back, runs = (import_module(f"quantgate.{name}") for name in ("names", "rollback", "runs"))
    if arguments.alias is not None:
        names.check_alias(arguments.alias)
    folder = runs.find_run(arguments.run, arguments.reports) if arguments.run else runs.only_model(arguments.reports)
    asked = back.Rollback(
        run=folder, alias=arguments.alias, to=arguments.to, expecting=arguments.expecting, reason=arguments.reason
    )
    print(back.roll_back(asked, lambda text: print(f"quantgate: {text}", file=sys.stderr)))
    return 0
