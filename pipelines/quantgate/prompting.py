"""The prompts that speculation is measured on, and what is refused of them and of its drafters before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from quantgate import calibration, plugins, provenance
from quantgate.config import RunConfig
from quantgate.errors import ConfigError
from quantgate.records import ChatMessage, GoldenItem, GoldenSet, SpeculationConfig


def check(config: RunConfig, goldens: Sequence[GoldenSet]) -> None:
    """Refuse prompts and draft models that are not there, or too few prompts for a batch, before anything is measured.

    Raises ``ConfigError`` or ``MissingModel``.
    """
    asked = config.levers.speculation
    if asked is None:
        return
    for drafter in asked.drafters:
        if drafter.model is not None:
            provenance.model_digest(drafter.model)
    found, largest = len(prompts(asked, goldens, str(config.path))), max(asked.batch_sizes)
    if found < largest:
        where = asked.path or f"golden set {asked.golden_set}"
        what = f"speculation is asked for at batch {largest}, and {where} gives {found} prompts within max_prompts {asked.max_prompts}"
        raise ConfigError(f"{what}; give more prompts or a smaller batch", file=str(config.path))


def prompts(asked: SpeculationConfig, goldens: Sequence[GoldenSet], file: str) -> tuple[GoldenItem, ...]:
    """The first prompts of the file, or some of the golden set's items that are answered in words, spread evenly over them."""
    if asked.path is not None:
        return tuple(_of_file(Path(asked.path)))[: asked.max_prompts]
    golden = next((one for one in goldens if one.name == asked.golden_set), None)
    if golden is None:
        known = ", ".join(one.name for one in goldens)
        raise ConfigError(f"speculation takes prompts of golden set '{asked.golden_set}', which the run does not have: {known}", file=file)
    if golden.harness is not None:
        what = f"golden set {golden.label} is a task of lm-evaluation-harness, which asks in its own code"
        raise ConfigError(f"{what}; speculation takes prompts of a golden set of your own, or of a file", file=file)
    worded = {name for name in {item.metric for item in golden.items} if plugins.load("metric", name)().info.needs == "text"}
    found = tuple(item for item in golden.items if item.metric in worded and not item.choices)
    if not found:
        what = f"golden set {golden.label} has no item that is answered in words, so it gives speculation no prompts"
        raise ConfigError(f"{what}; name another set or a file of prompts", file=file)
    count = min(asked.max_prompts, len(found))
    return tuple(found[place * len(found) // count] for place in range(count))


def _of_file(path: Path) -> Iterator[GoldenItem]:
    for number, one in enumerate(calibration.read(path), 1):
        turns = tuple(ChatMessage(role=role, content=content) for role, content in one.messages)  # type: ignore[arg-type]
        yield GoldenItem(
            item_id=f"prompt {number}", slice="", prompt=one.plain, metric="", messages=turns, template="chat" if turns else "raw"
        )
