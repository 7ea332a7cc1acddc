"""Evidence by hand: one golden set of 200 items, a reference right on 160 of them, and variants that differ from it as told.

``passing()`` is a run that passes: everything else in the tests is that run with one thing broken.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from quantgate.records import (
    Artifact,
    BatchPlan,
    Capacity,
    CheckRule,
    Decision,
    DeviceInfo,
    Evidence,
    Failure,
    Fingerprint,
    GoldenPart,
    GoldenReference,
    ItemEvidence,
    ItemScore,
    Loaded,
    Policy,
    Role,
    ScoreSheet,
    Variant,
    VariantEvidence,
)
from quantgate.stages.gate import judge

ITEMS = 200
RIGHT = 160
"""Items 0..159 are right for the reference."""
DEVICE = DeviceInfo(kind="fake", name="fake device", total_bytes=10**9, threads=1)
CONDITIONS: dict[str, Any] = {"bos": 1, "device": "fake device", "driver": None, "threads": 1, "tokenizer": "ab" * 32}
QUALITY = CheckRule(kind="quality", margin=0.05)
FREED = CheckRule(kind="freed_share", minimum=0.25)


def item_id(number: int) -> str:
    """Name of an item."""
    return f"i{number:04d}"


def golden(name: str = "everyday", *, items: int = ITEMS, chance: float = 0.25) -> GoldenReference:
    """A golden set; its digest follows from its name."""
    ids = tuple(item_id(number) for number in range(items))
    digest = f"{zlib.crc32(name.encode()):08x}" * 8
    parts = tuple(
        GoldenPart(name=part, item_ids=ids[start::2], chance_level=chance)
        for start, part in enumerate(("even", "odd"))
        if ids[start::2]
    )
    return GoldenReference(name=name, version="1", sha256=digest, item_ids=ids, chance_level=chance, parts=parts)


def sheet(
    right: Iterable[int],
    *,
    of: str = "int8",
    on: GoldenReference | None = None,
    absent: Iterable[int] = (),
    nonfinite: Iterable[int] = (),
    clusters: int | None = None,
    **fields: Any,
) -> ScoreSheet:
    """The sheet of variant ``of``: right on the items named, wrong on the others, without a score on those absent or non-finite."""
    where, good, gone, bad = on or golden(), set(right), set(absent), set(nonfinite)
    shift = zlib.crc32(of.encode()) % 1000 / 1e6  # no two variants have bit-equal log-likelihoods
    rows = [
        _item(number, None if number in gone | bad else float(number in good), number in bad, shift, clusters)
        for number in range(len(where.item_ids))
    ]
    made = ScoreSheet(
        variant=of,
        golden_set=where.name,
        golden_version=where.version,
        golden_sha256=where.sha256,
        items=tuple(rows),
        batch_plan=BatchPlan(),
        conditions=CONDITIONS,
        first_prompt="one + one =",
    )
    return replace(made, **fields)


def _item(number: int, value: float | None, bad: bool, shift: float, clusters: int | None) -> ItemScore:
    logs = () if value is None else (-1.0 - shift, -2.0 + shift * number)
    return ItemScore(
        item_id=item_id(number),
        slice="even" if number % 2 == 0 else "odd",
        cluster=None if clusters is None else f"source {number % clusters}",
        value=value,
        why_unscored="not answered" if value is None else None,
        evidence=ItemEvidence(item_id=item_id(number), loglikelihoods=logs, nonfinite=bad),
    )


def loaded(name: str, *, weight_bytes: int, quantized: int, digest: str | None = None) -> Loaded:
    """A loaded variant; its weights' digest follows from its name."""
    return Loaded(
        weight_bytes=weight_bytes,
        logical_parameters=1000,
        quantized_parameters=quantized,
        modules_replaced=7 if quantized else 0,
        modules_left=(),
        kernels={"Linear": 7},
        dtype="float32",
        kv_bytes_per_element=4,
        weights_sha256=digest or f"{zlib.crc32(name.encode()):08x}" * 8,
        tied=False,
        load_s=0.0,
    )


def capacity(confirmed: int | None, **fields: Any) -> Capacity:
    """A batch ceiling at 64 + 64 tokens in 450 MB."""
    known = Capacity(
        prompt_tokens=64,
        output_tokens=64,
        budget_bytes=450_000_000,
        fixed_bytes=1,
        prefill_bytes_per_row=1,
        decode_bytes_per_row=1,
        kv_bytes_per_row=1,
        predicted=confirmed,
        confirmed=confirmed,
        limited_by="memory",
    )
    return replace(known, **fields)


def variant(
    name: str,
    *sheets: ScoreSheet,
    role: Role = "candidate",
    weight_bytes: int = 1000,
    digest: str | None = None,
    **fields: Any,
) -> VariantEvidence:
    """A variant that was built, loaded, scored and filled."""
    plain = role in ("reference", "identity")
    known = VariantEvidence(
        variant=Variant(name=name, quantizer="fake", role=role, weight_bits=None if plain else 8),
        artifact=Artifact(
            variant=name, path=f"/models/{name}", format="fake", stored_bytes=weight_bytes, sha256="cd" * 32
        ),
        loaded=loaded(name, weight_bytes=weight_bytes, quantized=0 if plain else 800, digest=digest),
        sheets=sheets,
        capacity=capacity(10 if plain else 20),
        device=DEVICE,
    )
    return replace(known, **fields)


def reference(*sheets: ScoreSheet) -> VariantEvidence:
    """The reference, right on 160 of 200 unless sheets are given."""
    return variant("float32", *(sheets or (sheet(range(RIGHT), of="float32"),)), role="reference", weight_bytes=4000)


def candidate(name: str = "int8", *, b: int = 2, c: int = 2, **fields: Any) -> VariantEvidence:
    """A candidate with b regressions and c recoveries, and a quarter of the weight bytes."""
    return variant(name, sheet([*range(b, RIGHT), *range(RIGHT, RIGHT + c)], of=name), **fields)


def known_bad(right: Iterable[int] = range(40)) -> VariantEvidence:
    """The control that must fail: right on 40 of 200."""
    return variant("int2", sheet(right, of="int2"), role="known_bad", weight_bytes=500)


def identity(right: Iterable[int] = range(RIGHT)) -> VariantEvidence:
    """The reference again, under other batches."""
    again = sheet(right, of="again", batch_plan=BatchPlan(max_rows=4))
    return variant("again", again, role="identity", weight_bytes=4000, digest=reference().loaded.weights_sha256)  # type: ignore[union-attr]


def evidence(*variants: VariantEvidence, golden_sets: Iterable[GoldenReference] | None = None) -> Evidence:
    """A run's evidence on the set ``everyday`` unless others are given."""
    print_ = Fingerprint(
        quantgate_version="0", source_sha256="0", commit=None, python="3.12", platform="any", cpu="any", libraries={}
    )
    sets = (golden(),) if golden_sets is None else tuple(golden_sets)
    return Evidence(variants=variants, golden_sets=sets, fingerprint=print_)


def passing() -> Evidence:
    """A run that passes: reference, one good candidate, and a control that fails."""
    return evidence(reference(), candidate(), known_bad())


def policy(*rules: CheckRule, **fields: Any) -> Policy:
    """Five points and a quarter of the memory, at least 100 items, controls required."""
    known = Policy(
        name="test", why="a test", checks=rules or (QUALITY, FREED), minimum_items=100, require_controls=True
    )
    return replace(known, **fields)


CREATED_AT = "2026-11-29T16:40:03+00:00"
"""When the run began, by which waivers are held."""


def decided(found: Evidence, by: Policy | None = None, *, created_at: str | None = CREATED_AT) -> Decision:
    """The gate's decision."""
    return judge(found, by or policy(), policy_sha256="1d" * 32, evidence_sha256="7c" * 32, created_at=created_at)


def changed(found: Evidence, name: str, **fields: Any) -> Evidence:
    """The evidence with fields of one variant replaced."""
    variants = tuple(replace(one, **fields) if one.variant.name == name else one for one in found.variants)
    return replace(found, variants=variants)


def failure(name: str, stage: str, *, numerical: bool = False, message: str = "it broke.") -> Failure:
    """A stage that did not finish."""
    return Failure(variant=name, stage=stage, kind="EngineError", message=message, numerical=numerical)
