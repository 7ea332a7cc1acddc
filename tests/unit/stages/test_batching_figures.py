"""Figures of static against continuous batching: tails, ratios, what is not compared, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quantgate.records import Arrivals, BatchingRun
from quantgate.stages import batching_figures as figures
from streams import difference, run

FAST = ((0.5, 1.0), (0.5, 1.0, 1.5))


def runs(**continuous: Any) -> list[BatchingRun]:
    """Alone, static in 5 steps and 3 s, continuous in 3 steps and 1.5 s."""
    return [run("alone", rows=1, steps=5), run("static", steps=5), run(**{"token_s": FAST, "wall_s": 1.5, **continuous})]


def test_percentiles_are_times_that_were_measured() -> None:
    """Nearest rank over 1..100 gives 50, 90 and 99; over two values the larger is the 90th and the 99th; over none there is none."""
    found = figures.tail(float(one) for one in range(100, 0, -1))
    assert found is not None
    assert (found.n, found.p50_s, found.p90_s, found.p99_s) == (100, 50.0, 90.0, 99.0)
    two = figures.tail([3.0, 1.0])
    assert two is not None
    assert (two.p50_s, two.p90_s, two.p99_s) == (1.0, 3.0, 3.0)
    assert figures.tail([]) is None


def test_a_continuous_row_is_compared_with_static_batches() -> None:
    """Five tokens in 1.5 s instead of 3, in 3 steps of 2 rows instead of 5: twice as fast, 1.67 times the utilisation, half the p99."""
    alone, static, continuous = figures.rows_of(runs())
    assert (alone.speed_ratio, static.speed_ratio) == (None, None)
    assert (static.utilisation, continuous.utilisation) == (0.5, pytest.approx(5 / 6))
    assert continuous.speed_ratio == continuous.own_speed_ratio == pytest.approx(2.0)
    assert continuous.utilisation_gain == pytest.approx(5 / 3)
    assert continuous.itl_p99_ratio == pytest.approx(0.5)
    assert continuous.useful_tokens_per_s == pytest.approx(5 / 1.5)


def test_speed_is_over_our_static_batches_and_scheduling_over_its_own() -> None:
    """An engine three times as fast in static batches, and as fast continuously, gained nothing by its scheduling."""
    quick = {"engine": "vllm", "token_s": FAST, "wall_s": 1.0}
    found = [*runs(), run("static", **quick, steps=5), run("continuous", **quick, steps=5)]
    row = figures.rows_of(found)[-1]
    assert (row.speed_ratio, row.own_speed_ratio, row.utilisation_gain) == (pytest.approx(3.0), pytest.approx(1.0), 1.0)
    said = list(figures.sentences(figures.rows_of(found)))[-1]
    assert "3.00x, a gain" in said
    assert "Over its own static batches it is 1.00x: the rest comes from its kernels" in said


def test_repeats_are_one_row_with_medians_and_all_their_times() -> None:
    """Walls of 1, 2 and 4 s: the median is that of 2; tails are over all tokens."""
    found = [run("static", repeat=index, wall_s=wall) for index, wall in enumerate((1.0, 4.0, 2.0))]
    (row,) = figures.rows_of(found)
    assert (row.repeats, row.useful_tokens_per_s, row.itl and row.itl.n) == (3, 2.5, 9)


@pytest.mark.parametrize(
    ("walls_s", "word"),
    [
        ((1.5, 1.0), "2.45x, a gain (2.00x to 3.00x over 2 repeats)"),
        ((1.5, 4.0), "1.22x, no difference to speak of (0.75x to 2.00x over 2 repeats)"),
        ((6.0, 12.0), "0.35x, a loss (0.25x to 0.50x over 2 repeats): do not switch it on here"),
    ],
)
def test_repeats_that_disagree_show_no_gain(walls_s: tuple[float, float], word: str) -> None:
    """The ratio is of geometric means; where one repeat says faster and another slower, neither is said."""
    found = [run("static", steps=5, repeat=index) for index in range(2)]
    found += [run(wall_s=wall_s, repeat=index) for index, wall_s in enumerate(walls_s)]
    (said,) = figures.sentences(figures.rows_of(found))
    assert word in said


def test_a_run_that_cut_a_request_has_no_figures() -> None:
    """Which request, how many of how many tokens; nothing is compared with it."""
    cut = replace(run().requests[1], ids=(7, 7), token_s=(0.5, 1.0))
    short = run(requests=(run().requests[0], cut))
    row = figures.rows_of([run("static"), short])[-1]
    assert row.why_not is not None
    assert row.why_not.startswith("request r2 got 2 of 3 tokens: nothing is compared with a run that cuts")
    assert (row.useful_tokens_per_s, row.utilisation, row.ttft, row.speed_ratio) == (None, None, None, None)
    over = replace(run().requests[1], ids=(7,) * 4, token_s=(0.5, 1.0, 1.5, 2.0))
    assert "got 4 of 3 tokens" in str(figures.rows_of([run(requests=(over,))])[0].why_not)


def test_unknown_steps_leave_utilisation_unknown() -> None:
    """Not 0 and not 1: it is not known, and neither is its gain; preemptions of an engine that does not tell are not 0."""
    row = figures.rows_of(runs(steps=None, preemptions=None))[-1]
    assert (row.utilisation, row.utilisation_gain, row.preemptions) == (None, None, None)
    assert row.speed_ratio == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("wall_s", "word"),
    [
        (1.5, "2.00x, a gain; measured once"),
        (3.05, "0.98x, no difference to speak of"),
        (9.0, "0.33x, a loss: do not switch it on here; measured once"),
    ],
)
def test_gain_or_loss_is_said_plainly(wall_s: float, word: str) -> None:
    """A loss is called one."""
    (said,) = figures.sentences(figures.rows_of(runs(wall_s=wall_s)))
    assert said.startswith("float32: continuous batching with fake, all at once, gives ")
    assert word in said
    assert "Of the places in its steps 83 % gave a token, of static batches 50 %" in said


def test_an_engine_that_did_not_run_is_said_once() -> None:
    """With its reason, whatever number of ways and patterns it would have had."""
    why = "not run: there is no interpreter /x/python"
    patterns = (Arrivals(), Arrivals(kind="poisson", rate_per_s=2.0))
    lost = [run(mode, engine="vllm", requests=(), arrivals=one, why_not=why) for one in patterns for mode in ("static", "continuous")]
    said = [one for one in figures.sentences(figures.rows_of([*runs(), *lost])) if "vllm" in one]
    assert said == [f"float32: batching with vllm: {why}."]


@pytest.mark.parametrize(
    ("margin_nats", "dtype", "word", "usable"),
    [
        (1e-5, "float32", "ties that rounding decides", True),
        (0.4, "float32", "the answers are not the same, and nothing passes on them", False),
        (None, "float32", "nothing passes on them", False),
        (0.4, "bfloat16", "in bfloat16 that is only reported", True),
    ],
)
def test_other_ids_count_in_float32_unless_they_are_ties(margin_nats: float | None, dtype: str, word: str, usable: bool) -> None:
    """The count, the clearest difference and how sure alone was; in half precision they are reported and decide nothing."""
    strayed = runs(differences=(difference(margin_nats), difference(1e-6, request_id="r2")), dtype=dtype)
    row = figures.rows_of(strayed)[-1]
    assert row.differing == 2
    assert word in list(figures.sentences([row]))[-1]
    (figure,) = figures.limited("batching_utilisation_gain", None, strayed)
    assert (figure.value is not None) == usable


# ---------------------------------------------------------------------------------------------- what a policy asks


def test_each_engine_is_a_figure_of_its_own_and_the_worst_pattern_counts() -> None:
    """The gain is the smallest over arrivals, the tail ratio the largest."""
    poisson = Arrivals(kind="poisson", rate_per_s=2.0)
    slow = [run("static", steps=5, arrivals=poisson), run(steps=4, arrivals=poisson, token_s=((1.0, 4.0), (1.0, 2.0, 3.0)))]
    (gain,) = figures.limited("batching_utilisation_gain", None, [*runs(), *slow])
    (tail,) = figures.limited("batching_itl_p99_ratio", "fake", [*runs(), *slow])
    assert (gain.name, gain.value) == ("lever/batching_utilisation_gain/fake", pytest.approx(5 / 4))
    assert (tail.name, tail.value) == ("lever/batching_itl_p99_ratio/fake", pytest.approx(3.0))


@pytest.mark.parametrize(
    ("found", "engine", "why"),
    [
        ([], None, "the run did not try continuous batching on it"),
        ([], "vllm", "the run did not serve it continuously with vllm"),
        (runs(why_not="not run: no library"), None, "fake, continuous, all at once: not run: no library"),
        (runs(compared=False), None, "its ids were not compared with those of each request alone"),
        (runs(steps=None), None, "the steps of static and continuous batching with fake are not both known"),
        ([run()], None, "the steps of static and continuous batching with fake are not both known"),
        ([replace(run("static"), why_not="it was ended"), run()], None, "fake, static, all at once: it was ended"),
    ],
)
def test_what_is_missing_or_broken_is_no_figure(found: list[BatchingRun], engine: str | None, why: str) -> None:
    """A demand without evidence has no value and says why."""
    (figure,) = figures.limited("batching_utilisation_gain", engine, found)
    assert figure.value is None
    assert why in figure.why_not


# ---------------------------------------------------------------------------------------------- the schedule


def test_static_rows_are_held_until_the_longest_ends() -> None:
    """The shorter of two requests is done at 2 s and holds its row until 3; continuously the row is free at 2 and goes to the next."""
    first, second = figures.schedule(run("static"))
    assert (first.row, first.ended_s, first.held_s) == (0, 2.0, 3.0)
    assert (second.row, second.ended_s, second.held_s) == (1, 3.0, 3.0)
    bars = list(figures.schedule(run(token_s=((1.0, 2.0), (1.0, 2.0, 3.0), (3.0, 4.0)))))
    assert [(bar.row, bar.started_s, bar.held_s) for bar in bars] == [(0, 0.0, 2.0), (1, 0.0, 3.0), (0, 2.0, 4.0)]
