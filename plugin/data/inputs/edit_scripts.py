"""Lemmas as edit scripts: what turns the form of a word into its lemma."""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher
from functools import lru_cache, partial

# The small letter of İ has no dot above it. In Turkish that of I is ı.
SMALL = {"": str.maketrans("İ", "i"), "dotless": str.maketrans("İI", "iı")}
CAPITAL = {"": str.maketrans("", ""), "dotless": str.maketrans("iı", "İI")}


def _lower(text: str, letters: str = "") -> str:
    return text.translate(SMALL[letters]).lower()


def _upper(text: str, letters: str = "") -> str:
    return text.translate(CAPITAL[letters]).upper()


def _title(text: str, letters: str = "") -> str:
    return _upper(text[:1], letters) + _lower(text[1:], letters)


# How the letters of a lemma are cased, whatever those of the form. Without any of these they stay as they are.
CASES: dict[str, Callable[[str], str]] = {
    "lower": _lower,
    "title": _title,
    "upper": _upper,
    "lower dotless": partial(_lower, letters="dotless"),
    "title dotless": partial(_title, letters="dotless"),
    "upper dotless": partial(_upper, letters="dotless"),
}
AS_THEY_ARE = "form"


@lru_cache(maxsize=2**18)
def edit_script(form: str, lemma: str) -> str:
    """
    The edit script from a form to its lemma.

    It keeps the longest common part, and replaces what is before and behind it. The edit is made in lower case if one
    of `CASES` then gives the lemma; so `Dogs`, `dogs` and `DOGS` have the same script for `dog`.

    Args:
        form (`str`): A word.
        lemma (`str`): Its lemma. Neither has a tab.

    Returns:
        `str`: The casing, the number of letters to drop at the start, what to put there, the number to drop at the end
        and what to put there, with tabs between. Or the casing and the lemma, if they have no letter in common.
    """
    scripts = [_edit(case, _small(case, form), _small(case, lemma)) for case in CASES]
    right = [script for script in scripts if edited(script, form) == lemma]
    # The first one of equal ones; a Turkish word may need less to be edited if its i is not that of others.
    return min(right, key=_letters_edited) if right else _edit(AS_THEY_ARE, form, lemma)


def edited(script: str, form: str) -> str:
    """
    Applies an edit script.

    Args:
        script (`str`): From [`edit_script`].
        form (`str`): A word.

    Returns:
        `str`: The lemma. It is the form itself if the script leaves no letter of it.
    """
    case, *edit = script.split("\t")
    if len(edit) == 1:
        lemma = edit[0]
    else:
        start, before, end, after = int(edit[0]), edit[1], int(edit[2]), edit[3]
        letters = form if case == AS_THEY_ARE else _small(case, form)
        if start + end >= len(letters):
            return form
        lemma = before + letters[start : len(letters) - end] + after
    return lemma if case == AS_THEY_ARE else CASES[case](lemma)


def _edit(case: str, form: str, lemma: str) -> str:
    common = SequenceMatcher(None, form, lemma, autojunk=False).find_longest_match()
    if not common.size:
        return f"{case}\t{lemma}"
    end = len(form) - common.a - common.size
    return f"{case}\t{common.a}\t{lemma[: common.b]}\t{end}\t{lemma[common.b + common.size :]}"


def _small(case: str, text: str) -> str:
    return _lower(text, "dotless" if case.endswith("dotless") else "")


def _letters_edited(script: str) -> int:
    _, *edit = script.split("\t")
    return 1000 if len(edit) == 1 else int(edit[0]) + len(edit[1]) + int(edit[2]) + len(edit[3])
