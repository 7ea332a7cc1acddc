"""``quantgate diagnose`` from end to end: a run, a file, a server's metrics, options; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chain import Chain
from quantgate import rundir, runs
from quantgate.records import Report

TEXTBOOK = ("--batch", "8", "--failed-batch", "16", "--compute-utilisation", "40%", "--memory-total", "24GB", "--memory-used", "23.5GB")
METRICS = """vllm:num_requests_running{engine="0",model_name="m"} 22.0
vllm:num_requests_waiting{engine="0",model_name="m"} 41.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.98
"""


def test_a_run_and_its_report(chain: Chain) -> None:
    """The report stores the diagnosis, its pages show it, the command tells the same, and an old report still reads."""
    assert chain.run().code == 0
    stored = runs.load_report(chain.last)
    assert stored.diagnosis is not None
    told = chain.cli("diagnose", chain.last, "--json")
    assert told.code == 0 and json.loads(told.out) == rundir.plain(stored.diagnosis)
    assert stored.diagnosis.sentence[:40] in chain.cli("diagnose", chain.last).out
    assert f"Limit: {stored.diagnosis.line}" in " ".join(chain.cli("show", chain.last).out.split())
    assert 'id="diagnosis"' in (chain.last / "report.html").read_text(encoding="utf-8")
    added = json.loads(chain.cli("diagnose", chain.last, "--mfu", "70%", "--mbu", "20%", "--step-floor", "0.1ms", "--json").out)
    assert added["limit"] == "compute-bound" and added["symptoms"]["mfu_share"] == 0.7
    old = json.loads((chain.last / "report.json").read_text(encoding="utf-8"))
    del old["diagnosis"]
    assert rundir.decode(Report, json.dumps(old)).diagnosis is None


def test_options_and_files_say_the_same(chain: Chain, tmp_path: Path) -> None:
    """The textbook by options, as YAML and as JSON; an option goes before the file."""
    by_options = chain.cli("diagnose", *TEXTBOOK, "--json")
    assert by_options.code == 0 and json.loads(by_options.out)["limit"] == "memory-bound"
    written = {"batch": 8, "failed_batch": 16, "compute_utilisation": "40%", "memory_total": "24GB", "memory_used": "23.5GB"}
    (tmp_path / "s.yaml").write_text("".join(f"{key}: {value}\n" for key, value in written.items()), encoding="utf-8")
    (tmp_path / "s.json").write_text(json.dumps(written, indent=2), encoding="utf-8")
    assert {chain.cli("diagnose", "--symptoms", tmp_path / name, "--json").out for name in ("s.yaml", "s.json")} == {by_options.out}
    changed = chain.cli("diagnose", "--symptoms", tmp_path / "s.yaml", "--compute-utilisation", "95%", "--json")
    told = json.loads(changed.out)
    assert told["limit"] == "abstain" and told["symptoms"]["compute_utilisation_share"] == 0.95  # busy, and nobody knows with what


def test_a_server(chain: Chain, tmp_path: Path) -> None:
    """Metrics alone abstain with code 0 and name what is missing; with it, memory binds."""
    (tmp_path / "m.txt").write_text(METRICS, encoding="utf-8")
    abstained = chain.cli("diagnose", "--metrics", tmp_path / "m.txt")
    assert abstained.code == 0 and "cannot be told" in abstained.out
    told = chain.cli("diagnose", "--metrics", tmp_path / "m.txt", "--metrics", tmp_path / "m.txt", "--mfu", "12%")
    assert told.code == 0 and told.out.startswith("We are memory-bound, not compute-bound")


BAD: list[tuple[tuple[str, ...], str]] = [
    ((), "there is nothing to diagnose"),
    (("--batch", "0"), "--batch: found '0'"),
    (("--mfu", "1.4"), "--mfu: found '1.4'"),
    (("--mfu", "nan"), "--mfu: found 'nan'"),
    (("--step-time", "31"), "a time with its unit"),
    (("--memory-total", "10GB", "--memory-used", "20GB"), "memory_used: found 20000000000, more than memory_total"),
    (("--model", "m", "--batch", "1"), "--model names a model of --metrics"),
    (("--metrics", "absent.txt"), "absent.txt: cannot be read"),
    (("--symptoms", "absent.yaml"), "absent.yaml: no such file"),
    (("absent-run",), "matches 'absent-run'"),
    (("absent-run", "--metrics", "m.txt"), "do not go together"),
]


@pytest.mark.parametrize(("words", "said"), BAD)
def test_bad_input_is_one_line(chain: Chain, words: tuple[str, ...], said: str) -> None:
    """Code 2, one line that says what was found, no traceback."""
    done = chain.cli("diagnose", *words)
    assert done.code == 2 and said in done.err
    assert len(done.err.splitlines()) == 1


FILES: list[tuple[str, str]] = [
    ("compute_utilization: 40%\n", "did you mean 'compute_utilisation'"),
    ("batch: 8\nmfu: 40\n", "s.yaml:2: mfu: found 40, expected a share"),
    ("memory_total: 1GB\nmemory_used: 2GB\n", "s.yaml:2: memory_used: found"),
    ("- batch\n", "a mapping of keys"),
    ("batch: 8\nbatch: 9\n", "stands twice"),
    ("batch: [8]\n", "found [8]"),
    ("{", "not valid YAML"),
]


@pytest.mark.parametrize(("text", "said"), FILES)
def test_bad_files_are_refused_by_line(chain: Chain, tmp_path: Path, text: str, said: str) -> None:
    """With file, line and key."""
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    done = chain.cli("diagnose", "--symptoms", tmp_path / "s.yaml")
    assert done.code == 2 and said in done.err


def test_altered_evidence_is_no_evidence(chain: Chain) -> None:
    """A run whose evidence was altered could not be diagnosed: code 4."""
    assert chain.run().code == 0
    path = chain.last / "evidence.json"
    path.write_text(path.read_text(encoding="utf-8").replace("float32", "float16", 1), encoding="utf-8")
    assert chain.cli("diagnose", chain.last).code == 4
