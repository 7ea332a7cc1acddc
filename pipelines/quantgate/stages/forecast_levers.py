"""What a run would measure of its serving levers, in words, and how long that took before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from quantgate.forecasts import LeverForecast
from quantgate.records import BatchingConfig, BatchingRun, Evidence, SpeculationConfig, SpeculationPass
from quantgate.render.quantities import count, listed


def batching(config: BatchingConfig, earlier: Sequence[Evidence]) -> LeverForecast:
    """``config`` with its requests read or drawn; ``earlier`` are runs of this machine and model."""
    arrivals, engines = listed([one.label for one in config.arrivals]), listed([one.name for one in config.engines])
    what = (
        f"{count(len(config.requests))} requests that come {arrivals}, {count(config.rows)} at a time, of {listed(config.variants)}: "
        f"in static batches, and continuously by {engines}; {_times(config.repeats)}"
    )
    return _forecast("batching", what, (_served_s(config, one.batching) for one in earlier))


def speculation(config: SpeculationConfig, prompts: int, earlier: Sequence[Evidence]) -> LeverForecast:
    """``prompts``: how many the golden set or file gives."""
    drafters = config.drafters
    what = (
        f"{listed([one.name for one in drafters])} draft{'s' if len(drafters) == 1 else ''} {listed(config.draft_tokens)} tokens at batch "
        f"{listed(config.batch_sizes)} for {count(prompts)} prompts of {count(config.output_tokens)} output tokens, beside plain decoding; "
        f"{_times(config.repeats)}"
    )
    return _forecast("speculation", what, (_decoded_s(config, prompts, one) for one in earlier))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{count(number)} times"


def _forecast(lever: str, what: str, seconds: Iterable[float | None]) -> LeverForecast:
    known = [one for one in seconds if one is not None]
    return LeverForecast(lever=lever, what=what, why_not=None, seconds=median(known) if known else None, runs=len(known))


def _served_s(config: BatchingConfig, runs: Sequence[BatchingRun]) -> float | None:
    """Seconds of the runs that serve as many requests in the same ways; None where a way is missing or was not served to its end."""
    lengths = sorted(one.output_tokens for one in config.requests)
    alike = [
        run
        for run in runs
        if run.wall_s is not None and run.rows == config.rows and sorted(one.requested_tokens for one in run.requests) == lengths
    ]
    ways = {(run.variant, run.engine, run.arrivals) for run in alike if run.mode == "continuous"}
    asked = {(name, engine.name, arrivals) for name in config.variants for engine in config.engines for arrivals in config.arrivals}
    return sum(run.wall_s or 0.0 for run in alike) if asked <= ways else None


def _decoded_s(config: SpeculationConfig, prompts: int, evidence: Evidence) -> float | None:
    """Seconds of decoding, prompts and loading not in them; None where a pass is missing."""
    found: list[SpeculationPass] = []
    for drafter in config.drafters:
        run = next((one for one in evidence.speculation if one.drafter == drafter.name and one.prompts == prompts), None)
        found += () if run is None else run.passes
    wanted = len(config.drafters) * len(config.draft_tokens) * len(config.batch_sizes)
    asked = [one for one in found if one.draft_tokens in config.draft_tokens and one.batch_size in config.batch_sizes]
    if len(asked) < wanted:
        return None
    return sum(time.seconds for one in asked for time in (*one.plain, *one.speculative))
