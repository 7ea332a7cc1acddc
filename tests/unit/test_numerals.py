"""Numbers in running text: what is one, what is none, and which form they may have."""

from decimal import Decimal

import pytest

from quantgate.numerals import number_of, numbers, tuple_of, tuples


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("72", ["72"]),
        ("72.", ["72"]),
        ("The total is 72 clips, altogether.", ["72"]),
        ("$9,500", ["9500"]),
        ("9{,}500", ["9500"]),
        (r"9\,500", ["9500"]),
        ("9\u202f500 and 1\u00a0234\u00a0567", ["9500", "1234567"]),
        ("1,234,567.50", ["1234567.50"]),
        ("-5, \u22127 and +3", ["-5", "-7", "3"]),
        ("-$5 or $-5", ["-5", "-5"]),
        ("$ 18", ["18"]),
        (r"\$18", ["18"]),
        ("\u20ac3.50", ["3.50"]),
        ("16-3 = 13", ["16", "3", "13"]),
        ("16 - 3", ["16", "3"]),
        ("x=-4", ["-4"]),
        (".5", ["0.5"]),
        ("1.5e3", ["1500"]),
        ("50%", ["50"]),
        ("5kg", ["5"]),
        ("<<16-3-4=9>>9 eggs", ["16", "3", "4", "9", "9"]),
        ("3/4", []),
        ("1/2", []),
        ("16/4=4 and 20 / 5 = 4", ["4", "4"]),
        ("1 1/2 cups, on 3/4/2024", []),
        (r"\frac{1}{2} or \dfrac12", []),
        ("1\u00bd or 2 \u00bd", []),
        ("10\u00b2", []),
        ("1 million people", ["1000000"]),
        ("$3.5 Million, 2 thousand", ["3500000", "2000"]),
        ("5\u4e07\u4eba", ["50000"]),
        ("1 000", ["1000"]),
        ("12 345 678.5 kg", ["12345678.5"]),
        ("in 2024 100 people", ["2024", "100"]),
        ("1 000,50", []),
        ("1'000 and 1\u2019234\u2019567.50", ["1000", "1234567.50"]),
        ("5'11", []),
        ("\u7b54\u6848\u662f42\u3002", ["42"]),
        ("\u7b54\u3048\u306f42\u3067\u3059", ["42"]),
        ("\u7b54\u6848\u662f-42", ["-42"]),
        ("\u043e\u0442\u0432\u0435\u044242", ["42"]),
        ("USD42, Rs.42, Rs42, EUR9,500.00", ["42", "42", "42", "9500"]),
        ("No.5", ["5"]),
        ("_42_ or __43__", ["42", "43"]),
        ("x2, H2O, GPT4, x_42_, v1.2", []),
        ("\uff14\uff12 or \uff11\uff0c\uff12\uff13\uff14\uff0e\uff15", ["42", "1234.5"]),
        ("\u0664\u0662 and \u096a\u0968 and \u0661\u066b\u0665", ["42", "42", "1.5"]),
        ("12,34", []),
        ("1,23,456", []),
        ("1.2.3", []),
        ("0,1", []),
        ("B12 and x_2", []),
        ("seventy-two", []),
        ("", []),
    ],
)
def test_numbers_of_a_text(text: str, expected: list[str]) -> None:
    """Thousands separators, currency and signs are form; a broken group is no number, nor is any part of it."""
    assert list(numbers(text)) == [Decimal(one) for one in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" $9,500.00 ", Decimal(9500)), ("72 clips", None), ("12,34", None), ("(3)", None), ("1e99999", None), ("", None)],
)
def test_a_text_that_is_a_number(text: str, expected: Decimal | None) -> None:
    """The whole text must be one number."""
    assert number_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,1", (0, 1)),
        ("(0, 1)", (0, 1)),
        ("[3, -4, 5.5]", (3, -4, Decimal("5.5"))),
        ("1,234", None),
        ("01", None),
        ("7", None),
        ("0,", None),
        ("0,one", None),
    ],
)
def test_a_text_that_is_a_tuple(text: str, expected: tuple[int, ...] | None) -> None:
    """Numbers between commas; a number with thousands separators is one number."""
    assert tuple_of(text) == expected


def test_tuples_of_a_text() -> None:
    """Every run of numbers between commas, in order; 1,234 alone is a number."""
    assert list(tuples("from (0, 1) to (2, 3.5), costing 1,234")) == [(0, 1), (2, Decimal("3.5"))]


def test_a_flood_of_digits_is_no_quantity_and_costs_no_time() -> None:
    """Neither 100,000 digits nor as many commas are read as a number."""
    assert list(numbers("9" * 100_000)) == []
    assert list(numbers("1," * 100_000)) == []
