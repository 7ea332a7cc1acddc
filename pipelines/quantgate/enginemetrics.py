"""vLLM's ``/metrics`` -> symptoms. Knows the names of old and of new versions; refuses to fill in what a scrape does not hold.

Gauges (running, waiting, the KV pool's share) are of the moment of the scrape. Counters and histograms run since the server
was started: two scrapes of the same server, under load and some time apart, tell what happened in between, one scrape
only what happened at any time. Several engines of one model are added up, and the fullest pool counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from quantgate import prometheus
from quantgate.errors import UsageError
from quantgate.symptoms import Symptoms

RUNNING, WAITING, SWAPPED = "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:num_requests_swapped"
POOL = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
"""Newer name first. Shares of one, whatever the name says."""
PREEMPTIONS = ("vllm:num_preemptions_total", "vllm:num_preemptions")
STEP = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
"""Time between two tokens of a request, which without drafted tokens is a decode step; the older name second."""
DRAFTS = ("vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_drafts")
DRAFTED = ("vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_draft_tokens")
ACCEPTED = ("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens")
EMITTED = ("vllm:spec_decode_num_emitted_tokens_total", "vllm:spec_decode_num_emitted_tokens")
"""Of older versions, which count no drafts: a draft emits what it accepts and one token more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scrape:
    """One ``/metrics`` text, and the name of its file for messages."""

    file: str
    samples: tuple[prometheus.Sample, ...]

    def of(self, *names: str) -> tuple[float, ...] | None:
        """The values of the first of these names that is there, an engine each; None where none is. Raises ``UsageError`` for NaN."""
        for name in names:
            found = [one for one in self.samples if one.name == name]
            for one in found:
                if not isfinite(one.value) or one.value < 0:
                    raise UsageError(f"{self.file}:{one.line}: {name}: found {one.value}, expected a number, 0 or more; scrape it again")
            if found:
                return tuple(one.value for one in found)
        return None

    def total(self, *names: str) -> float | None:
        """Their sum over engines."""
        found = self.of(*names)
        return None if found is None else sum(found)


def scrape(text: str, file: str, model: str | None = None) -> Scrape:
    """Read one scrape. ``model``: where a server has several, the one meant. Raises ``UsageError`` with file and line."""
    try:
        found = tuple(one for one in prometheus.samples(text) if one.name.startswith("vllm:"))
    except prometheus.Malformed as error:
        raise UsageError(f"{file}:{error.line}: {error.what}") from error
    if not any(one.name in (RUNNING, WAITING, *POOL) for one in found):
        raise UsageError(f"{file}: there are no metrics of vLLM in it ({RUNNING} and others); scrape the server's /metrics")
    names = sorted({one.labels["model_name"] for one in found if "model_name" in one.labels})
    if model is not None and model not in names:
        raise UsageError(f"{file}: there is no model '{model}' in it; there are {', '.join(names) or 'none with a name'}")
    if model is None and len(names) > 1:
        raise UsageError(f"{file}: it holds {len(names)} models: {', '.join(names)}; name one with --model")
    chosen = tuple(one for one in found if model is None or one.labels.get("model_name", model) == model)
    return Scrape(file=file, samples=chosen)


def symptoms_of(scrapes: Sequence[Scrape]) -> tuple[Symptoms, tuple[str, ...]]:
    """What one scrape says, or two of the same server, the earlier first; and a sentence for each thing that a reader must know of it."""
    if not 1 <= len(scrapes) <= 2:
        raise UsageError(f"metrics: found {len(scrapes)} scrapes, expected one, or an earlier and a later one of the same server")
    now, before = scrapes[-1], scrapes[0] if len(scrapes) == 2 else None
    running, swapped = _whole(now, RUNNING), _whole(now, SWAPPED)
    waiting = _whole(now, WAITING)
    drafts, drafted, accepted = _drafted(now, before)
    pool = now.of(*POOL)
    if pool is not None and max(pool) > 1:
        raise UsageError(f"{now.file}: {POOL[0]} or {POOL[1]}: found {max(pool)}, expected a share of one, 0 to 1")
    preemptions = _since(now, before, *PREEMPTIONS)
    seen = Symptoms(
        batch=running or None,
        waiting_requests=None if waiting is None else waiting + (swapped or 0),
        streams=None if running is None or waiting is None else running + waiting + (swapped or 0) or None,
        kv_pool_used_share=None if pool is None else max(pool),
        preemptions=None if preemptions is None else round(preemptions),
        step_s=None if drafted else _mean(now, before),
        drafts=drafts or None,
        drafted_tokens=drafted or None,
        accepted_tokens=accepted if drafted else None,
    )
    return seen, tuple(_notes(now, before, running, pool))


def _notes(now: Scrape, before: Scrape | None, running: int | None, pool: tuple[float, ...] | None) -> Iterator[str]:
    if before is None:
        yield "one scrape: preemptions, step time and drafted tokens are since the server was started; give two, under load"
    if running == 0:
        yield "nothing was running when the metrics were scraped: scrape them under load"
    if pool is not None and len(pool) > 1:
        yield f"{len(pool)} engines: running, waiting and counters are added up, and the fullest KV pool counts"
    if now.total(*DRAFTED):
        yield "tokens are drafted, so the time between tokens is not that of a step and was left out"


def _whole(found: Scrape, name: str) -> int | None:
    total = found.total(name)
    return None if total is None else round(total)


def _since(now: Scrape, before: Scrape | None, *names: str) -> float | None:
    """A counter, or what it grew by. Raises ``UsageError`` where it fell."""
    then = 0.0 if before is None else before.total(*names)
    found = now.total(*names)
    if found is None or then is None:
        return None
    if found < then:
        file = "" if before is None else before.file
        what = f"{names[0]} is {found:g}, less than the {then:g} of {file}"
        raise UsageError(f"{now.file}: {what}: give the earlier scrape first, and both of one life of the server")
    return found - then


def _mean(now: Scrape, before: Scrape | None) -> float | None:
    """Mean time between tokens; None where none was made."""
    for name in STEP:
        total_s, count = _since(now, before, f"{name}_sum"), _since(now, before, f"{name}_count")
        if total_s and count:
            return total_s / count
    return None


def _drafted(now: Scrape, before: Scrape | None) -> tuple[int | None, int | None, int | None]:
    """Verifying steps, drafted tokens and accepted ones."""
    drafted, accepted = _since(now, before, *DRAFTED), _since(now, before, *ACCEPTED)
    drafts, emitted = _since(now, before, *DRAFTS), _since(now, before, *EMITTED)
    if drafts is None and emitted is not None and accepted is not None:
        drafts = max(0.0, emitted - accepted)
    found = (None if one is None else round(one) for one in (drafts, drafted, accepted))
    return next(found), next(found), next(found)
