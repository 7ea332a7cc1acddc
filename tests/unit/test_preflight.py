"""Before a run: settings of every variant, and calibration sets against golden sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chain import Chain
from quantgate import preflight
from quantgate.errors import ConfigError
from quantgate.records import Calibration, GoldenItem, GoldenSet, Variant

QUESTION = "A clerk sells seven pears and nine apples to each of four tired travellers; how many fruits go?"


def golden(*prompts: str) -> GoldenSet:
    items = tuple(GoldenItem(item_id=f"q{n}", slice="s", prompt=text, metric="exact_match") for n, text in enumerate(prompts))
    return GoldenSet(name="set", version="v1", sha256="0" * 64, items=items, path="nowhere")


def learning(path: Path, **fields: Any) -> tuple[Variant, ...]:
    chosen = Calibration(name="texts", path=str(path), **fields)
    return (Variant(name="g", quantizer="gptq", calibration=chosen), Variant(name="r", quantizer="rtn"))


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        (Variant(name="a", quantizer="bitsandbytes", weight_bits=8, options={"treshold": 1}), "variant 'a': .*did you mean 'threshold'"),
        (Variant(name="a", quantizer="gptq", weight_bits=4, granularity="group:32", options={"sim": True}), "unknown option 'sim'"),
        (Variant(name="a", quantizer="rtn", weight_bits=4, granularity="tensor"), "group:<size>"),
        (Variant(name="a", quantizer="reference", options={"x": 1}), "unknown option 'x'"),
        (Variant(name="a", quantizer="reference", weight_bits=8), "bits is 8, and the reference is not quantized"),
        (Variant(name="a", quantizer="reference", granularity="group:64"), "granularity is group:64, and the reference is not quantized"),
        (Variant(name="a", quantizer="bitsandbytes"), "'bits' is missing; allowed are 8 and 4"),
        (Variant(name="a", quantizer="checkpoint", weight_bits=4), "'path' is missing"),
        (Variant(name="a", quantizer="checkpoint", weight_bits=4, options={"path": "/nowhere"}), "no GGUF file and no folder at /nowhere"),
        (Variant(name="a", quantizer="checkpoint", weight_bits=4, options={"path": "/proc"}), "no folder with a config.json at /proc"),
        (Variant(name="a", quantizer="checkpoint", options={"path": "p"}), "'bits' is missing"),
        (Variant(name="a", quantizer="checkpoint", weight_bits=4, options={"path": "p", "sha256": "abc"}), "64 hexadecimal"),
        (Variant(name="a", quantizer="fake", options={"fault": "sulk"}), "unknown fault 'sulk'"),
    ],
)
def test_settings_are_read_first(variant: Variant, reason: str) -> None:
    """An option, width or granularity that a quantizer does not have is told with the variant and the file."""
    with pytest.raises(ConfigError, match=reason) as raised:
        preflight.check_settings((variant,), "run.yaml")
    assert raised.value.file == "run.yaml"


def test_foreign_quantizers_are_asked_later() -> None:
    """A quantizer of another distribution says itself what it takes."""
    preflight.check_settings((Variant(name="a", quantizer="somebody-elses", options={"x": 1}),), "run.yaml")


def test_a_set_is_digested(tmp_path: Path) -> None:
    """The texts' digest stands in the variant; a changed text changes it; who learns nothing gets none."""
    path = tmp_path / "t.txt"
    path.write_text("one text")
    first, other = preflight.prepared(learning(path), (golden(QUESTION),), tmp_path)
    path.write_text("another text")
    second, _ = preflight.prepared(learning(path), (golden(QUESTION),), tmp_path)
    assert first.calibration is not None
    assert second.calibration is not None
    assert len(first.calibration.sha256) == 64
    assert first.calibration.sha256 != second.calibration.sha256
    assert other.calibration is None


def test_overlap_is_refused(tmp_path: Path) -> None:
    """Texts that hold a golden question, in other spelling too, are refused with the item and its words."""
    path = tmp_path / "t.txt"
    path.write_text(f"Something else.\n\nYou know: {QUESTION.upper()}\n")
    with pytest.raises(ConfigError, match=r"share the words of 1 items \(q1: 'a clerk sells seven"):
        preflight.prepared(learning(path), (golden("What is a question?", QUESTION),), tmp_path)


def test_a_short_question_as_one_turn_is_refused(tmp_path: Path) -> None:
    """A conversation that asks a golden question of a few words is found, though the answer stands in the same text."""
    path = tmp_path / "t.jsonl"
    turns = [{"role": "user", "content": "what is 2 + 2?"}, {"role": "assistant", "content": "4"}]
    path.write_text(json.dumps({"messages": turns}) + "\n")
    with pytest.raises(ConfigError, match=r"share the words of 1 items \(q0: 'what is 2 2'"):
        preflight.prepared(learning(path), (golden("What is 2+2?"),), tmp_path)


def test_texts_of_a_dataset(tmp_path: Path) -> None:
    """A dataset's rows become a file of the cache under their digest; empty rows are left out, other columns are refused."""
    pytest.importorskip("datasets")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"body": text}) + "\n" for text in ("first", "", "second")))
    chosen = Calibration(name="rows", dataset=str(path), column="body")
    made = preflight.prepared((Variant(name="g", quantizer="gptq", calibration=chosen),), (), tmp_path)[0].calibration
    assert made is not None
    assert made.path is not None
    assert [json.loads(line) for line in Path(made.path).read_text().splitlines()] == [{"text": "first"}, {"text": "second"}]
    assert Path(made.path).stem == made.sha256
    with pytest.raises(ConfigError, match="no column 'text'; it has body"):
        preflight.prepared((Variant(name="g", quantizer="gptq", calibration=Calibration(name="r", dataset=str(path))),), (), tmp_path)


def test_turns_of_a_dataset(tmp_path: Path) -> None:
    """Rows without a turn are left out as empty ones are; a turn whose content is no text is refused, not turned into one."""
    pytest.importorskip("datasets")
    path, turn = tmp_path / "rows.jsonl", {"role": "user", "content": "first"}
    path.write_text("".join(json.dumps({"text": turns}) + "\n" for turns in ([turn], [], [{**turn, "content": " "}])))
    variant = Variant(name="g", quantizer="gptq", calibration=Calibration(name="r", dataset=str(path)))
    made = preflight.prepared((variant,), (), tmp_path)[0].calibration
    assert made is not None and made.path is not None
    assert [json.loads(line) for line in Path(made.path).read_text().splitlines()] == [{"messages": [turn]}]
    path.write_text(json.dumps({"text": [turn, {"role": "assistant", "content": None}]}) + "\n")
    with pytest.raises(ConfigError, match="neither text nor turns of role and content"):
        preflight.prepared((variant,), (), tmp_path)
    renamed = path.rename(tmp_path / "rows.tsv")
    with pytest.raises(ConfigError, match=r"^calibration dataset .*rows\.tsv: a file ends in"):
        chosen = Calibration(name="r", dataset=str(renamed))
        preflight.prepared((Variant(name="g", quantizer="gptq", calibration=chosen),), (), tmp_path)


def test_a_run_is_refused_before_anything_is_built(chain: Chain) -> None:
    """A misspelt option of the last variant ends the run with code 2 and leaves no run folder."""
    late = {"name": "late", "quantizer": "bitsandbytes", "bits": 4, "options": {"fromat": "nf4"}}
    done = chain.run(variants=[*json.loads(json.dumps(_default(chain))), late])
    assert done.code == 2
    assert "variant 'late'" in done.err
    assert "did you mean 'format'" in done.err
    assert not list((chain.root / "reports").glob("*/run.json"))


def _default(chain: Chain) -> list[dict[str, Any]]:
    import yaml

    found: list[dict[str, Any]] = yaml.safe_load(chain.config().read_text())["variants"]
    return found
