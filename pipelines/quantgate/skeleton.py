"""The first files for somebody's own model: a commented config, a policy and the beginning of a golden set.

Knows what can be told of a model from its name and its config.json; loads no weights and asks no server. Nothing that is there is
overwritten. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from quantgate.errors import UsageError

HUB = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[0-9a-f]{7,40}))?")
COMMIT = re.compile(r"[0-9a-f]{40}")
GROUP = 64
PROMPT_TOKENS, OUTPUT_TOKENS = 256, 128


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """The model as a config names it, and what its config.json says; None where that is not at hand."""

    name: str
    lines: tuple[tuple[str, str], ...]
    """Key and value of the config's section ``model``, the name left out."""
    widths: tuple[int, ...] | None = None
    """Columns of its linear layers, as far as config.json tells."""
    context_tokens: int | None = None


# ---------------------------------------------------------------------------------------------- which model


def recognise(text: str, revision: str | None, into: Path) -> Model:
    """The model behind a folder, a GGUF file or a hub id. Raises ``UsageError`` for anything else, saying what is allowed."""
    path = Path(text).expanduser()
    if path.exists() and revision is not None:
        raise UsageError(f"{text} is on this machine, where --revision means nothing; leave it out")
    if path.is_dir():
        return _folder(path, into)
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise UsageError(f"{path} is neither a model folder nor a GGUF file; name one, or a hub id such as owner/name")
        return Model(name=allowed_name(path.stem), lines=(("path", _relative(path, into)),))
    return _hub(text, revision)


def _folder(path: Path, into: Path) -> Model:
    where = _relative(path, into)
    if (path / "config.json").is_file():
        found = _config(path / "config.json")
        if "quantization_config" in found:
            raise UsageError(f"{path} is quantized already; the reference is the unquantized model: name the one it was made from")
        name = allowed_name(path.resolve().name)
        return Model(name=name, lines=(("path", where),), widths=_widths(found), context_tokens=_context(found))
    files = sorted(one.name for one in path.glob("*.gguf"))
    if len(files) == 1:
        return Model(name=allowed_name(Path(files[0]).stem), lines=(("path", where), ("gguf_file", files[0])))
    what = f"{len(files)} GGUF files ({', '.join(files[:3])}): name one" if files else "neither config.json nor a GGUF file"
    raise UsageError(f"{path} is no model folder: it has {what}")


def _hub(text: str, revision: str | None) -> Model:
    match = HUB.fullmatch(text)
    if match is None:
        raise UsageError(f"there is no model at {text}; give a folder, a GGUF file, or a hub id as owner/name@COMMIT")
    commit = revision or match["revision"]
    if commit is None or not COMMIT.fullmatch(commit):
        found = "none was given" if commit is None else f"found '{commit}'"
        what = "a hub model needs the commit that is to be measured, 40 hexadecimal digits, from the model's page under 'Files'"
        raise UsageError(f"{what}: {text.partition('@')[0]}@COMMIT or --revision COMMIT; {found}")
    return Model(name=allowed_name(match["name"].split("/")[1]), lines=(("hub", match["name"]), ("revision", commit)))


def _config(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no model's config: it holds a {type(found).__name__}")
    inner = found.get("text_config")
    return {**found, **inner} if isinstance(inner, dict) else found


def _widths(found: dict[str, Any]) -> tuple[int, ...] | None:
    widths = tuple(found.get(key) for key in ("hidden_size", "intermediate_size"))
    return widths if all(type(one) is int and one > 0 for one in widths) else None  # type: ignore[return-value]


def _context(found: dict[str, Any]) -> int | None:
    tokens = found.get("max_position_embeddings")
    return tokens if type(tokens) is int and tokens > 1 else None


def allowed_name(text: str) -> str:
    """A name that configs allow."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("._-")[:64] or "my-model"


def _relative(path: Path, into: Path) -> str:
    return os.path.relpath(path.resolve(), into.resolve())


# ---------------------------------------------------------------------------------------------- the files


def files(model: Model, golden_set: str) -> dict[str, str]:
    """Relative path -> text of each file."""
    prompt, output = _lengths(model.context_tokens)
    even = model.widths is not None and all(width % GROUP == 0 for width in model.widths)
    lines = "\n".join(f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in model.lines)
    values = {
        "model": model.name,
        "lines": lines,
        "golden": golden_set,
        "prompt": str(prompt),
        "output": str(output),
        "control": f"group:{GROUP}" if even else "channel",
    }
    texts = {
        "run.yaml": _RUN,
        "policy.yaml": _POLICY,
        f"golden_sets/{golden_set}/v1/items.jsonl": _ITEMS,
        f"golden_sets/{golden_set}/v1/CARD.md": _CARD,
    }
    return {name: Template(text).substitute(values) for name, text in texts.items()}


def _lengths(context_tokens: int | None) -> tuple[int, int]:
    """Lengths of fills and timing that the model's context holds."""
    if context_tokens is None or context_tokens >= PROMPT_TOKENS + OUTPUT_TOKENS:
        return PROMPT_TOKENS, OUTPUT_TOKENS
    return max(1, context_tokens // 2), max(1, context_tokens // 4)


def write(texts: dict[str, str], into: Path) -> tuple[Path, ...]:
    """Write every file, or none where one is there already. Raises ``UsageError``."""
    there = [name for name in texts if (into / name).exists()]
    if there:
        raise UsageError(f"{into / there[0]} is there already and nothing is overwritten; choose another folder with --into DIR")
    try:
        for name, text in texts.items():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            with (into / name).open("x", encoding="utf-8", newline="") as stream:
                stream.write(text)
    except OSError as error:
        raise UsageError(f"cannot write into {into}: {error.strerror or error}") from error
    return tuple(into / name for name in texts)


_RUN = """\
# What is measured. Paths are relative to this file; an unknown or misspelt key is refused with its line.
#   quantgate run run.yaml
schema_version: 1

model:
  name: "$model"
$lines

device:
  kind: cpu                       # or cuda
  # threads: 4                    # left out: as many as the machine gives
  # memory_budget: 6GiB           # for weights, KV cache and activations; left out: all of the device

variants:
  - name: float                   # exactly one reference: the unquantized model, never the last champion
    role: reference
    quantizer: reference
  - name: int8                    # candidates compete; the one that passes and frees most goes forward
    quantizer: bitsandbytes
    bits: 8
    options: {threshold: 0.0}     # no outlier columns, so answers do not depend on the batch
  - name: nf4
    quantizer: bitsandbytes
    bits: 4
    granularity: group:64
    options: {format: nf4, double_quant: true}
  - name: rtn2                    # the known-bad control: a gate that was never seen to block proves nothing
    role: known_bad
    quantizer: rtn
    bits: 2
    granularity: $control

golden_sets: [golden_sets/$golden/v1]    # one or more; a candidate must pass on each
policy: policy.yaml

workload:                         # lengths of the fills and of the timed runs, not of the golden set
  prompt_tokens: $prompt
  output_tokens: $output
  batch_sizes: [1, 8]             # timed at these, and at each variant's own ceiling
  max_batch: 32                   # where the search for the ceiling stops
  quadruples: 2                   # timed blocks: reference, variant, variant, reference

out: reports
sinks: [folder, junit, mlflow, console]
promotion:
  registry: mlflow                # or local: one JSON file beside the reports
  alias: champion
"""

_POLICY = """\
# What must be shown before a variant may go out. Set it before anything is measured; its digest stands in every verdict.
#   quantgate policy explain policy.yaml --golden golden_sets/$golden/v1
schema_version: 1
name: "$golden"
why: >-
  Replace this by the reason for your margin: who would notice a loss of three points, and what would it cost them?

require: any                      # the best candidate that passes goes forward; all: every candidate must pass
correction: holm                  # several candidates are several chances to pass: stricter levels
alpha: 0.05                       # chance of a false pass for a variant that loses as much as the margin
minimum_items: 500                # a smaller golden set is not measured
objective: freed_bytes            # or ceiling, tokens_per_s_at_ceiling, smallest_loss
require_controls: true            # without a known-bad control the run is not measured

checks:
  - kind: quality
    golden_set: "*"
    margin: 0.03                  # 3 points: the largest loss that is allowed
  - kind: freed_share
    minimum: 0.25                 # of the weight memory, against the reference
  - kind: share_quantized
    minimum: 0.5
  - kind: output_length           # tokens written, against the reference's
    tier: advisory                # shown, decides nothing
    minimum: 0.9
    maximum: 1.1
"""

_ITEMS = """\
{"id": "replace-me-1", "slice": "facts", "prompt": "Q: What colour is a clear sky at noon?\\nA:", "template": "raw", \
"metric": "multiple_choice", "choices": ["blue", "green", "red"], "answer": 0}
{"id": "replace-me-2", "slice": "sums", "prompt": "How much is 17 + 25? Answer with the number only.", "template": "chat", \
"metric": "exact_match", "answers": ["42", "forty-two"], "stop": ["\\n"], "max_new_tokens": 8}
"""

_CARD = """\
# $golden v1

- Where the items come from:
- Licence:
- What the set is to show, and for whom:
- Slices and what each stands for:
- Known faults:
"""
