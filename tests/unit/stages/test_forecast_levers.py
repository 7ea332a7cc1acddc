"""What a plan says of the levers, and which earlier runs tell how long they take."""

from __future__ import annotations

from dataclasses import replace

from quantgate import provenance
from quantgate.records import (
    Arrivals,
    AskedRequest,
    BatchingConfig,
    BatchingEngine,
    BatchingRun,
    DecodeTime,
    Drafter,
    Evidence,
    ServedRequest,
    SpeculationConfig,
    SpeculationPass,
    SpeculationRun,
)
from quantgate.stages import forecast_levers

BLANK = Evidence(variants=(), golden_sets=(), fingerprint=provenance.fixed())
BATCHING = BatchingConfig(
    path=None, drawn=None, rows=2, engines=(BatchingEngine(name="one"), BatchingEngine(name="two")), arrivals=(Arrivals(),),
    variants=("float32",), requests=(AskedRequest(output_tokens=3), AskedRequest(output_tokens=5)),
)  # fmt: skip
SPECULATION = SpeculationConfig(
    drafters=(Drafter(kind="prompt_lookup"), Drafter(kind="self", variant="nf4")), draft_tokens=(2, 4), golden_set="faq", repeats=3
)


def served(engine: str, mode: str, wall_s: float | None, tokens: tuple[int, ...] = (5, 3)) -> BatchingRun:
    blank = ServedRequest(request_id="r", prompt_tokens=1, requested_tokens=0, arrived_s=0.0, started_s=0.0, ids=(), token_s=())
    requests = tuple(replace(blank, requested_tokens=one) for one in tokens)
    return BatchingRun(
        variant="float32", engine=engine, mode=mode, arrivals=Arrivals(), rows=2, requests=requests, wall_s=wall_s  # type: ignore[arg-type]
    )


def decoded(drafter: str, prompts: int, *draft_tokens: int) -> SpeculationRun:
    took = DecodeTime(seconds=2.0, tokens=10)
    one = SpeculationPass(
        draft_tokens=2, batch_size=1, steps=1, drafted=1, accepted=0, emitted=1, drafted_at=(1,), accepted_at=(0,), compared=1,
        partings=(), plain=(took,), speculative=(took,),
    )  # fmt: skip
    return SpeculationRun(drafter=drafter, prompts=prompts, passes=tuple(replace(one, draft_tokens=number) for number in draft_tokens))


def test_batching_in_words() -> None:
    """Requests, arrivals, rows, variants, engines and repeats, each as it stands in the config."""
    found = forecast_levers.batching(BATCHING, ())
    assert found.what == (
        "2 requests that come all at once, 2 at a time, of float32: in static batches, and continuously by one and two; 2 times"
    )
    assert (found.lever, found.why_not, found.seconds, found.runs) == ("batching", None, None, 0)


def test_batching_took_as_long_as_all_of_its_runs() -> None:
    """Static and continuous runs together; a run that lacks an engine, has other lengths or was cut tells nothing."""
    whole = (served("own", "static", 4.0), served("one", "continuous", 3.0), served("two", "continuous", 2.0))
    others = whole[:2], (*whole[:2], served("two", "continuous", 2.0, (5, 4))), (*whole[:2], served("two", "continuous", None))
    earlier = [replace(BLANK, batching=one) for one in (whole, *others)]
    found = forecast_levers.batching(BATCHING, earlier)
    assert (found.seconds, found.runs) == (9.0, 1)


def test_speculation_in_words_and_in_seconds() -> None:
    """Every drafter with every number of drafts; a run with other prompts, or without one of the passes, tells nothing."""
    whole = (decoded("prompt_lookup", 16, 2, 4), decoded("self:nf4", 16, 2, 4))
    others = whole[:1], (whole[0], decoded("self:nf4", 16, 2)), (whole[0], decoded("self:nf4", 8, 2, 4))
    found = forecast_levers.speculation(SPECULATION, 16, [replace(BLANK, speculation=one) for one in (whole, *others)])
    assert found.what == (
        "prompt_lookup and self:nf4 draft 2 and 4 tokens at batch 1 for 16 prompts of 48 output tokens, beside plain decoding; 3 times"
    )
    assert (found.seconds, found.runs) == (16.0, 1)
