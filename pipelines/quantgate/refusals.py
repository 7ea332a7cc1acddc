"""What pydantic found wrong with a value, in our own words: what is allowed there. Knows no file and no key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

KINDS: Mapping[str, str] = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text",
    "scalar_type": "text, a number, or true or false",
    "string_unicode": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a section of keys",
    "mapping_type": "a section of keys",
    "model_type": "a section of keys",
    "model_attributes_type": "a section of keys",
    "dataclass_type": "a section of keys",
    "dataclass_exact_type": "a section of keys",
    "none_required": "nothing",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of usual size",
    "bool_parsing": "true or false",
}
BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("greater than or equal to", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("less than or equal to", "le"),
}


def allowed(detail: Mapping[str, Any], patterns: Mapping[str, str]) -> str:
    """What may stand at a place. ``patterns``: a regular expression -> what it means; ``detail`` is one of pydantic's errors."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in KINDS:
        return f"expected {KINDS[kind]}"
    if kind in BOUNDS:
        words, key = BOUNDS[kind]
        return f"must be {words} {context[key]:g}"
    match kind:
        case "missing" | "missing_keyword_only_argument" | "missing_argument":
            return "is missing"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return "is not known here"
        case "json_invalid":
            return f"expected JSON ({context.get('error', 'it ends too early')})"
        case "literal_error":
            expected = str(context["expected"])
            near = get_close_matches(str(detail["input"]), re.findall(r"'([^']*)'", expected), n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            return f"{hint}must be {expected}"
        case "too_short":
            least = context["min_length"]
            return f"needs at least {least} {'entry' if least == 1 else 'entries'}"
        case "too_long":
            return f"may have at most {context['max_length']} entries"
        case "string_too_short":
            return "must not be empty"
        case "string_pattern_mismatch":
            return patterns.get(context["pattern"], f"must match the pattern {context['pattern']}")
        case _:
            return str(detail["msg"])
