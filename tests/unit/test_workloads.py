"""Requests of a lever: read strictly, drawn the same everywhere, and arriving when the config says."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from quantgate.errors import ConfigError
from quantgate.records import Arrivals, BatchingConfig, BatchingEngine, DrawnRequests, Lengths
from quantgate.workloads import arrival_s, prepared


def config(
    path: Path | None = None, *, drawn: DrawnRequests | None = None, arrivals: Arrivals | None = None, seed: int = 0
) -> BatchingConfig:
    """A workload from a file, or drawn."""
    return BatchingConfig(
        path=None if path is None else str(path),
        drawn=drawn,
        rows=2,
        engines=(BatchingEngine(name="fake"),),
        arrivals=(arrivals or Arrivals(),),
        variants=("float32",),
        seed=seed,
    )


def drawn(count: int = 200, **output: object) -> DrawnRequests:
    """Prompts of 8 to 16 tokens, and outputs as told."""
    return DrawnRequests(
        count=count, prompt=Lengths(kind="uniform", least=8, most=16), output=Lengths(**output)  # type: ignore[arg-type]
    )


def read(made: BatchingConfig) -> BatchingConfig:
    """Prepared, as a run prepares it."""
    found = prepared(made, "run.yaml")
    assert found is not None
    return found


def test_a_file_gives_its_requests_in_order(tmp_path: Path) -> None:
    """Texts and lengths, with their arrivals where they stand."""
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt": "hello", "output_tokens": 3}\n{"prompt_tokens": 7, "output_tokens": 1, "arrives_s": 0.5}\n')
    text, length = read(config(path)).requests
    assert (text.prompt, text.output_tokens, text.arrives_s) == ("hello", 3, None)
    assert (length.prompt_tokens, length.output_tokens, length.arrives_s) == (7, 1, 0.5)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", r"requests\.jsonl: holds no request; one is a line such as"),
        ("\n\n", r"requests\.jsonl: holds no request"),
        ('{"prompt": "a", "output_tokens": 0}', r"requests\.jsonl:1: output_tokens: found 0, expected at least 1 token"),
        ('{"prompt_tokens": 0, "output_tokens": 2}', r":1: prompt_tokens: found 0, expected at least 1 token"),
        ('{"prompt": "a", "output_tokens": 2.5}', r":1: output_tokens: found the decimal number 2\.5, expected a whole number"),
        ('{"prompt": "a", "output_tokens": 2, "arrives_s": -1}', r":1: arrives_s: found -1, expected 0 or more seconds"),
        ('{"prompt": " ", "output_tokens": 2}', r":1: prompt: empty"),
        ('{"output_tokens": 2}', r":1: a request has either 'prompt', a text, or 'prompt_tokens', its length"),
        ('{"prompt": "a", "prompt_tokens": 2, "output_tokens": 2}', r":1: a request has either"),
        ('{"prompt": "a", "output_token": 2}', r":1: unknown key 'output_token' \(did you mean 'output_tokens'\?\)"),
        ('{"prompt": "a"}', r":1: output_tokens: missing"),
        ('{"prompt": "a", "output_tokens": 2}\nx', r":2: invalid JSON"),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    """An empty file, a length of nothing, a time before the start: file, line, what was found and what is expected."""
    path = tmp_path / "requests.jsonl"
    path.write_text(content)
    with pytest.raises(ConfigError, match=said):
        prepared(config(path), "run.yaml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With an example of what it should hold."""
    with pytest.raises(ConfigError, match=r"none\.jsonl: no such file of requests; one is a line such as"):
        prepared(config(tmp_path / "none.jsonl"), "run.yaml")


def test_without_a_section_nothing_is_prepared() -> None:
    """A run without the lever has no workload."""
    assert prepared(None, "run.yaml") is None


def test_drawn_lengths_follow_the_seed_and_stay_in_their_bounds() -> None:
    """The same seed gives the same requests, another one others; a lognormal draw has about the median asked for."""
    asked = drawn(kind="lognormal", least=4, most=120, median=30.0, sigma=0.8)
    first, again, other = (read(config(drawn=asked, seed=seed)).requests for seed in (1, 1, 2))
    assert first == again != other
    outputs = sorted(one.output_tokens for one in first)
    assert outputs[0] >= 4
    assert outputs[-1] <= 120
    assert 24 <= outputs[100] <= 37
    assert all(8 <= (one.prompt_tokens or 0) <= 16 for one in first)


def test_arrivals_are_all_at_once_given_or_poisson() -> None:
    """A Poisson process of two a second has gaps of half a second in the mean, the same ones for the same seed."""
    made = read(config(drawn=drawn(400, kind="fixed", least=5, most=5)))
    assert set(arrival_s(made, Arrivals())) == {0.0}
    poisson = Arrivals(kind="poisson", rate_per_s=2.0)
    times = arrival_s(made, poisson)
    assert times == arrival_s(made, poisson)
    assert list(times) == sorted(times)
    assert mean(after - before for before, after in zip((0.0, *times), times, strict=False)) == pytest.approx(0.5, rel=0.15)


def test_given_arrivals_need_a_time_for_every_request(tmp_path: Path) -> None:
    """A request without one is named; drawn requests have none at all."""
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt": "a", "output_tokens": 2, "arrives_s": 1.5}\n{"prompt": "b", "output_tokens": 2}\n')
    given = Arrivals(kind="given")
    with pytest.raises(ConfigError, match=r"run\.yaml: levers\.batching\.arrivals: 'given' needs .* request 2 of "):
        prepared(config(path, arrivals=given), "run.yaml")
    with pytest.raises(ConfigError, match="drawn requests have none"):
        prepared(config(drawn=drawn(kind="fixed", least=5, most=5), arrivals=given), "run.yaml")
    path.write_text('{"prompt": "a", "output_tokens": 2, "arrives_s": 1.5}\n')
    assert arrival_s(read(config(path, arrivals=given)), given) == (1.5,)
