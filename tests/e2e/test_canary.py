"""The canary on fakes: a broken candidate is not scored and fails, the others go on, and nothing else of the run changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate, report_of, reused_of, stages_of, verdicts_of

BROKEN = candidate("int4", bits=4, fault="babble", error_rate=0.21)


def run(chain: Chain, *variants: dict[str, Any], rule: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A run of these beside reference and control, with a canary unless told otherwise."""
    chain.policy(**({"canary": {} if rule is None else rule} | changes))
    done = chain.run(variants=[REFERENCE, *variants, CONTROL])
    assert "Traceback" not in done.err
    return chain.last


def scores(folder: Path, variant: str) -> Any:
    """The sheet's rows as kept."""
    path = folder / "variants" / variant / "scores" / "sums.jsonl"
    return path.read_text(encoding="utf-8") if path.exists() else None


def test_a_broken_candidate_is_stopped_and_the_run_goes_on(chain: Chain) -> None:
    """It has no score sheet, fails by the canary alone, and the good one goes forward as it would without it."""
    folder = run(chain, candidate(), BROKEN)
    assert verdicts_of(folder) == {"float32": "pass", "int8": "pass", "int4": "fail", "int2": "fail"}
    report = report_of(folder)
    assert (report["exit_code"], report["chosen"]) == (0, "int8")
    assert scores(folder, "int4") is None and scores(folder, "int8")
    assert stages_of(folder)["int4"][-1] == "canary sums"
    bad = next(one for one in report["verdicts"] if one["variant"] == "int4")
    assert "likeliest token at 0.0 %" in bad["because"] and "240 items of sums were spared" in bad["because"]
    assert any("int4 is broken" in one for one in report["sentences"])
    assert not any("decides nothing" in one for one in report["sentences"])
    for page in ("report.html", "report.md"):
        assert "is broken: at 32 prompts" in (folder / page).read_text(encoding="utf-8")
    assert "is broken: at 32 prompts" in chain.cli("show", folder, "--variant", "int4").out


def test_a_run_of_broken_candidates_alone_ends_as_a_fail(chain: Chain) -> None:
    """Exit code 1, as with all its items scored; the control was scored whole and counts."""
    folder = run(chain, BROKEN)
    assert report_of(folder)["exit_code"] == 1
    control = next(one for one in report_of(folder)["verdicts"] if one["variant"] == "int2")
    assert control["control_ok"] is True
    assert len(scores(folder, "int2").splitlines()) == 240


def test_a_babbling_control_is_scored_whole(chain: Chain) -> None:
    """Its fail must come from the checks; the canary is not asked of it."""
    chain.policy(canary={})
    worse = {**CONTROL, "options": {"fault": "babble", "error_rate": 0.97}}
    done = chain.run(variants=[REFERENCE, candidate(), worse])
    assert done.code == 0, done.out + done.err
    assert len(scores(chain.last, "int2").splitlines()) == 240
    assert "canary sums" not in stages_of(chain.last)["int2"]


def test_sane_candidates_are_scored_as_without_a_canary(chain: Chain) -> None:
    """Item for item the same sheets; a coarse candidate that fails is scored whole as well."""
    coarse = candidate("int4", bits=4, error_rate=0.4)
    folder = run(chain, candidate(), coarse)
    other = chain.copy(chain.root / "other")
    other.policy()
    other.run("--fresh", variants=[REFERENCE, candidate(), coarse, CONTROL])
    assert verdicts_of(folder)["int4"] == "fail"
    for name in ("float32", "int8", "int4", "int2"):
        assert scores(folder, name) == scores(other.last, name)


def test_readings_are_kept_and_thresholds_are_not_in_them(chain: Chain) -> None:
    """A second run asks nothing again; under thresholds that let the candidate on, it is scored now."""
    run(chain, BROKEN)
    folder = run(chain, BROKEN)
    assert "canary sums" in reused_of(folder)["int4"]
    folder = run(chain, BROKEN, rule={"top1_agreement": 0})
    assert "canary sums" in reused_of(folder)["int4"]
    assert len(scores(folder, "int4").splitlines()) == 240
    assert verdicts_of(folder)["int4"] == "fail"


def test_judged_again_without_a_canary_it_is_not_measured(chain: Chain) -> None:
    """A stop is no evidence for a policy that would have scored on; under the same one the verdict is the same."""
    folder = run(chain, BROKEN)
    chain.policy("again.yaml", canary={})
    assert chain.cli("judge", folder, "--policy", chain.root / "again.yaml").code == 1
    chain.policy("plain.yaml")
    done = chain.cli("judge", folder, "--policy", chain.root / "plain.yaml")
    assert done.code == 4
    said = " ".join(done.out.split())
    assert "a canary stopped its scoring, and this policy has no canary; score it in full" in said


def test_a_set_that_is_hardly_larger_than_the_canary_is_scored(chain: Chain) -> None:
    """240 items are under twice 256 prompts: nobody is asked, and the candidate fails by its scores."""
    folder = run(chain, BROKEN, rule={"items": 256})
    assert "canary sums" not in stages_of(folder)["int4"]
    assert verdicts_of(folder)["int4"] == "fail"


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        ({"items": 4}, "items"),
        ({"perplexity_ratio": 1.0}, "perplexity_ratio"),
        ({"top1_agreement": 0.99}, "top1_agreement"),
        ({"item": 32}, "did you mean 'items'"),
    ],
)
def test_a_canary_that_could_stop_sane_ones_is_refused(chain: Chain, rule: dict[str, Any], what: str) -> None:
    """Too few prompts, or limits that quantization itself reaches, are a mistake in the policy: exit code 2."""
    chain.policy(canary=rule)
    done = chain.run()
    assert (done.code, what in done.err) == (2, True)


def test_no_waiver_reaches_the_canary(chain: Chain) -> None:
    """A candidate that was not scored cannot go out on somebody's word."""
    waiver = {"check": "canary", "variant": "int4", "owner": "A", "reason": "r", "expires": "2999-12-31"}
    chain.policy(canary={}, waivers=[waiver])
    done = chain.run(variants=[REFERENCE, BROKEN, CONTROL])
    assert done.code == 2 and "canary" in done.err


def test_the_policy_is_explained(chain: Chain) -> None:
    """In plain words, with its numbers; JSON Schema and loader agree on the keys."""
    path = chain.policy(canary={"items": 48})
    out = " ".join(chain.cli("policy", "explain", path).out.split())
    assert "where 48 prompts of a golden set show it broken: more than 10 times the reference's perplexity" in out
    schema = json.loads(chain.cli("policy", "schema").out)
    assert set(schema["$defs"]["CanarySection"]["properties"]) == {"items", "perplexity_ratio", "top1_agreement"}
