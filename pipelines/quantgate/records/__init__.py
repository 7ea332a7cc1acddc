"""The nouns that flow through quantgate: frozen, plain, standard library only.

``Variant -> Artifact -> Loaded + Capacity + Generation (raw step times) + ScoreSheet (per item) -> Check -> Verdict -> Report``

Facts are stored, figures are derived as properties. Units live in names: ``_s`` seconds, ``_bytes`` bytes, ``_tokens`` tokens,
``_per_s`` per second, ``_share`` a fraction of one. Unknown is ``None`` with a reason beside it, never 0, -1, infinity or NaN.
Digests are lower-case hexadecimal SHA-256. Mappings appear only where the keys belong to a plugin or to a reader of the record.
"""

from quantgate.records.artifacts import (
    Artifact as Artifact,
    LayerShape as LayerShape,
    Loaded as Loaded,
    ModelShape as ModelShape,
    ModuleLeft as ModuleLeft,
    Proof as Proof,
    WeightsUsed as WeightsUsed,
)
from quantgate.records.asked import (
    MAIN as MAIN,
    BatchPlan as BatchPlan,
    Budget as Budget,
    Calibration as Calibration,
    DeviceConfig as DeviceConfig,
    DivergenceConfig as DivergenceConfig,
    KVBytes as KVBytes,
    KVCache as KVCache,
    ModelSource as ModelSource,
    Price as Price,
    Role as Role,
    Scalar as Scalar,
    TimingConfig as TimingConfig,
    Variant as Variant,
    Workload as Workload,
)
from quantgate.records.baselines import (
    Baseline as Baseline,
    BaselineEvidence as BaselineEvidence,
    BaselineLimits as BaselineLimits,
    BaselineMark as BaselineMark,
    BaselinePast as BaselinePast,
    BaselineSet as BaselineSet,
)
from quantgate.records.batching import (
    ArrivalKind as ArrivalKind,
    Arrivals as Arrivals,
    AskedRequest as AskedRequest,
    BatchingConfig as BatchingConfig,
    BatchingEngine as BatchingEngine,
    BatchingMode as BatchingMode,
    BatchingRun as BatchingRun,
    DrawnRequests as DrawnRequests,
    FirstDifference as FirstDifference,
    Lengths as Lengths,
    ServedRequest as ServedRequest,
)
from quantgate.records.comparison import (
    Comparison as Comparison,
    FigureChange as FigureChange,
    SetChange as SetChange,
    VariantChange as VariantChange,
)
from quantgate.records.devices import (
    DeviceInfo as DeviceInfo,
    DeviceState as DeviceState,
    RoofRate as RoofRate,
    Roofs as Roofs,
)
from quantgate.records.divergence import (
    CanaryReading as CanaryReading,
    Distributions as Distributions,
    KLPart as KLPart,
    KLStatistics as KLStatistics,
    TextReading as TextReading,
)
from quantgate.records.evidence import (
    Evidence as Evidence,
    GoldenPart as GoldenPart,
    GoldenReference as GoldenReference,
    Opened as Opened,
    VariantEvidence as VariantEvidence,
)
from quantgate.records.golden import (
    Better as Better,
    ChatMessage as ChatMessage,
    DatasetSource as DatasetSource,
    GoldenItem as GoldenItem,
    GoldenSet as GoldenSet,
    HarnessSource as HarnessSource,
    MetricInfo as MetricInfo,
    Scale as Scale,
)
from quantgate.records.leverrows import (
    BatchingRow as BatchingRow,
    ScheduleBar as ScheduleBar,
    SpeculationFigures as SpeculationFigures,
    SpeculationRow as SpeculationRow,
    Tail as Tail,
    Trial as Trial,
)
from quantgate.records.levers import (
    Levers as Levers,
)
from quantgate.records.memory import (
    OPEN_ENDED as OPEN_ENDED,
    Capacity as Capacity,
    FillOutcome as FillOutcome,
    FillPurpose as FillPurpose,
    LimitedBy as LimitedBy,
    PeakMemory as PeakMemory,
    Probe as Probe,
    ScoringCeiling as ScoringCeiling,
)
from quantgate.records.nights import (
    Night as Night,
    Trend as Trend,
    TrendChange as TrendChange,
    Trended as Trended,
    TrendPoint as TrendPoint,
    TrendSeries as TrendSeries,
)
from quantgate.records.policy import (
    NEVER_WAIVED as NEVER_WAIVED,
    UNDATED as UNDATED,
    Canary as Canary,
    Check as Check,
    CheckRule as CheckRule,
    Decision as Decision,
    Outcome as Outcome,
    Policy as Policy,
    Sequential as Sequential,
    Tier as Tier,
    Verdict as Verdict,
    Waiver as Waiver,
)
from quantgate.records.report import (
    BaselineReport as BaselineReport,
    BaselineRow as BaselineRow,
    Promotion as Promotion,
    Report as Report,
)
from quantgate.records.results import (
    ReadOptions as ReadOptions,
    Results as Results,
    TaskResults as TaskResults,
)
from quantgate.records.rows import (
    CeilingRow as CeilingRow,
    CostRow as CostRow,
    Crossover as Crossover,
    FlipCount as FlipCount,
    FlipRow as FlipRow,
    GoldenRow as GoldenRow,
    MeasurementRow as MeasurementRow,
    QualityRow as QualityRow,
    ReadingRow as ReadingRow,
    RooflineRow as RooflineRow,
    SliceRow as SliceRow,
    SpeedRow as SpeedRow,
)
from quantgate.records.runs import (
    Failure as Failure,
    Fingerprint as Fingerprint,
    RunInfo as RunInfo,
)
from quantgate.records.scores import (
    ItemEvidence as ItemEvidence,
    ItemScore as ItemScore,
    MetricFigure as MetricFigure,
)
from quantgate.records.scoresheet import (
    EarlyStop as EarlyStop,
    ScoreSheet as ScoreSheet,
)
from quantgate.records.serving import (
    ChoiceLogProbs as ChoiceLogProbs,
    Counters as Counters,
    EngineSettings as EngineSettings,
    PreparedBatching as PreparedBatching,
    Request as Request,
    Served as Served,
    Serving as Serving,
    ServingSettings as ServingSettings,
    Step as Step,
)
from quantgate.records.signoff import (
    FileDigest as FileDigest,
    Signatory as Signatory,
    SignedFacts as SignedFacts,
    SignedGolden as SignedGolden,
    SignedVerdict as SignedVerdict,
    SignOff as SignOff,
    SignOffDecision as SignOffDecision,
)
from quantgate.records.speculation import (
    Drafter as Drafter,
    Parting as Parting,
    SpeculationConfig as SpeculationConfig,
    SpeculationPass as SpeculationPass,
    SpeculationRun as SpeculationRun,
)
from quantgate.records.speed import (
    DecodeTime as DecodeTime,
    Generation as Generation,
    LeftOut as LeftOut,
    Quadruple as Quadruple,
    SpeedPoint as SpeedPoint,
    SpeedRun as SpeedRun,
    Timed as Timed,
    TimedOutcome as TimedOutcome,
    decode_rates as decode_rates,
)
