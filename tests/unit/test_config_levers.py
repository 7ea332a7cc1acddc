"""Levers and caches in a config: every fault has its line and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chain import CONTROL, REFERENCE, Chain, candidate
from quantgate.config import load_run
from quantgate.errors import ConfigError
from quantgate.records import Drafter, KVCache, ModelSource, SpeculationConfig

SPECULATION: dict[str, Any] = {"drafters": ["prompt_lookup"], "prompts": {"golden_set": "sums"}}


def asked(root: Path, **changes: Any) -> SpeculationConfig:
    made = Chain(root=root, executor="process")
    made.policy()
    found = load_run(made.config(levers={"speculation": {**SPECULATION, **changes}})).levers.speculation
    assert found is not None
    return found


def refused(root: Path, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        asked(root, **changes)
    assert caught.value.exit_code == 2
    assert caught.value.line is not None
    return str(caught.value)


def test_speculation_is_read(tmp_path: Path) -> None:
    """Every kind of drafter, numbers in order and once, paths absolute; without the section nothing is asked for."""
    (tmp_path / "p.txt").write_text("one\n\ntwo\n", encoding="utf-8")
    small = {"name": "small", "path": "small"}
    found = asked(
        tmp_path, drafters=["prompt_lookup", {"self": "int8"}, {"model": small}], prompts={"file": "p.txt"}, draft_tokens=[4, 2, 4],
        batch_sizes=[8, 1], repeats=2,
    )  # fmt: skip
    assert found.drafters == (
        Drafter(kind="prompt_lookup"),
        Drafter(kind="self", variant="int8"),
        Drafter(kind="model", model=ModelSource(name="small", path=str(tmp_path / "small"))),
    )
    assert [one.name for one in found.drafters] == ["prompt_lookup", "self:int8", "model:small"]
    assert (found.draft_tokens, found.batch_sizes, found.repeats) == ((2, 4), (1, 8), 2)
    assert (found.golden_set, found.path) == (None, str(tmp_path / "p.txt"))
    assert load_run(Chain(root=tmp_path, executor="process").config()).levers.speculation is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"drafters": ["medusa"]}, "must be 'prompt_lookup'"),
        ({"drafters": []}, "at least 1 entry"),
        ({"drafters": ["prompt_lookup", "prompt_lookup"]}, "drafter prompt_lookup stands twice"),
        ({"drafters": [{"self": "int3"}]}, "the run has no variant 'int3' to draft: did you mean 'int"),
        ({"drafters": [{"self": "float32"}]}, "'float32' is the reference, which is drafted for"),
        ({"drafters": [{}]}, "exactly one of 'self: VARIANT' and 'model: {...}'"),
        ({"drafters": [{"model": {"name": "x"}}]}, "exactly one of path, hub or package; found none"),
        ({"drafters": [{"model": {"name": "x", "hub": "a/b"}}]}, "needs 'revision'"),
        ({"draft_tokens": [0]}, "must be greater than or equal to 1; found 0"),
        ({"draft_tokens": []}, "at least 1 entry"),
        ({"batch_sizes": [0]}, "must be greater than or equal to 1; found 0"),
        ({"output_tokens": 1}, "must be greater than or equal to 2; found 1"),
        ({"prompts": {}}, "exactly one of golden_set and file"),
        ({"prompts": {"file": "none.txt"}}, "there is no file of prompts"),
        ({"decoding": "sampling"}, "write 'decoding: greedy'"),
        ({"tokens": 4}, "unknown key 'tokens'"),
    ],
)
def test_speculation_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """An unknown drafter, a variant that is not there, nothing to draft, and every other mistake."""
    assert said in refused(tmp_path, **changes)


def variants(**changes: Any) -> list[dict[str, Any]]:
    return [REFERENCE, {**candidate(), **changes}, CONTROL]


def test_a_cache_in_fewer_bits_is_read(tmp_path: Path) -> None:
    """It stands in the scheme beside the weights', and with weights that are not quantized."""
    made = Chain(root=tmp_path, executor="process")
    made.policy()
    read = load_run(made.config(variants=[*variants(kv_cache={"bits": 4}), {"name": "kv8", "quantizer": "fake", "kv_cache": {"bits": 8}}]))
    assert [one.scheme for one in read.candidates] == ["w8a16-kv4", "float-kv8"]
    assert read.variants[1].kv_cache == KVCache(bits=4)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (variants(kv_cache={"bits": 3}), "must be 8, 4 or 2"),
        (variants(kv_cache={"bits": 4, "backend": "hqq"}), "must be 'torch'; found 'hqq'"),
        (variants(kv_cache={}), "key 'variants.1.kv_cache.bits' is missing"),
        ([{**REFERENCE, "kv_cache": {"bits": 4}}, *variants()[1:]], "the reference is the unquantized model and keeps its cache in float"),
        (variants(role="identity", bits=None, kv_cache={"bits": 4}), "the identity is the unquantized model"),
    ],
)
def test_a_cache_in_fewer_bits_is_refused(tmp_path: Path, bad: list[dict[str, Any]], said: str) -> None:
    """Bits and backends that there are not, and variants whose cache is float by what they are."""
    made = Chain(root=tmp_path, executor="process")
    made.policy()
    with pytest.raises(ConfigError, match=r"kv_cache|identity") as caught:
        load_run(made.config(variants=bad))
    assert said in str(caught.value)
    assert caught.value.line is not None


def test_a_variant_whose_cache_is_in_fewer_bits_does_not_draft(tmp_path: Path) -> None:
    """Drafts have to be taken back."""
    made = Chain(root=tmp_path, executor="process")
    made.policy()
    levers = {"speculation": {**SPECULATION, "drafters": [{"self": "int8"}]}}
    with pytest.raises(ConfigError, match="keeps its cache in fewer bits"):
        load_run(made.config(variants=variants(kv_cache={"bits": 8}), levers=levers))
