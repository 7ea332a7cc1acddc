"""Golden sets: items, where they come from, and what a metric says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from quantgate.records.asked import Scalar

Scale: TypeAlias = Literal["binary", "unit", "unbounded"]
"""What scores are: right or wrong (1 or 0), graded in [0, 1], any finite number."""
Better: TypeAlias = Literal["higher", "lower"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatMessage:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenItem:
    """One question with what is right about it. Multiple choice: ``choices`` and ``answer``; generated: ``answers`` or ``references``."""

    item_id: str
    slice: str
    prompt: str
    metric: str
    cluster: str | None = None
    few_shot: str = ""
    template: Literal["raw", "chat", "auto"] = "auto"
    """``auto``: chat where the model's tokenizer has a chat template, else raw."""
    choices: tuple[str, ...] = ()
    answer: int | None = None
    answers: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    max_new_tokens: int = 12
    line: int = 0
    """Line of the file the item was read from, for messages."""
    messages: tuple[ChatMessage, ...] = ()
    """The conversation to go on with; ``prompt`` then holds it as a person reads it, a turn a line."""
    references: tuple[str, ...] = ()
    """Texts that a graded metric compares with."""
    weight: float = 1.0
    """Share of the item in displayed means; the paired decision needs equal weights."""
    options: Mapping[str, Scalar | tuple[str, ...]] = field(default_factory=dict, hash=False)
    """What the item's metric wants to know, for example a pattern or a tolerance; a JSON object is held as its text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetSource:
    """A golden set made from rows of a dataset: a local file (CSV, JSON, JSON Lines, Parquet) or a pinned one of the hub."""

    name: str
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    """Commit of the hub's repository; a hub source without one is refused."""
    config: str | None = None
    """Name of a configuration (subset) of the hub's dataset."""
    split: str = "train"
    """The library calls all rows of a local file ``train``."""
    columns: Mapping[str, str | tuple[str, ...]]
    """Key of an item -> column that holds it, or several that make a list; ``choices.text`` is a field within a column."""
    format: Mapping[str, str] | None = None
    """Key of an item -> text with ``{column}`` in it."""
    extract: Mapping[str, str] | None = None
    """Key of an item -> regular expression; of its last match in the text the first group is taken, or all of it without groups."""
    labels: tuple[str, ...] | str | None = None
    """What the right choice is called in the data, in the order of the choices: a list, or the column that has it."""
    constants: Mapping[str, Scalar | tuple[Scalar, ...]] | None = None
    """Key of an item -> its value in every item."""
    limit: int | None = None
    """The first so many rows."""
    sha256: str | None = None
    """Digest that the made items must have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HarnessSource:
    """A golden set made of tasks of lm-evaluation-harness."""

    name: str
    tasks: tuple[str, ...]
    """Names of tasks, groups or tags, or paths of YAML files."""
    include_path: str | None = None
    limit: int | None = None
    """The first so many documents of each task."""
    num_fewshot: int | None = None
    metric: str | None = None
    filter: str | None = None
    chat: bool = False
    """Inside the model's chat template."""
    sha256: str | None = None
    """Digest that configs and requests of the tasks must have."""
    scale: Scale | None = None
    """Found while gathering: ``unit`` where the harness's metric lies in [0, 1]; None where its range is not known."""
    better: Better | None = None
    """Found while gathering: which way the tasks say that their metric goes; None where one of them does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenSet:
    """A named, versioned, digested list of items. ``sha256`` is the digest of the file's bytes."""

    name: str
    version: str
    sha256: str
    items: tuple[GoldenItem, ...]
    path: str
    harness: HarnessSource | None = None
    """Where the task code of lm-evaluation-harness asks and scores the items; None: they are scored by their own metrics."""

    @property
    def label(self) -> str:
        """``name version``, as reports print it."""
        return f"{self.name} {self.version}"

    @property
    def slices(self) -> tuple[str, ...]:
        """The slice names in order of first appearance."""
        return tuple(dict.fromkeys(item.slice for item in self.items))


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricInfo:
    """What a metric is. ``needs``: ``loglikelihoods`` of the choices, generated ``text``, or the item's own ``tokens`` scored."""

    name: str
    unit: str
    """Of the figure that is shown for a whole set."""
    higher_is_better: bool
    """Direction of an item's score. The metrics that come with the program turn it so that larger is better."""
    needs: Literal["loglikelihoods", "text", "tokens"]
    definition: str
    scale: Scale = "binary"
    """An item's score: right or wrong, graded in [0, 1], or any finite number."""
    figure_lower_is_better: bool = False
    """Direction of the figure for a whole set, which is shown as people quote it: a perplexity falls where the scores rise."""
