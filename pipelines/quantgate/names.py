"""What an alias may be called: known at config time, so that no run is lost to a name that is refused hours later.

The rules are the strictest of the registries: MLflow reserves ``latest`` in any case and names that look like a version
(``v1``, ``V12``), allows letters, digits, ``_`` and ``-``, and at most 255 characters. Standard library only.
"""

from __future__ import annotations

import re

from quantgate.errors import ConfigError

MAX_CHARACTERS = 255
_ALLOWED = re.compile(r"[A-Za-z0-9_-]+")
_VERSION = re.compile(r"[vV][0-9]+")


def check_alias(name: str) -> None:
    """Raise ``ConfigError`` where no registry would take the name as an alias, saying what is allowed."""
    why = _why_not(name)
    if why is not None:
        raise ConfigError(f"alias {_shown(name)} {why}: use for example 'champion' or 'candidate-nf4'")


def _why_not(name: str) -> str | None:
    """What is wrong with the name, None where nothing is."""
    if not name:
        return "is empty"
    if len(name) > MAX_CHARACTERS:
        return f"has {len(name)} characters, at most {MAX_CHARACTERS} are allowed"
    if not _ALLOWED.fullmatch(name):
        return "may hold only letters, digits, '_' and '-'"
    if name.lower() == "latest":
        return "is reserved by MLflow, in any case"
    if _VERSION.fullmatch(name):
        return "reads as a version number and is reserved by MLflow"
    return None


def _shown(name: str) -> str:
    """The name in quotes, shortened for a message."""
    return repr(name) if len(name) <= 40 else f"{name[:37]!r}..."
