"""What is different between two runs besides the answers: code, libraries, model, machine. Pure; it names facts and blames none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from quantgate.records import Fingerprint

_WORDS: Mapping[str, str] = {
    "quantgate_version": "quantgate",
    "source_sha256": "code that measures",
    "model_sha256": "model",
    "config_sha256": "config",
}


def changed(before: Fingerprint, after: Fingerprint) -> Iterator[str]:
    """Each field of the fingerprint that is another one, with both values; each library by its name."""
    for field in fields(Fingerprint):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if was == now:
            continue
        if field.name == "libraries":
            names = sorted({*was, *now})
            yield from (f"{name} {was.get(name, 'none')} -> {now.get(name, 'none')}" for name in names if was.get(name) != now.get(name))
        elif field.name == "device":
            yield from _device(was and was.name, now and now.name)
        else:
            yield f"{_WORDS.get(field.name, field.name)} {_brief(was)} -> {_brief(now)}"


def _device(was: str | None, now: str | None) -> Iterator[str]:
    """The device by its name: what was free on it is another figure every night."""
    if was != now:
        yield f"device {was or 'not known'} -> {now or 'not known'}"


def _brief(value: str | None) -> str:
    return "not known" if value is None else value if len(value) <= 40 else value[:12]
