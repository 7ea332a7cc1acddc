"""Speed through the whole chain on fakes: A/A never fails, a slower variant never passes, and what was timed is not lost."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import pytest

import inline
from chain import CONTROL, REFERENCE, Chain, candidate, report_of
from quantgate import worker
from quantgate.devices.fake import FakeDevice
from quantgate.engines.fake import FakeSession
from quantgate.errors import WorkerDied
from quantgate.quantizers.fake import DEFAULTS
from quantgate.records import CheckRule, DeviceConfig, SpeedPoint, SpeedRun, Timed, Workload
from quantgate.stages import measure
from quantgate.stages.interleave import Hands, Job, Who, interleave
from quantgate.stages.quadruples import losses
from quantgate.stages.sweep import Target
from quantgate.stats.speed import decide, look_sizes
from sessions import quiet

RULE = {"kind": "min_speed_ratio", "minimum": 0.95, "at": 1}
QUALITY = {"kind": "quality", "margin": 0.06}
JITTER = 0.02
AGAIN = {"name": "again", "role": "identity", "quantizer": "fake", "options": {"weight_bytes": 400_000_000, "jitter": JITTER}}
BASE = {**REFERENCE, "options": {"weight_bytes": 400_000_000, "jitter": JITTER, "seed": 0}}


def raced(slower: float, seed: int) -> str:
    """Two fakes with 2 % of noise timed against each other by the real loop; the outcome at a margin of 5 %."""
    work, rule = Workload(prompt_tokens=8, output_tokens=16), CheckRule(kind="min_speed_ratio", minimum=0.95, at=1)
    steps: dict[Who, float] = {"reference": 0.01, "variant": 0.01 * (1 + slower)}
    sides: dict[Who, tuple[FakeSession, FakeDevice]] = {}
    for number, (who, step_s) in enumerate(steps.items()):
        device = FakeDevice(DeviceConfig(kind="fake"))
        script = {**DEFAULTS, "bits": None, "jitter": JITTER, "step_s": step_s, "seed": 2 * seed + number}
        sides[who] = (FakeSession(script, device, None), device)

    def time_one(who: Who, workload: Workload, batch: int, limit_s: float | None) -> Timed:
        job = measure.Job(workload=workload, batch_size=batch, warmups=0, seed=1, limit_s=limit_s)
        return measure.time_batch(*sides[who], job, quiet)

    point, sizes = SpeedPoint(batch_size=1, reference_batch=1), look_sizes(14)
    job = Job(targets=(Target(point=point, least=4, rules=(rule,)),), workloads={"main": work}, level=0.05, budget_s=None)
    hands = Hands(time_one=time_one, renew=lambda: None, keep=lambda run: None, clock=lambda: 0.0, progress=lambda where, number: None)
    run = interleave(job, SpeedRun(variant="x", generations=(), looks=sizes), hands)
    found = losses(run, point, rule.kind)
    assert not isinstance(found, str)
    return decide(found, margin=-log(0.95), alpha=0.05, sizes=sizes).outcome


def test_ten_comparisons_of_a_model_with_itself() -> None:
    """None is judged a fail, and on so quiet a machine most pass."""
    outcomes = [raced(0.0, seed) for seed in range(10)]
    assert "fail" not in outcomes and outcomes.count("pass") >= 8


def test_a_step_that_takes_15_percent_longer_never_passes() -> None:
    """Ten of ten are judged fail or inconclusive."""
    assert "pass" not in [raced(0.15, seed) for seed in range(10)]


def test_a_policy_that_checks_speed_decides(chain: Chain) -> None:
    """A fast candidate passes; the same with steps 15 % longer is blocked with exit code 1; the noise floor is told."""
    chain.policy(checks=[QUALITY, RULE, {"kind": "max_ttft_ratio", "maximum": 1.1}])
    fast = candidate(jitter=JITTER, seed=5)
    done = chain.run(variants=[BASE, AGAIN, fast, CONTROL])
    assert done.code == 0, done.out
    row = next(one for one in report_of(chain.last)["measurements"] if one["variant"] == "int8")
    first = row["speed"][0]
    assert first["quadruples"] >= 4 and first["ratio_low"] < first["ratio_to_reference"] < first["ratio_high"]
    assert any("Speed noise floor at batch 1: again" in one for one in report_of(chain.last)["sentences"])
    assert "over 4 quadruples" in (chain.last / "report.md").read_text() and "CV, %" in (chain.last / "report.html").read_text()
    slow = candidate(jitter=JITTER, seed=5, step_s=0.0118)
    blocked = chain.run(variants=[BASE, slow, CONTROL])
    assert blocked.code == 1 and "the reference's decode tokens per second at batch 1, at most 0.8" in " ".join(blocked.out.split())


def test_without_a_check_on_speed_a_slow_variant_passes(chain: Chain) -> None:
    """It frees memory, which was all that was asked for; its control is not timed."""
    done = chain.run(variants=[REFERENCE, candidate(step_s=0.05), CONTROL])
    assert done.code == 0, done.out


def test_each_side_at_its_own_ceiling(chain: Chain) -> None:
    """With room for more rows the variant's tokens per second there are compared with the reference's at its own."""
    chain.policy(checks=[QUALITY, {"kind": "min_speed_ratio", "minimum": 0.9, "at": "ceiling"}])
    work = {"prompt_tokens": 64, "output_tokens": 64, "batch_sizes": [1], "max_batch": 64, "fill_repeats": 1}
    done = chain.run(workload=work, timing={"sweep": False})
    assert done.code == 0, done.out
    row = next(one for one in report_of(chain.last)["measurements"] if one["variant"] == "int8")
    assert row["at_ceiling"]["quadruples"] == 4 and row["ratio_at_ceiling"] == row["at_ceiling"]["ratio_to_reference"]


def test_other_workloads_and_a_budget_that_ends(chain: Chain) -> None:
    """Points of another workload are timed beside the run's own; what the budget does not hold is told in the report."""
    extra = [{"name": "long", "prompt_tokens": 32, "output_tokens": 64}]
    assert chain.run(workloads=extra).code == 0
    row = next(one for one in report_of(chain.last)["measurements"] if one["variant"] == "int8")
    assert {one["workload"] for one in row["other_speed"]} == {"long"} and row["speed_left_out"] == []
    assert chain.run(workloads=extra, timing={"budget": "1s"}).code == 0
    row = next(one for one in report_of(chain.last)["measurements"] if one["variant"] == "int8")
    assert row["speed_left_out"] and all("budget" in one["because"] for one in row["speed_left_out"])
    shown = chain.cli("show", chain.last.name, "--variant", "int8", "--reports", chain.reports).out
    assert "not timed, or not as often as asked: " in shown and "speed, latency" in shown


def test_timing_goes_on_after_an_interruption(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted in the third quadruple: with --resume the first two are not timed again."""
    chain.policy(checks=[QUALITY, RULE])
    whole, asked = measure.time_batch, [0]

    def interrupted(*arguments: Any) -> Timed:
        asked[0] += 1
        if asked[0] == 10:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(worker.measure, "time_batch", interrupted)
    assert chain.run(timing={"sweep": False}).code == 130
    assert chain.cli("run", chain.root / "run.yaml", "--resume", chain.last.name).code == 0
    again = asked[0]
    row = next(one for one in report_of(chain.last)["measurements"] if one["variant"] == "int8")
    timed = sum(one["quadruples"] for one in row["speed"])
    assert again == 10 + 4 * timed - 8 and timed == 6  # four at batch 1, one each at batch 2 and at the ceiling of 4
    assert len(chain.runs) == 1


def dying(monkeypatch: pytest.MonkeyPatch, batches: set[int]) -> None:
    """The process that is to time one of these batches dies."""
    whole = inline.InlineWorker.ask

    def ask(worker: inline.InlineWorker, request: dict[str, Any], progress: Any) -> Any:
        if request["action"] == "time" and request["batch_size"] in batches:
            raise WorkerDied("the process was killed (signal 9)")
        return whole(worker, request, progress)

    monkeypatch.setattr(inline.InlineWorker, "ask", ask)


def test_a_process_that_dies_at_one_batch_costs_that_batch(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, a new process is started, and the others are timed."""
    dying(monkeypatch, {2})
    assert chain.run().code == 0
    row = next(one for one in report_of(chain.last)["measurements"] if one["variant"] == "int8")
    assert [one["batch_size"] for one in row["speed"]] == [1, 4] and len(row["speed_left_out"]) == 1
    assert row["speed_left_out"][0]["because"].startswith("the reference lost its process at batch 2: the process was killed")


def test_a_process_that_dies_at_every_batch_is_a_failure(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variant is given up, and what was not measured does not pass."""
    dying(monkeypatch, {1, 2, 4})
    done = chain.run()
    assert done.code == 4 and "time did not finish" in " ".join(done.out.split()), done.out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"timing": {"budget": "20"}}, "timing.budget: '20' is not a duration; write a number with s, min or h"),
        ({"timing": {"budget": 20}}, "timing.budget: '20' is not a duration"),
        ({"timing": {"most_quadruples": 3}}, "timing.most_quadruples: must be greater than or equal to 4; found 3"),
        ({"timing": {"budgets": "5min"}}, "unknown key 'budgets': did you mean 'budget'?"),
        ({"workloads": [{"name": "main", "prompt_tokens": 8, "output_tokens": 8}]}, "the run's own workload has the name 'main' already"),
        ({"workloads": [{"name": "chat", "prompt_tokens": 8}]}, "key 'workloads.0.output_tokens' is missing"),
    ],
)
def test_bad_timing_is_refused(chain: Chain, changes: dict[str, Any], words: str) -> None:
    """One line: what was found, where, what is allowed; exit code 2."""
    done = chain.run(**changes)
    assert done.code == 2 and words in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({**RULE, "workload": "chat"}, "the run has no workload 'chat': known are main"),
        ({**RULE, "at": "ceiling", "workload": "chat"}, "a ceiling is confirmed at the lengths of the run's own workload only"),
        ({**RULE, "maximum": 1.9}, "a check of kind min_speed_ratio has no 'maximum'; it takes minimum"),
        ({"kind": "min_speed_ratio"}, "a check of kind min_speed_ratio needs 'minimum'"),
        ({**RULE, "minimum": 0}, "minimum: a ratio must be greater than 0"),
        ({**RULE, "golden_set": "sums"}, "speed is not measured on golden sets"),
        ({"kind": "freed_share", "minimum": 0.2, "at": 1}, "'at' is for checks on speed"),
        ({"kind": "min_sped_ratio", "minimum": 0.9}, "did you mean 'min_speed_ratio'?"),
    ],
)
def test_bad_rules_are_refused(chain: Chain, rule: dict[str, Any], words: str) -> None:
    """With the line of the policy and what is allowed."""
    chain.policy(checks=[QUALITY, rule])
    done = chain.run()
    assert done.code == 2 and words in done.err and "policy.yaml:" in done.err


def test_a_policy_says_what_it_asks_of_speed(chain: Chain, tmp_path: Path) -> None:
    """In plain words, with its place."""
    path = chain.policy(checks=[QUALITY, {**RULE, "at": "ceiling"}, {"kind": "max_itl_p99_ratio", "maximum": 1.2, "at": 8}])
    said = " ".join(chain.cli("policy", "explain", path).out.split())
    assert "it is shown to decode at least at 0.95x the reference's speed, each at its own batch ceiling" in said
    assert "the 99th percentile of its waits between tokens is shown to be at most 1.2x the reference's, both at batch 8" in said
    assert "speed_ratio/ceiling: quadruples after which a variant that loses nothing passes with probability 0.8:" in said
    assert "runs vary by 1 %: 4 - runs vary by 2 %: 4 - runs vary by 3 %: 6 - runs vary by 5 %: 14 - runs vary by 10 %: 49" in said

