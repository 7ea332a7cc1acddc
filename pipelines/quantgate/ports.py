"""Every interface on one screen. Stages and the pipeline see these; adapters implement them and import their own libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from quantgate.golden_keys import ItemKeys
from quantgate.records import (
    Artifact,
    ChoiceLogProbs,
    Counters,
    DeviceConfig,
    DeviceInfo,
    DeviceState,
    EngineSettings,
    GoldenItem,
    GoldenSet,
    ItemEvidence,
    ItemScore,
    Loaded,
    MetricInfo,
    ModelShape,
    ModelSource,
    PeakMemory,
    ReadOptions,
    Report,
    Request,
    Results,
    Served,
    Serving,
    ServingSettings,
    Step,
    Variant,
)

Progress = Callable[[int, int, str], None]
"""``progress(done, total, what)``; total 0 where the end is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantizePlan:
    """What a quantizer gets. ``base`` is the reference's artifact, None while the reference itself is being prepared."""

    model: ModelSource
    variant: Variant
    base: Artifact | None
    device: DeviceConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One text to be written by greedy decoding."""

    item_id: str
    """Whom an error is to name."""
    context: str
    stop: tuple[str, ...]
    max_new_tokens: int


class Quantizer(Protocol):
    """Turns the reference into a variant on disk."""

    def why_not(self, plan: QuantizePlan) -> str | None:
        """None where the plan is supported, else one sentence. Loads no weights."""

    def quantize(self, plan: QuantizePlan, into: Path, progress: Progress) -> Artifact:
        """Write the variant into the empty folder ``into``. ``sha256`` and ``stored_bytes`` are filled in by the caller.

        An adapter that uses files where they are (an unquantized folder as reference) returns that folder as ``path``.
        """


class MemoryWatch(Protocol):
    """The result of a watched block, readable after its end."""

    @property
    def peak(self) -> PeakMemory: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Exercise:
    """Work that a device does again and again so that somebody can time it. ``amount``: bytes read, or operations, in one go."""

    way: str
    amount: float
    run: Callable[[], object]


class Device(Protocol):
    """The hardware: its clock, its memory and its barrier."""

    info: DeviceInfo

    def synchronize(self) -> None: ...

    def now_s(self) -> float:
        """The one clock that everything on this device is timed with, in seconds."""

    def wait(self, seconds: float) -> None:
        """Let so much time pass on that clock, for a request that has not arrived yet."""

    def live_bytes(self) -> int:
        """Bytes in use by this process's model now, comparable with ``PeakMemory``."""

    def watch_memory(self) -> AbstractContextManager[MemoryWatch]: ...

    def release(self) -> None:
        """Give cached memory back; called outside exception handlers."""

    def reading(self, size_bytes: int) -> Sequence[Exercise]:
        """Ways of reading ``size_bytes`` of memory once, all at once in memory. Raises ``OutOfMemory`` where it has no more."""

    def multiplying(self, side: int, dtype: str) -> Exercise:
        """A product of two square matrices. Raises ``EngineError`` for a type that the device does not multiply."""

    def state(self) -> DeviceState:
        """Clocks and heat now, as far as the device tells."""


class Tokenizer(Protocol):
    """Text to ids and back, with the special ids that matter."""

    bos_id: int | None
    eos_ids: tuple[int, ...]
    vocabulary_size: int
    has_template: bool
    """Whether there is a chat template: an item that names no template is put into it."""
    digest: str
    """Digest of vocabulary and chat template."""

    def encode(self, text: str, *, add_bos: bool) -> tuple[int, ...]:
        """Ids of the text; with ``add_bos`` exactly one BOS at the start where the model uses one."""

    def decode(self, ids: Sequence[int]) -> str: ...

    def pieces(self) -> Sequence[str]:
        """What each id stands for, in the order of the ids; the vocabulary alone, whatever an embedding pads it to."""

    def render(self, item: GoldenItem) -> str:
        """The text of an item as the model sees it, chat template applied where the item asks for it, or names none and there is one."""


class Trail(Protocol):
    """Rows under way whose next tokens the caller brings, and may take back: greedy decoding seen from outside.

    All rows share one cache. A row that has ended leaves it with ``keep``.
    """

    first: Sequence[int]
    """The likeliest token after each context."""

    def read(self, tokens: Sequence[Sequence[int]]) -> list[list[int]]:
        """Read some tokens in each row, none in a row without any; the likeliest next token after each of them.

        Raises ``NumericallyInvalid`` where logits are not finite.
        """

    def last_logits(self) -> Any:
        """Float32 [rows, tokens, vocabulary] of what was read last, rows padded on the right."""

    def take_back(self, counts: Sequence[int]) -> None:
        """Forget the last so many tokens of each row."""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows, in this order."""

    def close(self) -> None:
        """Let go of the cache."""


class Session(Protocol):
    """A loaded variant."""

    shape: ModelShape
    loaded: Loaded
    tokenizer: Tokenizer

    def generate(self, requests: Sequence[Request]) -> Iterator[Step]:
        """Greedy decoding of one batch, a step at a time; rows end at EOS, a stop string or their cap."""

    def logprobs(
        self, contexts: Sequence[tuple[int, ...]], continuations: Sequence[Sequence[tuple[int, ...]]]
    ) -> Iterator[ChoiceLogProbs]:
        """Each context runs once, its continuations reuse its cache; one batch of contexts a call."""

    def distributions(self, contexts: Sequence[tuple[int, ...]], *, every_position: bool = False) -> Iterator[Any]:
        """Float32 arrays [rows, vocabulary] of raw logits after each context, in order, one batch a call.

        With ``every_position`` after each token of each context: the first context's rows first, in blocks of at most 64 MiB, a block
        within one context. The next block is made when it is asked for.
        """

    def follow(self, contexts: Sequence[tuple[int, ...]]) -> Trail:
        """Read the contexts and let the caller choose what comes after them.

        Raises ``EngineError`` where this model cannot take tokens back.
        """


class Engine(Protocol):
    """Opens artifacts."""

    def open(self, artifact: Artifact, settings: EngineSettings, device: Device) -> AbstractContextManager[Session]: ...


class Stream(Protocol):
    """A loaded variant that serves: requests come at any time, and rows come and go at every step. Greedy decoding."""

    serving: Serving

    def submit(self, request: Request) -> None:
        """Hand a request over; it runs when a row is free. Its length is ``max_new_tokens``, ends of sequence are never chosen."""

    def step(self) -> Served:
        """Wait for the next ids. Called only while a submitted request has not ended. Raises ``EngineError`` where serving failed."""

    def counters(self) -> Counters: ...


class Batcher(Protocol):
    """Opens artifacts for serving with continuous batching, in a process of its own."""

    def open(self, artifact: Artifact, settings: ServingSettings, device: Device) -> AbstractContextManager[Stream]: ...


class Metric(Protocol):
    """Scores one item from what the model produced, and combines items as the metric is: a corpus figure is no mean of items'."""

    info: MetricInfo
    keys: ItemKeys
    """What its items have in a golden set."""

    def info_of(self, item: GoldenItem) -> MetricInfo:
        """The metric as this item's options make it; items of different kinds are never combined."""

    def why_unfit(self, item: GoldenItem) -> str | None:
        """Half a sentence, with the field, where an item could not be scored whatever a model does. Asked before anything is built."""

    def score(self, item: GoldenItem, evidence: ItemEvidence) -> ItemScore:
        """The item's score, turned so that larger is better."""

    def combine(self, items: Sequence[ItemScore]) -> float | None:
        """The figure of these items in the metric's own unit and direction; None where none has a value."""


class Worker(Protocol):
    """One variant's process, asked and answering in records' JSON."""

    def ask(self, request: dict[str, Any], progress: Progress) -> Any:
        """Send one request and wait for its reply. Raises what the worker raised, or ``WorkerDied``."""

    def close(self) -> None:
        """End it after its current answer. Safe to call twice."""

    def kill(self) -> None:
        """End it now, with whatever it started."""


class Executor(Protocol):
    """Starts workers."""

    def open(self, variant: Variant, log: Path) -> Worker: ...


class Reader(Protocol):
    """Reads the per-item results of one model that another tool wrote."""

    name: str

    def recognises(self, path: Path) -> bool:
        """Whether a file or folder is of this format, from its name and first bytes. False for one that cannot be read."""

    def read(self, path: Path, options: ReadOptions) -> Results:
        """Every item of a file or folder.

        Raises ``ResultsError`` for what cannot be read without a guess, ``BrokenResults`` for evidence that is not whole.
        """


class Answers(Protocol):
    """A loaded variant as somebody else's task code asks it: in text, all requests of a kind together."""

    def loglikelihoods(self, asked: Sequence[tuple[str, str]], *, greedy: bool) -> list[tuple[float, bool]]:
        """Nats of each continuation after its context, NaN where not finite, and whether greedy decoding writes it.

        Without ``greedy`` the second is False and costs nothing. An empty context is one BOS, or EOS where the model uses none.
        """

    def rolling(self, texts: Sequence[str]) -> list[float]:
        """Nats of each text, every token once, with as much context as the model holds. NaN where not finite."""

    def generate(self, asked: Sequence[Written]) -> list[ItemEvidence]:
        """What greedy decoding writes after each context, in the order asked."""


class Source(Protocol):
    """Makes golden items from what lies elsewhere."""

    name: str

    def gather(self, asked: Any, into: Path) -> GoldenSet:
        """The items that a source's record asks for, written below the folder ``into`` where they are a golden set's own.

        Raises ``ConfigError`` or ``GoldenSetError``; reads the source anew each time.
        """


class TaskSource(Source, Protocol):
    """A source whose own code asks and scores."""

    def score(self, golden: GoldenSet, answers: Answers) -> tuple[ItemScore, ...]:
        """One score an item of the golden set, in its order. Raises ``GoldenSetError`` where the tasks are no longer those gathered."""


class Sink(Protocol):
    """Publishes a report where a person finds it."""

    name: str

    def publish(self, report: Report, folder: Path) -> str: ...


class Display(Protocol):
    """Shows a person where a run is. Keeps the run's own clock."""

    def start(self, folder: Path, plan: Sequence[str]) -> None:
        """``plan``: the stage of each step to come, in order."""

    def step(self, variant: str, stage: str) -> None: ...

    def progress(self, done: int, total: int, what: str) -> None: ...

    def step_done(self, *, reused: bool) -> None: ...

    def note(self, text: str) -> None: ...

    def stop(self) -> None: ...

    def now_s(self) -> float: ...


class Registry(Protocol):
    """Keeps model versions and the alias that points at the one that is out."""

    def register(self, model: str, report: Report, variant: str) -> str:
        """Record a judged candidate and return its version; the version points at the artifact, weights are not copied.

        The same artifact and evidence registered again gives the version that exists.
        """

    def alias(self, model: str, alias: str) -> str | None:
        """The version the alias points at, None where it points nowhere."""

    def move(self, model: str, alias: str, *, to: str, expecting: str | None, reason: str | None = None) -> None:
        """Compare-and-set. Raises ``RegistryError`` where the alias does not point at ``expecting``.

        ``reason``: why it is moved back; kept with the history of the move.
        """

    def tags(self, model: str, version: str) -> Mapping[str, str]:
        """What a version was registered with. Raises ``RegistryError`` where there is no such version."""


class Signer(Protocol):
    """Puts its name under a statement, in one signed envelope, and checks who put theirs."""

    def sign(self, statement: bytes, secret: str) -> str:
        """The signed envelope as text; ``secret`` is what the adapter signs with: a key file, an identity."""

    def check(self, text: str, trusted: Sequence[str]) -> str:
        """Key id of the trusted key that signed. Raises ``SignatureError`` for a foreign key or a signature that does not hold."""

    def payload(self, text: str) -> bytes:
        """The statement in an envelope, believed or not. Raises ``SignatureError`` where there is none."""


__all__ = [
    "Answers",
    "Batcher",
    "Device",
    "Display",
    "Engine",
    "Executor",
    "Exercise",
    "MemoryWatch",
    "Metric",
    "Progress",
    "QuantizePlan",
    "Quantizer",
    "Reader",
    "Registry",
    "Session",
    "Signer",
    "Sink",
    "Source",
    "Stream",
    "TaskSource",
    "Tokenizer",
    "Trail",
    "Worker",
    "Written",
]
