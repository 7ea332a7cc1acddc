"""Configs and policies: every fault has its file, its line and what is allowed, and nothing is guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from quantgate import config
from quantgate.config import load_policy, load_run
from quantgate.errors import ConfigError
from quantgate.records import BaselineLimits, CheckRule, Sequential, Waiver

RUN = """\
schema_version: 1
model:
  name: small
  path: model
device: {kind: fake, memory_budget: 450MB}
engine: fake
variants:
  - name: float32
    role: reference
    quantizer: fake
  - name: int8
    quantizer: fake
    bits: 8
    granularity: group:64
    options: {seed: 1}
golden_sets: [sets/a/v1]
policy: policy.yaml
workload:
  prompt_tokens: 64
promotion: {registry: local, alias: champion}
"""
POLICY = """\
schema_version: 1
name: strict
why: because
checks:
  - kind: quality
    margin: 0.03
  - kind: freed_share
    minimum: 0.25
"""


@pytest.fixture(autouse=True)
def no_outer_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of whoever runs the tests are not read."""
    for name in ("QUANTGATE_CACHE", "XDG_CACHE_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


def written(folder: Path, text: str | bytes = RUN, name: str = "run.yaml") -> Path:
    """A config beside a policy."""
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def changed(old: str, new: str, text: str = RUN) -> str:
    """A text with one passage replaced."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def refused(path: Path, *, policy: bool = False) -> ConfigError:
    """The error that a file is refused with."""
    with pytest.raises(ConfigError) as caught:
        load_policy(path) if policy else load_run(path)
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith(f"{caught.value.file}:")
    return caught.value


# ---------------------------------------------------------------------------------------------- what is read


def test_a_config_is_read(tmp_path: Path) -> None:
    """Every value arrives with its unit, every path is absolute and relative to the file it stands in."""
    read = load_run(written(tmp_path))
    assert read.model.path == str(tmp_path / "model")
    assert read.golden_sets == (tmp_path / "sets" / "a" / "v1",)
    assert read.policy_path == tmp_path / "policy.yaml"
    assert read.out == tmp_path.parent / "reports"
    assert read.device.memory_budget_bytes == 450_000_000
    assert (read.reference.name, [one.name for one in read.candidates]) == ("float32", ["int8"])
    assert read.variants[1].scheme == "w8a16-g64"
    assert read.registered_model == "small"
    assert read.workload.batch_sizes == (1, 8)
    assert read.tracking_uri == f"sqlite:///{tmp_path.parent / 'reports' / 'mlflow.db'}"


def test_a_config_in_another_folder_is_read_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths do not depend on where the command is run."""
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert load_run(Path("run.yaml")) == load_run(tmp_path / "run.yaml")


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_byte_order_mark_and_line_ends_change_nothing(tmp_path: Path, mark: bytes, ends: str) -> None:
    """A file saved by an editor on Windows is read like any other."""
    path = written(tmp_path, mark + RUN.replace("\n", ends).encode())
    assert load_run(path).model.name == "small"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("450MB", 450 * 10**6),
        ("600MiB", 600 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("2gb", 2 * 10**9),
        ("1024", 1024),
        ("12B", 12),
        ("3KiB", 3072),
    ],
)
def test_sizes(tmp_path: Path, text: str, size: int) -> None:
    """Sizes have decimal and binary units, written in any case; a bare number is bytes."""
    assert load_run(written(tmp_path, changed("450MB", text))).device.memory_budget_bytes == size


def test_how_long_filling_and_timing_may_take(tmp_path: Path) -> None:
    """15 minutes a ceiling, 20 for all timing, new processes; and what a config says instead."""
    read = load_run(written(tmp_path))
    assert (read.workload.fill_budget_s, read.timing.budget_s, read.timing.processes) == (900.0, 1200.0, "fresh")
    text = changed("  prompt_tokens: 64\n", "  prompt_tokens: 64\n  fill_budget: 1h30min\ntiming: {budget: 90s, processes: kept}\n")
    read = load_run(written(tmp_path, text))
    assert (read.workload.fill_budget_s, read.timing.budget_s, read.timing.processes) == (5400.0, 90.0, "kept")


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("  fill_budget: 15\n", "workload.fill_budget: '15' is not a duration; write a number with s, min or h"),
        ("  fill_budget: 0s\n", "workload.fill_budget: '0s' is no time at all"),
        ("  fill_budget: -1min\n", "workload.fill_budget: '-1min' is not a duration"),
        ("timing: {budget: soon}\n", "timing.budget: 'soon' is not a duration"),
        ("timing: {processes: new}\n", "timing.processes: must be 'fresh' or 'kept'; found 'new'"),
    ],
)
def test_what_is_no_duration(tmp_path: Path, more: str, what: str) -> None:
    """A number alone is refused: nobody knows of what; the line is said."""
    error = refused(written(tmp_path, changed("  prompt_tokens: 64\n", f"  prompt_tokens: 64\n{more}")))
    assert (error.line, what in str(error)) == (20, True), str(error)


@pytest.mark.parametrize("text", ["450M", "lots", "-1MB", "0", "MB", ".nan", "nan", "inf", "1e999GB", "0.5B"])
def test_what_is_no_size(tmp_path: Path, text: str) -> None:
    """Anything else is refused with its line."""
    error = refused(written(tmp_path, changed("450MB", text)))
    assert error.line == 5
    assert "memory_budget" in str(error) or "is not a size; write a number with B, KB, MB" in str(error)


def test_the_cache_is_found_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The config's cache, else QUANTGATE_CACHE, else the user's cache folder."""
    path = written(tmp_path)
    assert load_run(path).cache == Path.home() / ".cache" / "quantgate"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert load_run(path).cache == Path("/x/quantgate")
    monkeypatch.setenv("QUANTGATE_CACHE", str(tmp_path / "c"))
    assert load_run(path).cache == tmp_path / "c"
    assert load_run(written(tmp_path, RUN + "cache: mine\n")).cache == tmp_path / "mine"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("sqlite:///runs/m.db", "sqlite:///{base}/runs/m.db"),
        ("sqlite:////abs/m.db", "sqlite:////abs/m.db"),
        ("http://host:5000", "http://host:5000"),
    ],
)
def test_tracking_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, read: str) -> None:
    """A relative SQLite file is relative to the config; the config comes before the environment, which comes before the default."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://env:1")
    assert load_run(written(tmp_path, RUN + f"mlflow: {{tracking_uri: '{given}'}}\n")).tracking_uri == read.format(
        base=tmp_path
    )
    assert load_run(written(tmp_path)).tracking_uri == "http://env:1"


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml")), ids=lambda path: path.name
)
def test_the_files_that_come_with_the_project_are_valid(path: Path) -> None:
    """Every config and policy of configs/ can be read."""
    load_policy(path) if path.parent.name == "policies" else load_run(path)


# ---------------------------------------------------------------------------------------------- keys

KEYS = [
    (
        "engine: fake",
        "enginee: fake",
        6,
        "unknown key 'enginee': did you mean 'engine'? allowed here are baseline, budget, cache, calibration, device, divergence, engine",
    ),
    ("  name: small", "  nmae: small", 3, "unknown key 'nmae': did you mean 'name'? allowed here are gguf_file"),
    ("memory_budget:", "memory_buget:", 5, "unknown key 'memory_buget': did you mean 'memory_budget'?"),
    ("    bits: 8", "    bit: 8", 13, "unknown key 'bit': did you mean 'bits'? allowed here are bits, calibration, granularity"),
    ("  prompt_tokens: 64", "  promt_tokens: 64", 19, "unknown key 'promt_tokens': did you mean 'prompt_tokens'?"),
    ("alias: champion", "aliass: champion", 20, "unknown key 'aliass': did you mean 'alias'?"),
    ("engine: fake", "zzz: fake", 6, "unknown key 'zzz': allowed here are"),
    ("engine: fake", "on: fake", 6, "key 'on' is no text to YAML (on, off, yes and no are true or false)"),
    ("policy: policy.yaml\n", "", 1, "key 'policy' is missing"),
    ("  name: small\n", "", 2, "key 'model.name' is missing"),
    ("  - name: int8\n    quantizer: fake", "  - quantizer: fake", 11, "key 'variants.1.name' is missing"),
    ("schema_version: 1\n", "", 1, "key 'schema_version' is missing"),
]


@pytest.mark.parametrize(("old", "new", "line", "what"), KEYS, ids=[new or f"no {old}" for old, new, _, _ in KEYS])
def test_wrong_keys(tmp_path: Path, old: str, new: str, line: int, what: str) -> None:
    """A misspelt, unknown or missing key at any depth is refused with its line and the nearest name."""
    error = refused(written(tmp_path, changed(old, new)))
    assert error.line == line
    assert what in str(error)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("engine: fake", "engine: fake\nengine: transformers", 7),
        ("    bits: 8", "    bits: 8\n    bits: 4", 14),
        ("alias: champion", "alias: champion, alias: x", 20),
    ],
)
def test_a_key_that_stands_twice(tmp_path: Path, old: str, new: str, line: int) -> None:
    """YAML lets the last one win silently; here it is an error at the second."""
    error = refused(written(tmp_path, changed(old, new)))
    assert (error.line, "stands twice" in str(error)) == (line, True)


# ---------------------------------------------------------------------------------------------- values

VALUES = [
    ("schema_version: 1", "schema_version: 2", 1, "this quantgate reads schema_version 1; found 2"),
    ("schema_version: 1", "schema_version: true", 1, "found True"),
    ("schema_version: 1", "schema_version: '1'", 1, "this is text to YAML; write 1"),
    (
        "    bits: 8",
        '    bits: "4"',
        13,
        "variants.1.bits: expected a whole number; found '4' (this is text to YAML; write 4)",
    ),
    ("    bits: 8", "    bits: on", 13, "YAML reads on, off, yes and no as true or false"),
    ("    bits: 8", "    bits: 16", 13, "less than or equal to 8; found 16"),
    ("    bits: 8", "    bits: 4.0", 13, "found 4.0"),
    ("    bits: 8", "    python: nowhere/bin/python", 13, "there is no interpreter /"),
    ("450MB", "0.5", 5, "'0.5' is not a size; write a number with B"),
    ("450MB", "0", 5, "'0' is not a size"),
    ("450MB", "on", 5, "YAML reads on"),
    ("  - name: int8", "  - name: on", 11, "YAML reads on, off, yes and no as true or false; put text in quotes"),
    ("  - name: int8", "  - name: 8", 11, "variants.1.name: expected text; found 8"),
    ("  - name: int8", "  - name: a/b", 11, "a name is letters, digits"),
    ("  - name: int8", "  - name: ../x", 11, "a name is letters, digits"),
    ("  - name: int8", "  - name: float32", 11, "two variants are named 'float32'"),
    ("group:64", "group:0", 14, "granularity"),
    ("group:64", "64", 14, "granularity"),
    ("prompt_tokens: 64", "prompt_tokens: 1e2", 19, "this is text to YAML; write 100"),
    ("prompt_tokens: 64", "prompt_tokens: 0", 19, "greater than or equal to 1"),
    ("prompt_tokens: 64", "prompt_tokens: 6.5", 19, "workload.prompt_tokens"),
    ("prompt_tokens: 64", "batch_sizes: []", 19, "needs at least 1 entry"),
    ("prompt_tokens: 64", "batch_sizes: [1, 0]", 19, "workload.batch_sizes.1"),
    ("prompt_tokens: 64", "output_tokens: 1", 19, "greater than or equal to 2"),
    ("{seed: 1}", "{seed: .inf}", 15, "options.seed: expected a finite number; found inf"),
    ("{seed: 1}", "{seed: [1]}", 15, "options.seed: expected text, a number, or true or false; found a list"),
    ("{seed: 1}", "{1: 1}", 15, "key '1' is no text"),
    ("golden_sets: [sets/a/v1]", "golden_sets: []", 16, "needs at least 1 entry"),
    ("golden_sets: [sets/a/v1]", "golden_sets: sets/a/v1", 16, "expected a list"),
    ("golden_sets: [sets/a/v1]", "golden_sets: [2024-01-01]", 16, "expected text; found the day 2024-01-01"),
    (
        "    role: reference",
        "    role: baseline",
        9,
        "variants.0.role: must be 'reference', 'candidate', 'identity' or 'known_bad'",
    ),
    ("    role: reference\n", "", 7, "exactly one variant must have 'role: reference'; found 0"),
    (
        "  - name: int8",
        "  - name: int8\n    role: reference",
        7,
        "exactly one variant must have 'role: reference'; found 2",
    ),
    ("  - name: int8", "  - name: int8\n    role: known_bad", 7, "no variant has 'role: candidate'"),
    (
        "    role: reference",
        "    role: reference\n    bits: 8",
        10,
        "the reference is the unquantized model and has no 'bits'",
    ),
    (
        "  - name: int8",
        "  - name: int8\n    role: identity",
        14,
        "the identity control is the reference again and has no 'bits'",
    ),
    ("engine: fake", "engine: vlm", 6, "unknown engine 'vlm'"),
    ("engine: fake", "engine: fke", 6, "did you mean fake?"),
    ("engine: fake", "executor: proces", 6, "did you mean process?"),
    ("kind: fake", "kind: gpu", 5, "unknown device 'gpu'"),
    (
        "  - name: int8\n    quantizer: fake",
        "  - name: int8\n    quantizer: fale",
        12,
        "unknown quantizer 'fale': did you mean fake?",
    ),
    ("engine: fake", "engine: fake\nsinks: [folder, junitt]", 7, "unknown sink 'junitt': did you mean junit?"),
    ("registry: local", "registry: locl", 20, "unknown registry 'locl': did you mean local?"),
    ("engine: fake", "engine: fake\nprovenance: fixd", 7, "provenance"),
    ("engine: fake", "engine: fake\nrun_id: ../x", 7, "run_id"),
    ("engine: fake", "engine: fake\nrun_id: ''", 7, "run_id"),
]


@pytest.mark.parametrize(
    ("old", "new", "line", "what"), VALUES, ids=[f"{index}-{new}" for index, (_, new, _, _) in enumerate(VALUES)]
)
def test_wrong_values(tmp_path: Path, old: str, new: str, line: int, what: str) -> None:
    """A value of the wrong kind or out of range is refused with its line, what was found and how to write it."""
    error = refused(written(tmp_path, changed(old, new)))
    assert (error.line, what in str(error)) == (line, True), str(error)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("name: small", "found none"),
        ("name: small\n  path: model\n  package: p", "found path and package"),
        ("name: small\n  path: m\n  hub: a/b\n  revision: r", "found path and hub"),
        ("name: small\n  path: m\n  hub: a/b\n  package: p", "found path and hub and package"),
    ],
)
def test_the_model_has_exactly_one_source(tmp_path: Path, lines: str, found: str) -> None:
    """None and several are refused, and what was found is said."""
    error = refused(written(tmp_path, changed("name: small\n  path: model", lines)))
    assert error.line == 2
    assert f"exactly one of path, hub or package; {found}" in str(error)


def test_a_hub_model_needs_its_commit(tmp_path: Path) -> None:
    """A repository without a commit is another model tomorrow."""
    error = refused(written(tmp_path, changed("  path: model", "  hub: org/model")))
    assert error.line == 4
    assert "a hub model needs 'revision'" in str(error)
    assert (
        load_run(written(tmp_path, changed("  path: model", "  hub: org/model\n  revision: abc"))).model.revision
        == "abc"
    )


@pytest.mark.parametrize("alias", ["latest", "Latest", "v1", "V12", "prod/eu", '""', "a" * 256])
def test_b103_alias_is_checked_before_anything_runs(tmp_path: Path, alias: str) -> None:
    """B103: a name that the registry would refuse hours later is refused with its line."""
    error = refused(written(tmp_path, changed("alias: champion", f"alias: {alias}")))
    assert error.line == 20
    assert "alias" in str(error)


def test_b103_an_ordinary_alias_is_taken(tmp_path: Path) -> None:
    """B103: candidate-nf4 is fine."""
    assert load_run(written(tmp_path, changed("alias: champion", "alias: candidate-nf4"))).alias == "candidate-nf4"


def test_fixed_provenance_is_for_fakes(tmp_path: Path) -> None:
    """A measurement on a real device does not hide its machine."""
    fixed = RUN + "provenance: fixed\n"
    assert load_run(written(tmp_path, fixed)).provenance == "fixed"
    error = refused(written(tmp_path, fixed.replace("kind: fake", "kind: cpu")))
    assert (error.line, "'fixed' hides the machine" in str(error)) == (21, True)


# ---------------------------------------------------------------------------------------------- files

FILES: list[tuple[Any, str]] = [
    ("", "a mapping of keys is expected"),
    ("- a\n- b\n", "a mapping of keys is expected"),
    ("just text", "a mapping of keys is expected"),
    ("a: [1, 2\nb: 3\n", "not valid YAML"),
    ("a:\n\tb: 1\n", "not valid YAML"),
    ("a: 1\n---\nb: 2\n", "not valid YAML: but found another document"),
    ("a: !!python/object:os.system x\n", "not valid YAML"),
    ("a: *nothing\n", "not valid YAML"),
    ("? [a, b]\n: 1\n", "not valid YAML"),
    ("a: 2024-13-77\n", "a: there is no such day or time; found 2024-13-77"),
    (b"\xff\xfea\x00", "cannot be read"),
    (b"a: \x00\n", "not valid YAML"),
    ("a: " + "[" * 5000 + "]" * 5000, "not usable YAML"),
    ("model: &m {name: x, path: *m}\n", "not usable YAML"),
]


@pytest.mark.parametrize(("text", "what"), FILES, ids=[str(index) for index in range(len(FILES))])
def test_files_that_are_no_config(tmp_path: Path, text: Any, what: str) -> None:
    """Whatever stands in the file, it is a message and no crash, and nothing is executed."""
    assert what in str(refused(written(tmp_path, text)))


def test_a_missing_file(tmp_path: Path) -> None:
    """A config, and the policy it names, that are not there are named."""
    assert "no-such.yaml: no such file" in str(refused(tmp_path / "no-such.yaml"))
    path = written(tmp_path)
    (tmp_path / "policy.yaml").unlink()
    assert "policy.yaml: no such file" in str(refused(path))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """A folder instead of a config is a message."""
    assert "cannot be read" in str(refused(tmp_path))


# ---------------------------------------------------------------------------------------------- policies


def policy(folder: Path, text: str) -> Path:
    path = folder / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_policy_is_read(tmp_path: Path) -> None:
    """Its checks are rules, its defaults are those of the record."""
    read = load_policy(policy(tmp_path, POLICY))
    assert read.checks == (CheckRule(kind="quality", margin=0.03), CheckRule(kind="freed_share", minimum=0.25))
    assert (read.require, read.correction, read.alpha) == ("all", "holm", 0.05)


POLICIES = [
    (POLICY[: POLICY.index("checks")] + "checks: []\n", 4, "needs at least 1 entry"),
    (POLICY[: POLICY.index("checks")], 1, "key 'checks' is missing"),
    (
        changed("margin: 0.03", "tier: advisory\n    margin: 0.03", POLICY),
        4,
        "no check is of kind 'quality' and tier 'required'",
    ),
    (changed("  - kind: quality\n    margin: 0.03\n", "", POLICY), 4, "no check is of kind 'quality'"),
    (changed("    margin: 0.03\n", "", POLICY), 5, "a check of kind quality needs 'margin'"),
    (changed("    minimum: 0.25\n", "", POLICY), 7, "a check of kind freed_share needs 'minimum'"),
    (
        changed("minimum: 0.25", "margin: 0.25", POLICY),
        8,
        "a check of kind freed_share has no 'margin'; it takes minimum",
    ),
    (
        changed("margin: 0.03", "margin: 0.03\n    minimum: 1", POLICY),
        7,
        "a check of kind quality has no 'minimum'; it takes margin",
    ),
    (
        changed("margin: 0.03", "max_dorp: 0.03", POLICY),
        6,
        "unknown key 'max_dorp': allowed here are at, better, engine, golden_set, kind, margin, maximum",
    ),
    (changed("margin: 0.03", "margn: 0.03", POLICY), 6, "unknown key 'margn': did you mean 'margin'?"),
    (changed("kind: quality", "kind: qualty", POLICY), 5, "checks.0.kind: did you mean 'quality'? must be 'quality', 'output_length'"),
    (changed("kind: quality", "kind: kl_mean", POLICY), 6, "a check of kind kl_mean has no 'margin'; it takes maximum"),
    (changed("0.03", "1e-3", POLICY), 6, "found '1e-3' (this is text to YAML; write 0.001)"),
    (changed("0.03", "1e-5", POLICY), 6, "found '1e-5' (this is text to YAML; write 1.0e-05)"),
    (changed("0.03", '"0.03"', POLICY), 6, "this is text to YAML; write 0.03"),
    (changed("0.03", "on", POLICY), 6, "YAML reads on, off, yes and no as true or false"),
    (changed("0.03", ".inf", POLICY), 6, "found inf"),
    (changed("0.03", ".nan", POLICY), 6, "found nan"),
    (changed("0.03", "1%", POLICY), 6, "this is text to YAML; write 0.01"),
    (changed("0.03", "0", POLICY), 6, "greater than 0"),
    (changed("0.03", "3", POLICY), 6, "less than 1"),
    (changed("0.03", "-0.01", POLICY), 6, "greater than 0"),
    (changed("0.03", "[0.03]", POLICY), 6, "expected a number; found a list"),
    (changed("0.03", "", POLICY), 5, "needs 'margin'"),
    (changed("minimum: 0.25", "minimum: -1", POLICY), 8, "greater than or equal to 0"),
    (POLICY + "  - {kind: kl_mean, maximum: .inf}\n", 9, "found inf"),
    (
        POLICY + "  - {kind: output_length, minimum: 1.2, maximum: 0.9}\n",
        9,
        "the minimum 1.2 lies above the maximum 0.9",
    ),
    (POLICY + "alpha: 0.7\n", 9, "less than or equal to 0.25"),
    (POLICY + "alpha: 1.0e-12\n", 9, "greater than or equal to 0.0001"),
    (POLICY + "minimum_items: 0300\n", 9, "minimum_items: YAML reads 0300 as 192; write 300, or '0300' in quotes where text is meant"),
    (POLICY + "alpha: 00.1\n", 9, "YAML reads 00.1 as 0.1; write 0.1"),
    (changed("0.03", "1:30", POLICY), 6, "checks.0.margin: YAML reads 1:30 as 90; write 90, or '1:30' in quotes"),
    (changed("0.03", "1.0e-300", POLICY), 6, "margin: must be at least 1e-06; found 1e-300"),
    (changed("minimum: 0.25", "minimum: 25", POLICY), 8, "minimum: a share is at most 1; found 25; write 0.25 for 25 %"),
    (POLICY + "  - {kind: ceiling_ratio, minimum: 0}\n", 9, "minimum: a ratio of 0 asks nothing"),
    (POLICY + "  - {kind: top1_agreement, minimum: 90}\n", 9, "found 90; write 0.9 for 90 %"),
    (POLICY + "waivers:\n  - {check: a, expires: 2026-02-30}\n", 10, "waivers.0.expires: there is no such day or time; found 2026-02-30"),
    (POLICY + "power: 1\n", 9, "less than 1"),
    (POLICY + "minimum_items: 0\n", 9, "greater than or equal to 1"),
    (POLICY + "require: most\n", 9, "must be 'all' or 'any'; found 'most'"),
    (POLICY + "require_controls: 1\n", 9, "expected true or false; found 1"),
    (changed("why: because", "why: ''", POLICY), 3, "why: must not be empty"),
    (changed("name: strict", "name: a/../b", POLICY), 2, "a name is letters, digits"),
]


@pytest.mark.parametrize(
    ("text", "line", "what"), POLICIES, ids=[f"{index}-{what[:30]}" for index, (_, _, what) in enumerate(POLICIES)]
)
def test_b116_policies_that_are_refused(tmp_path: Path, text: str, line: int, what: str) -> None:
    """B116 and its kind: no threshold is guessed from text, ignored, or missing; the line and what to write are said."""
    error = refused(policy(tmp_path, text), policy=True)
    assert (error.line, what in str(error)) == (line, True), str(error)


def test_digits_in_quotes_are_text(tmp_path: Path) -> None:
    """Only plain numbers are looked at: a name of digits in quotes stays as it is, and so do 0, 0.05 and 1_000."""
    text = changed("name: strict", "name: '0300'", POLICY) + "minimum_items: 1_000\nalpha: 0.05\nlooks_seed: 0\n"
    read = load_policy(policy(tmp_path, text))
    assert (read.name, read.minimum_items, read.alpha) == ("0300", 1000, 0.05)


def test_every_kind_of_check_has_its_limits() -> None:
    """A kind that is added must say which limits it takes."""
    kinds = get_args(config.policy_sections.CheckSection.model_fields["kind"].annotation)
    assert set(kinds) == set(config.LIMITS)
    for kind in (one for one in kinds if config.LIMITS[one]):
        document = config.document.Document(file="x", values={}, lines={})
        with pytest.raises(ConfigError, match=f"a check of kind {kind} needs"):
            config.policy._check_limits(config.policy_sections.CheckSection(kind=kind), document, 0)


def test_uncorrected_chances_are_refused(tmp_path: Path) -> None:
    """Two candidates for one promotion without a correction are refused, naming the remedy; a single one is not."""
    root = Path(__file__).resolve().parents[2] / "configs"
    policy = (
        (root / "policies/default.yaml").read_text(encoding="utf-8").replace("correction: holm", "correction: none")
    )
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
    text = (root / "smoke.yaml").read_text(encoding="utf-8").replace("policies/default.yaml", "policy.yaml")
    (tmp_path / "two.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="2 uncorrected chances to pass; use holm"):
        config.load_run(tmp_path / "two.yaml")


# ---------------------------------------------------------------------------------------------- slices, orders, waivers

WAIVED = """\
waivers:
  - check: quality/a
    variant: int8
    owner: A. Meyer
    reason: a trial
    expires: 2026-12-31
"""


def test_a_policy_with_everything_is_read(tmp_path: Path) -> None:
    """Slices as a name or a list, limits on distributions, a family, and a day as YAML reads it."""
    more = "  - {kind: quality, slice: s, margin: 0.1, minimum_items: 60}\n"
    more += "  - {kind: quality, slice: [s, t], tier: advisory, margin: 0.1}\n"
    limits = "  - {kind: kl_p99, maximum: 0.5}\n  - {kind: top1_agreement, minimum: 0.9}\n"
    text = POLICY + more + limits + "require: any\nfamily_size: 4\n" + WAIVED
    read = load_policy(policy(tmp_path, text))
    assert read.checks[2:] == (
        CheckRule(kind="quality", slices=("s",), margin=0.1, minimum_items=60),
        CheckRule(kind="quality", slices=("s", "t"), tier="advisory", margin=0.1),
        CheckRule(kind="kl_p99", maximum=0.5),
        CheckRule(kind="top1_agreement", minimum=0.9),
    )
    assert (read.family_size, read.order) == (4, ())
    waiver = Waiver(check="quality/a", variant="int8", owner="A. Meyer", reason="a trial", expires="2026-12-31")
    assert read.waivers == (waiver,)
    quoted = load_policy(policy(tmp_path, text.replace("2026-12-31", "'2026-12-31'")))
    assert quoted == read


ODD_POLICIES = [
    (POLICY.replace("    minimum: 0.25", "    minimum: 0.25\n    slice: a"), 9, "'slice' is for checks of kind quality; found freed_share"),
    (POLICY.replace("    minimum: 0.25", "    minimum: 0.25\n    minimum_items: 9"), 9, "'minimum_items' is for checks of kind quality"),
    (POLICY.replace("    margin: 0.03", "    margin: 0.03\n    slice: []"), 7, "checks.0.slice"),
    (POLICY.replace("    margin: 0.03", "    margin: 0.03\n    slice: [a, 1]"), 7, "checks.0.slice"),
    (POLICY.replace("    margin: 0.03", "    margin: 0.03\n    slices: a"), 7, "unknown key 'slices': did you mean 'slice'?"),
    (POLICY + "  - {kind: kl_p9, maximum: 1}\n", 9, "'kl_p99'"),
    (POLICY + "  - {kind: kl_p99, minimum: 1}\n", 9, "a check of kind kl_p99 has no 'minimum'; it takes maximum"),
    (POLICY + "  - {kind: top1_agreement}\n", 9, "a check of kind top1_agreement needs 'minimum'"),
    (POLICY + "correction: fixed_sequence\n", 9, "'fixed_sequence' is for 'require: any'"),
    (POLICY + "require: any\ncorrection: fixed_sequence\n", 10, "'fixed_sequence' needs 'order'"),
    (POLICY + "require: any\norder: [a]\n", 10, "'order' is for 'correction: fixed_sequence'; found holm"),
    (POLICY + "require: any\ncorrection: fixed_sequence\norder: [a, b, a]\n", 11, "'a' stands twice in the order"),
    (POLICY + "family_size: 3\n", 9, "'family_size' is for 'require: any' with 'correction: holm'"),
    (POLICY + "family_size: 0\n", 9, "family_size"),
    (POLICY + WAIVED.replace("quality/a", "finite"), 10, "check 'finite' cannot be waived"),
    (POLICY + WAIVED + WAIVED.replace("waivers:\n", ""), 15, "'quality/a' of 'int8' is waived twice"),
    (POLICY + WAIVED.replace("2026-12-31", "'2026-02-30'"), 14, "there is no such day; found '2026-02-30'"),
    (POLICY + WAIVED.replace("2026-12-31", "20261231"), 14, "a day is expected, for example 2026-12-31; found 20261231"),
    (POLICY + WAIVED.replace("2026-12-31", "2026-12-31 10:00:00"), 14, "a day is expected"),
    (POLICY + WAIVED.replace("owner: A. Meyer", "owner: ' '"), 12, "waivers.0.owner"),
    (POLICY + WAIVED.replace("    owner: A. Meyer\n", ""), 10, "key 'waivers.0.owner' is missing"),
    (POLICY + WAIVED.replace("reason", "reson"), 13, "unknown key 'reson': did you mean 'reason'?"),
]


ODD_POLICIES += [
    (POLICY.replace("margin: 0.03", "margin: 3"), 6, "for unbounded scores write 'scale: unbounded'"),
    (POLICY.replace("    minimum: 0.25", "    minimum: 0.25\n    better: lower"), 9, "'better' is for checks of kind quality"),
    (POLICY.replace("    margin: 0.03", "    margin: 0.03\n    scale: unit"), 7, "checks.0.scale"),
    (POLICY.replace("    margin: 0.03", "    margin: 0.03\n    better: more"), 7, "checks.0.better"),
    (POLICY + "  - {kind: perplexity_ratio}\n", 9, "a check of kind perplexity_ratio needs 'maximum'"),
    (POLICY + "  - {kind: perplexity_ratio, maximum: 0.95}\n", 9, "must be 1 or more; found 0.95"),
    (POLICY + "  - {kind: perplexity_ratio, maximum: 1.1, slice: a}\n", 9, "'slice' is for checks of kind quality"),
    (POLICY + "looks: 1\n", 9, "greater than or equal to 2"),
    (POLICY + "looks_seed: 4\n", 9, "'looks_seed' is for 'looks'"),
    (POLICY + "looks: 3\nsequential: {lambda: 0.9}\n", 9, "are two ways of looking early"),
    (POLICY + "sequential: {lambda: 1.04}\n", 9, "lambda must lie under 1 / (1 - margin) = 1.031"),
    (POLICY + "sequential: {bet: 0.9}\n", 9, "unknown key 'bet': allowed here are lambda, seed"),
    (POLICY + "sequential: {lambda: 0}\n", 9, "greater than 0"),
    (POLICY.replace("margin: 0.03", "margin: 3\n    scale: unbounded") + "sequential: {lambda: 0.9}\n", 7, "for scores in 0 to 1"),
    (POLICY + "noise_flip_rate: 1\n", 9, "less than 1"),
]


@pytest.mark.parametrize(("text", "line", "what"), ODD_POLICIES, ids=[str(index) for index in range(len(ODD_POLICIES))])
def test_slices_orders_and_waivers_that_cannot_be_used(tmp_path: Path, text: str, line: int, what: str) -> None:
    """Each is refused at its line, with what is allowed."""
    error = refused(policy(tmp_path, text), policy=True)
    assert (error.line, what in str(error)) == (line, True), str(error)


def test_scores_of_any_kind_and_early_looks_are_read(tmp_path: Path) -> None:
    """The keys are those of the record; a policy that asks for perplexity alone is one; lambda is the bet."""
    text = POLICY.replace("margin: 0.03", "margin: 3\n    scale: unbounded\n    better: lower")
    text += "looks: 3\nlooks_seed: 4\nnoise_flip_rate: 0\n"
    read = load_policy(policy(tmp_path, text))
    assert read.checks[0] == CheckRule(kind="quality", margin=3.0, scale="unbounded", better="lower")
    assert (read.looks, read.looks_seed, read.sequential, read.noise_flip_rate) == (3, 4, None, 0.0)
    alone = POLICY[: POLICY.index("checks")] + "checks:\n  - {kind: perplexity_ratio, maximum: 1.05, minimum_items: 30}\n"
    assert load_policy(policy(tmp_path, alone)).checks == (CheckRule(kind="perplexity_ratio", maximum=1.05, minimum_items=30),)
    bet = load_policy(policy(tmp_path, POLICY + "sequential: {lambda: 0.9, seed: 7}\n"))
    assert bet.sequential == Sequential(bet=0.9, seed=7)


BESIDE_A_RUN = [
    ("require: any\ncorrection: fixed_sequence\norder: [int9]\n", 11, "'int9' is no candidate of the run: did you mean 'int8'?"),
    ("require: any\ncorrection: fixed_sequence\norder: [float32, int8]\n", 11, "'float32' is no candidate of the run"),
    (WAIVED.replace("int8", "int4"), 11, "the run has no variant 'int4': did you mean 'int8'?"),
    (WAIVED.replace("int8", "float32"), 11, "'float32' has the role reference; only a candidate's checks can be waived"),
]


@pytest.mark.parametrize(("more", "line", "what"), BESIDE_A_RUN)
def test_names_of_a_policy_that_the_run_does_not_have(tmp_path: Path, more: str, line: int, what: str) -> None:
    """The line is the policy's own."""
    path = written(tmp_path)
    policy(tmp_path, POLICY + more)
    error = refused(path)
    assert error.file == str(tmp_path / "policy.yaml")
    assert (error.line, what in str(error)) == (line, True), str(error)


def test_a_family_is_no_smaller_than_the_run(tmp_path: Path) -> None:
    """Two candidates cannot be counted as one; counting more than the run has is what the key is for."""
    path = written(tmp_path, RUN.replace("golden_sets", "  - {name: int4, quantizer: fake, bits: 4}\ngolden_sets"))
    policy(tmp_path, POLICY + "require: any\nfamily_size: 1\n")
    error = refused(path)
    assert (error.line, "2 candidates compete in the run, and the policy counts 1" in str(error)) == (10, True)
    policy(tmp_path, POLICY + "require: any\nfamily_size: 9\n")
    assert load_run(path).policy.family_size == 9


def test_several_tasks_of_the_harness_make_a_name_that_reports_can_have(tmp_path: Path) -> None:
    """Names and files of tasks, joined."""
    (found,) = load_run(written(tmp_path, RUN.replace("[sets/a/v1]", "[{lm_eval: {tasks: [arc_easy, tasks/ours.yaml]}}]"))).golden_sets
    assert getattr(found, "name", None) == "arc_easy-ours"


@pytest.mark.parametrize("name", ["latest", "v1", "a/b", "champion"])
def test_the_alias_on_trial_is_checked_like_the_other(tmp_path: Path, name: str) -> None:
    """A name no registry takes, or the champion's own, is refused with its line before anything runs."""
    error = refused(written(tmp_path, changed("alias: champion", f"alias: champion, challenger: {name}")))
    assert error.line == 20
    assert "alias" in str(error)


def test_settings_of_the_release_are_read(tmp_path: Path) -> None:
    """The challenger's alias, the place of artifacts beside the config or as an address, and whether the machine is watched."""
    found = load_run(written(tmp_path, RUN))
    assert (found.challenger, found.artifacts, found.system_metrics) == (None, None, True)
    text = changed("alias: champion", "alias: champion, challenger: trial") + "mlflow: {artifacts: kept, system_metrics: false}\n"
    found = load_run(written(tmp_path, text))
    assert (found.challenger, found.artifacts, found.system_metrics) == ("trial", str(tmp_path / "kept"), False)
    found = load_run(written(tmp_path, RUN + 'mlflow: {artifacts: "s3://bucket/path"}\n'))
    assert found.artifacts == "s3://bucket/path"
# ---------------------------------------------------------------------------------------------- baseline and CI


def test_a_baseline_has_limits(tmp_path: Path) -> None:
    """The file lies beside the config; what is left out of a set's own limits is that of every set, a gain follows its loss."""
    limits = "{a: {max_loss: 0.5}, b: {max_flips: 0.1}}"
    section = f"baseline:\n  file: pinned/b.json\n  max_loss: 0.02\n  max_flips: null\n  limits: {limits}\n"
    found = load_run(written(tmp_path, RUN + section)).baseline
    assert found is not None
    assert found.path == tmp_path / "pinned" / "b.json"
    assert found.limits == (
        BaselineLimits(max_loss=0.02, max_gain=0.02, max_flips=None),
        BaselineLimits(golden_set="a", max_loss=0.5, max_gain=0.5, max_flips=None),
        BaselineLimits(golden_set="b", max_loss=0.02, max_gain=0.02, max_flips=0.1),
    )
    assert load_run(written(tmp_path)).baseline is None


def test_what_a_ci_system_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Annotations only where GITHUB_ACTIONS is true, a summary only where a file is named."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.setenv(name, "")
    assert config.ci_of_environment() == config.ContinuousIntegration(summary=None, annotations=False)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/somewhere/s.md")
    assert config.ci_of_environment() == config.ContinuousIntegration(summary=Path("/somewhere/s.md"), annotations=True)
