"""A metric whose library is not installed: an error with the install line, for the one who asked for it."""

import sys

import pytest

from quantgate import plugins
from quantgate.errors import MissingExtra


@pytest.mark.parametrize(
    ("metric", "library", "module", "install"),
    [
        ("rouge", "rouge_score", "rouge_score.rouge_scorer", r"'quantgate\[metrics\]'"),
        ("bleu", "sacrebleu", "sacrebleu.metrics.bleu", r"'quantgate\[metrics\]'"),
        ("json_schema", "jsonschema", "jsonschema", r"'quantgate\[metrics\]'"),
        ("library", "evaluate", "evaluate", "evaluate"),
    ],
)
def test_the_library_is_named(monkeypatch: pytest.MonkeyPatch, metric: str, library: str, module: str, install: str) -> None:
    """Named with the metric that needs it; the other metrics load."""
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"quantgate.metrics.{metric}", raising=False)
    with pytest.raises(MissingExtra, match=f"metric '{metric}' needs the library '{library}'.*pip install {install}"):
        plugins.load("metric", metric)
    assert plugins.load("metric", "f1")().info.name == "f1"
