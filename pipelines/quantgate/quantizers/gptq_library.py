"""What GPTQModel needs around it, for whoever quantizes or loads: workers, silence, no compiler. Imports it only when it is used.

It sizes a pool of threads from the machine and gets stuck with the single one that two cores give; it draws a banner, tables and progress
bars; it compiles an extension and, at the first call of a layer, code for unpacking, which takes most of a minute and a C++ compiler.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

INSTALL = "pip install 'quantgate[gptq]'"
LEAST_WORKERS = 2
AWQ_AS_STORED = frozenset({"AwqTorchLinear", "TorchAtenAwqLinear"})
"""Layers that hold AWQ weights as the files do, the second until its first call."""


def missing() -> str | None:
    """Which library is not here, in one sentence with what to do; None where both are."""
    absent = [name for name in ("gptqmodel", "optimum") if find_spec(name) is None]
    if not absent:
        return None
    return f"GPTQ needs {' and '.join(absent)}, not installed in {sys.executable}: {INSTALL}"


@contextmanager
def quiet() -> Iterator[None]:
    """What it draws goes nowhere; its errors are exceptions. Sets what it reads from this process's environment."""
    os.environ.setdefault("GPTQMODEL_CPU_WORKERS", str(max(LEAST_WORKERS, (os.cpu_count() or 1) // 2)))
    os.environ.setdefault("GPTQMODEL_DISABLE_PACK_EXT", "1")
    logging.getLogger("tokenicer").setLevel(logging.ERROR)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="You passed `quantization_config`")  # the kernel is chosen that way
        yield


def no_compiling() -> None:
    """Unpacking runs as written: compiled, a small model's first answer takes a minute, and a machine without a compiler has none."""
    import torch._dynamo

    torch._dynamo.config.disable = True


def split_experts(folder: Path) -> None:
    """Let models of the folder's architecture be built with a module for each expert, as the library packs them, in this process.

    transformers keeps a layer's experts in one tensor, and would leave packed ones unread.
    """
    import defuser

    defuser.replace_fused_blocks(json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type", ""))


def is_packed(module: Any) -> bool:
    """A layer of GPTQModel's: GPTQ or AWQ weights, in whatever layout its kernel wants them."""
    return hasattr(module, "qweight") and hasattr(module, "in_features") and hasattr(module, "out_features")


def unpacks(module: Any) -> bool:
    """A packed layer can give its weight back. Kernels of GPUs lay it out anew when they load, and then nothing unpacks it."""
    if hasattr(module, "dequantize_weight"):
        return True
    return type(module).__name__ in AWQ_AS_STORED and getattr(module, "linear_mode", None) != "inference"


def unpacked(module: Any) -> Any:
    """The weight of a packed layer that ``unpacks``, as float32 [out, in]."""
    if hasattr(module, "dequantize_weight"):
        return module.dequantize_weight().T.float()
    from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm

    return dequantize_gemm(
        qweight=module.qweight, qzeros=module.qzeros, scales=module.scales.float(), bits=module.bits, group_size=module.group_size
    ).T
