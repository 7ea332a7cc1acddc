"""The whole chain with divergence taken over texts: measured, judged, shown, kept, and what happens when it cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chain import (
    CONTROL,
    REFERENCE,
    Chain,
    candidate,
    items,
    policy,
    report_of,
    reused_of,
    stages_of,
    verdicts_of,
    write_golden,
)

CHECKS = [*policy()["checks"], {"kind": "kl_mean", "maximum": 0.5}, {"kind": "rms_probability_change", "maximum": 0.5}]


def with_texts(chain: Chain, **section: Any) -> dict[str, Any]:
    """Write twenty sums as texts, and the config's section about them."""
    lines = [
        {"text": f"{at % 5} + {at // 5} = {at % 5 + at // 5}", "topic": "small" if at < 10 else "large"}
        for at in range(20)
    ]
    path = chain.root / "additions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return {"texts": "additions.jsonl", "slice_field": "topic", "tokens_per_text": 16, **section}


def readings(folder: Path) -> dict[str, Any]:
    """The report's rows over texts, by variant."""
    return {row["variant"]: row for row in report_of(folder)["readings"]}


@pytest.mark.parametrize("how", ["auto", "recomputed"])
def test_texts_are_read_judged_and_shown(chain: Chain, how: str) -> None:
    """Checks on divergence are taken over the texts, by slice and position, and stand on the page; both ways agree."""
    chain.policy(checks=CHECKS)
    done = chain.run(divergence=with_texts(chain, reference=how))
    assert done.code == 0, done.err + done.out
    rows = readings(chain.last)
    assert set(rows) == {"float32", "int8", "int2"}
    int8 = rows["int8"]
    assert int8["reference"] == ("stored" if how == "auto" else "recomputed")
    assert int8["kl"]["positions"] == int8["tokens"] > 100
    assert {part["name"] for part in int8["kl"]["by_slice"]} == {"small", "large"}
    assert int8["kl"]["rms_dp"] is not None
    assert rows["float32"]["kl"] is None
    assert rows["int2"]["kl"]["mean"] > int8["kl"]["mean"]
    assert rows["int8"]["ratio_to_reference"] is not None
    checks = {
        check["name"]: check
        for verdict in report_of(chain.last)["verdicts"]
        for check in verdict["checks"]
        if verdict["variant"] == "int8"
    }
    assert checks["kl_mean/additions"]["outcome"] == checks["rms_probability_change/additions"]["outcome"] == "pass"
    page = (chain.last / "report.html").read_text(encoding="utf-8")
    assert "Texts additions, 20 texts" in page
    assert "differs most at tokens" in page
    assert "texts additions: perplexity" in chain.cli("show", chain.last, "--variant", "int8").out
    quality = next(row for row in report_of(chain.last)["quality"] if row["variant"] == "int8")
    assert quality["kl"] is None
    assert quality["why_no_kl"] == "it was taken over the texts additions"


def test_readings_are_kept_and_the_reference_is_read_once(chain: Chain) -> None:
    """A second run reads nothing again; one with a new variant reads that one against the stored reference; a changed text reads all."""
    section = with_texts(chain)
    chain.run(divergence=section)
    assert "read additions" in stages_of(chain.last)["int8"]
    chain.run(divergence=section)
    assert all("read additions" in stages for stages in reused_of(chain.last).values())
    chain.run(
        divergence=section, variants=[REFERENCE, candidate(), candidate("int4", error_rate=0.21, bits=4), CONTROL]
    )
    assert "read additions" in reused_of(chain.last)["float32"]
    assert "read additions" not in reused_of(chain.last)["int4"]
    with_texts(chain)
    path = chain.root / "additions.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("0 + 0 = 0", "0 + 0 = 00"), encoding="utf-8")
    chain.run(divergence=section)
    assert not any("read additions" in stages for stages in reused_of(chain.last).values())


def test_a_disk_that_is_too_small_recomputes_and_says_so(chain: Chain) -> None:
    """Over the limit nothing is stored, the run says why, and the figures are there."""
    done = chain.run(divergence=with_texts(chain, disk_limit="1KB"))
    assert "not stored" in done.err + done.out
    assert "disk_limit" in done.err + done.out
    assert not list(chain.root.rglob("*.npy"))
    assert readings(chain.last)["int8"]["reference"] == "recomputed"


def test_a_limit_that_is_exceeded_blocks(chain: Chain) -> None:
    """A variant whose tokens moved too far fails the check, and the check names the texts."""
    chain.policy(checks=[*policy()["checks"], {"kind": "kl_mean", "golden_set": "additions", "maximum": 1e-12}])
    variants = [REFERENCE, candidate(error_rate=0.24), CONTROL]
    done = chain.run(divergence=with_texts(chain), variants=variants)
    assert (done.code, verdicts_of(chain.last)["int8"]) == (1, "fail")


def test_a_check_on_another_set_than_the_texts_is_refused(chain: Chain) -> None:
    """Divergence is taken over the texts: a check that names a golden set would never be measured."""
    chain.policy(checks=[*policy()["checks"], {"kind": "kl_mean", "golden_set": "sums", "maximum": 1.0}])
    done = chain.run(divergence=with_texts(chain))
    assert done.code == 2
    assert "divergence is taken over the texts additions" in done.err


def test_non_finite_logits_along_a_text_fail_the_variant(chain: Chain) -> None:
    """NaN of the variant where the reference was finite is a fail, and no statistic."""
    chain.policy(checks=CHECKS)
    bad = candidate("bad", fault="nonfinite")
    done = chain.run(divergence=with_texts(chain), variants=[REFERENCE, bad, CONTROL])
    assert (done.code, verdicts_of(chain.last)["bad"]) == (1, "fail")
    assert "bad" not in readings(chain.last)


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ({"texts": "nowhere.jsonl"}, "there is no file of texts"),
        ({"texts": "run.yaml", "reference": "remembered"}, "reference"),
        ({"texts": "additions.jsonl", "text_field": "txt"}, "no text in field 'txt'"),
        ({"texts": "additions.jsonl", "tokens_per_text": 1}, "tokens_per_text"),
        ({"texts": "additions.jsonl", "disk_limit": "lots"}, "'lots' is not a size"),
        ({"texts": "additions.jsonl", "slice_fild": "topic"}, "did you mean 'slice_field'"),
    ],
)
def test_mistakes_in_the_section_are_named(chain: Chain, section: dict[str, Any], what: str) -> None:
    """A wrong file, field, key or value ends with exit 2 before anything is measured."""
    with_texts(chain)
    done = chain.run(divergence=section)
    assert done.code == 2
    assert what in done.err


def test_texts_and_a_golden_set_have_names_of_their_own(chain: Chain) -> None:
    """Two things of one name would be one check."""
    with_texts(chain)
    (chain.root / "additions.jsonl").rename(chain.root / "sums.jsonl")
    done = chain.run(divergence={"texts": "sums.jsonl"})
    assert (done.code, "have the same name: sums" in done.err) == (2, True)


def test_a_small_golden_set_says_why_it_has_no_divergence(chain: Chain) -> None:
    """Under 100 prompts a check on divergence is not measured, and its sentence says why."""
    write_golden(chain.root / "golden" / "few" / "v1", items(60))
    chain.policy(checks=[*policy()["checks"], {"kind": "kl_mean", "golden_set": "few", "maximum": 1.0}])
    done = chain.run("--allow-underpowered", golden_sets=["golden/sums/v1", "golden/few/v1"])
    assert done.code == 4
    assert "its 60 items are too few" in done.out


def test_perplexity_over_the_texts_decides(chain: Chain) -> None:
    """A limit on the ratio over the run's texts is a check of its own, and what it says is the ratio of the report."""
    limit = {"kind": "perplexity_ratio", "golden_set": "additions", "maximum": 1.05}
    chain.policy(checks=[*policy()["checks"], limit], require_controls=False)
    coarse = candidate("int4", bits=4, error_rate=0.97)
    done = chain.run(divergence=with_texts(chain), variants=[REFERENCE, candidate(), coarse])
    found = next(one for one in report_of(chain.last)["verdicts"][2]["checks"] if one["name"] == "perplexity_ratio/additions")
    assert (found["outcome"], found["n"]) == ("fail", 20), done.out
    assert found["estimate"] == pytest.approx(readings(chain.last)["int4"]["ratio_to_reference"])
    chain.policy(checks=[*policy()["checks"], {**limit, "golden_set": "subtractions"}])
    assert "the run has sums, additions" in chain.run(divergence=with_texts(chain)).err
