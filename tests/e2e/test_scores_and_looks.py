"""Graded scores, perplexities and early looks, from files or a run on fakes to the exit code; decided as the statistics decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foreign
from chain import CONTROL, REFERENCE, Chain, Done, candidate, report_of
from quantgate import rundir
from quantgate.records import Evidence, GoldenReference
from quantgate.stages import early
from quantgate.stats.graded import decide_scores
from quantgate.stats.ratios import perplexity_ratio
from quantgate.stats.sequential import anytime, planned_looks

ITEMS = 400
F1 = {"kind": "quality", "margin": 0.03, "better": "higher"}
RATIO = {"kind": "perplexity_ratio", "maximum": 1.05}
HALF = {"kind": "quality", "margin": 0.5, "scale": "unbounded", "better": "higher"}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """An empty folder to judge files in."""
    monkeypatch.chdir(tmp_path)
    return Chain(root=tmp_path)


def judge(bench: Chain, reference: Path, other: Path, *checks: dict[str, Any], words: tuple[str, ...] = (), **fields: Any) -> Done:
    foreign.policy(Path("policy.yaml"), checks=list(checks), **fields)
    files = ("--reference", str(reference), "--candidate", str(other))
    return bench.cli("judge", *files, "--policy", "policy.yaml", "--out", "out", *words)


def check(kind: str = "quality", folder: Path = Path("out")) -> dict[str, Any]:
    """The candidate's check of that kind."""
    return next(one for one in report_of(folder)["verdicts"][1]["checks"] if one["name"].startswith(kind))


def scores(shift: float, seed: int = 1) -> tuple[list[float], list[float]]:
    """Graded scores of a reference and of a variant that loses so much in the mean."""
    rng = np.random.default_rng(seed)
    base = rng.beta(6, 3, ITEMS)
    other = np.clip(base - shift + rng.normal(0, 0.03, ITEMS), 0, 1)
    return [float(one) for one in base], [float(one) for one in other]


# ---------------------------------------------------------------------------------------------- graded


@pytest.mark.parametrize(("shift", "code"), [(0.0, 0), (0.1, 1), (0.029, 3)])
def test_graded_tables(bench: Chain, shift: float, code: int) -> None:
    """Exit code, bounds and p-value are those of the graded rule on the losses; report and pages are written."""
    base, other = scores(shift)
    done = judge(bench, foreign.table(Path("a.jsonl"), base), foreign.table(Path("b.jsonl"), other), F1)
    assert done.code == code, done.out + done.err
    wanted = decide_scores(losses=np.array(base) - np.array(other), margin=0.03, alpha=0.05).decision
    made = check()
    assert made["outcome"] == wanted.outcome
    assert (made["estimate"], made["bound"], made["p_value"]) == pytest.approx((wanted.estimate, wanted.upper, wanted.p_pass), rel=1e-9)
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "Mean score, %" in page and "Moved, in score" in page and "points of score" in page
    rows = report_of(Path("out"))
    assert rows["quality"][1]["scale"] == "unit" and rows["quality"][1]["mcnemar_p"] is None
    worst = rows["flips"][0]
    assert worst["direction"] == "regression" and worst["reference_score"] > worst["variant_score"]
    severities = [one["severity"] for one in rows["flips"] if one["direction"] == "regression"]
    assert severities == sorted(severities, reverse=True)


@pytest.mark.parametrize(
    ("metric", "code", "words"), [("f1", 0, "points of score"), ("ter", 1, "points of score"), ("wer", 4, "better: higher")]
)
def test_the_direction_of_a_metric_of_the_harness(bench: Chain, metric: str, code: int, words: str) -> None:
    """What the harness declares is known, F1 upward and TER downward; a metric that it does not have must be said in the policy."""
    base, other = scores(-0.1)
    rows = [[{**foreign.lm_eval_row(n, 1, shift=of), "metrics": [metric], metric: one} for n, one in enumerate(values)]
            for of, values in ((0.0, base), (0.1, other))]  # fmt: skip
    files = [foreign.lines(Path(name), one) for name, one in zip(("a.jsonl", "b.jsonl"), rows, strict=True)]
    done = judge(bench, *files, {"kind": "quality", "margin": 0.03}, words=("--metric", metric, "--chance", "0"))
    assert done.code == code, done.out + done.err
    assert words in check()["because"]


def test_unbounded_scores_need_to_be_named(bench: Chain) -> None:
    """Log-likelihoods of a table: not measured with what to write; with it, decided in their own unit."""
    rng = np.random.default_rng(2)
    base = rng.normal(-30, 5, ITEMS)
    other = base - np.abs(rng.normal(0.05, 0.1, ITEMS))
    files = foreign.table(Path("a.jsonl"), base.tolist()), foreign.table(Path("b.jsonl"), other.tolist())
    done = judge(bench, *files, F1)
    assert done.code == 4
    assert "write 'scale: unbounded' into the check" in check()["because"]
    done = judge(bench, *files, HALF)
    assert done.code == 0, done.out + done.err
    wanted = decide_scores(losses=base - other, margin=0.5, alpha=0.05, bounded=False).decision
    assert check()["bound"] == pytest.approx(wanted.upper, rel=1e-9)
    assert "loss, in score" in Path("out/report.html").read_text(encoding="utf-8")
    assert "in score" in Path("out/report.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------- perplexity


def rolling(path: Path, nats: Any, words: Any) -> Path:
    """Samples of a task of rolling log-likelihoods as lm-evaluation-harness 0.4.13 writes them: a pair for each metric."""
    rows = [
        {
            "doc_id": place,
            "doc": {"page": f"Text {place}"},
            "target": f"Text {place}",
            "arguments": {"gen_args_0": {"arg_0": f"Text {place}"}},
            "resps": [[str(-one)]],
            "filtered_resps": [str(-one)],
            "filter": "none",
            "metrics": ["word_perplexity", "byte_perplexity", "bits_per_byte"],
            **{f"{field}_hash": foreign.digest(f"{field} {place}") for field in ("doc", "prompt", "target")},
            "word_perplexity": [-one, weight],
            "byte_perplexity": [-one, 6 * weight],
            "bits_per_byte": [-one, 6 * weight],
        }
        for place, (one, weight) in enumerate(zip(nats, words, strict=True))
    ]
    return foreign.lines(path, rows)


def texts(change: float) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(4)
    words = rng.integers(100, 900, 60)
    base = words * rng.normal(3.0, 0.2, 60)
    each = words * rng.normal(0.0, 0.01, 60)
    each += words * (change - each.sum() / words.sum())  # exactly so much a word in all
    return base, base + each, [int(one) for one in words]


@pytest.mark.parametrize(("change", "code"), [(0.01, 0), (0.2, 1), (0.0488, 3)])
@pytest.mark.parametrize("metric", [None, "byte_perplexity"])
def test_rolling_log_likelihoods_of_the_harness(bench: Chain, change: float, code: int, metric: str | None) -> None:
    """A perplexity is total over total, by word or by byte as the file counts; the decision is that of the ratio of sums."""
    base, other, words = texts(change * (6 if metric else 1))
    files = rolling(Path("a.jsonl"), base, words), rolling(Path("b.jsonl"), other, words)
    done = judge(bench, *files, RATIO, words=("--metric", metric) if metric else (), minimum_items=30)
    assert done.code == code, done.out + done.err
    tokens = [one * (6 if metric else 1) for one in words]
    wanted = perplexity_ratio(reference_nats=base, variant_nats=other, tokens=tokens).decide(limit=1.05, alpha=0.05)
    made = check("perplexity_ratio")
    assert (made["outcome"], made["n"]) == (wanted.outcome, 60)
    assert (made["estimate"], made["bound"]) == pytest.approx((wanted.estimate, wanted.upper), rel=1e-9)
    assert f"perplexity per {'byte' if metric else 'word'}" in made["because"]


def test_rows_of_a_ratio_show_it_and_no_percent(bench: Chain) -> None:
    """Terminal, Markdown and HTML show the ratio that decided with its bound; a sum of nats is never a share of right answers."""
    base, other, words = texts(0.01)
    assert judge(bench, rolling(Path("a.jsonl"), base, words), rolling(Path("b.jsonl"), other, words), RATIO, minimum_items=30).code == 0
    bound = f"{check('perplexity_ratio')['bound']:.4f}"[:5]
    again = bench.cli("judge", "--reference", "a.jsonl", "--candidate", "b.jsonl", "--policy", "policy.yaml", "--out", "out").out
    assert "loss [upper bound], x perplexity" in again and f"1.0101 [{bound}" in again
    assert "Loss, x perplexity" in Path("out/report.md").read_text(encoding="utf-8")
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "At most, x perplexity" in page and "1.0101" in page
    assert all(row["accuracy"] is None and not row["slices"] for row in report_of(Path("out"))["quality"])


def test_rolling_files_that_do_not_fit_together(bench: Chain) -> None:
    """Another number of words, NaN, or a text that is missing: not measured; a pair that is none: the file is refused."""
    base, other, words = texts(0.0)
    whole = rolling(Path("a.jsonl"), base, words)
    assert judge(bench, whole, rolling(Path("b.jsonl"), other, [words[0] + 1, *words[1:]]), RATIO, minimum_items=30).code == 4
    assert "not comparable: item 0 has" in check("perplexity_ratio")["because"]
    assert judge(bench, whole, rolling(Path("b.jsonl"), [float("nan"), *other[1:]], words), RATIO, minimum_items=30).code == 4
    assert judge(bench, whole, rolling(Path("b.jsonl"), other[1:], words[1:]), RATIO, minimum_items=30).code == 4
    rows = [json.loads(line) for line in whole.read_text(encoding="utf-8").splitlines()]
    for odd in ([1.0], [-3.0, "12"], [-3.0, True], ["-3.0", 12], [-3.0, -1]):
        done = judge(bench, whole, foreign.lines(Path("b.jsonl"), [{**rows[0], "word_perplexity": odd}, *rows[1:]]), RATIO)
        assert (done.code, "b.jsonl:1: word_perplexity: found" in done.err) == (2, True), done.err


# ---------------------------------------------------------------------------------------------- early looks


def test_files_under_early_looks(bench: Chain) -> None:
    """Both modes on whole files: outcome and items are those of the statistics in the seeded order."""
    values = [foreign.scores(), foreign.scores(b=6, c=6)]
    files = [foreign.table(Path(name), one) for name, one in zip(("a.jsonl", "b.jsonl"), values, strict=True)]
    losses = dict(zip([f"i{n:05d}" for n in range(ITEMS)], np.subtract(*map(np.array, values)).tolist(), strict=True))
    assert judge(bench, *files, {"kind": "quality", "margin": 0.06}, sequential={"lambda": 0.8, "seed": 3}).code == 0
    row = report_of(Path("out"))["golden_sets"][0]
    golden = GoldenReference(
        name=row["name"], version=row["version"], sha256=row["sha256"], item_ids=tuple(losses), chance_level=0.0
    )
    wanted = anytime([losses[one] for one in early.order(golden, 3)], margin=0.06, alpha=0.05, bet=0.8, fewest=100)
    made = check()
    assert (made["outcome"], made["items_used"]) == (wanted.outcome, wanted.items)
    assert judge(bench, *files, {"kind": "quality", "margin": 0.06}, looks=3).code == 0
    looks = planned_looks(early.look_sizes(ITEMS, 3), alpha=0.05)
    made = check()
    assert made["items_used"] in [one.items for one in looks]
    assert made["level"] == pytest.approx(1 - next(one.level for one in looks if one.items == made["items_used"]), rel=1e-9)


EARLY = {"margin": 0.1, "kind": "quality"}
FREED = {"kind": "freed_share", "minimum": 0.25}


@pytest.mark.parametrize("how", [{"looks": 4}, {"sequential": {"lambda": 0.9}}])
def test_a_run_stops_scoring_on_a_clear_pass(chain: Chain, how: dict[str, Any]) -> None:
    """The good candidate is not asked everything, the reference and the control are; the report says so, and judging again agrees."""
    chain.policy(checks=[EARLY, FREED], **how)
    done = chain.run("--allow-underpowered")
    assert done.code == 0, done.out + done.err
    evidence = rundir.get(chain.last / "evidence.json", kind="evidence", key=None, record=Evidence)
    assert evidence is not None
    asked = {one.variant.name: (len(one.sheets[0].items), one.sheets[0].stopped) for one in evidence.variants}
    assert (asked["float32"], asked["int2"]) == ((240, None), (240, None))
    items, stop = asked["int8"]
    assert stop is not None and stop.asked == items < 240
    assert f"int8: scoring stopped after {items} of 240 items of sums" in done.out.replace("\n", " ")
    assert check(folder=chain.last)["n"] == items
    assert chain.cli("judge", chain.last, "--policy", chain.root / "policy.yaml").code == 0


def test_an_early_stop_is_no_pass_for_a_policy_that_looks_once(chain: Chain) -> None:
    """The same evidence under a policy without early looks is not measured, and nothing is promoted from it."""
    chain.policy(checks=[EARLY, FREED], looks=4)
    assert chain.run("--allow-underpowered").code == 0
    other = chain.policy("once.yaml", checks=[EARLY, FREED])
    done = chain.cli("judge", chain.last, "--policy", other)
    assert done.code == 4
    assert "this policy does not look early" in done.out.replace("\n", " ")
    assert chain.cli("judge", chain.last, "--policy", chain.policy()).code == 4


def test_a_candidate_that_loses_is_scored_to_its_end(chain: Chain) -> None:
    """A fail does not stop the scoring."""
    chain.policy(checks=[EARLY, FREED], looks=4)
    done = chain.run("--allow-underpowered", variants=[REFERENCE, candidate("int8", error_rate=0.6), CONTROL])
    assert done.code == 1, done.out
    evidence = rundir.get(chain.last / "evidence.json", kind="evidence", key=None, record=Evidence)
    assert evidence is not None
    assert [len(one.sheets[0].items) for one in evidence.variants] == [240, 240, 240]


def test_a_set_on_which_noise_would_block_is_refused_before_anything_runs(chain: Chain) -> None:
    """The reference itself would not pass often enough: exit 2 with the probability, unless it is allowed."""
    chain.policy(noise_flip_rate=0.2, planning_flip_rate=0.01)
    done = chain.run()
    assert done.code == 2, done.out
    assert "the reference itself, asked again under other batches" in done.err and "noise flip rate 20.0 %" in done.err
    assert not chain.reports.exists()
    assert chain.run("--allow-underpowered").code == 0


def test_the_rule_on_files_keeps_its_level(bench: Chain) -> None:
    """Thirty pairs of files whose mean loss is the margin: no more pass than a level of 5 % explains."""
    rng, passed = np.random.default_rng(9), 0
    for _ in range(30):
        base = rng.uniform(0.3, 0.9, 120)
        other = base - np.where(rng.random(120) < 0.5, rng.uniform(0, 0.12, 120), 0.0)
        files = foreign.table(Path("a.jsonl"), base.tolist()), foreign.table(Path("b.jsonl"), other.tolist())
        passed += judge(bench, *files, F1).code == 0
    assert passed <= 5
