"""What vendors state of their devices: memory bandwidth and dense matrix rate in 16 bits. A promise, shown beside what was measured.

Only devices whose figures stand in a public datasheet are here, and only the whole device: a slice of one has a part of it. Of a CPU
there are none, because its bandwidth depends on the memory modules beside it. Rates are without sparsity.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Datasheet:
    """Peak figures of one device."""

    bytes_per_s: float
    flops_per_s: float
    """bfloat16 or float16 into float32, dense."""
    source: str


def _nvidia(terabytes_per_s: float, teraflops: float, sheet: str) -> Datasheet:
    return Datasheet(bytes_per_s=terabytes_per_s * 1e12, flops_per_s=teraflops * 1e12, source=f"NVIDIA, {sheet}")


_DEVICES: tuple[tuple[tuple[str, ...], Datasheet], ...] = (
    (("H200", "NVL"), _nvidia(4.8, 835, "H200 Tensor Core GPU datasheet, NVL")),
    (("H200",), _nvidia(4.8, 989, "H200 Tensor Core GPU datasheet")),
    (("H100", "PCIE"), _nvidia(2.0, 756, "H100 Tensor Core GPU datasheet, PCIe")),
    (("H100", "HBM3"), _nvidia(3.35, 989, "H100 Tensor Core GPU datasheet, SXM")),
    (("A100", "PCIE", "80GB"), _nvidia(1.935, 312, "A100 Tensor Core GPU datasheet, 80GB PCIe")),
    (("A100", "SXM4", "80GB"), _nvidia(2.039, 312, "A100 Tensor Core GPU datasheet, 80GB SXM")),
    (("A100", "40GB"), _nvidia(1.555, 312, "A100 Tensor Core GPU datasheet, 40GB")),
    (("L40S",), _nvidia(0.864, 362, "L40S GPU datasheet")),
    (("NVIDIA L4",), _nvidia(0.3, 121, "L4 Tensor Core GPU datasheet")),
    (("NVIDIA A10",), _nvidia(0.6, 125, "A10 Tensor Core GPU datasheet")),
    (("T4",), _nvidia(0.32, 65, "T4 Tensor Core GPU product brief")),
    (("RTX 4090",), _nvidia(1.008, 165.2, "Ada GPU architecture whitepaper")),
    (("RTX 3090", "TI"), _nvidia(1.008, 80, "Ampere GA102 GPU architecture whitepaper")),
    (("RTX 3090",), _nvidia(0.936, 71, "Ampere GA102 GPU architecture whitepaper")),
)
"""Parts that a device's name must all have, in any order, and its figures. The first that fits is taken."""


def find(name: str) -> Datasheet | None:
    """The datasheet of the device that calls itself ``name``; None where none is known, or where the name is of a slice (MIG)."""
    words = name.upper()
    if "MIG" in words.split():
        return None
    return next((sheet for parts, sheet in _DEVICES if all(_stands(part, words) for part in parts)), None)


def _stands(part: str, words: str) -> bool:
    """A part stands in a name where no letter or digit goes on before or behind it: ``NVIDIA L4`` is not in ``NVIDIA L40S``."""
    at = words.find(part)
    while at >= 0:
        before, behind = words[at - 1 : at] if at else "", words[at + len(part) : at + len(part) + 1]
        if not before.isalnum() and not behind.isalnum():
            return True
        at = words.find(part, at + 1)
    return False
