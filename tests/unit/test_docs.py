"""The documents say what is so: every command, option, path, key, target, variable and exit code in them exists."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quantgate import cli, config, plugins

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pipelines" / "quantgate"
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CONTRIBUTING.md", "CHANGELOG.md")
ADAPTERS = ("quantizers", "engines", "devices", "metrics", "executors", "sinks", "registries", "render")


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


def tree() -> Iterator[tuple[Path, str]]:
    """Walk the tree of ARCHITECTURE.md: each path with the words beside it."""
    parents: list[str] = []
    for line in next(block for block in fences("ARCHITECTURE.md") if "├── pyproject.toml" in block).splitlines():
        branch, _, rest = line.partition("── ")
        depth = (len(branch) - 1) // 4
        name, _, words = rest.partition(" ")
        parents[depth:] = [name]
        yield ROOT.joinpath(*parents), words.strip()


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
            assert option in known[command]._option_string_actions, span


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
    assert [one for one in targets if not (ROOT / one.split("#")[0]).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_named_paths_exist(name: str) -> None:
    """A path that starts at a folder of the repository or of the package is there."""
    tops = {one.name for base in (ROOT, PACKAGE) for one in base.iterdir() if one.is_dir()} - {"reports"}
    paths = [one for one in spans(name) if "/" in one and " " not in one and "<" not in one and one.split("/")[0] in tops]
    assert [one for one in paths if not ((ROOT / one).exists() or (PACKAGE / one).exists())] == []


def test_the_tree_is_the_tree() -> None:
    """Every path of the tree exists, and so does the module of every adapter and rendering that it names."""
    for path, words in tree():
        assert path.exists(), path
        if path.name in ADAPTERS:
            names = [re.sub(r"\(.*", "", one).strip().split(" ")[0] for one in words.split(" · ")]
            assert [one for one in names if one and not (path / f"{one}.py").exists()] == [], path


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
    """Each variable in the README's table is read by the config reader or the Makefile."""
    readers = (PACKAGE / "config.py").read_text(encoding="utf-8") + text("Makefile")
    named = re.findall(r"^\| `([A-Z_]+)` \|", text("README.md"), flags=re.MULTILINE)
    assert len(named) == 4
    assert [one for one in named if one not in readers] == []


# ---------------------------------------------------------------------------------------------- what must not stand there


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_of_the_workshop_is_left(name: str) -> None:
    """No path of one machine, no issue number, no note to oneself."""
    found = re.findall(r"/work\b|/tmp\b|/root\b|/home/|\bTODO\b|\bFIXME\b|\bissue #?\d+|#\d+\b", text(name))
    assert found == []
