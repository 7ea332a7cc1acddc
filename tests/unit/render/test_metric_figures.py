"""Each metric's own figure where it is shown: the page, the terminal, MLflow."""

from dataclasses import replace

from quantgate.metrics.bleu import Bleu
from quantgate.metrics.numeric_match import NumericMatch
from quantgate.metrics.perplexity import Perplexity
from quantgate.records import MetricFigure, Report
from quantgate.render import html, terminal
from quantgate.sinks.mlflow_figures import figures_of
from samples import sample_report

FIGURES = (
    MetricFigure(metric=Bleu.info, value=27.31, items=100, scored=99),
    MetricFigure(metric=Perplexity.info, value=12.5, items=10, scored=10),
    MetricFigure(metric=NumericMatch.info, value=0.75, items=4, scored=4, equal_weights=False),
    MetricFigure(metric=replace(Perplexity.info, name="untold"), value=None, items=3, scored=0),
)


def shown() -> Report:
    """The sample report with figures in every row of quality."""
    report = sample_report()
    return replace(report, quality=tuple(replace(row, figures=FIGURES) for row in report.quality))


def test_the_page_has_a_table_of_them() -> None:
    """Name, figure, unit, direction and count; a figure that is not there is a dash."""
    page = html.page(shown())
    assert "Figures of each metric over the set" in page
    for words in ("27.3", "corpus BLEU, 0 to 100", "99 of 100", "perplexity, 1 or more", "share of items, weighted", "0 of 3"):
        assert words in page, words
    assert "Figures of each metric" not in html.page(sample_report())


def test_the_terminal_has_a_line_each() -> None:
    """With the direction in words."""
    text = terminal.show_variant(shown(), "int8")
    assert "bleu: 27.3 (corpus BLEU, 0 to 100; higher is better), 99 of 100 items" in text
    assert "perplexity: 12.5 (perplexity, 1 or more; lower is better), 10 of 10 items" in text
    assert "numeric_match: 0.750 (share of items; higher is better; weighted), 4 of 4 items" in text


def test_mlflow_gets_those_that_are_there() -> None:
    """Under the golden set's name; what is not known is absent."""
    logged = {one.name: one.value for one in figures_of(shown(), "int8")}
    (group,) = {name.rsplit("/", 2)[0] for name in logged if name.endswith("/metric/bleu")}
    assert (logged[f"{group}/metric/bleu"], logged[f"{group}/metric/perplexity"]) == (27.31, 12.5)
    assert f"{group}/metric/untold" not in logged
