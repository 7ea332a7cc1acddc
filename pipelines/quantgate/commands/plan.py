"""``quantgate plan``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

TEXT = "say what a config would do: what runs, what fits, how long it takes, what can be resolved; loads no weights"


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = make(commands, "plan", _run, TEXT, "quantgate plan configs/demo.yaml")
    parser.add_argument("config", type=Path, metavar="CONFIG", help="the run's YAML file")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead, sizes in bytes and times in seconds")
    parser.add_argument(
        "--allow-underpowered", action="store_true", help="do not refuse a golden set that is too small for what the policy asks"
    )


def _run(arguments: argparse.Namespace) -> int:
    planning = import_module("quantgate.planning")
    said, code = planning.answer(arguments.config, as_json=arguments.json, allow_underpowered=arguments.allow_underpowered)
    print(said)
    return int(code)
