"""The documents say what is so: every command, option, path, key, target, variable and exit code in them exists."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import samples
from chain import Chain
from quantgate import admission, cli, config, divergence, plugins, records, worker
from quantgate.render import terminal
from quantgate.sinks import mlflow_figures
from quantgate.stages import capacity, diverge

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pipelines" / "quantgate"
DOCUMENTS = (
    "README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/golden-sets.md", "docs/policies.md",
    "docs/judging-files.md", "docs/signing.md", "docs/mlflow.md", "docs/ci/README.md", "docs/diagnosis.md", "docs/levers.md",
    "docs/roofs-and-cost.md",
)  # fmt: skip
ADAPTERS = (
    "quantizers", "engines", "levers", "devices", "metrics", "sources", "readers", "executors", "sinks", "registries", "signers", "render",
)  # fmt: skip
PARTS_OF_ADAPTERS = {
    "quantizers/folder",
    "quantizers/settings",
    "quantizers/layers",
    "quantizers/proof",
    "quantizers/texts",
    "quantizers/unpacked",
    "quantizers/gptq_library",
    "devices/oom",
    "metrics/scored",
    "metrics/text",
    "metrics/words",
    "devices/nvml",
    "devices/exercises",
    "devices/sysfs",
    "devices/datasheet",
    "readers/lines",
    "engines/transformers_weights",
    "engines/transformers_tokenizer",
    "engines/transformers_distributions",
    "engines/transformers_forward",
    "engines/transformers_used",
    "engines/transformers_scoring",
    "engines/transformers_trail",
    "engines/transformers_kv_cache",
    "engines/transformers_kv_scoring",
    "engines/forest",
    "sinks/mlflow_store",
    "sinks/mlflow_figures",
    "sinks/mlflow_marks",
    "sinks/mlflow_system",
    "sinks/mlflow_view",
    "registries/mlflow_claims",
    "signers/envelope",
}
"""Modules beside the adapters that are none themselves."""
LINKS = (
    "https://keepachangelog.com/", "https://semver.org/", "http://HOST:5000", "postgresql://USER@HOST/", "sqlite:///shared/", "s3://bucket/",
)  # fmt: skip
"""Addresses that explain a convention; those in capitals and of buckets are of nobody."""


def text(name: str) -> str:
    """Read a document."""
    return (ROOT / name).read_text(encoding="utf-8")


def fences(name: str) -> list[str]:
    """Find the fenced blocks of a document."""
    return re.findall(r"^```\w*\n(.*?)^```$", text(name), flags=re.MULTILINE | re.DOTALL)


def spans(name: str) -> list[str]:
    """Find the code spans of a document, fenced blocks left out."""
    prose = re.sub(r"^```\w*\n.*?^```$", "", text(name), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", prose)


def section(name: str, heading: str) -> str:
    """Return what stands between a heading and the next one of its kind."""
    return text(name).split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def subcommands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    actions = cli._parser()._actions
    return dict(next(one.choices for one in actions if isinstance(one, argparse._SubParsersAction)))


def asked(parser: argparse.ArgumentParser, words: list[str]) -> argparse.ArgumentParser:
    """Return the parser of an action within a command, or the command's own."""
    nested = next((one.choices for one in parser._actions if isinstance(one, argparse._SubParsersAction)), {})
    found: argparse.ArgumentParser = nested.get(words[0], parser) if words else parser
    return found


def branches(name: str, holds: str) -> Iterator[tuple[str, str]]:
    """Walk the drawn tree that holds a line: each path with the words beside it. Names side by side are one line each."""
    parents: list[str] = []
    for line in next(block for block in fences(name) if holds in block).splitlines():
        branch, found, rest = line.partition("── ")
        names, _, words = rest.partition("  ")
        for one in names.split(", ") if found else ():
            parents[(len(branch) - 1) // 4 :] = [one.rstrip("/")]
            yield "/".join(parents), words.strip()


def tree() -> Iterator[tuple[Path, str]]:
    """Walk the tree of ARCHITECTURE.md."""
    for path, words in branches("ARCHITECTURE.md", "├── pyproject.toml"):
        yield ROOT / path, words


def project() -> dict[str, Any]:
    """Read pyproject.toml."""
    return tomllib.loads(text("pyproject.toml"))["tool"]


def module(target: str) -> Path:
    """Return the file behind `module:attribute`."""
    return (PACKAGE.parent / target.partition(":")[0].replace(".", "/")).with_suffix(".py")


# ---------------------------------------------------------------------------------------------- commands


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_and_options_exist(name: str) -> None:
    """A `quantgate` command line in a document is one that the parser knows, options included."""
    known = subcommands()
    for span in (one for one in spans(name) if one.startswith("quantgate ") and not one.startswith("quantgate --")):
        command, *words = span.split()[1:]
        assert command in known, span
        for option in (word for word in words if word.startswith("--")):
            assert option in asked(known[command], words)._option_string_actions, span


def test_every_command_is_described() -> None:
    """No command and no option of `run` is missing from the README, and the table names nothing else."""
    described = section("README.md", "Commands")
    assert set(re.findall(r"`quantgate (\w+)", described)) == set(subcommands())
    options = [one for one in subcommands()["run"]._option_string_actions if one.startswith("--") and one != "--help"]
    assert [one for one in options if one not in text("README.md")] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_exist(name: str) -> None:
    """A `make` line names a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), flags=re.MULTILINE))
    lines = [*spans(name), *(line.split("#")[0] for block in fences(name) for line in block.splitlines())]
    named = {match[1] for one in lines if (match := re.match(r"make ([a-z-]+)", one))}
    assert named <= targets, named - targets


def test_exit_codes_agree() -> None:
    """The README's exit codes are those of the command line's own help, in the same order."""
    ours = re.findall(r"^\| (\d+) \|", section("README.md", "Three readers"), flags=re.MULTILINE)
    assert ours == re.findall(r"^  (\d+) ", cli.EXIT_CODES, flags=re.MULTILINE)


# ---------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    """A relative link leads to a file or folder of the repository."""
    targets = [one for one in re.findall(r"\]\(([^)]+)\)", text(name)) if "://" not in one]
    assert [one for one in targets if not ((ROOT / name).parent / one.split("#")[0]).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_named_paths_exist(name: str) -> None:
    """A path that starts at a folder of the repository or of the package is there."""
    tops = {one.name for base in (ROOT, PACKAGE) for one in base.iterdir() if one.is_dir()} - {"reports"}
    paths = [one for one in spans(name) if "/" in one and " " not in one and "<" not in one and one.split("/")[0] in tops]
    assert [one for one in paths if not ((ROOT / one).exists() or (PACKAGE / one).exists())] == []


def test_the_tree_is_the_tree() -> None:
    """Every path of the tree exists, and beside each adapter folder stand its modules, every one and no other."""
    for path, words in tree():
        assert path.exists(), path
        if path.name in ADAPTERS:
            names = [re.sub(r"\(.*", "", one).strip().split(" ")[0] for one in words.split(" · ")]
            modules = {f"{path.name}/{one.stem}" for one in path.glob("[!_]*.py")} - PARTS_OF_ADAPTERS
            assert {f"{path.name}/{one}" for one in names} == modules


def test_the_stages_are_named() -> None:
    """The tree names every stage and what belongs to the gate, and every public folder of tests, as CONTRIBUTING.md does."""
    words = {path.name: line for path, line in tree()}
    stages = {one.stem for one in (PACKAGE / "stages").glob("[!_]*.py")}
    assert set(re.findall(r"\w+", words["stages"])) - {"with", "and", "pure"} == stages
    folders = {one.parent.relative_to(ROOT / "tests").parts[0] for one in (ROOT / "tests").glob("*/**/test_*.py")}
    assert set(re.findall(r"(\w+)/", words["tests"])) == folders
    assert set(re.findall(r"^\| `tests/(\w+)/` \|", text("CONTRIBUTING.md"), flags=re.MULTILINE)) == folders


def test_the_layers_are_those_of_the_contract() -> None:
    """The drawn layers are those that import-linter holds, top to bottom, each with the same modules."""
    block = next(one for one in fences("ARCHITECTURE.md") if "records errors" in one)
    lines = [re.split(r" {4,}", line)[0].split(maxsplit=1) for line in block.splitlines()]
    drawn = [set(re.findall(r"\w+", names)) for _, names in lines]
    contract = next(one for one in project()["importlinter"]["contracts"] if one["type"] == "layers")
    assert drawn == [set(re.findall(r"quantgate\.(\w+)", layer)) for layer in contract["layers"]]
    assert [int(number) for number, _ in lines] == list(reversed(range(len(lines))))


def test_the_run_folder_is_as_drawn(chain: Chain) -> None:
    """A run writes every file that the README draws, and none that it does not."""
    assert chain.run().code == 0
    assert chain.cli("judge", chain.last, "--policy", chain.policy("other.yaml", why="another test")).code == 0
    found = {one.relative_to(chain.reports).as_posix() for one in chain.reports.rglob("*") if one.is_file()}
    found = {one for one in found if not one.endswith(".lock")}
    patterns = {path: re.sub("<[^>]+>", "[^/]+", path) for path, _ in branches("README.md", "├── <run_id>/")}
    leaves = {path for path in patterns if not any(other.startswith(f"{path}/") for other in patterns)}
    some_nights = {f"<run_id>/{one}.json" for one in ("baseline", "trend")}  # with a baseline, and from the third night on
    logs = {one for one in leaves if "/logs/" in one}  # no processes here, and no MLflow
    elsewhere = {"example", "mlflow.db", "mlartifacts"} | some_nights | logs
    missing = [path for path in leaves - elsewhere if not any(re.match(rf"{patterns[path]}(/|$)", one) for one in found)]
    assert missing == []
    assert [one for one in found if not any(re.match(rf"{patterns[path]}(/|$)", one) for path in leaves)] == []


def test_the_tree_is_whole() -> None:
    """No module and no folder of the package is missing from the tree."""
    drawn = {path for path, _ in tree()}
    found = [one for one in PACKAGE.iterdir() if one.suffix == ".py" or (one.is_dir() and (one / "__init__.py").exists())]
    assert [one.name for one in found if one not in drawn and one.name != "__init__.py"] == []


def test_the_seams_are_those_of_plugins() -> None:
    """The table of seams names every built-in adapter whose module is there, and no other."""
    rows = re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\| ([^|]+) \|$", section("ARCHITECTURE.md", "Seams"), flags=re.MULTILINE)
    drawn = {port.lower(): set(names.split(", ")) for port, names in rows if port != "Display"}
    assert drawn == {seam: {name for name, target in names.items() if module(target).exists()} for seam, names in plugins.BUILT_IN.items()}


# ---------------------------------------------------------------------------------------------- configs


def test_the_sample_config_is_accepted(tmp_path: Path) -> None:
    """The README's config and policy load as they stand, from a folder of somebody else's."""
    run, policy = (block for block in fences("README.md") if block.startswith("schema_version: 1"))
    (tmp_path / "my-run.yaml").write_text(run, encoding="utf-8")
    (tmp_path / "my-policy.yaml").write_text(policy, encoding="utf-8")
    loaded = config.load_run(tmp_path / "my-run.yaml")
    assert loaded.policy.name == "faq"
    assert [one.role for one in loaded.variants] == ["reference", "candidate", "candidate", "known_bad"]
    assert loaded.model.path == str(tmp_path / "models" / "my-model")
    assert loaded.out == tmp_path / "reports"


def test_environment_variables_are_read() -> None:
    """The README's table has the variables that the config reader and the command line use, and those of the Makefile."""
    named = re.findall(r"^\| `([A-Z_]+)` \|", text("README.md"), flags=re.MULTILINE)
    source = "".join((PACKAGE / name).read_text(encoding="utf-8") for name in ("config/environment.py", "cli.py"))
    used = set(re.findall(r"os\.environ\.\w+\(\"([A-Z_]+)\"", source)) | set(re.findall(r"^([A-Z]+) \?=", text("Makefile"), re.MULTILINE))
    assert len(used) >= 4
    assert sorted(named) == sorted(used)


def test_every_choice_is_described() -> None:
    """Each kind of check, objective and role that a config may name stands in the README or the glossary."""
    words = set(re.findall(r"\w+", text("README.md") + text("GLOSSARY.md")))
    fields = (
        config.policy_sections.CheckSection.model_fields["kind"],
        config.policy_sections.PolicySection.model_fields["objective"],
        config.policy_sections.PolicySection.model_fields["require"],
        config.policy_sections.PolicySection.model_fields["correction"],
    )
    choices = {choice for field in fields for choice in get_args(field.annotation)} | set(get_args(records.Role))
    assert len(choices) > 10
    assert choices - words == set()


# ---------------------------------------------------------------------------------------------- figures and words of the code


def test_the_columns_are_those_of_the_table() -> None:
    """The README explains every column of the verdict table in its order, and the demo's table has the same ones."""
    report = samples.two_golden_sets()
    columns = list(terminal._columns(report, terminal.variant_lines(report)))
    described = re.findall(r"^\| ([^|]+) \|", section("README.md", "Reading a verdict").split("---|---", 1)[1], flags=re.MULTILINE)
    assert described[: len(columns) - 1] == columns[1:]
    shown = re.search(r"<!-- demo-table -->\n```text\n(.*?)^```\n<!-- /demo-table -->", text("README.md"), flags=re.MULTILINE | re.DOTALL)
    if "demo-table" in text("README.md"):
        assert shown is not None
        heads = [re.split(r" {2,}", line.strip()) for line in shown[1].splitlines()]
        assert [one for one in columns if one != "golden set"] in heads


def test_the_textbook_answer_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The ceiling in the README is printed by the command line that stands above it."""
    block = next(one for one in fences("README.md") if one.startswith("$ quantgate ceiling"))
    command, _, shown = block.partition("\n")
    assert cli.main(command.split()[2:]) == 0
    assert capsys.readouterr().out == shown


def test_figures_are_those_of_the_code() -> None:
    """Numbers in the documents that are constants of the code have their value."""
    positions = f"up to {diverge.POSITIONS} "
    assert all(positions in re.sub(r"\s+", " ", text(one)) for one in DOCUMENTS[:3])
    fewer = f"fewer than {divergence.MINIMUM_POSITIONS}"
    assert all(fewer in re.sub(r"\s+", " ", text(one)) for one in ("README.md", "GLOSSARY.md", "docs/golden-sets.md"))
    assert "of {} row, of {}, and of a quarter".format(*capacity.SLOPE_BATCHES) in text("GLOSSARY.md") and capacity.MIDDLE_DIVISOR == 4
    assert f"(at least {capacity.MIDDLE_ROWS})" in text("GLOSSARY.md")
    assert f"Under {admission.LEAST_POWER:g} the run is refused" in text("GLOSSARY.md")
    for name in ("everyday", "smoke"):
        manifest = json.loads(text(f"golden_sets/{name}/v1/manifest.json"))
        assert re.search(rf"`{name}` \({manifest['count']} ", re.sub(r"\s+", " ", text("CHANGELOG.md"))), name


def test_the_requests_are_those_of_the_worker() -> None:
    """The requests that ARCHITECTURE.md lists are the actions of the worker."""
    listed = re.search(r"Requests are\s(.*?);", text("ARCHITECTURE.md"), flags=re.DOTALL)
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1])) == set(worker.ACTIONS)


def test_the_figures_of_mlflow_exist() -> None:
    """The figures that the README names in MLflow are logged under these names."""
    report = samples.sample_report()
    logged = {one.name.rsplit("/", 1)[-1] for row in report.measurements for one in mlflow_figures.figures_of(report, row.variant)}
    engineer = section("README.md", "Three readers").split("- **An engineer**", 1)[1].split("\n- ", 1)[0]
    named = {one for one in re.findall(r"`(\w+)`", engineer) if one != "quantgate"}
    assert named and named <= logged


def test_the_markers_are_those_of_pytest() -> None:
    """CONTRIBUTING.md explains every marker that pyproject.toml declares."""
    declared = [one.partition(":")[0] for one in project()["pytest"]["ini_options"]["markers"]]
    assert re.findall(r"^\| `(\w+)` \|", section("CONTRIBUTING.md", "Tests"), flags=re.MULTILINE) == declared


# ---------------------------------------------------------------------------------------------- what must not stand there


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_of_the_workshop_is_left(name: str) -> None:
    """No path of one machine, no issue number, no note to oneself."""
    found = re.findall(r"/work\b|/tmp\b|/root\b|/home/|\bTODO\b|\bFIXME\b|\bissue #?\d+|#\d+\b", text(name))
    assert found == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_addresses_are_few(name: str) -> None:
    """Only addresses that explain a convention: no registry, no server of somebody's."""
    found = re.findall(r"\w+://[^\s)`]+", text(name))
    assert [one for one in found if not one.startswith(LINKS)] == []
