"""Doubts about JSON Schemas of items: dialects, misspelt keywords."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quantgate.hygiene.schemas import schema_doubts
from quantgate.records import GoldenItem


def said(schema: dict[str, Any]) -> str:
    item = GoldenItem(item_id="1", slice="s", prompt="p", metric="json_schema", options={"schema": json.dumps(schema)})
    return " ".join(one.what for one in schema_doubts(item))


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ({"requird": ["a"]}, "did you mean 'required'"),
        ({"properties": {"requird": {"maxLenght": 3}}}, "did you mean 'maxLength'"),
        ({"anyOf": [{"items": {"proprties": {}}}]}, "did you mean 'properties'"),
        ({"$schema": "http://x.y/z"}, "dialect 'http://x.y/z', which is not known"),
    ],
)
def test_what_looks_like_a_slip_is_told(schema: dict[str, Any], what: str) -> None:
    """At any depth."""
    assert what in said(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"requird": {"type": "string"}}, "required": ["requird"]},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "x-own": 1},
        {"$schema": "http://json-schema.org/draft-07/schema#", "enum": [{"requird": 1}]},
        {"items": True, "not": {}},
    ],
)
def test_names_of_properties_and_own_keywords_are_fine(schema: dict[str, Any]) -> None:
    """A property may be called anything; so may values."""
    assert said(schema) == ""
