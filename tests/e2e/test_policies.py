"""What a policy may ask for, from the file to the printed verdict: slices, an order, waivers, controls, and what it can resolve."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

from chain import CONTROL, REFERENCE, Chain, Done, candidate, junit_is_green, report_of, verdicts_of

ROOT = Path(__file__).parents[2]
QUALITY = {"kind": "quality", "margin": 0.06}
FREED = {"kind": "freed_share", "minimum": 0.25}
IDENTITY = {**REFERENCE, "name": "again", "role": "identity"}
GOOD = candidate("int8")
WORSE = candidate("int3", error_rate=0.32, bits=3)
TOMORROW = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
YESTERDAY = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()


def waiver(**changes: str) -> dict[str, str]:
    """A waiver of the loser's only check that it does not meet."""
    one = {"check": "quality/sums", "variant": "int3", "owner": "A. Meyer", "reason": "only a trial", "expires": TOMORROW}
    return {**one, **changes}


def refused(chain: Chain, done: Done, *parts: str) -> None:
    """Exit 2, every part is said, and no run was begun."""
    assert done.code == 2, done.err
    assert [part for part in parts if part not in done.err] == []
    assert not chain.reports.exists()


def pages(chain: Chain) -> list[str]:
    """What a person reads of the last run: HTML and Markdown."""
    return [(chain.last / name).read_text(encoding="utf-8") for name in ("report.html", "report.md")]


# ---------------------------------------------------------------------------------------------- slices


def test_slices_are_decided_and_shown(chain: Chain) -> None:
    """A required and an advisory slice: a check each, in the report, on the pages and in the JUnit file."""
    required = {"kind": "quality", "slice": "large", "margin": 0.08}
    advisory = {"kind": "quality", "slice": ["small"], "tier": "advisory", "margin": 0.08}
    chain.policy(checks=[QUALITY, required, advisory])
    done = chain.run("--allow-underpowered")
    assert done.code == 0, done.out + done.err
    names = [one["name"] for one in report_of(chain.last)["verdicts"][1]["checks"]]
    assert names[3:] == ["quality/sums", "quality/sums/large", "quality/sums/small"]
    assert all("quality/sums/large" in page and "1 slice looked at" in page for page in pages(chain))
    assert "slices: large" in pages(chain)[0]
    assert "slice large of every golden set" in pages(chain)[1]
    assert junit_is_green(chain.last)


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        ({"slice": "lagre"}, ("policy.yaml:9:", "golden set sums has no slice 'lagre': did you mean 'large'? known are")),
        ({"slice": ["large", "tiny"]}, ("no slice 'tiny': known are",)),
        ({"slice": "small", "minimum_items": 100}, ("slice 'small' of sums has", "asks for at least 100: give the check")),
    ],
)
def test_slices_that_are_not_there(chain: Chain, rule: dict[str, Any], parts: tuple[str, ...]) -> None:
    """A slice that the set lacks, or that is too small to be decided on, is refused before anything is measured."""
    chain.policy(checks=[{**QUALITY, **rule}])
    refused(chain, chain.run("--allow-underpowered"), *parts)


def test_a_slice_that_is_too_small_to_show_the_margin(chain: Chain) -> None:
    """The power rule of golden sets is that of their slices too."""
    chain.policy(checks=[QUALITY, {"kind": "quality", "slice": "small", "margin": 0.02}])
    refused(chain, chain.run(), "golden set small of sums v1 has", "--allow-underpowered")


# ---------------------------------------------------------------------------------------------- an order, a family


def test_a_fixed_sequence(chain: Chain) -> None:
    """The mildest candidate passes at the full alpha, the next one fails and stops the sequence, the last is not tested."""
    chain.policy(correction="fixed_sequence", order=["int8", "int3", "int4"])
    done = chain.run(variants=[REFERENCE, GOOD, WORSE, candidate("int4", error_rate=0.203, bits=4), CONTROL])
    assert done.code == 0, done.out + done.err
    assert verdicts_of(chain.last) == {"float32": "pass", "int8": "pass", "int3": "fail", "int4": "inconclusive", "int2": "fail"}
    assert "int4 is not tested: int3 stands before it in the policy's order and is not a pass." in " ".join(done.out.split())
    assert "one after the other: int8, int3, int4" in pages(chain)[0]
    assert "in a fixed order" in done.out
    shown = chain.cli("show", chain.last, "--variant", "int4")
    assert "is not tested" in shown.out


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"order": ["int8", "int9"]}, ("policy.yaml:", "'int9' is no candidate of the run: did you mean 'int8'? known are int8")),
        ({"order": ["int2", "int8"]}, ("'int2' is no candidate of the run",)),
        ({"order": []}, ("'fixed_sequence' needs 'order'",)),
        ({"order": ["int8", "int8"]}, ("'int8' stands twice in the order",)),
        ({"order": ["int8"], "require": "all"}, ("'fixed_sequence' is for 'require: any'",)),
        ({"order": ["int8"], "correction": "holm"}, ("'order' is for 'correction: fixed_sequence'; found holm",)),
        ({"order": ["int8"], "family_size": 3}, ("'family_size' is for 'require: any' with 'correction: holm'",)),
        (
            {"correction": "fixed_sequenc", "order": ["int8"]},
            ("did you mean 'fixed_sequence'? must be 'holm', 'fixed_sequence' or 'none'",),
        ),
    ],
)
def test_an_order_that_cannot_be_used(chain: Chain, changes: dict[str, Any], parts: tuple[str, ...]) -> None:
    """Names that are no candidate, none, twice, or where nothing is corrected."""
    chain.policy(**{"correction": "fixed_sequence", **changes})
    refused(chain, chain.run(), *parts)


def test_a_candidate_without_a_place_in_the_order(chain: Chain) -> None:
    """Each candidate of the run has its place before anything is measured."""
    chain.policy(correction="fixed_sequence", order=["int8"])
    refused(chain, chain.run(variants=[REFERENCE, GOOD, WORSE, CONTROL]), "candidate 'int3' has no place in the order")


def test_a_family_that_counts_what_was_dropped(chain: Chain) -> None:
    """Four tried, one run: the check stands at alpha / 4, and the table says so; fewer than the run has are refused."""
    chain.policy(family_size=4)
    done = chain.run()
    assert (done.code, "Holm over 4" in done.out) == (0, True), done.out
    check = next(one for one in report_of(chain.last)["verdicts"][1]["checks"] if one["name"] == "quality/sums")
    assert check["level"] == 0.9875


def test_a_family_smaller_than_the_run(chain: Chain) -> None:
    """Two candidates cannot be counted as one."""
    chain.policy(family_size=1)
    done = chain.run(variants=[REFERENCE, GOOD, WORSE, CONTROL])
    refused(chain, done, "2 candidates compete in the run, and the policy counts 1")


# ---------------------------------------------------------------------------------------------- waivers


def test_a_waiver_lets_a_loser_pass_and_every_report_says_so(chain: Chain) -> None:
    """Exit 0, promoted, green, and each page names owner, reason, day and what the check really came out as."""
    chain.policy(waivers=[waiver()])
    done = chain.run(variants=[REFERENCE, WORSE, CONTROL])
    assert done.code == 0, done.out + done.err
    report = report_of(chain.last)
    check = next(one for one in report["verdicts"][1]["checks"] if one["name"] == "quality/sums")
    assert (check["outcome"], check["waived_by"]) == ("fail", f"A. Meyer: only a trial, until {TOMORROW}")
    assert report["promotion"]["promoted"]
    assert report["headline"] == "int3 passes with a waiver and goes forward."
    assert "PASS (waived)" in done.out
    for page in (" ".join(done.out.split()), *pages(chain), chain.cli("show", chain.last, "--variant", "int3").out):
        assert "A. Meyer" in page and "only a trial" in page and TOMORROW in page
    root = ElementTree.parse(chain.last / "junit.xml").getroot()
    cases = list(root.iter("testcase"))
    skipped = {(case.attrib["classname"], case.attrib["name"]): case.find("skipped") for case in cases}
    waived = skipped["quantgate.int3", "quality/sums"]
    assert waived is not None and f"waived by A. Meyer: only a trial, until {TOMORROW}" in waived.attrib["message"]
    assert skipped["quantgate.waivers", "int3: quality/sums"] is not None
    assert junit_is_green(chain.last)
    assert chain.cli("promote", chain.last).code == 0


@pytest.mark.parametrize(
    ("changes", "variants", "code", "state", "words"),
    [
        ({"expires": YESTERDAY}, [REFERENCE, WORSE, CONTROL], 1, "expired", "so it does nothing"),
        ({"variant": "int8"}, [REFERENCE, GOOD, CONTROL], 0, "unused", "the check passes without it"),
        ({}, [REFERENCE, candidate("int3", fault="crash"), CONTROL], 4, "unused", "no waiver reaches that"),
        ({}, [REFERENCE, candidate("int3", fault="nonfinite"), CONTROL], 1, "used", "does not block"),
    ],
    ids=["expired", "unused", "not measured", "NaN blocks all the same"],
)
def test_every_waiver_is_shown(
    chain: Chain, changes: dict[str, str], variants: list[Any], code: int, state: str, words: str
) -> None:
    """Expired, unused and used ones are told apart on every page; none of them lets pass what was not measured or is NaN."""
    chain.policy(waivers=[waiver(**changes)])
    done = chain.run(variants=variants)
    assert done.code == code, done.out
    assert junit_is_green(chain.last) == (code == 0)
    sentence = f"by A. Meyer (only a trial) is {state}: "
    assert sentence in " ".join(report_of(chain.last)["sentences"])
    for page in (done.out, *pages(chain), (chain.last / "junit.xml").read_text(encoding="utf-8")):
        assert words in " ".join(page.split())


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"check": "quality/summs"}, ("policy.yaml:", "no required check 'quality/summs': did you mean 'quality/sums'? known are")),
        ({"check": "output_length/sums"}, ("no required check 'output_length/sums'",)),
        ({"check": "finite"}, ("check 'finite' cannot be waived",)),
        ({"variant": "int4"}, ("the run has no variant 'int4': did you mean 'int3'?",)),
        ({"variant": "int2"}, ("'int2' has the role known_bad; only a candidate's checks can be waived",)),
        ({"expires": "2026-02-30"}, ("there is no such day; found '2026-02-30'",)),
        ({"expires": "soon"}, ("a day is expected, for example 2026-12-31; found 'soon'",)),
        ({"owner": " "}, ("waivers.0.owner",)),
        ({"reson": "x"}, ("unknown key 'reson': did you mean 'reason'?",)),
    ],
)
def test_a_waiver_that_cannot_be_used(chain: Chain, changes: dict[str, str], parts: tuple[str, ...]) -> None:
    """A check or variant that is not there, a day that is none, nobody who answers for it: refused with the nearest name."""
    chain.policy(waivers=[waiver(**changes)])
    refused(chain, chain.run(variants=[REFERENCE, WORSE, CONTROL]), *parts)


def test_a_day_as_yaml_reads_it(chain: Chain) -> None:
    """A date without quotes is a date to YAML and the same day here; one waiver stands once."""
    path = chain.policy(waivers=[waiver()])
    path.write_text(path.read_text(encoding="utf-8").replace(f"'{TOMORROW}'", TOMORROW), encoding="utf-8")
    assert f"expires: {TOMORROW}" in path.read_text(encoding="utf-8")
    assert chain.cli("run", chain.config(variants=[REFERENCE, WORSE, CONTROL])).code == 0
    chain.policy(waivers=[waiver(), waiver(reason="again")])
    assert "is waived twice" in chain.run(variants=[REFERENCE, WORSE, CONTROL]).err


def test_a_stored_run_is_judged_by_its_own_day(chain: Chain) -> None:
    """A waiver added later holds for the stored run if it holds on that run's day, and never by the clock."""
    assert chain.run(variants=[REFERENCE, WORSE, CONTROL]).code == 1
    held = chain.policy("held.yaml", waivers=[waiver()])
    expired = chain.policy("expired.yaml", waivers=[waiver(expires=YESTERDAY)])
    unknown = chain.policy("unknown.yaml", waivers=[waiver(variant="int9")])
    codes = [chain.cli("judge", chain.last, "--policy", path).code for path in (held, expired, unknown)]
    assert codes == [0, 1, 2]  # a variant that the run lacks is refused
    info = chain.last / "run.json"
    day = report_of(chain.last)["created_at"][:10]
    info.write_text(info.read_text(encoding="utf-8").replace(day, "2031-01-01"), encoding="utf-8")
    assert chain.cli("judge", chain.last, "--policy", held).code == 1


# ---------------------------------------------------------------------------------------------- controls


def test_both_controls_come_out_as_they_must(chain: Chain) -> None:
    """The reference again in other batches passes and gives the noise floor; the known-bad one fails; the run passes."""
    done = chain.run(variants=[REFERENCE, IDENTITY, GOOD, CONTROL])
    assert done.code == 0, done.out + done.err
    report = report_of(chain.last)
    assert verdicts_of(chain.last)["again"] == "pass"
    assert {one["variant"]: one["control_ok"] for one in report["verdicts"]} == {
        "float32": None, "again": True, "int8": None, "int2": True,
    }  # fmt: skip
    noise = next(row for row in report["quality"] if row["variant"] == "again")
    assert (noise["mcnemar_p"], noise["kl"]["mean"], noise["kl"]["top1_agreement"]) == (1.0, 0.0, 1.0)
    assert [flip for flip in report["flips"] if flip["variant"] == "again"] == []
    rows = {sheet["variant"]: sheet["batch_plan"] for one in evidence_of(chain)["variants"] for sheet in one["sheets"]}
    assert rows["again"]["max_rows"] == rows["float32"]["max_rows"] // 4
    assert "PASS, as it must" in done.out and "FAIL, as it must be" in done.out


def evidence_of(chain: Chain) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((chain.last / "evidence.json").read_text(encoding="utf-8"))["body"]
    return read


@pytest.mark.parametrize(
    ("variants", "words"),
    [
        ([REFERENCE, {**IDENTITY, "options": {"error_rate": 0.4}}, GOOD, CONTROL], "again is a control that must pass"),
        ([REFERENCE, {**IDENTITY, "options": {"step_s": 0.02}}, GOOD, CONTROL], "is not the reference again"),
        ([REFERENCE, {**IDENTITY, "options": {"fault": "crash"}}, GOOD, CONTROL], "again is a control that must pass"),
        ([REFERENCE, IDENTITY, GOOD, {**CONTROL, "options": {"error_rate": 0.25}}], "int2 is a control that must fail"),
        ([REFERENCE, IDENTITY, GOOD, {**CONTROL, "options": {"fault": "kill"}}], "int2 is a control that must fail"),
    ],
    ids=["identity loses", "identity has other weights", "identity crashes", "known bad is good", "known bad dies"],
)
def test_a_control_that_comes_out_wrong_promotes_nothing(chain: Chain, variants: list[Any], words: str) -> None:
    """Exit 4 although a candidate passes; the headline and every page say which control and why."""
    executor = {"executor": "process"} if "kill" in str(variants) else {}
    done = chain.run(variants=variants, **executor)
    assert done.code == 4, done.out
    report = report_of(chain.last)
    assert (report["outcome"], report["chosen"], report["promotion"]["promoted"]) == ("not_measured", None, False)
    assert verdicts_of(chain.last)["int8"] == "pass"
    assert words in report["headline"]
    assert "CONTROL WRONG" in done.out
    assert all(words in " ".join(page.split()) for page in pages(chain))
    assert not junit_is_green(chain.last)


def test_the_nightly_config_has_both_controls() -> None:
    """configs/nightly.yaml runs an identity and a known-bad control beside its candidates."""
    read = yaml.safe_load((ROOT / "configs" / "nightly.yaml").read_text(encoding="utf-8"))
    assert {"reference", "identity", "known_bad"} <= {one.get("role", "candidate") for one in read["variants"]}


# ---------------------------------------------------------------------------------------------- explain and schema


def test_explain_says_what_is_demanded_and_what_can_be_resolved(chain: Chain) -> None:
    """Demands, correction, power, smallest margin, items, the fewest without a flip, per set and slice."""
    rule = {"kind": "quality", "slice": "large", "margin": 0.1, "minimum_items": 20}
    path = chain.policy(checks=[QUALITY, FREED, rule, {**rule, "slice": "*", "tier": "advisory"}], waivers=[waiver()])
    done = chain.cli("policy", "explain", path, "--golden", chain.root / "golden" / "sums" / "v1", "--candidates", "2")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    for part in (
        "it loses at most 6.0 points against the reference on every golden set",
        "it frees at least 25 % of the weight memory",
        "on slice large of every golden set (at least 20 items)",
        "Holm's step-down over 2 candidates",
        "the best is tested at level 0.025",
        f"quality/sums of int3 until {TOMORROW}, by A. Meyer: only a trial",
        "quality/sums: sums v1, 240 items, margin 6.0 points, level 0.025:",
        "without a single flip at least 60 items pass",
        "quality/sums/large: large of sums v1,",
        "quality/sums/small, advisory: small of sums v1,",
        "the smallest margin it resolves at that flip rate:",
        "the largest flip rate it carries at its margin:",
        "items needed at that flip rate and margin:",
    ):
        assert part in said, part
    assert chain.cli("policy", "explain", path).code == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--golden", "nowhere"), "nowhere"),
        (("--candidates", "0"), "--candidates must be 1 or more, found 0"),
        (("--golden", "GOLDEN"), "golden set 'law', and the run has sums"),
    ],
)
def test_explain_with_bad_input(chain: Chain, words: tuple[str, ...], what: str) -> None:
    """A golden set that is not there or that the policy does not mean, and no candidates, are exit 2."""
    path = chain.policy(checks=[QUALITY, {**QUALITY, "golden_set": "law"}])
    given = [str(chain.root / "golden" / "sums" / "v1") if word == "GOLDEN" else word for word in words]
    done = chain.cli("policy", "explain", path, *given)
    assert (done.code, what in done.err) == (2, True), done.err


def test_the_committed_schema_is_current_and_takes_the_projects_policies(chain: Chain) -> None:
    """docs/schema/ holds what ``policy schema`` prints; it is a schema, takes our policies, and refuses what load_policy refuses."""
    path = ROOT / "docs" / "schema" / "policy-v1.schema.json"
    printed = chain.cli("policy", "schema")
    assert printed.out == path.read_text(encoding="utf-8"), "run: make example"
    schema = json.loads(printed.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for policy in sorted((ROOT / "configs" / "policies").glob("*.yaml")):
        validator.validate(yaml.safe_load(policy.read_text(encoding="utf-8")))
    good = yaml.safe_load(chain.policy(waivers=[waiver()], checks=[{**QUALITY, "slice": ["a", "b"]}]).read_text(encoding="utf-8"))
    validator.validate(good)
    for broken in (
        {"margn": 1},
        {"schema_version": 2},
        {"checks": []},
        {"checks": [{"kind": "quality"}]},
        {"checks": [{"kind": "kl_p99", "minimum": 1}]},
        {"alpha": "0.05"},
        {"waivers": [{"check": "a"}]},
    ):
        assert not validator.is_valid({**good, **broken}), broken
