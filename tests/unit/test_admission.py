"""What is refused before anything is measured: contradictions, faults of sources, scales that do not go together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quantgate import admission
from quantgate.config import RunConfig
from quantgate.errors import ConfigError, GoldenSetError
from quantgate.records import ChatMessage, CheckRule, GoldenItem, GoldenSet, Policy

POLICY = Policy(name="p", why="for tests", checks=(CheckRule(kind="quality", margin=0.03),))
ASKED = "Who painted the Mona Lisa?"


def item(number: int, **fields: Any) -> GoldenItem:
    known: dict[str, Any] = {"prompt": ASKED, "metric": "exact_match", "slice": "all", "line": number, "answers": ("Leonardo",)}
    return GoldenItem(item_id=str(number), **{**known, **fields})


def text(number: int, **fields: Any) -> GoldenItem:
    return item(number, metric="perplexity", answers=(), prompt=f"A text of its own, number {number}.", template="raw", **fields)


def checked(*items: GoldenItem, policy: Policy | None = None) -> None:
    made = GoldenSet(name="faq", version="unversioned", sha256="0", items=items, path="/made/faq.jsonl")
    admission._check_items(made, config(policy))


def config(policy: Policy | None = None) -> RunConfig:
    found = SimpleNamespace(policy=policy or POLICY, policy_path=Path("policy.yaml"), candidates=("int8",))
    return cast(RunConfig, found)


def test_items_that_contradict_each_other_are_refused() -> None:
    """Sources are checked as files are; both ids are named, and so is the set. A conversation of one turn is its prompt."""
    with pytest.raises(GoldenSetError, match=r"item '1' .line 1. and has another right answer") as caught:
        checked(item(1), item(2, answers=("Raphael",)))
    assert "golden set faq" in str(caught.value) and caught.value.line == 2
    said = (ChatMessage(role="user", content=ASKED),)
    with pytest.raises(GoldenSetError, match="another right answer"):
        checked(item(1, messages=said, prompt=f"user: {ASKED}"), item(2, answers=("Raphael",)))


@pytest.mark.parametrize(
    ("metric", "one", "other"),
    [("numeric_match", "4500", "4,500.00"), ("exact_match", "leonardo.", "Leonardo"), ("exact_match", '"Leonardo"', "Leonardo")],
)
def test_answers_that_the_metric_takes_for_one_do_not_contradict(metric: str, one: str, other: str) -> None:
    """Equality is the metric's own."""
    checked(item(1, metric=metric, answers=(one,)), item(2, metric=metric, answers=(other,)))


def test_one_fault_on_many_lines_is_told_once() -> None:
    """Twenty lines of one kind hide the others."""
    with pytest.raises(GoldenSetError, match="and 29 more lines") as caught:
        checked(*(item(at, metric="f1", answers=(), references=("+",), prompt=f"question {at}") for at in range(1, 31)))
    assert str(caught.value).count("F1 keeps no word") == 1


def test_scales_that_do_not_go_together_are_refused() -> None:
    """Right or wrong beside scores without bounds has no mean."""
    with pytest.raises(GoldenSetError, match="cannot be judged together"):
        checked(item(1), text(2))


def test_scores_without_bounds_need_a_check_that_says_so() -> None:
    """Such a run would end without a decision."""
    with pytest.raises(ConfigError, match="write 'scale: unbounded'"):
        checked(text(1), text(2))
    rule = CheckRule(kind="quality", margin=0.1, scale="unbounded")
    checked(text(1), text(2), policy=Policy(name="p", why="for tests", checks=(rule,)))
    advisory = CheckRule(kind="quality", margin=0.1, tier="advisory")
    checked(text(1), text(2), policy=Policy(name="p", why="for tests", checks=(advisory,)))


def test_a_check_of_scores_without_bounds_does_not_take_others() -> None:
    """The other way round it would end without a decision just as well."""
    rule = CheckRule(kind="quality", margin=0.1, scale="unbounded")
    with pytest.raises(ConfigError, match="has scores with bounds"):
        checked(item(1), policy=Policy(name="p", why="for tests", checks=(rule,)))
