"""Name -> ``module:attribute`` for each seam. Adapters are named as strings, so that nothing heavy is imported before it is used.

Other distributions add adapters through entry points of the group ``quantgate.<seam>``.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from quantgate import golden_keys
from quantgate.errors import MissingExtra, UnknownPlugin, UsageError
from quantgate.golden_keys import ItemKeys

BUILT_IN: dict[str, dict[str, str]] = {
    "quantizer": {
        "reference": "quantgate.quantizers.reference:ReferenceQuantizer",
        "bitsandbytes": "quantgate.quantizers.bitsandbytes:BitsAndBytesQuantizer",
        "gptq": "quantgate.quantizers.gptq:GptqQuantizer",
        "rtn": "quantgate.quantizers.rtn:RoundToNearestQuantizer",
        "checkpoint": "quantgate.quantizers.checkpoint:CheckpointQuantizer",
        "fake": "quantgate.quantizers.fake:FakeQuantizer",
    },
    "engine": {
        "transformers": "quantgate.engines.transformers:TransformersEngine",
        "fake": "quantgate.engines.fake:FakeEngine",
    },
    "batcher": {
        "transformers": "quantgate.levers.continuous_batching:TransformersBatcher",
        "vllm": "quantgate.levers.vllm:VllmBatcher",
        "fake": "quantgate.levers.fake:FakeBatcher",
    },
    "device": {
        "cpu": "quantgate.devices.cpu:CpuDevice",
        "cuda": "quantgate.devices.cuda:CudaDevice",
        "fake": "quantgate.devices.fake:FakeDevice",
    },
    "metric": {
        "exact_match": "quantgate.metrics.exact_match:ExactMatch",
        "multiple_choice": "quantgate.metrics.multiple_choice:MultipleChoice",
        "multiple_choice_norm": "quantgate.metrics.multiple_choice_norm:MultipleChoiceNorm",
        "multiple_choice_norm_bytes": "quantgate.metrics.multiple_choice_norm_bytes:MultipleChoiceNormBytes",
        "numeric_match": "quantgate.metrics.numeric_match:NumericMatch",
        "regex": "quantgate.metrics.regex:Regex",
        "f1": "quantgate.metrics.f1:F1",
        "rouge": "quantgate.metrics.rouge:Rouge",
        "bleu": "quantgate.metrics.bleu:Bleu",
        "json_schema": "quantgate.metrics.json_schema:JsonSchema",
        "instructions": "quantgate.metrics.instructions:Instructions",
        "perplexity": "quantgate.metrics.perplexity:Perplexity",
        "library": "quantgate.metrics.library:Library",
    },
    "reader": {
        "lm_eval": "quantgate.readers.lm_eval:LmEvalReader",
        "inspect": "quantgate.readers.inspect:InspectReader",
        "nemo": "quantgate.readers.nemo:NemoReader",
        "table": "quantgate.readers.table:TableReader",
        "parquet": "quantgate.readers.parquet:ParquetReader",
    },
    "source": {
        "datasets": "quantgate.sources.datasets:DatasetsSource",
        "lm_eval": "quantgate.sources.lm_eval:LmEvalSource",
    },
    "executor": {"process": "quantgate.executors.process:ProcessExecutor"},
    "sink": {
        "folder": "quantgate.sinks.folder:FolderSink",
        "junit": "quantgate.sinks.junit:JUnitSink",
        "mlflow": "quantgate.sinks.mlflow:MlflowSink",
        "console": "quantgate.sinks.console:ConsoleSink",
        "github": "quantgate.sinks.github:GitHubSink",
    },
    "registry": {
        "mlflow": "quantgate.registries.mlflow:MlflowRegistry",
        "local": "quantgate.registries.local:LocalRegistry",
    },
    "signer": {
        "ed25519": "quantgate.signers.ed25519:Ed25519Signer",
        "sigstore": "quantgate.signers.sigstore:SigstoreSigner",
    },
}
EXTRAS = {
    "lm_eval": "'quantgate[lm-eval]'",
    **dict.fromkeys(("jsonschema", "rouge_score", "sacrebleu"), "'quantgate[metrics]'"),
    "vllm": "'quantgate[vllm]'",
    **dict.fromkeys(("securesystemslib", "in_toto_attestation"), "'quantgate[signing]'"),
}
"""Library -> what to install, where that is not the library's own name."""

BESIDE: dict[str, dict[str, str]] = {
    "settings": {
        "reference": "quantgate.quantizers.settings:reference",
        "bitsandbytes": "quantgate.quantizers.settings:bitsandbytes",
        "gptq": "quantgate.quantizers.settings:gptq",
        "rtn": "quantgate.quantizers.settings:rtn",
        "checkpoint": "quantgate.quantizers.settings:checkpoint",
        "fake": "quantgate.quantizers.fake:settings",
    },
    "texts": {"dataset": "quantgate.quantizers.texts:of_dataset"},
    "marks": {"mlflow": "quantgate.sinks.mlflow_marks:MlflowMarks"},
    "comparison": {"mlflow": "quantgate.sinks.mlflow_view:comparison"},
    "watch": {"mlflow": "quantgate.sinks.mlflow_system:SystemWatch"},
}
"""What built-in adapters have beside them and no port asks for: how a quantizer reads a variant, what reads a dataset's texts."""


def known(seam: str) -> dict[str, str]:
    """Every name of a seam with its target, installed entry points included; built-in names win."""
    found = {point.name: point.value for point in entry_points(group=f"quantgate.{seam}")}
    return {**found, **BUILT_IN[seam]}


def check(seam: str, name: str) -> None:
    """Raise ``UnknownPlugin`` with the nearest names where the seam has no such name. Imports nothing."""
    _target(seam, name)


def load(seam: str, name: str) -> Any:
    """The adapter's class. Raises ``UnknownPlugin``, or ``MissingExtra`` where the library behind it is not installed."""
    return _loaded(_target(seam, name), f"{seam} '{name}'")


def beside(kind: str, name: str) -> Any:
    """What stands beside a built-in adapter; None where nothing does."""
    target = BESIDE[kind].get(name)
    return None if target is None else _loaded(target, f"{kind} '{name}'")


def _loaded(target: str, what: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "?").split(".")[0]
        if missing == "quantgate":
            raise
        raise MissingExtra(what, missing, install=f"pip install {EXTRAS.get(missing, missing)}") from error
    if not hasattr(found, attribute):
        raise UsageError(f"{what} is entered as {module}:{attribute}, and {module} has no such class")
    return getattr(found, attribute)


def item_keys(metric: str) -> ItemKeys | None:
    """The keys of a metric's items: from the table for those that come with the program, else from the adapter; None for no metric."""
    if metric in golden_keys.BUILT_IN or metric not in known("metric"):
        return golden_keys.BUILT_IN.get(metric)
    keys = getattr(load("metric", metric), "keys", None)
    if not isinstance(keys, ItemKeys):
        raise UsageError(f"metric '{metric}' does not say which keys its items have: its class needs 'keys', an ItemKeys")
    return keys


def _target(seam: str, name: str) -> str:
    """``module:attribute`` of a name. Built-in names come first: reading the entry points of all distributions takes a while."""
    if name in BUILT_IN[seam]:
        return BUILT_IN[seam][name]
    names = known(seam)
    if name not in names:
        every = tuple(sorted(names))
        raise UnknownPlugin(seam, name, nearest=tuple(get_close_matches(name, every, n=2)), known=every)
    return names[name]
