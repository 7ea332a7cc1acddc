"""The requests of a lever: read from a file a line each, or drawn from stated distributions; and when they arrive.

The same config gives the same requests and the same arrivals everywhere. Nothing is known here of tokenizers: a prompt is a text, or a
length. Nothing is guessed: a length of 0 or an arrival before the start is refused with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from math import log
from pathlib import Path
from random import Random

from quantgate.errors import ConfigError
from quantgate.records import Arrivals, AskedRequest, BatchingConfig, DrawnRequests, Lengths
from quantgate.strictjson import Fault, Row, lines_of, needed, number, object_of, refuse_unknown, string, whole

KEYS = ("prompt", "prompt_tokens", "output_tokens", "arrives_s")
EXAMPLE = '{"prompt": "...", "output_tokens": 40}'


def prepared(config: BatchingConfig | None, file: str) -> BatchingConfig | None:
    """The config with its requests read or drawn. Raises ``ConfigError`` naming file and line; ``file`` is the run's config."""
    if config is None:
        return None
    requests = tuple(_drawn(config.drawn, config.seed)) if config.drawn is not None else _read(Path(config.path or ""))
    _check_arrivals(config, requests, file)
    return replace(config, requests=requests)


def arrival_s(config: BatchingConfig, arrivals: Arrivals) -> tuple[float, ...]:
    """When each request comes, in the order of the requests, in seconds from the start; a Poisson process begins with its first gap."""
    match arrivals.kind:
        case "poisson":
            rng = Random(f"{config.seed} arrivals")
            gaps = (rng.expovariate(arrivals.rate_per_s or 1.0) for _ in config.requests)
            return tuple(accumulate(gaps))
        case "given":
            return tuple(one.arrives_s or 0.0 for one in config.requests)
        case _:
            return (0.0,) * len(config.requests)


def request_id(index: int) -> str:
    """What the request at a place of the workload is called."""
    return f"r{index + 1}"


# ---------------------------------------------------------------------------------------------- a file


def _read(path: Path) -> tuple[AskedRequest, ...]:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"no such file of requests; one is a line such as {EXAMPLE}", file=str(path)) from error
    except OSError as error:
        raise ConfigError(f"the requests cannot be read: {error.strerror or error}", file=str(path)) from error
    found: list[AskedRequest] = []
    for line, raw in lines_of(data):
        try:
            found.append(_asked(object_of(raw)))
        except Fault as fault:
            raise ConfigError(str(fault), file=str(path), line=line) from None
    if not found:
        raise ConfigError(f"holds no request; one is a line such as {EXAMPLE}", file=str(path))
    return tuple(found)


def _asked(row: Row) -> AskedRequest:
    refuse_unknown(row, KEYS)
    if ("prompt" in row) == ("prompt_tokens" in row):
        raise Fault("a request has either 'prompt', a text, or 'prompt_tokens', its length")
    return AskedRequest(
        output_tokens=_length(needed(row, "output_tokens"), "output_tokens"),
        prompt=string(row["prompt"], "prompt") if "prompt" in row else None,
        prompt_tokens=_length(row["prompt_tokens"], "prompt_tokens") if "prompt_tokens" in row else None,
        arrives_s=_moment(row["arrives_s"]) if "arrives_s" in row else None,
    )


def _length(value: object, field: str) -> int:
    if (found := whole(value, field)) < 1:
        raise Fault(f"{field}: found {found}, expected at least 1 token")
    return found


def _moment(value: object) -> float:
    found = float(number(value, "arrives_s"))
    if found < 0:
        raise Fault(f"arrives_s: found {found:g}, expected 0 or more seconds from the start")
    return found


def _check_arrivals(config: BatchingConfig, requests: tuple[AskedRequest, ...], file: str) -> None:
    if not any(one.kind == "given" for one in config.arrivals):
        return
    missing = [index for index, one in enumerate(requests) if one.arrives_s is None]
    if missing:
        where = "drawn requests have none" if config.path is None else f"request {missing[0] + 1} of {config.path} has none"
        what = f"levers.batching.arrivals: 'given' needs 'arrives_s' of every request, and {where}; use at_once or poisson"
        raise ConfigError(what, file=file)


# ---------------------------------------------------------------------------------------------- drawn


def _drawn(drawn: DrawnRequests, seed: int) -> Iterator[AskedRequest]:
    rng = Random(f"{seed} lengths")
    for _ in range(drawn.count):
        prompt = _one(drawn.prompt, rng)
        yield AskedRequest(prompt_tokens=prompt, output_tokens=_one(drawn.output, rng))


def _one(lengths: Lengths, rng: Random) -> int:
    """A whole number of tokens between ``least`` and ``most``; a lognormal draw beyond is set to the end it is beyond."""
    if lengths.kind != "lognormal" or lengths.median is None or lengths.sigma is None:
        return rng.randint(lengths.least, lengths.most)
    return max(lengths.least, min(lengths.most, round(rng.lognormvariate(log(lengths.median), lengths.sigma))))
