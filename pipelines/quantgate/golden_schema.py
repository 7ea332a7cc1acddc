"""The item format as JSON Schema (2020-12), for editors and for programs that write golden sets.

Made from ``golden_keys``, so that it cannot say anything else than the reader does. It knows shapes alone: what one
line cannot show, such as an id that stands twice, or what no schema can, such as a pattern that does not compile, the
reader refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quantgate.golden_items import MAX_NEW_TOKENS, ROLES
from quantgate.golden_keys import BUILT_IN, ItemKeys, OptionKind

_TEXT = {"type": "string", "pattern": r"\S"}
_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}}
_LABEL = {"anyOf": [_TEXT, {"type": "integer"}]}
_ANSWER = {"anyOf": [_TEXT, {"type": "number"}]}
_ANSWERS = {"type": "array", "minItems": 1, "items": _ANSWER}
_MESSAGE = {
    "type": "object",
    "properties": {"role": {"enum": list(ROLES)}, "content": _TEXT},
    "required": ["role", "content"],
    "additionalProperties": False,
}
_FIELDS: Mapping[str, Any] = {
    "id": _LABEL,
    "slice": _TEXT,
    "prompt": _TEXT,
    "messages": {"type": "array", "minItems": 1, "items": _MESSAGE},
    "cluster": _LABEL,
    "few_shot": {"type": "string"},
    "template": {"enum": ["chat", "raw"]},
    "weight": {"type": "number", "exclusiveMinimum": 0},
    "choices": {"type": "array", "minItems": 2, "uniqueItems": True, "items": _TEXT},
    "answers": _ANSWERS,
    "references": {"type": "array", "minItems": 1, "items": _TEXT},
    "stop": _TEXTS,
    "max_new_tokens": {"type": "integer", "minimum": 1, "maximum": MAX_NEW_TOKENS},
    "text": _TEXT,
}


def item_schema() -> dict[str, Any]:
    """The schema of one line of a golden set."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a quantgate golden set",
        "type": "object",
        "oneOf": [_item(metric, keys) for metric, keys in BUILT_IN.items()],
    }


def _item(metric: str, keys: ItemKeys) -> dict[str, Any]:
    fields = {key: _field(key, metric, keys) for key in (*keys.shared, *keys.own)}
    alternatives = [one for one in (_asked(keys), _right(keys)) if one]
    return {
        "title": metric,
        "type": "object",
        "properties": fields,
        "required": ["id", *_required(metric, keys)],
        "additionalProperties": False,
        **({"allOf": alternatives} if alternatives else {}),
    }


def _required(metric: str, keys: ItemKeys) -> list[str]:
    """Keys without alternatives. The two metrics that may be left out are known by the key that only they have."""
    named = [] if metric in ("exact_match", "multiple_choice") else ["metric"]
    options = ["options"] if keys.needed_options or keys.any_option else []
    right = {"choices": ["choices", "answer"], "text": ["text"], "references": ["references"]}.get(keys.right, [])
    return [*named, *([] if keys.references_optional else right), *options]


def _asked(keys: ItemKeys) -> dict[str, Any]:
    """A prompt, or messages without few_shot and raw template."""
    if keys.right == "text":
        return {}
    talk = {"required": ["messages"], "properties": {"template": {"const": "chat"}, "few_shot": False}}
    return {"oneOf": [{"required": ["prompt"]}, talk]}


def _right(keys: ItemKeys) -> dict[str, Any]:
    return {"oneOf": [{"required": ["answers"]}, {"required": ["answer"]}]} if "answers" in keys.keys else {}


def _field(key: str, metric: str, keys: ItemKeys) -> Any:
    match key:
        case "metric":
            return {"const": metric}
        case "answer":
            return {"type": "integer", "minimum": 0} if keys.right == "choices" else {"anyOf": [_ANSWER, _ANSWERS]}
        case "options":
            return _options(keys)
        case _:
            return _FIELDS[key]


def _options(keys: ItemKeys) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _option(kind) for name, kind in keys.options.items()},
        "required": list(keys.needed_options),
        "additionalProperties": False,
        **({"minProperties": 1} if keys.any_option else {}),
    }


def _option(kind: OptionKind) -> dict[str, Any]:
    match kind:
        case "text" | "file":
            return {"type": "string"}
        case "pattern":
            return {"type": "string", "minLength": 1}
        case "natural":
            return {"type": "integer", "minimum": 0}
        case "number":
            return {"type": "number", "minimum": 0}
        case "flag":
            return {"type": "boolean"}
        case "texts":
            return {"type": "array", "minItems": 1, "items": _TEXT}
        case "object":
            return {"type": "object"}
        case words:
            return {"enum": list(words)}
