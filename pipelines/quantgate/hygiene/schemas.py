"""What is doubtful in an item's JSON Schema: a dialect that is not known, a keyword that looks like a known one misspelt.

A validator passes over keywords that it does not know, so a misspelt ``required`` would demand nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from quantgate.hygiene.findings import Finding, warning
from quantgate.records import GoldenItem

_ONE = (
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_NAMED = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_KEYWORDS = frozenset((
    *_ONE, *_SEVERAL, *_NAMED, "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$ref",
    "$schema", "$vocabulary", "const", "contentEncoding", "contentMediaType", "default", "dependencies", "dependentRequired", "deprecated",
    "description", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "id", "maxContains", "maxItems", "maxLength",
    "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "readOnly",
    "required", "title", "type", "uniqueItems", "writeOnly",
))  # fmt: skip
_DIALECTS = ("draft-03/", "draft-04/", "draft-06/", "draft-07/", "draft/2019-09/", "draft/2020-12/")


def schema_doubts(item: GoldenItem) -> Iterator[Finding]:
    """Every doubt about the schema of a ``json_schema`` item."""
    if item.metric != "json_schema" or "schema" not in item.options:
        return
    schema = json.loads(str(item.options["schema"]))
    dialect = schema.get("$schema")
    if isinstance(dialect, str) and dialect.partition("json-schema.org/")[2].rstrip("#") not in [f"{one}schema" for one in _DIALECTS]:
        advice = "leave it out for 2020-12, or name a dialect of json-schema.org"
        yield warning("schema", item.line, "options.schema", f"names the dialect {dialect!r}, which is not known", advice)
    for key in _unknown(schema):
        near = get_close_matches(key, _KEYWORDS, n=1, cutoff=0.75)
        if near:
            what = f"has the keyword {key!r}, which demands nothing; did you mean {near[0]!r}?"
            yield warning("schema", item.line, "options.schema", what, "correct it, or take it out")


def _unknown(schema: Any) -> Iterator[str]:
    """Unknown keywords of a schema and of those inside it."""
    if not isinstance(schema, dict):
        return
    yield from (key for key in schema if key not in _KEYWORDS)
    for key in _ONE:
        yield from _unknown(schema.get(key))
    for key in _SEVERAL:
        yield from (one for each in _listed(schema.get(key)) for one in _unknown(each))
    for key in _NAMED:
        named = schema.get(key)
        yield from (one for each in (named.values() if isinstance(named, dict) else ()) for one in _unknown(each))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
