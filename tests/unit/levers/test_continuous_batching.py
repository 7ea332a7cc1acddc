"""Continuous batching of transformers on a tiny model: the lengths asked for, and the ids that each request has alone."""

from __future__ import annotations

import pytest

import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine
from quantgate.errors import EngineError
from quantgate.levers.continuous_batching import TransformersBatcher
from quantgate.records import Artifact, DeviceConfig, EngineSettings, Request, ServingSettings
from quantgate.stages import batching
from sessions import quiet
from streams import job

LENGTHS = (2, 9, 4, 6, 3)
ROWS = 2


def _requests() -> tuple[Request, ...]:
    """Prompts of different lengths, outputs too."""
    return tuple(
        Request(request_id=f"r{n}", tokens=tuple(range(20 + n, 26 + 2 * n)), max_new_tokens=length, min_new_tokens=length)
        for n, length in enumerate(LENGTHS)
    )


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A random Llama."""
    return tiny.artifact(tiny.llama(tmp_path_factory.mktemp("model")))


def test_requests_are_served_whole_and_as_they_are_alone(artifact: Artifact) -> None:
    """Five requests through two rows: exact lengths, the ids of each as alone, and no more steps than in static batches."""
    cpu, asked = CpuDevice(DeviceConfig(threads=1)), {"rows": ROWS, "requests": _requests()}
    with TransformersEngine().open(artifact, EngineSettings(threads=1), cpu) as session:
        alone = batching.in_batches(session, cpu, job(LENGTHS, mode="alone", **{**asked, "rows": 1}), quiet)
        static = batching.in_batches(session, cpu, job(LENGTHS, **asked), quiet)
        settings = batching.settings_of(session, _requests(), ROWS, DeviceConfig(threads=1))
        assert settings.suppressed_ids == (tiny.EOS_ID,)
        with TransformersBatcher().open(artifact, settings, cpu) as stream:
            run = batching.served(stream, cpu, job(LENGTHS, mode="continuous", **asked), quiet)
            again = batching.served(stream, cpu, job(LENGTHS, mode="continuous", repeat=1, **asked), quiet)
        found = [batching.compared(session, _requests(), alone, one) for one in (static, run, again)]
    assert all(one.whole and one.compared and not one.differences for one in found)
    assert [one.produced_tokens for one in run.requests] == list(LENGTHS)
    assert run.steps == again.steps
    assert run.steps is not None
    assert static.steps is not None
    assert sum(LENGTHS) / ROWS <= run.steps <= static.steps
    assert run.dtype == "float32"
    assert (run.preemptions, run.library.split()[0]) == (None, "transformers")
    assert all(list(one.token_s) == sorted(one.token_s) for one in run.requests)


def test_what_fails_inside_its_thread_is_an_error_here(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager runs in a thread of its own; nobody waits for ever for one that ended."""
    settings = ServingSettings(rows=1, context_tokens=8, prompt_tokens=4, threads=1)
    with TransformersBatcher().open(artifact, settings, CpuDevice(DeviceConfig(threads=1))) as stream:

        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("no such kernel")

        monkeypatch.setattr(stream._manager.model, "forward", broken)
        stream.submit(Request(request_id="r1", tokens=(5, 6), max_new_tokens=2, min_new_tokens=2))
        with pytest.raises(EngineError, match="continuous batching of transformers"):
            stream.step()
