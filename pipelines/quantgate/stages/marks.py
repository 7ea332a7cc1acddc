"""A score sheet as a baseline file keeps it: a mark or a number an item, in lines that a person can read and a review can show. Pure."""

from __future__ import annotations

from hashlib import sha256
from math import isfinite

from quantgate.records import BaselineSet, GoldenReference, ScoreSheet
from quantgate.render.quantities import count

MARKS_A_LINE, NUMBERS_A_LINE = 80, 10


def packed(golden: GoldenReference, sheet: ScoreSheet) -> BaselineSet:
    """What a baseline keeps of one sheet. Raises ``ValueError`` for a score that could not be compared."""
    found = {item.item_id: item.value for item in sheet.items}
    values = [found.get(one) for one in golden.item_ids]
    if any(value is not None and not isfinite(value) for value in values):
        raise ValueError(f"a score of {golden.name} is no finite number")
    if sheet.scale is None and any(value is not None and not 0 <= value <= 1 for value in values):
        raise ValueError(f"nothing states the scale of the scores of {golden.name}, and some lie beyond 0 to 1")
    marks = all(value in (None, 0, 1) for value in values)
    cells = [_mark(value) if marks else number(value) for value in values]
    width, between = (MARKS_A_LINE, "") if marks else (NUMBERS_A_LINE, " ")
    return BaselineSet(
        name=golden.name,
        version=golden.version,
        sha256=golden.sha256,
        items=len(golden.item_ids),
        items_sha256=ids(golden),
        mean=sheet.mean,
        scale=sheet.scale,
        better=sheet.better,
        batch_plan=sheet.batch_plan,
        conditions=sheet.conditions,
        prompt_sha256=digest(sheet.first_prompt),
        form="marks" if marks else "numbers",
        scores=tuple(between.join(cells[start : start + width]) for start in range(0, len(cells), width)),
    )


def scores(kept: BaselineSet) -> list[float | None]:
    """Each item's score, None without an answer. Raises ``ValueError`` where the lines are not what a baseline keeps."""
    cells = [cell for line in kept.scores for cell in (line if kept.form == "marks" else line.split())]
    if kept.form == "marks" and not {*cells} <= {"0", "1", "-"}:
        raise ValueError(f"the scores of {kept.name} hold other marks than 1, 0 and -")
    if len(cells) != kept.items:
        raise ValueError(f"it keeps {count(len(cells))} scores of {kept.name}, which has {count(kept.items)} items")
    found = [None if cell == "-" else float(cell) for cell in cells]
    if any(value is not None and not isfinite(value) for value in found):
        raise ValueError(f"a score of {kept.name} is no finite number")
    return found


def _mark(value: float | None) -> str:
    return "-" if value is None else str(int(value))


def number(value: float | None) -> str:
    """A score with the digits that a baseline keeps."""
    return "-" if value is None else f"{value:.9g}"


def ids(golden: GoldenReference) -> str:
    """Digest of the item ids in their order."""
    return digest("\0".join(golden.item_ids))


def digest(text: str) -> str:
    """SHA-256 of a text."""
    return sha256(text.encode(errors="replace")).hexdigest()
