"""Which keys and options the items of each metric have. A metric's adapter points at its entry here.

Plain data, because a golden set is read where no metric's library is loaded. What only the library can tell, such as
whether a JSON Schema is one, the adapter says before a run (``why_unfit``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from quantgate.records import Scalar

OptionKind: TypeAlias = Literal["text", "pattern", "number", "natural", "flag", "texts", "object", "file"] | tuple[str, ...]
"""What an option holds; a tuple: one of these words. ``natural`` is a whole number from 0, ``number`` any from 0, ``file`` a path from the
folder of the items, pinned by the option ``sha256``."""

SHARED = ("id", "slice", "prompt", "messages", "metric", "cluster", "few_shot", "template", "weight")
GENERATED = ("stop", "max_new_tokens")
ANSWERS = ("answers", "answer")
LONG_TOKENS = 128
"""Length cap of an item whose metric expects more than a word or a number, where the item states none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemKeys:
    """Keys of a metric's items besides the shared ones."""

    keys: tuple[str, ...] = ()
    right: Literal["choices", "answers", "numbers", "references", "text", "none"] = "none"
    """What an item must say of what is right: ``numbers`` are answers that read as numbers, ``text`` is the text to be scored."""
    references_optional: bool = False
    options: Mapping[str, OptionKind] = field(default_factory=dict)
    needed_options: tuple[str, ...] = ()
    any_option: bool = False
    """At least one option must be given."""
    default_new_tokens: int = LONG_TOKENS
    weighted: bool = True
    """Items may carry a weight: not where the figure of a set counts tokens or n-grams."""

    @property
    def shared(self) -> tuple[str, ...]:
        """The shared keys: a text that is scored as it stands has neither prompt nor template."""
        every = ("id", "slice", "metric", "cluster") if self.right == "text" else SHARED
        return tuple(key for key in every if key != "weight" or self.weighted)

    @property
    def own(self) -> tuple[str, ...]:
        """The metric's own keys, as a message lists them."""
        return (*self.keys, *(("options",) if self.options else ()))


_CHOICE = ItemKeys(keys=("choices", "answer"), right="choices", default_new_tokens=12)

BUILT_IN: Mapping[str, ItemKeys] = {
    "multiple_choice": _CHOICE,
    "multiple_choice_norm": _CHOICE,
    "multiple_choice_norm_bytes": _CHOICE,
    "exact_match": ItemKeys(keys=(*ANSWERS, *GENERATED), right="answers", default_new_tokens=12),
    "numeric_match": ItemKeys(
        keys=(*ANSWERS, *GENERATED),
        right="numbers",
        options={"take": ("last", "first"), "marker": "text", "tolerance": "number", "relative_tolerance": "number"},
        default_new_tokens=256,
    ),
    "regex": ItemKeys(
        keys=GENERATED,
        options={"pattern": "pattern", "where": ("search", "full"), "ignore_case": "flag"},
        needed_options=("pattern",),
    ),
    "f1": ItemKeys(keys=("references", *GENERATED), right="references"),
    "rouge": ItemKeys(
        keys=("references", *GENERATED), right="references", options={"kind": ("rouge1", "rouge2", "rougeL")}
    ),
    "bleu": ItemKeys(
        keys=("references", *GENERATED),
        right="references",
        options={"tokenize": ("13a", "intl", "char", "zh", "none"), "lowercase": "flag"},
        weighted=False,
    ),
    "json_schema": ItemKeys(keys=GENERATED, options={"schema": "object"}, needed_options=("schema",)),
    "instructions": ItemKeys(
        keys=GENERATED,
        options={
            "min_words": "natural",
            "max_words": "natural",
            "min_characters": "natural",
            "max_characters": "natural",
            "contains": "texts",
            "excludes": "texts",
            "starts_with": "text",
            "ends_with": "text",
            "bullets": "natural",
            "no_comma": "flag",
            "json": "flag",
        },
        any_option=True,
    ),
    "perplexity": ItemKeys(keys=("text",), right="text", default_new_tokens=12, weighted=False),
    "library": ItemKeys(
        keys=("references", *GENERATED),
        right="references",
        references_optional=True,
        options={
            "name": "text",
            "revision": "text",
            "path": "file",
            "sha256": "text",
            "config": "text",
            "key": "text",
            "direction": ("higher", "lower"),
            "scale": ("binary", "unit", "unbounded"),
            "references_as": ("list", "text"),
        },
        needed_options=("key", "direction", "scale"),
    ),
}

DEFAULTS: Mapping[str, Mapping[str, Scalar]] = {
    "numeric_match": {"take": "last", "marker": "####", "tolerance": 0, "relative_tolerance": 0},
    "regex": {"where": "search", "ignore_case": False},
    "rouge": {"kind": "rougeL"},
    "bleu": {"tokenize": "13a", "lowercase": False},
    "library": {"references_as": "list"},
}
"""What an option means where an item leaves it out."""
