"""JSON-schema validity: strict JSON of the shape asked for, and schemas that are refused before a run."""

import json
from typing import Any

import pytest

from grading import item, score, value
from quantgate.metrics.json_schema import JsonSchema

PERSON = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"], "additionalProperties": False}


def with_schema(schema: Any) -> Any:
    """An item that asks for a shape, as the reader holds it."""
    return item("json_schema", options={"schema": json.dumps(schema)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"age": 3}', 1.0),
        (' \n{"age": 3}\n', 1.0),
        ('```json\n{"age": 3}\n```', 1.0),
        ('```\n{"age": 3}\n```', 1.0),
        ('{"age": -1}', 0.0),
        ('{"age": "3"}', 0.0),
        ('{"age": 3, "name": "x"}', 0.0),
        ("{}", 0.0),
        ('{"age": NaN}', 0.0),
        ('{"age": 3, "age": 4}', 0.0),
        ('Here it is: {"age": 3}', 0.0),
        ('{"age": 3} {"age": 3}', 0.0),
        ('{"age": 3', 0.0),
        ("[" * 100_000, 0.0),
        ("", 0.0),
    ],
)
def test_what_is_valid(text: str, expected: float) -> None:
    """One JSON value, nothing around it but white space or one code fence, of the shape asked for."""
    assert value(JsonSchema(), with_schema(PERSON), text) == expected


def test_a_schema_may_point_inside_itself() -> None:
    """A local reference is followed."""
    tree = {"$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "$ref": "#/$defs/node"}
    one = with_schema(tree)
    assert JsonSchema().why_unfit(one) is None
    assert [value(JsonSchema(), one, text) for text in ("[[], [[]]]", "[[1]]")] == [1.0, 0.0]


def test_the_dialect_is_the_schemas_own() -> None:
    """``definitions`` and an exclusive maximum as draft 4 has it."""
    one = with_schema({"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True})
    assert JsonSchema().why_unfit(one) is None
    assert [value(JsonSchema(), one, text) for text in ("2", "3")] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "objekt"}, "is no JSON Schema: 'objekt'"),
        ({"properties": {"a": {"minimum": "x"}}}, "at $.properties.a.minimum"),
        ({"$ref": "#/$defs/absent"}, "'#/$defs/absent', which leads nowhere"),
        ({"items": [{"$ref": "https://example.org/other.json"}]}, "is no JSON Schema"),
        ({"items": {"$ref": "https://example.org/other.json"}}, "nothing is fetched"),
    ],
)
def test_an_unfit_schema_is_told_before_a_run(schema: Any, says: str) -> None:
    """No schema, or one that would have to be fetched."""
    assert says in str(JsonSchema().why_unfit(with_schema(schema)))


def test_an_item_without_a_schema_is_an_error() -> None:
    """Everything would be valid."""
    with pytest.raises(ValueError, match="no schema"):
        score(JsonSchema(), item("json_schema"), "{}")


def test_a_dialect_that_is_no_text_is_told_before_a_run() -> None:
    """It is a fault of the item, not of the program."""
    assert "$schema" in (JsonSchema().why_unfit(with_schema({"$schema": 5})) or "")
