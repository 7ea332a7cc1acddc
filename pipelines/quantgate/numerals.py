r"""Numbers as people and models write them in running text.

A numeral is digits of any script with an optional sign, currency sign, decimal point, exponent and thousands
separators: a comma, an apostrophe, LaTeX's ``{,}`` or ``\\,``, or a blank (broken or not), each followed by exactly
three digits. A scale word (``3.5 million``, ``2万``) multiplies. What breaks these rules, such as ``12,34`` or
``1.2.3``, is no number as a whole: no part of it is taken instead. So is a fraction (``1/2``, ``1½``) and a power
(``10²``). Roman numerals and words are not read.

Digits right behind an ASCII letter are a name (``B12``, ``H2O``), unless the letters are a currency (``USD42``).
Letters of other scripts are no obstacle: many are written without blanks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LETTER = rf"[^\W0-9_{_UNSPACED}]"
_SEPARATOR = r"(?:,|\{,\}|\\,|['\u2019\u00a0\u202f\u2009])"
_JOINED = rf"(?:[0-9]|(?:{_SEPARATOR}|\.)(?=[0-9]))"
_SPACED = r"(?<![0-9] )[1-9][0-9]{0,2}+(?: [0-9]{3})++(?:\.[0-9]++)?+(?![0-9]|[ .,][0-9])"
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "万": 4, "萬": 4, "亿": 8, "億": 8}
"""Powers of ten by the word behind a number."""
_MARKED = re.compile(
    rf"(?P<sign>(?<![^\W{_UNSPACED}])(?<![)\]])[-+\u2212])?(?:\\?[$\u20ac\u00a3\u00a5\u20b9]\s?(?P<inner>[-\u2212])?)?"
    rf"(?P<digits>(?<![0-9])(?:{_SPACED}|(?:(?<!{_LETTER})\.)?[0-9]{_JOINED}*(?:[eE][-+]?[0-9]+(?![0-9]))?))"
    r"(?:[ \u00a0]?(?P<scale>(?:(?i:hundred|thousand|million|billion|trillion)(?=s?\b)|[万萬亿億])))?"
)
_PLAIN = re.compile(rf"(?:[0-9]{{1,3}}(?:{_SEPARATOR}[0-9]{{3}})+|[0-9]{{1,3}}(?: [0-9]{{3}})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+")
_TUPLE = re.compile(r"[(\[{]?\s*(?P<inside>[^()\[\]{}]*,[^()\[\]{}]*?)\s*[)\]}]?")
_RUN = re.compile(r"[-+\u2212]?[0-9]+(?:\.[0-9]+)?(?:\s*,\s*[-+\u2212]?[0-9]+(?:\.[0-9]+)?)+")
_LARGEST = 400
"""Digits beyond which a run of digits is no quantity."""
_NO_NUMBER = re.compile(
    r"(?<![0-9.,])(?:[0-9]++[ -])?+[0-9][0-9.,]*+ ?[/\u2044\u2215] ?[0-9][0-9.,]*+(?:[/\u2044\u2215][0-9]++)*+"
    r"|(?<![0-9.,])[0-9][0-9.,]*+ ?[/\u2044\u2215] ?[0-9][0-9.,]*+(?:[/\u2044\u2215][0-9]++)*+"
    r"|\\[dt]?frac ?\{?[0-9]{1,9}\}? ?\{?[0-9]{1,9}\}?"
    r"|(?<![0-9.,])[0-9][0-9.,]*+ ?[\u00bc-\u00be\u2150-\u215e]"
    r"|(?<![0-9.,])[0-9][0-9.,]*+[\u00b2\u00b3\u00b9\u2070-\u2079]++"
    r"|(?<![0-9])[0-9]{1,3}+(?: [0-9]{3})++,[0-9]++"
)
"""What is more than its digits: fractions and mixed numbers, powers, blanks before a decimal comma."""
_FULL_WIDTH = {"\uff0b": "+", "\uff0d": "-", "\uff04": "$", "\uffe5": "\u00a5", "\u066b": ".", "\u066c": ","}
_BETWEEN = re.compile(r"(?<=[\uff10-\uff19])[\uff0c\uff0e](?=[\uff10-\uff19])")
_BEFORE = re.compile(r"[A-Za-z_]+$")
_WRITTEN = """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY COP CRC CUP
    CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD
    JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN
    NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RMB RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SYP SZL
    THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG Rs RM kr Kr
"""
_CURRENCIES = frozenset(_WRITTEN.split())


def numbers(text: str) -> Iterator[Decimal]:
    """Every number of a text, in order."""
    text = _read(text)
    for found in _MARKED.finditer(text):
        value = _value(found)
        if value is not None and not _in_a_word(text, found):
            yield value


def number_of(text: str) -> Decimal | None:
    """The number that a text is as a whole, None where it is anything else."""
    found = _MARKED.fullmatch(_read(text).strip())
    return None if found is None else _value(found)


def tuple_of(text: str) -> tuple[Decimal, ...] | None:
    """The numbers of a text such as ``0,1`` or ``(3, -4)``, None where it is anything else, a number with separators included."""
    text = _read(text)
    found = _TUPLE.fullmatch(text.strip())
    if found is None or number_of(text) is not None:
        return None
    values = [number_of(part) for part in found["inside"].split(",")]
    return None if len(values) < 2 or None in values else tuple(one for one in values if one is not None)


def tuples(text: str) -> Iterator[tuple[Decimal, ...]]:
    """Every tuple of a text, in order."""
    for found in _RUN.finditer(_read(text)):
        if (values := tuple_of(found[0])) is not None:
            yield values


def _read(text: str) -> str:
    """The text, as long as before, with ASCII digits for those of other scripts and nothing to read in what is no number."""
    if not text.isascii():
        text = _BETWEEN.sub(lambda found: "," if found[0] == "\uff0c" else ".", text)
        text = "".join(_FULL_WIDTH.get(one, one) if not one.isdecimal() else str(unicodedata.decimal(one)) for one in text)
    return _NO_NUMBER.sub(lambda found: "?" * len(found[0]), text)


def _in_a_word(text: str, found: re.Match[str]) -> bool:
    """Digits inside a word, such as those of ``B12`` or ``x2y``, are a name; behind a currency or in ``_42_`` they are not."""
    start = found.start("digits")
    before = _BEFORE.search(text[max(0, start - 40) : start])
    if before is None or before[0] in _CURRENCIES:
        return False
    place = start - len(before[0])
    return before[0].strip("_") != "" or (place > 0 and text[place - 1].isalnum())


def _value(found: re.Match[str]) -> Decimal | None:
    digits, _, exponent = found["digits"].lower().partition("e")
    if not _PLAIN.fullmatch(digits) or len(digits) > _LARGEST or len(exponent) > 4:
        return None
    bare = re.sub(rf"{_SEPARATOR}| ", "", digits)
    value = Decimal(f"{bare}e{exponent}" if exponent else bare)
    if found["scale"] is not None:
        value = value.scaleb(_SCALES[found["scale"].lower()])
    negative = found["sign"] not in (None, "+") or found["inner"] is not None
    return -value if negative else value
