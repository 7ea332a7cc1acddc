"""How raw values read: bytes, seconds, shares and verdicts as a person sees them, in every rendering alike.

Inside quantgate there are only seconds, bytes and shares of one; MB, ms, percent and points exist here alone. Unknown
is ``-``, never a zero. An estimate is rounded to the nearest digit, a confidence bound outward (upper up, lower down),
so that what is printed never promises more than what was shown. Decimals are taken from the shortest decimal
form of a float, which is the number that stands in report.json.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Literal, TypeAlias

from quantgate.records import OPEN_ENDED, CeilingRow, Check, GoldenRow, Outcome, Policy, Report, Role, Scale, Verdict

UNKNOWN = "-"
Towards: TypeAlias = Literal["nearest", "up", "down"]

_ROUNDING = {"nearest": ROUND_HALF_EVEN, "up": ROUND_CEILING, "down": ROUND_FLOOR}
_EXACT = Context(prec=400)
_DECIMAL_UNITS = ((1, "B"), (10**3, "kB"), (10**6, "MB"), (10**9, "GB"), (10**12, "TB"))
_BINARY_UNITS = ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"), (2**40, "TiB"))
_PREFIXES = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"))
_WORDS = {"pass": "PASS", "fail": "FAIL", "inconclusive": "INCONCLUSIVE", "not_measured": "NOT MEASURED"}
_SEVERITY = {"pass": 0, "inconclusive": 1, "fail": 2, "not_measured": 3}
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# ---------------------------------------------------------------------------------------------- numbers


def fixed(value: float | None, digits: int, *, towards: Towards = "nearest") -> str:
    """Write ``value`` with ``digits`` decimals and thousands commas; ``-`` where there is none; never ``-0``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return _decimal(Decimal(repr(float(value))), digits, towards)


def _decimal(value: Decimal, digits: int, towards: Towards) -> str:
    rounded = value.quantize(Decimal(1).scaleb(-digits), _ROUNDING[towards], _EXACT)
    return f"{abs(rounded) if rounded == 0 else rounded:,f}"


def _scaled(share: float | None, digits: int, towards: Towards) -> str:
    if share is None or not math.isfinite(share):
        return UNKNOWN
    return _decimal(Decimal(repr(float(share))) * 100, digits, towards)


def significant(value: float | None, figures: int = 3) -> str:
    """Write ``value`` with at least ``figures`` significant figures, whole digits all kept, never in powers of ten.

    A positive value under a millionth is ``< 0.000001``: it is not zero.
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    if 0 < value < 1e-6:
        return "< 0.000001"
    leading = int(f"{value:.{figures - 1}e}".partition("e")[2])
    return fixed(value, max(0, figures - 1 - leading))


def count(value: int | None) -> str:
    """Write a number of things with thousands commas."""
    return UNKNOWN if value is None else f"{value:,}"


def ratio(value: float | None) -> str:
    """Write a quotient as ``0.66x``."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{fixed(value, 2)}x"


def p_value(value: float | None) -> str:
    """Write a p-value with two significant figures; under one in ten thousand that alone is said."""
    return "< 0.0001" if value is not None and value < 1e-4 else significant(value, 2)


def percent(share: float | None, *, digits: int = 0, towards: Towards = "nearest") -> str:
    """Write a share of one in percent, as ``59 %``."""
    number = percent_number(share, digits=digits, towards=towards)
    return number if number == UNKNOWN else f"{number} %"


def percent_number(share: float | None, *, digits: int = 0, towards: Towards = "nearest") -> str:
    """Write a share of one in percent for a column whose header gives the unit."""
    return _scaled(share, digits, towards)


def points(share: float | None, *, towards: Towards = "nearest", digits: int = 1) -> str:
    """Write a share of the items in percentage points without the unit. Bounds are rounded outward with ``towards``."""
    return _scaled(share, digits, towards)


def margin_points(margin: float | None) -> str:
    """Write a margin in points with every digit it was set with, at least one."""
    if margin is None or not math.isfinite(margin):
        return UNKNOWN
    exact = (Decimal(repr(float(margin))) * 100).normalize()
    exponent = exact.as_tuple().exponent
    return _decimal(exact, max(1, -exponent if isinstance(exponent, int) else 1), "nearest")


def loss(value: float | None, scale: Scale, *, like: float | None = None, towards: Towards = "nearest") -> str:
    """Write a loss without its unit: in points, or as it is where scores are unbounded.

    ``like``: a margin, whose digits are taken.
    """
    if scale != "unbounded":
        digits = 1 if like is None else len(margin_points(like).partition(".")[2])
        return points(value, towards=towards, digits=digits)
    if value is None or like is None or not math.isfinite(value):
        return significant(value) if towards == "nearest" else fixed(value, 3, towards=towards)
    return fixed(value, max(2, len(_exact(Decimal(repr(float(like)))).partition(".")[2])), towards=towards)


def level_percent(level: float | None) -> str:
    """Write a confidence level, as ``97.5 %``: rounded down, so that no more confidence is claimed than was used."""
    if level is None or not math.isfinite(level):
        return UNKNOWN
    return f"{_scaled(level, 2, 'down').rstrip('0').rstrip('.')} %"


# ---------------------------------------------------------------------------------------------- bytes and seconds


def decimal_bytes(value: int | None) -> str:
    """Write bytes in powers of 1000 with the unit named, as ``538 MB`` or ``1.24 GB``."""
    return _bytes(value, _DECIMAL_UNITS, 1000)


def binary_bytes(value: int | None) -> str:
    """Write bytes in powers of 1024 with the unit named, as ``513 MiB`` or ``1.16 GiB``."""
    return _bytes(value, _BINARY_UNITS, 1024)


def _bytes(value: int | None, units: tuple[tuple[int, str], ...], step: int) -> str:
    if value is None:
        return UNKNOWN
    size, name = next((unit for unit in units if abs(value) < unit[0] * step * 0.9995), units[-1])
    return f"{count(value) if size == 1 else significant(value / size)} {name}"


def byte_column(values: tuple[int | None, ...]) -> tuple[str, int]:
    """Choose the one unit of a column of bytes, by its largest value: ``("MB", 10**6)`` or ``("GB", 10**9)``."""
    largest = max((abs(value) for value in values if value is not None), default=0)
    return ("GB", 10**9) if largest >= 10**10 else ("MB", 10**6) if largest >= 10**6 else ("kB", 10**3)


def in_unit(value: int | None, size: int) -> str:
    """Write bytes in a column's unit, without the unit."""
    return UNKNOWN if value is None else fixed(value / size, 0 if abs(value) >= 100 * size or value == 0 else 1)


def milliseconds(seconds: float | None) -> str:
    """Write seconds as milliseconds with three significant figures, without the unit."""
    return UNKNOWN if seconds is None else significant(seconds * 1000)


def per_s(value: float | None) -> str:
    """Write a rate such as tokens/s with two significant figures or all whole digits, without the unit."""
    return significant(value, 2)


def money(value: float | None, *, towards: Towards = "nearest") -> str:
    """Write an amount of money without its currency: two decimals, or three significant figures under 1."""
    if value is None or not math.isfinite(value) or value >= 1 or value <= 0:
        return fixed(value, 2, towards=towards)
    return fixed(value, 2 - math.floor(math.log10(value)), towards=towards)


def rate(value: float | None, unit: str) -> str:
    """Write a rate with the prefix that suits it, as ``23.1 GB/s`` or ``1.2 TFLOP/s``; ``unit`` is ``B/s``, ``FLOP/s`` and the like."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size, prefix = next((one for one in _PREFIXES if abs(value) < one[0] * 999.5), _PREFIXES[-1])
    return f"{significant(value / size)} {prefix}{unit}"


def duration(seconds: float | None) -> str:
    """Write a time that somebody waited, as ``0.4 s``, ``42 s``, ``4 min 10 s`` or ``1 h 2 min``."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 9.95:
        return f"{fixed(seconds, 1)} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


# ---------------------------------------------------------------------------------------------- verdicts


def listed(names: Sequence[object]) -> str:
    """``8``, ``4 and 8``, ``3, 4 and 8``."""
    words = [str(one) for one in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def outcome_word(outcome: Outcome) -> str:
    """Name an outcome: ``PASS``, ``FAIL``, ``INCONCLUSIVE`` or ``NOT MEASURED``."""
    return _WORDS[outcome]


def verdict_word(verdict: Verdict) -> str:
    """Name the verdict as it is printed: a control's word says whether it came out as it must."""
    word = outcome_word(verdict.outcome)
    if verdict.role == "reference":
        return "reference" if verdict.outcome == "pass" else word
    if not is_control(verdict.role):
        return f"{word} (waived)" if verdict.outcome == "pass" and any(one.waived_by for one in verdict.checks) else word
    if verdict.control_ok is not True:
        return f"CONTROL WRONG ({word.lower()})"
    return f"{word}, as it must be" if verdict.outcome == "fail" else f"{word}, as it must"


def is_control(role: Role) -> bool:
    """Tell whether a role is a control, identity or known-bad: these test the gate, not a candidate."""
    return role in ("identity", "known_bad")


def is_quality(check: Check) -> bool:
    """Tell whether a check's figures are losses in points."""
    return check.name.split("/")[0] == "quality"


def check_set(check: Check) -> str:
    """Return the golden set that a check's name carries, as in ``quality/everyday``."""
    return check.name.partition("/")[2]


def golden_of(report: Report, name: str) -> GoldenRow | None:
    """Find the golden set called ``name`` (with or without its version)."""
    return next((row for row in report.golden_sets if name in (row.name, f"{row.name} {row.version}")), None)


def golden_label(report: Report, name: str) -> str:
    """Return ``name version`` where the set is in the report, else the name alone."""
    row = golden_of(report, name)
    return name if row is None else f"{row.name} {row.version}"


def worst_quality(verdict: Verdict) -> Check | None:
    """Find the quality check that decides most: required first, then the worst outcome, then the least room."""
    checks = [check for check in verdict.checks if is_quality(check)]
    required = [check for check in checks if check.tier == "required"]
    return max(required or checks, key=lambda check: (_SEVERITY[check.outcome], _excess(check)), default=None)


def shown_check(verdict: Verdict) -> Check | None:
    """Find the check of a verdict's row: the quality check that decides most, else the ratio of perplexities that does.

    A variant that is not measured has no row of figures that a check passed: they would read like a result.
    """
    ratios = [check for check in verdict.checks if check.name.startswith("perplexity_ratio/") and check.tier == "required"]
    check = worst_quality(verdict) or max(ratios, key=lambda one: (_SEVERITY[one.outcome], _excess(one)), default=None)
    return None if check is not None and verdict.outcome == "not_measured" and check.outcome == "pass" else check


def _excess(check: Check) -> float:
    return -math.inf if check.bound is None or check.margin is None else check.bound - check.margin


def check_figure(check: Check, value: float | None, *, towards: Towards = "nearest") -> str:
    """Write a figure of a check with its unit, bounds rounded outward."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if is_speed(check.name):
        return speed_loss(check.name, value, towards=towards)
    match _unit(check.name):
        case "points" if check.scale == "unbounded":
            return f"{loss(value, check.scale, like=check.margin, towards=towards)} in score"
        case "points":
            return f"{points(value, towards=towards)} points"
        case "x" if check.name.startswith("perplexity_ratio"):
            return f"{fixed(value, 4, towards=towards)}x"
        case "%":
            return percent(value, digits=1, towards=towards)
        case "x":
            return f"{fixed(value, 2, towards=towards)}x"
        case unit:
            return f"{significant(value)} {unit}".rstrip()


def check_limit(name: str, limit: float | None, scale: Scale | None = None) -> str:
    """Write a limit of the check or rule called ``name`` with its unit and every digit it was set with."""
    if limit is None or not math.isfinite(limit):
        return UNKNOWN
    if is_speed(name):
        return speed_loss(name, limit)
    match _unit(name):
        case "points" if scale == "unbounded":
            return f"{_exact(Decimal(repr(float(limit))))} in score"
        case "points":
            return f"{margin_points(limit)} points"
        case "%":
            return f"{_exact(Decimal(repr(float(limit))) * 100)} %"
        case unit:
            separator = "" if unit in ("", "x") else " "
            return f"{_exact(Decimal(repr(float(limit))))}{separator}{unit}"


_SLOWER = {"speed_ratio": ("slower", "faster"), "ttft_ratio": ("longer", "shorter"), "itl_p99_ratio": ("longer", "shorter")}
_OPPOSITE: Mapping[Towards, Towards] = {"up": "down", "down": "up", "nearest": "nearest"}


def is_speed(name: str) -> bool:
    """Whether a check of this name holds the logarithm of a ratio of speeds or times."""
    return name.partition("/")[0] in _SLOWER


def speed_loss(name: str, value: float, *, towards: Towards = "nearest") -> str:
    """Write the logarithm of a speed check as ``4.9 % slower`` or ``4.9 % longer``, a gain as ``4.9 % faster`` or ``4.9 % shorter``."""
    kind = name.partition("/")[0]
    share = float(f"{-math.expm1(-value) if kind == 'speed_ratio' else math.expm1(min(value, 700.0)):.9g}")
    loss_word, gain_word = _SLOWER[kind]
    if share < 0:
        return f"{percent(-share, digits=1, towards=_OPPOSITE[towards])} {gain_word}"
    return f"{percent(share, digits=1, towards=towards)} {loss_word}"


def _unit(name: str) -> str:
    """Tell the unit of a check's figures by its name or kind: points, percent, nats, a quotient, or none."""
    kind, _, rest = name.partition("/")
    if kind in ("quality", "baseline"):
        return "points"
    # A name is kind/golden set or group/figure: a golden set's own name says nothing about units.
    figure = rest if kind in ("memory", "ceiling", "lever", "cost") else kind
    parts = {
        "share": "%", "acceptance": "%", "agreement": "%", "probability_change": "%", "kl": "nats",
        "length": "x", "ratio": "x", "gain": "x",
    }  # fmt: skip
    return next((unit for part, unit in parts.items() if part in figure), "")


def _exact(value: Decimal) -> str:
    return f"{value.normalize():f}"


def loss_cell(check: Check | None, value: float | None, *, towards: Towards = "nearest") -> str:
    """Write a loss, or a ratio of perplexities, without the unit that ``loss_unit`` names."""
    if check is None or value is None:
        return UNKNOWN
    if not is_quality(check):
        return fixed(value, 4, towards=towards)
    return loss(value, check.scale, like=check.margin if check.scale == "unbounded" else None, towards=towards)


def margin_cell(check: Check | None) -> str:
    """Write a check's margin, or the largest ratio allowed, for such a column."""
    if check is None or (is_quality(check) and check.scale != "unbounded"):
        return margin_points(None if check is None else check.margin)
    return UNKNOWN if check.margin is None else _exact(Decimal(repr(float(check.margin))))


def loss_unit(check: Check | None) -> str:
    """Name the unit of a check's loss: points, in score, or times the reference's perplexity; empty without a check."""
    if check is None:
        return ""
    if not is_quality(check):
        return "x perplexity"
    return "in score" if check.scale == "unbounded" else "points"


def mean_score(value: float | None, scale: Scale) -> str:
    """Write what a sheet scores in the mean: in percent of what could be had, or as it is where scores are unbounded."""
    return significant(value, 4) if scale == "unbounded" else percent_number(value, digits=1)


def relation(check: Check) -> str:
    """Compare the bound with the margin: ``<=`` where that was shown, ``>`` where the opposite was, else ``vs``."""
    return {"pass": "<=", "fail": ">"}.get(check.outcome, "vs")


def flips(check: Check | None) -> str:
    """Write how many items changed sides and their share, as ``81 (16 %)``; a graded score changes without changing sides."""
    if check is None or check.b is None or check.c is None:
        return UNKNOWN
    if check.scale != "binary":
        return f"{count(check.b + check.c)} changed"
    share = f" ({percent((check.b + check.c) / check.n)})" if check.n else ""
    return f"{count(check.b + check.c)}{share}"


def batch_ceiling(ceiling: CeilingRow | None) -> str:
    """Write the confirmed batch; ``>= 16`` where the search ended before a batch failed."""
    if ceiling is None or ceiling.confirmed is None:
        return UNKNOWN
    return f"{'>= ' if ceiling.limited_by in OPEN_ENDED else ''}{count(ceiling.confirmed)}"


def scoring_ceiling(ceiling: CeilingRow | None) -> str:
    """Write the confirmed batch of scoring; ``>= 16`` where the search ended before a batch failed."""
    if ceiling is None or ceiling.scoring is None:
        return UNKNOWN
    return f"{'>= ' if ceiling.scoring_limited_by in OPEN_ENDED else ''}{count(ceiling.scoring)}"


def policy_terms(policy: Policy, candidates: int) -> str:
    """Write a policy's margins, alpha and rule for several, as ``margin 3.0 points, alpha 0.05, Holm over 2``."""
    rules = [rule for rule in policy.checks if rule.kind == "quality" and rule.margin is not None]
    margins = sorted({rule.margin for rule in rules if rule.margin is not None and rule.scale is None})
    own = sorted({rule.margin for rule in rules if rule.margin is not None and rule.scale is not None})
    ratios = sorted({rule.maximum for rule in policy.checks if rule.kind == "perplexity_ratio" and rule.maximum is not None})
    shown = " / ".join(margin_points(margin) for margin in margins)
    several = "every candidate must pass"
    if policy.require == "any":
        holm = f"Holm over {policy.family(candidates)}" if candidates else "Holm"
        several = {"holm": holm, "fixed_sequence": "in a fixed order"}.get(policy.correction, "one must pass, uncorrected")
    terms = [f"margin {shown} points"] if margins else []
    terms += [f"margin {' / '.join(f'{one:g}' for one in own)} in score"] if own else []
    terms += [f"perplexity at most {' / '.join(check_limit('perplexity_ratio', one) for one in ratios)}"] if ratios else []
    return ", ".join([*terms, f"alpha {significant(policy.alpha, 1)}", several])


# ---------------------------------------------------------------------------------------------- text from elsewhere


def storable(text: str) -> str:
    """Drop the code points that XML or UTF-8 cannot hold: control characters, lone surrogates, U+FFFE and U+FFFF."""
    return _NOT_IN_XML.sub("", text)


def visible(text: str) -> str:
    """Replace control characters except tab and line ends by their pictures, and what overrides the direction of text."""
    shown = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", lambda found: chr(0x2400 + ord(found.group())), text)
    return re.sub("[\u202a-\u202e\u2066-\u2069]", "\ufffd", shown)


def shortened(text: str, length: int) -> str:
    """Put the text on one line, cut at ``length`` characters with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: max(0, length - 1)].rstrip()}…"
