"""Before a run: every variant's settings are read, every calibration set and every request, so that nothing is found wrong after hours.

A set is digested, and refused where one of its texts shares words with a golden item: what a variant has learned from cannot test it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from quantgate import calibration, files, modelconfig, plugins
from quantgate.errors import ConfigError, MissingModel
from quantgate.hygiene.overlap import overlap
from quantgate.records import BatchingConfig, Calibration, GoldenSet, ModelSource, Variant
from quantgate.shapes import shape_of_config
from quantgate.workloads import request_id

SHOWN = 3


def check_settings(variants: tuple[Variant, ...], file: str) -> None:
    """Refuse an option, width, granularity or place that a built-in quantizer does not have; others are asked when they are built."""
    for variant in variants:
        if (settings := plugins.beside("settings", variant.quantizer)) is None:
            continue
        try:
            settings(variant)
        except ConfigError as error:
            place = "" if error.what.startswith("variant ") else f"variant '{variant.name}': "
            raise ConfigError(f"{place}{error.what}", file=file) from error
        _check_place(variant, file)


def _check_place(variant: Variant, file: str) -> None:
    """A ready checkpoint that is not there is told before others are built; what is in it is read when its turn comes."""
    place = modelconfig.ready_place(variant)
    if place is not None and not modelconfig.holds_model(place):
        what = "no folder with a config.json" if place.is_dir() else "no GGUF file and no folder"
        raise ConfigError(f"variant '{variant.name}': checkpoint: there is {what} at {place}", file=file)


def check_requests(batching: BatchingConfig | None, model: ModelSource, file: str) -> None:
    """Refuse a request whose stated lengths alone exceed the model's context, where its files tell; texts are counted when loaded."""
    if batching is None:
        return
    try:
        longest = shape_of_config(modelconfig.describe_source(model).config).context_tokens
    except (ConfigError, MissingModel):
        return
    for index, one in enumerate(batching.requests):
        needs = (one.prompt_tokens or 1) + one.output_tokens
        if longest is not None and needs > longest:
            what = f"request {request_id(index)} of levers.batching needs {needs} tokens or more, and the model holds {longest}"
            raise ConfigError(f"{what}; shorten or leave it out", file=file)


def prepared(variants: tuple[Variant, ...], goldens: tuple[GoldenSet, ...], cache: Path) -> tuple[Variant, ...]:
    """The variants with their calibration sets read, digested and compared with the golden sets."""
    known: dict[Calibration, Calibration] = {}
    for one in (variant.calibration for variant in variants):
        if one is not None and one not in known:
            known[one] = _read(one, goldens, cache)
    return tuple(
        variant if variant.calibration is None else replace(variant, calibration=known[variant.calibration]) for variant in variants
    )


def _read(chosen: Calibration, goldens: tuple[GoldenSet, ...], cache: Path) -> Calibration:
    if chosen.path is not None:
        samples, path = calibration.read(Path(chosen.path)), Path(chosen.path)
    else:
        samples = plugins.beside("texts", "dataset")(chosen)
        text = calibration.lines(samples)
        path = cache / "calibration" / f"{hashlib.sha256(text.encode()).hexdigest()}.jsonl"
        files.write_whole(path, text)
    for golden in goldens:
        found = overlap(golden.items, (part for one in samples for part in one.parts))
        if found:
            _refuse(chosen, golden, {one.item_id: one.shared for one in found})
    return replace(chosen, path=str(path), sha256=files.file_digest(path))


def _refuse(chosen: Calibration, golden: GoldenSet, found: Mapping[str, str]) -> None:
    shown = "; ".join(f"{item_id}: '{words}'" for item_id, words in list(found.items())[:SHOWN])
    raise ConfigError(
        f"calibration set {chosen.name} and golden set {golden.label} share the words of {len(found)} items ({shown}): "
        "a variant would be tested on what it learned from; take other texts"
    )
