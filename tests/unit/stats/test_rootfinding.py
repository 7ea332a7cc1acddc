"""The search for a sign change."""

from math import exp

import pytest

from quantgate.stats.rootfinding import falling_root


@pytest.mark.parametrize("start", [0.0, 0.1, 0.34, 0.9, 1.0, 5.0])
def test_root_of_a_smooth_function(start: float) -> None:
    """Wherever it starts, the upper end of the bracket is within the tolerance and not positive."""
    found = falling_root(lambda x: exp(-3 * x) - exp(-1), 0.0, 1.0, start, 1e-9)
    assert found == pytest.approx(1 / 3, abs=1e-9)
    assert exp(-3 * found) - exp(-1) <= 0


def test_root_of_a_jump() -> None:
    """A step is found, from above, in about as many evaluations as bisection."""
    seen = []

    def step(x: float) -> float:
        seen.append(x)
        return 2.0 if x < 0.7 else -0.001

    assert 0.7 <= falling_root(step, 0.0, 1.0, 0.2, 1e-7) < 0.7 + 1e-7
    assert len(seen) < 40


def test_a_function_that_never_falls_gives_the_upper_end() -> None:
    """Without a sign change the answer is the end that claims least."""
    assert falling_root(lambda x: 1.0, 0.0, 1.0, 0.5, 1e-6) == pytest.approx(1.0, abs=1e-6)
