from __future__ import annotations

import pytest

from msattn.errors import UserError, extra, shown


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


def test_a_missing_package_of_an_extra_is_named_with_the_command():
    with pytest.raises(ImportError, match=r"^the package absent_ is not installed: pip install 'msattn\[train\]'$"):
        with extra("train"):
            import absent_.part  # noqa: F401


def test_an_error_inside_of_an_installed_package_stays():
    with pytest.raises(ImportError, match="cannot import name 'absent'"), extra("train"):
        from json import absent  # noqa: F401
