"""Public bug reports, part M, on results of other tools: gates that fail open where a file lacks something."""

from __future__ import annotations

from pathlib import Path

import pytest

import foreign
from chain import Chain, Done, report_of
from foreign import scores


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Judge two files under a policy of six points."""
    monkeypatch.chdir(tmp_path)
    foreign.policy(Path("policy.yaml"), minimum_items=1)
    return Judge(Chain(root=tmp_path))


class Judge:
    """The command on two files."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    def __call__(self, reference: Path, candidate: Path, *words: str) -> Done:
        files = ("--reference", str(reference), "--candidate", str(candidate))
        return self.chain.cli("judge", *files, "--policy", "policy.yaml", "--out", "out", *words)


def test_ten_items_without_a_flip_show_nothing(judge: Judge) -> None:
    """NeMo Evaluator: no discordant pair gives the interval [0, 0] and passes at n = 10. Here ten items are inconclusive."""
    done = judge(foreign.nemo(Path("a"), [1.0] * 10), foreign.nemo(Path("b"), [1.0] * 10))
    assert done.code in (3, 4)
    check = report_of(Path("out"))["verdicts"][1]["checks"][-1]
    assert check["outcome"] != "pass"


def test_items_that_crashed_do_not_vanish(judge: Judge) -> None:
    """NeMo Evaluator: only ids on both sides are paired, so what crashed is gone. Here 40 of 400 that are missing block."""
    values = [float(one) for one in scores()]
    assert judge(foreign.nemo(Path("a"), values), foreign.nemo(Path("b"), values[:360])).code == 1


def test_a_metric_that_is_absent_is_not_skipped(judge: Judge) -> None:
    """Olive: a metric that the result does not hold is skipped. Here it is refused, on either side."""
    whole = foreign.lm_eval(Path("a.jsonl"), scores())
    part = foreign.lines(
        Path("b.jsonl"), [foreign.lm_eval_row(n, one, metrics=["acc"]) for n, one in enumerate(scores())]
    )
    for files in ((whole, part), (part, whole)):
        done = judge(*files, "--metric", "acc_norm")
        assert done.code == 2
        assert "metric: the file has acc, not 'acc_norm'" in done.err


def test_an_item_that_loses_its_metric_half_way(judge: Judge) -> None:
    """A line without the metric is no line to skip."""
    rows = [foreign.lm_eval_row(n, one, shift=0.1) for n, one in enumerate(scores())]
    del rows[211]["acc"]
    done = judge(foreign.lm_eval(Path("a.jsonl"), scores()), foreign.lines(Path("b.jsonl"), rows))
    assert (done.code, "b.jsonl:212: acc: missing" in done.err) == (2, True)


def test_nothing_in_common_is_no_tie(judge: Judge) -> None:
    """A benchmark that neither side was measured on leads to no verdict, not to a go."""
    done = judge(foreign.nemo(Path("a"), [1.0] * 400), foreign.nemo(Path("b"), [1.0] * 400, benchmark="mmlu"))
    assert done.code == 4
    assert "its results hold no item of the reference's tasks" in done.out
