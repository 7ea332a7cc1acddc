"""Vendors' figures by the name a device gives itself."""

from __future__ import annotations

import pytest

from quantgate.devices import datasheet


@pytest.mark.parametrize(
    ("name", "terabytes_per_s", "teraflops"),
    [
        ("NVIDIA H200", 4.8, 989),
        ("NVIDIA H200 NVL", 4.8, 835),
        ("NVIDIA H100 80GB HBM3", 3.35, 989),
        ("NVIDIA H100 PCIe", 2.0, 756),
        ("NVIDIA A100-SXM4-80GB", 2.039, 312),
        ("NVIDIA A100-PCIE-40GB", 1.555, 312),
        ("NVIDIA L4", 0.3, 121),
        ("NVIDIA L40S", 0.864, 362),
        ("NVIDIA A10", 0.6, 125),
        ("Tesla T4", 0.32, 65),
        ("NVIDIA GeForce RTX 4090", 1.008, 165.2),
        ("NVIDIA GeForce RTX 3090 Ti", 1.008, 80),
    ],
)
def test_a_known_device_has_its_own_figures(name: str, terabytes_per_s: float, teraflops: float) -> None:
    """Form factors differ, and one name inside another is not mistaken for it."""
    found = datasheet.find(name)
    assert found is not None
    assert found.bytes_per_s == pytest.approx(terabytes_per_s * 1e12)
    assert found.flops_per_s == pytest.approx(teraflops * 1e12)
    assert found.source.startswith("NVIDIA, ")


@pytest.mark.parametrize("name", ["NVIDIA A10G", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "AMD EPYC", "NVIDIA L400", ""])
def test_what_is_not_known_has_none(name: str) -> None:
    """A slice of a device, a CPU and a name that only looks alike."""
    assert datasheet.find(name) is None
