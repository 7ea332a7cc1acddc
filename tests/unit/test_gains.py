"""What levers can gain: every formula against numbers worked by hand."""

from __future__ import annotations

from itertools import product

import pytest

from quantgate import gains


def test_room_of_the_textbook() -> None:
    """24 GB with 16 GB of weights: 8 bits leave 16 GB instead of 8, twice the room, and 4 bits 20 GB, 2.5 times."""
    assert gains.room_ratio(24, 16, 8) == 2.0
    assert gains.room_ratio(24, 16, 4) == 2.5
    assert gains.room_ratio(24, 24, 12) is None
    assert gains.room_ratio(24, 30, 15) is None


@pytest.mark.parametrize(
    ("small", "large", "exponent"),
    [((1, 2.0), (8, 2.0), 0.0), ((4, 1.0), (8, 2.0), 1.0), ((1, 1.0), (16, 4.0), 0.5), ((8, 2.0), (16, 1.0), -1.0)],
)
def test_growth_of_a_step(small: tuple[int, float], large: tuple[int, float], exponent: float) -> None:
    """0 where rows are free, 1 where each costs the same again."""
    assert gains.growth(small, large) == pytest.approx(exponent)


def test_growth_of_nothing() -> None:
    """One batch, a batch that shrinks or a time of 0 have no growth."""
    assert gains.growth((8, 1.0), (8, 2.0)) is None
    assert gains.growth((8, 1.0), (4, 2.0)) is None
    assert gains.growth((4, 0.0), (8, 2.0)) is None


def test_throughput_follows_the_growth() -> None:
    """Free rows give the whole ratio, rows that cost the same again give nothing, and no growth gives more than the ratio."""
    assert gains.throughput_ratio(2.0, 0.0) == 2.0
    assert gains.throughput_ratio(2.0, 1.0) == 1.0
    assert gains.throughput_ratio(4.0, 0.5) == 2.0
    assert gains.throughput_ratio(2.0, -3.0) == 2.0
    assert gains.throughput_ratio(2.0, 3.0) == 1.0


def test_bound_of_never_wasting() -> None:
    """1 / (useful x used time); what is not known counts as not wasted, and with neither there is no bound."""
    assert gains.utilisation_bound(0.6, None) == pytest.approx(1 / 0.6)
    assert gains.utilisation_bound(None, 0.2) == pytest.approx(1.25)
    assert gains.utilisation_bound(0.5, 0.2) == pytest.approx(2.5)
    assert gains.utilisation_bound(None, None) is None
    assert gains.utilisation_bound(0.0, None) is None
    assert gains.utilisation_bound(0.5, 1.0) is None


@pytest.mark.parametrize(
    ("acceptance", "drafted", "tokens"), [(0.0, 4, 1.0), (1.0, 4, 5.0), (0.5, 1, 1.5), (0.5, 3, 1.875), (0.7, 4, 2.7731), (0.8, 5, 3.68928)]
)
def test_tokens_of_a_step(acceptance: float, drafted: int, tokens: float) -> None:
    """(1 - a^(k+1)) / (1 - a), with both ends of it."""
    assert gains.tokens_per_step(acceptance, drafted) == pytest.approx(tokens)


def test_speed_of_drafting() -> None:
    """Tokens a step over what drafting and verifying cost, in plain steps."""
    assert gains.speculation_ratio(0.7, 4, 0.1) == pytest.approx(2.7731 / 1.4)
    assert gains.speculation_ratio(0.7, 4, 0.1, 1.2) == pytest.approx(2.7731 / 1.6)
    assert gains.speculation_ratio(0.0, 4, 0.1) == pytest.approx(1 / 1.4)


@pytest.mark.parametrize(("drafted", "cost", "verify"), product((1, 4, 8), (0.0, 0.1, 0.4), (1.0, 1.3)))
def test_breaking_even(drafted: int, cost: float, verify: float) -> None:
    """At that acceptance the ratio is 1, where drafting costs anything at all."""
    even = gains.break_even(drafted, cost, verify)
    assert even is not None
    if cost or verify > 1:
        assert gains.speculation_ratio(even, drafted, cost, verify) == pytest.approx(1.0)


def test_what_never_breaks_even() -> None:
    """A draft as dear as a step and a verifying step twice as dear lose even where everything is accepted."""
    assert gains.break_even(4, 1.0, 2.0) is None


@pytest.mark.parametrize("acceptance", [0.05, 0.3, 0.7, 0.95])
def test_acceptance_from_counters(acceptance: float) -> None:
    """What the model says of an acceptance is read back from counters to three digits."""
    steps, drafted = 1_000_000, 4
    accepted = round((gains.tokens_per_step(acceptance, drafted) - 1) * steps)
    assert gains.acceptance_of(accepted, drafted * steps, steps) == pytest.approx(acceptance, abs=1e-3)


def test_counters_that_tell_nothing() -> None:
    """No steps, fewer drafts than steps, or more accepted than drafted: no acceptance."""
    assert gains.acceptance_of(0, 0, 0) is None
    assert gains.acceptance_of(5, 8, 10) is None
    assert gains.acceptance_of(50, 40, 10) is None
