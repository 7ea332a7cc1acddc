"""The batch ceiling: predicted from arithmetic, then confirmed by real fills.

Small fills of a few rows and two tokens give what the model takes at rest, what one row adds while its prompt is read, and what it adds
in the last decode step, when its cache is full: the KV cache, which is arithmetic, and the step's own activations, which are not. A row
needs the larger of the two, because prefill and decode do not happen at once::

    predicted = floor((budget - fixed) / max(prefill bytes a row, decode bytes a row))

One and three rows give a first prediction. Their few MiB of difference hold what the first calls leave behind as well, so that a row of
SmolLM2-135M came out as 9 MB and was 7; where many rows are predicted, a third small fill of a quarter of them is made, and the line goes
through it.

The search starts at the prediction, widens and bisects. The ceiling is the largest batch that fits at full length every time it is tried;
one more must fail, or the search cap or the workload's budget of time is reached, which is reported as ``>=`` and not as a maximum. A fill
that passes the budget of memory is ended at the step that passed it, and one that takes longer than the whole search may, where it stands.

Reading prompts for log-likelihoods has a ceiling of its own: what runs out of memory in one says nothing about the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from quantgate import kvcache
from quantgate.errors import OutOfMemory
from quantgate.ports import Device, MemoryWatch, Progress, Session
from quantgate.records import Capacity, FillOutcome, FillPurpose, LimitedBy, Probe, ScoringCeiling, Step, Workload
from quantgate.stages.measure import fixed_requests

SLOPE_BATCHES = (1, 3)
SLOPE_TOKENS = 2
MIDDLE_ROWS, MIDDLE_DIVISOR = 8, 4
"""A third small fill is of a quarter of the rows first predicted, and of at least eight."""
FIRST_STEP_DIVISOR = 8

Try = Callable[[int], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """``base_bytes`` are the process's bytes before the model was loaded: the interpreter and its libraries, outside the budget."""

    workload: Workload
    budget_bytes: int
    base_bytes: int
    seed: int
    scoring: bool = False
    """Find the ceiling of scoring too."""


class _OutOfTime(Exception):
    """A fill that ran on past the time limit; what fitted before it is kept."""


class _Search:
    """The fills of one search, in the order they were made."""

    def __init__(self, session: Session, device: Device, job: Job, progress: Progress) -> None:
        self.session, self.device, self.job, self.progress = session, device, job, progress
        self.probes: list[Probe] = []
        self.limit_s, self.started_s = job.workload.fill_budget_s, device.now_s()

    def fill(self, batch_size: int, *, purpose: FillPurpose) -> Probe:
        """One fill at full length. Memory is released outside the handler, so that a failed fill cannot make a smaller one fail."""
        self.progress(len(self.probes), 0, f"filling batch {batch_size}")
        requests = fixed_requests(self.session, self.job.workload, batch_size, self.job.seed)
        wanted = requests[0].max_new_tokens * batch_size
        with self.device.watch_memory() as watch:
            outcome, produced = self._run(self.session.generate(requests))
        self.device.release()
        if outcome == "fits" and self._above_base(watch) > self.job.budget_bytes:
            outcome = "over budget"
        elif outcome == "fits" and produced < wanted:
            outcome = "too short"
        return self._note(batch_size, outcome, watch, purpose)

    def read(self, batch_size: int, *, purpose: FillPurpose) -> Probe:
        """Read whole prompts for their log-likelihoods, without a decode step."""
        self.progress(len(self.probes), 0, f"reading batch {batch_size}")
        tokens = whole_prompt_tokens(self.job.workload)
        workload = replace(self.job.workload, prompt_tokens=tokens)
        contexts = [one.tokens for one in fixed_requests(self.session, workload, batch_size, self.job.seed)]
        outcome: FillOutcome = "fits"
        with self.device.watch_memory() as watch:
            try:
                answered = sum(1 for _ in self.session.logprobs(contexts, [[tokens[:1]] for tokens in contexts]))
            except OutOfMemory:
                outcome, answered = "out of memory", batch_size
        self.device.release()
        if outcome == "fits" and self._above_base(watch) > self.job.budget_bytes:
            outcome = "over budget"
        elif answered < batch_size:
            outcome = "too short"
        return self._note(batch_size, outcome, watch, purpose)

    def small(self, batch_size: int, purpose: Literal["prefill", "decode"]) -> Probe:
        """The peak of reading the prompts, or of the last decode step at full length: two tokens, watched apart."""
        self.progress(len(self.probes), 0, f"a small fill of batch {batch_size}")
        workload, tokens = self.job.workload, min(SLOPE_TOKENS, self.job.workload.output_tokens)
        if purpose == "decode":
            workload = replace(workload, prompt_tokens=workload.prompt_tokens + workload.output_tokens - tokens)
        steps = self.session.generate(fixed_requests(self.session, workload, batch_size, self.job.seed, output_tokens=tokens))
        with self.device.watch_memory() as prefill:
            outcome, _ = self._run(islice(steps, 1))
        with self.device.watch_memory() as decode:
            if outcome == "fits":
                outcome, _ = self._run(steps)
        del steps
        self.device.release()
        return self._note(batch_size, outcome, prefill if purpose == "prefill" else decode, purpose)

    def _run(self, steps: Iterator[Step]) -> tuple[FillOutcome, int]:
        """Run the steps up to the one that passes the budget, and count the tokens."""
        produced, started_s = 0, self.device.now_s()
        try:
            for step in steps:
                produced += len(step.ids)
                if self.device.live_bytes() - self.job.base_bytes > self.job.budget_bytes:
                    return "over budget", produced
                if self.device.now_s() - started_s > self.limit_s:
                    return "out of time", produced
        except OutOfMemory:
            return "out of memory", produced
        return "fits", produced

    def _above_base(self, watch: MemoryWatch) -> int:
        return max(0, watch.peak.peak_bytes - self.job.base_bytes)

    def _note(self, batch_size: int, outcome: FillOutcome, watch: MemoryWatch, purpose: FillPurpose) -> Probe:
        reserved = watch.peak.reserved_bytes
        probe = Probe(
            batch_size=batch_size, outcome=outcome, peak_bytes=self._above_base(watch), purpose=purpose,
            reserved_bytes=None if reserved is None else max(0, reserved - self.job.base_bytes),
        )  # fmt: skip
        self.probes.append(probe)
        return probe

    def largest(self, attempt: Callable[..., Probe], start: int) -> tuple[int | None, LimitedBy]:
        """``largest`` over one kind of fill. Out of time inside a fill: what has held by then."""

        def tried(batch_size: int, purpose: FillPurpose) -> bool:
            outcome = attempt(batch_size, purpose=purpose).outcome
            if outcome == "out of time":
                raise _OutOfTime
            return outcome == "fits"

        def holds(batch_size: int) -> bool:
            return all(tried(batch_size, "confirm") for _ in range(self.job.workload.fill_repeats - 1))

        cap = self.job.workload.max_batch
        try:
            return largest(lambda batch: tried(batch, "probe"), holds, min(start, cap), cap, self.out_of_time)
        except _OutOfTime:
            return self._held(), "time"

    def _held(self) -> int | None:
        """The largest batch that has fitted as often as is asked for, and never failed."""
        full = [one for one in self.probes if one.purpose in ("probe", "confirm")]
        failed = {one.batch_size for one in full if one.outcome not in ("fits", "out of time")}
        fitted = Counter(one.batch_size for one in full if one.outcome == "fits")
        return max((one for one, times in fitted.items() if times >= self.job.workload.fill_repeats and one not in failed), default=None)

    def out_of_time(self) -> bool:
        return self.device.now_s() - self.started_s > self.limit_s


def find(session: Session, device: Device, job: Job, progress: Progress) -> Capacity:
    """The ceiling of the open session at the workload's lengths. ``confirmed`` 0: not even one request fits; None: not known."""
    found = _generation(_Search(session, device, job, progress))
    if not job.scoring:
        return found
    return replace(found, scoring=_scoring(_Search(session, device, job, progress)))


def whole_prompt_tokens(workload: Workload) -> int:
    """Tokens of a prompt that is scored: as long as a request of the workload becomes."""
    return workload.prompt_tokens + workload.output_tokens


def _scoring(search: _Search) -> ScoringCeiling:
    """Searched from small readings: a prompt that is scored takes less than one that is filled, as its logits go in pieces."""
    workload = search.job.workload
    small = [search.read(size, purpose="prefill") for size in SLOPE_BATCHES]
    predicted = _of_line(search.job.budget_bytes, _line(small))
    if (rows := _middle(predicted, workload.max_batch)) is not None:
        small = _replaced(small, search.read(rows, purpose="prefill"))
        predicted = _of_line(search.job.budget_bytes, _line(small))
    start = workload.max_batch if small[1].outcome == "fits" else 1
    start = start if predicted is None else max(1, predicted)
    confirmed, limited_by = search.largest(search.read, start)
    return ScoringCeiling(
        prompt_tokens=whole_prompt_tokens(workload),
        confirmed=confirmed,
        limited_by=limited_by,
        probes=tuple(search.probes),
        why_not={None: _not_confirmed(workload), 0: "not even one whole prompt fits into the budget"}.get(confirmed),
    )


def _generation(search: _Search) -> Capacity:
    session, job = search.session, search.job
    kv_row = cache_bytes_per_row(session, job.workload.prompt_tokens, job.workload.output_tokens)
    blank = Capacity(
        prompt_tokens=job.workload.prompt_tokens,
        output_tokens=job.workload.output_tokens,
        budget_bytes=job.budget_bytes,
        fixed_bytes=None,
        prefill_bytes_per_row=None,
        decode_bytes_per_row=None,
        kv_bytes_per_row=kv_row,
        predicted=None,
        confirmed=None,
        limited_by=None,
    )
    prefill = [search.small(size, "prefill") for size in SLOPE_BATCHES]
    if prefill[0].outcome == "out of time":
        return _finish(blank, search, confirmed=None, limited_by="time")
    if prefill[0].outcome != "fits":
        return _finish(blank, search, confirmed=0, limited_by="memory")
    decode = [search.small(size, "decode") for size in SLOPE_BATCHES] if prefill[1].outcome == "fits" else []
    later = _written_later(session, job.workload)
    known = _predicted(blank, prefill, decode, later)
    if decode and (rows := _middle(known.predicted, job.workload.max_batch)) is not None:
        prefill, decode = _replaced(prefill, search.small(rows, "prefill")), _replaced(decode, search.small(rows, "decode"))
        known = _predicted(blank, prefill, decode, later)
    largest_start = job.workload.max_batch if prefill[1].outcome == "fits" else SLOPE_BATCHES[1] - 1
    start = min(max(1, known.predicted or 1), job.workload.max_batch, largest_start)
    confirmed, limited_by = search.largest(search.fill, start)
    return _finish(known, search, confirmed=confirmed, limited_by=limited_by)


def _not_confirmed(workload: Workload) -> str:
    return f"no batch was confirmed within workload.fill_budget ({workload.fill_budget_s:g} s)"


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


def cache_bytes_per_row(session: Session, prompt_tokens: int, output_tokens: int) -> int:
    """Arithmetic, in the way in which the session keeps its cache."""
    loaded = session.loaded
    return kvcache.row_bytes(session.shape, prompt_tokens, output_tokens, loaded.kv_bytes_per_element, loaded.kv_cache)


def _written_later(session: Session, workload: Workload) -> int:
    """What a row's cache takes more than in the small fill of the last step, which reads nearly all of it as a prompt.

    Nothing for a cache in float; where prompts go into fewer bits at once, what is written lately is still in float.
    """
    tokens = min(SLOPE_TOKENS, workload.output_tokens)
    whole = cache_bytes_per_row(session, workload.prompt_tokens, workload.output_tokens)
    return max(0, whole - cache_bytes_per_row(session, workload.prompt_tokens + workload.output_tokens - tokens, tokens))


def _predicted(blank: Capacity, prefill: list[Probe], decode: list[Probe], written_later: int) -> Capacity:
    """What the small fills say of the fixed part and of a row. Where only arithmetic is to be had, a row is its KV cache."""
    fixed, prefill_row = _line(prefill)
    decode_fixed, decode_row = _line(decode) if len(decode) == len(SLOPE_BATCHES) else (None, None)
    decode_row = None if decode_row is None else decode_row + written_later
    last_step = max(decode_row or 0, blank.kv_bytes_per_row or 0)
    lines = [(fixed, prefill_row), (fixed if decode_row is None else decode_fixed, last_step)]
    ceilings = [_of_line(blank.budget_bytes or 0, line) for line in lines]
    return replace(
        blank,
        fixed_bytes=fixed,
        prefill_bytes_per_row=prefill_row,
        decode_bytes_per_row=decode_row,
        predicted=min((one for one in ceilings if one is not None), default=None),
    )


def _of_line(budget_bytes: int, line: tuple[int | None, int | None]) -> int | None:
    """None where the fixed part or a row is not known, or a row adds nothing."""
    fixed, row = line
    return predict(budget_bytes, fixed, row) if fixed is not None and row else None


def _middle(predicted: int | None, cap: int) -> int | None:
    """Rows of a third small fill; None where few rows are predicted, or so many that the cap and not the prediction matters."""
    if predicted is None or not 2 * SLOPE_BATCHES[1] <= predicted <= 2 * cap:
        return None
    return min(predicted, cap, max(MIDDLE_ROWS, predicted // MIDDLE_DIVISOR))


def _replaced(small: list[Probe], third: Probe) -> list[Probe]:
    """The two that are furthest from the first calls, if the third fits: the line is drawn through them."""
    return [*small[1:], third] if third.outcome == "fits" and len(small) == len(SLOPE_BATCHES) else small


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
        if probe.outcome != "fits" and probe.purpose in ("probe", "confirm")
    }
    why_not = None
    if confirmed is None:
        why_not = _not_confirmed(search.job.workload)
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
