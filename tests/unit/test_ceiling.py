"""`quantgate ceiling`: the textbook case to the byte, a table that says what is full, and one clear line for what cannot be answered."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import quantgate
from quantgate.cli import main
from quantgate.errors import ConfigError
from quantgate.kvcache import kv_cache_gb, max_batch_from_memory

TEXTBOOK = ["--params", "8e9", "--layers", "32", "--hidden", "4096", "--heads", "32", "--kv-heads", "32", "--memory", "24GB"]
KEYS = {
    "weight_bits", "weight_bytes", "kv_dtype", "kv_bytes_per_token", "kv_bytes_per_request", "state_bytes_per_request", "max_batch",
    "layout", "kv_bytes_per_request_at_least",
}  # fmt: skip
DOCUMENT_KEYS = {
    "model", "tokens", "memory_bytes", "rows", "overhead_bytes", "parameters", "context_tokens", "block_tokens", "tensor_parallel", "notes",
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 4096,
}  # fmt: skip


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """The rows of the JSON document."""
    return list(document(capsys, *words)["rows"])


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The JSON document, with the keys that it has."""
    assert main(["ceiling", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert set(found) == DOCUMENT_KEYS
    assert all(set(row) == KEYS for row in found["rows"])
    return found


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["ceiling", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of an error."""
    assert main(["ceiling", *words]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("quantgate: ") and found.err.count("\n") == 1, found.err
    return found.err


def config(folder: Path, **fields: Any) -> str:
    folder.mkdir(exist_ok=True)
    found = {key: value for key, value in {**LLAMA, **fields}.items() if value != "absent"}
    (folder / "config.json").write_text(json.dumps(found), encoding="utf-8")
    return str(folder)


# ---------------------------------------------------------------------------------------------- the textbook case


def test_textbook_case_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """8 billion weights in 24 GB: 7 requests of 2,048 tokens at 1,073,741,824 bytes each, 14 with int8 weights."""
    at_16, at_8 = rows(capsys, *TEXTBOOK, "--tokens", "2048", "--weights", "16,8")
    assert (at_16["weight_bytes"], at_8["weight_bytes"]) == (16_000_000_000, 8_000_000_000)
    assert at_16["kv_bytes_per_request"] == 1_073_741_824
    assert (at_16["max_batch"], at_8["max_batch"]) == (7, 14)


def test_textbook_case_at_twice_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    """At 4,096 tokens 3 requests fit."""
    assert rows(capsys, *TEXTBOOK, "--tokens", "4096", "--weights", "16")[0]["max_batch"] == 3


def test_grouped_heads_hold_four_times_as_many(capsys: pytest.CaptureFixture[str]) -> None:
    """With 8 KV heads a request takes a quarter."""
    words = [*TEXTBOOK[:-4], "--kv-heads", "8", "--memory", "24GB", "--weights", "16"]
    assert rows(capsys, *words)[0]["kv_bytes_per_request"] * 4 == 1_073_741_824
    assert rows(capsys, *words)[0]["max_batch"] == 29


def test_plain_functions() -> None:
    """The textbook pair: 1.07 GB a request, 7, 3, and 14 where the element takes one byte."""
    fields = {"layers": 32, "hidden": 4096}
    assert kv_cache_gb(batch=1, seq_len=2048, **fields) == 1.073741824
    assert max_batch_from_memory(kv_budget_gb=8, seq_len=2048, **fields) == 7
    assert max_batch_from_memory(kv_budget_gb=8, seq_len=4096, **fields) == 3
    assert max_batch_from_memory(kv_budget_gb=16, seq_len=2048, **fields) == 14
    assert max_batch_from_memory(kv_budget_gb=8, seq_len=2048, bytes_per=1, **fields) == 14
    assert max_batch_from_memory(kv_budget_gb=3.221225472, seq_len=2048, **fields) == 3
    assert max_batch_from_memory(kv_budget_gb=0, seq_len=2048, **fields) == 0
    assert (quantgate.kv_cache_gb, quantgate.max_batch_from_memory) == (kv_cache_gb, max_batch_from_memory)


@pytest.mark.parametrize("field", ["batch", "seq_len", "layers", "hidden", "bytes_per"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "2"])
def test_plain_functions_refuse_nonsense(field: str, value: Any) -> None:
    """Nothing that is not positive gives a number."""
    given: dict[str, Any] = {"batch": 1, "seq_len": 1, "layers": 1, "hidden": 1, "bytes_per": 2, field: value}
    with pytest.raises(ConfigError, match=field):
        kv_cache_gb(**given)
    for budget in (-1.0, float("nan")):
        with pytest.raises(ConfigError, match="kv_budget_gb"):
            max_batch_from_memory(kv_budget_gb=budget, seq_len=1, layers=1, hidden=1)


# ---------------------------------------------------------------------------------------------- the table and its sentences


def test_cache_types_and_widths_make_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Every bit width with every cache type; blocks carry their scale; the layout's name is in each row."""
    found = rows(capsys, config(tmp_path / "m", head_dim=32), "--memory", "1GB", "--weights", "16,4", "--kv", "fp16,fp8,q8_0,q4_0")
    assert [(row["weight_bits"], row["kv_dtype"]) for row in found[:5]] == [
        (16, "fp16"), (16, "fp8"), (16, "q8_0"), (16, "q4_0"), (4, "fp16"),
    ]  # fmt: skip
    elements = 4 * 2 * 64
    assert [row["kv_bytes_per_token"] for row in found[:4]] == [elements * 2, elements, elements * 34 // 32, elements * 18 // 32]
    assert {row["layout"] for row in found} == {"architecture"}


def test_a_request_is_rounded_up_to_blocks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """100 tokens in blocks of 16 take 112; vllm has blocks of 16 by itself."""
    model = config(tmp_path / "m")
    (plain,) = rows(capsys, model, "--memory", "1GB", "--tokens", "100", "--weights", "16")
    (blocks,) = rows(capsys, model, "--memory", "1GB", "--tokens", "100", "--weights", "16", "--block", "16")
    (vllm,) = rows(capsys, model, "--memory", "1GB", "--tokens", "100", "--weights", "16", "--engine", "vllm")
    assert plain["kv_bytes_per_request"] * 112 == blocks["kv_bytes_per_request"] * 100
    assert vllm["kv_bytes_per_request"] == blocks["kv_bytes_per_request"]


def test_the_sentences_say_what_is_full_what_doubles_and_what_length_costs(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader learns the share of the weights, the way to twice the batch, and the batch at twice the length."""
    found = said(capsys, *TEXTBOOK)
    assert "At 16 bit the weights take 67 % of the memory and leave 8.00 GB" in found
    assert "7 fit and 484 MB stay unused" in found
    assert "Doubled by 8-bit weights" in found
    assert "At 4,096 tokens a request takes 2.15 GB at 16 bit and fp16, and 3 fit" in found


def test_weights_that_do_not_fit_name_the_largest_width_that_does(capsys: pytest.CaptureFixture[str]) -> None:
    """10 GB hold 8 billion weights at 8 bit and not at 16."""
    found = said(capsys, *TEXTBOOK[:-1], "10GB")
    assert "At 16 bit the weights alone take 16.0 GB and do not fit" in found
    assert "The largest bit width whose weights fit is 8." in found


def test_where_nothing_fits_the_missing_memory_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither weights nor a request: how much is missing, at the first width and at the smallest."""
    found = said(capsys, *TEXTBOOK[:-1], "1GB")
    assert "No combination in the table holds a single request" in found
    assert "16.1 GB are missing for one request" in found
    assert "Not even 2-bit weights fit: they lack 1.00 GB." in found
    found = said(capsys, *TEXTBOOK[:-1], "16.5GB", "--weights", "16")
    assert "but one request takes 1.07 GB: 574 MB are missing" in found


def test_overhead_and_devices(capsys: pytest.CaptureFixture[str]) -> None:
    """Memory set aside is not there for requests; two devices halve weights and cache of each."""
    assert rows(capsys, *TEXTBOOK, "--overhead", "1GB", "--weights", "16")[0]["max_batch"] == 6
    (row,) = rows(capsys, *TEXTBOOK, "--tensor-parallel", "2", "--weights", "16")
    assert (row["weight_bytes"], row["kv_bytes_per_request"], row["max_batch"]) == (8_000_000_000, 536_870_912, 29)


def test_both_bounds_where_an_engine_may_reserve_more(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A hybrid of sliding and full layers under vllm: the larger figure decides, the smaller one stands beside it."""
    kinds = ["full_attention", "sliding_attention"] * 2
    model = config(tmp_path / "m", layer_types=kinds, sliding_window=128)
    found = said(capsys, model, "--memory", "1GB", "--tokens", "8192", "--engine", "vllm")
    assert "at least" in found and "vllm may reserve full pages" in found
    upper, lower = (rows(capsys, model, "--memory", "1GB", "--tokens", "8192", "--engine", name)[0] for name in ("vllm", "architecture"))
    assert upper["kv_bytes_per_request"] == 4 * 8192 * 64 * 2
    assert lower["kv_bytes_per_request"] == (2 * 8192 + 2 * 128) * 64 * 2


def test_a_state_is_named_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A state-space hybrid shows its constant beside the cache, and needs its weights' number by hand."""
    fields = {"model_type": "jamba", "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 16, "mamba_d_conv": 4}
    model = config(tmp_path / "m", **fields, mamba_expand=2)
    assert "--params" in refused(capsys, model, "--memory", "1GB")
    (row,) = rows(capsys, model, "--memory", "1GB", "--params", "1e6", "--weights", "16")
    assert row["state_bytes_per_request"] == 2 * (128 * 4 + 128 * 16) * 2


def test_a_config_file_and_a_folder_are_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """MODEL may be the folder, or a config.json of any name."""
    folder = Path(config(tmp_path / "m"))
    (folder / "config.json").rename(other := tmp_path / "other.json")
    one = rows(capsys, str(other), "--memory", "1GB")
    assert one == rows(capsys, config(folder), "--memory", "1GB")


def test_most_room_is_the_row_that_holds_most(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the first row holds nothing, the best row is named and not the first that holds something."""
    words = [*TEXTBOOK[:-1], "12GB"]
    assert [row["max_batch"] for row in rows(capsys, *words)] == [0, 3, 7]
    assert "Most room with 4-bit weights with a cache in fp16: 7 requests." in said(capsys, *words)
    found = said(capsys, *words, "--weights", "16,8", "--kv", "fp16,q4_0")
    assert "Most room with 8-bit weights with a cache in q4_0: 13 requests." in found


def test_doubled_is_twice_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    """The first row that holds twice as many or more; more than twice is told as such, less is only the most room."""
    assert "\nDoubled by 8-bit weights with a cache in fp16: 14 requests, 2.00x as many." in said(capsys, *TEXTBOOK)
    found = said(capsys, *TEXTBOOK, "--weights", "16", "--kv", "fp16,q4_0")
    assert "More than doubled by 16-bit weights with a cache in q4_0: 26 requests, 3.71x as many." in found
    found = said(capsys, *TEXTBOOK, "--weights", "8,4")
    assert "Most room with 4-bit weights with a cache in fp16: 18 requests, 1.29x as many." in found
    found = said(capsys, *TEXTBOOK, "--weights", "4,8")
    assert "Nothing in the table holds more requests than its first row." in found


def test_the_overhead_is_named_where_it_decides(capsys: pytest.CaptureFixture[str]) -> None:
    """Weights that would fit without the overhead do not fit beside it; a request that does not fit says so too."""
    words = [*TEXTBOOK[:-1], "16.5GB", "--overhead", "1GB", "--weights", "16"]
    found = said(capsys, *words)
    assert "memory 16.5 GB less 1.00 GB of overhead" in found
    assert "the weights take 16.0 GB and do not fit beside an overhead of 1.00 GB: 1.57 GB are missing for one request" in found
    assert "The largest bit width whose weights fit beside an overhead of 1.00 GB is 8." in found
    found = said(capsys, *TEXTBOOK[:-1], "17.5GB", "--overhead", "1GB", "--weights", "16")
    assert "the weights fit beside an overhead of 1.00 GB and leave 500 MB" in found
    found = said(capsys, *TEXTBOOK[:-1], "2GB", "--overhead", "1GB", "--weights", "16")
    assert "the weights alone take 16.0 GB and do not fit: 16.1 GB are missing for one request and an overhead of 1.00 GB" in found
    assert "Not even 2-bit weights fit beside an overhead of 1.00 GB: they lack 1.00 GB." in found
    assert "67 % of the memory, the overhead 4 %, and leave 7.00 GB" in said(capsys, *TEXTBOOK, "--overhead", "1GB")
    assert "overhead" not in said(capsys, *TEXTBOOK)


@pytest.mark.parametrize("overhead", ["24GB", "30GB"])
def test_an_overhead_of_everything_is_refused(capsys: pytest.CaptureFixture[str], overhead: str) -> None:
    """The overhead is blamed, with both figures, and not the weights."""
    found = refused(capsys, *TEXTBOOK, "--overhead", overhead)
    assert f"--overhead {overhead} takes all of --memory 24GB" in found


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"quant_method": "gptq", "bits": 4}, "(gptq, 4 bits)"),
        ({"quant_method": "awq", "w_bit": 4}, "(awq, 4 bits)"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False}, "(bitsandbytes, 4 bits)"),
        ({"load_in_8bit": True}, "(bitsandbytes, 8 bits)"),
        ({"quant_method": "fp8", "bits": True}, "(fp8)"),
        ({"quant_method": "mxfp4"}, "(mxfp4)"),
        ({"quant_method": "sparse", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}, "(sparse, 8 bits)"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": None}}, "(compressed-tensors)"),
        ({"quant_method": ["\x1b[2J"], "bits": "4"}, "(by a method that its config does not name)"),
        ({}, "(by a method that its config does not name)"),
        ("awq", "(its config does not say how)"),
        ([4], "(its config does not say how)"),
    ],
)
def test_a_quantized_checkpoint_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path, fields: Any, named: str) -> None:
    """One line: how its config says that it is quantized, what the rows are then, and what a run measures. Nonsense changes no figure."""
    plain = rows(capsys, config(tmp_path / "m"), "--memory", "1GB")
    model = config(tmp_path / "m", quantization_config=fields)
    (line,) = [one for one in said(capsys, model, "--memory", "1GB").splitlines() if "already quantized" in one]
    assert f"already quantized {named}: the rows are of its weights at those widths as if quantized from float" in line
    assert "a run measures the stored ones" in line
    found = document(capsys, model, "--memory", "1GB")
    assert line in found["notes"] and found["rows"] == plain


def test_nothing_is_said_of_a_float_checkpoint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No key, or null, is a float model; a multimodal config may hold the key in either place."""
    assert "quantized" not in said(capsys, config(tmp_path / "m", quantization_config=None), "--memory", "1GB")
    inner = {**LLAMA, "quantization_config": {"quant_method": "fp8"}}
    assert "(fp8)" in said(capsys, config(tmp_path / "m", text_config=inner), "--memory", "1GB")


def test_a_request_longer_than_the_model_was_made_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """--tokens itself over the config's context is a note; twice the tokens is told where that sentence stands."""
    model = config(tmp_path / "m")
    note = "A request of 4,097 tokens is longer than the model was made for: its config says 4,096."
    assert note in said(capsys, model, "--memory", "1GB", "--tokens", "4097")
    assert note in document(capsys, model, "--memory", "1GB", "--tokens", "4097")["notes"]
    found = said(capsys, model, "--memory", "1GB", "--tokens", "4096")
    assert "is longer than" not in found and "At 8,192 tokens (its config says it was made for 4,096)" in found


def test_a_state_is_in_no_cache_type(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A pure state-space model has no cache: no sentence says that its request is in fp8. Of a hybrid the state is told apart."""
    fields: dict[str, Any] = {"state_size": 16, "conv_kernel": 4, "expand": 2}
    pure = config(tmp_path / "m", model_type="mamba", **fields)
    found = said(capsys, pure, "--memory", "1GB", "--params", "1e8", "--kv", "fp8")
    told = found.splitlines()[6:]
    assert f"a request takes {4 * 96 * 20 * 2 / 1000:.1f} kB of state:" in found
    assert "bit, all of it state, and" in found
    assert told and "fp8" not in " ".join(told)
    hybrid = config(
        tmp_path / "m", model_type="jamba", attn_layer_period=2, attn_layer_offset=1, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2
    )
    assert "of it state and the rest in fp8" in said(capsys, hybrid, "--memory", "1GB", "--params", "1e8", "--kv", "fp8")


def test_the_document_says_what_was_asked_and_what_to_know(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Beside the rows: the number of weights, overhead, devices, block, context, lower bounds and the notes of the text."""
    model = config(tmp_path / "m", layer_types=["full_attention", "sliding_attention"] * 2, sliding_window=128)
    asked = "--memory 1GB --overhead 1MB --tokens 8192 --engine vllm --tensor-parallel 2 --weights 16"
    words = (model, *asked.split())
    found = document(capsys, *words)
    assert (found["overhead_bytes"], found["tensor_parallel"], found["block_tokens"]) == (10**6, 2, 16)
    assert (found["context_tokens"], found["parameters"]) == (4096, document(capsys, model, "--memory", "1GB")["parameters"])
    (row,) = found["rows"]
    assert row["kv_bytes_per_request_at_least"] == (2 * 8192 + 2 * 128) * 64 < row["kv_bytes_per_request"] == 4 * 8192 * 64
    assert any("vllm may reserve full pages" in one for one in found["notes"])
    assert said(capsys, *words).splitlines()[-len(found["notes"]) :] == found["notes"]
    by_hand = document(capsys, *TEXTBOOK)
    assert (by_hand["parameters"], by_hand["context_tokens"], by_hand["tensor_parallel"]) == (8_000_000_000, None, 1)


# ---------------------------------------------------------------------------------------------- speed and imports


def test_under_a_second_without_torch(tmp_path: Path) -> None:
    """The answer takes less than a second of processor time and loads no library beyond the standard one."""
    model = config(tmp_path / "m")
    code = (
        "import sys, time; from quantgate.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'torch', 'transformers', 'numpy', 'pydantic', 'yaml', 'mlflow'} & {name.split('.')[0] for name in sys.modules};"
        "print(sorted(heavy), time.process_time(), file=sys.stderr); sys.exit(code)"
    )
    words = [sys.executable, "-c", code, "ceiling", model, "--memory", "24GB"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    heavy, _, used_s = done.stderr.strip().rpartition(" ")
    assert heavy == "[]"
    assert float(used_s) < 1.0, time.monotonic()


# ---------------------------------------------------------------------------------------------- what cannot be answered


def textbook(*words: str) -> list[str]:
    """The textbook's flags without the memory, these in place of their own."""
    pairs = zip(TEXTBOOK[:-2:2], TEXTBOOK[1:-2:2], strict=True)
    return [*(word for flag, value in pairs if flag not in words for word in (flag, value)), *words]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "missing: --params, --layers, --hidden, --heads"),
        (["--params", "8e9", "--layers", "32"], "missing: --hidden, --heads"),
        (textbook("--layers", "0"), "--layers must be a whole number"),
        (textbook("--heads", "thirty"), "--heads must be a whole number"),
        (textbook("--params", "1.5"), "--params must be a whole number"),
        (textbook("--params", "nan"), "--params must be a whole number"),
        (textbook("--kv-heads", "5"), "multiple"),
        (textbook("--kv-heads", "64"), "multiple"),
        (textbook("--tokens", "0"), "--tokens"),
        (textbook("--weights", "9"), "weights of 9 bits"),
        (textbook("--weights", ","), "--weights is empty"),
        (textbook("--kv", "nvfp4_something"), "kv_cache_dtype 'nvfp4_something'"),
        (textbook("--kv", "fp8_ds_mla"), "latent"),
        (textbook("--kv", "q8_0", "--head-dim", "80"), "q8_0"),
        (textbook("--engine", "tgi"), "--engine 'tgi'"),
        (textbook("--block", "-1"), "--block"),
        (textbook("--overhead", "some"), "--overhead"),
        (textbook("--block", "-1"), "--block must not be negative"),
        (textbook("--params", "-8e9"), "--params must not be negative, found '-8e9'"),
        (textbook("--overhead", "-1GB"), "--overhead: '-1GB' is negative"),
        (textbook("--weights", "0"), "--weights: '0' is no known bit width; allowed are 2 to 8, 16 and 32"),
        (textbook("--weights", "4.5"), "--weights: '4.5' is no known bit width; allowed are 2 to 8, 16 and 32"),
        (textbook("--weights", "nf4"), "allowed are 2 to 8, 16 and 32"),
        (textbook("--weights", "1"), "allowed are 2 to 8, 16 and 32"),
        (textbook("--tensor-parallel", "5"), "5 devices"),
        (textbook("--tensor-parallel", "64"), "32 query heads cannot be divided evenly over 64 devices; possible"),
        (textbook("--tensor-parallel", "64"), "possible numbers of devices are 1, 2, 4, 8, 16, 32\n"),
        ([""], "the model's name is empty"),
        (["  "], "the model's name is empty"),
        (["owner/name@0123abc"], "give the id alone, owner/name, or for revision 0123abc"),
        (["owner/name@"], "give the id alone, owner/name"),
        (["/no/such/folder"], "/no/such/folder"),
        (["tests"], "no config.json"),
    ],
)
def test_what_cannot_be_answered_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], named: str) -> None:
    """One line that names the flag or the file, exit 2."""
    assert named in refused(capsys, *words, "--memory", "24GB")


@pytest.mark.parametrize(
    ("fields", "devices", "named"),
    [
        ({"num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584}, 8, "28 query heads"),
        ({"num_attention_heads": 71, "num_key_value_heads": 1, "hidden_size": 4544}, 8, "71 query heads"),
        ({"num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64}, 7, "128 query heads"),
        ({"num_attention_heads": 12, "num_key_value_heads": 6, "hidden_size": 96}, 4, "6 KV heads"),
    ],
)
def test_heads_that_devices_cannot_share(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, fields: dict[str, Any], devices: int, named: str
) -> None:
    """Query heads are divided, KV heads divided or repeated; else one line says which numbers of devices would do, and they do."""
    words = (config(tmp_path / "m", **fields), "--memory", "24GB", "--params", "1e9")
    found = refused(capsys, *words, "--tensor-parallel", str(devices))
    assert named in found and f"over {devices} devices" in found
    possible = found.rpartition(" are ")[2].strip().split(", ")
    assert possible[0] == "1" and str(fields["num_attention_heads"]) in possible
    for one in possible:
        rows(capsys, *words, "--tensor-parallel", one)


@pytest.mark.parametrize("words", [["--memory", "-1GB"], ["--memory=-1GB"], ["--memory", "-.5GB"], ["--memory", "-1"]])
def test_negative_memory_is_named_as_such(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """A minus is read as the value's, not as an option's."""
    found = refused(capsys, *TEXTBOOK[:-2], *words)
    assert found.startswith("quantgate: --memory: '-") and "is negative" in found


def test_memory_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names the flag and where it is explained, and no page of usage."""
    with pytest.raises(SystemExit) as ended:
        main(["ceiling", *TEXTBOOK[:-2]])
    assert ended.value.code == 2
    found = capsys.readouterr()
    assert (found.out, found.err.count("\n")) == ("", 1)
    assert "required: --memory; quantgate ceiling --help" in found.err


@pytest.mark.parametrize("size", ["", "0", "24 horses", "-1GB", "nan", "1e999GB"])
def test_memory_must_be_a_size(capsys: pytest.CaptureFixture[str], size: str) -> None:
    """A size that is none, or nothing, is refused."""
    assert "--memory" in refused(capsys, *TEXTBOOK[:-2], f"--memory={size}")


def test_a_model_and_numbers_by_hand_do_not_go_together(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Which of the two counts would be a guess."""
    assert "do not go together" in refused(capsys, config(tmp_path / "m"), "--layers", "3", "--memory", "1GB")


MALFORMED: dict[str, Any] = {
    "empty": b"",
    "not json": b"layers: 32",
    "cut": b'{"num_hidden_layers": 3',
    "a list": [LLAMA],
    "a number": 3,
    "a string": "llama",
    "null": None,
    "nothing": {},
    "binary": b"\x80\x04\x95\xff\xfe",
    "nested too deep": b'{"a":' * 100_000,
    "no layers": {"num_hidden_layers": "absent"},
    "no heads": {"num_attention_heads": "absent"},
    "no hidden": {"hidden_size": "absent"},
    "no vocabulary": {"vocab_size": "absent"},
    "no feed-forward": {"intermediate_size": "absent"},
    "null layers": {"num_hidden_layers": None},
    "null heads": {"num_attention_heads": None},
    "null vocabulary": {"vocab_size": None},
    "layers as text": {"num_hidden_layers": "32"},
    "heads as text": {"num_attention_heads": "four"},
    "hidden as a float": {"hidden_size": 64.5},
    "layers as a truth value": {"num_hidden_layers": True},
    "layers as an object": {"num_hidden_layers": {"value": 3}},
    "layers as a list": {"num_hidden_layers": [4]},
    "negative layers": {"num_hidden_layers": -4},
    "negative heads": {"num_attention_heads": -4},
    "zero heads": {"num_attention_heads": 0},
    "zero hidden": {"hidden_size": 0},
    "zero KV heads": {"num_key_value_heads": 0},
    "infinite hidden": b'{"num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 5, "hidden_size": Infinity}',
    "not a number": b'{"num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 5, "hidden_size": NaN}',
    "huge layers": {"num_hidden_layers": 10**15},
    "many layers": {"num_hidden_layers": 10**8},
    "huge hidden": {"hidden_size": 10**30},
    "huge head width": {"head_dim": 10**12},
    "head width does not divide": {"hidden_size": 66},
    "KV heads do not divide": {"num_key_value_heads": 3},
    "KV heads as text": {"num_key_value_heads": "2"},
    "text config is text": {"text_config": "llama"},
    "text config is a list": {"text_config": [LLAMA]},
    "text config is empty": {"text_config": {}},
    "layer types are text": {"layer_types": "full_attention"},
    "layer types too few": {"layer_types": ["full_attention"]},
    "layer types are numbers": {"layer_types": [1, 2, 3, 4]},
    "layer type is not known": {"layer_types": ["fourier"] * 4},
    "layer types nested": {"layer_types": [["full_attention"]] * 4},
    "window as text": {"sliding_window": "8"},
    "window without layers": {"sliding_window": 8},
    "latent without its rotary part": {"kv_lora_rank": 512},
    "state without layers": {"mamba_d_state": 16},
    "blocks nested oddly": {"block_configs": [3, 3, 3, 3]},
    "all layers shared": {"num_kv_shared_layers": 4},
    "an encoder": {"is_encoder_decoder": True},
    "a family that is not counted": {"model_type": "somebody_elses"},
    "model type as a list": {"model_type": ["llama"]},
}
"""Config files that are wrong in one way each: bytes as they stand, or fields of an otherwise good config."""


@pytest.mark.parametrize("fault", MALFORMED)
def test_a_malformed_config_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, fault: str) -> None:
    """Missing, null, text for numbers, negative, zero, huge, nested oddly or no JSON: one line that names the file, exit 2."""
    content = MALFORMED[fault]
    file = tmp_path / "config.json"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif isinstance(content, dict) and content:
        config(tmp_path, **content)
    else:
        file.write_text(json.dumps(content), encoding="utf-8")
    found = refused(capsys, str(tmp_path), "--memory", "24GB")
    assert str(file) in found and len(found) < 700
    assert "by hand: --params N --layers N" in found


def test_there_are_more_than_forty_of_them() -> None:
    """Each in a way of its own."""
    assert len(MALFORMED) > 40


def test_a_size_without_a_unit_is_asked_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    """24 bytes of memory is what nobody means."""
    words = ["ceiling", "--params", "8e9", "--layers", "32", "--hidden", "4096", "--heads", "32", "--memory", "24"]
    assert main(words) == 2
    assert "write 24GB or 24GiB" in capsys.readouterr().err
