"""``quantgate trend``: the words of the command, and what is printed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from quantgate.errors import UsageError

CODES = """exit codes:
  0    nothing is told to stand worse; a change can be told from the sixth night on
  1    a change for the worse that still stands
  2    usage: no runs there, several models and none named
  4    not measured: fewer than two nights could be read"""


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the command."""
    example = "quantgate trend --reports reports"
    parser = make(commands, "trend", run, "show how the stored nights moved, and tell what changed and since when", example)
    parser.epilog = f"example:\n  {example}\n\n{CODES}"
    parser.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)")
    parser.add_argument("--model", metavar="NAME", help="the model, where the reports hold several")
    parser.add_argument("--last", type=int, metavar="N", help="the newest N nights only")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="where the SVG figure goes (default: trend.svg in the reports)")
    parser.add_argument("--json", action="store_true", help="print the trend as JSON instead")


def run(arguments: argparse.Namespace) -> int:
    """Read the nights, print what moved, write the figure."""
    stage, rundir, render, stored = (import_module(f"quantgate.{name}") for name in ("stages.trend", "rundir", "render.trend", "nights"))
    if arguments.last is not None and arguments.last < 2:
        raise UsageError(f"--last must be 2 or more, found {arguments.last}")
    model, nights, notes = stored.of_model(arguments.reports, arguments.model, arguments.last)
    found = stage.trend(model, nights, notes)
    if arguments.json:
        print(rundir.encode(rundir.rounded(found), indent=2))
    else:
        print(render.text(found), end="")
    if svg := render.figure(found):
        file = arguments.figure or arguments.reports / "trend.svg"
        rundir.write_text(file, svg + "\n")
        print(f"figure  {file}", file=sys.stderr)
    return 1 if found.worse else 0
