from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from quantgate.records import Check
from quantgate.render import quantities as q
from samples import check, sample_report, two_golden_sets, verdict

SHARES = st.floats(min_value=-1, max_value=1, allow_nan=False)


def shown(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))


@given(SHARES, st.integers(0, 4))
def test_bounds_round_outward(share: float, digits: int) -> None:
    """A printed upper bound is never below the bound, a printed lower one never above, both within one last digit."""
    exact, step = Fraction(repr(share)) * 100, Fraction(1, 10**digits)
    up = shown(q.points(share, towards="up", digits=digits))
    down = shown(q.points(share, towards="down", digits=digits))
    assert exact <= up < exact + step
    assert exact - step < down <= exact


@pytest.mark.parametrize(
    ("share", "towards", "text"),
    [
        (0.01281, "up", "1.3"),
        (0.013, "up", "1.3"),
        (0.0130001, "up", "1.4"),
        (0.00021, "down", "0.0"),
        (-0.0204, "down", "-2.1"),
        (-0.0001, "up", "0.0"),
        (-0.0001, "nearest", "0.0"),
        (0.0, "up", "0.0"),
    ],
)
def test_points(share: float, towards: q.Towards, text: str) -> None:
    """Points follow the direction asked for, without float noise and without a minus before zero."""
    assert q.points(share, towards=towards) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999_400_000, "999 MB"),
        (538_060_032, "538 MB"),
        (999_600_000, "1.00 GB"),
        (1_240_000_000, "1.24 GB"),
        (16_000_000_000, "16.0 GB"),
    ],
)
def test_decimal_bytes(value: int, text: str) -> None:
    """Bytes carry the largest decimal unit that leaves a figure of at least one."""
    assert q.decimal_bytes(value) == text


def test_binary_bytes_name_their_unit() -> None:
    """Powers of 1024 are called GiB, never GB."""
    assert q.binary_bytes(2**30) == "1.00 GiB"
    assert q.binary_bytes(900_000_000) == "858 MiB"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (0.44, "0.4 s"),
        (9.97, "10 s"),
        (59.6, "1 min"),
        (250, "4 min 10 s"),
        (3_599.7, "1 h"),
        (3_725, "1 h 2 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    """A time never shows 60 seconds or 60 minutes."""
    assert q.duration(seconds) == text


def test_unknown_is_never_a_zero() -> None:
    """None, NaN and infinity are a dash in every quantity."""
    of_floats: list[Callable[[float | None], str]] = [
        q.percent,
        q.points,
        q.margin_points,
        q.level_percent,
        q.milliseconds,
        q.per_s,
        q.duration,
        q.ratio,
        q.significant,
        q.p_value,
    ]
    for unknown in (None, float("nan"), float("inf")):
        assert {write(unknown) for write in of_floats} == {"-"}
    assert {q.count(None), q.decimal_bytes(None), q.binary_bytes(None), q.in_unit(None, 10**6)} == {"-"}
    assert {q.batch_ceiling(None), q.flips(None)} == {"-"}


@pytest.mark.parametrize(
    ("value", "text"), [(0.0189, "0.0189"), (12.8, "12.8"), (1234.5, "1,234"), (3e-9, "< 0.000001"), (0, "0")]
)
def test_significant(value: float, text: str) -> None:
    """Whole digits are all kept, and a tiny figure is not called zero."""
    assert q.significant(value) == text


@pytest.mark.parametrize(("margin", "text"), [(0.03, "3.0"), (0.0125, "1.25"), (0.1, "10.0"), (0.005, "0.5")])
def test_a_margin_keeps_every_digit(margin: float, text: str) -> None:
    """A margin is printed as it was set, never rounded."""
    assert q.margin_points(margin) == text


def test_a_level_is_not_rounded_up() -> None:
    """No more confidence is claimed than was used."""
    assert [q.level_percent(level) for level in (0.95, 0.975, 0.98333, 0.99999)] == [
        "95 %",
        "97.5 %",
        "98.33 %",
        "99.99 %",
    ]


def test_a_ceiling_that_ended_early_is_a_lower_bound() -> None:
    """A search that hit its cap or its time reads ``>=``, one that found the limit does not."""
    ceiling = sample_report().measurements[1].ceiling
    assert ceiling is not None
    assert q.batch_ceiling(ceiling) == "21"
    assert q.batch_ceiling(replace(ceiling, limited_by="search cap")) == ">= 21"
    assert q.batch_ceiling(replace(ceiling, limited_by="time")) == ">= 21"
    assert q.batch_ceiling(replace(ceiling, confirmed=0)) == "0"


def test_verdict_words() -> None:
    """A control's word says whether it came out as it must; other roles say their outcome."""
    assert q.verdict_word(verdict("a", "candidate", "not_measured")) == "NOT MEASURED"
    assert q.verdict_word(verdict("a", "known_bad", "fail", control_ok=True)) == "FAIL, as it must be"
    assert q.verdict_word(verdict("a", "identity", "pass", control_ok=True)) == "PASS, as it must"
    assert q.verdict_word(verdict("a", "known_bad", "pass", control_ok=False)) == "CONTROL WRONG (pass)"
    assert q.verdict_word(verdict("a", "identity", "not_measured")).startswith("CONTROL WRONG")


def test_the_worst_set_is_shown() -> None:
    """Of several passing sets the one with the least room to its margin is shown; a worse outcome goes before that."""
    int8 = two_golden_sets().verdicts[1]
    found = q.worst_quality(int8)
    assert found is not None
    assert found.name == "quality/tickets"
    failing = check("fail", estimate=0.05, lower=0.04, bound=0.06, margin=0.03)
    advisory = check("not_measured", name="quality/other", tier="advisory")
    assert q.worst_quality(verdict("a", "candidate", "fail", found, failing, advisory)) is failing


@pytest.mark.parametrize(
    ("name", "figure", "limit"),
    [
        ("quality/everyday", "3.0 points", "3.0 points"),
        ("memory/freed_share", "3.0 %", "3 %"),
        ("quality_kl/kl_mean", "0.0300 nats", "0.03 nats"),
        ("output_length/everyday", "0.03x", "0.03x"),
    ],
)
def test_a_check_has_its_unit(name: str, figure: str, limit: str) -> None:
    """No figure of a check is printed without its unit."""
    one = Check(name=name, tier="required", outcome="pass", because="", estimate=0.03, margin=0.03)
    assert q.check_figure(one, one.estimate) == figure
    assert q.check_limit(one.name, one.margin) == limit
