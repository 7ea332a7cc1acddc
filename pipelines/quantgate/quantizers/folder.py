"""What a variant's folder holds besides its weights: the tokenizer, and which modules were rounded. Knows no model library.

``quantgate-artifact.json`` names the quantized modules, because a simulated variant keeps plain float layers that no class name gives away.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from quantgate.errors import ConfigError, EngineError
from quantgate.records import Scalar

MANIFEST_NAME = "quantgate-artifact.json"

_TOKENIZER_FILES = (
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "additional_chat_templates/*",
    "vocab.*",
    "merges.txt",
    "*.model",
    "*.tiktoken",
)


def copy_tokenizer(base: Path, into: Path) -> None:
    """Copy the tokenizer byte for byte: loading and saving it again may change it from one library version to the next."""
    for pattern in _TOKENIZER_FILES:
        for file in sorted(base.glob(pattern)):
            if file.is_file():
                target = into / file.relative_to(base)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)


def write_manifest(into: Path, *, scheme: str, quantized_modules: Iterable[str]) -> None:
    """Leave the names of the quantized modules, in name order, for the engine."""
    document = {"schema_version": 1, "scheme": scheme, "quantized_modules": sorted(quantized_modules)}
    (into / MANIFEST_NAME).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> tuple[str, ...] | None:
    """The names of the quantized modules; None where the folder carries no manifest. Raises ``EngineError`` on an unreadable one."""
    path = folder / MANIFEST_NAME
    if not path.exists():
        return None
    try:
        return tuple(str(name) for name in json.loads(path.read_text(encoding="utf-8"))["quantized_modules"])
    except (ValueError, KeyError, TypeError) as error:
        raise EngineError(f"{path}: not a quantgate artifact manifest ({error}); build the variant again") from error


def check_options(quantizer: str, options: Mapping[str, Scalar] | None, allowed: tuple[str, ...]) -> dict[str, Scalar]:
    """The options as a dict. Raises ``ConfigError`` with the nearest name where one is not known."""
    given = dict(options or {})
    for name in given:
        if name not in allowed:
            near = get_close_matches(name, allowed, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise ConfigError(f"{quantizer}: unknown option '{name}': {hint}allowed are {', '.join(allowed) or 'none'}")
    return given


def bool_option(quantizer: str, options: Mapping[str, Scalar], name: str, default: bool) -> bool:
    """A yes-or-no option. Raises ``ConfigError`` for anything but a YAML boolean."""
    value = options.get(name, default)
    if not isinstance(value, bool):
        raise ConfigError(f"{quantizer}: option '{name}' is {value!r}; allowed are true and false")
    return value
