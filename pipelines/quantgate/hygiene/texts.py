"""Text as words, and what in a text is probably not meant.

Knows Unicode and nothing of golden sets. ``words`` is what two texts are compared by: compatibility form, case folded, letters and digits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

WORD = re.compile(r"\w+")
_FINE = frozenset("\n\t")
_HIDDEN = frozenset("\u200b\u200c\u2060\ufeff\u00ad\u200e\u200f\u061c")
_DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MOJIBAKE = re.compile(r"[ÃÂ][\u0080-\u00bf]|â€[\u0080-\u024f\u2000-\u2122]?|ï»¿")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|nbsp|apos|#\d{2,5}|#x[0-9a-fA-F]{2,5});")
_PLACEHOLDER = re.compile(r"\{\{[^{}\n]{1,60}\}\}|\{%[^{}\n]{1,60}%\}|\$\{\w+\}|\{(?:question|prompt|input|answer|context|choices?)\}")
_NOTE = re.compile(r"\b(?:TODO|FIXME|TBD|XXX)\b|lorem ipsum", re.IGNORECASE)


def words(text: str) -> list[str]:
    """Letters and digits in runs, in compatibility form and case folded."""
    return WORD.findall(plain(text))


def plain(text: str) -> str:
    """Compatibility form, case folded, white space collapsed: what two spellings of one text have in common."""
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(folded.casefold().split())


def oddities(text: str) -> Iterator[tuple[str, str, str]]:
    """What is probably not meant: kind, what was found, what to do."""
    if not text.isascii() or not text.isprintable():
        yield from _characters(text)
    if found := _ENTITY.search(text):
        yield "html", f"holds {found[0]!r}, an HTML entity", "write the character itself"
    if found := _PLACEHOLDER.search(text):
        yield "placeholder", f"holds {found[0]!r}, a place that was not filled in", "fill it in, or take the item out"
    if (found := _NOTE.search(text)) and (found[0].isupper() or found[0].casefold() == "lorem ipsum"):
        yield "placeholder", f"holds {found[0]!r}, a note to oneself", "finish the item, or take it out"


def _characters(text: str) -> Iterator[tuple[str, str, str]]:
    control = next((one for one in text if unicodedata.category(one) == "Cc" and one not in _FINE), None)
    if control is not None:
        yield "control character", f"holds {_name(control)}", "remove it; a line end is U+000A alone"
    for kind, wanted in (("hidden character", _HIDDEN), ("direction mark", _DIRECTION)):
        if (found := next((one for one in text if one in wanted), None)) is not None:
            yield kind, f"holds {_name(found)}, which nobody sees and the tokenizer does", "remove it"
    space = next((one for one in text if unicodedata.category(one) in ("Zs", "Zl", "Zp") and one != " "), None)
    if space is not None:
        yield "odd space", f"holds {_name(space)}", "write a plain space or a line end"
    if "\ufffd" in text:
        yield "replacement character", "holds U+FFFD: a character was lost when the text was decoded", "take the text from its source again"
    elif garbled := _MOJIBAKE.search(text):
        yield "mojibake", f"holds {garbled[0]!r}, as UTF-8 read as another encoding looks", "take the text from its source again"
    private = next((one for one in text if unicodedata.category(one) in ("Co", "Cn")), None)
    if private is not None:
        yield "unassigned character", f"holds {_name(private)}, which has no meaning of its own", "remove or replace it"
    if not unicodedata.is_normalized("NFC", text):
        yield "not NFC", "is not in Unicode's composed form, so equal-looking texts differ", "normalise it to NFC"


def _name(character: str) -> str:
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" ({name.lower()})" if name else "")
