"""Name -> ``module:attribute`` for each seam. Adapters are named as strings, so that nothing heavy is imported before it is used.

Other distributions add adapters through entry points of the group ``quantgate.<seam>``.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from quantgate.errors import MissingExtra, UnknownPlugin, UsageError

BUILT_IN: dict[str, dict[str, str]] = {
    "quantizer": {
        "reference": "quantgate.quantizers.reference:ReferenceQuantizer",
        "bitsandbytes": "quantgate.quantizers.bitsandbytes:BitsAndBytesQuantizer",
        "rtn": "quantgate.quantizers.rtn:RoundToNearestQuantizer",
        "fake": "quantgate.quantizers.fake:FakeQuantizer",
    },
    "engine": {
        "transformers": "quantgate.engines.transformers:TransformersEngine",
        "fake": "quantgate.engines.fake:FakeEngine",
    },
    "device": {
        "cpu": "quantgate.devices.cpu:CpuDevice",
        "cuda": "quantgate.devices.cuda:CudaDevice",
        "fake": "quantgate.devices.fake:FakeDevice",
    },
    "metric": {
        "exact_match": "quantgate.metrics.exact_match:ExactMatch",
        "multiple_choice": "quantgate.metrics.multiple_choice:MultipleChoice",
    },
    "reader": {
        "lm_eval": "quantgate.readers.lm_eval:LmEvalReader",
        "inspect": "quantgate.readers.inspect:InspectReader",
        "nemo": "quantgate.readers.nemo:NemoReader",
        "table": "quantgate.readers.table:TableReader",
        "parquet": "quantgate.readers.parquet:ParquetReader",
    },
    "executor": {"process": "quantgate.executors.process:ProcessExecutor"},
    "sink": {
        "folder": "quantgate.sinks.folder:FolderSink",
        "junit": "quantgate.sinks.junit:JUnitSink",
        "mlflow": "quantgate.sinks.mlflow:MlflowSink",
        "console": "quantgate.sinks.console:ConsoleSink",
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

EXTRAS = {"signer": "signing"}
"""Seams whose libraries come with an extra of quantgate."""


def known(seam: str) -> dict[str, str]:
    """Every name of a seam with its target, installed entry points included; built-in names win."""
    found = {point.name: point.value for point in entry_points(group=f"quantgate.{seam}")}
    return {**found, **BUILT_IN[seam]}


def check(seam: str, name: str) -> None:
    """Raise ``UnknownPlugin`` with the nearest names where the seam has no such name. Imports nothing."""
    _target(seam, name)


def load(seam: str, name: str) -> Any:
    """The adapter's class. Raises ``UnknownPlugin``, or ``MissingExtra`` where the library behind it is not installed."""
    module, _, attribute = _target(seam, name).partition(":")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "?").split(".")[0]
        if missing == "quantgate":
            raise
        wanted = f"'quantgate[{EXTRAS[seam]}]'" if seam in EXTRAS and missing != name else missing
        raise MissingExtra(f"{seam} '{name}'", missing, install=f"pip install {wanted}") from error
    if not hasattr(found, attribute):
        raise UsageError(f"{seam} '{name}' is entered as {module}:{attribute}, and {module} has no such class")
    return getattr(found, attribute)


def _target(seam: str, name: str) -> str:
    """``module:attribute`` of a name. Built-in names come first: reading the entry points of all distributions takes a while."""
    if name in BUILT_IN[seam]:
        return BUILT_IN[seam][name]
    names = known(seam)
    if name not in names:
        every = tuple(sorted(names))
        raise UnknownPlugin(seam, name, nearest=tuple(get_close_matches(name, every, n=2)), known=every)
    return names[name]
