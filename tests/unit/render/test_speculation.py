"""Speculation on the page: what each drafter brings and takes, where outputs part, and why nothing was measured."""

from __future__ import annotations

from dataclasses import replace

import samples
from quantgate.records import Parting, Report, SpeculationFigures, SpeculationRow
from quantgate.render import html, markdown, speculation as shown


def report(*rows: SpeculationRow) -> Report:
    return replace(samples.sample_report(), speculation=rows)


def figures(batch_size: int, ratio: float, **fields: object) -> SpeculationFigures:
    known = SpeculationFigures(
        draft_tokens=4, batch_size=batch_size, steps=25, drafted=100, accepted=60, emitted=85, acceptance=0.6,
        acceptance_at=(1.0, 0.8, 0.4, 0.2), mean_length=3.4, plain_tokens_per_s=13.0, tokens_per_s=13.0 * ratio, speed_ratio=ratio,
        speed_ratio_low=ratio, speed_ratio_high=ratio, partings=0, partings_beyond_rounding=0,
    )  # fmt: skip
    return replace(known, **fields)  # type: ignore[arg-type]


def row(*passes: SpeculationFigures, **fields: object) -> SpeculationRow:
    known = SpeculationRow(
        drafter="self:nf4", dtype="float32", prompts=50, why_not=None, figures=passes, loss_from_batch=8, draft_weight_bytes=170_000_000,
        draft_kv_bytes_per_row=1_000_000, ceiling=20, ceiling_beside=14, sentence="It is faster.",
    )  # fmt: skip
    return replace(known, **fields)  # type: ignore[arg-type]


def test_a_report_without_speculation_says_nothing_of_it() -> None:
    """Neither page has a heading for what was not asked for."""
    assert shown.part(report()) == ""
    assert "Speculative decoding" not in html.page(report()) + markdown.page(report())


def test_figures_and_prices_stand_on_the_page() -> None:
    """Acceptance by place, the ratio, the drafter's weights, requests beside it; plain decoding is the line at one."""
    found = html.page(report(row(figures(1, 1.5), figures(8, 0.7))))
    for words in ("60.0", "3.40", "1.50x", "0.70x", "100 80 40 20", "170 MB", "It is faster.", "self:nf4 decodes fastest"):
        assert words in found, words
    assert "| self:nf4 | 8 | 4 | 60.0 | 3.40 |" in markdown.page(report(row(figures(1, 1.5), figures(8, 0.7))))


def test_where_an_output_parts_is_told() -> None:
    """Prompt, place from one, lead and noise."""
    parting = Parting(prompt="facts-001", at=6, margin=0.01, noise=0.02)
    found = html.page(report(row(figures(1, 1.5, partings=1, first_parting=parting))))
    assert "facts-001 parts at token 7 of its output, where the likeliest token leads by 0.01" in found


def test_what_was_not_measured_says_why() -> None:
    """A drafter without figures has its sentence and no figure; no ratio is above one where all are losses."""
    missing = row(why_not="it broke", draft_weight_bytes=None, ceiling_beside=None, sentence="It was not measured: x.")
    found = html.page(report(missing))
    assert "was not measured: x." in found
    assert shown.ratio_figure(report(missing)) == ""
    assert shown.ratio_finding(report(row(figures(1, 0.9)))).startswith("No drafter decodes faster")
