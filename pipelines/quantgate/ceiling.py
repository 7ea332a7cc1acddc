"""How many requests fit beside the weights: a table of bit widths and cache types, and what it means, in arithmetic alone.

``max batch = floor((memory - overhead - weight bytes) / bytes of one request)``. Activations are not in it: a run measures them and
confirms its ceiling by real fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quantgate.errors import ConfigError
from quantgate.kvcache import Layout, RequestBytes, request_bytes
from quantgate.parameters import Matrices
from quantgate.records import ModelShape
from quantgate.render import quantities as q
from quantgate.weightbytes import (
    FEWEST_BITS,
    MOST_BITS,
    bytes_of_count,
    logical_parameters,
    usual_packing,
    weight_bytes,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """What the table is about: a shape, and either the matrices or only a number of weights."""

    name: str
    shape: ModelShape
    matrices: tuple[Matrices, ...] | None = None
    parameters: int
    quantized_as: str | None = None
    """How the checkpoint is already quantized, as its config says it; None where it says nothing of it."""

    def weight_bytes(self, bits: int) -> int:
        """Bytes at a bit width; without matrices no scales are counted and nothing stays in float."""
        if self.matrices is None:
            return bytes_of_count(self.parameters, bits)
        return weight_bytes(self.matrices, usual_packing(bits))


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """Memory, lengths and the widths and cache types to compare."""

    memory_bytes: int
    tokens: int
    weight_bits: tuple[int, ...]
    layouts: tuple[Layout, ...]
    overhead_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One bit width with one cache type."""

    weight_bits: int
    weight_bytes: int
    left_bytes: int
    """For requests; negative where the weights alone do not fit."""
    layout: Layout
    request: RequestBytes
    max_batch: int


def table(model: Model, question: Question) -> tuple[Row, ...]:
    """Every bit width with every cache type, in the order asked for."""
    return tuple(_row(model, question, bits, layout) for bits in question.weight_bits for layout in question.layouts)


def _row(model: Model, question: Question, bits: int, layout: Layout) -> Row:
    weights = -(-model.weight_bytes(bits) // layout.tensor_parallel)
    request = request_bytes(model.shape, question.tokens, layout)
    left = question.memory_bytes - question.overhead_bytes - weights
    if not request.total_bytes:
        raise ConfigError("a request of this model takes no bytes: no layer keeps anything, and the ceiling is not the memory's")
    return Row(
        weight_bits=bits,
        weight_bytes=weights,
        left_bytes=left,
        layout=layout,
        request=request,
        max_batch=max(0, left // request.total_bytes),
    )


def model_of(
    name: str, shape: ModelShape, matrices: tuple[Matrices, ...] | None, parameters: int | None, quantized_as: str | None = None
) -> Model:
    """A model from its matrices, or from a number of weights where that is given. Raises ``ConfigError`` with neither."""
    if parameters is not None:
        return Model(name=name, shape=shape, parameters=parameters, quantized_as=quantized_as)
    if matrices is None:
        raise ConfigError("the number of weights is not known; give --params N")
    return Model(name=name, shape=shape, matrices=matrices, parameters=logical_parameters(matrices), quantized_as=quantized_as)


# ---------------------------------------------------------------------------------------------- in words


def text(model: Model, question: Question, rows: Sequence[Row]) -> str:
    """The table and its sentences, as a terminal shows them."""
    engine = question.layouts[0].engine
    devices = question.layouts[0].tensor_parallel
    where = "each device" if devices > 1 else "memory"
    less = f" less {q.decimal_bytes(question.overhead_bytes)} of overhead" if question.overhead_bytes else ""
    head = (
        f"{model.name}: {q.count(model.parameters)} weights, {q.count(question.tokens)} tokens a request, "
        f"{where} {q.decimal_bytes(question.memory_bytes)}{less}, layout of {engine}"
    )
    return "\n".join([head, "", *_aligned(_cells(rows)), "", *sentences(model, question, rows)]) + "\n"


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    header = ["weights", "weight bytes", "left for KV", "KV dtype", "KV a token", "a request", "max batch"]
    bounds = _has_bounds(rows)
    cells = [header[:6] + ["at least"] * bounds + header[6:]]
    for row in rows:
        least = [q.decimal_bytes(row.request.lower_bytes + row.request.state_bytes)] * bounds
        cells.append([
            f"{row.weight_bits} bit", q.decimal_bytes(row.weight_bytes), q.decimal_bytes(max(0, row.left_bytes)), row.layout.kv.name,
            q.decimal_bytes(row.request.per_token_bytes), q.decimal_bytes(row.request.total_bytes), *least, q.count(row.max_batch),
        ])  # fmt: skip
    return cells


def _aligned(cells: list[list[str]]) -> list[str]:
    widths = [max(len(line[place]) for line in cells) for place in range(len(cells[0]))]
    return ["  ".join(one.rjust(width) for one, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def sentences(model: Model, question: Question, rows: Sequence[Row]) -> list[str]:
    """What is full, what makes room, what a longer context costs; where nothing fits, what is missing."""
    first = rows[0]
    said = [_full(question, first) if first.max_batch else _missing(model, question, first)]
    if any(row.max_batch for row in rows):
        said += [_more_room(rows)] if len(rows) > 1 else []
        said += _longer(model, question, next(row for row in rows if row.max_batch))
    else:
        said.append("No combination in the table holds a single request.")
    return [*said, *notes(model, question, rows)]


def notes(model: Model, question: Question, rows: Sequence[Row]) -> list[str]:
    """What a reader of the figures must know of them, whatever they are."""
    said, limit = [], model.shape.context_tokens
    if limit is not None and question.tokens > limit:
        asked, made = q.count(question.tokens), q.count(limit)
        said.append(f"A request of {asked} tokens is longer than the model was made for: its config says {made}.")
    if model.quantized_as is not None:
        said.append(
            f"The checkpoint is already quantized ({model.quantized_as}): the rows are of its weights at those widths as if quantized from "
            "float, and a run measures the stored ones."
        )
    if _has_bounds(rows):
        said.append(
            "Where layers of different kinds stand side by side vllm may reserve full pages for all: the larger figure decides what fits, "
            "'at least' is what the architecture keeps."
        )
    if model.matrices is None:
        said.append("Weights are number x bits: scales and parts that stay in float are not known by hand.")
    return [*said, "Activations are not counted: a run confirms its ceiling by real fills."]


def _has_bounds(rows: Sequence[Row]) -> bool:
    return any(row.request.lower_bytes != row.request.cache_bytes for row in rows)


def _full(question: Question, row: Row) -> str:
    share, rest = q.percent(row.weight_bytes / question.memory_bytes), row.left_bytes - row.max_batch * row.request.total_bytes
    overhead = f", the overhead {q.percent(question.overhead_bytes / question.memory_bytes)}," if question.overhead_bytes else ""
    return (
        f"At {row.weight_bits} bit the weights take {share} of the memory{overhead} and leave {q.decimal_bytes(row.left_bytes)}; "
        f"a request takes {_taken(row)}: {q.count(row.max_batch)} fit and {q.decimal_bytes(rest)} stay unused."
    )


def _taken(row: Row) -> str:
    """Bytes of a request and what they are: a state is not in the cache's type."""
    total, state = q.decimal_bytes(row.request.total_bytes), q.decimal_bytes(row.request.state_bytes)
    if not row.request.cache_bytes:
        return f"{total} of state"
    parts = f", {state} of it state and the rest" if row.request.state_bytes else ""
    return f"{total}{parts} in {row.layout.kv.name}"


def _missing(model: Model, question: Question, row: Row) -> str:
    """Why not even one request fits at the first width, with the largest width whose weights do."""
    named = f"an overhead of {q.decimal_bytes(question.overhead_bytes)}" if question.overhead_bytes else ""
    overhead = f" beside {named}" if named else ""
    short = q.decimal_bytes(row.request.total_bytes - row.left_bytes)
    if row.left_bytes >= 0:
        return (
            f"At {row.weight_bits} bit the weights fit{overhead} and leave {q.decimal_bytes(row.left_bytes)}, but one request takes "
            f"{q.decimal_bytes(row.request.total_bytes)}: {short} are missing."
        )
    if row.weight_bytes > question.memory_bytes:
        said = f"alone take {q.decimal_bytes(row.weight_bytes)} and do not fit: {short} are missing for one request"
        said += f" and {named}" if named else ""
    else:
        said = f"take {q.decimal_bytes(row.weight_bytes)} and do not fit{overhead}: {short} are missing for one request"
    said = f"At {row.weight_bits} bit the weights {said}."
    fitting = largest_bits(model, question)
    if fitting is None:
        least = -(-model.weight_bytes(FEWEST_BITS) // row.layout.tensor_parallel)
        lacking = least + question.overhead_bytes - question.memory_bytes
        return f"{said} Not even {FEWEST_BITS}-bit weights fit{overhead}: they lack {q.decimal_bytes(lacking)}."
    return f"{said} The largest bit width whose weights fit{overhead} is {fitting}."


def largest_bits(model: Model, question: Question) -> int | None:
    """The largest usual bit width whose weights fit, None where none does."""
    room = question.memory_bytes - question.overhead_bytes
    devices = question.layouts[0].tensor_parallel
    widths = (32, 16, *range(MOST_BITS, FEWEST_BITS - 1, -1))
    return next((bits for bits in widths if -(-model.weight_bytes(bits) // devices) <= room), None)


def _more_room(rows: Sequence[Row]) -> str:
    """The first step down the table that at least doubles the batch, else the best one; of a first row that holds none, the best."""
    first = rows[0]
    best = max(rows, key=lambda row: row.max_batch)
    if best.max_batch == first.max_batch:
        return "Nothing in the table holds more requests than its first row."
    doubled = next((row for row in rows if row.max_batch >= 2 * first.max_batch), None) if first.max_batch else None
    found = doubled or best
    gain = f", {q.ratio(found.max_batch / first.max_batch)} as many" if first.max_batch else ""
    more = "More than doubled by" if found.max_batch > 2 * first.max_batch else "Doubled by"
    cache = f" with a cache in {found.layout.kv.name}" if found.request.cache_bytes else ""
    return f"{more if doubled else 'Most room with'} {found.weight_bits}-bit weights{cache}: {q.count(found.max_batch)} requests{gain}."


def _longer(model: Model, question: Question, row: Row) -> list[str]:
    longer = replace(question, tokens=2 * question.tokens, weight_bits=(row.weight_bits,), layouts=(row.layout,))
    (there,) = table(model, longer)
    limit = model.shape.context_tokens
    beyond = f" (its config says it was made for {q.count(limit)})" if limit is not None and longer.tokens > limit else ""
    widths = f"{row.weight_bits} bit and {row.layout.kv.name}" if there.request.cache_bytes else f"{row.weight_bits} bit, all of it state"
    return [
        f"At {q.count(longer.tokens)} tokens{beyond} a request takes {q.decimal_bytes(there.request.total_bytes)} at {widths}, and "
        f"{q.count(there.max_batch)} fit."
    ]
