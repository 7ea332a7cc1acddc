"""Golden sets of the newer metrics through the whole chain, from the file to the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate, items, report_of, write_golden

KINDS: tuple[tuple[str, Any], ...] = (
    ("numeric_match", lambda total: {"answer": total, "max_new_tokens": 6}),
    ("regex", lambda total: {"options": {"pattern": rf"^{total}$"}, "max_new_tokens": 6}),
    ("instructions", lambda total: {"options": {"contains": [str(total)], "max_words": 1}, "max_new_tokens": 6}),
    ("json_schema", lambda total: {"options": {"schema": {"const": total}}, "max_new_tokens": 6}),
)


def right_or_wrong() -> list[dict[str, Any]]:
    """The default sums, asked by four metrics in turn."""
    rows = []
    for index, row in enumerate(items()):
        metric, fields = KINDS[index % 4]
        total = sum(int(one) for one in row["prompt"].removesuffix(" =").split(" + "))
        rows.append({key: row[key] for key in ("id", "slice", "prompt", "template")} | {"metric": metric, **fields(total)})
    return rows


def graded() -> list[dict[str, Any]]:
    """A few items each of F1, ROUGE and BLEU."""
    made: list[dict[str, Any]] = []
    for n in range(12, 15):
        asked = {"prompt": f"{n} + {n} =", "template": "raw", "references": [str(2 * n)], "max_new_tokens": 6}
        made += [{"id": f"{metric}-{n}", "metric": metric, **asked} for metric in ("f1", "rouge", "bleu")]
    return made


def texts() -> list[dict[str, Any]]:
    """A few texts."""
    return [{"id": f"text-{n}", "metric": "perplexity", "text": "It was a dark and stormy night." * n} for n in range(12, 15)]


def with_sets(chain: Chain, **changes: Any) -> dict[str, Any]:
    """A config over three sets, and a policy that decides on the first."""
    write_golden(chain.root / "golden" / "mixed" / "v1", right_or_wrong())
    write_golden(chain.root / "golden" / "graded" / "v1", graded())
    write_golden(chain.root / "golden" / "texts" / "v1", texts())
    checks = [{"kind": "quality", "margin": 0.06, "golden_set": "mixed"}, {"kind": "freed_share", "minimum": 0.25}]
    chain.policy(checks=checks)
    return {"golden_sets": ["golden/mixed/v1", "golden/graded/v1", "golden/texts/v1"], **changes}


def test_every_kind_of_evidence_reaches_the_page(chain: Chain) -> None:
    """Four metrics of right and wrong decide; graded ones and perplexity are shown as each combines its items."""
    done = chain.run(**with_sets(chain))
    assert done.code == 0, done.err + done.out
    report = report_of(chain.last)
    row = next(one for one in report["quality"] if (one["variant"], one["golden_set"]) == ("float32", "graded"))
    figures = {one["metric"]["name"]: one for one in row["figures"]}
    assert list(figures) == ["f1", "rougeL", "bleu"]
    assert all(one["scored"] == 3 for one in figures.values())
    told = next(one for one in report["quality"] if (one["variant"], one["golden_set"]) == ("float32", "texts"))
    (perplexity,) = told["figures"]
    assert perplexity["value"] > 1 and perplexity["metric"]["figure_lower_is_better"]
    assert (told["accuracy"], told["mcnemar_p"]) == (None, None)
    mixed = next(one for one in report["quality"] if (one["variant"], one["golden_set"]) == ("int8", "mixed"))
    assert mixed["accuracy"] > 0.7 and mixed["scored"] == 240 and mixed["figures"] == []
    page = (chain.last / "report.html").read_text(encoding="utf-8")
    assert "Figures of each metric" in page and "corpus BLEU, 0 to 100" in page
    assert "perplexity: " in chain.cli("show", chain.last, "--variant", "int8").out


def test_scores_are_kept_as_they_were(chain: Chain) -> None:
    """A run judged again from its files decides the same: new fields of items and scores are read back."""
    assert chain.run(**with_sets(chain)).code == 0
    before = report_of(chain.last)["verdicts"]
    assert chain.cli("judge", chain.last, "--policy", chain.root / "policy.yaml").code == 0
    assert report_of(chain.last)["verdicts"] == before
    lines = (chain.last / "variants" / "int8" / "scores" / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    text = next(one for one in map(json.loads, lines) if one["item_id"] == "text-12")
    assert text["evidence"]["scored_tokens"] == 12 * len("It was a dark and stormy night.")
    assert text["parts"] == [-text["evidence"]["loglikelihoods"][0], text["evidence"]["scored_tokens"]]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"metric": "json_schema", "options": {"schema": {"type": "objekt"}}}, "items.jsonl:1: options.schema is no JSON Schema"),
        ({"metric": "rouge", "references": ["..."]}, "items.jsonl:1: references[0] holds no word"),
        ({"metric": "instructions", "options": {"min_words": 3, "max_words": 2}}, "no text can follow both"),
        ({"metric": "exact_match", "answer": "x", "weight": 2}, "golden set odd: its items have weights from 1 to 2"),
    ],
)
def test_what_could_not_be_scored_is_told_before_anything_is_built(chain: Chain, fields: dict[str, Any], says: str) -> None:
    """Exit 2, with file and line where a line is at fault, and no artifact."""
    rows = [{"id": "odd", "prompt": "p", **fields}, *items()]
    write_golden(chain.root / "golden" / "odd" / "v1", rows)
    done = chain.run(golden_sets=["golden/odd/v1"], variants=[REFERENCE, candidate(), CONTROL])
    assert (done.code, says in done.err) == (2, True), done.err
    assert not Path(chain.root / "cache" / "artifacts").exists()
