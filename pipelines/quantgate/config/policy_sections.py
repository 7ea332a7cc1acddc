"""The sections of a policy as they are written, with what an editor shows beside each key."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from quantgate.config.sections import NAME, Count, Limit, Name, Section, Share, Text
from quantgate.records import Better, Tier

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _said(text: str) -> Any:
    """What an editor shows beside a key of a policy."""
    return Field(description=text)


def _day(found: Any) -> str:
    """A day as YAML reads it, or as text in quotes; written back in one form."""
    text = found.isoformat() if type(found) is date else found
    if not isinstance(text, str) or not DAY.fullmatch(text):
        raise PydanticCustomError("day", "a day is expected, for example 2026-12-31")
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise PydanticCustomError("day", "there is no such day") from error


class CheckSection(Section):
    kind: Annotated[
        Literal[
            "quality", "output_length", "freed_share", "share_quantized", "ceiling_ratio", "kl_mean", "kl_p99", "kl_p999",
            "rms_probability_change", "top1_agreement",
            "perplexity_ratio", "min_speed_ratio", "max_ttft_ratio", "max_itl_p99_ratio",
            "batching_utilisation_gain", "batching_itl_p99_ratio",
            "speculation_acceptance", "speculation_lossless", "speculation_speed_ratio",
            "cost_ratio", "cost_per_million_tokens",
        ],
        _said("What is asked. Only quality and perplexity_ratio can let a variant pass; the others can block one."),
    ]  # fmt: skip
    tier: Annotated[Tier, _said("required: it blocks. advisory: it is shown and never decides.")] = "required"
    golden_set: Annotated[str, Field(min_length=1), _said("The golden set's name, * for every one.")] = "*"
    slice: Annotated[
        Name | Annotated[list[Name], Field(min_length=1)] | None,
        _said("quality: slices of the golden set, each a check of its own; * for every one. Left out: the whole set."),
    ] = None
    minimum_items: Annotated[Count | None, _said("quality, perplexity_ratio: the fewest items; left out: the policy's number.")] = None
    margin: Annotated[
        Annotated[float, Field(gt=0)] | None,
        _said("quality: the largest loss allowed, a share of the items; 0.03 is 3 points. Of unbounded scores: in their own unit."),
    ] = None
    scale: Annotated[
        Literal["unbounded"] | None, _said("quality: scores may be any number, as log-likelihoods are; left out: they lie in 0 to 1.")
    ] = None
    better: Annotated[
        Better | None, _said("quality: whether higher or lower scores are better, where the results do not state it.")
    ] = None
    minimum: Annotated[Limit | None, _said("The smallest figure that passes; shares are written 0.25 for 25 %.")] = None
    maximum: Annotated[Limit | None, _said("The largest figure that passes: divergence in nats, perplexity and cost as ratios.")] = None
    at: Annotated[
        Count | Literal["ceiling"] | None,
        _said("speed: the batch at which both are timed, or ceiling for each one's own largest; left out: batch 1."),
    ] = None
    workload: Annotated[
        Annotated[str, Field(pattern=NAME)] | None, _said("speed: name of one of the run's workloads; left out: its own workload.")
    ] = None
    engine: Annotated[Name | None, _said("batching_*: the engine that it is for; left out: every engine of the run.")] = None


class WaiverSection(Section):
    check: Annotated[Text, _said("The check's name as reports print it, for example quality/everyday.")]
    variant: Annotated[str, Field(pattern=NAME), _said("The one candidate that it is for.")]
    owner: Annotated[Text, _said("Who answers for it.")]
    reason: Annotated[Text, _said("Why the check is not to block; every report prints it.")]
    expires: Annotated[
        str, BeforeValidator(_day), Field(json_schema_extra={"format": "date"}),
        _said("The last day on which it holds, by the run's own date."),
    ]  # fmt: skip


class SequentialSection(Section):
    bet: Annotated[
        float, Field(gt=0, alias="lambda"), _said("The bet against a loss of the margin at each item; under 1 / (1 - margin).")
    ]
    seed: Annotated[int, Field(ge=0), _said("Gives the order in which items are asked.")] = 0


class CanarySection(Section):
    items: Annotated[int, Field(ge=16, le=256), _said("Prompts that are asked of each golden set, spread evenly over it.")] = 32
    perplexity_ratio: Annotated[
        float, Field(ge=2), _said("Largest perplexity right after the prompts, as a multiple of the reference's.")
    ] = 10.0
    top1_agreement: Annotated[
        float, Field(ge=0, le=0.9), _said("Least share of the prompts after which the likeliest token is the reference's.")
    ] = 0.5


class PolicySection(Section):
    """What must be shown before a variant may go out, set before anything is measured."""

    schema_version: int
    name: Annotated[str, Field(pattern=NAME)]
    why: Annotated[str, Field(min_length=1), _said("Why these margins and limits: it stands in every report.")]
    require: Annotated[
        Literal["all", "any"], _said("any: the best passing candidate goes forward. all: every candidate must pass.")
    ] = "all"
    correction: Annotated[
        Literal["holm", "fixed_sequence", "none"],
        _said("require any: how several candidates are kept from being several chances to pass by luck."),
    ] = "holm"
    order: Annotated[list[Name], _said("fixed_sequence: the candidates, mildest first; anything but a pass stops it.")] = []
    family_size: Annotated[
        Count | None, _said("holm: how many candidates count, those tried and dropped included; left out: those of the run.")
    ] = None
    alpha: Annotated[float, Field(ge=0.0001, le=0.25), _said("One-sided chance of passing a variant that loses the margin.")] = 0.05
    power: Annotated[Share, _said("Chance with which a variant that loses nothing should pass; for planning.")] = 0.8
    planning_flip_rate: Annotated[Share, _said("Share of items that a good variant is expected to flip.")] = 0.05
    noise_flip_rate: Annotated[
        float, Field(ge=0, lt=1), _said("Share of items that the reference itself flips under other batches; for planning.")
    ] = 0.005
    minimum_items: Annotated[Count, _said("The fewest items a quality check may be decided on.")] = 1
    max_absent_reference: Annotated[
        float, Field(ge=0, lt=1), _said("Largest share of items that the reference may leave unanswered.")
    ] = 0.01
    objective: Annotated[
        Literal["freed_bytes", "ceiling", "tokens_per_s_at_ceiling", "smallest_loss"],
        _said("Which of several passing candidates goes forward."),
    ] = "freed_bytes"
    require_controls: Annotated[bool, _said("A run without a known-bad control is not measured.")] = False
    checks: Annotated[list[CheckSection], Field(min_length=1)]
    waivers: Annotated[list[WaiverSection], _said("Checks that are not to block one variant, until a day.")] = []
    looks: Annotated[
        Annotated[int, Field(ge=2, le=20)] | None,
        _said("How often quality is looked at while items are scored, the last time at all of them; left out: once."),
    ] = None
    looks_seed: Annotated[int, Field(ge=0), _said("looks: gives the order in which items are asked.")] = 0
    sequential: Annotated[
        SequentialSection | None, _said("Quality is looked at after every item, by a test that stays valid whenever one stops.")
    ] = None
    canary: Annotated[
        CanarySection | None,
        _said("Ends the scoring of a candidate that is plainly broken after a few prompts, as a fail; left out: never."),
    ] = None
