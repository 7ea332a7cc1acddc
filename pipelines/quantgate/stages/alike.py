"""Whether two measurements are of the same thing: the first field that differs, as a reason not to compare them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quantgate.records import Capacity, DeviceInfo, Variant, VariantEvidence


def differs(field: str, before: object, after: object) -> str | None:
    """None where both are equal."""
    return None if before == after else f"not comparable: {field} is {before!r} in the first run and {after!r} in the second"


def fields(names: Sequence[str], before: object, after: object) -> str | None:
    """The first of these attributes that differs."""
    found = (differs(name.replace("_", " "), getattr(before, name), getattr(after, name)) for name in names)
    return next((one for one in found if one is not None), None)


def keys(before: Mapping[str, object], after: Mapping[str, object]) -> str | None:
    """The first key that differs, or stands in one only."""
    found = (differs(key, before.get(key), after.get(key)) for key in sorted({*before, *after}))
    return next((one for one in found if one is not None), None)


def other_scheme(before: Variant, after: Variant) -> str | None:
    """Quantized otherwise. Whose checkpoint is meant is told by its path: it changes with every build."""
    names = ("quantizer", "weight_bits", "granularity", "kv_cache", "interpreter")
    return fields(names, before, after) or keys(_options(before), _options(after))


def other_definition(before: VariantEvidence, after: VariantEvidence) -> str | None:
    """Quantized otherwise, or from other texts."""
    return other_scheme(before.variant, after.variant) or differs("the calibration set's digest", _learned(before), _learned(after))


def other_device(before: DeviceInfo | None, after: DeviceInfo | None) -> str | None:
    """Not the same device, or not known in one."""
    if before is None or after is None:
        return f"not comparable: the device is not known in the {'first' if before is None else 'second'} run"
    return fields(("kind", "name", "driver", "threads"), before, after)


def other_lengths(before: Capacity | None, after: Capacity | None) -> str | None:
    """Requests of other lengths, or another budget; None where one of the two was not filled."""
    if before is None or after is None:
        return None
    return fields(("prompt_tokens", "output_tokens", "budget_bytes"), before, after)


def _options(variant: Variant) -> dict[str, object]:
    return {key: value for key, value in (variant.options or {}).items() if key != "path"}


def _learned(one: VariantEvidence) -> str | None:
    proof = None if one.artifact is None else one.artifact.proof
    return None if proof is None else proof.calibration_sha256
