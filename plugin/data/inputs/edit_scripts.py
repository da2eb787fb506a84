"""Lemmas as edit scripts: what turns the form of a word into its lemma."""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher
from functools import lru_cache

# How the letters of a lemma are cased, whatever those of the form. Without any of these they stay as they are.
CASES: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "title": lambda text: text[:1].upper() + text[1:].lower(),
    "upper": str.upper,
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
    for case in CASES:
        script = _edit(case, form.lower(), lemma.lower())
        if edited(script, form) == lemma:
            return script
    return _edit(AS_THEY_ARE, form, lemma)


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
        letters = form if case == AS_THEY_ARE else form.lower()
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
