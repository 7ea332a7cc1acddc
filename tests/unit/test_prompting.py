"""Where the prompts of speculation come from, and what gives none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quantgate.errors import ConfigError
from quantgate.prompting import prompts
from quantgate.records import ChatMessage, Drafter, GoldenItem, GoldenSet, HarnessSource, SpeculationConfig

ASKED = SpeculationConfig(drafters=(Drafter(kind="prompt_lookup"),), golden_set="words", max_prompts=3)


def item(number: int, metric: str = "exact_match") -> GoldenItem:
    choices = ("a", "b") if metric == "multiple_choice" else ()
    return GoldenItem(item_id=f"i{number}", slice="s", prompt=f"p{number}", metric=metric, choices=choices)


def golden(*items: GoldenItem) -> GoldenSet:
    return GoldenSet(name="words", version="v1", sha256="0" * 64, items=items, path="nowhere")


def test_items_that_are_answered_in_words_are_spread_over_the_set() -> None:
    """Choices give no prompts; of more items than are asked for every so many-th is taken, in order."""
    found = prompts(ASKED, [golden(*(item(number) for number in range(9)), item(9, "multiple_choice"))], "run.yaml")
    assert [one.item_id for one in found] == ["i0", "i3", "i6"]
    assert len(prompts(ASKED, [golden(item(1), item(2))], "run.yaml")) == 2


def test_a_file_gives_its_first_prompts(tmp_path: Path) -> None:
    """Texts as they are, turns inside the chat template."""
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"text": "once upon"}\n{"messages": [{"role": "user", "content": "hello"}]}\n{"text": "c"}\n{"text": "d"}\n', encoding="utf-8"
    )
    found = prompts(replace(ASKED, golden_set=None, path=str(path)), [], "run.yaml")
    assert [(one.item_id, one.prompt, one.template) for one in found] == [
        ("prompt 1", "once upon", "raw"), ("prompt 2", "hello", "chat"), ("prompt 3", "c", "raw"),
    ]  # fmt: skip
    assert found[1].messages == (ChatMessage(role="user", content="hello"),)


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ([], "which the run does not have"),
        ([golden(item(1, "multiple_choice"))], "has no item that is answered in words"),
        ([replace(golden(item(1)), harness=HarnessSource(name="words", tasks=("t",)))], "a task of lm-evaluation-harness"),
    ],
)
def test_sets_without_prompts_are_refused(sets: list[GoldenSet], said: str) -> None:
    """Told before anything is measured, with the config's name."""
    with pytest.raises(ConfigError, match=said) as caught:
        prompts(ASKED, sets, "run.yaml")
    assert str(caught.value).startswith("run.yaml")
