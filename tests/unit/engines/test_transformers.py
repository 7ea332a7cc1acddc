"""The transformers engine on tiny random models: ids, scores, facts, errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import tiny
from quantgate.devices.cpu import CpuDevice
from quantgate.engines.transformers import TransformersEngine, TransformersSession
from quantgate.engines.transformers_tokenizer import TransformersTokenizer
from quantgate.errors import ConfigError, EngineError, MissingModel, NumericallyInvalid, OutOfMemory
from quantgate.records import DeviceConfig, EngineSettings, GoldenItem, Request

PROMPTS = [(5, 6, 7), (9, 10, 11, 12, 13, 14, 15), (40,), (77, 3, 200, 31)]
SETTINGS = EngineSettings(threads=1)


def opened(folder: Path, **fields: Any) -> Any:
    return TransformersEngine().open(tiny.artifact(folder, **fields), SETTINGS, CpuDevice(DeviceConfig(threads=1)))


@pytest.fixture(scope="module", params=["gqa", "mha", "gpt2"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransformersSession]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "gpt2":
        tiny.gpt2(folder)
    else:
        tiny.llama(folder, kv_heads=2 if request.param == "gqa" else 4)
    with opened(folder) as found:
        yield found


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransformersSession]:
    with opened(tiny.llama(tmp_path_factory.mktemp("llama"))) as found:
        yield found


def request(tokens: tuple[int, ...], name: str = "a", **fields: Any) -> Request:
    return Request(request_id=name, tokens=tokens, **{"max_new_tokens": 8, **fields})


def generated(session: TransformersSession, requests: list[Request]) -> dict[str, list[int]]:
    ids: dict[str, list[int]] = {each.request_id: [] for each in requests}
    for step in session.generate(requests):
        for name, token in step.ids.items():
            ids[name].append(token)
    return ids


def model_of(session: TransformersSession) -> Any:
    return session._run.model


# ---------------------------------------------------------------------------------------------- generation


def test_b47_greedy_ids_do_not_depend_on_the_batch(session: TransformersSession) -> None:
    """B47, B49: in float32 a left-padded batch without a pad token gives each row the ids it gets alone."""
    requests = [request(tokens, str(index)) for index, tokens in enumerate(PROMPTS)]
    before = model_of(session).get_input_embeddings().num_embeddings
    together = generated(session, requests)
    assert together == {each.request_id: generated(session, [each])[each.request_id] for each in requests}
    assert model_of(session).get_input_embeddings().num_embeddings == before == tiny.VOCABULARY


def test_generation_equals_the_librarys(session: TransformersSession) -> None:
    """The own decode loop gives the ids of ``model.generate``."""
    tokens = PROMPTS[1]
    model = model_of(session)
    ids = torch.tensor([tokens])
    expected = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, pad_token_id=0
    )
    assert generated(session, [request(tokens)])["a"] == expected[0, len(tokens) :].tolist()


def test_fixed_length_suppresses_every_eos(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With min_new == max_new the row has exactly that length, even where its first choice ends the sequence."""
    first = generated(llama, [request(PROMPTS[0], max_new_tokens=1)])["a"][0]
    monkeypatch.setattr(llama.tokenizer, "eos_ids", (first, tiny.EOS_ID))
    assert generated(llama, [request(PROMPTS[0])])["a"] == [first]
    forced = generated(llama, [request(PROMPTS[0], min_new_tokens=8)])["a"]
    assert len(forced) == 8
    assert not {first, tiny.EOS_ID} & set(forced)


def test_rows_end_apart(llama: TransformersSession) -> None:
    """A finished row yields nothing more; the loop ends with the last row."""
    requests = [request(PROMPTS[0], "short", max_new_tokens=2), request(PROMPTS[1], "long", max_new_tokens=5)]
    steps = list(llama.generate(requests))
    assert [sorted(step.ids) for step in steps] == [["long", "short"]] * 2 + [["long"]] * 3


def test_stop_string_ends_a_row(llama: TransformersSession) -> None:
    """A row ends with the token that completes its stop string in the decoded text; the token is reported."""
    whole = generated(llama, [request(PROMPTS[1])])["a"]
    stop = llama.tokenizer.decode(whole[:3])
    assert stop
    found = generated(llama, [request(PROMPTS[1], stop=(stop,))])["a"]
    assert found == whole[: len(found)]
    assert stop in llama.tokenizer.decode(found)
    assert stop not in llama.tokenizer.decode(found[:-1])


def test_first_logprobs(llama: TransformersSession) -> None:
    """The first step, and only it, carries the log probability of the chosen token, as scoring gives it."""
    steps = list(llama.generate([request(PROMPTS[0])]))
    token, value = steps[0].ids["a"], steps[0].first_logprobs
    assert value is not None
    assert [step.first_logprobs for step in steps[1:]] == [None] * (len(steps) - 1)
    scored = next(iter(llama.logprobs([PROMPTS[0]], [[(token,)]])))
    assert value["a"] == pytest.approx(scored.totals[0], abs=1e-5)


def test_b65_nonfinite_logits_end_the_row(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """B65: a row with NaN logits is named, gets no id and ends; the other row goes on; its scores are None."""
    model = model_of(llama)
    forward = model.forward

    def poisoned(**arguments: Any) -> Any:
        out = forward(**arguments)
        if len(arguments["input_ids"]) > 1 or out.logits.ndim == 2:  # the bad row leaves a batch of two
            out.logits.view(-1, out.logits.shape[-1])[0, 5] = math.nan
        return out

    monkeypatch.setattr(model, "forward", poisoned)
    steps = list(llama.generate([request(PROMPTS[0], "bad"), request(PROMPTS[1], "good", max_new_tokens=3)]))
    assert steps[0].nonfinite == ("bad",)
    assert [sorted(step.ids) for step in steps] == [["good"]] * 3
    scored = list(llama.logprobs([PROMPTS[0], PROMPTS[1]], [[(4,), (5, 6)], [(4,)]]))
    assert scored[0].totals == (None, None)
    assert scored[1].totals[0] is not None


# ---------------------------------------------------------------------------------------------- scoring

CONTINUATIONS = [[(4,), (8, 9, 10), (20, 21)], [(4,), (5,)], [(7, 7, 7, 7, 7, 7)], [(1, 2), (3,), (250, 251, 252)]]


def by_hand(session: TransformersSession, context: tuple[int, ...], tokens: tuple[int, ...]) -> float:
    with torch.inference_mode():
        logits = model_of(session)(torch.tensor([context + tokens])).logits[0].log_softmax(-1)
    return sum(float(logits[len(context) - 1 + place, token]) for place, token in enumerate(tokens))


def test_b46_scores_do_not_depend_on_the_batch(session: TransformersSession) -> None:
    """B46: padding is never scored; float32 scores in a batch differ by less than 1e-4 from those alone and from a plain forward."""
    together = list(session.logprobs(PROMPTS, CONTINUATIONS))
    assert [each.index for each in together] == [0, 1, 2, 3]
    for each, context, choices in zip(together, PROMPTS, CONTINUATIONS, strict=True):
        alone = next(iter(session.logprobs([context], [choices]))).totals
        plain = [by_hand(session, context, tokens) for tokens in choices]
        assert each.totals == pytest.approx(alone, abs=1e-4)
        assert each.totals == pytest.approx(plain, abs=1e-4)


def test_many_long_continuations_are_split(llama: TransformersSession) -> None:
    """More continuations than fit one sub-batch get the same scores as by hand."""
    choices = [tuple(range(3 + start, 3 + start + 30)) for start in range(20)]
    found = next(iter(llama.logprobs([PROMPTS[0]], [choices]))).totals
    assert found == pytest.approx([by_hand(llama, PROMPTS[0], tokens) for tokens in choices], abs=1e-3)


def test_b52_an_empty_continuation_is_refused_at_once(llama: TransformersSession) -> None:
    """B52: an empty continuation is an error before anything runs, not an assertion later."""
    with pytest.raises(EngineError, match="no token"):
        list(llama.logprobs([PROMPTS[0]], [[()]]))


def test_distributions(llama: TransformersSession) -> None:
    """One float32 row of raw logits for each context, the same alone and in a batch."""
    block = next(iter(llama.distributions(PROMPTS)))
    assert (block.shape, block.dtype) == ((4, tiny.VOCABULARY), np.float32)
    for row, context in zip(block, PROMPTS, strict=True):
        np.testing.assert_allclose(row, next(iter(llama.distributions([context])))[0], atol=1e-4)


# ---------------------------------------------------------------------------------------------- facts


def test_loaded_facts(session: TransformersSession) -> None:
    """Bytes count each storage once, the tied head included; a float model has nothing quantized and lists its layers."""
    loaded, model = session.loaded, model_of(session)
    elements = sum(parameter.numel() for parameter in model.parameters())
    buffers = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    assert loaded.weight_bytes == elements * 4 + buffers
    assert loaded.logical_parameters == elements
    assert (loaded.quantized_parameters, loaded.modules_replaced) == (0, 0)
    assert sum(loaded.kernels.values()) == len(loaded.modules_left)
    assert (loaded.dtype, loaded.kv_bytes_per_element, loaded.tied) == ("float32", 4, True)
    assert loaded.process_bytes is not None
    assert loaded.process_bytes > loaded.weight_bytes


def test_same_weights_same_digest(tmp_path: Path) -> None:
    """Loading twice gives one digest; other weights another."""
    with (
        opened(tiny.llama(tmp_path / "a")) as first,
        opened(tmp_path / "a") as again,
        opened(tiny.llama(tmp_path / "b", seed=1)) as other,
    ):
        assert first.loaded.weights_sha256 == again.loaded.weights_sha256 != other.loaded.weights_sha256


def test_b68_a_tied_model_is_saved_once_and_loads_tied(tmp_path: Path) -> None:
    """B68: the file counts the shared tensor once, the reloaded model is tied and its logits are those in memory."""
    folder = tiny.llama(tmp_path / "a")
    model = AutoModelForCausalLM.from_pretrained(folder)
    elements = sum(parameter.numel() for parameter in model.parameters())
    assert (folder / "model.safetensors").stat().st_size < elements * 4 + 10_000
    with opened(folder) as session, torch.inference_mode():
        assert session.loaded.tied
        expected = model(torch.tensor([PROMPTS[1]]), logits_to_keep=1).logits[0, -1]
        assert float(abs(next(iter(session.distributions([PROMPTS[1]])))[0] - expected.numpy()).max()) == 0


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    """A NaN among the weights is numerically invalid at load, with the weight's name."""
    folder = tiny.llama(tmp_path / "a")
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.model.layers[1].mlp.up_proj.weight.data[0, 0] = math.nan
    model.save_pretrained(folder)
    with pytest.raises(NumericallyInvalid, match=r"layers\.1\.mlp\.up_proj"), opened(folder):
        pass


def test_a_tensor_that_is_not_stored_is_not_made_up(tmp_path: Path) -> None:
    """The library would start a missing norm at one and a missing matrix at random; such a model is not loaded."""
    folder = tiny.llama(tmp_path / "a")
    file = folder / "model.safetensors"
    save_file({name: one for name, one in load_file(file).items() if name != "model.norm.weight"}, file, metadata={"format": "pt"})
    with pytest.raises(EngineError, match=r"1 tensor of the model is not in the files of .*, first model\.norm\.weight"), opened(folder):
        pass


# ---------------------------------------------------------------------------------------------- errors


def test_out_of_memory_is_translated(llama: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend's wording becomes OutOfMemory; anything else EngineError; both say what was being done."""

    def failing(message: str) -> Any:
        def forward(**arguments: Any) -> Any:
            raise RuntimeError(message)

        return forward

    monkeypatch.setattr(model_of(llama), "forward", failing("DefaultCPUAllocator: can't allocate memory"))
    with pytest.raises(OutOfMemory, match="decode step 1"):
        list(llama.generate([request(PROMPTS[0])]))
    monkeypatch.setattr(model_of(llama), "forward", failing("shape mismatch"))
    with pytest.raises(EngineError, match="scoring: RuntimeError: shape mismatch"):
        list(llama.logprobs([PROMPTS[0]], [[(4,)]]))


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([], "at least one"),
        ([request(())], "no token"),
        ([request((3,)), request((4,))], "same id"),
        ([request((3,), min_new_tokens=9)], "min_new_tokens"),
        ([request((3,), max_new_tokens=0)], "max_new_tokens"),
    ],
)
def test_impossible_batches_are_refused(llama: TransformersSession, requests: list[Request], message: str) -> None:
    """A batch that cannot run is refused with the reason before anything runs."""
    with pytest.raises(EngineError, match=message):
        list(llama.generate(requests))


def test_missing_folder(tmp_path: Path) -> None:
    """A folder without a model says where it was looked for."""
    with pytest.raises(MissingModel, match="nowhere"), opened(tmp_path / "nowhere"):
        pass


# ---------------------------------------------------------------------------------------------- tokenizer


def test_b55_exactly_one_bos() -> None:
    """B55: a template that writes the BOS and a tokenizer that adds it give one, whichever way the text comes."""
    tokenizer = TransformersTokenizer(tiny.tokenizer(adds_bos=True), None)
    item = GoldenItem(item_id="1", slice="s", prompt="hi", metric="m")
    rendered = tokenizer.render(item)
    assert rendered == "<s>[user]hi\n[assistant]"
    for text in ("hi", rendered, "<s><s>hi"):
        ids = tokenizer.encode(text, add_bos=True)
        assert ids[0] == tiny.BOS_ID
        assert ids.count(tiny.BOS_ID) == 1


def test_no_bos_where_the_model_uses_none() -> None:
    """A tokenizer that defines a BOS and never adds it gets none."""
    tokenizer = TransformersTokenizer(tiny.tokenizer(), None)
    assert tokenizer.bos_id is None
    assert tiny.BOS_ID not in tokenizer.encode("hi", add_bos=True)


def test_eos_ids_come_from_both_places() -> None:
    """A generation config with several stop ids and the tokenizer's own are united."""

    class Generation:
        eos_token_id = (7, 9)

    assert TransformersTokenizer(tiny.tokenizer(), Generation()).eos_ids == (tiny.EOS_ID, 7, 9)


def test_render_and_decode() -> None:
    """Raw items are few-shot plus prompt; decoding leaves special tokens out; text survives the round trip."""
    tokenizer = TransformersTokenizer(tiny.tokenizer(), None)
    item = GoldenItem(item_id="1", slice="s", prompt="2+2=", metric="m", few_shot="1+1=2\n", template="raw")
    assert tokenizer.render(item) == "1+1=2\n2+2="
    ids = tokenizer.encode("caf\u00e9 \u4f60", add_bos=False)
    assert tokenizer.decode([tiny.BOS_ID, *ids, tiny.EOS_ID]) == "caf\u00e9 \u4f60"


def test_chat_without_template_is_an_error() -> None:
    """An item that asks for a chat template of a model without one is a config error naming the item."""
    tokenizer = TransformersTokenizer(tiny.tokenizer(chat_template=None), None)
    with pytest.raises(ConfigError, match="item 7"):
        tokenizer.render(GoldenItem(item_id="7", slice="s", prompt="hi", metric="m", template="chat"))
    assert tokenizer.render(GoldenItem(item_id="8", slice="s", prompt="hi", metric="m")) == "hi"


def test_digest_covers_vocabulary_and_template() -> None:
    """Another template is another tokenizer."""
    first, second = (TransformersTokenizer(tiny.tokenizer(chat_template=text), None).digest for text in ("a", "b"))
    assert first != second
    assert first == TransformersTokenizer(tiny.tokenizer(chat_template="a"), None).digest
