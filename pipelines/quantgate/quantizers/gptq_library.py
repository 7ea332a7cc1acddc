"""What GPTQModel needs around it, for whoever quantizes or loads: workers, silence, no compiler. Imports it only when it is used.

It sizes a pool of threads from the machine and gets stuck with the single one that two cores give; it draws a banner, tables and progress
bars; it compiles an extension and, at the first call of a layer, code for unpacking, which takes most of a minute and a C++ compiler.
"""

from __future__ import annotations

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


def is_packed(module: Any) -> bool:
    """A layer of GPTQModel's that can give its weights back."""
    return hasattr(module, "qweight") and hasattr(module, "dequantize_weight") and hasattr(module, "in_features")
