"""``quantgate golden ...``: check a golden set, seal a folder, make the next version. Parses and prints; decides nothing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

SHOWN = 20
EXIT_CODES = """exit codes:
  0    done; check: no fault, and with --strict no warning either
  2    faults were found (with --strict: or warnings), or what was asked for is refused
  4    an unexpected error"""
CHECK = """A fault is what a run refuses, two items that contradict each other, or a folder that is not what its manifest seals.
Everything else is a warning: only a person can tell what is meant. Every finding has file, line, key, what was found and what to do."""
CHECK_EXAMPLES = """quantgate golden check golden_sets/faq/v1
  quantgate golden check new_items.jsonl --calibration calibration.jsonl --strict
  quantgate golden check golden_sets --json > findings.json"""
ADD = """Makes v<N+1> beside the newest version: the old items as they are, the new ones behind them, a manifest, and a line in
CHANGES.jsonl with who, when, why, the ids and both digests. The old version stays: what was measured with it keeps its meaning.
Refused where the old version is not what its manifest seals, and where an item contradicts another."""
RETIRE = """Makes v<N+1> beside the newest version, without the items named and with a line in CHANGES.jsonl. The old version stays.
To correct an item, retire it and add it again under an id of its own."""
Make = Callable[[Any, str, Callable[[argparse.Namespace], int], str, str], argparse.ArgumentParser]


def add(commands: Any, make: Make) -> None:
    """Enter the commands below ``golden``. ``make`` makes a parser with name, action, text and example."""
    text = "check a golden set, seal it, or make its next version"
    parser = make(commands, "golden", _check, text, "quantgate golden check golden_sets/faq/v1")
    actions = parser.add_subparsers(title="what to do", metavar="ACTION", required=True)
    for enter in (_enter_check, _enter_seal, _enter_add, _enter_retire, _enter_log):
        made: argparse.ArgumentParser = enter(actions, make)
        made.epilog = f"{(made.epilog or '').split('exit codes:')[0]}{EXIT_CODES}"


def _enter_check(actions: Any, make: Make) -> argparse.ArgumentParser:
    text = "look for duplicates, leaked and contradicting answers, and some thirty other faults"
    parser = make(actions, "check", _check, text, CHECK_EXAMPLES)
    parser.description = f"{parser.description}\n\n{CHECK}"
    parser.add_argument("path", type=Path, metavar="PATH", help="a JSON Lines file, a version's folder, or a folder of golden sets")
    what = "texts that a quantizer was calibrated on, JSON Lines or plain text with blank lines between; may be given more than once"
    parser.add_argument("--calibration", type=Path, action="append", default=[], metavar="FILE", help=what)
    parser.add_argument("--json", action="store_true", help="print every finding as JSON instead")
    parser.add_argument("--strict", action="store_true", help="warnings count as faults")
    return parser


def _enter_seal(actions: Any, make: Make) -> argparse.ArgumentParser:
    text = "write the manifest of a new version, with the digest of its items"
    parser = make(actions, "seal", _seal, text, "quantgate golden seal golden_sets/faq/v1 --licence CC-BY-4.0")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="<name>/v<N> with an items.jsonl in it")
    parser.add_argument("--licence", required=True, metavar="NAME", help="under which the items may be used")
    return parser


def _enter_add(actions: Any, make: Make) -> argparse.ArgumentParser:
    example = 'quantgate golden add golden_sets/faq --from new_items.jsonl --reason "questions about the new tariff"'
    parser = make(actions, "add", _add, "make the next version of a golden set with more items", example)
    parser.description = f"{parser.description}\n\n{ADD}"
    _arguments_of_change(parser)
    parser.add_argument("--from", dest="new", type=Path, required=True, metavar="FILE", help="the new items, JSON Lines")
    return parser


def _enter_retire(actions: Any, make: Make) -> argparse.ArgumentParser:
    example = 'quantgate golden retire golden_sets/faq faq-17 faq-31 --reason "the tariff they ask about is gone"'
    parser = make(actions, "retire", _retire, "make the next version of a golden set without some items", example)
    parser.description = f"{parser.description}\n\n{RETIRE}"
    _arguments_of_change(parser)
    parser.add_argument("ids", nargs="+", metavar="ID", help="ids of the items to retire")
    return parser


def _enter_log(actions: Any, make: Make) -> argparse.ArgumentParser:
    parser = make(actions, "log", _log, "print who changed a golden set, when and why", "quantgate golden log golden_sets/faq")
    parser.add_argument("set", type=Path, metavar="SET", help="a golden set's folder, or that of one version")
    return parser


def _arguments_of_change(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set", type=Path, metavar="SET", help="a golden set's folder, or that of its newest version")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; it stays in the log")
    parser.add_argument("--by", metavar="NAME", help="who (default: the user of this machine)")


# ---------------------------------------------------------------------------------------------- commands


def _quantgate(module: str) -> Any:
    return import_module(f"quantgate.{module}")


def _check(arguments: argparse.Namespace) -> int:
    examine = _quantgate("hygiene.examine")
    calibration = [(path, examine.texts_of(path)) for path in arguments.calibration]
    files = examine.files_of(arguments.path)
    checked = [(file, count, (*found, *_unfit(file))) for file in files for count, found in (examine.examine(file, calibration),)]
    findings = [one for _, _, found in checked for one in found]
    faults = sum(one.severity == "fault" for one in findings)
    if arguments.json:
        rows = [{"file": str(file), "items": count} for file, count, _ in checked]
        print(json.dumps({"schema_version": 1, "files": rows, "findings": [asdict(one) for one in findings]}, indent=2))
    else:
        _print_findings(findings)
        items = sum(count for _, count, _ in checked)
        print(f"{items:,} items read, {_count(faults, 'fault')}, {_count(len(findings) - faults, 'warning')}")
    return 2 if faults or (arguments.strict and findings) else 0


def _unfit(file: Path) -> list[Any]:
    """What only the metrics of a file's items can tell; a metric whose library is not installed is told as a warning."""
    findings, replace = _quantgate("hygiene.findings"), import_module("dataclasses").replace
    faults, missing = _quantgate("admission").unfit(_quantgate("golden").examine(file)[0])
    made = [findings.fault("unfit", line, "", what) for line, what in faults]
    made += [findings.warning("not asked", 0, "", what, "install it: what the metric refuses is not told here") for what in missing]
    return [replace(one, file=str(file)) for one in made]


def _print_findings(findings: Sequence[Any]) -> None:
    """All faults, and of each kind of warning the first ones."""
    shown: dict[str, int] = {}
    for one in findings:
        shown[one.kind] = shown.get(one.kind, 0) + 1
        if one.severity == "fault" or shown[one.kind] <= SHOWN:
            print(one.sentence())
    for kind, count in shown.items():
        if count > SHOWN and any(one.kind == kind and one.severity == "warning" for one in findings):
            print(f"{kind}: {count - SHOWN:,} more; --json prints them all")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _seal(arguments: argparse.Namespace) -> int:
    golden = _quantgate("golden")
    items = arguments.folder / golden.ITEMS_FILE
    if items.is_file():
        _refuse_unfit(items)
    golden.write_manifest(arguments.folder, arguments.licence)
    sealed = golden.load(arguments.folder)
    print(f"{sealed.label}: {_count(len(sealed.items), 'item')}, sha256 {sealed.sha256}")
    return 0


def _refuse_unfit(file: Path, beside: Path | None = None) -> None:
    """Refuse what only the metrics of a file's items can tell, and scales that do not go with the items ``beside`` them."""
    examine, unfit = _quantgate("golden").examine, _quantgate("admission").unfit
    items = examine(file)[0]
    found, missing = unfit(items)
    if beside is not None and not found:
        found = [one for one in unfit([*examine(beside)[0], *items])[0] if not one[0]]
    if found:
        raise _quantgate("golden_items").together(found[: _quantgate("golden_items").MAX_FAULTS], str(file))
    for what in missing:
        print(f"note: not asked, {what}")


def _add(arguments: argparse.Namespace) -> int:
    versions, golden = _quantgate("golden_versions"), _quantgate("golden")
    newest = versions.newest(arguments.set)
    new = versions.items_file(arguments.new)
    if new.is_file():
        _refuse_unfit(new, newest / golden.ITEMS_FILE)
    return _made(*versions.add(newest, arguments.new, _author(arguments)))


def _retire(arguments: argparse.Namespace) -> int:
    versions = _quantgate("golden_versions")
    return _made(*versions.retire(versions.newest(arguments.set), arguments.ids, _author(arguments)))


def _author(arguments: argparse.Namespace) -> Any:
    clock, users = import_module("datetime"), import_module("getpass")
    when = clock.datetime.now(clock.UTC).isoformat(timespec="seconds")
    return _quantgate("golden_versions").Author(who=arguments.by or users.getuser(), when=when, reason=arguments.reason)


def _made(folder: Path, change: Any) -> int:
    verb = "added" if change.action == "add" else "retired"
    print(f"{folder}: {_count(len(change.ids), 'item')} {verb}, sha256 {change.sha256}")
    print(f"logged in {folder / 'CHANGES.jsonl'}; name {folder} in the config, and look over its CARD.md")
    return 0


def _log(arguments: argparse.Namespace) -> int:
    versions = _quantgate("golden_versions")
    folder = versions.newest(arguments.set)
    loaded = _quantgate("golden").load(folder)
    versions.check_log(folder, loaded.sha256)
    for one in versions.changes(folder):
        ids = ", ".join(one.ids[:5]) + (f" and {len(one.ids) - 5} more" if len(one.ids) > 5 else "")
        print(f"{one.version}  {one.when}  {one.who}  {one.action} {ids}: {one.reason}")
    print(f"{loaded.label}  {_count(len(loaded.items), 'item')}  sha256 {loaded.sha256}")
    return 0
