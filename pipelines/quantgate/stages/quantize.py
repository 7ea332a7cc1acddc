"""Build a variant. Knows the order of questions; the adapter knows its library.

A refusal (``why_not``) is an error of the variant, not of the run: the others go on, and a required variant that was not built is not a
pass.
"""

from __future__ import annotations

from pathlib import Path

from quantgate.errors import MeasureError
from quantgate.ports import Progress, QuantizePlan, Quantizer
from quantgate.records import Artifact


class NotSupported(MeasureError):
    """A quantizer that cannot do what is asked here."""


def build(quantizer: Quantizer, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
    """The variant's artifact, written into the empty folder ``into``.

    Raises ``NotSupported`` where the quantizer refuses the plan, and what the adapter raises.
    """
    if (reason := quantizer.why_not(plan)) is not None:
        raise NotSupported(f"not run: {reason}")
    progress(0, 0, "building")
    return quantizer.quantize(plan, into, progress)
