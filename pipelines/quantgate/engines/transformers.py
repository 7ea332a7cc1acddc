"""The transformers engine: one model in this process, one static batch at a time, each decode step driven from here.

Rows are padded on the left with an explicit mask and explicit positions, so padding needs no token of its own and the vocabulary is never
resized: any id will do where the mask is 0. Only the logits of the last position are computed. A finished row leaves the batch, and its
cache is freed with it; no row ever joins. How continuations are scored is ``transformers_scoring``'s.

Nothing here reads a clock except the load time: the caller synchronises and times.
"""

from __future__ import annotations

import gc
import json
import logging
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPTQConfig
from transformers.utils import logging as transformers_logging

from quantgate.devices.oom import is_out_of_memory
from quantgate.engines import (
    transformers_kv_scoring as kv_scoring,
    transformers_scoring as scoring,
    transformers_weights as weights,
)
from quantgate.engines.transformers_distributions import Reading
from quantgate.engines.transformers_forward import Forward
from quantgate.engines.transformers_kv_cache import Blocks, cache_bytes
from quantgate.engines.transformers_tokenizer import TransformersTokenizer
from quantgate.engines.transformers_trail import TransformersTrail, follow
from quantgate.engines.transformers_used import used
from quantgate.errors import EngineError, MissingModel, NothingQuantized, OutOfMemory, QuantgateError
from quantgate.kvcache import kept_by, kv_bytes_per_row, quantized_bytes, why_no_blocks
from quantgate.ports import Device
from quantgate.quantizers import gptq_library
from quantgate.quantizers.folder import read_manifest
from quantgate.quantizers.layers import made_up
from quantgate.quantizers.settings import KERNELS
from quantgate.records import Artifact, ChoiceLogProbs, EngineSettings, KVBytes, Loaded, ModelShape, Request, Step
from quantgate.shapes import shape_of_config

T = TypeVar("T")

CACHE_TOKENS = 32
"""Tokens of the request whose cache is looked at after load: what a token takes does not depend on how many there are."""
_REPACK_ROWS = 32
"""bitsandbytes' repacked CPU layout asserts that this divides the output features."""


class TransformersEngine:
    """Opens artifacts with transformers."""

    @contextmanager
    def open(self, artifact: Artifact, settings: EngineSettings, device: Device) -> Iterator[TransformersSession]:
        """Load, run one warm-up forward, hand the session out, and let go of every tensor at the end.

        Raises ``NothingQuantized``, ``NumericallyInvalid``, ``MissingModel``, ``OutOfMemory`` or ``EngineError``.
        """
        _quiet()
        if settings.threads is not None and device.info.kind != "cuda":
            torch.set_num_threads(settings.threads)
        session = _translated(f"loading {artifact.variant}", lambda: _open(artifact, settings, device))
        try:
            yield session
        finally:
            session.close()
            device.release()


class TransformersSession:
    """A loaded variant. Closed by its engine; then every call raises ``EngineError``."""

    def __init__(self, model: Any, tokenizer: TransformersTokenizer, shape: ModelShape, loaded: Loaded) -> None:
        self.shape = shape
        self.loaded = loaded
        self.tokenizer = tokenizer
        self._run = Forward(model, None if loaded.kv_cache is None else Blocks.of(loaded.kv_cache, shape))

    def close(self) -> None:
        """Drop the weights. Quantizer state sits in reference cycles, so the collector is run."""
        self._run.close()
        gc.collect()

    # ------------------------------------------------------------------------------------------ generation

    def generate(self, requests: Sequence[Request]) -> Iterator[Step]:
        _check_requests(requests)
        decode = _inferred("preparing a batch", lambda: self._start(requests))
        try:
            while decode.running:
                yield _inferred(f"decode step {decode.step + 1}", lambda: self._advance(decode))
        finally:
            # A traceback that somebody keeps would keep this frame, and with it the batch's cache.
            decode.cache = None

    def _start(self, requests: Sequence[Request]) -> _Decode:
        longest = max(len(request.tokens) for request in requests)
        cap = max(request.max_new_tokens for request in requests)
        ids, mask, positions = self._run.padded([request.tokens for request in requests])
        # One mask for the whole generation, sliced a step at a time: growing it would copy it at each token.
        whole = torch.cat([mask, mask.new_ones(len(requests), cap)], dim=1)
        return _Decode(
            requests=tuple(requests),
            cache=self._run.new_cache(),
            mask=whole,
            ids=ids,
            positions=positions,
            filled=longest,
            generated=[[] for _ in requests],
            running=list(range(len(requests))),
        )

    def _advance(self, decode: _Decode) -> Step:
        """Run the prompt or the last ids, choose one id a row, and let the rows leave that end with it."""
        logits = self._run.last(decode.ids, decode.mask[:, : decode.filled], decode.positions, decode.cache)
        finite = _finite_rows(logits)
        first = logits.logsumexp(dim=-1) if decode.step == 0 else None
        raw = logits
        suppressed = [at for at, row in enumerate(decode.running) if decode.step < decode.requests[row].min_new_tokens]
        if suppressed and self.tokenizer.eos_ids:
            raw = logits.clone() if first is not None else logits
            logits[torch.tensor(suppressed)[:, None], torch.tensor(self.tokenizer.eos_ids)] = -math.inf
        chosen = logits.argmax(dim=-1, keepdim=True)
        logprobs = None if first is None else (raw.gather(1, chosen).squeeze(1) - first).tolist()
        step, staying = decode.take(chosen.squeeze(1).tolist(), finite, logprobs, self.tokenizer)
        decode.ids = chosen
        decode.positions = decode.positions[:, -1:] + 1
        decode.filled += 1
        decode.keep(staying)
        return step

    # ------------------------------------------------------------------------------------------ scoring

    def choose_layout(self, *, cached: bool) -> None:
        """Try how this model's continuations can be laid out, and note it among the facts; ``cached``: it is asked for."""
        with torch.inference_mode():
            how = scoring.CACHED if cached else scoring.layout(self._run, self.shape)
            self.loaded = replace(self.loaded, score_layout=how)

    def measure_cache(self) -> None:
        """Read a short request and note what its cache takes, where it is kept in fewer bits."""
        kv = self.loaded.kv_cache
        if kv is None:
            return
        read = min(CACHE_TOKENS, (self.shape.context_tokens or CACHE_TOKENS + 1) - 1)
        with torch.inference_mode():
            measured = cache_bytes(self._run, read)
        float_bytes = kv_bytes_per_row(self.shape, read + 1, self.loaded.kv_bytes_per_element)
        found = KVBytes(
            tokens=read + 1,
            measured_bytes=measured,
            arithmetic_bytes=quantized_bytes(self.shape, (read, 1), self.loaded.kv_bytes_per_element, kv),
            float_bytes=float_bytes,
        )
        self.loaded = replace(self.loaded, kv_bytes=found)

    def logprobs(
        self, contexts: Sequence[tuple[int, ...]], continuations: Sequence[Sequence[tuple[int, ...]]]
    ) -> Iterator[ChoiceLogProbs]:
        if len(contexts) != len(continuations):
            raise EngineError(f"{len(contexts)} contexts but {len(continuations)} lists of continuations")
        if any(not tokens for choices in continuations for tokens in choices):
            raise EngineError("a continuation has no token: encode it apart from its context")
        _check_contexts(contexts)
        how = self.loaded.score_layout
        yield from _inferred("scoring", lambda: scoring.logprobs(self._run, self.shape, how, contexts, continuations))

    def distributions(self, contexts: Sequence[tuple[int, ...]], *, every_position: bool = False) -> Iterator[Any]:
        _check_contexts(contexts)
        if not every_position:
            yield _inferred("next-token distributions", lambda: self._distributions(contexts))
            return
        for tokens in contexts:
            stretch = None if self._run.blocks is None else kv_scoring.stretch(self._run)
            reading = Reading(tokens, self.shape.vocabulary, self._run.device, self._run.new_cache, stretch)
            for part in reading.parts():
                yield _inferred("distributions along a text", partial(reading.block, part, self._run.last))

    def follow(self, contexts: Sequence[tuple[int, ...]]) -> TransformersTrail:
        _check_contexts(contexts)
        return follow(self._run, self.shape, contexts, _inferred)

    def _distributions(self, contexts: Sequence[tuple[int, ...]]) -> Any:
        if self._run.blocks is not None:
            return kv_scoring.after(self._run, contexts).cpu().numpy()
        ids, mask, positions = self._run.padded(contexts)
        return self._run.last(ids, mask, positions, None).cpu().numpy()


@dataclass(slots=True)
class _Decode:
    """One batch under way. ``running`` holds the requests that have not ended, in the order of the batch's rows."""

    requests: tuple[Request, ...]
    cache: Any
    mask: torch.Tensor
    ids: torch.Tensor
    positions: torch.Tensor
    filled: int
    generated: list[list[int]]
    running: list[int]
    step: int = 0

    def take(
        self, chosen: list[int], finite: list[bool], logprobs: list[float] | None, tokenizer: TransformersTokenizer
    ) -> tuple[Step, list[int]]:
        """Give each row its id; the step, and the rows that go on. A row whose logits are not finite gets none and ends."""
        ids: dict[str, int] = {}
        invalid: list[str] = []
        staying: list[int] = []
        for at, row in enumerate(self.running):
            request = self.requests[row]
            if not finite[at]:
                invalid.append(request.request_id)
                continue
            ids[request.request_id] = chosen[at]
            self.generated[row].append(chosen[at])
            if not _ended(request, self.generated[row], tokenizer):
                staying.append(at)
        first = (
            None
            if logprobs is None
            else {self.requests[row].request_id: logprobs[at] for at, row in enumerate(self.running) if finite[at]}
        )
        self.step += 1
        return Step(ids=ids, nonfinite=tuple(invalid), first_logprobs=first), staying

    def keep(self, staying: list[int]) -> None:
        """Let the other rows leave the batch. Rows that all end at once, as in timed runs, are never copied."""
        if 0 < len(staying) < len(self.running):
            rows = torch.tensor(staying, device=self.ids.device)
            self.ids, self.mask, self.positions = self.ids[rows], self.mask[rows], self.positions[rows]
            self.cache.batch_select_indices(rows)
        self.running = [self.running[at] for at in staying]


def _ended(request: Request, generated: list[int], tokenizer: TransformersTokenizer) -> bool:
    if len(generated) >= request.max_new_tokens:
        return True
    if len(generated) < request.min_new_tokens:
        return False
    if generated[-1] in tokenizer.eos_ids:
        return True
    if not request.stop:
        return False
    text = tokenizer.decode(generated)
    return any(stop in text for stop in request.stop if stop)


def _finite_rows(logits: torch.Tensor) -> list[bool]:
    """Which rows hold no NaN and no infinity: minimum and maximum carry both, in one pass over the vocabulary."""
    low, high = torch.aminmax(logits, dim=-1)
    return [bool(finite) for finite in (torch.isfinite(low) & torch.isfinite(high)).tolist()]


# ---------------------------------------------------------------------------------------------- opening


def _open(artifact: Artifact, settings: EngineSettings, device: Device) -> TransformersSession:
    folder = Path(artifact.path)
    if not (folder / "config.json").exists():
        raise MissingModel(f"variant {artifact.variant}: no config.json in {folder.absolute()}")
    shape = kept_by(shape_of_config(json.loads((folder / "config.json").read_text(encoding="utf-8"))), "transformers")
    if settings.kv_cache is not None and (why := why_no_blocks(shape, settings.kv_cache)) is not None:
        raise EngineError(f"variant {artifact.variant}: {why}")
    device.synchronize()
    started_s = device.now_s()
    model = _load(artifact, settings, device)
    device.synchronize()
    load_s = device.now_s() - started_s
    tokenizer = TransformersTokenizer(
        AutoTokenizer.from_pretrained(str(folder), local_files_only=True), model.generation_config
    )
    loaded = replace(_facts(model, artifact, load_s), kv_cache=settings.kv_cache)
    _guard_repacking(model)
    session = TransformersSession(model, tokenizer, shape, loaded)
    _warm_up(session)
    session.loaded = replace(_after_warm_up(loaded, model, device), shape=shape)
    session.choose_layout(cached=settings.cached_scoring)
    session.measure_cache()
    return session


def _load(artifact: Artifact, settings: EngineSettings, device: Device) -> Any:
    folder = Path(artifact.path)
    on_cuda = device.info.kind == "cuda"
    # Without native half precision a CPU multiplies bfloat16 some 350 times slower than float32, so float32 is the CPU's own type here.
    dtype = settings.dtype or ("auto" if on_cuda else "float32")
    packed = _method(folder) in ("gptq", "awq")
    if packed and (missing := gptq_library.missing()) is not None:
        raise EngineError(missing)
    with gptq_library.quiet() if packed else nullcontext():
        if packed:
            gptq_library.split_experts(folder)
        model, told = AutoModelForCausalLM.from_pretrained(
            str(folder),
            output_loading_info=True,
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            device_map={"": torch.cuda.current_device()} if on_cuda else None,
            local_files_only=True,
            **_gptq_kernel(artifact, settings, on_cuda=on_cuda),
        )
    if (why := made_up(told, folder)) is not None:
        raise EngineError(why)
    if settings.scoring_only and not on_cuda:
        _unpack_once(model)
    model.eval().requires_grad_(False)
    if not on_cuda:
        weights.own_memory(model)
        weights.drop_mapped_pages(folder)
    return model


def load_model(artifact: Artifact, settings: EngineSettings, device: Device) -> Any:
    """The model alone, as a session of this engine holds it, for an adapter that drives it otherwise."""
    _quiet()
    return _translated(f"loading {artifact.variant}", lambda: _load(artifact, settings, device))


def _method(folder: Path) -> str | None:
    """How the checkpoint says that it was quantized."""
    found = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("quantization_config")
    return found.get("quant_method") if isinstance(found, dict) else None


def _gptq_kernel(artifact: Artifact, settings: EngineSettings, *, on_cuda: bool) -> dict[str, Any]:
    """The kernel for a GPTQ checkpoint: as asked for, else the library's choice; on a CPU, for scoring alone, the float32 one."""
    folder = Path(artifact.path)
    if _method(folder) != "gptq":
        return {}
    named = artifact.kernel
    if named == "auto" and settings.scoring_only and not on_cuda:
        named = "torch"
    if settings.scoring_only and not on_cuda:
        gptq_library.no_compiling()
    backend = KERNELS[named].backend if named in KERNELS else "auto"
    bits = json.loads((folder / "config.json").read_text(encoding="utf-8"))["quantization_config"]["bits"]
    return {"quantization_config": GPTQConfig(bits=bits, backend=backend)}


def _unpack_once(model: Any) -> None:
    """Packed layers keep their weights in float after the first call: the same numbers, many times faster where unpacking is slow.

    What they keep is no part of the weight bytes: such a variant is neither filled nor timed.
    """
    for module in model.modules():
        if gptq_library.is_packed(module) and hasattr(module, "enable_weight_cache"):
            module.enable_weight_cache()


def _guard_repacking(model: Any) -> None:
    """Keep bitsandbytes from repacking layers whose shape its CPU layout asserts against; they run dequantized instead."""
    for module in model.modules():
        shape = getattr(getattr(getattr(module, "weight", None), "quant_state", None), "shape", None)
        if shape is None or not hasattr(module, "support_avx512bf16_for_cpu"):
            continue
        if len(shape) != 2 or shape[0] % _REPACK_ROWS or shape[1] % module.weight.quant_state.blocksize:
            module.support_avx512bf16_for_cpu = False


def _facts(model: Any, artifact: Artifact, load_s: float) -> Loaded:
    linear = weights.linear_like(model)
    quantized = _quantized_modules(linear, artifact)
    sha256 = weights.digest(model)
    dtype = model.dtype
    return Loaded(
        weight_bytes=weights.weight_bytes(model),
        logical_parameters=weights.logical_parameters(model),
        quantized_parameters=weights.quantized_parameters(list(quantized.values())),
        modules_replaced=len(quantized),
        modules_left=tuple(name for name in linear if name not in quantized),
        kernels=weights.kernels(model),
        dtype=str(dtype).removeprefix("torch."),
        kv_bytes_per_element=dtype.itemsize,
        weights_sha256=sha256,
        tied=weights.is_tied(model),
        load_s=load_s,
    )


def _quantized_modules(linear: dict[str, Any], artifact: Artifact) -> dict[str, Any]:
    """The modules in fewer bits. Raises ``NothingQuantized`` where the artifact says that there are some and there are none."""
    found = {name: module for name, module in linear.items() if weights.is_quantized(module)}
    named = read_manifest(Path(artifact.path))
    if artifact.simulated:
        unknown = [name for name in named or () if name not in linear]
        if unknown:
            raise EngineError(
                f"variant {artifact.variant}: the artifact names modules that the model lacks, first {unknown[0]}"
            )
        found |= {name: linear[name] for name in named or ()}
    elif named is not None and found and set(named) != set(found):
        raise EngineError(
            f"variant {artifact.variant}: {len(named)} modules were quantized and {len(found)} were loaded as quantized"
        )
    if not found and (named is not None or artifact.format != "safetensors"):
        raise NothingQuantized(f"{artifact.variant} ({artifact.format})", linear_modules=len(linear))
    return found


def _warm_up(session: TransformersSession) -> None:
    """One prefill and one decode step: pages become resident and libraries repack what they repack on first use."""
    for _ in session.generate([Request(request_id="warm-up", tokens=(1, 2, 3), max_new_tokens=2, min_new_tokens=2)]):
        pass


def _after_warm_up(loaded: Loaded, model: Any, device: Device) -> Loaded:
    """Add what only a forward shows. A library that repacks on first use may then hold more than it loaded, and that counts."""
    device.release()
    resident, file_backed = (None, None) if device.info.kind == "cuda" else _resident_bytes()
    weight_bytes = max(loaded.weight_bytes, weights.weight_bytes(model))
    return replace(
        loaded,
        weight_bytes=weight_bytes,
        used=used(model, weight_bytes),
        kernels=weights.kernels(model),
        process_bytes=resident,
        file_backed_bytes=file_backed,
    )


def _resident_bytes() -> tuple[int | None, int | None]:
    """Resident bytes of this process, and those of them that belong to mapped files; None where the system has no such file."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None, None
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("VmRSS:", "RssFile:"))}
    resident, mapped = kib.get("VmRSS"), kib.get("RssFile")
    return (None if resident is None else resident * 1024), (None if mapped is None else mapped * 1024)


# ---------------------------------------------------------------------------------------------- checks and translation


def _quiet() -> None:
    """Progress bars and per-call warnings would drown a worker's log: bitsandbytes' int8 prints one a layer and token."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


def _check_requests(requests: Sequence[Request]) -> None:
    if not requests:
        raise EngineError("a batch needs at least one request")
    if len({request.request_id for request in requests}) != len(requests):
        raise EngineError("two requests of one batch have the same id")
    for request in requests:
        if not request.tokens:
            raise EngineError(f"request {request.request_id} has no token: an empty prompt needs a BOS")
        if not 0 <= request.min_new_tokens <= request.max_new_tokens or request.max_new_tokens < 1:
            raise EngineError(
                f"request {request.request_id}: 0 <= min_new_tokens <= max_new_tokens and max_new_tokens >= 1 must hold, "
                f"found {request.min_new_tokens} and {request.max_new_tokens}"
            )


def _check_contexts(contexts: Sequence[tuple[int, ...]]) -> None:
    if not contexts:
        raise EngineError("a batch needs at least one context")
    if any(not tokens for tokens in contexts):
        raise EngineError("a context has no token: an empty prompt needs a BOS")


def _inferred(what: str, act: Callable[[], T]) -> T:
    """``_translated`` without autograd. The mode ends before a generator yields, so it never leaks into the caller."""
    with torch.inference_mode():
        return _translated(what, act)


def _translated(what: str, act: Callable[[], T]) -> T:
    """What ``act`` returns; a backend's error becomes ``OutOfMemory`` or ``EngineError``.

    Raised outside the handler and without the original traceback, whose frames would keep the failed attempt's tensors alive: then every
    smaller batch fails too. The traceback's text travels as a note.
    """
    failure: QuantgateError
    try:
        return act()
    except QuantgateError as error:
        failure = error.with_traceback(None)
    except Exception as error:
        kind = OutOfMemory if is_out_of_memory(error) else EngineError
        failure = kind(f"{what}: {type(error).__name__}: {error}")
        failure.add_note("".join(traceback.format_exception(error)))
    try:
        raise failure
    finally:
        # The frame would hold its own exception in a cycle, and with it the batch that `act` closes over.
        del failure, act
