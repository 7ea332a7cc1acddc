"""The thresholds as documented: docs/diagnosis.md has each with its value and reason, and every symptom and rule."""

from __future__ import annotations

import re
from pathlib import Path

from quantgate import limits, thresholds
from quantgate.render.diagnosis import threshold
from quantgate.symptoms import FIELDS, Symptoms

PAGE = (Path(__file__).parents[2] / "docs" / "diagnosis.md").read_text(encoding="utf-8")


def test_the_page_has_every_threshold() -> None:
    """The table's rows are those of the code, in their order."""
    rows = re.findall(r"^\| (.*) \| (.*) \| (.*) \|$", PAGE.split("### Thresholds")[1].split("\n## ")[0], flags=re.MULTILINE)
    assert rows[1:] == [(one.name, threshold(one), one.why) for one in thresholds.ALL]


def test_the_page_has_every_symptom_and_rule() -> None:
    """No key is missing from the table of symptoms, and no rule from that of limits."""
    table = PAGE.split("## Symptoms")[1].split("\n## ")[0]
    assert {one.key for one in FIELDS} == set(re.findall(r"`(\w+)`", table)) - {"31ms"}
    flat = re.sub(r"\s+", " ", PAGE)
    assert [name for rule in limits.RULES if f"*{(name := rule(Symptoms()).name)}*" not in flat] == []
