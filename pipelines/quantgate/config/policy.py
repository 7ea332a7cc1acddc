"""Policy files: YAML -> ``Policy``, the rules that span keys, and the schema for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantgate.config.document import Document
from quantgate.config.policy_sections import CheckSection, PolicySection
from quantgate.config.sections import SCHEMA_VERSION
from quantgate.errors import ConfigError
from quantgate.records import MAIN, NEVER_WAIVED, Canary, CheckRule, Policy, Sequential, Waiver

UNCORRECTED = "'require: any' with 'correction: none' gives {0} candidates {0} uncorrected chances to pass; use holm"
SMALLEST_MARGIN = 1e-6
SHARES = ("freed_share", "share_quantized", "top1_agreement", "rms_probability_change", "speculation_acceptance")
"""Kinds whose limit is a share, 1 at most."""
LIMITS: Mapping[str, tuple[str, ...]] = {
    "quality": ("margin",),
    "perplexity_ratio": ("maximum",),
    "output_length": ("minimum", "maximum"),
    "freed_share": ("minimum",),
    "share_quantized": ("minimum",),
    "ceiling_ratio": ("minimum",),
    "min_speed_ratio": ("minimum",),
    "max_ttft_ratio": ("maximum",),
    "max_itl_p99_ratio": ("maximum",),
    "kl_mean": ("maximum",),
    "kl_p99": ("maximum",),
    "kl_p999": ("maximum",),
    "rms_probability_change": ("maximum",),
    "top1_agreement": ("minimum",),
    "batching_utilisation_gain": ("minimum",),
    "batching_itl_p99_ratio": ("maximum",),
    "speculation_acceptance": ("minimum",),
    "speculation_lossless": (),
    "speculation_speed_ratio": ("minimum",),
    "cost_ratio": ("maximum",),
    "cost_per_million_tokens": ("maximum",),
}
"""What each kind of check must give, and nothing else of these."""
FOR_QUALITY = ("slice", "scale", "better")
FOR_SPEED = ("min_speed_ratio", "max_ttft_ratio", "max_itl_p99_ratio")
FOR_COST = ("cost_ratio", "cost_per_million_tokens")
TESTED = ("quality", "perplexity_ratio")
"""Kinds that are decided by a test, and can let a variant pass."""


def load_policy(path: Path) -> Policy:
    """Read a policy file. Raises ``ConfigError`` for a missing file, an unknown key, no checks, or a check without its limit."""
    document = Document.read(path)
    raw = document.parse(PolicySection)
    for index, check in enumerate(raw.checks):
        _check_limits(check, document, index)
    _check_correction(raw, document)
    _check_waivers(raw, document)
    _check_early(raw, document)
    if not any(check.kind in TESTED and check.tier == "required" for check in raw.checks):
        what = (
            "no check is of kind 'quality' and tier 'required', nor of kind 'perplexity_ratio': the others can block a variant, "
            "none can pass one alone"
        )
        raise document.error(("checks",), what)
    values = raw.model_dump(exclude={"schema_version", "checks", "order", "waivers", "sequential", "canary"})
    return Policy(
        **values,
        sequential=None if raw.sequential is None else Sequential(bet=raw.sequential.bet, seed=raw.sequential.seed),
        canary=None if raw.canary is None else Canary(**raw.canary.model_dump()),
        order=tuple(raw.order),
        checks=tuple(_rule(check) for check in raw.checks),
        waivers=tuple(Waiver(**one.model_dump()) for one in raw.waivers),
    )


def policy_error(path: Path, where: tuple[str | int, ...], what: str) -> ConfigError:
    """A fault that shows only beside a run or its golden sets, with the line of the key in the policy file."""
    return Document.read(path).error(where, what)


def policy_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of policy files, for editors; rules that span keys are those of ``load_policy``."""
    schema = PolicySection.model_json_schema()
    schema["title"] = "quantgate policy, schema version 1"
    schema["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    check = schema["$defs"]["CheckSection"]
    check["allOf"] = [
        {"if": {"properties": {"kind": {"const": kind}}}, "then": {"required": list(needs)}} for kind, needs in LIMITS.items()
    ]
    bounded = {"properties": {"margin": {"anyOf": [{"type": "number", "exclusiveMaximum": 1}, {"type": "null"}]}}}
    check["allOf"].append({"if": {"not": {"properties": {"scale": {"const": "unbounded"}}, "required": ["scale"]}}, "then": bounded})
    check["allOf"].append(
        {"if": {"properties": {"kind": {"const": "perplexity_ratio"}}}, "then": {"properties": {"maximum": {"minimum": 1}}}}
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def policy_schema_text() -> str:
    """The schema as docs/schema/ has it."""
    return json.dumps(policy_schema(), indent=2) + "\n"


def _rule(raw: CheckSection) -> CheckRule:
    given = [raw.slice] if isinstance(raw.slice, str) else raw.slice or []
    at = (raw.at or 1) if raw.kind in FOR_SPEED else None
    return CheckRule(**raw.model_dump(exclude={"slice", "at", "workload"}), slices=tuple(given), at=at, workload=raw.workload or MAIN)


def uncorrected(policy: Policy, chances: int) -> bool:
    """Whether a policy gives several candidates each a chance to pass by luck, and says nothing of it."""
    return policy.require == "any" and policy.correction == "none" and chances > 1


def _check_correction(raw: PolicySection, document: Document) -> None:
    """How several candidates are corrected, with what belongs to it."""
    if raw.correction == "fixed_sequence":
        if raw.require != "any":
            what = "'fixed_sequence' is for 'require: any'; where every candidate must pass, nothing is corrected"
            raise document.error(("correction",), what)
        if not raw.order:
            raise document.error(("correction",), "'fixed_sequence' needs 'order': the candidates, mildest first")
    elif raw.order:
        raise document.error(("order",), f"'order' is for 'correction: fixed_sequence'; found {raw.correction}")
    for index, name in enumerate(raw.order):
        if name in raw.order[:index]:
            raise document.error(("order", index), f"'{name}' stands twice in the order")
    if raw.family_size is not None and (raw.require, raw.correction) != ("any", "holm"):
        raise document.error(("family_size",), "'family_size' is for 'require: any' with 'correction: holm'")


def _check_early(raw: PolicySection, document: Document) -> None:
    """Looking early: in one way or the other, and with a bet that no item can turn into less than nothing."""
    if raw.sequential is not None and raw.looks is not None:
        raise document.error(("looks",), "'looks' and 'sequential' are two ways of looking early; keep one of them")
    if raw.looks is None and raw.looks_seed:
        raise document.error(("looks_seed",), "'looks_seed' is for 'looks'; in the anytime-valid mode the seed is 'sequential.seed'")
    if raw.sequential is None:
        return
    for index, check in enumerate(raw.checks):
        if check.kind == "quality" and check.scale == "unbounded":
            what = "'sequential' is for scores in 0 to 1; for scores without bounds use 'looks', or neither"
            raise document.error(("checks", index, "scale"), what)
        if check.kind == "quality" and check.margin is not None and raw.sequential.bet >= 1 / (1 - check.margin):
            most = f"lambda must lie under 1 / (1 - margin) = {1 / (1 - check.margin):.4g} for the margin {check.margin:g}"
            raise document.error(("sequential", "lambda"), f"{most}; found {raw.sequential.bet:g}")


def _check_waivers(raw: PolicySection, document: Document) -> None:
    seen: set[tuple[str, str]] = set()
    for index, waiver in enumerate(raw.waivers):
        if waiver.check in NEVER_WAIVED:
            what = f"check '{waiver.check}' cannot be waived: it shows that a variant was measured and is what it says it is"
            raise document.error(("waivers", index, "check"), what)
        if (key := (waiver.check, waiver.variant)) in seen:
            what = f"'{waiver.check}' of '{waiver.variant}' is waived twice; keep one of the two"
            raise document.error(("waivers", index), what)
        seen.add(key)


def _check_limits(check: CheckSection, document: Document, index: int) -> None:
    needs = LIMITS[check.kind]
    for key in FOR_QUALITY:
        if check.kind != "quality" and getattr(check, key) is not None:
            raise document.error(("checks", index, key), f"'{key}' is for checks of kind quality; found {check.kind}")
    _check_speed(check, document, index)
    if check.engine is not None and not check.kind.startswith("batching_"):
        raise document.error(("checks", index, "engine"), f"'engine' is for checks of batching; found {check.kind}")
    if check.kind not in TESTED and check.minimum_items is not None:
        raise document.error(("checks", index, "minimum_items"), f"'minimum_items' is for checks of kind quality; found {check.kind}")
    if check.margin is not None and check.margin >= 1 and check.scale is None:
        what = f"margin: must be less than 1; found {check.margin:g} (0.03 is 3 points; for unbounded scores write 'scale: unbounded')"
        raise document.error(("checks", index, "margin"), what)
    if check.margin is not None and check.margin < SMALLEST_MARGIN:
        what = f"margin: must be at least {SMALLEST_MARGIN:g}; found {check.margin:g} (0.03 is 3 points): no loss that small can be shown"
        raise document.error(("checks", index, "margin"), what)
    _check_share(check, document, index)
    if check.kind == "perplexity_ratio" and check.maximum is not None and check.maximum < 1:
        what = f"maximum: a ratio of perplexities is 1 where nothing is lost, and must be 1 or more; found {check.maximum:g}"
        raise document.error(("checks", index, "maximum"), what)
    for key in ("margin", "minimum", "maximum"):
        given = getattr(check, key) is not None
        if given and key not in needs:
            raise document.error(
                ("checks", index, key), f"a check of kind {check.kind} has no '{key}'; it takes {', '.join(needs) or 'no limit'}"
            )
        if not given and key in needs:
            raise document.error(("checks", index), f"a check of kind {check.kind} needs '{key}'")
    if check.minimum is not None and check.maximum is not None and check.minimum > check.maximum:
        raise document.error(
            ("checks", index, "minimum"), f"the minimum {check.minimum:g} lies above the maximum {check.maximum:g}"
        )


def _check_speed(check: CheckSection, document: Document, index: int) -> None:
    """Where speed is checked, and limits that have a logarithm."""
    for key in ("at", "workload"):
        if check.kind not in FOR_SPEED and getattr(check, key) is not None:
            raise document.error(("checks", index, key), f"'{key}' is for checks on speed ({', '.join(FOR_SPEED)}); found {check.kind}")
    if check.kind in FOR_COST and check.maximum == 0:
        raise document.error(("checks", index, "maximum"), "maximum: a cost is greater than 0, so nothing could pass; found 0")
    if check.kind == "ceiling_ratio" and check.minimum == 0:
        what = "minimum: a ratio of 0 asks nothing; 1.5 is half as many requests again, found 0"
        raise document.error(("checks", index, "minimum"), what)
    if check.kind not in FOR_SPEED:
        return
    if check.golden_set != "*":
        raise document.error(("checks", index, "golden_set"), "speed is not measured on golden sets; leave 'golden_set' out")
    if check.at == "ceiling" and check.workload not in (None, MAIN):
        what = "a ceiling is confirmed at the lengths of the run's own workload only; name a batch for another workload"
        raise document.error(("checks", index, "at"), what)
    for key in ("minimum", "maximum"):
        if getattr(check, key) == 0:
            raise document.error(("checks", index, key), f"{key}: a ratio must be greater than 0; 0.95 is 5 % slower at most, found 0")


def _check_share(check: CheckSection, document: Document, index: int) -> None:
    """A share above 1 is a percentage that was meant."""
    for key in ("minimum", "maximum"):
        value = getattr(check, key)
        if check.kind in SHARES and value is not None and value > 1:
            meant = f"; write {value / 100:g} for {value:g} %" if value <= 100 else ""
            raise document.error(("checks", index, key), f"{key}: a share is at most 1; found {value:g}{meant}")
