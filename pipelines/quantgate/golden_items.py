"""The item format of golden sets: bytes of JSON Lines -> items, with every fault's line and field.

Knows the keys of an item, which of them each metric wants (``golden_keys``), and what may stand in them. Refuses to
know how an item is shown to a model or scored. The reader goes line by line on bytes, so that neither a byte-order
mark, nor a carriage return, nor a U+2028 inside a string changes what is read. Faults are collected, one a line and up
to ``MAX_FAULTS``, and raised together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from quantgate.errors import GoldenSetError
from quantgate.golden_keys import BUILT_IN, ItemKeys
from quantgate.golden_options import options_of
from quantgate.numerals import number_of, tuple_of
from quantgate.records import ChatMessage, GoldenItem
from quantgate.strictjson import (
    Fault,
    Row,
    kind,
    label,
    lines_of,
    name,
    nearest,
    needed,
    number,
    object_of,
    one_of,
    refuse_unknown,
    string,
    strings,
    whole,
)

MAX_FAULTS = 20
MAX_NEW_TOKENS = 256
DEFAULT_SLICE = "all"
ROLES = ("system", "user", "assistant")

KeysOf = Callable[[str], ItemKeys | None]
"""The keys of a metric's items by its name; None for a metric that is not known."""


def built_in(metric: str) -> ItemKeys | None:
    """The keys of a metric that comes with the program."""
    return BUILT_IN.get(metric)


def parse(data: bytes, file: str, keys_of: KeysOf = built_in) -> tuple[GoldenItem, ...]:
    """Read all items, or raise one ``GoldenSetError`` that lists the faults."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise GoldenSetError("is UTF-16; save it as UTF-8", file=file, line=1)
    items, faults = read_lines(data, Path(file).parent, keys_of, MAX_FAULTS)
    if faults:
        raise together(faults, file)
    if not items:
        raise GoldenSetError("has 0 items, so nothing could be measured", file=file)
    return tuple(items)


def read_lines(
    data: bytes, folder: Path, keys_of: KeysOf = built_in, most_faults: int | None = None
) -> tuple[list[GoldenItem], list[tuple[int, str]]]:
    """The items of all readable lines, and what is wrong with the others, up to ``most_faults`` of them."""
    items: list[GoldenItem] = []
    faults: list[tuple[int, str]] = []
    seen: dict[str, int] = {}
    for line, raw in lines_of(data):
        try:
            items.append(item_of(object_of(raw), line, seen, keys_of, folder))
        except Fault as fault:
            faults.append((line, str(fault)))
        if len(faults) == most_faults:
            break
    return items, faults


def together(faults: Sequence[tuple[int, str]], file: str) -> GoldenSetError:
    """One error for all faults, each with its line."""
    first_line, first = faults[0]
    rest = [f"{file}:{line}: {what}" for line, what in faults[1:]]
    if len(faults) == MAX_FAULTS:
        rest.append(f"stopped reading after {MAX_FAULTS} faults")
    return GoldenSetError("\n".join([first, *rest]), file=file, line=first_line)


def item_of(
    row: Row, line: int, seen: dict[str, int], keys_of: KeysOf = built_in, folder: Path = Path()
) -> GoldenItem:
    """Build one item; ``folder``: where files that it names are. Raises ``Fault``.

    Its id enters ``seen`` (id -> line) before anything else can be found wrong.
    """
    item_id = label(needed(row, "id"), "id")
    if seen.setdefault(item_id, line) != line:
        raise Fault(f"id: {item_id!r} stands on lines {seen[item_id]} and {line}; every item needs its own")
    metric, keys = _metric(row, keys_of)
    _refuse_unfit(row, metric, keys)
    choices, answer = _multiple_choice(row) if keys.right == "choices" else ((), None)
    answers = _answers(row, keys) if keys.right in ("answers", "numbers") else ()
    messages = _messages(row)
    stop, max_new_tokens = _generated(row, keys, answers)
    return GoldenItem(
        item_id=item_id,
        slice=_slice(row),
        prompt=_prompt(row, keys, messages),
        metric=metric,
        cluster=label(row["cluster"], "cluster") if "cluster" in row else None,
        few_shot=string(row.get("few_shot", ""), "few_shot", may_be_blank=True),
        template="raw" if keys.right == "text" else _template(row, messages),
        choices=choices,
        answer=answer,
        answers=answers,
        stop=stop,
        max_new_tokens=max_new_tokens,
        line=line,
        messages=messages,
        references=_references(row, keys),
        weight=_weight(row),
        options=options_of(row, metric, keys, folder),
    )


def _metric(row: Row, keys_of: KeysOf) -> tuple[str, ItemKeys]:
    """Take the metric named, or the one that the keys leave no doubt about."""
    if "metric" not in row:
        metric = "multiple_choice" if "choices" in row else "exact_match"
        return metric, BUILT_IN[metric]
    metric = string(row["metric"], "metric")
    keys = keys_of(metric)
    if keys is None:
        known = tuple(BUILT_IN)
        raise Fault(f"metric: found {metric!r}{nearest(metric, known)}; known are {', '.join(known)}")
    return metric, keys


def _refuse_unfit(row: Row, metric: str, keys: ItemKeys) -> None:
    """Refuse keys that no item has, or that belong to items of another metric."""
    fit = (*keys.shared, *keys.own)
    if all(key in fit for key in row):
        return
    every = (*keys.shared, *keys.own, *(key for one in BUILT_IN.values() for key in (*one.shared, *one.own)))
    refuse_unknown(row, tuple(dict.fromkeys(every)))
    for key in row:
        if key not in fit:
            listed = ", ".join(keys.own) or "none of their own"
            raise Fault(f"{key}: not a key of {metric} items, which have {listed}")


# ---------------------------------------------------------------------------------------------- what is asked


def _prompt(row: Row, keys: ItemKeys, messages: tuple[ChatMessage, ...]) -> str:
    """The question as a person reads it: the prompt, the text to be scored, or the conversation, a turn a line."""
    if keys.right == "text":
        return string(needed(row, "text"), "text")
    if messages:
        return "\n".join(f"{one.role}: {one.content}" for one in messages)
    return string(needed(row, "prompt"), "prompt")


def _messages(row: Row) -> tuple[ChatMessage, ...]:
    """Read the conversation: an optional system message first, then turns; the last one is the user's."""
    if "messages" not in row:
        return ()
    for other in ("prompt", "few_shot"):
        if other in row:
            raise Fault(f"{other}: given beside messages; write it as messages")
    if row.get("template") == "raw":
        raise Fault("template: raw has no place for messages; leave it out, or write a prompt")
    value = row["messages"]
    if not isinstance(value, list) or not value:
        found = "an empty list" if value == [] else kind(value)
        raise Fault(f"messages: found {found}, expected a list of objects with role and content")
    turns = tuple(_message(one, f"messages[{place}]", first=place == 0) for place, one in enumerate(value))
    if turns[-1].role != "user":
        raise Fault(f"messages[{len(turns) - 1}].role: found {turns[-1].role!r}; the last message is the user's")
    return turns


def _message(value: object, field: str, *, first: bool) -> ChatMessage:
    if not isinstance(value, dict):
        raise Fault(f"{field}: found {kind(value)}, expected an object with role and content")
    refuse_unknown(value, ("role", "content"), inside=field)
    for key in ("role", "content"):
        if key not in value:
            raise Fault(f"{field}.{key}: missing")
    role: Any = one_of(value["role"], f"{field}.role", ROLES)
    if role == "system" and not first:
        raise Fault(f"{field}.role: found 'system'; only the first message may be the system's")
    return ChatMessage(role=role, content=string(value["content"], f"{field}.content"))


def _slice(row: Row) -> str:
    value = row.get("slice", DEFAULT_SLICE)
    if isinstance(value, list):
        raise Fault("slice: found a list; an item belongs to exactly one slice, write its name")
    return name(value, "slice")


def _template(row: Row, messages: tuple[ChatMessage, ...]) -> Literal["raw", "chat", "auto"]:
    """A conversation is for a chat template; of a prompt the model decides, where the item does not say."""
    if "template" not in row:
        return "chat" if messages else "auto"
    match row["template"]:
        case "raw":
            return "raw"
        case "chat":
            return "chat"
        case other:
            raise Fault(f"template: found {other!r}; allowed are raw and chat")


def _weight(row: Row) -> float:
    """Read the weight: more than 0 and finite, else an item would vanish or be all that counts."""
    value = float(number(row.get("weight", 1), "weight"))
    if not (math.isfinite(value) and value > 0):
        raise Fault(f"weight: found {row['weight']}, expected a finite number above 0; take an item out to leave it out")
    return value


# ---------------------------------------------------------------------------------------------- what is right


def _multiple_choice(row: Row) -> tuple[tuple[str, ...], int]:
    """Read the choices and the index of the right one."""
    choices = strings(needed(row, "choices"), "choices")
    if len(choices) < 2:
        raise Fault(f"choices: found {len(choices)}, expected at least 2")
    for index, choice in enumerate(choices):
        if choice != choice.strip():
            raise Fault(f"choices[{index}]: {choice!r} has white space around it; quantgate adds the space itself")
        if choices.index(choice) != index:
            raise Fault(f"choices[{index}]: {choice!r} stands twice")
    answer = whole(needed(row, "answer"), "answer")
    if answer >= len(choices):
        raise Fault(f"answer: index {answer} is out of range; the first choice is 0, the last one {len(choices) - 1}")
    return choices, answer


def _generated(row: Row, keys: ItemKeys, answers: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Read the stop strings and the length cap in tokens."""
    stop = strings(row.get("stop", []), "stop", may_be_blank=True)
    for answer in answers:
        if held := [mark for mark in stop if mark in answer]:
            raise Fault(f"answers: {answer!r} holds the stop string {held[0]!r}, so no output can ever match it")
    cap = whole(row.get("max_new_tokens", keys.default_new_tokens), "max_new_tokens")
    if not 1 <= cap <= MAX_NEW_TOKENS:
        raise Fault(f"max_new_tokens: found {cap}, allowed are 1 to {MAX_NEW_TOKENS}")
    return stop, cap


def _answers(row: Row, keys: ItemKeys) -> tuple[str, ...]:
    """Read all right answers, from ``answers`` (a list) or ``answer`` (one, or a list)."""
    if "answers" in row and "answer" in row:
        raise Fault("answers: given beside answer; keep one of the two")
    if "answers" not in row and "answer" not in row:
        raise Fault("answers: missing")
    field = "answers" if "answers" in row else "answer"
    value = row[field]
    listed = value if isinstance(value, list) else [value]
    if field == "answers" and not isinstance(value, list):
        raise Fault(f"answers: found {kind(value)}, expected a list of strings")
    if not listed:
        raise Fault(f"{field}: an empty list; give at least one right answer")
    found = []
    for index, each in enumerate(listed):
        place = f"{field}[{index}]" if isinstance(value, list) else field
        found.append(_answer(each, place))
        if keys.right == "numbers" and number_of(found[-1]) is None and tuple_of(found[-1]) is None:
            raise Fault(f"{place}: found {found[-1]!r}, expected a number such as 9,500 or a tuple such as (0, 1)")
    return tuple(dict.fromkeys(found))


def _answer(value: object, field: str) -> str:
    r"""Turn one right answer into text, stripped and without ``\r``; 42 and 42.0 become ``42``, 8.540 stays ``8.540``."""
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return _number_text(Decimal(value), field)
    return string(value, field).replace("\r\n", "\n").replace("\r", "\n").strip()


def _number_text(value: Decimal, field: str) -> str:
    if abs(value.adjusted()) > 20:
        raise Fault(f"{field}: {value} is too large or small to be written out; give it as a string")
    return str(int(value)) if value == int(value) else format(value, "f")


def _references(row: Row, keys: ItemKeys) -> tuple[str, ...]:
    """Read the texts to compare with: at least one, none empty, carriage returns left out."""
    if keys.right != "references" or ("references" not in row and keys.references_optional):
        return ()
    found = strings(needed(row, "references"), "references")
    if not found:
        raise Fault("references: an empty list; give at least one text")
    return tuple(dict.fromkeys(one.replace("\r\n", "\n").replace("\r", "\n") for one in found))
