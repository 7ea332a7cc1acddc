"""What an artifact was shown to be, in sentences that every page uses."""

from __future__ import annotations

from quantgate.records import MeasurementRow, ModuleLeft, Proof, Report
from quantgate.render import quantities as q

NAMED = 4
"""Modules named for one reason before the rest is counted."""


def sentences(row: MeasurementRow) -> tuple[str, ...]:
    """What was checked of one variant's artifact; nothing where no proof was made."""
    if (shown := row.proof) is None:
        return ()
    share = q.percent(shown.share_quantized)
    return (
        f"{shown.modules_replaced} modules quantized by {shown.library}: {share} of the parameters, {_bits(shown)}",
        f"in the files: {shown.tensors_checked} quantized tensors and scales, finite and not all zero; {_reload(shown)}",
        f"head and embedding: {_tied(shown.tied_before)} before, {_tied(shown.tied_after)} after",
        *_calibrated(shown),
        *(f"left in float, {line}" for line in _left(shown.modules_left)),
        *shown.notes,
    )


def report_lines(report: Report) -> tuple[str, ...]:
    """The sentences of all variants, each with its variant's name."""
    return tuple(f"{row.variant}: {'; '.join(found)}" for row in report.measurements if (found := sentences(row)))


def _bits(shown: Proof) -> str:
    bits = shown.stored_bits_per_weight
    return "bits a weight not known" if bits is None else f"{bits:.2f} bits a weight as stored"


def _reload(shown: Proof) -> str:
    if shown.reload_difference is None:
        return f"logits before saving not compared: {shown.why_no_reload or 'no reason given'}"
    if shown.reload_difference == 0:
        return "read back, they give the same logits as before saving"
    return f"read back, logits differ from those before saving by up to {shown.reload_difference:.2g}"


def _tied(tied: bool) -> str:
    return "tied" if tied else "not tied"


def _calibrated(shown: Proof) -> tuple[str, ...]:
    if shown.calibration_tokens is None:
        return ()
    digest = "" if shown.calibration_sha256 is None else f", sha256 {shown.calibration_sha256[:12]}"
    return (f"calibrated on {shown.calibration_tokens} tokens{digest}",)


def _left(modules: tuple[ModuleLeft, ...]) -> list[str]:
    by_reason: dict[str, list[ModuleLeft]] = {}
    for one in modules:
        by_reason.setdefault(one.reason, []).append(one)
    return [f"{_names(found)} ({reason})" for reason, found in by_reason.items()]


def _names(found: list[ModuleLeft]) -> str:
    rest = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(one.name for one in found[:NAMED]) + rest
