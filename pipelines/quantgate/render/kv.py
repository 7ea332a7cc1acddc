"""Caches of keys and values that are kept in fewer bits: what a token takes, measured beside arithmetic and beside a cache in float."""

from __future__ import annotations

from quantgate.records import MeasurementRow, Report
from quantgate.render import quantities as q
from quantgate.render.elements import Column, Html, table, words


def part(report: Report) -> Html:
    """A row for each such variant; nothing where no variant has such a cache."""
    rows = [(row, row.kv_bytes, row.kv_cache) for row in report.measurements if row.kv_bytes is not None and row.kv_cache is not None]
    if not rows:
        return Html("")
    columns = [
        words("Variant"), Column("Bits"), words("Backend"), Column("A token, bytes"), Column("Arithmetic"), Column("Measured / arithmetic"),
        Column("In float"), Column("Freed, %"),
    ]  # fmt: skip
    cells = [
        [
            row.variant,
            str(cache.bits),
            cache.backend,
            q.fixed(found.measured_bytes / found.tokens, 1),
            q.fixed(found.arithmetic_bytes / found.tokens, 1),
            q.fixed(found.ratio, 3),
            q.fixed(found.float_bytes / found.tokens, 1),
            q.percent_number(found.freed_share, digits=1),
        ]
        for row, found, cache in rows
    ]
    tokens = ", ".join(sorted({q.count(found.tokens) for _, found, _ in rows}))
    caption = f"Caches in fewer bits, over one request of {tokens} tokens; scales, offsets and the last token in float are counted"
    return table(caption, columns, cells)


def sentence(row: MeasurementRow) -> str:
    """The same of one variant in words; empty where its cache is in float."""
    found, cache = row.kv_bytes, row.kv_cache
    if found is None or cache is None:
        return ""
    a_token = q.fixed(found.measured_bytes / found.tokens, 1)
    return (
        f"{cache.bits} bits ({cache.backend}): {a_token} bytes a token over {q.count(found.tokens)} "
        f"tokens, {q.fixed(found.ratio, 3)} of what arithmetic says, {q.percent(found.freed_share, digits=1)} less than in float; "
        f"tokens are kept in float until there are {cache.residual_tokens} of them"
    )
