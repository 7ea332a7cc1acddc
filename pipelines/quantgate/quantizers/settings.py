"""What each quantizer can be asked for, read from a variant. Knows names and ranges; loads no model library, so a run is refused at once.

Every function takes a variant and returns its settings, or raises ``ConfigError`` with what was found and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quantgate.errors import ConfigError
from quantgate.quantizers.folder import bool_option, check_options
from quantgate.records import Scalar, Variant
from quantgate.render.quantities import listed

GPTQ_BITS = (8, 4, 3, 2)
GPTQ_GROUPS = (32, 64, 128)
PACK_WORD = 32
"""Weights are packed into 32-bit words, along the inputs for weights and along the outputs for zero points."""


# ---------------------------------------------------------------------------------------------- kernels of GPTQ checkpoints


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A way of multiplying by packed weights, and what it is made for."""

    backend: str
    """GPTQModel's name of it."""
    bits: tuple[int, ...]
    devices: tuple[str, ...]
    groups: tuple[int, ...] = (*GPTQ_GROUPS, -1)
    symmetric_only: bool = False


KERNELS: Mapping[str, Kernel] = {
    "torch": Kernel(backend="gptq_torch", bits=GPTQ_BITS, devices=("cpu", "cuda")),
    "int4pack": Kernel(backend="gptq_torch_aten", bits=(4,), devices=("cpu",), groups=GPTQ_GROUPS),
    "triton": Kernel(backend="gptq_triton", bits=GPTQ_BITS, devices=("cuda",)),
    "marlin": Kernel(backend="gptq_marlin", bits=(8, 4), devices=("cuda",), symmetric_only=True),
    "exllama_v2": Kernel(backend="gptq_exllama_v2", bits=(4,), devices=("cuda",)),
}
"""Kernels by the name that the option ``kernel`` takes. ``torch`` unpacks at each call and computes in the model's type; ``int4pack``
rounds scales, inputs and outputs to bfloat16."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GptqSettings:
    """One GPTQ rung."""

    bits: int
    group: int
    """-1: one scale for each output channel."""
    desc_act: bool
    symmetric: bool
    damp: float
    kernel: str
    """``auto`` or a name of ``KERNELS``."""


def gptq(variant: Variant) -> GptqSettings:
    """``options``: desc_act, symmetric, damp (share of the Hessian's mean diagonal), kernel."""
    options = check_options("gptq", variant.options, ("desc_act", "symmetric", "damp", "kernel"))
    if variant.weight_bits not in GPTQ_BITS:
        raise ConfigError(f"gptq: {_bits(variant)}; allowed are 8, 4, 3 and 2")
    return GptqSettings(
        bits=variant.weight_bits,
        group=_gptq_group(variant.granularity),
        desc_act=bool_option("gptq", options, "desc_act", False),
        symmetric=bool_option("gptq", options, "symmetric", True),
        damp=_number("gptq", options, "damp", default=0.05, low=0.0, high=1.0),
        kernel=_kernel("gptq", options),
    )


def _gptq_group(granularity: str) -> int:
    if granularity == "channel":
        return -1
    size = granularity.removeprefix("group:")
    if size.isdecimal() and int(size) in GPTQ_GROUPS:
        return int(size)
    raise ConfigError(f"gptq: granularity is '{granularity}'; allowed are group:32, group:64, group:128 and channel (group size -1)")


def _kernel(quantizer: str, options: Mapping[str, Scalar]) -> str:
    name = options.get("kernel", "auto")
    if name != "auto" and name not in KERNELS:
        raise ConfigError(f"{quantizer}: option 'kernel' is {name!r}; allowed are auto, {', '.join(KERNELS)}")
    return str(name)


def kernel_refusal(settings: GptqSettings, device: str) -> str | None:
    """Why a checkpoint of these settings cannot run on this kind of device, in one sentence."""
    if settings.kernel == "auto":
        return None
    kernel = KERNELS[settings.kernel]
    if device not in kernel.devices:
        return f"kernel {settings.kernel} runs on {' and '.join(kernel.devices)}, and this run is on {device}"
    if settings.bits not in kernel.bits:
        return f"kernel {settings.kernel} multiplies weights of {listed(kernel.bits)} bits, not of {settings.bits}"
    if settings.group not in kernel.groups:
        given = "one scale a channel" if settings.group < 0 else str(settings.group)
        return f"kernel {settings.kernel} takes groups of {listed(kernel.groups)}, not {given}"
    if kernel.symmetric_only and not settings.symmetric:
        return f"kernel {settings.kernel} takes symmetric weights only"
    return None


# ---------------------------------------------------------------------------------------------- bitsandbytes

_BITSANDBYTES_OPTIONS = {8: ("threshold",), 4: ("format", "double_quant", "compute")}
_FORMATS = ("nf4", "fp4")
_COMPUTE = ("auto", "float32", "bfloat16", "float16")
_BITSANDBYTES_GRANULARITIES = {8: ("tensor", "channel"), 4: ("tensor", "group:64")}
"""What the library does, and ``tensor``, the record's default, which asks for nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BitsAndBytesSettings:
    """One rung of bitsandbytes."""

    bits: int
    threshold: float = 6.0
    format: str = "nf4"
    double_quant: bool = False
    compute: str = "auto"
    """Type that 4-bit weights are multiplied in; ``auto``: bfloat16 on CUDA, float32 elsewhere."""

    @property
    def label(self) -> str:
        """Short name, for messages."""
        return "int8" if self.bits == 8 else self.format


def bitsandbytes(variant: Variant) -> BitsAndBytesSettings:
    """``options`` at 8 bits: threshold; at 4 bits: format, double_quant, compute."""
    bits = variant.weight_bits
    if bits not in _BITSANDBYTES_OPTIONS:
        raise ConfigError(f"bitsandbytes: {_bits(variant)}; allowed are 8 and 4")
    options = check_options(f"bitsandbytes {bits}-bit", variant.options, _BITSANDBYTES_OPTIONS[bits])
    if variant.granularity not in _BITSANDBYTES_GRANULARITIES[bits]:
        does = "one scale a row (channel)" if bits == 8 else "groups of 64 (group:64)"
        raise ConfigError(f"bitsandbytes: granularity {variant.granularity} is not available at {bits} bits; it does {does}")
    threshold = options.get("threshold", 6.0)
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold < float("inf"):
        raise ConfigError(
            f"bitsandbytes: option 'threshold' is {threshold!r}; allowed is a number of at least 0 (0: no outlier columns)"
        )
    return BitsAndBytesSettings(
        bits=bits,
        threshold=float(threshold),
        format=_one_of("bitsandbytes", options, "format", _FORMATS),
        double_quant=bool_option("bitsandbytes", options, "double_quant", False),
        compute=_one_of("bitsandbytes", options, "compute", _COMPUTE),
    )


# ---------------------------------------------------------------------------------------------- round to nearest


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheme:
    """How weights are rounded. ``group`` None: one scale for each output channel."""

    bits: int
    group: int | None
    symmetric: bool


def rtn(variant: Variant) -> Scheme:
    """``options``: symmetric."""
    options = check_options("rtn", variant.options, ("symmetric",))
    symmetric = bool_option("rtn", options, "symmetric", True)
    bits = variant.weight_bits
    if bits is None or not 2 <= bits <= 8:
        raise ConfigError(f"rtn: {_bits(variant)}; allowed are 2 to 8")
    kind, _, size = variant.granularity.partition(":")
    if kind == "channel" and not size:
        return Scheme(bits=bits, group=None, symmetric=symmetric)
    if kind == "group" and size.isdecimal() and int(size) > 0:
        return Scheme(bits=bits, group=int(size), symmetric=symmetric)
    raise ConfigError(f"rtn: granularity is '{variant.granularity}'; allowed are channel and group:<size>, for example group:64")


# ---------------------------------------------------------------------------------------------- ready checkpoints


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSettings:
    """A checkpoint that somebody else quantized."""

    path: str
    sha256: str | None
    kernel: str


def checkpoint(variant: Variant) -> CheckpointSettings:
    """``options``: path (folder or GGUF file), sha256 (of its files, so that it is the one that was meant), kernel."""
    options = check_options("checkpoint", variant.options, ("path", "sha256", "kernel"))
    path, sha256 = options.get("path"), options.get("sha256")
    if variant.weight_bits is None:
        raise ConfigError("checkpoint: 'bits' is missing: the checkpoint's own width, which is checked against what it says")
    if not isinstance(path, str) or not path:
        raise ConfigError("checkpoint: option 'path' is missing: the folder or GGUF file that holds the quantized model")
    if not (sha256 is None or (isinstance(sha256, str) and len(sha256) == 64)):
        raise ConfigError(f"checkpoint: option 'sha256' is {sha256!r}; a digest has 64 hexadecimal digits")
    if variant.granularity != "tensor":
        raise ConfigError("checkpoint: leave 'granularity' out; the checkpoint's own config says it")
    return CheckpointSettings(path=path, sha256=sha256, kernel=_kernel("checkpoint", options))


def reference(variant: Variant) -> Literal[True]:
    """The unquantized model takes no options and has no width."""
    check_options("reference", variant.options, ())
    for key, given in (("bits", variant.weight_bits), ("granularity", variant.granularity)):
        if given not in (None, "tensor"):
            what = f"reference: {key} is {given}, and the reference is not quantized"
            raise ConfigError(f"{what}; leave '{key}' out or name another quantizer")
    return True


def _bits(variant: Variant) -> str:
    """As the config calls it."""
    return "'bits' is missing" if variant.weight_bits is None else f"bits is {variant.weight_bits}"


def _one_of(quantizer: str, options: Mapping[str, Scalar], name: str, allowed: tuple[str, ...]) -> str:
    value = options.get(name, allowed[0])
    if value not in allowed:
        raise ConfigError(f"{quantizer}: option '{name}' is {value!r}; allowed are {', '.join(allowed)}")
    return str(value)


def _number(quantizer: str, options: Mapping[str, Scalar], name: str, *, default: float, low: float, high: float) -> float:
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low < value < high:
        raise ConfigError(f"{quantizer}: option '{name}' is {value!r}; allowed is a number between {low:g} and {high:g}")
    return float(value)
