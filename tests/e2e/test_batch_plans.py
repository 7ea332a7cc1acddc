"""One batch plan for everybody, also where one variant has no memory for it."""

from __future__ import annotations

import json
from typing import Any

from chain import CONTROL, REFERENCE, Chain, candidate, report_of, verdicts_of

IDENTITY = {**REFERENCE, "name": "again", "role": "identity"}


def sheets_of(chain: Chain) -> dict[str, dict[str, Any]]:
    """The sheet that each variant was judged by, from report-independent evidence."""
    stored = sorted((chain.last / "variants").glob("*/score/sums.json"))
    return {path.parts[-3]: json.loads(path.read_text(encoding="utf-8")) for path in stored}


def budgets_of(chain: Chain) -> dict[str, int]:
    """Token budget by variant, as stored."""

    def found(value: Any) -> int | None:
        if isinstance(value, dict):
            if "batch_plan" in value:
                return int(value["batch_plan"]["token_budget"])
            return next((one for each in value.values() if (one := found(each)) is not None), None)
        return None

    return {name: found(sheet) or 0 for name, sheet in sheets_of(chain).items()}


def test_a_variant_without_memory_for_the_plan_changes_it_for_all(chain: Chain) -> None:
    """The variant's budget is halved until it fits; the reference and all others are then scored under it, and the verdict stands."""
    done = chain.run(variants=[REFERENCE, IDENTITY, candidate("int8", fault="cramped"), candidate("int6", error_rate=0.203), CONTROL])
    assert done.code == 0, done.out + done.err
    assert verdicts_of(chain.last) == {"float32": "pass", "again": "pass", "int8": "pass", "int6": "pass", "int2": "fail"}
    found = budgets_of(chain)
    assert len(set(found.values())) == 1 and set(found) == {"float32", "again", "int8", "int6", "int2"}
    assert 0 < found["float32"] < 2048
    assert "another variant had no memory for more" in done.err


def test_enough_memory_scores_once(chain: Chain) -> None:
    """The asked plan stays, and nobody is scored again."""
    done = chain.run()
    assert set(budgets_of(chain).values()) == {2048}
    assert "another variant had no memory" not in done.err


def test_a_stored_run_with_a_smaller_plan_is_judged_alike(chain: Chain) -> None:
    """The smaller plan is in the stored evidence: a later run with the same config ends the same, without being told."""
    variants = [REFERENCE, candidate("int8", fault="cramped"), CONTROL]
    first = chain.run(variants=variants)
    before = budgets_of(chain)
    again = chain.run(variants=variants)
    assert (first.code, again.code) == (0, 0)
    assert budgets_of(chain) == before
    assert report_of(chain.last)["outcome"] == "pass"
