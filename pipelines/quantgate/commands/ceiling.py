"""``quantgate ceiling``: its arguments, and what it prints. Loads no weights, no torch, and no library beyond the standard one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from importlib import import_module
from typing import Any

from quantgate.errors import ConfigError, UsageError

TEXT = "say how many requests fit beside a model's weights, by bit width and cache type, before anything is loaded"
EXAMPLE = (
    "quantgate ceiling models/llama --memory 24GB --tokens 2048 --weights 16,8,4 --kv fp16,q8_0\n"
    "  quantgate ceiling --params 8e9 --layers 32 --hidden 4096 --heads 32 --memory 24GB"
)
LARGEST_COUNT = 10**15
LARGEST_BITS = 10**6
_BY_HAND = ("layers", "hidden", "heads")
_MORE_BY_HAND = ("kv_heads", "head_dim")


def add(commands: Any, make: Callable[..., argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = make(commands, "ceiling", _run, TEXT, EXAMPLE)
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a model folder, a config.json, a .gguf file or a hub id")
    parser.add_argument("--memory", required=True, metavar="SIZE", help="memory of the device, for example 24GB or 22GiB")
    parser.add_argument("--tokens", default="2048", metavar="N", help="prompt and output of a request together (default: 2048)")
    parser.add_argument("--weights", default="16,8,4", metavar="BITS", help="bit widths to compare (default: 16,8,4)")
    parser.add_argument("--kv", default="fp16", metavar="TYPES", help="cache types to compare (default: fp16)")
    parser.add_argument("--engine", default="architecture", metavar="NAME", help="architecture, transformers or vllm: whose cache layout")
    parser.add_argument("--block", metavar="N", help="tokens of a cache block; a request is rounded up (default: 16 for vllm, else 1)")
    parser.add_argument("--overhead", default="0", metavar="SIZE", help="memory that weights and cache cannot have (default: 0)")
    parser.add_argument("--tensor-parallel", default="1", metavar="N", help="devices that share the model; --memory is one device's")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead, all sizes in bytes")
    hand = parser.add_argument_group("by hand, instead of MODEL")
    hand.add_argument("--params", metavar="N", help="number of weights, for example 8e9; beside MODEL: instead of counting them")
    hand.add_argument("--layers", metavar="N", help="layers")
    hand.add_argument("--hidden", metavar="N", help="width of the model")
    hand.add_argument("--heads", metavar="N", help="attention heads of the queries")
    hand.add_argument("--kv-heads", metavar="N", help="heads of the cache (default: as --heads)")
    hand.add_argument("--head-dim", metavar="N", help="width of a head (default: hidden / heads)")


def _run(arguments: argparse.Namespace) -> int:
    print(answer(arguments).rstrip("\n"))
    return 0


def answer(arguments: argparse.Namespace) -> str:
    """The table, or with ``--json`` the document. Raises ``UsageError`` for what cannot be answered."""
    ceiling = import_module("quantgate.ceiling")
    question = _question(arguments)
    model = _model(arguments)
    rows = ceiling.table(model, question)
    if arguments.json:
        return json.dumps(_document(model, question, rows), indent=2)
    return str(ceiling.text(model, question, rows))


def _document(model: Any, question: Any, rows: Any) -> dict[str, Any]:
    ceiling = import_module("quantgate.ceiling")
    return {
        "model": model.name,
        "tokens": question.tokens,
        "memory_bytes": question.memory_bytes,
        "overhead_bytes": question.overhead_bytes,
        "parameters": model.parameters,
        "context_tokens": model.shape.context_tokens,
        "block_tokens": question.layouts[0].block_tokens,
        "tensor_parallel": question.layouts[0].tensor_parallel,
        "notes": ceiling.notes(model, question, rows),
        "rows": [
            {
                "weight_bits": row.weight_bits,
                "weight_bytes": row.weight_bytes,
                "kv_dtype": row.layout.kv.name,
                "kv_bytes_per_token": row.request.per_token_bytes,
                "kv_bytes_per_request": row.request.cache_bytes,
                "kv_bytes_per_request_at_least": row.request.lower_bytes,
                "state_bytes_per_request": row.request.state_bytes,
                "max_batch": row.max_batch,
                "layout": row.layout.engine,
            }
            for row in rows
        ],
    }


# ---------------------------------------------------------------------------------------------- what was asked for


def _question(arguments: argparse.Namespace) -> Any:
    kvcache, ceiling = import_module("quantgate.kvcache"), import_module("quantgate.ceiling")
    if arguments.engine not in kvcache.LAYOUTS:
        raise UsageError(f"--engine '{arguments.engine}' is not known; known are {', '.join(kvcache.LAYOUTS)}")
    block = _whole("--block", arguments.block) if arguments.block is not None else None
    usual = kvcache.VLLM_BLOCK_TOKENS if arguments.engine == "vllm" else 1
    devices = _whole("--tensor-parallel", arguments.tensor_parallel)
    types = [kvcache.cache_type(name) for name in _listed("--kv", arguments.kv)]
    memory, overhead = _size("--memory", arguments.memory, at_least=1), _size("--overhead", arguments.overhead, at_least=0)
    if overhead >= memory:
        raise UsageError(
            f"--overhead {arguments.overhead} takes all of --memory {arguments.memory} and leaves nothing for weights and requests; "
            "it must be less than the memory"
        )
    return ceiling.Question(
        memory_bytes=memory,
        overhead_bytes=overhead,
        tokens=_whole("--tokens", arguments.tokens),
        weight_bits=tuple(_bits(one) for one in _listed("--weights", arguments.weights)),
        layouts=tuple(
            kvcache.Layout(
                kv=kv,
                engine=arguments.engine,
                block_tokens=block or usual,
                tensor_parallel=devices,
                state_bytes=kvcache.FLOAT32_BYTES if kv.block_bytes == kvcache.FLOAT32_BYTES and kv.block_elements == 1 else 2,
            )
            for kv in types
        ),
    )


def _bits(text: str) -> int:
    weightbytes = import_module("quantgate.weightbytes")
    number = _number(text)
    if number is None or number != number.to_integral_value() or not 1 <= number <= LARGEST_BITS:
        raise UsageError(f"--weights: {text!r} is no known bit width; allowed are {weightbytes.ALLOWED_BITS}")
    weightbytes.usual_packing(int(number))
    return int(number)


def _model(arguments: argparse.Namespace) -> Any:
    ceiling, shapes = import_module("quantgate.ceiling"), import_module("quantgate.shapes")
    given = [name for name in (*_BY_HAND, *_MORE_BY_HAND) if getattr(arguments, name) is not None]
    parameters = None if arguments.params is None else _whole("--params", arguments.params, LARGEST_COUNT)
    if arguments.model is None:
        missing = [_flag(name) for name in ("params", *_BY_HAND) if getattr(arguments, name) is None]
        if missing:
            raise UsageError(f"ceiling needs MODEL, or by hand --params, --layers, --hidden and --heads; missing: {', '.join(missing)}")
        numbers = {name: _whole(_flag(name), getattr(arguments, name)) for name in given}
        return ceiling.model_of("by hand", shapes.by_hand(**numbers), None, parameters)
    if given:
        raise UsageError(f"ceiling takes MODEL or numbers by hand: MODEL and {_flag(given[0])} do not go together")
    return _described(arguments.model, parameters)


def _described(model: str, parameters: int | None) -> Any:
    ceiling, shapes = import_module("quantgate.ceiling"), import_module("quantgate.shapes")
    try:
        modelconfig = import_module("quantgate.modelconfig")
        found = modelconfig.describe(model)
        if found.matrices is None and parameters is None:
            raise ConfigError(str(found.why_no_matrices), file=str(found.file))
        shape, stored = shapes.shape_of_config(found.config), modelconfig.quantized_as(found.config)
        return ceiling.model_of(found.name, shape, found.matrices, parameters, stored)
    except ConfigError as error:
        hand = "or by hand: --params N --layers N --hidden N --heads N [--kv-heads N --head-dim N]"
        raise ConfigError(f"{error.what}; {hand}", file=error.file, line=error.line) from None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _listed(flag: str, text: str) -> list[str]:
    found = [one.strip() for one in text.split(",") if one.strip()]
    if not found:
        raise UsageError(f"{flag} is empty; give at least one, or several with commas between them")
    return list(dict.fromkeys(found))


def _whole(flag: str, text: str, largest: int = 10**9) -> int:
    """A positive whole number as people write it: ``8e9``, ``4_096``, ``2048``."""
    number = _number(text)
    if number is not None and number < 0:
        raise UsageError(f"{flag} must not be negative, found {text!r}; a whole number from 1 to {largest:,} is needed")
    if number is None or number != number.to_integral_value() or not 1 <= number <= largest:
        raise UsageError(f"{flag} must be a whole number from 1 to {largest:,}, found {text!r}")
    return int(number)


def _number(text: str) -> Decimal | None:
    """A finite number, None for anything else."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _size(flag: str, text: str, *, at_least: int) -> int:
    try:
        size = int(import_module("quantgate.sizes").size_bytes(text))
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    if 0 < size < 10**6 and text.strip().replace(".", "").isdigit():
        raise UsageError(f"{flag} {text} has no unit, which is {size} bytes; write {text}GB or {text}GiB")
    if size < at_least:
        raise UsageError(f"{flag} must be at least {at_least} bytes, found {text!r}")
    return size
