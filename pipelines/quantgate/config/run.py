"""Run configs: YAML -> ``RunConfig``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from quantgate.config import rules, translate
from quantgate.config.document import Document
from quantgate.config.policy import load_policy
from quantgate.config.run_sections import RunSection
from quantgate.config.translate import BaselineConfig
from quantgate.records import (
    BatchPlan,
    Budget,
    DatasetSource,
    DeviceConfig,
    DivergenceConfig,
    HarnessSource,
    Levers,
    ModelSource,
    Policy,
    Price,
    TimingConfig,
    Variant,
    Workload,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """One run as asked for: everything validated, every path absolute."""

    path: Path
    model: ModelSource
    device: DeviceConfig
    engine: str
    executor: str
    variants: tuple[Variant, ...]
    golden_sets: tuple[Path | DatasetSource | HarnessSource, ...]
    policy_path: Path
    policy: Policy
    workload: Workload
    batch_plan: BatchPlan
    divergence: DivergenceConfig | None
    levers: Levers
    out: Path
    cache: Path
    sinks: tuple[str, ...]
    registry: str
    tracking_uri: str
    experiment: str
    registered_model: str
    alias: str
    challenger: str | None
    artifacts: str | None
    system_metrics: bool
    provenance: Literal["machine", "fixed"]
    run_id: str | None
    workloads: tuple[Workload, ...] = ()
    """Further lengths at which speed is measured."""
    timing: TimingConfig = field(default_factory=TimingConfig)
    baseline: BaselineConfig | None = None
    price: Price | None = None
    budget: Budget | None = None

    @property
    def reference(self) -> Variant:
        """The one variant of role ``reference``."""
        return next(variant for variant in self.variants if variant.role == "reference")

    @property
    def candidates(self) -> tuple[Variant, ...]:
        """The variants that compete for promotion."""
        return tuple(variant for variant in self.variants if variant.role == "candidate")


def load_run(path: Path) -> RunConfig:
    """Read a run config and the policy it names. Raises ``ConfigError`` or ``UnknownPlugin``; reads no model."""
    document = Document.read(path)
    raw = document.parse(RunSection)
    base = path.resolve().parent
    rules.check_sources(raw, document)
    rules.check_variants(raw, document, base)
    rules.check_calibration(raw, document)
    rules.check_names(raw, document)
    rules.check_provenance(raw, document)
    rules.check_golden_sets(raw, document)
    rules.check_texts(raw, document, base)
    rules.check_baseline(raw, document)
    rules.check_batching(raw, document)
    rules.check_speculation(raw, document, base)
    policy_path = translate.resolved(base, raw.policy)
    policy = load_policy(policy_path)
    rules.check_chances(raw, policy, policy_path)
    rules.check_candidates(raw, policy, policy_path)
    rules.check_workloads(raw, document, policy, policy_path)
    rules.check_cost(raw, policy, policy_path)
    return RunConfig(
        path=path.resolve(),
        model=translate.model_source(raw.model, base),
        device=translate.device(raw.device, document),
        engine=raw.engine,
        executor=raw.executor,
        variants=tuple(translate.variant(one, base, raw.calibration) for one in raw.variants),
        golden_sets=tuple(translate.golden_set(one, base) for one in raw.golden_sets),
        policy_path=policy_path,
        policy=policy,
        workload=translate.workload(raw.workload, document),
        workloads=tuple(translate.other_workload(one, raw.workload) for one in raw.workloads),
        timing=translate.timing(raw.timing, document),
        batch_plan=BatchPlan(**raw.scoring.model_dump()),
        divergence=None if raw.divergence is None else translate.divergence(raw.divergence, base, document),
        levers=Levers(
            batching=None if raw.levers.batching is None else translate.batching(raw.levers.batching, raw, base),
            speculation=None if raw.levers.speculation is None else translate.speculation(raw.levers.speculation, base),
        ),
        out=translate.resolved(base, raw.out),
        cache=translate.cache(raw.cache, base),
        sinks=tuple(raw.sinks),
        registry=raw.promotion.registry,
        tracking_uri=translate.tracking_uri(raw.mlflow.tracking_uri, base, translate.resolved(base, raw.out)),
        experiment=raw.mlflow.experiment,
        registered_model=raw.promotion.model or raw.model.name,
        alias=raw.promotion.alias,
        challenger=raw.promotion.challenger,
        artifacts=translate.artifacts(raw.mlflow.artifacts, base),
        system_metrics=raw.mlflow.system_metrics,
        provenance=raw.provenance,
        run_id=raw.run_id,
        baseline=None if raw.baseline is None else translate.baseline(raw.baseline, base),
        price=translate.price(raw, document),
        budget=None if raw.budget is None else Budget(**raw.budget.model_dump()),
    )
