"""``quantgate judge`` on results that other tools wrote: from the files to the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import foreign
from chain import Chain, Done, junit_is_green, report_of, verdicts_of
from foreign import ITEMS, scores
from quantgate import rundir
from quantgate.records import Report

Bench = Callable[..., Done]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """An empty folder to judge files in, with a policy of six points."""
    monkeypatch.chdir(tmp_path)
    foreign.policy(tmp_path / "policy.yaml")
    return Chain(root=tmp_path)


def judge(bench: Chain, reference: Path | str, *candidates: Path | str, words: tuple[str, ...] = ()) -> Done:
    """Judge files under the default policy, the report in ``out``."""
    each = [word for one in candidates for word in ("--candidate", str(one))]
    return bench.cli("judge", "--reference", str(reference), *each, "--policy", "policy.yaml", "--out", "out", *words)


def checks_of(name: str, folder: Path = Path("out")) -> dict[str, dict[str, Any]]:
    """The checks of a variant by name."""
    verdict = next(one for one in report_of(folder)["verdicts"] if one["variant"] == name)
    return {check["name"]: check for check in verdict["checks"]}


def check_of(name: str) -> dict[str, Any]:
    """The one quality check of a variant."""
    return next(check for check_name, check in checks_of(name).items() if check_name.startswith("quality"))


# ---------------------------------------------------------------------------------------------- real results


@foreign.real_files
@pytest.mark.parametrize(("name", "b", "c", "code"), [("int8", 9, 16, 0), ("nf4", 39, 25, 3)])
def test_real_results_of_lm_eval(bench: Chain, name: str, b: int, c: int, code: int) -> None:
    """The counts of a real pair are those counted by hand here, and the figures those of an independent library."""
    files = [foreign.LM_EVAL_FILES / f"mc400-{one}.jsonl" for one in ("fp32", name)]
    left, right = (
        [json.loads(line)["acc"] for line in file.read_text(encoding="utf-8").splitlines()] for file in files
    )
    counted = sum(x > y for x, y in zip(left, right, strict=True)), sum(x < y for x, y in zip(left, right, strict=True))
    assert counted == (b, c)
    foreign.policy(Path("policy.yaml"), margin=0.04)
    done = judge(bench, f"fp32={files[0]}", f"{name}={files[1]}")
    assert done.code == code, done.err
    check = checks_of(name)["quality/items"]
    assert (check["b"], check["c"], check["n"]) == (b, c, 400)
    assert check["estimate"] == pytest.approx((b - c) / 400)
    row = next(row for row in report_of(Path("out"))["quality"] if row["variant"] == name)
    assert row["mcnemar_p"] == pytest.approx(stats.binomtest(b, b + c, 0.5).pvalue, rel=1e-9)
    assert row["accuracy"] == pytest.approx(sum(right) / 400)
    assert len(row["slices"]) == 4


@foreign.real_files
def test_several_real_candidates(bench: Chain) -> None:
    """A ladder of two: the one that passes goes forward, the table names both, and the chance level comes from the choices."""
    foreign.policy(Path("policy.yaml"), margin=0.04, require="any")
    files = [f"{one}={foreign.LM_EVAL_FILES}/mc400-{one}.jsonl" for one in ("fp32", "int8", "nf4")]
    done = judge(bench, *files)
    assert done.code == 0, done.err
    assert verdicts_of(Path("out")) == {"fp32": "pass", "int8": "pass", "nf4": "inconclusive"}
    assert "int8 passes and goes forward" in done.out
    assert 0.3 < report_of(Path("out"))["golden_sets"][0]["chance_level"] < 0.5
    assert "from the number of choices in the file" in done.out
    assert junit_is_green(Path("out"))


@foreign.real_files
def test_a_real_set_that_cannot_show_the_margin(bench: Chain) -> None:
    """The reference is right on half of it and guessing gives 36 %: six points are more than half of what it has above chance."""
    done = judge(bench, *(foreign.LM_EVAL_FILES / f"mc400-{one}.jsonl" for one in ("fp32", "int8")))
    assert done.code == 4
    assert "49.8 % and guessing gives 35.6 %, so a loss of 6.0 points could be missed; use more items" in done.out.replace("\n", " ")


@foreign.real_files
def test_an_altered_prompt_is_not_comparable(bench: Chain) -> None:
    """One prompt of 400 that differs names the field and the item."""
    rows = [
        json.loads(line)
        for line in (foreign.LM_EVAL_FILES / "mc400-int8.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    rows[17]["prompt_hash"] = "0" * 64
    done = judge(bench, foreign.LM_EVAL_FILES / "mc400-fp32.jsonl", foreign.lines(Path("int8.jsonl"), rows))
    assert done.code == 4
    assert "not comparable: prompt_hash is" in done.out
    assert "first different at item 17" in check_of("int8")["because"]


# ---------------------------------------------------------------------------------------------- every format


def of_table(path: Path, values: list[int], _: float) -> Path:
    name = path.stem  # two tools' tables of the same scores are not the same bytes
    return foreign.table(path.with_suffix(".jsonl"), values, model=lambda place: name)


def of_csv(path: Path, values: list[int], _: float) -> Path:
    path.with_suffix(".csv").write_text(
        "id,score\n" + "".join(f"i{n},{one}\n" for n, one in enumerate(values)), encoding="utf-8"
    )
    return path.with_suffix(".csv")


def of_lm_eval(path: Path, values: list[int], shift: float) -> Path:
    return foreign.lm_eval(path.with_suffix(".jsonl"), values, shift=shift)


def of_inspect(path: Path, values: list[int], _: float) -> Path:
    return foreign.write_json(path.with_suffix(".json"), foreign.inspect_log(["C" if one else "I" for one in values]))


def of_nemo(path: Path, values: list[int], _: float) -> Path:
    return foreign.nemo(path, [float(one) for one in values])


FORMATS = {"table": of_table, "lm_eval": of_lm_eval, "inspect": of_inspect, "nemo": of_nemo, "csv": of_csv}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("b", "c", "code"), [(4, 4, 0), (40, 0, 1), (28, 8, 3)])
def test_every_format(bench: Chain, name: str, b: int, c: int, code: int) -> None:
    """Each format is recognised, and the same scores give the same counts and exit code from each."""
    files = [
        FORMATS[name](Path(who), scores(**flips), shift)
        for who, flips, shift in (("ref", {}, 0.0), ("cand", {"b": b, "c": c}, 0.1))
    ]
    done = judge(bench, *files)
    assert done.code == code, done.err + done.out
    assert f"taken for {'table' if name == 'csv' else name}" in done.out
    check = check_of("cand")
    assert (check["b"], check["c"], check["n"], check["estimate"]) == (b, c, ITEMS, (b - c) / ITEMS)
    assert junit_is_green(Path("out")) == (code == 0)
    assert {path.name for path in Path("out").iterdir()} == {"report.json", "report.html", "report.md", "junit.xml"}


def test_the_report_is_valid_and_says_where_scores_came_from(bench: Chain) -> None:
    """report.json keeps to its schema, holds no item that did not flip, and names files, format and what is unknown."""
    import jsonschema

    judge(bench, of_lm_eval(Path("ref"), scores(), 0.0), of_lm_eval(Path("cand"), scores(b=3, c=2), 0.1))
    report = report_of(Path("out"))
    jsonschema.validate(report, rundir.json_schema(Report))
    assert len(report["flips"]) == 5
    assert report["flips"][0]["prompt"].startswith("Question ")
    text = "\n".join(report["sentences"])
    assert "cand: 400 items from cand.jsonl, taken for lm_eval, metric acc, filter none." in text
    assert "items: the chance level is 25.0 %, from the number of choices in the file." in text
    assert "Not stated by every file, so not compared: batch plan, bos, device, driver, threads, tokenizer." in text
    assert report["device"] is None and report["measurements"][1]["scheme"] == "not known"


def test_what_files_do_not_state_is_unknown(bench: Chain) -> None:
    """Truncated answers, output tokens and seconds that no file states are no zeros on the page."""
    judge(bench, of_lm_eval(Path("ref"), scores(), 0.0), of_lm_eval(Path("cand"), scores(b=3, c=2), 0.1))
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "took -" in page and "0.0 s" not in page
    row = page[page.index("Output vs reference") :].split("<tr>")[1]
    assert row.count(">-</td>") >= 4, row


def test_the_same_files_give_the_same_bytes(bench: Chain) -> None:
    """No clock and no chance: report, pages and junit.xml are the same twice, and a second verdict is stored in the same folder."""
    files = of_table(Path("ref"), scores(), 0), of_table(Path("cand"), scores(b=2), 0)
    words = ("judge", "--reference", str(files[0]), "--candidate", str(files[1]), "--policy", "policy.yaml")
    first = bench.cli(*words)
    (folder,) = Path("reports").iterdir()
    assert folder.name.startswith("judged-ref-cand-")
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert bench.cli(*words).out == first.out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == found
    assert [path.name for path in Path("reports").iterdir()] == [folder.name]
    shown = bench.cli("show", folder.name[-8:])
    assert shown.code == 0 and "cand" in shown.out
    foreign.policy(Path("policy.yaml"), margin=0.05)
    bench.cli(*words)
    assert len(list(Path("reports").iterdir())) == 2


def test_text_that_no_file_can_hold(bench: Chain) -> None:
    """Half a surrogate pair, a line end and an escape sequence in prompt and answer: the pages are written, the verdict stands."""
    odd = "\ud800 \x1b[2J\n</script>"
    for name, b in (("ref", 0), ("cand", 3)):
        rows = [foreign.lm_eval_row(n, one, shift=b / 10, target=odd) for n, one in enumerate(scores(b=b))]
        for row in rows:
            row["arguments"] = {f"gen_args_{n}": {"arg_0": odd, "arg_1": f"{odd} {n}"} for n in range(4)}
        foreign.lines(Path(f"{name}.jsonl"), rows)
    done = judge(bench, "ref.jsonl", "cand.jsonl")
    assert done.code == 0, done.err
    assert "could not publish" not in done.err
    assert "\x1b" not in done.out + Path("out/report.html").read_text(encoding="utf-8")


def test_json_is_the_report(bench: Chain) -> None:
    """``--json`` prints the report that is stored."""
    done = judge(bench, of_table(Path("ref"), scores(), 0), of_table(Path("cand"), scores(), 0), words=("--json",))
    assert json.loads(done.out) == report_of(Path("out"))


def test_names(bench: Chain) -> None:
    """NAME=FILE names a variant, a file with an equals sign in its own name is a file, and a control must fail."""
    ref, cand = of_table(Path("ref"), scores(), 0), of_table(Path("a=b"), scores(), 0)
    bad = of_table(Path("bad"), scores(b=200), 0)
    done = judge(bench, f"float={ref}", cand, f"copy={of_table(Path('c'), scores(), 0)}", words=("--control", str(bad)))
    assert done.code == 0, done.err
    assert verdicts_of(Path("out")) == {"float": "pass", "a-b": "pass", "copy": "pass", "bad": "fail"}
    good = judge(bench, ref, cand, words=("--control", str(of_table(Path("good"), scores(b=1), 0))))
    assert good.code == 4
    assert "must fail on every required golden set" in good.out


def test_slices_and_clusters(bench: Chain) -> None:
    """Columns of a table reach the report and the statistics: eight sources are too few to show anything."""
    fields = {"topic": lambda place: f"t{place % 3}", "source": lambda place: f"s{place % 8}"}
    files = [foreign.table(Path(f"{name}.jsonl"), scores(b=b), **fields) for name, b in (("ref", 0), ("cand", 2))]
    assert judge(bench, *files, words=("--slice", "topic")).code == 0
    assert [row["slice"] for row in report_of(Path("out"))["quality"][1]["slices"]] == ["t0", "t1", "t2"]
    done = judge(bench, *files, words=("--cluster", "source"))
    assert done.code == 3
    assert "effective clusters" in done.out


# ---------------------------------------------------------------------------------------------- what never passes


def test_items_that_are_missing_count_as_lost(bench: Chain) -> None:
    """An item that the candidate lacks is lost also where the reference missed it; the report names the first ten."""
    rows = scores()
    ref = of_table(Path("ref"), rows, 0)
    cand = foreign.lines(
        Path("cand.jsonl"), [{"id": f"i{n:05d}", "score": one} for n, one in enumerate(rows) if n < 360]
    )
    done = judge(bench, ref, cand)
    assert done.code == 1
    check = check_of("cand")
    assert (check["b"], check["c"], check["n"]) == (40, 0, 400)
    assert "40 items without an answer count as lost" in check["because"]
    ten = ", ".join(f"i{n:05d}" for n in range(360, 370))
    assert (
        f"cand: 40 items ({ten} and 30 more) missing on items, counted as lost." in report_of(Path("out"))["sentences"]
    )


def test_items_that_the_reference_lacks(bench: Chain) -> None:
    """Unknown ids are not measured, and the report says how many of all items the reference lacks."""
    cand = of_table(Path("cand"), scores(), 0)
    ref = foreign.lines(Path("ref.jsonl"), [json.loads(line) for line in cand.read_text().splitlines()][:390])
    done = judge(bench, ref, cand)
    assert done.code == 4
    assert "the variant has item i00390, which the golden set does not have" in done.out
    assert "i00399) on items that the reference's results lack, 2.5 % of all items" in done.out.replace("\n", " ")


@pytest.mark.parametrize("side", ["ref", "cand"])
def test_an_id_that_stands_twice(bench: Chain, side: str) -> None:
    """On either side: not measured, with both lines."""
    files = {name: of_table(Path(name), scores(), 0) for name in ("ref", "cand")}
    with files[side].open("a", encoding="utf-8") as stream:
        stream.write('{"id": "i00004", "score": 1}\n')
    done = judge(bench, files["ref"], files["cand"])
    assert done.code == 4
    assert "item i00004 more than once" in done.out
    assert "'i00004' on lines 5 and 401" in done.out


def test_no_item_in_common(bench: Chain) -> None:
    """Two tables about different questions."""
    ref = of_table(Path("ref"), scores(), 0)
    cand = foreign.lines(Path("cand.jsonl"), [{"id": f"q{n}", "score": 1} for n in range(400)])
    assert judge(bench, ref, cand).code == 4


def test_a_task_that_is_missing(bench: Chain) -> None:
    """A task of the reference that the candidate was not scored on is not measured; one more task is not looked at, and said."""
    for name, tasks in (("ref", ("a", "b")), ("cand", ("a", "c"))):
        for task in tasks:
            path = Path(name) / f"samples_{task}_2026-11-29T17-29-00.1.jsonl"
            foreign.lm_eval(path, scores(), shift=0.1 * len(name))
    done = judge(bench, "ref", "cand")
    assert done.code == 4
    found = checks_of("cand")
    assert found["quality/a"]["outcome"] == "pass"
    assert found["quality/b"]["because"] == "is not measured on b: the variant was not scored on it"
    assert "task c is not in the reference's results" in done.out


def test_a_cached_answer_is_refused(bench: Chain) -> None:
    """Bit-equal log-likelihoods mean that one model was scored twice."""
    done = judge(bench, of_lm_eval(Path("ref"), scores(), 0.0), of_lm_eval(Path("cand"), scores(), 0.0))
    assert done.code == 4
    assert "all its raw log-likelihoods on a golden set are bit-equal with those of ref" in done.out.replace("\n", " ")


def test_a_copy_of_the_references_file_is_refused(bench: Chain) -> None:
    """The same bytes under another name are no variant's results, in a table as well, which holds no log-likelihoods."""
    ref, copy = of_table(Path("ref"), scores(), 0), Path("copy.jsonl")
    copy.write_bytes(ref.read_bytes())
    done = judge(bench, ref, copy)
    assert (done.code, verdicts_of(Path("out"))["copy"]) == (4, "not_measured")
    assert checks_of("copy")["distinct"]["because"].startswith("is refused: its file is that of ref, byte for byte")
    assert "copy: its file is the reference's, byte for byte." in report_of(Path("out"))["sentences"]


def test_other_prompts_without_hashes_are_not_comparable(bench: Chain) -> None:
    """A file that lost its hashes still holds its requests, and those must be the reference's; alike, they are no reason to refuse."""
    none = {f"{field}_hash": None for field in ("doc", "prompt", "target")}
    rows = [foreign.lm_eval_row(place, one, shift=0.1, **none) for place, one in enumerate(scores())]
    ref = foreign.lm_eval(Path("ref.jsonl"), scores())
    assert judge(bench, ref, foreign.lines(Path("plain.jsonl"), rows)).code == 0
    rows[7]["arguments"]["gen_args_2"]["arg_1"] = " another choice"
    done = judge(bench, ref, foreign.lines(Path("other.jsonl"), rows))
    assert done.code == 4
    assert "' for the variant, first different at item 7" in check_of("other")["because"]


def test_equal_scores_alone_are_no_reason(bench: Chain) -> None:
    """A quantized model may well answer every item as before: b = c = 0 passes where the set is large enough."""
    assert judge(bench, of_table(Path("ref"), scores(), 0), of_table(Path("cand"), scores(), 0)).code == 0
    assert "equal ones are no reason to refuse it" in checks_of("cand")["distinct"]["because"]


@pytest.mark.parametrize("side", ["ref", "cand"])
def test_nan_is_not_measured(bench: Chain, side: str) -> None:
    """NaN in foreign evidence is not measured, never a fail and never a pass."""
    for name, shift in (("ref", 0.0), ("cand", 0.1)):
        rows = [foreign.lm_eval_row(n, one, shift=shift) for n, one in enumerate(scores())]
        if name == side:
            rows[9]["filtered_resps"][0][0] = "nan"
        foreign.lines(Path(f"{name}.jsonl"), rows)
    done = judge(bench, "ref.jsonl", "cand.jsonl")
    assert done.code == 4
    assert checks_of(side)["finite"]["outcome"] == "not_measured"
    assert "1 item gave NaN or infinity, the first is item 9 of the set items" in done.out.replace("\n", " ")


def test_graded_scores_are_told_apart(bench: Chain) -> None:
    """Scores between 0 and 1 are never compared as if they were right or wrong."""
    files = [
        foreign.table(Path(f"{name}.jsonl"), [0.5 * one for one in scores(b=b)])
        for name, b in (("ref", 0), ("cand", 1))
    ]
    done = judge(bench, *files)
    assert done.code != 1
    assert check_of("cand")["outcome"] != "pass" or check_of("cand")["estimate"] == pytest.approx(0.5 / ITEMS)


def test_memory_is_not_measured(bench: Chain) -> None:
    """A policy that asks for freed memory cannot be met by scores."""
    checks = [{"kind": "quality", "margin": 0.06}, {"kind": "freed_share", "minimum": 0.25}]
    foreign.policy(Path("policy.yaml"), checks=checks)
    done = judge(bench, of_table(Path("ref"), scores(), 0), of_table(Path("cand"), scores(), 0))
    assert done.code == 4
    assert checks_of("cand")["memory/freed_share"]["outcome"] == "not_measured"


def test_a_required_control_that_is_missing(bench: Chain) -> None:
    """A policy that wants a known-bad control gets one from a file, or the verdict is not measured."""
    foreign.policy(Path("policy.yaml"), require_controls=True)
    done = judge(bench, of_table(Path("ref"), scores(), 0), of_table(Path("cand"), scores(), 0))
    assert done.code == 4
    assert "requires a known-bad control" in done.out


def test_conditions_that_differ(bench: Chain) -> None:
    """What both files state must be equal; what one alone states is said to be unknown."""
    warmer = foreign.inspect_log(["C" if one else "I" for one in scores()])
    ref = foreign.write_json(Path("ref.json"), warmer)
    warmer["eval"]["model_generate_config"]["temperature"] = 1.0
    done = judge(bench, ref, foreign.write_json(Path("cand.json"), warmer))
    assert done.code == 4
    assert "not comparable: model_generate_config is" in done.out
    del warmer["eval"]["model_generate_config"]
    done = judge(bench, ref, foreign.write_json(Path("cand.json"), warmer))
    assert done.code == 0
    assert "driver, model generate config, threads" in done.out.replace("\n", " ")


def test_the_chance_level(bench: Chain) -> None:
    """A reference at 30 % on four choices shows nothing; without --chance nobody can know that there were four."""
    rows = [int(n < 120) for n in range(ITEMS)]
    files = of_table(Path("ref"), rows, 0), of_table(Path("cand"), rows, 0)
    done = judge(bench, *files)
    assert done.code == 0
    assert "items: the chance level is 0.0 %, as the file does not say it; give --chance" in done.out
    done = judge(bench, *files, words=("--chance", "0.25"))
    assert done.code == 4
    assert "guessing gives 25.0 %" in done.out
    assert "items: the chance level is 25.0 %, as given" in done.out


def test_a_waiver_does_not_hold(bench: Chain) -> None:
    """Nobody knows on which day a file was made, so a waiver with a last day is no help."""
    waiver = {"check": "quality/items", "variant": "cand", "owner": "me", "reason": "a test", "expires": "2999-01-01"}
    try:
        foreign.policy(Path("policy.yaml"), waivers=[waiver])
        done = judge(bench, of_table(Path("ref"), scores(), 0), of_table(Path("cand"), scores(b=60), 0))
    finally:
        foreign.policy(Path("policy.yaml"))
    assert done.code in (1, 2)  # 2 where this version's policies have no waivers


# ---------------------------------------------------------------------------------------------- runs of our own


def test_a_variant_of_a_run(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored run's variant is judged like a file, with what the run knows of its conditions."""
    assert chain.run().code == 0
    monkeypatch.chdir(chain.root)
    foreign.policy(Path("files.yaml"), minimum_items=10)
    run = chain.last.name
    words = ("--policy", "files.yaml", "--out", "out")
    done = chain.cli("judge", "--reference", run, "--candidate", f"{run}:int8", "--control", f"{run}:int2", *words)
    assert done.code == 0, done.err + done.out
    stored = {one["variant"]: one for one in report_of(chain.last)["verdicts"]}
    again = next(check for check in stored["int8"]["checks"] if check["name"] == "quality/sums")
    assert [checks_of("int8")["quality/sums"][field] for field in "bcn"] == [again[field] for field in "bcn"]
    assert chain.cli("judge", "--reference", run, "--candidate", f"{run}:int9", *words).code == 2
    assert "no such file or folder" in chain.cli("judge", "--reference", "nothing", "--candidate", run, *words).err


# ---------------------------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "judge needs a RUN: either RUN, or --reference FILE and --candidate FILE"),
        (("--reference", "a.jsonl"), "judge needs --candidate"),
        (("--candidate", "a.jsonl"), "judge needs --reference"),
        (("run", "--reference", "a.jsonl"), "RUN and --reference do not go together"),
        (("run", "--chance", "0.25"), "RUN and --chance do not go together"),
        (
            ("--reference", "a.jsonl", "--candidate", "b.jsonl", "--chance", "1"),
            "--chance must be at least 0 and less than 1",
        ),
        (("--reference", "a.jsonl", "--candidate", "a.jsonl"), "a.jsonl is given twice"),
        (("--reference", "x=a.jsonl", "--candidate", "x=b.jsonl"), "two files are named 'x'"),
        (("--reference", "a b=a.jsonl", "--candidate", "b.jsonl"), "'a b' is no name for a variant"),
        (("--reference", "none.jsonl", "--candidate", "b.jsonl"), "none.jsonl: no such file or folder"),
        (("--reference", "a.jsonl", "--candidate", "odd.bin"), "odd.bin: is in no format that is known here"),
        (("--reference", "a.jsonl", "--candidate", "empty.jsonl"), "empty.jsonl: is empty"),
        (("--reference", "a.jsonl", "--candidate", "nothing"), "nothing: is an empty folder"),
        (("--reference", "a.jsonl", "--candidate", "wide.jsonl"), "wide.jsonl:1: is UTF-16; save it as UTF-8"),
        (("--reference", "a.jsonl", "--candidate", "b.jsonl", "--format", "inspect"), "a.jsonl:"),
        (
            ("--reference", "a.jsonl", "--candidate", "b.jsonl", "--format", "lmeval"),
            "unknown reader 'lmeval': did you mean lm_eval",
        ),
        (("--reference", "a.jsonl", "--candidate", "b.jsonl", "--score", "right"), "a.jsonl:1: right: missing"),
    ],
)
def test_usage(bench: Chain, words: tuple[str, ...], what: str) -> None:
    """Exit code 2, one line, and nothing is written."""
    for name in ("a", "b"):
        of_table(Path(name), scores(), 0)
    Path("odd.bin").write_bytes(b"\x00\x01\x02")
    Path("empty.jsonl").touch()
    Path("nothing").mkdir()
    Path("wide.jsonl").write_text("{}", encoding="utf-16")
    done = bench.cli("judge", *words, "--policy", "policy.yaml")
    assert done.code == 2
    assert what in done.err
    assert "Traceback" not in done.err and "unexpected" not in done.err
    assert not Path("reports").exists()


@pytest.mark.parametrize("words", [("promote",), ("compare", "out"), ("judge", "--policy", "policy.yaml")])
def test_a_report_on_files_is_no_run(bench: Chain, words: tuple[str, ...]) -> None:
    """It can be shown; what needs evidence says why it has none instead of that it is not there."""
    judge(bench, of_table(Path("ref"), scores(), 0), of_table(Path("cand"), scores(b=1), 0))
    done = bench.cli(words[0], "out", *words[1:])
    assert done.code == 2
    assert "out is a report on files, without evidence of its own" in done.err
    assert bench.cli("show", "out").code == 0


def test_a_broken_line_is_named(bench: Chain) -> None:
    """File, line and field in one line, exit code 2, no report."""
    ref, cand = of_table(Path("ref"), scores(), 0), of_table(Path("cand"), scores(), 0)
    with cand.open("a", encoding="utf-8") as stream:
        stream.write('{"id": "more", "score": NaN}\n')
    done = judge(bench, ref, cand)
    assert (done.code, done.err) == (2, "quantgate: cand.jsonl:401: score: found nan, which is no score\n")
    assert not Path("out").exists()


def test_a_cancelled_log_is_broken_evidence(bench: Chain) -> None:
    """Exit code 4: the evidence is not whole."""
    ref = of_inspect(Path("ref"), scores(), 0)
    cand = foreign.write_json(Path("cand.json"), foreign.inspect_log(["C"] * 400, status="cancelled"))
    done = judge(bench, ref, cand)
    assert done.code == 4
    assert "the log's status is 'cancelled'" in done.err


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_use(bench: Chain) -> None:
    """A score that no arithmetic can take and a single cluster end in a sentence: no crash, no warning of a library."""
    foreign.policy(Path("policy.yaml"), checks=[{"kind": "quality", "margin": 0.2, "scale": "unbounded", "better": "higher"}])
    values = [-float(place % 7) for place in range(ITEMS)]
    ref = foreign.table(Path("ref.jsonl"), values)
    done = judge(bench, ref, foreign.table(Path("cand.jsonl"), [*values[:-1], -1e200]))
    assert (done.code, "unexpected" in done.err) == (4, False)
    assert "item i00399 of the variant has the score -1e+200, which is beyond any use" in check_of("cand")["because"]
    foreign.policy(Path("policy.yaml"))
    one = {"cluster": lambda place: "the only one"}
    done = judge(bench, foreign.table(Path("ref.jsonl"), scores(), **one), foreign.table(Path("cand.jsonl"), scores(b=3, c=2), **one))
    assert (done.code, "Warning" in done.err, "unexpected" in done.err) == (3, False, False)


# ---------------------------------------------------------------------------------------------- size


def test_twenty_thousand_items(tmp_path: Path) -> None:
    """Twenty thousand items take under three seconds of processor time, the start of Python included, and load neither torch nor MLflow."""
    for name, flips in (("ref", {}), ("cand", {"b": 100, "c": 80})):
        foreign.lm_eval(tmp_path / f"{name}.jsonl", scores(items=20_000, **flips), shift=len(name) / 10)
    foreign.policy(tmp_path / "policy.yaml", margin=0.01)
    code = (
        "import resource, sys; from quantgate import cli; "
        "code = cli.main(['judge', '--reference', 'ref.jsonl', '--candidate', 'cand.jsonl', '--policy', 'policy.yaml']); "
        "used = resource.getrusage(resource.RUSAGE_SELF); "
        "print(code, used.ru_utime + used.ru_stime, *{'torch', 'mlflow', 'matplotlib', 'pandas', 'scipy.stats'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    exit_code, used_s, *heavy = done.stdout.splitlines()[-1].split()
    assert (exit_code, heavy) == ("0", []), done.stderr
    busy = os.getloadavg()[0] > 0.7 * (os.cpu_count() or 1)  # beside other work on the same cores a second holds less
    assert float(used_s) < (6 if busy else 3)
    (folder,) = (tmp_path / "reports").iterdir()
    assert (folder / "report.json").stat().st_size < 1_000_000


# ---------------------------------------------------------------------------------------------- looking early at finished files


def _seen_early(bench: Chain, first: list[int], second: list[int]) -> list[Path]:
    """A reference right everywhere and two candidates, under a policy that looks after every item."""
    foreign.policy(bench.root / "policy.yaml", sequential={"lambda": 0.9, "seed": 0}, minimum_items=300, objective="smallest_loss")
    return [foreign.table(Path(f"{name}.jsonl"), values) for name, values in (("a", [1] * 400), ("b", first), ("c", second))]


def test_finished_files_are_looked_at_from_the_fewest_items_on(bench: Chain) -> None:
    """The evidence suffices after a few dozen items; a pass is declared at 300, figures are those of all 400, and so is the ranking."""
    files = _seen_early(bench, [0] * 2 + [1] * 398, [1] * 399 + [0])
    done = judge(bench, *files)
    assert done.code == 0, done.err
    for name, lost in (("b", 2), ("c", 1)):
        check = checks_of(name)["quality/items"]
        assert (check["items_used"], check["n"], check["b"], check["estimate"]) == (300, 400, lost, pytest.approx(lost / 400))
    assert "shown after 300 items, the figures are those of all 400" in done.out.replace("\n", " ")
    assert report_of(Path("out"))["chosen"] == "c"


@foreign.real_files
@pytest.mark.parametrize("seed", range(5))
def test_no_seed_makes_a_loss_beyond_the_margin_pass(bench: Chain, seed: int) -> None:
    """nf4 loses 3.5 points over all 400 items: under three points it passes under no seed and no number of fewest items."""
    files = [foreign.LM_EVAL_FILES / f"mc400-{one}.jsonl" for one in ("fp32", "nf4")]
    for fewest in (1, 300):
        foreign.policy(Path("policy.yaml"), margin=0.03, sequential={"lambda": 0.9, "seed": seed}, minimum_items=fewest)
        assert judge(bench, *files).code != 0


def test_an_objective_that_files_do_not_know_gives_way_to_the_loss(bench: Chain) -> None:
    """Memory is not known of files: the smaller loss goes forward and not the one given first, and the report says so."""
    foreign.policy(bench.root / "policy.yaml", require="any", objective="freed_bytes")
    files = [foreign.table(Path("a.jsonl"), [1] * 400), foreign.table(Path("b.jsonl"), [0] * 3 + [1] * 397)]
    done = judge(bench, *files, foreign.table(Path("c.jsonl"), [1] * 399 + [0]))
    assert (done.code, report_of(Path("out"))["chosen"]) == (0, "c"), done.err
    said = done.out.replace("\n", " ")
    assert "c passes and goes forward. The memory freed is known of none that passes, so the one with the smallest loss goes" in said
    assert "where that is known of none, the one with the smallest loss" in Path("out/report.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------- what does not fit together


def test_scores_in_zero_to_one_are_not_unbounded(bench: Chain) -> None:
    """Called unbounded, 26 right of 1,319 would need no proof that a loss can be seen; so the claim is refused."""
    foreign.policy(
        bench.root / "policy.yaml", checks=[{"kind": "quality", "scale": "unbounded", "better": "higher", "margin": 0.03}]
    )
    few = [1] * 26 + [0] * 1293
    done = judge(bench, foreign.table(Path("a.jsonl"), few), foreign.table(Path("b.jsonl"), [*few[1:], 1]))
    assert done.code == 4
    assert "the policy says that the scores have no bounds and all of them lie in 0 to 1" in check_of("b")["because"]
    wide = [place / 40 for place in range(400)]
    done = judge(bench, foreign.table(Path("a.jsonl"), wide), foreign.table(Path("b.jsonl"), [one + 0.01 for one in wide]))
    assert done.code != 4 and check_of("b")["scale"] == "unbounded", done.err


@pytest.mark.parametrize("graded", ["reference", "variant"])
def test_one_graded_score_against_right_or_wrong(bench: Chain, graded: str) -> None:
    """A half among ones and zeros is another scale than the other side's: not comparable, naming the item, whichever side has it."""
    foreign.policy(bench.root / "policy.yaml", checks=[{"kind": "quality", "better": "higher", "margin": 0.06}])
    plain, half = foreign.table(Path("a.jsonl"), scores()), foreign.table(Path("b.jsonl"), [0.5, *scores()[1:]])
    done = judge(bench, *((plain, half) if graded == "variant" else (half, plain)))
    assert done.code == 4
    assert "the scales differ" in done.out.replace("\n", " ") and "item i00000 has 0.5" in done.out.replace("\n", " ")


@pytest.mark.parametrize("field", ["slice", "cluster"])
def test_an_item_in_two_groups_is_not_comparable(bench: Chain, field: str) -> None:
    """A slice or cluster that differs between the sides is named with its item; one that a side does not state is taken from the other."""
    grouped = foreign.table(Path("a.jsonl"), scores(), **{field: lambda place: f"g{place // 2 % 50}"})
    other = foreign.table(Path("b.jsonl"), scores(), **{field: lambda place: f"g{place // 2 % 50 if place != 7 else 4}"})
    assert judge(bench, grouped, other).code == 4
    assert f"not comparable: item i00007 is in {field} 'g3' for the reference and in 'g4' for the variant" in check_of("b")["because"]
    silent = foreign.table(Path("c.jsonl"), scores(b=3))
    plain, bounds = foreign.table(Path("d.jsonl"), scores()), []
    again = foreign.table(Path("c2.jsonl"), scores(b=3), **{field: lambda place: f"g{place // 2 % 50}"})
    for files in ((plain, silent), (grouped, silent), (plain, again)):
        assert judge(bench, *files).code in (0, 3)
        bounds.append(check_of(files[1].stem)["bound"])
    if field == "cluster":
        assert bounds[0] < bounds[1] == bounds[2]


def _waiver(check: str, variant: str) -> dict[str, str]:
    return {"check": check, "variant": variant, "owner": "A", "reason": "r", "expires": "2099-12-31"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"require": "any", "correction": "fixed_sequence", "order": ["bb", "b"]}, "order.0: 'bb' is no candidate here: did you mean 'b'?"),
        ({"waivers": [_waiver("quality/items", "a")]}, "waivers.0.variant: a waiver is for 'a', which is no candidate here: known are b"),
        ({"waivers": [_waiver("quality/item", "b")]}, "waivers.0.check: the policy has no required check 'quality/item': did you mean"),
    ],
)
def test_names_that_the_files_lack_are_refused(bench: Chain, fields: dict[str, Any], said: str) -> None:
    """A candidate of the order, and the check and variant of a waiver, must be there: exit 2, nothing is written."""
    foreign.policy(bench.root / "policy.yaml", **fields)
    done = judge(bench, foreign.table(Path("a.jsonl"), scores()), foreign.table(Path("b.jsonl"), scores(b=1)))
    assert (done.code, said in done.err.replace("\n", " ")) == (2, True), done.err
    assert not Path("out").exists()


def test_a_waiver_of_files_is_said_to_hold_on_no_day(bench: Chain) -> None:
    """One that names what is there is listed as unused, as the files have no day."""
    foreign.policy(bench.root / "policy.yaml", waivers=[_waiver("quality/items", "b")])
    done = judge(bench, foreign.table(Path("a.jsonl"), scores()), foreign.table(Path("b.jsonl"), scores(b=80)))
    assert done.code == 1
    assert "is unused: the day of the run is not known" in done.out.replace("\n", " ")


# ---------------------------------------------------------------------------------------------- what is said is so


def test_looks_that_hold_too_few_items_are_said_to_be_left_out(bench: Chain) -> None:
    """Three looks are planned and the policy asks for 300 items: one remains, and the verdict says what became of the others."""
    path = foreign.policy(bench.root / "policy.yaml", looks=3, minimum_items=300)
    done = judge(bench, foreign.table(Path("a.jsonl"), scores()), foreign.table(Path("b.jsonl"), scores(b=1)))
    assert done.code == 0, done.err
    assert "look 1 of 1 (2 of the 3 planned are left out, with too few items), at 400 of 400 items" in check_of("b")["because"]
    assert "Looks at fewer items than a check needs are left out" in bench.cli("policy", "explain", str(path)).out.replace("\n", " ")


@pytest.mark.parametrize(("scale", "said"), [(1, "counted as lost"), (7, "and its scores have no worst one to count as")])
def test_a_missing_item_counts_as_lost_only_where_it_can(bench: Chain, scale: int, said: str) -> None:
    """Without bounds no value is known for an item that is missing: the check is not measured, and nothing is said to be lost."""
    fields = {} if scale == 1 else {"scale": "unbounded", "better": "higher"}
    foreign.policy(bench.root / "policy.yaml", checks=[{"kind": "quality", "margin": 0.06, **fields}])
    values = [scale * one for one in scores()]
    done = judge(bench, foreign.table(Path("a.jsonl"), values), foreign.table(Path("b.jsonl"), values[:-1]))
    assert done.code == (0 if scale == 1 else 4)
    assert f"b: 1 item (i00399) missing on items, {said}." in report_of(Path("out"))["sentences"]
    assert ("lost" in done.out) == (scale == 1)


def test_a_row_says_its_unit_and_changes_of_scores_are_no_flips(bench: Chain) -> None:
    """Unbounded scores stand under a header of their own unit, their changes as changes; nothing is said in points."""
    foreign.policy(bench.root / "policy.yaml", checks=[{"kind": "quality", "margin": 5, "scale": "unbounded", "better": "higher"}])
    values = [place % 40 - 60 for place in range(400)]
    done = judge(bench, foreign.table(Path("a.jsonl"), values), foreign.table(Path("b.jsonl"), [v - v % 3 / 9 for v in values]))
    assert done.code == 0, done.err
    table = done.out.partition("upper bounds")[0]
    assert "loss [upper bound], in score" in table and " changed" in table and "points" not in table
    assert "Loss, in score" in Path("out/report.md").read_text(encoding="utf-8")


def test_a_row_that_is_not_measured_shows_no_passing_figures(bench: Chain) -> None:
    """Quality passes and what memory is freed is not known: the row holds no loss that reads as within its margin."""
    checks = [{"kind": "freed_share", "minimum": 0.25}, {"kind": "quality", "margin": 0.06}]
    foreign.policy(bench.root / "policy.yaml", checks=checks)
    done = judge(bench, foreign.table(Path("a.jsonl"), scores()), foreign.table(Path("b.jsonl"), scores(b=1)))
    assert done.code == 4
    assert "NOT MEASURED" in done.out and "<=" not in done.out.partition("report")[0]
