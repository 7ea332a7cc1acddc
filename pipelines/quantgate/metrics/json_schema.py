"""Validity by the ``jsonschema`` library: whether the generated text is JSON of the shape asked for.

The dialect is the one that the schema's ``$schema`` names, else 2020-12. Nothing is fetched: a ``$ref`` to another
document is refused before a run. ``format`` is a note and not checked, as the standard has it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Never

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from quantgate.golden_keys import BUILT_IN
from quantgate.metrics.scored import Grade
from quantgate.metrics.text import TextMetric
from quantgate.records import GoldenItem, MetricInfo

_FENCE = re.compile(r"```[A-Za-z]*\s*\n(.*?)\n?\s*```", flags=re.DOTALL)


class JsonSchema(TextMetric):
    """1 where the text is one JSON value that the item's schema accepts, else 0.

    White space around it is form, and so is one Markdown code fence around the whole. ``NaN`` and a key twice are no JSON here.
    """

    info = MetricInfo(
        name="json_schema",
        unit="share of items",
        higher_is_better=True,
        needs="text",
        definition=(
            "1 where the generated text, without white space and one code fence around the whole, is strict JSON and valid under "
            "the item's JSON Schema (2020-12 unless it names another dialect), else 0"
        ),
    )
    keys = BUILT_IN["json_schema"]

    def expected(self, item: GoldenItem) -> str:
        return str(item.options.get("schema", ""))

    def why_unfit(self, item: GoldenItem) -> str | None:
        """A schema that is none, or that points outside itself."""
        schema = json.loads(self.expected(item))
        dialect = schema.get("$schema")
        if dialect is not None and not isinstance(dialect, str):
            return f"options.schema has the $schema {dialect!r}; expected the address of a dialect, or leave it out"
        try:
            _validator(schema).check_schema(schema)
        except SchemaError as error:
            return f"options.schema is no JSON Schema: {error.message} at {error.json_path}"
        return _why_unresolved(schema)

    def grade(self, item: GoldenItem, text: str) -> Grade:
        """Decode and validate. Raises ``ValueError`` where the item has no schema."""
        if "schema" not in item.options:
            raise ValueError(f"item {item.item_id!r} has no schema to validate with")
        schema, bare = json.loads(self.expected(item)), text.strip()
        try:
            value = _decoded(bare)
            valid = _validator(schema)(schema, registry=Registry()).is_valid(value)
        except (ValueError, RecursionError):
            valid = False
        return Grade(value=float(valid), answered=bare, expected=self.expected(item))


def _validator(schema: dict[str, Any]) -> Any:
    return validator_for(schema, default=Draft202012Validator)


def _decoded(text: str) -> Any:
    """Decode JSON strictly. Raises ``ValueError``."""
    fenced = _FENCE.fullmatch(text)
    return json.loads(fenced[1] if fenced else text, parse_constant=_refuse, object_pairs_hook=_pairs)


def _refuse(token: str) -> Never:
    raise ValueError(f"{token} is no JSON number")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _why_unresolved(schema: dict[str, Any]) -> str | None:
    """A reference that leads nowhere inside the schema."""
    resource = DRAFT202012.create_resource(schema)
    resolver = Registry().with_resource("", resource).resolver()
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            return f"options.schema has the reference {reference!r}, which leads nowhere inside it; nothing is fetched"
    return None


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [one for each in value.values() for one in _references(each)]
    return [one for each in value for one in _references(each)] if isinstance(value, list) else []
