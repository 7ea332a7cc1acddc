"""A baseline as text for a terminal, and what became of it as a part of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quantgate.records import Baseline, BaselineReport, BaselineRow, BaselineSet
from quantgate.render import quantities as q
from quantgate.render.elements import Column, Html, el, fold, table, words
from quantgate.render.terminal import plain

# ---------------------------------------------------------------------------------------------- text


def text(found: Baseline) -> str:
    """Who pinned what and why, the golden sets, and the log."""
    environment = found.environment
    libraries = ", ".join(f"{name} {version}" for name, version in environment.libraries.items())
    facts = [
        ("model", found.model_sha256 or q.UNKNOWN),
        ("policy", f"{found.policy}, {found.policy_sha256}"),
        ("evidence", found.evidence_sha256),
        ("made on", f"{environment.cpu}, {environment.platform}, Python {environment.python}"),
        ("with", f"quantgate {environment.quantgate_version}, {libraries or 'no libraries noted'}"),
    ]
    sets = [("golden set", "items", "mean score", "no answer", "sha256"), *(_set(one) for one in found.golden_sets)]
    lines = [
        plain(f"baseline of {found.model}: {found.reference} of run {found.run_id}, {found.created_at}"),
        plain(f"accepted by {found.accepted_by} on {found.accepted_at}: {found.reason}"),
        "",
        *_aligned(sets),
        "",
        *_aligned(facts),
        "",
        *(_log(found) if found.earlier else ["It is the first: no earlier one is in its log."]),
    ]
    return "\n".join(lines) + "\n"


def _set(one: BaselineSet) -> tuple[str, ...]:
    absent = sum(line.split().count("-") if one.form == "numbers" else line.count("-") for line in one.scores)
    return f"{one.name} {one.version}", q.count(one.items), q.fixed(one.mean, 4), q.count(absent), one.sha256[:12]


def _log(found: Baseline) -> Iterator[str]:
    yield "before it, oldest first:"
    rows = [("accepted", "by", "run", "mean score", "reason")]
    for one in found.earlier:
        means = ", ".join(f"{mark.golden_set} {q.fixed(mark.mean, 4)}" for mark in one.marks)
        rows.append((one.accepted_at[:10], one.accepted_by, one.run_id, means, one.reason))
    yield from _aligned(rows)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(plain(row[column])) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(plain(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


# ---------------------------------------------------------------------------------------------- the page


def folded(found: BaselineReport | None) -> Html:
    """Today's reference beside the pinned one; nothing for a run without a baseline."""
    if found is None:
        return Html("")
    state = "holds" if found.holds else "does not hold, so nothing was measured"
    who = (
        f"Run {found.run_id}, accepted by {found.accepted_by} on {(found.accepted_at or '')[:10]}: {(found.reason or '').rstrip('.')}. "
        f"Baselines before it in its log: {found.replaced}."
        if found.run_id
        else found.why_not
    )
    columns = [
        words("Golden set"), Column("Then"), Column("Today"), Column("Items"), Column("Worse now"), Column("Better now"), words("Outcome"),
    ]  # fmt: skip
    rows = [_cells(row) for row in found.rows]
    grid = table("Today's reference beside the pinned one: mean scores, and items that came out otherwise", columns, rows) if rows else ""
    other = ", ".join(found.different) or "nothing of code, libraries or machine"
    since = el("p", f"Different since: {other}.", class_="note") if found.run_id else ""
    why = el("p", found.why_not) if found.run_id and found.why_not else ""
    return fold(f"Baseline {found.file}: {state}", el("p", who), why, grid, since, opened=not found.holds)


def _cells(row: BaselineRow) -> list[str]:
    outcome = row.why_not or ("holds" if row.holds else "moved")
    then, now = q.fixed(row.mean_then, 4), q.fixed(row.mean_now, 4)
    return [row.golden_set, then, now, q.count(row.n), q.count(row.b), q.count(row.c), outcome]
