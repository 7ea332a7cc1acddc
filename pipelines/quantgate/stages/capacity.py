"""The batch ceiling: predicted from arithmetic, then confirmed by real fills.

Two small fills give what the model takes at rest and what one row adds while its prompt is read; the KV cache of a full row is
arithmetic. A row needs the larger of the two, because prefill and decode do not happen at once::

    predicted = floor((budget - fixed) / max(prefill bytes a row, KV bytes a row))

The search starts at the prediction, widens and bisects. The ceiling is the largest batch that fits at full length every time it is tried;
one more must fail, or the search cap or the time limit is reached, which is reported as ``>=`` and not as a maximum. A fill that passes the
budget is ended at the step that passed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from quantgate import kvcache
from quantgate.errors import OutOfMemory
from quantgate.ports import Device, Progress, Session
from quantgate.records import Capacity, LimitedBy, Probe, Workload
from quantgate.stages.measure import fixed_requests

SLOPE_BATCHES = (1, 3)
SLOPE_TOKENS = 2
FIRST_STEP_DIVISOR = 8
LIMIT_S = 900.0

Try = Callable[[int], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """``base_bytes`` are the process's bytes before the model was loaded: the interpreter and its libraries, outside the budget."""

    workload: Workload
    budget_bytes: int
    base_bytes: int
    seed: int


class _Search:
    """The fills of one search, in the order they were made."""

    def __init__(self, session: Session, device: Device, job: Job, progress: Progress) -> None:
        self.session, self.device, self.job, self.progress = session, device, job, progress
        self.probes: list[Probe] = []
        self.started_s = device.now_s()

    def fill(self, batch_size: int, *, purpose: str, output_tokens: int | None = None) -> Probe:
        """One fill. Memory is released outside the handler, so that a failed fill cannot make a smaller one fail."""
        self.progress(len(self.probes), 0, f"filling batch {batch_size}")
        requests = fixed_requests(
            self.session, self.job.workload, batch_size, self.job.seed, output_tokens=output_tokens
        )
        wanted, produced, outcome = requests[0].max_new_tokens * batch_size, 0, "fits"
        with self.device.watch_memory() as watch:
            try:
                for step in self.session.generate(requests):
                    produced += len(step.ids)
                    if self._over():
                        outcome = "over budget"
                        break
            except OutOfMemory:
                outcome = "out of memory"
        peak_bytes = max(0, watch.peak.peak_bytes - self.job.base_bytes)
        self.device.release()
        if outcome == "fits":
            outcome = (
                "over budget" if peak_bytes > self.job.budget_bytes else "fits" if produced >= wanted else "too short"
            )
        probe = Probe(batch_size=batch_size, outcome=outcome, peak_bytes=peak_bytes, purpose=purpose)  # type: ignore[arg-type]
        self.probes.append(probe)
        return probe

    def fits(self, batch_size: int) -> bool:
        return self.fill(batch_size, purpose="probe").outcome == "fits"

    def holds(self, batch_size: int) -> bool:
        """The repeats that confirm a batch that fitted once."""
        repeats = range(self.job.workload.fill_repeats - 1)
        return all(self.fill(batch_size, purpose="confirm").outcome == "fits" for _ in repeats)

    def out_of_time(self) -> bool:
        return self.device.now_s() - self.started_s > LIMIT_S

    def _over(self) -> bool:
        return self.device.live_bytes() - self.job.base_bytes > self.job.budget_bytes


def find(session: Session, device: Device, job: Job, progress: Progress) -> Capacity:
    """The ceiling of the open session at the workload's lengths. ``confirmed`` 0: not even one request fits; None: not known."""
    search = _Search(session, device, job, progress)
    kv_row = kvcache.kv_bytes_per_row(
        session.shape, job.workload.prompt_tokens + job.workload.output_tokens, session.loaded.kv_bytes_per_element
    )
    blank = Capacity(
        prompt_tokens=job.workload.prompt_tokens,
        output_tokens=job.workload.output_tokens,
        budget_bytes=job.budget_bytes,
        fixed_bytes=None,
        prefill_bytes_per_row=None,
        kv_bytes_per_row=kv_row,
        predicted=None,
        confirmed=None,
        limited_by=None,
    )
    small = [search.fill(size, purpose="slope", output_tokens=SLOPE_TOKENS) for size in SLOPE_BATCHES]
    if small[0].outcome in ("over budget", "out of memory"):
        return _finish(blank, search, confirmed=0, limited_by="memory")
    fixed, prefill_row = _line(small)
    row_bytes = max(prefill_row or 0, kv_row)
    predicted = None if fixed is None or not row_bytes else predict(job.budget_bytes, fixed, row_bytes)
    known = replace(blank, fixed_bytes=fixed, prefill_bytes_per_row=prefill_row, predicted=predicted)
    largest_start = job.workload.max_batch if small[1].outcome == "fits" else SLOPE_BATCHES[1] - 1
    start = min(max(1, predicted or 1), job.workload.max_batch, largest_start)
    confirmed, limited_by = largest(search.fits, search.holds, start, job.workload.max_batch, search.out_of_time)
    return _finish(known, search, confirmed=confirmed, limited_by=limited_by)


def predict(budget_bytes: int, fixed_bytes: int, row_bytes: int) -> int:
    """Whole rows that fit beside the fixed part; 0 where not even one does. Raises ``ValueError`` for a row without bytes."""
    if row_bytes <= 0:
        raise ValueError(f"a row takes {row_bytes} bytes; at least 1 is expected")
    return max(0, (budget_bytes - fixed_bytes) // row_bytes)


def largest(
    fits: Try, holds: Try, start: int, cap: int, out_of_time: Callable[[], bool]
) -> tuple[int | None, LimitedBy]:
    """The largest batch in 1..cap that fits and then holds, searched from ``start``; 0 where none does.

    Steps begin at an eighth of ``start``, double until the ceiling lies between two of them, and are halved from there: 6 probes or fewer
    for a ceiling within 10 % of a start of up to 128. Fills may contradict one another: a batch that does not hold is taken as not fitting,
    and the search goes on below it, so that it ends whatever the fills say. Out of time: the largest batch that fitted, if it holds, else
    None.
    """
    low, high, step, batch = 0, cap + 1, max(1, start // FIRST_STEP_DIVISOR), start
    fitted: set[int] = set()
    while not out_of_time():
        if fits(batch):
            fitted.add(batch)
            low = batch
        else:
            high = batch
        while high - low == 1:
            if low == 0 or holds(low):
                return low, "search cap" if high > cap else "memory"
            high, low, step = low, max((one for one in fitted if one < low), default=0), 1
        if high > cap:
            batch, step = min(low + step, cap), step * 2
        elif low == 0:
            batch, step = max(1, high - step), step * 2
        else:
            batch = (low + high) // 2
    return next((one for one in sorted(fitted, reverse=True) if one < high and holds(one)), None), "time"


def _line(small: list[Probe]) -> tuple[int | None, int | None]:
    """Intercept and slope of the peak over the rows, in bytes; None where a small fill gave no figure."""
    first, second = small
    if first.peak_bytes is None or second.peak_bytes is None or second.outcome != "fits":
        return first.peak_bytes, None
    slope = max(0, second.peak_bytes - first.peak_bytes) // (second.batch_size - first.batch_size)
    return max(0, first.peak_bytes - slope * first.batch_size), slope


def _finish(known: Capacity, search: _Search, *, confirmed: int | None, limited_by: LimitedBy) -> Capacity:
    """The result in words that are true: a fill that ended early says nothing about memory, and a search cut short nothing about zero."""
    outcomes = {
        probe.batch_size: probe.outcome
        for probe in search.probes
        if probe.outcome != "fits" and probe.purpose != "slope"
    }
    why_not = None
    if confirmed is None:
        why_not = f"no batch was confirmed in {LIMIT_S / 60:g} minutes"
    elif outcomes.get(confirmed + 1) == "too short" and limited_by == "memory":
        limited_by = "engine"
    if confirmed == 0:
        short = limited_by == "engine"
        why_not = (
            "the engine ended a single request before its full length"
            if short
            else "not even one request fits into the budget"
        )
        confirmed = None if short else 0
    return replace(
        known,
        confirmed=confirmed,
        limited_by=limited_by,
        probes=tuple(search.probes),
        why_not=why_not,
        seconds=search.device.now_s() - search.started_s,
    )
