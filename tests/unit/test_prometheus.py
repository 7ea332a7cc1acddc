"""Prometheus' text format: samples are read, and what is cut off, doubled or malformed is refused by line."""

from __future__ import annotations

import math

import pytest

from quantgate.prometheus import Malformed, samples

TEXT = """# HELP a:b Some words with "quotes" and { braces }.
# TYPE a:b gauge
a:b{engine="0",model_name="org/a b\\\\c \\"d\\" \\n"} 0.5
a:b{engine="1",model_name="x",} 1e-3 1789056823729

  plain   +Inf
neg -4.25
nothing NaN
dot{} .5
bucket{le="+Inf"} 12 # {trace_id="x"} 0.1 1.0
# EOF
"""


def test_samples_are_read() -> None:
    """Names, labels with escapes, numbers of every form, time stamps and exemplars."""
    found = list(samples(TEXT))
    assert [one.name for one in found] == ["a:b", "a:b", "plain", "neg", "nothing", "dot", "bucket"]
    assert found[0].labels == {"engine": "0", "model_name": 'org/a b\\c "d" \n'}
    assert [one.value for one in found[:2]] == [0.5, 0.001]
    assert (found[2].value, found[3].value, found[5].value, found[6].value) == (math.inf, -4.25, 0.5, 12.0)
    assert math.isnan(found[4].value)
    assert found[0].line == 3


@pytest.mark.parametrize(
    "line", ["a", "a b", "a{b=1} 2", 'a{b="1" 2', "1a 2", 'a{b="1"}2', "a 1 2 3", "a 1,5", "<html>", 'a{b="1"c="2"} 1', "a 0x10"]
)
def test_other_lines_are_refused(line: str) -> None:
    """A line that is no sample is named by its number."""
    with pytest.raises(Malformed) as caught:
        list(samples(f"fine 1\n{line}\n"))
    assert caught.value.line == 2


def test_what_is_cut_off_is_refused() -> None:
    """A number whose last digits are missing reads like another number."""
    with pytest.raises(Malformed, match="cut off"):
        list(samples("a 0.98\nb 0.9"))
    assert list(samples("")) == []


def test_a_series_stands_once() -> None:
    """The same name with the same labels in any order is a fault; so is a label that stands twice."""
    with pytest.raises(Malformed, match="stands twice"):
        list(samples('a{b="1",c="2"} 1\na{c="2",b="1"} 2\n'))
    with pytest.raises(Malformed, match="label b stands twice"):
        list(samples('a{b="1",b="2"} 1\n'))
