"""What an artifact was shown to be, in words."""

from __future__ import annotations

from dataclasses import replace

import samples
from quantgate.records import ModuleLeft, Proof
from quantgate.render.proof import report_lines, sentences

SHOWN = Proof(
    library="gptqmodel 7.6.0",
    modules_replaced=210,
    modules_left=(*(ModuleLeft(name=f"layer.{n}", parameters=8, reason="not known") for n in range(6)),),
    quantized_parameters=79,
    logical_parameters=100,
    stored_bits_per_weight=4.3125,
    tensors_checked=420,
    tied_before=True,
    tied_after=False,
    reload_difference=0.0,
    calibration_tokens=8192,
    calibration_sha256="ab" * 32,
    notes=("a note",),
)


def test_every_fact_is_said() -> None:
    """Modules, share, bits, tensors, ties, reload, calibration, what was left and why, notes."""
    report = samples.sample_report()
    row = replace(report.measurements[1], proof=SHOWN)
    said = " | ".join(sentences(row))
    for words in (
        "210 modules quantized by gptqmodel 7.6.0",
        "4.31 bits a weight as stored",
        "420 quantized tensors",
        "the same logits as before saving",
        "tied before, not tied after",
        "calibrated on 8192 tokens, sha256 abababababab",
        "layer.3 and 2 more (not known)",
        "a note",
    ):
        assert words in said
    assert report_lines(replace(report, measurements=(row,)))[0].startswith(f"{row.variant}: 210 modules")


def test_what_is_not_known_is_said_too() -> None:
    """A difference, a reason for none, and bits that are not known are in the words; without a proof nothing is said."""
    row = samples.sample_report().measurements[1]
    moved = " ".join(sentences(replace(row, proof=replace(SHOWN, reload_difference=0.00125))))
    assert "differ from those before saving by up to 0.0013" in moved or "up to 0.0012" in moved
    absent = replace(SHOWN, reload_difference=None, why_no_reload="nothing in memory", stored_bits_per_weight=None)
    assert "not compared: nothing in memory" in " ".join(sentences(replace(row, proof=absent)))
    assert "bits a weight not known" in " ".join(sentences(replace(row, proof=absent)))
    assert sentences(replace(row, proof=None)) == ()
