"""Any metric of ``evaluate``: a local script, its direction and scale declared, its result checked."""

from typing import Any

import pytest

from grading import item, score
from quantgate.metrics.library import Library
from quantgate.records import GoldenItem

SCRIPT = '''
import datasets
import evaluate


class LengthError(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("string"), "references": datasets.Value("string")})
        return evaluate.MetricInfo(description="d", citation="c", inputs_description="i", features=features)

    def _compute(self, predictions, references):
        error = sum(abs(len(p) - len(r)) for p, r in zip(predictions, references))
        return {"error": error, "share": 0.25, "bad": float("nan"), "words": "many", "listed": [0.5], "flag": True}
'''


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A metric script, as a person would write one."""
    folder = tmp_path_factory.mktemp("metric") / "length_error"
    folder.mkdir()
    path = folder / "length_error.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return str(path)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The library keeps what it writes in a folder of the test, and asks no server."""
    home = tmp_path_factory.mktemp("home")
    for name in ("evaluate.config.HF_EVALUATE_CACHE", "evaluate.config.HF_MODULES_CACHE", "evaluate.config.HF_METRICS_CACHE"):
        monkeypatch.setattr(name, home)
    monkeypatch.setattr("evaluate.config.HF_EVALUATE_OFFLINE", True)


def wanted(script: str, key: str, direction: str = "lower", scale: str = "unbounded", **more: Any) -> GoldenItem:
    """An item that asks for a result of the script."""
    options = {"path": script, "key": key, "direction": direction, "scale": scale, "references_as": "text", **more}
    return item("library", references=("four",), options=options)


def test_a_local_script_is_loaded_and_turned(script: str) -> None:
    """Lower is better: the value is turned, the figure of the set is not."""
    metric = Library()
    assert metric.why_unfit(wanted(script, "error")) is None
    found = [score(metric, wanted(script, "error"), text) for text in ("four", "three", "")]
    assert [one.value for one in found] == [0.0, -1.0, -4.0]
    assert metric.combine(found) == pytest.approx(5 / 3)


def test_a_unit_scale_is_turned_round_its_middle(script: str) -> None:
    """1 - x where lower is better, x where higher is, and a list of one number is a number."""
    values = [
        score(Library(), wanted(script, key, direction, "unit"), "x").value
        for key, direction in (("share", "lower"), ("share", "higher"), ("listed", "higher"))
    ]
    assert values == [0.75, 0.25, 0.5]


@pytest.mark.parametrize(
    ("key", "scale", "says"),
    [
        ("bad", "unbounded", "gave nan"),
        ("words", "unbounded", "expected one finite number"),
        ("flag", "binary", "gave True"),
        ("absent", "unbounded", "has no result 'absent'; it has error"),
        ("error", "unit", "declared as unit"),
        ("share", "binary", "declared as binary, which allows 0 or 1"),
    ],
)
def test_a_result_that_is_not_as_declared_is_refused(script: str, key: str, scale: str, says: str) -> None:
    """Not finite, not a number, not there, or outside its scale."""
    with pytest.raises(ValueError, match=says):
        score(Library(), wanted(script, key, "higher", scale), "sixteen letters!")


def test_direction_and_scale_stand_in_the_metrics_own_record(script: str) -> None:
    """As declared, never from the name."""
    info = Library().info_of(wanted(script, "error", "lower"))
    assert (info.name, info.figure_lower_is_better, info.scale) == ("library length_error: error", True, "unbounded")
    assert not Library().info_of(wanted(script, "error", "higher")).figure_lower_is_better
    assert info.higher_is_better  # of the score, which is turned


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "one of name and path"),
        ({"name": "x", "path": "y"}, "one of name and path"),
        ({"name": "x"}, "options.revision: missing"),
        ({"path": "/nowhere/metric.py"}, "cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_told_before_a_run(options: dict[str, str], says: str) -> None:
    """Neither name nor path, both, a name that is not pinned, a script that is not there."""
    assert says in str(Library().why_unfit(item("library", options=options)))
