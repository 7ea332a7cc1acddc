"""``quantgate publish``: the words of the command, and what it prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

CODES = """exit codes:
  0    published; what was there already was not added again
  2    usage: an option, a run that is not there
  4    the store cannot be used, or the run was published in part; publish again"""


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the command."""
    example = "quantgate publish 5f1c\n  quantgate publish 5f1c --store http://mlflow.example.org:5000"
    what = "put a stored report into MLflow: after a store that could not be reached, a crash, or for another store"
    parser = make(commands, "publish", run, what, example)
    parser.epilog = f"example:\n  {example}\n\n{CODES}"
    parser.add_argument("run", metavar="RUN", help="a run folder, or a part of a run id that only one run has")
    parser.add_argument("--store", metavar="URI", help="another store than the run's: sqlite:///FILE.db, postgresql://..., http://...")
    parser.add_argument("--experiment", metavar="NAME", help="another experiment than the run's")
    parser.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)")


def run(arguments: argparse.Namespace) -> int:
    """Publish, and say where."""
    runs, stores, pipeline = (import_module(f"quantgate.{name}") for name in ("runs", "stores", "pipeline"))
    folder = runs.find_run(arguments.run, arguments.reports)
    info = runs.load_info(folder)
    if arguments.store is not None:
        info = replace(info, tracking_uri=arguments.store)
    sink = stores.mlflow_sink(info, folder, arguments.experiment)
    print(pipeline.publish_stored(folder, sink, lambda text: print(f"quantgate: {text}", file=sys.stderr)))
    return 0
