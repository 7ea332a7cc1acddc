"""``quantgate trend``: the words of the command, which nights are read, and what is printed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from quantgate.errors import QuantgateError, RunFolderError, UsageError
from quantgate.records import UNDATED, Night, RunInfo

CODES = """exit codes:
  0    nothing stands worse than before
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
    stage, rundir, render = (import_module(f"quantgate.{name}") for name in ("stages.trend", "rundir", "render.trend"))
    if arguments.last is not None and arguments.last < 2:
        raise UsageError(f"--last must be 2 or more, found {arguments.last}")
    model, nights, notes = _nights(arguments.reports, arguments.model, arguments.last)
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


def _nights(reports: Path, model: str | None, last: int | None) -> tuple[str, list[Night], list[str]]:
    """The complete runs of one model, oldest first, and a note for each that was left out."""
    runs = import_module("quantgate.runs")
    cards: list[tuple[Path, RunInfo]] = []
    notes: list[str] = []
    for path in sorted(reports.glob("*/run.json")):
        try:
            cards.append((path.parent, runs.load_info(path.parent)))
        except RunFolderError as error:
            notes.append(f"left out: {error}")
    name = _model(reports, [info for _, info in cards], model)
    ours = sorted(((folder, info) for folder, info in cards if info.model.name == name), key=lambda one: (one[1].created_at, one[1].run_id))
    dated = [one for one in ours if one[1].state == "complete" and one[1].created_at != UNDATED]
    if len(dated) < len(ours):
        notes.append(f"left out: {len(ours) - len(dated)} runs that are undated or did not come to their end")
    nights: list[Night] = []
    for folder, info in dated[-last:] if last else dated:
        try:
            nights.append(Night(run_id=info.run_id, created_at=info.created_at, evidence=runs.load_evidence(folder)))
        except RunFolderError as error:
            notes.append(f"left out: {error}")
    if len(nights) < 2:
        said = "".join(f"; {note}" for note in notes)
        raise QuantgateError(f"a trend needs two nights of {name} or more, found {len(nights)} in {reports}{said}")
    return name, nights, notes


def _model(reports: Path, cards: list[RunInfo], asked: str | None) -> str:
    names = sorted({one.model.name for one in cards})
    if not names:
        raise UsageError(f"there is no run in {reports}; name the folder with --reports")
    if asked is not None and asked not in names:
        raise UsageError(f"no run in {reports} is of model '{asked}'; there are {', '.join(names)}")
    if asked is None and len(names) > 1:
        raise UsageError(f"the runs in {reports} are of {len(names)} models: {', '.join(names)}; name one with --model")
    return asked or names[0]
