"""The stored runs of one model as nights in a row: found, put in order, read; what is left out is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from quantgate import runs
from quantgate.errors import QuantgateError, RunFolderError, UsageError
from quantgate.records import UNDATED, Night, RunInfo

MOST_ON_A_PAGE = 30
"""Nights that a report looks back on."""


def of_model(reports: Path, model: str | None, last: int | None) -> tuple[str, list[Night], list[str]]:
    """The complete runs of one model, oldest first, and a note for each that was left out.

    Raises ``UsageError`` where no run, or runs of several models and none named, lie there, ``QuantgateError`` for fewer than two nights.
    """
    cards, notes = _cards(reports)
    name = _model(reports, [info for _, info in cards], model)
    ours = sorted(((folder, info) for folder, info in cards if info.model.name == name), key=lambda one: (one[1].created_at, one[1].run_id))
    dated = [one for one in ours if one[1].state == "complete" and one[1].created_at != UNDATED]
    if len(dated) < len(ours):
        notes.append(f"left out: {len(ours) - len(dated)} runs that are undated or did not come to their end")
    nights = _read(dated[-last:] if last else dated, notes)
    if len(nights) < 2:
        said = "".join(f"; {note}" for note in notes)
        raise QuantgateError(f"a trend needs two nights of {name} or more, found {len(nights)} in {reports}{said}")
    return name, nights, notes


def before(reports: Path, tonight: RunInfo) -> list[Night]:
    """The nights of the same model and config before a run, oldest first; altered ones and those that did not end are not among them."""
    if tonight.created_at == UNDATED:
        return []
    cards, _ = _cards(reports)
    ours = [(folder, info) for folder, info in cards if _same_night(info, tonight)]
    return _read(sorted(ours, key=lambda one: (one[1].created_at, one[1].run_id))[-(MOST_ON_A_PAGE - 1) :], [])


def _same_night(info: RunInfo, tonight: RunInfo) -> bool:
    """Where the checkout lies is no difference: the config names the model from there."""
    alike = (replace(info.model, path=None), info.config_sha256) == (replace(tonight.model, path=None), tonight.config_sha256)
    whole = info.state == "complete" and info.created_at != UNDATED
    return alike and whole and (info.created_at, info.run_id) < (tonight.created_at, tonight.run_id)


def _cards(reports: Path) -> tuple[list[tuple[Path, RunInfo]], list[str]]:
    """What each run folder says of itself, and a note for one that cannot be read."""
    cards: list[tuple[Path, RunInfo]] = []
    notes: list[str] = []
    for path in sorted(reports.glob("*/run.json")):
        try:
            cards.append((path.parent, runs.load_info(path.parent)))
        except RunFolderError as error:
            notes.append(f"left out: {error}")
    return cards, notes


def _read(cards: list[tuple[Path, RunInfo]], notes: list[str]) -> list[Night]:
    nights: list[Night] = []
    for folder, info in cards:
        try:
            nights.append(Night(run_id=info.run_id, created_at=info.created_at, evidence=runs.load_evidence(folder)))
        except RunFolderError as error:
            notes.append(f"left out: {error}")
    return nights


def _model(reports: Path, cards: list[RunInfo], asked: str | None) -> str:
    names = sorted({one.model.name for one in cards})
    if not names:
        raise UsageError(f"there is no run in {reports}; name the folder with --reports")
    if asked is not None and asked not in names:
        raise UsageError(f"no run in {reports} is of model '{asked}'; there are {', '.join(names)}")
    if asked is None and len(names) > 1:
        raise UsageError(f"the runs in {reports} are of {len(names)} models: {', '.join(names)}; name one with --model")
    return asked or names[0]
