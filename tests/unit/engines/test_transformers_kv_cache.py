"""A cache in fewer bits: what it stores, that rows and padding do not matter to it, and that every figure has gone through it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch

import saved_families
import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines import transformers_kv_cache as kv_cache
from quantgate.engines.transformers import TransformersEngine, TransformersSession
from quantgate.errors import EngineError
from quantgate.kvcache import quantized_bytes, row_bytes
from quantgate.records import DeviceConfig, EngineSettings, KVCache, LayerShape, ModelShape, Request

DEVICE = CpuDevice(DeviceConfig(threads=1))
CONTEXTS = [tuple(range(5, 25)), tuple(range(7, 40)), (9,), tuple(range(50, 53))]
CONTINUATIONS = [[(4,), (5, 6)], [(4, 5, 6, 7, 8), (9,)], [(3,), (5, 6, 7)], [tuple(7 * at % 290 + 3 for at in range(150))]]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int | None, TransformersSession]]:
    """One model with its cache in float, scored through it as well, and in 8, 4 and 2 bits."""
    folder = tiny.llama(tmp_path_factory.mktemp("model"))
    with ExitStack() as stack:
        yield {bits: opened(stack, folder, bits) for bits in (None, 8, 4, 2)}


def opened(stack: ExitStack, folder: Path, bits: int | None) -> TransformersSession:
    asked = None if bits is None else KVCache(bits=bits)
    settings = EngineSettings(threads=1, dtype="float32", kv_cache=asked, cached_scoring=True)
    return stack.enter_context(TransformersEngine().open(tiny.artifact(folder), settings, DEVICE))


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_values_come_back_within_half_a_step(bits: int) -> None:
    """Each group's range is cut into even steps; its smallest and largest value are exact, and a flat group is itself."""
    values = torch.randn(2, 3, 5, 32, generator=torch.Generator().manual_seed(0))
    values[0, 0, 0] = 0.25
    block = kv_cache.packed(values, bits, 16)
    found = kv_cache.unpacked(block, bits)
    assert block[0].shape == (2, 3, 5, 2, 16 * bits // 8)
    parts, back = values.unflatten(-1, (-1, 16)), found.unflatten(-1, (-1, 16))
    step = (parts.amax(-1) - parts.amin(-1)) / (2**bits - 1)
    assert ((parts - back).abs().amax(-1) <= step / 2 + 1e-6).all()
    assert torch.equal(parts.amin(-1), back.amin(-1))
    assert torch.equal(found[0, 0, 0], values[0, 0, 0])
    again = kv_cache.packed(found, bits, 16)
    assert torch.equal(again[0], block[0])


def test_measured_bytes_are_those_of_arithmetic(sessions: dict[int | None, TransformersSession]) -> None:
    """Distinct storages of the filled cache: codes, a scale and an offset for each group, and one token in float."""
    for bits in (8, 4, 2):
        found = sessions[bits].loaded.kv_bytes
        assert found is not None
        # 2 layers x 2 KV heads x (16 + 16): 4 groups of 16 codes with 8 bytes beside them, or 128 floats.
        assert found.arithmetic_bytes == 32 * 8 * (16 * bits // 8 + 8) + 1 * 8 * 16 * 4
        assert found.measured_bytes == found.arithmetic_bytes
        assert found.float_bytes == 33 * 512
    assert sessions[None].loaded.kv_bytes is None


def test_fewer_bits_move_every_figure_further(sessions: dict[int | None, TransformersSession]) -> None:
    """Log-likelihoods, logits after prompts and along a text have all gone through the cache; what has nothing before it is exact."""

    def figures(session: TransformersSession) -> tuple[list[float], np.ndarray, np.ndarray]:
        totals = [total for one in session.logprobs(CONTEXTS, CONTINUATIONS) for total in one.totals]
        after = next(iter(session.distributions(CONTEXTS)))
        along = np.concatenate(list(session.distributions([CONTINUATIONS[3][0]], every_position=True)))
        return [total or 0.0 for total in totals], after, along

    exact = figures(sessions[None])
    moved = {
        bits: [np.abs(np.array(one) - np.array(other)) for one, other in zip(figures(sessions[bits]), exact, strict=True)]
        for bits in (8, 4, 2)
    }
    alone = 4  # the first choice behind a context of one token: no cache holds anything for it
    for bits in (8, 4, 2):
        totals, after, along = moved[bits]
        assert totals[alone] < 1e-5
        assert (np.delete(totals, alone) > 1e-5).all()
        assert after[2].max() < 1e-5
        assert (np.delete(after, 2, axis=0).max(axis=1) > 1e-5).all()
        assert along[0].max() < 1e-5
        assert (along[1:].max(axis=1) > 1e-5).all()
    for part in range(3):
        assert moved[8][part].mean() < moved[4][part].mean() < moved[2][part].mean()


def test_a_row_does_not_depend_on_the_rows_beside_it(sessions: dict[int | None, TransformersSession]) -> None:
    """A token's block is made of that token alone, so batches and padding change nothing beyond rounding."""
    session = sessions[4]
    together = [one.totals for one in session.logprobs(CONTEXTS, CONTINUATIONS)]
    alone = [next(iter(session.logprobs([one], [two]))).totals for one, two in zip(CONTEXTS, CONTINUATIONS, strict=True)]
    for one, two in zip(together, alone, strict=True):
        assert one == pytest.approx(two, abs=1e-4)


def test_scoring_sees_the_cache_that_generation_sees(sessions: dict[int | None, TransformersSession]) -> None:
    """What greedy decoding writes past the window of floats is what scoring in stretches says of it, token by token."""
    session, context = sessions[4], tuple(range(5, 25))
    steps = session.generate([Request(request_id="r", tokens=context, max_new_tokens=140, min_new_tokens=140)])
    written = tuple(step.ids["r"] for step in steps)
    # The context's last token is read behind the others when scored; the same is done here, a token at a time.
    with torch.inference_mode():
        run = session._run
        cache = run.new_cache()
        ids, mask, positions = run.padded([context[:-1]])
        run.last(ids, mask, positions, cache)
        total, tokens = 0.0, (*context[-1:], *written)
        for at, token in enumerate(tokens[:-1]):
            mask = torch.cat([mask, mask.new_ones(1, 1)], dim=1)
            place = torch.tensor([[len(context) - 1 + at]])
            logits = run.last(torch.tensor([[token]]), mask, place, cache)
            total += float(logits[0].log_softmax(-1)[tokens[at + 1]])
    assert next(iter(session.logprobs([context], [[written]]))).totals[0] == pytest.approx(total, abs=2e-3)


def test_rows_that_end_leave_the_blocks(sessions: dict[int | None, TransformersSession]) -> None:
    """A batch whose rows end apart writes what each row writes alone."""
    session = sessions[8]
    lengths = [3 + 4 * at for at in range(len(CONTEXTS))]
    requests = [
        Request(request_id=str(length), tokens=one, max_new_tokens=length, min_new_tokens=length)
        for length, one in zip(lengths, CONTEXTS, strict=True)
    ]

    def written(batch: list[Request]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {one.request_id: [] for one in batch}
        for step in session.generate(batch):
            for name, token in step.ids.items():
                found[name].append(token)
        return found

    together = written(requests)
    assert together == {name: ids for one in requests for name, ids in written([one]).items()}


def test_what_a_request_holds_at_most() -> None:
    """With 128 tokens in float before they go into blocks, the moment before that takes more than the end soon after."""
    shape, kv = wide(), KVCache(bits=4)
    at_127, at_130 = (quantized_bytes(shape, (10, written), 4, kv) for written in (127, 130))
    assert at_127 > at_130
    assert row_bytes(shape, 10, 130, 4, kv) == at_127
    assert row_bytes(shape, 10, 100, 4, kv) == quantized_bytes(shape, (10, 100), 4, kv)


def wide() -> ModelShape:
    return ModelShape(layers=(LayerShape(kind="full", kv_heads=2, key_width=64, value_width=64),), hidden=8, vocabulary=9, tied=True)


def test_layers_that_blocks_do_not_reach_are_refused(tmp_path: Path) -> None:
    """A window is refused by its kind before anything is loaded, and a cache in fewer bits gives no draft back."""
    with ExitStack() as stack:
        with pytest.raises(EngineError, match="full attention in every layer; this model has layers of kind window"):
            opened(stack, saved_families.build("mistral", tmp_path / "mistral"), 4)
        with pytest.raises(EngineError, match="kept in fewer bits"):
            opened(stack, tiny.llama(tmp_path / "llama"), 4).follow([(5, 6)])
