"""A report in MLflow's terms: names, figures, params, tags and tables. Pure: nothing is logged here.

A figure that was not measured is absent, and so is freed memory that was computed for a simulated variant.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mlflow.entities import Dataset, DatasetInput, InputTag

from quantgate.errors import QuantgateError
from quantgate.records import (
    MAIN,
    Check,
    GoldenRow,
    KLStatistics,
    MeasurementRow,
    Report,
    Scalar,
    SpeculationRow,
    Verdict,
)
from quantgate.render.figures import interval_figure, memory_figure
from quantgate.render.markdown import summary
from quantgate.render.speed import drawings

LONGEST_NAME = 250
LONGEST_NOTE = 4000
LONGEST_DATASET_NAME = 500
LONGEST_DATASET_DIGEST = 36

# --------------------------------------------------------------------------------------------------------------- names


def metric_name(original: str) -> str:
    """The name in MLflow's alphabet ``[A-Za-z0-9_./ -]``, reversible by ``original_name``; usual names stay.

    Any other character becomes ``_x<UTF-8 in hex>_``, and so do ``_`` before ``x`` and path parts that are
    empty, ``.`` or ``..``. A name past 250 characters is cut and ends in a digest: ``metric_names.json`` has it whole.
    """
    name = "/".join(_path_part(part) for part in original.split("/"))
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: LONGEST_NAME - 20].rstrip('/')}_xh{digest}_"


def original_name(name: str) -> str:
    """The inverse of ``metric_name``. Raises ``ValueError`` for a name that was cut: ``h`` is no hexadecimal digit."""
    return re.sub(r"_x(h?[0-9a-f]*)_", lambda found: bytes.fromhex(found[1]).decode(errors="surrogatepass"), name)


def metric_names(originals: Iterable[str]) -> dict[str, str]:
    """Original -> name in MLflow. Raises ``QuantgateError`` where two originals would share a name."""
    names: dict[str, str] = {}
    taken: dict[str, str] = {}
    for original in originals:
        name = metric_name(original)
        if taken.setdefault(name, original) != original:
            raise QuantgateError(f"metrics {taken[name]!r} and {original!r} would both be called {name!r} in MLflow")
        names[original] = name
    return names


def _path_part(part: str) -> str:
    """One part between slashes, escaped so that it is never empty, ``.`` or ``..``."""
    if part in {"", ".", ".."}:
        return "".join(map(_escape, part)) or "_x_"
    return re.sub(r"_(?=x)|[^A-Za-z0-9_. -]", lambda found: _escape(found[0]), part)


def _escape(character: str) -> str:
    """A character as ``_x<hex>_``."""
    return f"_x{character.encode(errors='surrogatepass').hex()}_"


# -------------------------------------------------------------------------------------------- what stands in the store


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One metric. ``step``: batch size for ``speed/*`` by batch, sample for ``system/*``, else 0. ``at_ms``: when, where known."""

    name: str
    value: float
    step: int = 0
    at_ms: int | None = None


_Raw = tuple[str, float | None, int]


def figures_of(report: Report, variant: str) -> tuple[Figure, ...]:
    """Every figure of one variant that was measured. Raises ``QuantgateError`` for NaN and infinity."""
    row, verdict = row_of(report, variant), _verdict(report, variant)
    quality = [*_quality(report, variant, verdict), *_readings(report, variant)]
    found = [*quality, *(_memory(row) if row else ()), *(_speed(row) if row else ()), *_batching(report, variant)]
    measured = [Figure(name=name, value=float(value), step=step) for name, value, step in found if value is not None]
    for figure in measured:
        if not math.isfinite(figure.value):
            raise QuantgateError(f"{figure.name} of '{variant}' is {figure.value}: an unknown figure must be absent")
    return tuple(measured)


def _quality(report: Report, variant: str, verdict: Verdict | None) -> Iterator[_Raw]:
    """Accuracy, divergence, and what the gate saw of each golden set. Loss is positive when worse."""
    for row in report.quality:
        if row.variant == variant:
            group = f"quality/{row.golden_set}"
            yield f"{group}/accuracy", row.accuracy, 0
            yield from ((f"{group}/metric/{one.metric.name}", one.value, 0) for one in row.figures)
            yield from _divergence(group, row.kl)
            yield f"{group}/empty_answers", row.empty if row.texts else None, 0
            yield f"{group}/refusal_like", row.refusals if row.texts else None, 0
    for check in _quality_checks(verdict):
        yield f"{check.name}/loss", check.estimate, 0
        yield f"{check.name}/loss_upper", check.bound, 0
        yield f"{check.name}/margin", check.margin, 0
        yield f"{check.name}/room", _room(check), 0
        yield f"{check.name}/flips_share", _flips_share(check), 0


def speculation_of(report: Report) -> tuple[Figure, ...]:
    """Speculative decoding, a figure of the run and of no variant; the step is the batch size."""
    found = [each for row in report.speculation for each in _speculation(row)]
    return tuple(Figure(name=name, value=float(value), step=step) for name, value, step in found if value is not None)


def _speculation(row: SpeculationRow) -> Iterator[_Raw]:
    group = f"levers/speculation/{row.drafter}"
    yield f"{group}/ceiling_alone", row.ceiling, 0
    yield f"{group}/ceiling_beside", row.ceiling_beside, 0
    yield f"{group}/draft_weight_bytes", row.draft_weight_bytes, 0
    yield f"{group}/loss_from_batch", row.loss_from_batch, 0
    for one in row.figures:
        each, batch = f"{group}/draft_{one.draft_tokens}", one.batch_size
        yield f"{each}/acceptance", one.acceptance, batch
        yield f"{each}/mean_length", one.mean_length, batch
        yield f"{each}/speed_ratio", one.speed_ratio, batch
        yield f"{each}/tokens_per_s", one.tokens_per_s, batch
        yield f"{each}/plain_tokens_per_s", one.plain_tokens_per_s, batch
        yield f"{each}/partings", one.partings, batch


def _readings(report: Report, variant: str) -> Iterator[_Raw]:
    """Perplexity and divergence over the run's texts; by position the step is the last token of the bin."""
    for row in report.readings:
        if row.variant == variant:
            group = f"divergence/{row.texts}"
            yield f"{group}/perplexity", row.perplexity, 0
            yield f"{group}/perplexity_ratio", row.ratio_to_reference, 0
            yield from _divergence(group, row.kl)
            for part in row.kl.by_position if row.kl else ():
                yield f"{group}/kl_mean_by_position", part.mean, part.last or 0


def _divergence(group: str, kl: KLStatistics | None) -> Iterator[_Raw]:
    if kl is None:
        return
    yield f"{group}/kl_mean", kl.mean, 0
    yield f"{group}/kl_median", kl.median, 0
    yield f"{group}/kl_p99", kl.p99, 0
    yield f"{group}/kl_p999", kl.p999, 0
    yield f"{group}/kl_max", kl.maximum, 0
    yield f"{group}/kl_standard_error", kl.standard_error, 0
    yield f"{group}/rms_probability_change", kl.rms_dp, 0
    yield f"{group}/top1_agreement", kl.top1_agreement, 0


def _quality_checks(verdict: Verdict | None) -> Iterable[Check]:
    """One quality check a golden set; where a policy has several, the required one."""
    found: dict[str, Check] = {}
    for check in sorted(verdict.checks if verdict else (), key=lambda check: check.tier != "required"):
        if check.name.startswith("quality/"):
            found.setdefault(check.name, check)
    return found.values()


def _room(check: Check) -> float | None:
    """What is left of the margin above the upper bound: a check that passes has some, one that does not has less than none."""
    return None if check.bound is None or check.margin is None else check.margin - check.bound


def _flips_share(check: Check) -> float | None:
    """Items whose correctness changed, either way, over all compared items."""
    return None if check.b is None or check.c is None or not check.n else (check.b + check.c) / check.n


def _memory(row: MeasurementRow) -> Iterator[_Raw]:
    """Weights and ceiling. Freed memory of a simulated variant is arithmetic and not published as measured."""
    yield "memory/weight_bytes", row.weight_bytes, 0
    yield "memory/share_quantized", row.share_quantized, 0
    if row.kv_bytes:
        yield "memory/kv_bytes_per_token", row.kv_bytes.measured_bytes / row.kv_bytes.tokens, 0
        yield "memory/kv_measured_over_arithmetic", row.kv_bytes.ratio, 0
        yield "memory/kv_freed_share", row.kv_bytes.freed_share, 0
    if not row.freed_simulated:
        yield "memory/freed_bytes", row.freed_bytes, 0
        yield "memory/freed_share", row.freed_share, 0
        yield "memory/kv_tokens_freed", row.kv_tokens_freed, 0
    if row.ceiling:
        yield "ceiling/predicted_batch", row.ceiling.predicted, 0
        yield "ceiling/confirmed_batch", row.ceiling.confirmed, 0
        yield "ceiling/prediction_error", row.ceiling.prediction_error, 0
        yield "ceiling/scoring_batch", row.ceiling.scoring, 0
        yield "ceiling/kv_bytes_per_request", row.ceiling.kv_bytes_per_row, 0


def _speed(row: MeasurementRow) -> Iterator[_Raw]:
    """Speed over batch size."""
    for speed in row.speed:
        yield "speed/ttft_s", speed.ttft_s, speed.batch_size
        yield "speed/tpot_s", speed.tpot_s, speed.batch_size
        yield "speed/output_tokens_per_s", speed.output_tokens_per_s, speed.batch_size
        yield "speed/ratio_to_reference", speed.ratio_to_reference, speed.batch_size
        yield "speed/ratio_low", speed.ratio_low, speed.batch_size
        yield "speed/ratio_high", speed.ratio_high, speed.batch_size
        yield "speed/cv", speed.cv, speed.batch_size
        yield "speed/quadruples", speed.quadruples or None, speed.batch_size
        yield "speed/itl_p99_s", speed.itl_p99_s, speed.batch_size
        yield "speed/prefill_tokens_per_s", speed.prefill_tokens_per_s, speed.batch_size
        yield "speed/end_to_end_tokens_per_s", speed.end_to_end_tokens_per_s, speed.batch_size
    yield "speed/tokens_per_s_at_ceiling", row.tokens_per_s_at_ceiling, 0
    yield "speed/ratio_at_ceiling", row.ratio_at_ceiling, 0
    for one in (each for each in row.roofline if each.workload == MAIN):
        yield "speed/mbu", one.mbu, one.batch_size
        yield "speed/mfu", one.mfu, one.batch_size
        yield "speed/prefill_mfu", one.prefill_mfu, one.batch_size
    if row.crossover is not None and row.crossover.kind == "crosses":
        yield "speed/crossover_batch", row.crossover.batch, 0
    if row.cost is not None:
        yield "cost/per_million_output_tokens", row.cost.per_million_tokens, 0
        yield "cost/ratio_to_reference", row.cost.ratio_to_reference, 0


def _batching(report: Report, variant: str) -> Iterator[_Raw]:
    """The continuous batching lever; under arrivals other than all at once the pattern is part of the name."""
    for row in report.batching:
        if row.variant != variant:
            continue
        pattern = "" if row.arrivals == "all at once" else f"/{row.arrivals}"
        group = f"levers/batching/{row.engine}/{row.mode}{pattern}"
        yield f"{group}/useful_tokens_per_s", row.useful_tokens_per_s, 0
        yield f"{group}/utilisation", row.utilisation, 0
        yield f"{group}/speed_ratio", row.speed_ratio, 0
        yield f"{group}/utilisation_gain", row.utilisation_gain, 0
        yield f"{group}/itl_p99_ratio", row.itl_p99_ratio, 0
        yield f"{group}/preemptions", row.preemptions, 0
        yield f"{group}/other_ids", row.differing, 0
        for name, tail in (("ttft", row.ttft), ("itl", row.itl), ("queued", row.queued)):
            for share in ("p50", "p90", "p99"):
                yield f"{group}/{name}_{share}_s", None if tail is None else getattr(tail, f"{share}_s"), 0


def params_of(report: Report, variant: str | None) -> dict[str, str]:
    """What was asked for: of the run, and with ``variant`` of that one as well. What is unknown is absent."""
    row = row_of(report, variant)
    bits, granularity = scheme_parts(row.scheme) if row else (None, None)
    found = {
        "model": report.model,
        "device": report.device.name if report.device else None,
        "golden_set": ", ".join(f"{golden.name} {golden.version}" for golden in report.golden_sets) or None,
        "policy_sha256": report.policy_sha256,
        "quantizer": row.quantizer if row else None,
        "scheme": row.scheme if row else None,
        "bits": bits,
        "granularity": granularity,
        "dtype": row.dtype if row else None,
        "kv_cache": row.kv_cache.scheme if row and row.kv_cache else None,
        "price_per_hour": f"{report.price.per_hour:g} {report.price.currency}" if report.price else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def scheme_parts(scheme: str) -> tuple[str | None, str | None]:
    """Bits and granularity of ``w4a16-g64`` and its like: ``("4", "group:64")``; a float variant has neither."""
    found = re.fullmatch(r"w(\d+)a\d+(?:-(channel)|-g(.+?))?(?:-kv\d+)?", scheme)
    if found is None:
        return None, None
    return found[1], found[2] or (f"group:{found[3]}" if found[3] else "tensor")


def run_tags(report: Report, folder: Path | None) -> dict[str, str]:
    """Tags of the parent run; the folder's place where it is given."""
    promoted = bool(report.promotion and report.promotion.promoted)
    return {
        **_common_tags(report, promoted),
        "quantgate.kind": "run",
        **({"quantgate.folder": str(folder.absolute())} if folder else {}),
        "outcome": report.outcome,
        "verdict": report.outcome,
        "exit_code": str(report.exit_code),
        **({"limit": report.diagnosis.limit} if report.diagnosis else {}),
        "mlflow.note.content": _note(summary(report), *report.sentences),
    }


def variant_tags(report: Report, variant: str, parent: str) -> dict[str, str]:
    """Tags of a variant's run under the run ``parent``."""
    row, verdict, promotion = row_of(report, variant), _verdict(report, variant), report.promotion
    promoted = bool(promotion and promotion.promoted and promotion.variant == variant)
    role = verdict.role if verdict else row.role if row else None
    control_ok = verdict.control_ok if verdict else None
    found = {
        **_common_tags(report, promoted),
        "quantgate.kind": "variant",
        "quantgate.variant": variant,
        "mlflow.parentRunId": parent,
        "role": role,
        "verdict": verdict.outcome if verdict and role != "reference" else None,
        "control_ok": None if control_ok is None else _yes(control_ok),
        "freed_simulated": "true" if row and row.freed_simulated else None,
        "mlflow.note.content": _note(verdict.because if verdict else "", row.note if row else ""),
    }
    return {name: value for name, value in found.items() if value is not None}


def _common_tags(report: Report, promoted: bool) -> dict[str, str]:
    """Tags of every run."""
    return {
        "mlflow.source.name": report.run_id,
        "mlflow.source.type": "LOCAL",
        **({"mlflow.source.git.commit": report.fingerprint.commit} if report.fingerprint.commit else {}),
        "quantgate.run_id": report.run_id,
        "quantgate.version": report.fingerprint.quantgate_version,
        "evidence_sha256": report.evidence_sha256,
        "policy_sha256": report.policy_sha256,
        "promoted": _yes(promoted),
    }


def _yes(value: bool) -> str:
    """A truth value as tags spell it."""
    return "true" if value else "false"


def _note(*sentences: str) -> str:
    """The description of a run in the UI."""
    text = storable("\n\n".join(sentence for sentence in sentences if sentence))
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"


def variants_of(report: Report) -> tuple[str, ...]:
    """Every variant that was measured or judged, in the report's order."""
    named = [*(row.variant for row in report.measurements), *(verdict.variant for verdict in report.verdicts)]
    return tuple(dict.fromkeys(named))


def row_of(report: Report, variant: str | None) -> MeasurementRow | None:
    """The variant's measurements, None where there are none."""
    return next((row for row in report.measurements if row.variant == variant), None)


def _verdict(report: Report, variant: str) -> Verdict | None:
    """The variant's verdict, None where it was not judged."""
    return next((verdict for verdict in report.verdicts if verdict.variant == variant), None)


# ------------------------------------------------------------------------------------------------------ per-item table


_FLIPS = ("lost", "gained", "")


def table_of(report: Report, variant: str, folder: Path) -> dict[str, list[Scalar]]:
    """Small columns, one row an item: every item from the folder, or the flips where the folder has no scores.

    Beside an item's score stands the reference's, and whether the item was lost or gained: scores are turned so that larger is better.
    What was lost comes first, then what was gained.
    """
    reference = next((row.variant for row in report.measurements if row.role == "reference"), None)
    base = {} if reference in (None, variant) else {_item(row): row["value"] for row in _scores(folder, str(reference))}
    items = sorted((_beside(row, base) for row in _scores(folder, variant)), key=lambda row: _FLIPS.index(str(row.get("flip", ""))))
    rows = items or list(_flip_rows(report, variant))
    return {column: [row.get(column) for row in rows] for column in (rows[0] if rows else ())}


def _scores(folder: Path, variant: str) -> list[dict[str, Scalar]]:
    """Every item of a variant, from its files."""
    files = sorted((folder / "variants" / variant / "scores").glob("*.jsonl"))
    return [row for file in files for row in _score_rows(file)]


def _item(row: dict[str, Scalar]) -> tuple[Scalar, Scalar]:
    return row["golden_set"], row["item_id"]


def _beside(row: dict[str, Scalar], base: dict[tuple[Scalar, Scalar], Scalar]) -> dict[str, Scalar]:
    """A row with the reference's score of the same item; without a reference as it is."""
    if not base:
        return row
    ours, theirs = row["value"], base.get(_item(row))
    known = isinstance(ours, int | float) and isinstance(theirs, int | float)
    flip = "" if not known or ours == theirs else "lost" if ours < theirs else "gained"  # type: ignore[operator]
    first = {"golden_set": row["golden_set"], "item_id": row["item_id"], "flip": flip, "value": ours, "reference_value": theirs}
    return {**first, **row}


def _score_rows(file: Path) -> Iterator[dict[str, Scalar]]:
    """The items of one score sheet; lines without an item id (a heading) are no items."""
    for line in file.read_text(encoding="utf-8").splitlines():
        item = json.loads(line) if line.strip() else {}
        if "item_id" in item:
            columns = ("item_id", "slice", "value", "why_unscored", "answered", "expected")
            yield {"golden_set": file.stem, **{column: _cell(item.get(column)) for column in columns}}


def _flip_rows(report: Report, variant: str) -> Iterator[dict[str, Scalar]]:
    """The variant's flips, without their prompts."""
    columns = ("golden_set", "item_id", "slice", "direction", "severity", "expected")
    answers = ("reference_answer", "variant_answer")
    for flip in report.flips:
        if flip.variant == variant:
            yield {column: _cell(getattr(flip, column)) for column in (*columns, *answers)}


def _cell(value: Scalar) -> Scalar:
    """A table cell that can be written as JSON."""
    return storable(value) if isinstance(value, str) else value


def pictures(report: Report) -> dict[str, str]:
    """File name -> SVG of each figure of the page that has something to show, with a size of its own: the UI gives it none."""
    drawn = {f"loss-{metric_name(golden.name)}": interval_figure(report, golden.name) for golden in report.golden_sets}
    drawn |= {"memory": memory_figure(report), **drawings(report)}
    return {f"{name}.svg": _sized(svg) for name, svg in drawn.items() if svg.lstrip().startswith("<svg")}


def _sized(svg: str) -> str:
    """Width and height as its view box has them."""
    return re.sub(r'viewBox="0 0 (\S+) (\S+)"', r'width="\1" height="\2" \g<0>', svg, count=1)


def storable(text: str) -> str:
    """The text as every database takes it: no lone surrogates, no NUL; a model's output may hold both."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def dataset_of(golden: GoldenRow) -> DatasetInput:
    """The golden set as a run's input. MLflow holds 36 characters of a digest: the whole one is in source and tag."""
    about = {"name": golden.name, "version": golden.version, "sha256": golden.sha256}
    dataset = Dataset(
        name=f"{golden.name} {golden.version}"[:LONGEST_DATASET_NAME],
        digest=golden.sha256[:LONGEST_DATASET_DIGEST],
        source_type="code",
        source=json.dumps({"tags": about}),
        profile=json.dumps({"num_rows": golden.items, "slices": len(golden.slices)}),
    )
    tags = [InputTag(key="mlflow.data.context", value="eval"), InputTag(key="sha256", value=golden.sha256)]
    return DatasetInput(dataset=dataset, tags=tags)
