from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from quantgate.devices.fake import FakeDevice
from quantgate.errors import OutOfMemory
from quantgate.records import Capacity, ChoiceLogProbs, DeviceConfig, Workload
from quantgate.stages import capacity
from quantgate.stages.capacity import Job, largest, predict
from quantgate.stages.report import fill_notes
from sessions import Memory, Scripted, device, full_rows, quiet

WORK = Workload(prompt_tokens=8, output_tokens=4, max_batch=64)


class Fills:
    """Scripted outcomes; counts how often each batch was tried."""

    def __init__(self, fits: Callable[[int], bool], holds: Callable[[int], bool] = lambda batch: True) -> None:
        self._fits, self._holds = fits, holds
        self.probed: list[int] = []
        self.held: list[int] = []

    def fits(self, batch: int) -> bool:
        self.probed.append(batch)
        return self._fits(batch)

    def holds(self, batch: int) -> bool:
        self.held.append(batch)
        return self._holds(batch)

    def search(self, start: int, cap: int, limit: int = 10**6) -> tuple[int | None, str]:
        return largest(self.fits, self.holds, start, cap, lambda: len(self.probed) >= limit)


def find(memory: Memory, work: Workload = WORK, budget: int = 1_000_000) -> Capacity:
    job = Job(workload=work, budget_bytes=budget, base_bytes=0, seed=1)
    return capacity.find(memory.session(), memory.device, job, quiet)


@pytest.mark.parametrize("start", range(1, 129))
def test_six_probes_or_fewer_within_ten_percent(start: int) -> None:
    """A prediction of up to 128 that is within 10 % of the ceiling costs at most 6 probes, and finds it."""
    for true in range(math.ceil(start / 1.1), math.floor(start / 0.9) + 1):
        fills = Fills(lambda batch, true=true: batch <= true)  # type: ignore[misc]
        assert fills.search(start, 10**6) == (true, "memory")
        assert len(fills.probed) <= 6


@pytest.mark.parametrize("start", [1, 2, 7, 30, 64])
@pytest.mark.parametrize("true", [*range(12), 40, 63])
def test_any_ceiling_is_found_from_any_start(start: int, true: int) -> None:
    """However wrong the prediction: the exact ceiling, 0 where nothing fits, every batch probed once, logarithmically many."""
    fills = Fills(lambda batch: batch <= true)
    assert fills.search(start, 64) == (true, "memory")
    assert len(set(fills.probed)) == len(fills.probed) <= 14


@pytest.mark.parametrize("cap", [1, 2, 64])
def test_a_ceiling_at_the_cap_is_not_a_maximum(cap: int) -> None:
    """Nothing larger than the cap is tried, and the limit is the search's, not the memory's."""
    fills = Fills(lambda batch: True)
    assert fills.search(min(5, cap), cap) == (cap, "search cap")
    assert max(fills.probed) == cap


def test_a_batch_that_does_not_hold_is_not_reported() -> None:
    """10 fits once and not again: 9 is tried next and reported; what failed above stays failed."""
    fills = Fills(lambda batch: batch <= 10, holds=lambda batch: batch <= 9)
    assert fills.search(10, 64) == (9, "memory")


def test_batch_one_that_does_not_hold_is_zero() -> None:
    """Not even one request, time after time: 0."""
    assert Fills(lambda batch: batch <= 3, holds=lambda batch: False).search(2, 64) == (0, "memory")


@settings(max_examples=200, deadline=None)
@given(
    fits=st.lists(st.booleans(), min_size=20, max_size=20),
    holds=st.lists(st.booleans(), min_size=20, max_size=20),
    start=st.integers(1, 20),
    limit=st.integers(0, 60),
)
def test_fills_that_contradict_one_another_end_the_search_all_the_same(
    fits: list[bool], holds: list[bool], start: int, limit: int
) -> None:
    """Whatever the outcomes, the search ends, and what it reports has fitted and held."""
    fills = Fills(lambda batch: fits[batch - 1], lambda batch: holds[batch - 1])
    found, _ = fills.search(start, 20, limit)
    assert len(fills.probed) <= 60
    if found:
        assert fits[found - 1] and holds[found - 1]
        assert fills.held[-1] == found


def test_out_of_time_keeps_what_held() -> None:
    """A search that is cut short gives the largest batch that fitted and holds, named as a lower limit; with none, None and not 0."""
    assert Fills(lambda batch: batch <= 40).search(8, 64, limit=3) == (11, "time")
    assert Fills(lambda batch: False).search(40, 64, limit=2) == (None, "time")
    assert Fills(lambda batch: True, holds=lambda batch: False).search(8, 64, limit=3) == (None, "time")
    assert Fills(lambda batch: True).search(8, 64, limit=0) == (None, "time")


@pytest.mark.parametrize(("budget", "fixed", "row", "rows"), [(100, 10, 30, 3), (99, 10, 30, 2), (5, 10, 30, 0)])
def test_prediction_is_whole_rows(budget: int, fixed: int, row: int, rows: int) -> None:
    """Whole rows beside the fixed part, never fewer than none."""
    assert predict(budget, fixed, row) == rows
    with pytest.raises(ValueError, match="at least 1"):
        predict(budget, fixed, 0)


def test_the_ceiling_of_a_session() -> None:
    """1,000,000 bytes and 30,000 a row: predicted and confirmed 33, held three times, one more over the budget."""
    memory = Memory(device(), row_bytes=30_000)
    found = find(memory)
    assert (found.predicted, found.confirmed, found.limited_by, found.why_not) == (33, 33, "memory", None)
    fits = [one for one in found.probes if one.batch_size == 33]
    assert [one.purpose for one in fits] == ["probe", "confirm", "confirm"]
    assert [one.outcome for one in found.probes if one.batch_size == 34] == ["over budget"]
    assert (found.prompt_tokens, found.output_tokens, found.prefill_bytes_per_row) == (8, 4, 30_000)


def test_not_even_one_request_fits() -> None:
    """Zero with the reason, after a handful of attempts that are all kept."""
    found = find(Memory(device(), row_bytes=2_000_000))
    assert (found.confirmed, found.limited_by, found.why_not) == (
        0,
        "memory",
        "not even one request fits into the budget",
    )
    assert 1 <= len(found.probes) <= 3


def test_a_batch_of_three_that_does_not_fit_starts_the_search_below_it() -> None:
    """With only KV arithmetic to go by the prediction would be far off; the failed slope fill bounds it."""
    memory = Memory(device(), row_bytes=10, refuse=lambda batch: batch > 2)
    found = find(memory)
    assert (found.confirmed, max(memory.asked)) == (2, 3)


def test_a_fill_that_ends_early_says_nothing_about_memory() -> None:
    """An engine that stops before the full length: not known, and never "0 fit"."""

    def short(requests):  # type: ignore[no-untyped-def]
        yield from list(full_rows(requests))[:-1]

    job = Job(workload=WORK, budget_bytes=10**6, base_bytes=0, seed=1)
    found = capacity.find(Scripted(short), device(), job, quiet)
    assert (found.confirmed, found.limited_by) == (None, "engine")
    assert found.why_not == "the engine ended a single request before its full length"


def test_an_engine_that_queues_limits_by_engine() -> None:
    """Above 5 rows the engine ends early: the ceiling is the engine's."""

    def queues(requests):  # type: ignore[no-untyped-def]
        steps = list(full_rows(requests))
        yield from steps if len(requests) <= 5 else steps[:-1]

    job = Job(workload=WORK, budget_bytes=10**6, base_bytes=0, seed=1)
    found = capacity.find(Scripted(queues), device(), job, quiet)
    assert (found.confirmed, found.limited_by) == (5, "engine")


def test_the_process_itself_is_outside_the_budget() -> None:
    """Bytes that were there before the model was loaded are not counted."""
    memory = Memory(device(), row_bytes=30_000)
    memory.device.allocate(500_000)
    job = Job(workload=WORK, budget_bytes=1_000_000, base_bytes=500_000, seed=1)
    assert capacity.find(memory.session(), memory.device, job, quiet).confirmed == 33


def test_the_search_stops_at_its_time_limit() -> None:
    """A clock past the limit ends the search with what is confirmed so far, or with None and a reason."""
    found = find(Memory(device(), row_bytes=30_000), replace(WORK, fill_budget_s=12.0))
    assert (found.confirmed, found.limited_by) == (33, "time")
    found = find(Memory(device(), row_bytes=30_000), replace(WORK, fill_budget_s=0.0))
    assert (found.confirmed, found.limited_by) == (None, "time")
    assert found.why_not == "no batch was confirmed within workload.fill_budget (0 s)"


def test_a_third_small_fill_straightens_the_prediction() -> None:
    """A model whose first calls leave 300 kB behind looks as if its row were heavier; a quarter of the first prediction shows it is not."""
    cold = Memory(device(), row_bytes=30_000)
    left: list[int] = []

    def generate(requests):  # type: ignore[no-untyped-def]
        if len(requests) > 1 and not left:
            left.append(300_000)
            cold.device.allocate(300_000)
        yield from cold.generate(requests)

    job = Job(workload=WORK, budget_bytes=2_000_000, base_bytes=0, seed=1)
    found = capacity.find(Scripted(generate), cold.device, job, quiet)
    small = [one.batch_size for one in found.probes if one.purpose == "decode"]
    assert small[:2] == [1, 3] and len(small) == 3 and small[2] >= 8
    assert (found.predicted, found.confirmed) == (56, 56)


@pytest.mark.parametrize(("predicted", "cap", "rows"), [
    (None, 64, None), (5, 64, None), (6, 64, 6), (20, 64, 8), (64, 64, 16), (120, 64, 30), (129, 64, None), (20, 4, None), (8, 4, 4),
])  # fmt: skip
def test_the_rows_of_the_third_small_fill(predicted: int | None, cap: int, rows: int | None) -> None:
    """A quarter, at least eight, never more than predicted or than the cap; none where it would not matter."""
    assert capacity._middle(predicted, cap) == rows


def test_one_output_token_is_possible() -> None:
    """The slope fills ask for no more tokens than the workload has."""
    found = find(Memory(device(), row_bytes=30_000), Workload(prompt_tokens=8, output_tokens=1, max_batch=64))
    assert found.confirmed == 33


# ---------------------------------------------------------------------------------------------- fragments, scoring, time


def test_three_fills_in_a_row_and_one_more_that_fails() -> None:
    """The ceiling was filled three times at full length, and one more was tried and did not fit."""
    found = find(Memory(device(), row_bytes=30_000))
    full = [one for one in found.probes if one.purpose in ("probe", "confirm")]
    assert sum(one.batch_size == 33 and one.outcome == "fits" for one in full) == 3
    assert any(one.batch_size == 34 and one.outcome != "fits" for one in full)
    assert found.probe_count <= 6


def test_prediction_error_is_told_where_memory_sets_the_ceiling() -> None:
    """Exact arithmetic: 0. A ceiling that is the search's own says nothing about the prediction."""
    assert find(Memory(device(), row_bytes=30_000)).prediction_error == 0.0
    assert find(Memory(device(), row_bytes=1)).prediction_error is None
    assert find(Memory(device(), row_bytes=2_000_000)).prediction_error is None
    off = find(Memory(device(), row_bytes=30_000, refuse=lambda batch: batch > 30))
    assert off.prediction_error == pytest.approx(0.1)


def test_a_batch_that_fits_once_and_not_again_is_noticed() -> None:
    """33 fits at first and fails when it is repeated: the ceiling is 32, and a sentence names the batch."""
    tried: list[int] = []

    def refuse(batch: int) -> bool:
        tried.append(batch)
        return batch > 33 or (batch == 33 and tried.count(33) > 1)

    found = find(Memory(device(), row_bytes=30_000, refuse=refuse))
    assert (found.confirmed, found.unsteady) == (32, (33,))
    assert "batch 33 fitted in one fill and not in another" in fill_notes(found)[0]


def test_memory_in_pieces_is_noticed() -> None:
    """An allocator that holds 400 MB it cannot use: the ceiling is what fits, and a sentence says how much was of no use."""
    broken = FakeDevice(DeviceConfig(kind="fake"), script=lambda asked: 400_000_000 if asked > 500_000_000 else 0)
    found = find(Memory(broken, row_bytes=30_000_000), budget=1_000_000_000)
    assert (found.predicted, found.confirmed, found.limited_by) == (33, 20, "memory")
    assert (found.stranded_bytes or 0) >= 400_000_000
    assert any("400 MB were reserved and could not be used" in one for one in fill_notes(found))


def test_a_steady_search_has_no_notes() -> None:
    """Nothing is said where nothing happened."""
    assert fill_notes(find(Memory(device(), row_bytes=30_000))) == ()


def scoring(memory: Memory, refuse: Callable[[int], bool], cap: int = 64) -> Capacity:
    def read(contexts, continuations):  # type: ignore[no-untyped-def]
        assert {len(one) for one in contexts} == {12}
        if refuse(len(contexts)):
            raise OutOfMemory("reading")
        for index in range(len(contexts)):
            yield ChoiceLogProbs(index=index, totals=(-1.0,))

    session = Scripted(memory.generate, logprobs=read, kv_width=1)
    work = Workload(prompt_tokens=8, output_tokens=4, max_batch=cap)
    job = Job(workload=work, budget_bytes=10**6, base_bytes=0, seed=1, scoring=True)
    return capacity.find(session, memory.device, job, quiet)


def test_scoring_has_a_ceiling_of_its_own() -> None:
    """Reading runs out at 16 rows, generation at 34: 15 and 33, never one number for both."""
    found = scoring(Memory(device(), row_bytes=30_000), lambda batch: batch >= 16)
    assert found.confirmed == 33
    assert found.scoring is not None
    assert (found.scoring.confirmed, found.scoring.limited_by, found.scoring.prompt_tokens) == (15, "memory", 12)
    assert sum(one.batch_size == 15 and one.outcome == "fits" for one in found.scoring.probes) == 3


def test_scoring_that_does_not_fit_at_all() -> None:
    """Not even one prompt: zero and the reason, and generation keeps its own."""
    found = scoring(Memory(device(), row_bytes=30_000), lambda batch: True)
    assert found.confirmed == 33
    assert found.scoring is not None
    assert (found.scoring.confirmed, found.scoring.why_not) == (0, "not even one whole prompt fits into the budget")


def test_scoring_up_to_the_cap_is_a_lower_limit() -> None:
    """A search that ends at its cap says so."""
    found = scoring(Memory(device(), row_bytes=30_000), lambda batch: False, cap=20)
    assert found.scoring is not None
    assert (found.scoring.confirmed, found.scoring.limited_by, found.scoring.why_not) == (20, "search cap", None)


def test_a_fill_that_never_ends_is_ended() -> None:
    """A fill that takes longer than the whole search may is stopped at a step, and what held before is the result."""
    work = replace(WORK, fill_budget_s=20.0)
    memory = Memory(device(), row_bytes=30_000)

    def crawling(requests):  # type: ignore[no-untyped-def]
        for step in memory.generate(requests):
            memory.device.advance(100.0 if len(requests) == 33 else 0.0)
            yield step

    found = capacity.find(Scripted(crawling), memory.device, Job(workload=work, budget_bytes=10**6, base_bytes=0, seed=1), quiet)
    assert (found.confirmed, found.limited_by) == (None, "time")
    assert found.probes[-1].outcome == "out of time"
    assert found.why_not == "no batch was confirmed within workload.fill_budget (20 s)"
