"""A quantizer that writes down how its variant is to behave: what the fake engine then plays.

Options: ``weight_bytes``, ``error_rate`` (share of golden items answered wrong), ``step_s`` (seconds of one decode step), ``seed``,
``jitter`` (how much one generation's pace varies, a share, by draws that follow from ``seed``), ``fault`` (one of ``FAULTS``: ways in
which a variant can go wrong), ``fault_while`` (a path: the fault happens only while a file is there).
Of serving: ``kv_tokens`` (tokens of cache there are), ``block_tokens`` (in blocks of how many), ``admit`` (``whole``: a request runs when
its whole length has room; ``prompt``: when its prompt has, and the last that came gives way when room runs out).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from quantgate.errors import ConfigError, EngineError
from quantgate.ports import Progress, QuantizePlan
from quantgate.records import Artifact, Variant

DEFAULTS: Mapping[str, Any] = {
    "weight_bytes": 400_000_000,
    "error_rate": 0.2,
    "step_s": 0.01,
    "jitter": 0.0,
    "seed": 0,
    "fault": "none",
    "fault_while": None,
}
SERVING = ("kv_tokens", "block_tokens", "admit")
"""Options of serving, which stand in the script only where they were given."""
FAULTS = {
    "none": "behaves",
    "refuse": "says that it cannot do what is asked",
    "crash": "fails while it is built",
    "kill": "its process is killed while it answers",
    "hang": "never answers",
    "nonfinite": "answers with NaN",
    "babble": "answers every question with the same letter",
    "cuts": "serves its last request one token short when it serves continuously",
    "strays": "gives another id in the middle of its last request when it serves continuously",
    "cramped": "runs out of memory where a batch of choices has more than CRAMPED_TOKENS prompt tokens",
}
CRAMPED_TOKENS = 100
SCRIPT = "fake-model.json"


class FakeQuantizer:
    """Stores the options of the variant as its artifact."""

    def why_not(self, plan: QuantizePlan) -> str | None:
        options = settings(plan.variant)
        return "the fake quantizer was told to refuse" if fault_of({**DEFAULTS, **options}) == "refuse" else None

    def quantize(self, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
        script = {**DEFAULTS, **(plan.variant.options or {}), "bits": plan.variant.weight_bits}
        if fault_of(script) == "crash":
            raise EngineError("the fake quantizer was told to fail")
        (into / SCRIPT).write_text(json.dumps(script, sort_keys=True) + "\n", encoding="utf-8")
        simulated = plan.variant.role == "known_bad"
        return Artifact(
            variant=plan.variant.name,
            path=str(into),
            format="fake",
            stored_bytes=0,
            sha256="",
            note="a scripted stand-in for a model",
            simulated=simulated,
            simulated_weight_bytes=int(script["weight_bytes"]) if simulated else None,
        )


def settings(variant: Variant) -> Mapping[str, Any]:
    """The options that were given. Raises ``ConfigError`` for one that is not known."""
    options = variant.options or {}
    for key in options:
        _known("option", key, {**DEFAULTS, **dict.fromkeys(SERVING)}, variant)
    _known("fault", options.get("fault", "none"), FAULTS, variant)
    return options


def fault_of(script: Mapping[str, Any]) -> str:
    """The fault that a script asks for now."""
    waits = script["fault_while"] is not None and not Path(script["fault_while"]).exists()
    return "none" if waits else str(script["fault"])


def _known(what: str, found: object, allowed: Mapping[str, object], variant: Variant) -> None:
    if found in allowed:
        return
    nearest = get_close_matches(str(found), allowed, n=1)
    hint = f"did you mean '{nearest[0]}'? " if nearest else ""
    raise ConfigError(
        f"variant '{variant.name}': unknown {what} '{found}': {hint}allowed are {', '.join(sorted(allowed))}"
    )
