"""``quantgate diagnose``: the words of the command, where symptoms come from, and what is printed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from quantgate.errors import UsageError
from quantgate.symptom_values import EXPECTED, read
from quantgate.symptoms import FIELDS, Symptoms, overlaid, refuse

EXAMPLES = """examples:
  quantgate diagnose reports/RUN                             a stored run: its reference, at its own batch ceiling
  quantgate diagnose RUN --compute-utilisation 40%           with what was read beside the run
  quantgate diagnose --batch 8 --failed-batch 16 --compute-utilisation 40% --memory-total 24GB --memory-used 23.5GB
  curl -s localhost:8000/metrics > before.txt; sleep 60; curl -s localhost:8000/metrics > after.txt
  quantgate diagnose --metrics before.txt --metrics after.txt   a vLLM server, under load
  quantgate diagnose --symptoms symptoms.yaml --json         a file with the same names: compute_utilisation: 40%

Of sources that name the same symptom, the command line goes before --symptoms, and that before --metrics or RUN.

exit codes:
  0    done, also where it abstains and says what to measure
  2    usage: a symptom that nothing can have, a file, a run that is not there
  4    could not: a run without an end, or whose evidence was altered"""
HINT = "give a RUN, --metrics FILE, --symptoms FILE or symptoms such as --batch 8; quantgate diagnose --help lists them"


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the command."""
    text = "tell which limit binds (memory, utilisation, the decode step, compute), which lever fits and what it costs"
    parser = make(commands, "diagnose", run, text, "quantgate diagnose RUN")
    parser.epilog = EXAMPLES
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run folder, or a part of a run id that only one run has")
    parser.add_argument("--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)")
    parser.add_argument("--symptoms", type=Path, metavar="FILE", help="symptoms in a YAML or JSON file")
    metrics = "text of vLLM's /metrics; twice for an earlier and a later scrape, which tells what happened in between"
    parser.add_argument("--metrics", type=Path, action="append", default=[], metavar="FILE", help=metrics)
    parser.add_argument("--model", metavar="NAME", help="the model meant, where --metrics holds several")
    parser.add_argument("--json", action="store_true", help="print the record instead")
    group = parser.add_argument_group("symptoms, all optional; what is not known is said to be missing")
    for one in FIELDS:
        allowed = f"{one.what}; {EXPECTED[one.kind]}".replace("%", "%%")
        group.add_argument(f"--{one.key.replace('_', '-')}", dest=f"seen_{one.attribute}", metavar=one.kind.upper(), help=allowed)


def run(arguments: argparse.Namespace) -> int:
    """Gather the symptoms, say which limit binds."""
    rundir, render = (import_module(f"quantgate.{name}") for name in ("rundir", "render.diagnosis"))
    found = _diagnosed(arguments)
    print(rundir.encode(rundir.rounded(found), indent=2) if arguments.json else render.text(found), end="\n" if arguments.json else "")
    return 0


def _diagnosed(arguments: argparse.Namespace) -> Any:
    added = _stated(arguments)
    if arguments.symptoms is not None:
        added = overlaid(import_module("quantgate.config").load_symptoms(arguments.symptoms), added)
    if arguments.run is not None:
        if arguments.metrics:
            raise UsageError("diagnose takes a run or a server's metrics: RUN and --metrics do not go together")
        return _of_run(arguments, added)
    if arguments.model is not None and not arguments.metrics:
        raise UsageError("--model names a model of --metrics, which was not given")
    measured, notes = _of_server(arguments) if arguments.metrics else (Symptoms(), ())
    seen = overlaid(measured, added)
    if seen == Symptoms():
        raise UsageError(f"there is nothing to diagnose: {HINT}")
    return import_module("quantgate.diagnosis").diagnose(seen, (), notes)


def _stated(arguments: argparse.Namespace) -> Symptoms:
    """The symptoms of the command line. Raises ``UsageError`` by the option's name."""
    found: dict[str, Any] = {}
    for one in FIELDS:
        if (written := getattr(arguments, f"seen_{one.attribute}")) is not None:
            try:
                found[one.attribute] = read(one, written)
            except ValueError as error:
                raise UsageError(f"--{one.key.replace('_', '-')}: {str(error).partition(': ')[2]}") from None
    seen = Symptoms(**found)
    refuse(seen)
    return seen


def _of_run(arguments: argparse.Namespace, added: Symptoms) -> Any:
    """A stored run, judged again for what quality cost, with what was added."""
    runs, pipeline, stage = (import_module(f"quantgate.{name}") for name in ("runs", "pipeline", "stages.diagnose"))
    folder = runs.find_run(arguments.run, arguments.reports)
    judged, evidence = pipeline.judged_and_evidence(folder)
    return stage.examine(evidence, judged.verdicts, added)


def _of_server(arguments: argparse.Namespace) -> tuple[Symptoms, tuple[str, ...]]:
    """What a server's metrics say."""
    metrics = import_module("quantgate.enginemetrics")
    texts = []
    for path in arguments.metrics:
        try:
            texts.append((path.read_bytes().decode(), str(path)))
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not UTF-8 at byte {error.start + 1}; save the server's answer as it is") from error
    seen, notes = metrics.symptoms_of([metrics.scrape(text, file, arguments.model) for text, file in texts])
    return seen, notes
