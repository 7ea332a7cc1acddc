"""Strict JSON: kinds of values, and what is said of the wrong ones."""

from decimal import Decimal

import pytest

from quantgate.strictjson import Fault, flag, nearest, number, object_of, object_text, one_of, refuse_unknown


def test_numbers_stay_as_they_were_written() -> None:
    """8.540 keeps its last digit, and a whole number is whole."""
    assert object_of(b'{"a": 8.540, "b": 3}') == {"a": Decimal("8.540"), "b": 3}
    assert str(object_of(b'{"a": 8.540}')["a"]) == "8.540"


def test_an_object_is_held_as_its_text() -> None:
    """Nested values and numbers with a point included, keys in one order."""
    assert object_text(object_of(b'{"b": [1.5, {"c": null}], "a": true}'), "f") == '{"a": true, "b": [1.5, {"c": null}]}'
    with pytest.raises(Fault, match="f: found a list, expected an object"):
        object_text([], "f")


def test_flags_numbers_and_words_are_of_their_kind() -> None:
    """1 is no flag, true is no number, and a word must be one of those allowed."""
    assert (flag(True, "f"), number(1, "f"), one_of("b", "f", ("a", "b"))) == (True, Decimal(1), "b")
    for read, value in ((flag, 1), (number, True), (number, "1")):
        with pytest.raises(Fault, match="f: found"):
            read(value, "f")
    with pytest.raises(Fault, match="f: found null; allowed are a, b"):
        one_of(None, "f", ("a", "b"))


def test_an_unknown_key_is_told_with_its_place_and_the_nearest() -> None:
    """Also inside an object of the object."""
    with pytest.raises(Fault, match=r"inner: unknown key 'rol' \(did you mean 'role'\?\); known are role, content"):
        refuse_unknown({"rol": 1}, ("role", "content"), inside="inner")
    assert nearest("zzz", ("role",)) == ""
