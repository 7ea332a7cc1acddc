"""``quantgate baseline accept`` and ``show``: the words of the commands, and what they print."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from quantgate.errors import UsageError

CODES = """exit codes:
  0    written, or shown
  2    usage: an option, no such run or file
  4    refused: a run that did not end, a reference that is quantized or was not measured, a control that is missing or not as it
       must be; or a baseline file that is damaged or was altered"""


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the two actions."""
    example = 'quantgate baseline accept 5f1c --reason "torch 2.14 in production" --into configs/baselines/nightly.json'
    parser = make(commands, "baseline", show, "pin a stored run's reference, or show what is pinned", example)
    actions = parser.add_subparsers(title="what to do", metavar="ACTION", required=True)
    taken = make(actions, "accept", accept, "pin the reference of a stored run, for later runs to be held against", example)
    taken.add_argument("run", metavar="RUN", help="a run folder, or a part of a run id that only one run has")
    taken.add_argument("--reason", required=True, metavar="TEXT", help="why this reference is the right one; kept in the file")
    taken.add_argument("--into", type=Path, metavar="FILE", help="the baseline's file (default: the one that the run's config names)")
    taken.add_argument("--by", metavar="NAME", help="who accepts it (default: git's user.name)")
    taken.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)")
    shown = make(actions, "show", show, "show what a baseline file pins, and the log of those before it", "quantgate baseline show FILE")
    shown.add_argument("file", type=Path, metavar="FILE", help="the baseline's file")
    shown.add_argument("--json", action="store_true", help="print it as JSON instead")
    for one in (parser, taken, shown):
        one.epilog = f"{(one.epilog or '').partition('exit codes:')[0]}{CODES}"


def accept(arguments: argparse.Namespace) -> int:
    """Pin the reference, and say what it answers and how far it is from the one before."""
    baselines, provenance, runs = (import_module(f"quantgate.{name}") for name in ("baselines", "provenance", "runs"))
    by = arguments.by or provenance.author()
    if by is None:
        raise UsageError("nobody is named: git has no user.name here; say who accepts the baseline with --by NAME")
    asked = baselines.Asked(
        run=runs.find_run(arguments.run, arguments.reports),
        into=arguments.into,
        by=by,
        reason=arguments.reason,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    file, made, before = baselines.accept(asked)
    for one in made.golden_sets:
        was = next((each for each in before.golden_sets if each.name == one.name), None) if before is not None else None
        earlier = "" if was is None or was.mean is None else f", {was.mean:.4f} in the one before"
        print(f"{one.name} {one.version}: mean score {one.mean:.4f} over {one.items:,} items{earlier}")
    since = "" if before is None else f", instead of run {before.run_id}"
    print(f"{file} pins the reference of run {made.run_id}{since}; commit it, and later runs are held against it")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Print what is pinned."""
    baselines, render, rundir = (import_module(f"quantgate.{name}") for name in ("baselines", "render.baseline", "rundir"))
    found = baselines.load(arguments.file)
    print(rundir.encode(found, indent=2) if arguments.json else render.text(found), end="\n" if arguments.json else "")
    return 0
