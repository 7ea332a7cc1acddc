"""Artifacts: built by the variant's process, or taken from the cache."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from quantgate import fitting, provenance, rundir
from quantgate.measuring.keys import environment, key_of
from quantgate.measuring.processes import LazyProcess
from quantgate.measuring.work import Run
from quantgate.modelconfig import holds_model, ready_place
from quantgate.records import Artifact, ModelSource, Variant
from quantgate.stages import quantize


def _as_built(variant: Variant) -> Variant:
    """What the artifact depends on: not the role, the cache or what is measured, and of the calibration set its texts, not their place."""
    calibration = variant.calibration
    if calibration is not None and calibration.sha256:
        calibration = replace(calibration, name="", path=None, dataset=None, config=None, revision=None)
    return replace(variant, role="candidate", measure="all", calibration=calibration, kv_cache=None)


def build_variant(work: Run, variant: Variant) -> None:
    """The variant's artifact into its evidence, built now or found in the cache."""
    if (reason := fitting.refusal(variant, work.config.model, work.config.device, None)) is not None:
        raise quantize.NotSupported(f"not run: {reason}")
    base = None if variant.role == "reference" else work.base
    key = _built_key(work, variant, base, work.fingerprint.model_sha256)
    work.display.step(variant.name, "quantize")
    found = None if work.shelf.fresh else rundir.stored_artifact(work.config.cache / "artifacts" / key)
    if found is None:
        found = _built(work, variant, base, work.config.model, key)
        work.display.step_done(reused=False)
    else:
        one = work.evidence[variant.name]
        work.evidence[variant.name] = replace(one, reused=(*one.reused, "quantize"))
        work.display.step_done(reused=True)
    rundir.put(work.folder / "variants" / variant.name / "artifact.json", kind="artifact", key=key, record=found)
    work.evidence[variant.name] = replace(work.evidence[variant.name], artifact=found)


def build(work: Run, variant: Variant, base: Artifact | None, model: ModelSource) -> Artifact:
    """The artifact of a model that is none of the run's variants, from the cache or made now."""
    key = _built_key(work, variant, base, provenance.model_digest(model))
    found = None if work.shelf.fresh else rundir.stored_artifact(work.config.cache / "artifacts" / key)
    return _built(work, variant, base, model, key) if found is None else found


def _built_key(work: Run, variant: Variant, base: Artifact | None, model_sha256: str | None) -> str:
    sha256, device = None if base is None else base.sha256, work.config.device
    parts = {"model": model_sha256, "variant": _as_built(variant), "base": sha256, "device": device.kind, "dtype": device.dtype}
    return key_of(work, **parts, **_found(variant), **environment(work, variant))


def _found(variant: Variant) -> dict[str, str]:
    """Digest of a ready checkpoint's files: another one at the same place is another variant. Nothing where none is there."""
    if (place := ready_place(variant)) is None or not holds_model(place):
        return {}
    return {"checkpoint": provenance.model_digest(ModelSource(name=variant.name, path=str(place)))}


def _built(work: Run, variant: Variant, base: Artifact | None, model: ModelSource, key: str) -> Artifact:
    with ExitStack() as stack:
        return LazyProcess(work, variant, stack).ask(
            "quantize",
            Artifact,
            model=model,
            variant=variant,
            base=base,
            device=work.config.device,
            cache=str(work.config.cache),
            key=key,
            fresh=work.shelf.fresh,
        )
