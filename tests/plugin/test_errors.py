from __future__ import annotations

import pytest

from msattn.errors import UserError, extra, shown
from msattn.plain_numbers import is_odd_number, plain_float, plain_int


def test_a_long_message_loses_its_middle_and_keeps_its_end():
    message = str(UserError(f"a.txt:3: unknown label; the known ones are {', '.join(map(str, range(10_000)))}."))
    assert len(message) == 500 and message.startswith("a.txt:3: unknown") and message.endswith("9999.")


def test_a_path_does_not_count():
    path = f"/{'folder/' * 80}a.txt"
    assert str(UserError(f"{path}: wrong.")) == f"{path}: wrong."


@pytest.mark.parametrize("value", [10**5000, [[[[[[]]]]]], "x" * 10_000, list(range(10_000))], ids=type)
def test_any_value_is_shown_shortly(value):
    assert len(shown(value)) < 200


def test_a_value_that_contains_itself():
    value: list = []
    value.append(value)
    assert len(shown(value)) < 40


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1_0", "1e39", "١", "1_0.5"])  # noqa: RUF001
def test_what_only_python_reads(text):
    assert is_odd_number(text)
    with pytest.raises(ValueError, match="is not"):
        plain_float(text)


@pytest.mark.parametrize("text", ["1", "-1.5", "+.5", "1e-3", "1."])
def test_what_everybody_reads(text):
    assert plain_float(text) == float(text) and not is_odd_number(text)


@pytest.mark.parametrize("text", ["1_0", "١", "1.0", "", "9" * 5000])  # noqa: RUF001
def test_no_whole_number(text):
    with pytest.raises(ValueError, match="."):
        plain_int(text)


def test_a_word_is_no_odd_number():
    assert not is_odd_number("no") and not is_odd_number("")


def test_a_missing_package_of_an_extra_is_named_with_the_command():
    with pytest.raises(ImportError, match=r"^the package absent_ is not installed: pip install 'msattn\[train\]'$"):
        with extra("train"):
            import absent_.part  # noqa: F401


def test_an_error_inside_of_an_installed_package_stays():
    with pytest.raises(ImportError, match="cannot import name 'absent'"), extra("train"):
        from json import absent  # noqa: F401
