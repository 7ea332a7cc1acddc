"""The nouns that flow through quantgate: frozen, plain, standard library only.

``Variant -> Artifact -> Loaded + Capacity + Generation (raw step times) + ScoreSheet (per item) -> Check -> Verdict -> Report``

Facts are stored, figures are derived as properties. Units live in names: ``_s`` seconds, ``_bytes`` bytes, ``_tokens`` tokens,
``_per_s`` per second, ``_share`` a fraction of one. Unknown is ``None`` with a reason beside it, never 0, -1, infinity or NaN.
Digests are lower-case hexadecimal SHA-256. Mappings appear only where the keys belong to a plugin or to a reader of the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from math import exp, fsum, isfinite
from pathlib import PurePath
from statistics import fmean, geometric_mean, median, stdev
from typing import Literal, TypeAlias

from quantgate.symptoms import Diagnosis

Scalar: TypeAlias = str | int | float | bool | None
Role: TypeAlias = Literal["reference", "candidate", "identity", "known_bad"]
Outcome: TypeAlias = Literal["pass", "fail", "inconclusive", "not_measured"]
Tier: TypeAlias = Literal["required", "advisory"]
OPEN_ENDED = ("search cap", "time")
"""What ends a search for a ceiling before a batch fails: the batch that held is at least so much, and no maximum."""
FillOutcome: TypeAlias = Literal["fits", "over budget", "out of memory", "too short", "out of time"]
FillPurpose: TypeAlias = Literal["prefill", "decode", "probe", "confirm"]
LimitedBy: TypeAlias = Literal["memory", "engine", "search cap", "time"]
Scale: TypeAlias = Literal["binary", "unit", "unbounded"]
"""What scores are: right or wrong (1 or 0), graded in [0, 1], any finite number."""
Better: TypeAlias = Literal["higher", "lower"]
TimedOutcome: TypeAlias = Literal["timed", "out of memory", "out of time", "died"]
MAIN = "main"
"""Name of the run's own workload, at whose lengths the batch ceiling is confirmed."""


# ---------------------------------------------------------------------------------------------- what is asked for


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSource:
    """Where the model comes from: exactly one of ``path`` (folder or GGUF file), ``hub`` or ``package`` is given."""

    name: str
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    """Commit of the hub repository; a hub source without one is refused."""
    package: str | None = None
    """Name of an installed Python distribution that carries the model file."""
    gguf_file: str | None = None
    """File name or glob pattern inside ``path``, ``hub`` or ``package``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """The texts that a quantizer sees: a file, or rows of a dataset at a stated revision; counted in tokens of the model's tokenizer."""

    name: str
    path: str | None = None
    """JSON lines with ``text`` or ``messages``, or plain text with empty lines between texts."""
    dataset: str | None = None
    config: str | None = None
    revision: str | None = None
    split: str = "train"
    column: str = "text"
    tokens: int = 8192
    seed: int = 0
    """Order in which texts are taken."""
    sha256: str = ""
    """Digest of the texts as they were read; empty until they were."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KVCache:
    """A cache of keys and values in fewer bits: groups of a head's vector with a scale and an offset each, in the model's float type.

    What a prompt leaves is stored so at once. Tokens written since stay in float until there are ``residual_tokens`` of them.
    """

    bits: int
    backend: str = "torch"
    residual_tokens: int = 128

    @property
    def scheme(self) -> str:
        """``kv4``."""
        return f"kv{self.bits}"


@dataclass(frozen=True, kw_only=True, slots=True)
class KVBytes:
    """The cache of one request as it was found in memory after load, beside what arithmetic says of it."""

    tokens: int
    """Tokens of the request that was read."""
    measured_bytes: int
    arithmetic_bytes: int
    """Blocks with their scales and offsets, and the last tokens in float."""
    float_bytes: int
    """The same tokens in a cache of the model's float type; arithmetic."""

    @property
    def ratio(self) -> float:
        """Measured over arithmetic: 1 where the layout is understood."""
        return self.measured_bytes / self.arithmetic_bytes

    @property
    def freed_share(self) -> float:
        """Share of the float cache's bytes that is not needed."""
        return 1 - self.measured_bytes / self.float_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One way of storing the model: ``quantizer + bits + granularity + options``, and of keeping its cache."""

    name: str
    quantizer: str
    role: Role = "candidate"
    weight_bits: int | None = None
    granularity: str = "tensor"
    """``tensor``, ``channel`` or ``group:<size>``."""
    options: Mapping[str, Scalar] | None = None
    interpreter: str | None = None
    """Path of another Python that builds and loads this variant; None: the one that runs quantgate."""
    calibration: Calibration | None = None
    """What its quantizer learns from; None where it needs nothing."""
    measure: Literal["all", "quality"] = "all"
    """``quality``: loaded and scored, neither filled nor timed."""
    kv_cache: KVCache | None = None
    """None: the cache is kept in the model's float type."""

    @property
    def scheme(self) -> str:
        """Short name of weight and activation widths, for example ``w4a16-g64``; ``float`` for unquantized weights.

        A cache in fewer bits is added: ``w4a16-g64-kv4``, ``float-kv8``.
        """
        cache = "" if self.kv_cache is None else f"-{self.kv_cache.scheme}"
        if self.weight_bits is None:
            return f"float{cache}"
        suffix = {"tensor": "", "channel": "-channel"}.get(self.granularity, f"-g{self.granularity.removeprefix('group:')}")
        return f"w{self.weight_bits}a16{suffix}{cache}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Lengths and batch sizes of fills and timing. Fixed-length runs suppress the end-of-sequence token."""

    prompt_tokens: int = 64
    output_tokens: int = 64
    batch_sizes: tuple[int, ...] = (1, 8)
    max_batch: int = 64
    """Search cap of the ceiling; a ceiling that reaches it is ``>= cap``, not a maximum."""
    fill_repeats: int = 3
    fill_budget_s: float = 900.0
    """Wall clock of one variant's search for its ceiling; one that it ends is ``>= what held``, as at the cap."""
    warmups: int = 1
    quadruples: int = 1
    """Quadruples reference, variant, variant, reference at each of the batch sizes and at the ceilings; a policy may ask for more."""
    name: str = MAIN


@dataclass(frozen=True, kw_only=True, slots=True)
class TimingConfig:
    """How much is timed."""

    budget_s: float | None = 1200.0
    """For all timing of a run, shared evenly by the variants still to come; None: no limit."""
    most_quadruples: int = 32
    """Where a policy's check on speed stays open: up to so many."""
    sweep: bool = True
    """Time batch sizes 1, 2, 4, ... up to each one's ceiling besides those asked for."""
    processes: Literal["fresh", "kept"] = "fresh"
    """Whether every quadruple that a policy decides on is timed by processes of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafter:
    """Who drafts tokens for the reference: its own prompt's n-grams, a variant of the run, or another model."""

    kind: Literal["prompt_lookup", "self", "model"]
    variant: str | None = None
    """self: the variant that drafts."""
    model: ModelSource | None = None

    @property
    def name(self) -> str:
        """What reports and checks call it: ``prompt_lookup``, ``self:nf4``, ``model:small``."""
        of = self.variant if self.model is None else self.model.name
        return self.kind if of is None else f"{self.kind}:{of}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationConfig:
    """How speculative decoding of the reference is measured: greedy, every drafter with every number of drafted tokens at every batch."""

    drafters: tuple[Drafter, ...]
    draft_tokens: tuple[int, ...] = (2, 4, 8)
    batch_sizes: tuple[int, ...] = (1,)
    golden_set: str | None = None
    """The golden set whose items that are answered in words give the prompts; or ``path``."""
    path: str | None = None
    """A file of prompts: JSON lines with ``text`` or ``messages``, or plain text with empty lines between them."""
    max_prompts: int = 16
    output_tokens: int = 48
    repeats: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Levers:
    """What a run tries besides quantization; None: not tried."""

    batching: BatchingConfig | None = None
    speculation: SpeculationConfig | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceConfig:
    """The device asked for. ``memory_budget_bytes`` bounds weights, KV cache and activations; None: the device's own size."""

    kind: str = "cpu"
    threads: int | None = None
    memory_budget_bytes: int | None = None
    index: int = 0
    uuid: str | None = None
    """A GPU or MIG slice by its UUID, instead of ``index``."""
    dtype: str | None = None
    """Type of float weights, activations and cache. None: the checkpoint's own on a GPU, float32 on a CPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchPlan:
    """How golden items are put into batches: identical for the reference and every variant, part of each score's digest."""

    token_budget: int = 2048
    """Largest rows x padded length of one batch of generated answers; for choices, most tokens that its items cost one by one."""
    max_rows: int = 16
    order: Literal["length", "shared"] = "shared"
    """``length``: by descending prompt length. ``shared``: items with choices in the order of their prompts' ids, so that prompts with a
    common beginning meet, and generated answers by descending length. Ties by position in the golden set."""


# ---------------------------------------------------------------------------------------------- golden sets


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatMessage:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenItem:
    """One question with what is right about it. Multiple choice: ``choices`` and ``answer``; generated: ``answers`` or ``references``."""

    item_id: str
    slice: str
    prompt: str
    metric: str
    cluster: str | None = None
    few_shot: str = ""
    template: Literal["raw", "chat", "auto"] = "auto"
    """``auto``: chat where the model's tokenizer has a chat template, else raw."""
    choices: tuple[str, ...] = ()
    answer: int | None = None
    answers: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    max_new_tokens: int = 12
    line: int = 0
    """Line of the file the item was read from, for messages."""
    messages: tuple[ChatMessage, ...] = ()
    """The conversation to go on with; ``prompt`` then holds it as a person reads it, a turn a line."""
    references: tuple[str, ...] = ()
    """Texts that a graded metric compares with."""
    weight: float = 1.0
    """Share of the item in displayed means; the paired decision needs equal weights."""
    options: Mapping[str, Scalar | tuple[str, ...]] = field(default_factory=dict, hash=False)
    """What the item's metric wants to know, for example a pattern or a tolerance; a JSON object is held as its text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetSource:
    """A golden set made from rows of a dataset: a local file (CSV, JSON, JSON Lines, Parquet) or a pinned one of the hub."""

    name: str
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    """Commit of the hub's repository; a hub source without one is refused."""
    config: str | None = None
    """Name of a configuration (subset) of the hub's dataset."""
    split: str = "train"
    """The library calls all rows of a local file ``train``."""
    columns: Mapping[str, str | tuple[str, ...]]
    """Key of an item -> column that holds it, or several that make a list; ``choices.text`` is a field within a column."""
    format: Mapping[str, str] | None = None
    """Key of an item -> text with ``{column}`` in it."""
    extract: Mapping[str, str] | None = None
    """Key of an item -> regular expression; of its last match in the text the first group is taken, or all of it without groups."""
    labels: tuple[str, ...] | str | None = None
    """What the right choice is called in the data, in the order of the choices: a list, or the column that has it."""
    constants: Mapping[str, Scalar | tuple[Scalar, ...]] | None = None
    """Key of an item -> its value in every item."""
    limit: int | None = None
    """The first so many rows."""
    sha256: str | None = None
    """Digest that the made items must have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HarnessSource:
    """A golden set made of tasks of lm-evaluation-harness."""

    name: str
    tasks: tuple[str, ...]
    """Names of tasks, groups or tags, or paths of YAML files."""
    include_path: str | None = None
    limit: int | None = None
    """The first so many documents of each task."""
    num_fewshot: int | None = None
    metric: str | None = None
    filter: str | None = None
    chat: bool = False
    """Inside the model's chat template."""
    sha256: str | None = None
    """Digest that configs and requests of the tasks must have."""
    scale: Scale | None = None
    """Found while gathering: ``unit`` where the harness's metric lies in [0, 1]; None where its range is not known."""
    better: Better | None = None
    """Found while gathering: which way the tasks say that their metric goes; None where one of them does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenSet:
    """A named, versioned, digested list of items. ``sha256`` is the digest of the file's bytes."""

    name: str
    version: str
    sha256: str
    items: tuple[GoldenItem, ...]
    path: str
    harness: HarnessSource | None = None
    """Where the task code of lm-evaluation-harness asks and scores the items; None: they are scored by their own metrics."""

    @property
    def label(self) -> str:
        """``name version``, as reports print it."""
        return f"{self.name} {self.version}"

    @property
    def slices(self) -> tuple[str, ...]:
        """The slice names in order of first appearance."""
        return tuple(dict.fromkeys(item.slice for item in self.items))


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricInfo:
    """What a metric is. ``needs``: ``loglikelihoods`` of the choices, generated ``text``, or the item's own ``tokens`` scored."""

    name: str
    unit: str
    """Of the figure that is shown for a whole set."""
    higher_is_better: bool
    """Direction of an item's score. The metrics that come with the program turn it so that larger is better."""
    needs: Literal["loglikelihoods", "text", "tokens"]
    definition: str
    scale: Scale = "binary"
    """An item's score: right or wrong, graded in [0, 1], or any finite number."""
    figure_lower_is_better: bool = False
    """Direction of the figure for a whole set, which is shown as people quote it: a perplexity falls where the scores rise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricFigure:
    """One metric over all its items of a golden set, combined as the metric is: a corpus figure is not a mean of items'."""

    metric: MetricInfo
    value: float | None
    """In the metric's unit and direction; None where no item was scored."""
    items: int
    scored: int
    equal_weights: bool = True
    lower: float | None = None
    """Wilson's 95 % interval of a share of items that are right or wrong, of equal weight, in a report; None for any other figure."""
    upper: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemEvidence:
    """What a model produced for one item. A non-finite number is stored as None and counted in ``nonfinite``."""

    item_id: str
    loglikelihoods: tuple[float | None, ...] = ()
    """Natural log of the probability of each choice, summed over its tokens, in the order of the item's choices."""
    text: str | None = None
    output_tokens: int = 0
    truncated: bool = False
    """The output ended at the length cap, neither at a stop string nor at an end-of-sequence token."""
    nonfinite: bool = False
    first_token_logprob: float | None = None
    """Log probability of the first generated token: tells two variants apart that answer alike."""
    scored_tokens: int = 0
    """How many tokens (of a file: words or bytes) ``loglikelihoods[0]`` sums over, where the item's own text is scored; else 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemScore:
    """One item's score on its metric's scale, or None with the reason; the evidence it was computed from stays beside it."""

    item_id: str
    slice: str
    cluster: str | None
    value: float | None
    why_unscored: str | None = None
    answered: str = ""
    expected: str = ""
    evidence: ItemEvidence
    weight: float = 1.0
    parts: tuple[float, ...] = ()
    """What adds up over items where the corpus figure is no mean: nats and tokens, n-gram counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """How a file of per-item results is to be read; None: as its format has it, or as the file leaves no doubt about."""

    id: str = "id"
    score: str = "score"
    slice: str = "slice"
    cluster: str = "cluster"
    """Names of the columns of a table."""
    metric: str | None = None
    filter: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskResults:
    """One task as one model answered it, from a file that another tool wrote."""

    name: str
    """Empty where the file does not name its task."""
    metric: str
    items: tuple[ItemScore, ...]
    """As the file has them, an id that stands twice included: whoever compares must see it."""
    chance_level: float | None = None
    """Mean accuracy of guessing; None where the file does not say how many choices there were."""
    conditions: Mapping[str, Scalar]
    """What the file states of how the items were asked."""
    marks: Mapping[str, Mapping[str, str]]
    """Field -> item id -> what must be the same on both sides, for example the digest of the prompt."""
    prompts: Mapping[str, str]
    """Item id -> the end of its prompt, where the file has it."""
    better: Better | None = None
    """Whether a higher score or a lower one is better; None where the format does not say it."""
    scale: Scale | None = None
    stopped: EarlyStop | None = None
    """Only of a run of our own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """The per-item results of one model, as a reader found them."""

    source: str
    """Format of the file: lm_eval, inspect, nemo, table or run."""
    path: str
    sha256: str
    """Digest of every byte that was read."""
    tasks: tuple[TaskResults, ...]
    notes: tuple[str, ...] = ()
    """What a person must know of the file, a sentence each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KLPart:
    """Divergence over some of the positions: those of a slice, or those from ``first`` to ``last`` of each text."""

    name: str
    positions: int
    mean: float
    maximum: float
    top1_agreement: float
    p99: float | None = None
    """None under 100 positions."""
    first: int | None = None
    """Number of the token in its text, from 1; None for a slice."""
    last: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KLStatistics:
    """Divergence of a variant's next-token distributions from the reference's, ``KL(reference || variant)`` in nats.

    Full vocabulary, raw logits in float32 or better, every figure finite. One position an item, the one right after its prompt, or every
    position of some texts.
    """

    positions: int
    mean: float
    median: float
    p99: float
    maximum: float
    top1_agreement: float
    p999: float | None = None
    """None under 10,000 positions."""
    rms_dp: float | None = None
    """Root mean square change of the true next token's probability; None where there is no true token, as after a prompt."""
    standard_error: float | None = None
    """Of the mean, with texts as clusters: tokens of one text are not independent. None under ten texts."""
    by_slice: tuple[KLPart, ...] = ()
    """Empty where there is one slice only."""
    by_position: tuple[KLPart, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DivergenceConfig:
    """Over which texts divergence is taken; without a section it is taken after the prompts of the golden sets."""

    path: str
    fields: tuple[str, ...] = ("text",)
    """Fields of a JSONL line that make up its text, joined by a line end."""
    slice_field: str | None = None
    tokens_per_text: int = 512
    max_texts: int = 100
    reference: Literal["auto", "stored", "recomputed"] = "auto"
    """``auto``: stored where the disk has room within ``disk_limit_bytes``, else recomputed beside each variant."""
    disk_limit_bytes: int = 8_000_000_000

    @property
    def name(self) -> str:
        """What checks and reports call the texts: the file's name without its ending."""
        return PurePath(self.path).stem

    @property
    def most_tokens(self) -> int:
        """Positions at most."""
        return self.tokens_per_text * self.max_texts


@dataclass(frozen=True, kw_only=True, slots=True)
class Distributions:
    """The reference's stored distributions, in NumPy's file format.

    After prompts: a float32 array of logits [positions, vocabulary]. Over texts: a record a position, as ``divergence.stored_row`` has it.
    """

    path: str
    """Empty where nothing is stored and every variant's process runs the reference again."""
    sha256: str
    positions: int
    vocabulary: int
    why_not_stored: str = ""
    reading: TextReading | None = None
    """How the reference itself read the texts; None after prompts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextReading:
    """How one variant read the texts of a run's divergence, token by token."""

    texts: str
    sha256: str
    """Digest of the texts' file."""
    items: tuple[ItemEvidence, ...]
    """A text each: ``loglikelihoods[0]`` is the sum over its ``scored_tokens`` true next tokens, in nats, BOS left out."""
    slices: tuple[str, ...]
    """The slice of each item."""
    cut: int
    """Texts that were longer than ``tokens_per_text`` and were read up to it."""
    tokens_per_text: int
    kl: KLStatistics | None = None
    """None for the reference, or with ``why_no_kl``."""
    why_no_kl: str | None = None
    reference: Literal["stored", "recomputed"] = "stored"

    @property
    def scored_tokens(self) -> int:
        """True next tokens over all texts."""
        return sum(one.scored_tokens for one in self.items)

    @property
    def nats(self) -> float | None:
        """Minus the log-likelihood of all texts with a token to score; None where one of them has none."""
        found = [one.loglikelihoods[0] for one in self.items if one.scored_tokens]
        known = [value for value in found if value is not None]
        return -fsum(known) if known and len(known) == len(found) else None

    @property
    def perplexity(self) -> float | None:
        """exp(total nats / total tokens), over the corpus and not a mean over texts; None where it is no number."""
        nats = self.nats
        return None if nats is None or not self.scored_tokens or nats / self.scored_tokens > 700 else exp(nats / self.scored_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryReading:
    """A candidate beside the reference right after some prompts of a golden set, before it was scored on it."""

    golden_set: str
    golden_sha256: str
    items: int
    """Items of the golden set."""
    prompts: int
    """Prompts that were asked, spread evenly over the set."""
    mean_kl: float
    """Mean of KL(reference || variant) in nats: the logarithm of how many times the reference's perplexity the variant has there."""
    top1_agreement: float
    nonfinite: str = ""
    """What was not finite; empty where all was."""
    stopped: bool = False
    """It ended the scoring of the candidate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlyStop:
    """Why a sheet ends before the golden set does: the rule of the policy that allowed it, and what it saw."""

    asked: int
    """Items that were asked: the first so many of the order that the seed gives."""
    items: int
    """Items of the golden set."""
    looks: int | None
    bet: float | None
    seed: int
    because: str
    """Half a sentence, for example ``a pass was shown at look 1 of 3``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreSheet:
    """Every item of one golden set as one variant answered it."""

    variant: str
    golden_set: str
    golden_version: str
    golden_sha256: str
    items: tuple[ItemScore, ...]
    batch_plan: BatchPlan
    conditions: Mapping[str, Scalar]
    """What must be equal to compare two sheets: tokenizer, BOS, template, layout, device, driver, threads."""
    first_prompt: str = ""
    """The first item as the model saw it."""
    kl: KLStatistics | None = None
    why_no_kl: str | None = None
    seconds: float = 0.0
    scale: Scale | None = None
    """Of all its metrics together; None where it is not stated, or where they do not share one."""
    better: Better | None = None
    """Which way its metrics go; None where it is not stated, or where they go both ways."""
    stopped: EarlyStop | None = None
    """Set where scoring ended early; items behind the stop were not asked and are not lost."""
    figures: tuple[MetricFigure, ...] = ()
    """One a metric of the set, as that metric combines its items."""

    @property
    def scored(self) -> tuple[ItemScore, ...]:
        """Items with a value."""
        return tuple(item for item in self.items if item.value is not None)

    @property
    def mean(self) -> float | None:
        """Mean over scored items; None without one."""
        values = [item.value for item in self.items if item.value is not None]
        return sum(values) / len(values) if values else None

    @property
    def output_tokens(self) -> int:
        """Generated tokens over all items."""
        return sum(item.evidence.output_tokens for item in self.items)


# ---------------------------------------------------------------------------------------------- a lever: continuous batching

ArrivalKind: TypeAlias = Literal["at_once", "poisson", "given"]
BatchingMode: TypeAlias = Literal["alone", "static", "continuous"]
"""``alone``: each request by itself. ``static``: batches that run until their longest row ends. ``continuous``: rows come and go."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedRequest:
    """One request of the lever's workload; the prompt is a text or, where only its length matters, a number of tokens."""

    output_tokens: int
    prompt: str | None = None
    prompt_tokens: int | None = None
    arrives_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lengths:
    """A distribution of lengths in tokens. ``lognormal``: median and sigma of the logarithm; ``uniform``: from ``least`` to ``most``."""

    kind: Literal["fixed", "lognormal", "uniform"]
    least: int
    most: int
    median: float | None = None
    sigma: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnRequests:
    """A workload that is drawn: how many requests, and how long their prompts and outputs are."""

    count: int
    prompt: Lengths
    output: Lengths


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrivals:
    """When the requests come: all at the start, by a Poisson process of so many a second, or as the workload says."""

    kind: ArrivalKind = "at_once"
    rate_per_s: float | None = None

    @property
    def label(self) -> str:
        """As reports print it."""
        if self.kind == "poisson":
            return f"Poisson, {self.rate_per_s:g} a second"
        return {"at_once": "all at once", "given": "as the workload says"}[self.kind]


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchingEngine:
    """What serves continuously, and the Python that has its library; None: the one that runs quantgate."""

    name: str
    interpreter: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchingConfig:
    """Static batches against continuous batching, on the same requests."""

    path: str | None
    """File of requests; None where they are drawn."""
    drawn: DrawnRequests | None
    rows: int
    engines: tuple[BatchingEngine, ...]
    arrivals: tuple[Arrivals, ...]
    variants: tuple[str, ...]
    seed: int = 0
    """Gives what is drawn: lengths, arrivals, and the ids of prompts that are given by length."""
    repeats: int = 2
    """Every second one takes the ways in reverse."""
    time_cap_s: float = 600.0
    """Of one run of one engine; a run that takes longer is ended and counts as not measured."""
    requests: tuple[AskedRequest, ...] = ()
    """As read or drawn; empty until they were."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedRequest:
    """One request as it was served. Times are seconds from the start of its run, read by the caller behind the device's barrier."""

    request_id: str
    prompt_tokens: int
    requested_tokens: int
    arrived_s: float
    started_s: float | None
    """When the step began that gave its first token; None where it gave none."""
    ids: tuple[int, ...]
    token_s: tuple[float, ...]
    """When each id had come."""

    @property
    def produced_tokens(self) -> int:
        """Counted from ids."""
        return len(self.ids)

    @property
    def whole(self) -> bool:
        """It got the tokens that it asked for, neither fewer nor more."""
        return self.produced_tokens == self.requested_tokens

    @property
    def ttft_s(self) -> float | None:
        """From its arrival to its first token: waiting and prefill included."""
        return self.token_s[0] - self.arrived_s if self.token_s else None

    @property
    def itl_s(self) -> tuple[float, ...]:
        """Seconds between one token and the next; empty for one token."""
        return tuple(after - before for before, after in pairwise(self.token_s))

    @property
    def queued_s(self) -> float | None:
        """From its arrival to the start of the step that gave its first token."""
        return None if self.started_s is None else max(0.0, self.started_s - self.arrived_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstDifference:
    """The first id of a request that is not the one that it gets alone."""

    request_id: str
    token: int
    """From 1."""
    margin_nats: float | None
    """By how much alone preferred its own id there; next to nothing is a tie that rounding decides. None: not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchingRun:
    """One engine serving one workload in one way, once. Without ``why_not`` every request was served to its end."""

    variant: str
    engine: str
    mode: BatchingMode
    arrivals: Arrivals
    rows: int
    """How many requests may run at once."""
    requests: tuple[ServedRequest, ...] = ()
    steps: int | None = None
    """Forwards of the model; None where the engine does not tell."""
    wall_s: float | None = None
    """From the start to the last token."""
    preemptions: int | None = None
    """Times that a running request had to give up its cache; None where the engine does not tell."""
    recomputed_tokens: int | None = None
    repeat: int = 0
    dtype: str = ""
    library: str = ""
    """What served, with its version."""
    differences: tuple[FirstDifference, ...] = ()
    compared: bool = False
    """Its ids were compared with those of each request alone."""
    why_not: str | None = None

    @property
    def whole(self) -> bool:
        """Every request got exactly the tokens that it asked for."""
        return self.why_not is None and bool(self.requests) and all(one.whole for one in self.requests)

    @property
    def useful_tokens(self) -> int:
        """Tokens that somebody asked for, each counted once, whatever was computed again."""
        return sum(min(one.produced_tokens, one.requested_tokens) for one in self.requests)

    @property
    def useful_tokens_per_s(self) -> float | None:
        """End to end, prefill and waiting included; None unless the run is whole."""
        return self.useful_tokens / self.wall_s if self.whole and self.wall_s else None

    @property
    def utilisation(self) -> float | None:
        """Useful tokens / (rows x steps): the share of the places in all forwards that gave a token; None unless the run is whole."""
        return self.useful_tokens / (self.rows * self.steps) if self.whole and self.steps else None


# ---------------------------------------------------------------------------------------------- what is measured


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleLeft:
    """A module with a weight matrix that stayed in float, and why."""

    name: str
    parameters: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What was checked of an artifact when it was made: what was quantized, and that the files hold it."""

    library: str
    """Name and version of what quantized, for example ``gptqmodel 7.6.0``."""
    modules_replaced: int
    modules_left: tuple[ModuleLeft, ...]
    quantized_parameters: int
    logical_parameters: int
    stored_bits_per_weight: float | None
    """Bits that a quantized weight takes in the files, scales and zero points included; arithmetic where simulated."""
    tensors_checked: int
    """Quantized tensors and scales found in the files, finite and not all zero."""
    tied_before: bool
    tied_after: bool
    reload_difference: float | None
    """Largest absolute difference of logits between the model in memory and the same model read back from its files."""
    why_no_reload: str | None = None
    calibration_tokens: int | None = None
    calibration_sha256: str | None = None
    notes: tuple[str, ...] = ()
    """What a reader must know, a sentence each."""

    @property
    def share_quantized(self) -> float:
        """Share of the logical parameters in the replaced modules, 0..1."""
        return self.quantized_parameters / self.logical_parameters if self.logical_parameters else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """A stored checkpoint. ``path`` is a folder that the engine loads; ``sha256`` covers every file of it."""

    variant: str
    path: str
    format: str
    """``safetensors``, ``bitsandbytes``, ``rtn-simulated`` and so on."""
    stored_bytes: int
    sha256: str
    note: str = ""
    """What a reader must know, for example that a reference is dequantized from Q4_1."""
    simulated: bool = False
    """Values are rounded but kept in float: scored, never filled or timed; freed memory is arithmetic."""
    simulated_weight_bytes: int | None = None
    """What the weights would take if packed, scales included; only where ``simulated``."""
    kernel: str = "auto"
    """What multiplies by its packed weights, by a name of quantgate's; ``auto``: the library's choice."""
    proof: Proof | None = None
    """None for an unquantized model, and for artifacts of earlier versions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerShape:
    """What one layer keeps for a request.

    ``kind``: full, window (the last ``window`` tokens), latent (one vector a token: ``key_width`` compressed, ``value_width`` rotary),
    shared (reads another layer's), state (a constant a sequence) or none. An attention layer with ``state_elements`` keeps both.
    """

    kind: Literal["full", "window", "latent", "shared", "state", "none"]
    kv_heads: int = 0
    key_width: int = 0
    value_width: int = 0
    window: int | None = None
    state_elements: int = 0
    """Elements kept for a sequence, whatever its length."""
    recurrent_elements: int = 0
    """Of these, the elements of the recurrence; the others are the convolution's."""
    recurrent_bytes: int | None = None
    """Bytes of an element of the recurrence where the engine has a type of its own for it; None: that of the cache."""
    expanded_heads: int = 0
    """Heads that an engine stores which repeats the KV heads for its query heads; 0: it stores the KV heads."""
    query_heads: int = 0
    """Heads that attend; 0 where they are not known or the layer has no attention."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """The numbers of a model's config.json that decide its KV cache."""

    layers: tuple[LayerShape, ...]
    hidden: int
    vocabulary: int
    tied: bool
    context_tokens: int | None = None
    """Longest sequence the model was made for; None where its config does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsUsed:
    """What of a model's weights a decode step must read and multiply by. Of experts: those of one token, the least a step can do with."""

    read_bytes: int
    """Everything stored, quantizer state included, without tables of which only rows are taken. A tied head is read whole."""
    row_bytes: int
    """Bytes of such tables' rows that each row of the batch takes at a step."""
    body_parameters: int
    """Weights that every token is multiplied by, the head left out."""
    head_parameters: int
    """Weights of the head, which every row is multiplied by whose logits are wanted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A variant as loaded, before any request. ``weight_bytes`` counts distinct storages with quantizer state, tied ones once."""

    weight_bytes: int
    logical_parameters: int
    """Weights of the model, the same number in every variant: packed elements count as the weights they hold."""
    quantized_parameters: int
    modules_replaced: int
    modules_left: tuple[str, ...]
    """Names of linear-like modules that were not quantized."""
    kernels: Mapping[str, int]
    """Class name of each linear-like module and how many there are."""
    dtype: str
    kv_bytes_per_element: int
    weights_sha256: str
    """Digest of the weights dequantized to float32, in name order."""
    tied: bool
    load_s: float
    process_bytes: int | None = None
    """Resident bytes of the process after load and one forward; None where the device has no such figure."""
    file_backed_bytes: int | None = None
    score_layout: str = ""
    """How the engine lays continuations out for scoring; part of a score's conditions."""
    kv_cache: KVCache | None = None
    """How the cache is kept in fewer bits; None: as ``kv_bytes_per_element`` says."""
    kv_bytes: KVBytes | None = None
    """Only of a cache in fewer bits."""
    shape: ModelShape | None = None
    """As the engine keeps it; None in evidence of earlier versions."""
    used: WeightsUsed | None = None
    """What of the weights a decode step uses; None where the engine cannot tell."""

    @property
    def share_quantized(self) -> float:
        """Share of the logical parameters that are stored in fewer bits, 0..1."""
        return self.quantized_parameters / self.logical_parameters if self.logical_parameters else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PeakMemory:
    """Live bytes before a watched block and its peak. ``source``: allocator, process or device."""

    before_bytes: int
    peak_bytes: int
    source: Literal["allocator", "process", "fake"]
    reserved_bytes: int | None = None
    """What the allocator held at its peak, free blocks included; None where it does not tell."""
    device_bytes: int | None = None
    """What the whole device showed in use at the end of the block, other processes included; None where it does not tell."""

    @property
    def added_bytes(self) -> int:
        """Bytes the block added at its peak."""
        return max(0, self.peak_bytes - self.before_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One attempted fill."""

    batch_size: int
    outcome: FillOutcome
    peak_bytes: int | None
    purpose: FillPurpose
    reserved_bytes: int | None = None
    """What the allocator held at its peak, free blocks included; None where it does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoringCeiling:
    """The largest batch of whole prompts that is read in one go for log-likelihoods, apart from the ceiling of generation."""

    prompt_tokens: int
    confirmed: int | None
    limited_by: LimitedBy | None
    probes: tuple[Probe, ...] = ()
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """The batch ceiling at stated lengths: predicted from arithmetic and small fills, confirmed by real ones.

    ``kv_bytes_per_row`` is arithmetic; ``decode_bytes_per_row`` was measured in the last step and holds the cache and activations.

    ``confirmed`` 0 means that not even one request fits; None means not measured, with ``why_not``.
    """

    prompt_tokens: int
    output_tokens: int
    budget_bytes: int | None
    fixed_bytes: int | None
    prefill_bytes_per_row: int | None
    decode_bytes_per_row: int | None
    kv_bytes_per_row: int | None
    predicted: int | None
    confirmed: int | None
    limited_by: LimitedBy | None
    probes: tuple[Probe, ...] = ()
    why_not: str | None = None
    seconds: float = 0.0
    scoring: ScoringCeiling | None = None

    @property
    def probe_count(self) -> int:
        """Search probes; the small fills and repeats of the final batch are not probes."""
        return sum(probe.purpose == "probe" for probe in self.probes)

    @property
    def prediction_error(self) -> float | None:
        """(predicted - confirmed) / confirmed; None where the ceiling is none of memory's, or either is missing or 0."""
        if self.limited_by != "memory" or not self.confirmed or self.predicted is None:
            return None
        return (self.predicted - self.confirmed) / self.confirmed

    @property
    def unsteady(self) -> tuple[int, ...]:
        """Batches that fitted in one fill and not in another: memory is in pieces, or something else took some."""
        found = {one.batch_size: set[bool]() for one in self.probes if one.purpose in ("probe", "confirm")}
        for one in self.probes:
            if one.batch_size in found and one.purpose in ("probe", "confirm") and one.outcome != "out of time":
                found[one.batch_size].add(one.outcome == "fits")
        return tuple(sorted(batch for batch, outcomes in found.items() if len(outcomes) == 2))

    @property
    def stranded_bytes(self) -> int | None:
        """The most that the allocator held and could not use while a fill ran out of memory; None where it does not tell."""
        failed = [one for one in self.probes if one.outcome == "out of memory" and one.reserved_bytes is not None]
        return max((max(0, (one.reserved_bytes or 0) - (one.peak_bytes or 0)) for one in failed), default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One timed batch. ``step_s[i]`` is the time from the start until step i's ids had arrived for the whole batch."""

    batch_size: int
    prompt_tokens: int
    output_tokens: int
    """Tokens asked for in each row."""
    produced_tokens: int
    """Tokens of all rows, up to and including each row's first end of sequence."""
    step_s: tuple[float, ...]
    warmup: bool = False
    workload: str = MAIN

    @property
    def ttft_s(self) -> float | None:
        """Time to first token, prefill included."""
        return self.step_s[0] if self.step_s else None

    @property
    def itl_s(self) -> tuple[float, ...]:
        """Inter-token latencies: the time between one step's arrival and the next; empty for one token or none."""
        return tuple(after - before for before, after in zip(self.step_s, self.step_s[1:], strict=False))

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Prompt tokens of all rows over the time to first token; None without a step."""
        first = self.ttft_s
        return self.batch_size * self.prompt_tokens / first if first else None

    @property
    def end_to_end_tokens_per_s(self) -> float | None:
        """Produced tokens of all rows over the whole wall time, prefill included; None without a step."""
        return self.produced_tokens / self.step_s[-1] if self.step_s and self.step_s[-1] > 0 else None

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first: (last - first) / (steps - 1); None for one token or none."""
        if len(self.step_s) < 2:
            return None
        return (self.step_s[-1] - self.step_s[0]) / (len(self.step_s) - 1)

    @property
    def output_tokens_per_s(self) -> float | None:
        """Decode throughput: tokens after each row's first one, over the wall time of decode; None without a decode step."""
        if len(self.step_s) < 2:
            return None
        wall = self.step_s[-1] - self.step_s[0]
        return (self.produced_tokens - self.batch_size) / wall if wall > 0 else None

    @property
    def early_stop(self) -> bool:
        """The rows produced fewer tokens than were asked for."""
        return self.produced_tokens < self.batch_size * self.output_tokens

    @property
    def why_no_speed(self) -> str | None:
        """Why its times are no speed: it did not produce the length it was to, or its clock did not run forward; None where they are."""
        if self.early_stop:
            return f"it stopped early: {self.produced_tokens} of {self.batch_size * self.output_tokens} tokens were produced"
        if not self.step_s or not all(isfinite(one) for one in self.step_s) or self.step_s[0] <= 0 or min(self.itl_s, default=0.0) < 0:
            return "its times are no rising row of finite seconds"
        return None


def decode_rates(generations: Iterable[Generation], batch_size: int) -> list[float]:
    """Decode tokens per second of each generation of the run's own workload at one batch size.

    Warm-ups are left out, and so is what is no speed: a generation that stopped early would be averaged in silently.
    """
    chosen = [one for one in generations if one.batch_size == batch_size and one.workload == MAIN and not one.warmup]
    return [rate for one in chosen if one.why_no_speed is None and (rate := one.output_tokens_per_s) is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedPoint:
    """What is timed against what: a batch of the variant beside one of the reference, at a workload's lengths."""

    batch_size: int
    reference_batch: int | None
    """Another batch where each side runs at its own ceiling; None where the variant is timed alone, above the reference's ceiling."""
    workload: str = MAIN

    @property
    def at(self) -> str:
        """Where it is, in words."""
        where = f"batch {self.batch_size}"
        if self.reference_batch is not None and self.reference_batch != self.batch_size:
            where += f" (the reference's at {self.reference_batch})"
        return where if self.workload == MAIN else f"{where} of {self.workload}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    """What a worker answers to one request to time a batch."""

    generations: tuple[Generation, ...]
    """Warm-ups first; empty unless it was timed."""
    outcome: TimedOutcome
    seconds: float
    """By the device's clock, warm-ups included."""
    why_not: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quadruple:
    """Reference, variant, variant, reference at one point, timed one after the other: the unit of what is shown about speed."""

    point: SpeedPoint
    variant: tuple[int, int]
    """Places in the run's ``generations``."""
    reference: tuple[int, int] | None
    """Places in ``partner``; None where the variant was timed alone."""
    seconds: float = 0.0
    """What it cost, warm-ups included."""
    pair: int | None = None
    """Which pair of processes timed it, in the order in which they were started; None where that was not kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """A point that was not timed, or not as often as was asked for, and why."""

    point: SpeedPoint
    because: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedRun:
    """The timed generations of one variant; ``partner`` holds the reference's of the same quadruples."""

    variant: str
    generations: tuple[Generation, ...]
    partner: tuple[Generation, ...] = ()
    order: str = ""
    """The order inside a quadruple, for example ``R V V R``."""
    quadruples: tuple[Quadruple, ...] = ()
    """In the order they were timed; empty in runs of earlier versions."""
    left_out: tuple[LeftOut, ...] = ()
    looks: tuple[int, ...] = ()
    """Numbers of quadruples at which a check was to look, fixed beforehand."""
    complete: bool = True
    """False in what is kept while timing goes on."""
    seconds: float = 0.0
    """What it took by the run's clock."""
    device: DeviceInfo | None = None
    """As the variant's own process found it."""
    partner_device: DeviceInfo | None = None
    """As the reference's process found it."""

    def rates(self, batch_size: int) -> list[float]:
        """Decode tokens per second of each timed generation at one batch size of the run's own workload, warm-ups left out."""
        return decode_rates(self.generations, batch_size)

    def at(self, point: SpeedPoint) -> tuple[Quadruple, ...]:
        """The quadruples of a point, in the order they were timed."""
        return tuple(one for one in self.quadruples if one.point == point)

    def ratio(self, batch_size: int) -> float | None:
        """Geometric mean of the variant's rates over that of the reference in the same blocks; None where not paired."""
        ours, theirs = self.rates(batch_size), decode_rates(self.partner, batch_size)
        return geometric_mean(ours) / geometric_mean(theirs) if ours and theirs and min(*ours, *theirs) > 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeTime:
    """Wall time of decoding some prompts, from the arrival of each batch's first tokens to that of its last one."""

    seconds: float
    tokens: int
    """Of all rows, each row's first one left out: reading the prompt gives it."""

    @property
    def tokens_per_s(self) -> float | None:
        """None where no token was decoded, or no time passed."""
        return self.tokens / self.seconds if self.tokens and self.seconds > 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Parting:
    """Where a speculative output left the plain greedy one: at token ``at`` of the output, from 0."""

    prompt: str
    at: int
    margin: float | None
    """By how much the likeliest token leads the second there, in the plain run's logits; None where it could not be looked up."""
    noise: float | None
    """Largest difference of a logit there between reading the last tokens one by one and reading them together."""

    @property
    def is_rounding(self) -> bool:
        """Reading the same tokens in another way moves logits by enough to turn the two likeliest tokens round."""
        return self.margin is not None and self.noise is not None and self.margin <= 2 * self.noise


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationPass:
    """All prompts at one number of drafted tokens and one batch size.

    Counted from ids, over verification steps of single rows: a step emits the drafts it accepts and one token of the target's own, so
    ``emitted == accepted + steps``. Each row's first token comes from its prompt and belongs to no step. No draft reaches past the asked
    length; where an accepted draft ends a row it is counted as the target's own token, which it is, and not among the accepted.
    """

    draft_tokens: int
    batch_size: int
    steps: int
    drafted: int
    accepted: int
    emitted: int
    drafted_at: tuple[int, ...]
    """How often a token was drafted as first, second and so on of its step."""
    accepted_at: tuple[int, ...]
    compared: int
    """Prompts whose output was compared with plain greedy decoding."""
    partings: tuple[Parting, ...]
    plain: tuple[DecodeTime, ...]
    """A repeat each; ``speculative`` beside it, batch by batch in turn."""
    speculative: tuple[DecodeTime, ...]

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_length(self) -> float | None:
        """Tokens a step emits: 1 + accepted / steps."""
        return 1 + self.accepted / self.steps if self.steps else None

    @property
    def acceptance_at(self) -> tuple[float | None, ...]:
        """Of the tokens drafted in each place, the share that was accepted."""
        return tuple(taken / given if given else None for taken, given in zip(self.accepted_at, self.drafted_at, strict=True))

    @property
    def ratios(self) -> tuple[float, ...]:
        """Speculative over plain tokens per second, a repeat each."""
        pairs = [(one.tokens_per_s, other.tokens_per_s) for one, other in zip(self.speculative, self.plain, strict=True)]
        return tuple(ours / theirs for ours, theirs in pairs if ours and theirs)

    @property
    def speed_ratio(self) -> float | None:
        """Geometric mean over the repeats; None without one."""
        return geometric_mean(self.ratios) if self.ratios else None

    @property
    def adds_up(self) -> bool:
        """The counters can be those of one and the same run."""
        places = (sum(self.drafted_at), sum(self.accepted_at)) == (self.drafted, self.accepted)
        return 0 <= self.accepted <= self.drafted and self.emitted == self.accepted + self.steps and places


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationRun:
    """Speculative decoding of the reference with one drafter, or why there is none."""

    drafter: str
    dtype: str = ""
    """Of the target's weights."""
    prompts: int = 0
    draft_weight_bytes: int | None = None
    """Bytes of the drafter's weights beside the target's; 0 for a drafter without a model."""
    draft_kv_bytes_per_row: int | None = None
    """The drafter's own cache for a request of the workload's lengths; arithmetic."""
    passes: tuple[SpeculationPass, ...] = ()
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceInfo:
    """The device as found. Peak figures are None where they are not known."""

    kind: str
    name: str
    total_bytes: int
    threads: int | None = None
    peak_bytes_per_s: float | None = None
    peak_flops_per_s: float | None = None
    driver: str | None = None
    other_processes: int | None = None
    other_bytes: int | None = None
    """Memory of other processes on the device when it was opened."""
    used_bytes: int | None = None
    """What the whole device showed in use when it was opened."""
    uuid: str | None = None
    allocator: str | None = None
    """Settings of the allocator that change what fits, for example ``expandable_segments:True``."""
    cache_bytes: int | None = None
    """Last-level cache; None where the system does not tell."""
    peak_source: str | None = None
    """Whose datasheet the peak figures are from; None without them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceState:
    """What a device tells of its clocks and its heat at a moment; None where it does not, with the reason in ``unknown``."""

    governor: str | None = None
    clock_hz: float | None = None
    """Of a CPU the median over its cores, of a GPU its multiprocessors'."""
    memory_clock_hz: float | None = None
    throttle_events: int | None = None
    """How often the CPU was slowed down by heat since it was switched on: two states tell what happened between them."""
    throttled: tuple[str, ...] | None = None
    """Why a GPU's clocks are held down now; empty where they are not."""
    temperature_c: float | None = None
    unknown: tuple[str, ...] = ()
    """A sentence for each thing that cannot be read here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RoofRate:
    """What the device did at most of one thing: bytes read a second, or operations a second, each repeat of the fastest way."""

    what: Literal["read", "multiply"]
    dtype: str
    way: str
    """What was run, for example ``sum`` or ``product of 1,024 x 1,024``."""
    working_set_bytes: int
    per_s: tuple[float, ...]

    @property
    def median_per_s(self) -> float:
        """The roof."""
        return median(self.per_s)

    @property
    def cv(self) -> float:
        """Standard deviation over mean of the repeats; 0 for a single one."""
        return stdev(self.per_s) / fmean(self.per_s) if len(self.per_s) > 1 else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Roofs:
    """Bandwidth and matrix rates of the device, measured in the run that they are compared with."""

    reads: tuple[RoofRate, ...] = ()
    """A working set each: of the model's size, and one beyond the last-level cache."""
    multiplies: tuple[RoofRate, ...] = ()
    """A type of numbers each."""
    cache_bytes: int | None = None
    before: DeviceState | None = None
    after: DeviceState | None = None
    """When everything had been timed."""
    why_not: tuple[str, ...] = ()
    """What could not be measured, a sentence each."""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What the device costs."""

    per_hour: float
    currency: str = "USD"


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What somebody allows a million output tokens to cost: tracked in every report, never decided on."""

    owner: str
    max_cost_per_million_tokens: float
    """In the currency of the device's price."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A variant as loaded, and the device that it was loaded on."""

    loaded: Loaded
    device: DeviceInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInfo:
    """run.json: what a run folder says of itself, enough to resume it and to promote from it."""

    run_id: str
    created_at: str
    state: Literal["running", "complete", "interrupted", "failed"]
    config_sha256: str
    policy_sha256: str
    model: ModelSource
    registry: str
    registered_model: str
    alias: str
    tracking_uri: str
    experiment: str
    schema_version: int = 1
    artifacts: str | None = None
    """Where MLflow's artifacts go, where the config names a place."""
    challenger: str | None = None
    """The alias of the candidate on trial, where the config names one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A variant's stage that did not finish."""

    variant: str
    stage: str
    kind: str
    """Class name of the error."""
    message: str
    numerical: bool = False
    """The variant produced non-finite numbers while the reference was finite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantEvidence:
    """Everything a run knows of one variant: what is missing stays None and the gate treats it as not measured."""

    variant: Variant
    artifact: Artifact | None = None
    loaded: Loaded | None = None
    sheets: tuple[ScoreSheet, ...] = ()
    capacity: Capacity | None = None
    speed: SpeedRun | None = None
    device: DeviceInfo | None = None
    failures: tuple[Failure, ...] = ()
    reused: tuple[str, ...] = ()
    """Stages whose result was taken from an earlier run with the same digest."""
    source: Literal["session", "file"] = "session"
    """``file``: scores that somebody else's tool wrote; nothing is known of weights, memory or speed."""
    reading: TextReading | None = None
    """How it read the texts of the run's divergence; None where there are none, or where the stage failed."""
    canaries: tuple[CanaryReading, ...] = ()
    """Of a candidate, a golden set each, up to the one that ended its scoring."""

    @property
    def tokens_per_s_at_ceiling(self) -> float | None:
        """Median decode tokens per second at the variant's own confirmed ceiling; None where either was not measured."""
        if self.speed is None or self.capacity is None or not self.capacity.confirmed:
            return None
        rates = self.speed.rates(self.capacity.confirmed)
        return median(rates) if rates else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """What the run ran on and with."""

    quantgate_version: str
    source_sha256: str
    commit: str | None
    python: str
    platform: str
    cpu: str
    libraries: Mapping[str, str]
    model_sha256: str | None = None
    config_sha256: str | None = None
    device: DeviceInfo | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenPart:
    """A slice of a golden set as the gate needs it."""

    name: str
    item_ids: tuple[str, ...]
    chance_level: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenReference:
    """A golden set as the gate needs it: ids, chance level, digest, slices; not the questions."""

    name: str
    version: str
    sha256: str
    item_ids: tuple[str, ...]
    chance_level: float
    """Mean accuracy of guessing: 1 / choices for multiple choice, 0 for generated answers."""
    parts: tuple[GoldenPart, ...] = ()
    """The slices in order of first appearance; empty in evidence of runs that did not note them."""


# ---------------------------------------------------------------------------------------------- a pinned reference


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineSet:
    """How the pinned reference answered one golden set, item by item, and what must be equal to compare with it."""

    name: str
    version: str
    sha256: str
    items: int
    items_sha256: str
    """Digest of the item ids in the golden set's order, which is that of the scores."""
    mean: float | None
    scale: Scale | None
    better: Better | None
    batch_plan: BatchPlan
    conditions: Mapping[str, Scalar]
    prompt_sha256: str
    """Digest of the first prompt as the model saw it: another template gives another one."""
    form: Literal["marks", "numbers"]
    scores: tuple[str, ...]
    """``marks``: a character an item, 1 right, 0 wrong, - no answer, 80 a line. ``numbers``: scores with blanks between, 10 a line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineMark:
    """What is kept of a golden set in the log of earlier baselines."""

    golden_set: str
    sha256: str
    items: int
    mean: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselinePast:
    """A baseline that was replaced."""

    run_id: str
    created_at: str
    accepted_at: str
    accepted_by: str
    reason: str
    sha256: str
    model_sha256: str | None
    marks: tuple[BaselineMark, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """A reference that a person pinned, to be kept in version control: today's reference is compared with it first."""

    run_id: str
    created_at: str
    """When the run was begun. UTC, ISO 8601, as all times here."""
    accepted_at: str
    accepted_by: str
    reason: str
    model: str
    model_sha256: str | None
    reference: str
    weights_sha256: str | None
    """Digest of its weights as loaded, dequantized to float32."""
    dtype: str | None
    policy: str
    policy_sha256: str
    evidence_sha256: str
    environment: Fingerprint
    golden_sets: tuple[BaselineSet, ...]
    earlier: tuple[BaselinePast, ...] = ()
    """Oldest first."""
    schema_version: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineLimits:
    """How far today's reference may be from the pinned one on a golden set, ``*`` for every one without limits of its own."""

    golden_set: str = "*"
    max_loss: float = 0.01
    """Share of the items (0.01 = 1 point); for scores without bounds in their own unit."""
    max_gain: float = 0.01
    max_flips: float | None = 0.03
    """Share of the items that may come out otherwise, either way; None: no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineEvidence:
    """The baseline as it was read before anything was measured; ``pinned`` is None where ``why_not`` says why it cannot be used."""

    file: str
    limits: tuple[BaselineLimits, ...]
    pinned: Baseline | None = None
    sha256: str | None = None
    why_not: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All that the gate may look at. Its digest stands in every verdict."""

    variants: tuple[VariantEvidence, ...]
    golden_sets: tuple[GoldenReference, ...]
    fingerprint: Fingerprint
    schema_version: int = 1
    baseline: BaselineEvidence | None = None
    """The pinned reference that today's is compared with first; None where the run was asked for without one."""
    batching: tuple[BatchingRun, ...] = ()
    """Static against continuous batching; empty where the run did not try it."""
    speculation: tuple[SpeculationRun, ...] = ()
    """A drafter each; empty where speculation was not asked for."""
    roofs: Roofs | None = None
    """None where nothing was timed."""
    price: Price | None = None
    budget: Budget | None = None


# ---------------------------------------------------------------------------------------------- policy and verdict


UNDATED = "2000-01-01T00:00:00+00:00"
"""``created_at`` where no day is known or told; nothing that depends on the day holds then."""
NEVER_WAIVED = frozenset({"ran", "finite", "distinct", "unquantized", "unchanged", "demands", "canary", "baseline"})
"""Checks that show that a variant was measured and is what it says it is: no waiver reaches them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiver:
    """A required check that is not to block one variant, for a reason, until a day. Recorded in every report."""

    check: str
    """The check's name, for example ``quality/everyday``."""
    variant: str
    owner: str
    reason: str
    expires: str
    """ISO date; the waiver holds up to and including that day, judged by the run's own date and never by the clock."""

    def holds(self, created_at: str | None) -> bool:
        """Whether it holds for a run of that time (ISO 8601, UTC). Where either date is not known it does not."""
        if created_at == UNDATED:
            return False
        try:
            return date.fromisoformat((created_at or "")[:10]) <= date.fromisoformat(self.expires)
        except ValueError:
            return False


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRule:
    """One demand of a policy.

    ``kind``: quality, perplexity_ratio, output_length, freed_share, share_quantized, ceiling_ratio, kl_mean, kl_p99, kl_p999,
    rms_probability_change, top1_agreement, min_speed_ratio, max_ttft_ratio, max_itl_p99_ratio, batching_utilisation_gain,
    batching_itl_p99_ratio, speculation_acceptance, speculation_lossless, speculation_speed_ratio, cost_ratio or
    cost_per_million_tokens.
    """

    kind: str
    tier: Tier = "required"
    golden_set: str = "*"
    slices: tuple[str, ...] = ()
    """quality: the slices looked at, each a check of its own, ``*`` for every one; empty: the whole set."""
    minimum_items: int | None = None
    """quality: the fewest items this check may be decided on; None: the policy's own number."""
    margin: float | None = None
    """quality: the largest loss that is allowed, as a share of the items (0.03 = 3 points); for unbounded scores in their own unit."""
    minimum: float | None = None
    maximum: float | None = None
    scale: Literal["unbounded"] | None = None
    """quality: scores may be any finite number; None: they lie in [0, 1]."""
    better: Better | None = None
    """quality: which way the metric goes, where its results do not state it."""
    at: int | Literal["ceiling"] | None = None
    """speed: the batch at which both are timed, or each one's own confirmed ceiling."""
    workload: str = MAIN
    """speed: at which lengths."""
    engine: str | None = None
    """batching_*: the engine that it is for; None: every engine of the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sequential:
    """Looking at every item: a bet against "the loss is at least the margin" that stays valid whenever one stops."""

    bet: float
    """Lambda, above 0 and under 1 / (1 - margin) for every quality margin."""
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """When a candidate is so plainly broken after a few prompts that it is not scored: a fail."""

    items: int = 32
    """Prompts that are asked of each golden set."""
    perplexity_ratio: float = 10.0
    """Largest perplexity right after the prompts, as a multiple of the reference's."""
    top1_agreement: float = 0.5
    """Least share of the prompts after which the likeliest token is the reference's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What must be shown before a variant may go out, set before anything is measured."""

    name: str
    why: str
    checks: tuple[CheckRule, ...]
    require: Literal["all", "any"] = "all"
    correction: Literal["holm", "fixed_sequence", "none"] = "holm"
    """``any``: Holm over the candidates, or one after the other in ``order``; ``all`` needs no correction."""
    order: tuple[str, ...] = ()
    """fixed_sequence: the candidates' names, mildest first; anything but a pass stops the sequence."""
    family_size: int | None = None
    """holm: how many candidates count, those tried and dropped included; None: those of the run."""
    alpha: float = 0.05
    power: float = 0.8
    planning_flip_rate: float = 0.05
    minimum_items: int = 1
    max_absent_reference: float = 0.01
    objective: Literal["freed_bytes", "ceiling", "tokens_per_s_at_ceiling", "smallest_loss"] = "freed_bytes"
    """Which passing candidate goes forward: the largest of the named figure (the smallest loss for ``smallest_loss``)."""
    require_controls: bool = False
    """A run without a known-bad control is not measured."""
    waivers: tuple[Waiver, ...] = ()
    noise_flip_rate: float = 0.005
    """Share of items that the reference itself flips under other batches; for planning, as ``planning_flip_rate``."""
    looks: int | None = None
    """How often quality is looked at (O'Brien-Fleming), the last time with all items; None: once."""
    looks_seed: int = 0
    """Gives the order in which items are asked where ``looks`` is set."""
    sequential: Sequential | None = None
    """Quality is looked at after every item; None: it is not."""
    canary: Canary | None = None
    """Ends the scoring of a candidate that is plainly broken; None: every candidate is scored whole."""

    def family(self, candidates: int) -> int:
        """Over how many candidates Holm's step-down goes; never fewer than the run has."""
        return max(candidates, self.family_size or 1, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One demand with its evidence and what came of it. Loss is positive when the variant is worse."""

    name: str
    """``quality/everyday``, ``memory/freed_share`` and so on."""
    tier: Tier
    outcome: Outcome
    because: str
    """One sentence that a release owner can read aloud."""
    estimate: float | None = None
    lower: float | None = None
    bound: float | None = None
    """Upper one-sided confidence bound at ``level``."""
    margin: float | None = None
    level: float | None = None
    """One-sided confidence, for example 0.975, at which the check was decided."""
    p_value: float | None = None
    n: int | None = None
    b: int | None = None
    """Items the reference has right and the variant wrong."""
    c: int | None = None
    """Items the variant has right and the reference wrong."""
    scale: Scale = "binary"
    """quality: of the scores. For graded and unbounded ones ``b`` and ``c`` count the items that lost and that gained."""
    items_used: int | None = None
    """quality: the items after which the outcome was shown, where a policy looks more than once."""
    waived_by: str | None = None
    """``owner: reason, until date`` where a waiver keeps this fail or inconclusive from blocking; the outcome stays what it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The gate's word on one variant."""

    variant: str
    role: Role
    outcome: Outcome
    checks: tuple[Check, ...]
    because: str
    control_ok: bool | None = None
    """For controls: it came out as it must. None for other roles."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The gate's word on the run."""

    outcome: Outcome
    verdicts: tuple[Verdict, ...]
    chosen: str | None
    """The passing candidate that goes forward, by the policy's objective."""
    because: str
    policy_sha256: str
    evidence_sha256: str


# ---------------------------------------------------------------------------------------------- the report (schema version 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedRow:
    """Speed at one batch size: medians over blocks, with the spread beside them."""

    batch_size: int
    ttft_s: float | None
    tpot_s: float | None
    output_tokens_per_s: float | None
    output_tokens_per_s_low: float | None
    output_tokens_per_s_high: float | None
    generations: int
    warmups: int
    ratio_to_reference: float | None
    """Geometric mean of variant / reference over interleaved pairs at the same batch size; None where not paired."""
    early_stop_share: float = 0.0
    ratio_low: float | None = None
    """Lower t bound of the ratio over quadruples; None with fewer than four."""
    ratio_high: float | None = None
    ratio_level: float | None = None
    """One-sided confidence of each of the two bounds."""
    quadruples: int = 0
    cv: float | None = None
    """Standard deviation of the log ratio from quadruple to quadruple, about the coefficient of variation of one run."""
    itl_p50_s: float | None = None
    """Median of the times between one token and the next, of all generations together."""
    itl_p90_s: float | None = None
    itl_p99_s: float | None = None
    """None under 100 such times."""
    prefill_tokens_per_s: float | None = None
    end_to_end_tokens_per_s: float | None = None
    workload: str = MAIN


@dataclass(frozen=True, kw_only=True, slots=True)
class RooflineRow:
    """One batch size against the roofs: what a step must do, the least time for it, and the time it took."""

    batch_size: int
    workload: str = MAIN
    """Whose lengths the rows have: the cache that a step reads follows from them."""
    why_not: str | None = None
    """Why the figures below are missing; None where they are there."""
    fault: str | None = None
    """What lies above its roof by more than the roof's own scatter: the batch's speed is a measuring fault and not shown."""
    step_bytes: float | None = None
    """Weights used and the KV cache of all rows, in the mean over the decode steps."""
    step_flops: float | None = None
    memory_floor_s: float | None = None
    compute_floor_s: float | None = None
    bound: Literal["memory", "compute"] | None = None
    """Which roof the step meets first."""
    tpot_s: float | None = None
    mbu: float | None = None
    """Memory floor over the time a step took."""
    mfu: float | None = None
    """Compute floor over the time a step took."""
    prefill_flops: float | None = None
    prefill_mfu: float | None = None
    """Least time to multiply the prompts over the time to the first token."""

    @property
    def intensity(self) -> float | None:
        """Operations a byte."""
        return self.step_flops / self.step_bytes if self.step_flops is not None and self.step_bytes else None

    @property
    def flops_per_s(self) -> float | None:
        """What the step did a second."""
        return self.step_flops / self.tpot_s if self.step_flops is not None and self.tpot_s else None


@dataclass(frozen=True, kw_only=True, slots=True)
class CostRow:
    """What output tokens cost at a variant's best batch: the one with the most output tokens a second, prompts included."""

    why_not: str | None = None
    batch_size: int | None = None
    output_tokens_per_s: float | None = None
    """Produced tokens over the whole time of a batch, reading the prompts included: that is what the hour pays for."""
    per_million_tokens: float | None = None
    tokens_per_unit: float | None = None
    """Output tokens for one unit of the currency."""
    currency: str = "USD"
    ratio_to_reference: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossover:
    """Where a variant's speed over the reference's, at equal batches, goes through 1 along the batch sizes that were timed."""

    kind: Literal["crosses", "faster", "slower", "several", "even", "not_measured"]
    """``even``: at no batch told apart from the reference."""
    batch: float | None = None
    """Between measured batches, on a logarithmic scale; of several the first."""
    low: float | None = None
    high: float | None = None
    level: float | None = None
    why_no_interval: str | None = None
    falls: bool | None = None
    """Faster before it and slower behind it; None where nothing crosses."""
    smallest: int | None = None
    largest: int | None = None
    """The batches that were timed beside the reference."""
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingRow:
    """The batch ceiling in the report."""

    predicted: int | None
    confirmed: int | None
    limited_by: LimitedBy | None
    probes: int
    prompt_tokens: int
    output_tokens: int
    budget_bytes: int | None
    fixed_bytes: int | None
    prefill_bytes_per_row: int | None
    decode_bytes_per_row: int | None
    kv_bytes_per_row: int | None
    why_not: str | None
    prediction_error: float | None = None
    """(predicted - confirmed) / confirmed; None where memory did not set the ceiling."""
    scoring: int | None = None
    """Batch ceiling of reading whole prompts for log-likelihoods."""
    scoring_limited_by: LimitedBy | None = None
    notes: tuple[str, ...] = ()
    """What a reader must know of the fills, a sentence each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementRow:
    """What was measured of one variant."""

    variant: str
    role: Role
    scheme: str
    quantizer: str
    artifact_path: str | None
    artifact_sha256: str | None
    stored_bytes: int | None
    weight_bytes: int | None
    freed_bytes: int | None
    freed_share: float | None
    freed_simulated: bool
    logical_parameters: int | None
    share_quantized: float | None
    modules_replaced: int | None
    modules_left: tuple[str, ...]
    kernels: Mapping[str, int]
    dtype: str | None
    process_bytes: int | None
    file_backed_bytes: int | None
    ceiling: CeilingRow | None
    speed: tuple[SpeedRow, ...]
    tokens_per_s_at_ceiling: float | None
    ratio_at_ceiling: float | None
    """Tokens per second at the variant's own ceiling over the reference's at its own."""
    note: str
    failures: tuple[Failure, ...]
    reused: tuple[str, ...]
    proof: Proof | None = None
    other_speed: tuple[SpeedRow, ...] = ()
    """Speed at other workloads' lengths."""
    speed_left_out: tuple[LeftOut, ...] = ()
    at_ceiling: SpeedRow | None = None
    """Both sides at their own confirmed ceilings, paired; the row's figures are the variant's."""
    kv_cache: KVCache | None = None
    kv_bytes: KVBytes | None = None
    roofline: tuple[RooflineRow, ...] = ()
    cost: CostRow | None = None
    """None where the run has no price."""
    crossover: Crossover | None = None
    """None for the reference, and where nothing was timed."""

    @property
    def kv_tokens_freed(self) -> int | None:
        """Tokens of cache that the freed bytes hold at the ceiling's lengths; None where either is not known."""
        if self.freed_bytes is None or self.ceiling is None or not self.ceiling.kv_bytes_per_row:
            return None
        return self.freed_bytes * (self.ceiling.prompt_tokens + self.ceiling.output_tokens) // self.ceiling.kv_bytes_per_row


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceRow:
    """One slice of a golden set for one variant, as shown; what a policy decides on stands among the checks."""

    slice: str
    n: int
    reference_accuracy: float | None
    accuracy: float | None
    b: int
    c: int
    loss: float | None
    lower: float | None
    upper: float | None
    level: float
    scale: Scale = "binary"


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityRow:
    """One variant on one golden set."""

    variant: str
    golden_set: str
    items: int
    scored: int
    accuracy: float | None
    truncated: int
    output_tokens: int
    unscored: int
    kl: KLStatistics | None
    mcnemar_p: float | None
    """Exact McNemar, two-sided: tests a loss of zero; informative, never decides."""
    slices: tuple[SliceRow, ...]
    scale: Scale = "binary"
    """``accuracy`` is the share that is right, or the mean score where scores are graded or unbounded."""
    asked: int | None = None
    """Items that were asked, where scoring ended early."""
    figures: tuple[MetricFigure, ...] = ()
    """Each metric's own figure over the set."""
    texts: int | None = None
    """Items answered in words; None where the run that is read did not count them."""
    empty: int | None = None
    """Of these, answers without a single character that can be seen."""
    refusals: int | None = None
    """Of these, answers that read like a refusal, by the rule in ``answers``; shown and never decided on."""
    why_no_kl: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingRow:
    """One variant over the texts of the run's divergence."""

    variant: str
    texts: str
    count: int
    tokens: int
    cut: int
    tokens_per_text: int
    perplexity: float | None
    """Corpus perplexity of these texts, cut as they are."""
    ratio_to_reference: float | None
    """Perplexity over the reference's, same tokens."""
    kl: KLStatistics | None
    why_no_kl: str | None
    reference: Literal["stored", "recomputed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlipRow:
    """An item that the reference and a variant answered with different correctness, or with different scores."""

    variant: str
    golden_set: str
    item_id: str
    slice: str
    prompt: str
    expected: str
    reference_answer: str
    variant_answer: str
    direction: Literal["regression", "recovery"]
    severity: float
    """How far the lead of the right choice over the best wrong one moved, in nats, where log-likelihoods exist; else 0. Of graded scores:
    the change."""
    reference_score: float | None = None
    """Only where scores are graded or unbounded."""
    variant_score: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FlipCount:
    """How many flips a variant has on a golden set, where a report lists the worst of them only."""

    variant: str
    golden_set: str
    regressions: int
    recoveries: int
    listed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenRow:
    """A golden set in the report."""

    name: str
    version: str
    sha256: str
    items: int
    slices: tuple[str, ...]
    chance_level: float
    first_prompt: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The candidate that was put on trial beside the one that is out: the best other one that passed."""

    alias: str
    variant: str
    version: str
    previous: str | None
    """The version that the alias pointed at before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """Percentiles of a time, in seconds, by nearest rank: each is a time that was measured."""

    n: int
    p50_s: float
    p90_s: float
    p99_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleBar:
    """One request in the schedule of a run: the row that held it, when it began and ended, and until when its row was held."""

    row: int
    request_id: str
    started_s: float
    ended_s: float
    held_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchingRow:
    """One engine serving in one way under one pattern of arrivals: medians over repeats, tails over all of them."""

    variant: str
    engine: str
    mode: BatchingMode
    arrivals: str
    rows: int
    requests: int
    repeats: int
    dtype: str
    library: str
    useful_tokens: int | None
    useful_tokens_per_s: float | None
    rates_per_s: tuple[float, ...]
    """Useful tokens/s of each repeat."""
    utilisation: float | None
    steps: int | None
    wall_s: float | None
    ttft: Tail | None
    itl: Tail | None
    queued: Tail | None
    preemptions: int | None
    recomputed_tokens: int | None
    differing: int | None
    """Requests with another id than alone, in any repeat; None where nothing was compared."""
    first_difference: FirstDifference | None
    """Of the one that alone was surest of its own id."""
    ties_only: bool
    """Every difference lies where alone hardly preferred its own id."""
    why_not: str | None
    speed_ratio: float | None = None
    """Useful tokens/s over those of the run's static batches: the baseline, which the first static row is."""
    own_speed_ratio: float | None = None
    """continuous: over the same engine's static batches."""
    utilisation_gain: float | None = None
    """continuous: over the same engine's static batches."""
    itl_p99_ratio: float | None = None
    """continuous: over the same engine's static batches."""
    schedule: tuple[ScheduleBar, ...] = ()
    """Of the first repeat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """What was promoted, or why nothing was."""

    promoted: bool
    registry: str
    model: str
    alias: str
    variant: str | None
    version: str | None
    previous: str | None
    because: str
    trial: Trial | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineRow:
    """Today's reference beside the pinned one on a golden set; figures are None where ``why_not`` says why they were not compared."""

    golden_set: str
    holds: bool
    limits: BaselineLimits
    why_not: str = ""
    n: int | None = None
    b: int | None = None
    """Items that the pinned reference has right and today's wrong; of graded scores, items that lost."""
    c: int | None = None
    loss: float | None = None
    mean_then: float | None = None
    mean_now: float | None = None
    scale: Scale = "binary"
    mcnemar_p: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineReport:
    """What became of the baseline."""

    file: str
    why_not: str
    rows: tuple[BaselineRow, ...] = ()
    run_id: str | None = None
    created_at: str | None = None
    accepted_at: str | None = None
    accepted_by: str | None = None
    reason: str | None = None
    replaced: int = 0
    """Baselines before this one."""
    different: tuple[str, ...] = ()
    """What else is different since: code, libraries, machine."""
    reused: tuple[str, ...] = ()
    """Golden sets whose scores of today's reference are those of an earlier run with the same digest."""

    @property
    def holds(self) -> bool:
        """Today's reference is where the baseline has it, on every golden set."""
        return not self.why_not and bool(self.rows) and all(one.holds for one in self.rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationFigures:
    """One number of drafted tokens at one batch size, as shown."""

    draft_tokens: int
    batch_size: int
    steps: int
    drafted: int
    accepted: int
    emitted: int
    acceptance: float | None
    acceptance_at: tuple[float | None, ...]
    mean_length: float | None
    plain_tokens_per_s: float | None
    tokens_per_s: float | None
    speed_ratio: float | None
    speed_ratio_low: float | None
    speed_ratio_high: float | None
    partings: int
    """Outputs that are not token-identical to plain greedy decoding."""
    partings_beyond_rounding: int
    first_parting: Parting | None = None
    """The one that parts earliest in its output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationRow:
    """One drafter in the report."""

    drafter: str
    dtype: str
    prompts: int
    why_not: str | None
    figures: tuple[SpeculationFigures, ...]
    loss_from_batch: int | None
    """The smallest measured batch at which no number of drafted tokens is faster than plain decoding; None where there is none."""
    draft_weight_bytes: int | None
    draft_kv_bytes_per_row: int | None
    ceiling: int | None
    """Predicted requests of the workload's lengths without a drafter."""
    ceiling_beside: int | None
    """The same with the drafter's weights and cache taken off."""
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """report.json, schema version 1: everything a reader may want to know of a run, in plain values."""

    run_id: str
    created_at: str
    """UTC, ISO 8601."""
    model: str
    model_source: str
    model_note: str
    device: DeviceInfo | None
    outcome: Outcome
    exit_code: int
    headline: str
    sentences: tuple[str, ...]
    """One for each thing that is not a plain pass: what, how much, what was allowed, what to do next."""
    verdicts: tuple[Verdict, ...]
    chosen: str | None
    measurements: tuple[MeasurementRow, ...]
    quality: tuple[QualityRow, ...]
    flips: tuple[FlipRow, ...]
    golden_sets: tuple[GoldenRow, ...]
    policy: Policy
    policy_sha256: str
    evidence_sha256: str
    fingerprint: Fingerprint
    promotion: Promotion | None
    commands: tuple[str, ...]
    """Commands that reproduce or explain the run."""
    seconds: float
    schema_version: int = 1
    flip_counts: tuple[FlipCount, ...] = ()
    """Of variants and golden sets with more flips than are listed here; evidence.json has every item."""
    readings: tuple[ReadingRow, ...] = ()
    """Divergence and perplexity over texts; empty where the run had none."""
    baseline: BaselineReport | None = None
    """None where the run was asked for without one."""
    diagnosis: Diagnosis | None = None
    """Which limit binds, and which lever fits; None where nothing was filled or timed, and in reports of earlier versions."""
    batching: tuple[BatchingRow, ...] = ()
    """Static against continuous batching; empty where the run did not try it."""
    speculation: tuple[SpeculationRow, ...] = ()
    roofs: Roofs | None = None
    price: Price | None = None
    budget: Budget | None = None


# ---------------------------------------------------------------------------------------------- two runs side by side


@dataclass(frozen=True, kw_only=True, slots=True)
class SetChange:
    """One variant on one golden set in both runs; figures are None where ``why_not`` says why they cannot be compared."""

    golden_set: str
    why_not: str | None = None
    n: int | None = None
    b: int | None = None
    """Items right in the first run and wrong in the second; an item without an answer counts against the second."""
    c: int | None = None
    loss: float | None = None
    """(b - c) / n: positive where the second run is worse."""
    lower: float | None = None
    upper: float | None = None
    level: float | None = None
    """One-sided confidence of each bound."""
    mcnemar_p: float | None = None
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    kl_before: float | None = None
    """Mean divergence from the run's own reference, nats a token."""
    kl_after: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureChange:
    """A measured figure in both runs; None where it was not measured in one."""

    name: str
    unit: Literal["bytes", "requests", "tokens/s", "x"]
    before: float | None
    after: float | None
    why_not: str | None = None
    before_bounds: tuple[float, float] | None = None
    """Lower and upper one-sided bound; None where the figure has none."""
    after_bounds: tuple[float, float] | None = None
    before_open: bool = False
    """At least that much: the search ended before a batch failed."""
    after_open: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantChange:
    """What moved in one variant."""

    variant: str
    role: Role
    why_not: str | None
    golden_sets: tuple[SetChange, ...]
    figures: tuple[FigureChange, ...]

    @property
    def compared(self) -> bool:
        """Something of it could be compared."""
        sets = any(one.why_not is None for one in self.golden_sets)
        return sets or any(one.why_not is None and None not in (one.before, one.after) for one in self.figures)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two runs side by side."""

    first: str
    second: str
    why_not: str | None
    """Why nothing can be compared at all."""
    variants: tuple[VariantChange, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    notes: tuple[str, ...]
    schema_version: int = 1

    @property
    def compared(self) -> bool:
        """Something could be compared."""
        return any(one.compared for one in self.variants)


# ---------------------------------------------------------------------------------------------- nights in a row

Trended: TypeAlias = Literal["loss", "error", "kl", "freed", "ceiling", "tokens_per_s"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """A stored run as one of a row."""

    run_id: str
    created_at: str
    evidence: Evidence


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendPoint:
    """One figure of one night; without an interval where the night has none."""

    run_id: str
    created_at: str
    value: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendChange:
    """A change of the level that no night's own noise explains."""

    since: str
    """Run id of the first night behind the change."""
    told: str
    """Run id of the night on which it could be told."""
    nights: int
    """How many nights behind the change it took to tell, that night included."""
    before: float
    after: float
    z: float
    worse: bool
    suspects: tuple[str, ...]
    """What else is different since: code, libraries, model, machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendSeries:
    """One figure of one variant over the nights on which it was measured."""

    variant: str
    role: Role
    what: Trended
    golden_set: str | None
    points: tuple[TrendPoint, ...]
    changes: tuple[TrendChange, ...]

    @property
    def worse(self) -> bool:
        """Its last change was for the worse."""
        return bool(self.changes) and self.changes[-1].worse


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """What moved over the nights of a folder."""

    model: str
    nights: tuple[str, ...]
    series: tuple[TrendSeries, ...]
    notes: tuple[str, ...]
    schema_version: int = 1

    @property
    def worse(self) -> bool:
        """A series stands at a level that is worse than before."""
        return any(one.worse for one in self.series)


# ---------------------------------------------------------------------------------------------- a sign-off

SignOffDecision: TypeAlias = Literal["approve", "approve_with_conditions", "reject"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Signatory:
    """The person who signs, and what they decided."""

    name: str
    role: str
    decision: SignOffDecision
    signed_at: str
    """UTC, ISO 8601."""
    comment: str = ""
    conditions: str = ""
    """What must be kept, where the decision is to approve with conditions; empty otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDigest:
    """A file by its name inside a folder and the digest of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedVerdict:
    """The gate's word on one variant, as it was signed."""

    variant: str
    role: Role
    outcome: Outcome
    because: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedGolden:
    """A golden set as it was signed: ``sha256`` is the digest of its items file."""

    name: str
    version: str
    sha256: str
    items: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedFacts:
    """What a sign-off states of a run besides digests of files: all of it can be found again from evidence and policy."""

    run_id: str
    created_at: str
    model: str
    outcome: Outcome
    exit_code: int
    headline: str
    chosen: str | None
    verdicts: tuple[SignedVerdict, ...]
    waivers: tuple[Waiver, ...]
    """Those that kept a check from blocking."""
    golden_sets: tuple[SignedGolden, ...]
    policy_name: str
    policy_sha256: str
    evidence_sha256: str
    report_sha256: str
    """Digest of the report without what was promoted, which may be written later."""
    environment: Fingerprint


@dataclass(frozen=True, kw_only=True, slots=True)
class SignOff:
    """Who decided what about which run, and the digest of every file that the decision rests on."""

    signatory: Signatory
    facts: SignedFacts
    variant: str | None
    """The variant that was signed for; None where a run is rejected that chose none."""
    checkpoint_sha256: str | None
    checkpoint: tuple[FileDigest, ...]
    """Every file of the variant's checkpoint; empty where a rejection had none at hand."""
    checkpoint_path: str | None = None
    """Where the checkpoint lay when it was signed for."""
    files: tuple[FileDigest, ...]
    """Every file of the run folder: config, policy, evidence, report, pages, golden sets, raw results."""
    page: FileDigest | None = None
    """The page for people, beside the signed statement."""
    verifier: str = ""
    """The version of quantgate that judged again and signed."""
    schema_version: int = 1


# ---------------------------------------------------------------------------------------------- asking an engine


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One row to generate. ``min_new_tokens`` suppresses the end of sequence until that many tokens exist."""

    request_id: str
    tokens: tuple[int, ...]
    max_new_tokens: int
    min_new_tokens: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What a step of a serving engine gave: the new ids of each request, several where the engine gave several at once."""

    ids: Mapping[str, tuple[int, ...]]
    ended: tuple[str, ...] = ()
    """Requests that will get no more, whatever they asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingSettings:
    """How an engine is opened that serves continuously."""

    rows: int
    """Requests that may run at once."""
    context_tokens: int
    """Longest prompt with its output."""
    prompt_tokens: int
    """Longest prompt: the engine must take ``rows`` of them in one step."""
    suppressed_ids: tuple[int, ...] = ()
    """Ids that are never chosen: the ends of sequence, so that lengths are those asked for."""
    threads: int | None = None
    dtype: str | None = None
    """As of ``EngineSettings``, so that every way of serving computes in the same type."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedBatching:
    """The lever's workload as ids, and how engines are opened for it."""

    requests: tuple[Request, ...]
    settings: ServingSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """An engine that serves, as opened."""

    dtype: str
    library: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """What an engine has counted since it was opened; None where it does not tell."""

    steps: int | None = None
    preemptions: int | None = None
    recomputed_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """The ids that one decode step gave to each running request."""

    ids: Mapping[str, int]
    nonfinite: tuple[str, ...] = ()
    """Requests whose logits were not all finite at this step."""
    first_logprobs: Mapping[str, float] | None = None
    """Log probability of the chosen token, at the first step only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceLogProbs:
    """Log-likelihoods, in nats, of the continuations of one context; None where not finite."""

    index: int
    totals: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """How a session is opened."""

    threads: int | None = None
    dtype: str | None = None
    """None: the artifact's own, or float32 where the device has no fast half precision."""
    scoring_only: bool = False
    """The variant is neither filled nor timed: packed layers may keep unpacked weights."""
    kv_cache: KVCache | None = None
    """None: the cache is kept in the model's float type."""
    cached_scoring: bool = False
    """Log-likelihoods are read through the cache whatever the model allows, as those of a variant with another cache must be."""
