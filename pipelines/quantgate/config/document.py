"""A YAML file that knows the line of every key, and says what is wrong at it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from quantgate.config.sections import PATTERNS, SCHEMA_VERSION
from quantgate.errors import ConfigError
from quantgate.refusals import allowed

KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")
MISREAD = re.compile(r"[-+]?(0[0-9_]+(\..*)?|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)")
"""Numbers that YAML does not read as they stand: 0300 is octal, and 1:30 is counted in sixties."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A parsed YAML file that knows the line of every key."""

    file: str
    values: Any
    lines: Mapping[tuple[str | int, ...], int]

    @classmethod
    def read(cls, path: Path) -> Document:
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError as error:
            raise ConfigError("no such file", file=str(path)) from error
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}", file=str(path)) from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"cannot be read: not UTF-8 at byte {error.start + 1}; save the file as UTF-8", file=str(path)) from error
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            lines = {} if node is None else dict(_lines(node, (), str(path)))
            values = yaml.safe_load(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            what = f"not valid YAML: {getattr(error, 'problem', None) or error}"
            raise ConfigError(what, file=str(path), line=mark.line + 1 if mark else None) from error
        except (RecursionError, ValueError) as error:
            raise ConfigError(f"not usable YAML: {error or type(error).__name__}", file=str(path)) from error
        if not isinstance(values, dict):
            raise ConfigError("a mapping of keys is expected at the top level", file=str(path), line=1)
        return cls(file=str(path), values=values, lines=lines)

    def parse(self, model: type[Any]) -> Any:
        try:
            read = model.model_validate(self.values)
        except ValidationError as error:
            # A misspelt key is also a missing one: the misspelling comes first.
            details = sorted(_meant(error.errors()), key=lambda detail: detail["type"] != "extra_forbidden")
            raise self._translate(model, details[0]) from None
        if read.schema_version != SCHEMA_VERSION:
            raise self.error(
                ("schema_version",),
                f"this quantgate reads schema_version {SCHEMA_VERSION}; found {read.schema_version}",
            )
        return read

    def error(self, where: tuple[str | int, ...], what: str) -> ConfigError:
        return ConfigError(what, file=self.file, line=self._line(where))

    def _line(self, where: tuple[str | int, ...]) -> int | None:
        for length in range(len(where), 0, -1):
            if where[:length] in self.lines:
                return self.lines[where[:length]]
        return 1

    def _place(self, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """A path without the branches of unions that pydantic puts into it; the last part may be a key that is missing."""
        kept: tuple[str | int, ...] = ()
        for part in loc[:-1]:
            if (*kept, part) in self.lines:
                kept = (*kept, part)
        return (*kept, *loc[-1:])

    def _translate(self, model: type[BaseModel], detail: ErrorDetails) -> ConfigError:
        where = self._place(tuple(detail["loc"]))
        while where and where not in self.lines and detail["type"] != "missing":
            where = where[:-1]  # pydantic adds the branch of a union to the path
        key = ".".join(str(part) for part in where)
        match detail["type"]:
            case "extra_forbidden":
                allowed = sorted(_keys_at(model, where[:-1]))
                nearest = get_close_matches(str(where[-1]), allowed, n=1)
                hint = f"did you mean '{nearest[0]}'? " if nearest else ""
                return self.error(where, f"unknown key '{where[-1]}': {hint}allowed here are {', '.join(allowed)}")
            case "missing":
                return self.error(where[:-1], f"key '{key}' is missing")
            case _:
                return self.error(where, f"{key}: {_plain(detail)}")


def _meant(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without what a union says of its other branch: whoever wrote a section did not mean a text."""
    deeper = [detail for detail in details if detail["loc"][-1:] != ("str",) and detail["type"] != "model_type"]
    places = {two["loc"][:length] for two in deeper for length in range(len(two["loc"]))}
    return [_of_options(one) for one in details if one["loc"][-1:] != ("str",) or one["loc"][:-1] not in places]


def _of_options(detail: ErrorDetails) -> ErrorDetails:
    """An option may be text, a number or a truth value: of these branches the first would say that only a whole number will do."""
    if detail["loc"][-3:-2] != ("options",) or detail["loc"][-1] not in ("str", "int"):
        return detail
    return {**detail, "type": "finite_number" if isinstance(detail["input"], float) else "scalar_type"}


def _plain(detail: ErrorDetails) -> str:
    """What is allowed, with the value that was found and, where the value looks like a number in text, how to write it."""
    found = detail["input"]
    text = f"{allowed(detail, PATTERNS)}; found {_found(found)}"
    if isinstance(found, bool):
        text += " (YAML reads on, off, yes and no as true or false; put text in quotes)"
    elif isinstance(found, str) and detail["type"] in {"float_type", "int_type", "literal_error"}:
        text += _number_hint(found)
    return text


def _found(value: Any) -> str:
    """A value of YAML as a person reads it."""
    match value:
        case None:
            return "nothing"
        case date():
            return f"the day {value.isoformat()}; put it in quotes where text is meant"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a section of keys"
        case _:
            return repr(value)


def _number_hint(found: str) -> str:
    try:
        number = float(found.rstrip("%")) / (100 if found.endswith("%") else 1)
    except ValueError:
        return ""
    written = f"{number:g}" if "e" not in f"{number:g}" else f"{number:.1e}"
    return f" (this is text to YAML; write {written})"


def _keys_at(model: type[BaseModel], where: tuple[str | int, ...]) -> set[str]:
    """The keys a section allows, found by walking the models along the path."""
    current: Any = model
    named = False  # the last part was a section whose own keys are names that a person chose
    for part in where:
        if named:
            named = False
        elif isinstance(part, str) and isinstance(current, type) and issubclass(current, BaseModel):
            annotation = current.model_fields[part].annotation
            named = getattr(annotation, "__origin__", None) is dict
            current = _section_in(annotation)
    fields = current.model_fields if isinstance(current, type) and issubclass(current, BaseModel) else {}
    return {field.alias or name for name, field in fields.items()}


def _section_in(annotation: Any) -> Any:
    """The section model inside an annotation such as ``list[VariantSection]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in getattr(annotation, "__args__", ()) if (found := _section_in(arg)) is not None), None)


def _lines(node: yaml.Node, where: tuple[str | int, ...], file: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    match node:
        case yaml.MappingNode():
            seen: set[Any] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue  # no key at all, which the loader refuses
                if key.tag not in KEY_TAGS:
                    what = f"key '{key.value}' is no text to YAML (on, off, yes and no are true or false); put it in quotes"
                    raise ConfigError(what, file=file, line=key.start_mark.line + 1)
                if key.value in seen:
                    raise ConfigError(
                        f"key '{key.value}' stands twice in this section", file=file, line=key.start_mark.line + 1
                    )
                seen.add(key.value)
                path = (*where, key.value)
                yield path, key.start_mark.line + 1
                yield from _lines(value, path, file)
        case yaml.SequenceNode():
            for index, value in enumerate(node.value):
                yield (*where, index), value.start_mark.line + 1
                yield from _lines(value, (*where, index), file)
        case yaml.ScalarNode() if node.style is None:
            _check_scalar(node, where, file)
        case _:
            return


def _check_scalar(node: yaml.ScalarNode, where: tuple[str | int, ...], file: str) -> None:
    """Refuse what YAML reads as another number than is written, and a day that is none; text in quotes is text."""
    key, line = ".".join(map(str, where)), node.start_mark.line + 1
    read = yaml.constructor.SafeConstructor()
    match node.tag.rpartition(":")[2]:
        case "int" | "float" as kind if MISREAD.fullmatch(node.value):
            value = read.construct_yaml_int(node) if kind == "int" else read.construct_yaml_float(node)
            plain = re.sub(r"^([-+]?)0+(?=\d)", r"\1", node.value.replace("_", ""))
            meant = f"{value:g}" if ":" in plain else plain
            what = f"{key}: YAML reads {node.value} as {value:g}; write {meant}, or '{node.value}' in quotes where text is meant"
            raise ConfigError(what, file=file, line=line)
        case "timestamp":
            try:
                read.construct_yaml_timestamp(node)
            except ValueError as error:
                raise ConfigError(f"{key}: there is no such day or time; found {node.value}", file=file, line=line) from error
