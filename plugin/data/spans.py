"""The spans of entities: their bounds, their names, and whether they cut words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import category, normalize

import regex

from msattn.data.inputs.word_rules import ATTACHED
from msattn.errors import UserError, shown

# What names may differ in: spaces, punctuation and accents. Vowel signs, as of Hindi, are none.
_NO_LETTERS = regex.compile(r"[^\p{Alphabetic}\p{N}]|\P{ccc=0}")
# Between two letters of a word, in scripts that separate words.
_IN_WORD = regex.compile(r"(?<=LETTER)LETTER".replace("LETTER", rf"[\p{{L}}\p{{M}}--[{ATTACHED}]]"), regex.VERSION1)
INCLUSIVE = " (if all ends are inclusive: run_re.py --span_ends inclusive)"
EXCLUSIVE = " (if the ends of TACRED's fields are exclusive: run_re.py --span_ends exclusive)"


def character_span(value: Any, role: str, tokens: list[str] | None, text: str, where: str) -> list[int]:
    """
    Validates a span and converts it to characters.

    Args:
        value (`Any`): Two bounds, `[start, end)`, whole numbers in any type.
        role (`str`): What the span is of, for error messages.
        tokens (`list[str]` or `None`): The tokens that the span counts; `None` if it counts characters.
        text (`str`): The text: the tokens, joined by spaces.
        where (`str`): The location, which starts the error messages.

    Raises:
        UserError: The span is not two whole numbers, is empty or out of range.
    """
    size, unit = (len(text), "characters") if tokens is None else (len(tokens), "tokens")
    try:
        if isinstance(value, (str, Mapping)):
            raise TypeError
        start, end = map(whole, value)
    except (TypeError, ValueError, OverflowError):
        raise UserError(
            f"{where}: the {role} needs two whole numbers, [start, end), but has {shown(value)}."
        ) from None
    if not 0 <= start < end <= size:
        hint = INCLUSIVE if start == end else EXCLUSIVE if tokens is not None and end == size + 1 else ""
        raise UserError(
            f"{where}: the {role} span [{start}, {end}) is wrong; it must have 0 <= start < end <= {size}, "
            f"the number of {unit}{hint}."
        )
    if tokens is not None:
        start, end = sum(map(len, tokens[:start])) + start, sum(map(len, tokens[:end])) + end - 1
    # Signs such as the zero width space are no white space, and cannot be seen either.
    if not any(sign.isprintable() and not sign.isspace() for sign in text[start:end]):
        raise UserError(f"{where}: the {role} is empty.")
    return [start, end]


def without_space(text: str, start: int, end: int) -> list[int]:
    """A span without the white space at its ends, unless there is nothing else."""
    entity = text[start:end]
    if not entity.strip():
        return [start, end]
    return [start + len(entity) - len(entity.lstrip()), end - len(entity) + len(entity.rstrip())]


def name_places(name: str, text: str) -> list[int]:
    """
    The characters at which a text has the words of a name.

    In scripts without case, these are whole words, or if none are, all places, as the name may have a prefix.
    """
    size, places = len(name.strip()), _all_places(name, text)
    return [at for at in places if not (_IN_WORD.match(text, at) or _IN_WORD.match(text, at + size))] or places


def _all_places(name: str, text: str) -> list[int]:
    name = name.strip()
    places = [match.start() for match in re.finditer(re.escape(name), text)] if name else []
    return [at for at in places if not cuts_words(text, (at, at + len(name)))]


def mention_span(name: str, text: str, offset: Any, role: str, where: str) -> list[int]:
    """
    The span of an entity that is given by its words.

    Args:
        name (`str`): Its words.
        text (`str`): The text.
        offset (`Any`): The character at which it begins; `None` or `""` if the text has it once.
        role (`str`): What the entity is, for error messages.
        where (`str`): The location, which starts the error messages.

    Raises:
        UserError: The text does not have these words as whole words, or not there, or it has them more than once.
    """
    places = name_places(name, text)
    found = " and ".join(map(str, places[:2]))
    if offset not in (None, ""):
        try:
            start = whole(offset)
        except (TypeError, ValueError, OverflowError):
            start = -1
        if start not in _all_places(name, text):
            raise UserError(
                f"{where}: the {role} {shown(name)} is not at character {offset}"
                f"{f', but at {found}' if places else ', nor elsewhere in the text'}."
            )
        places = [start]
    if len(places) != 1:
        problem = (
            f"is at characters {found}; say which, with {role}_start and {role}_end" if places else "is not there"
        )
        raise UserError(f"{where}: the {role} {shown(name)} {problem}. The text: {shown(text)}.")
    return [places[0], places[0] + len(name.strip())]


def check_name(name: Any, span: Any, units: str | list[str], what: str, where: str) -> None:
    """
    Compares the given name of an entity with its span, without regard to case, accents, spaces and punctuation.

    Args:
        name (`Any`): The name; anything but a string is none.
        span (`Any`): Two bounds, `[start, end)`, in units, which [`character_span`] has checked.
        units (`str` or `list[str]`): The text, or the tokens.
        what (`str`): What the span is of, for the error message.
        where (`str`): The location, which starts the message.

    Raises:
        UserError: They differ. The message says whether the end is the last one inside, or the offsets are of UTF-16.
    """
    if not isinstance(name, str):
        return
    start, end = map(whole, span)

    def is_name(units: str | list[str]) -> bool:
        return _letters("".join(units)) == _letters(name)

    if is_name(units[start:end]):
        return
    found = units[start:end] if isinstance(units, str) else " ".join(units[start:end])
    problem = f"{where}: the {what} span [{start}, {end}) is {found!r}, but its name is {shown(name)}"
    if is_name(units[start : end + 1]) and units[start].strip():
        raise UserError(
            f"{problem}; its end is the last one inside, and should be the first one behind, {end + 1}{INCLUSIVE}."
        )
    pairs = isinstance(units, str) and is_name(units[slice(*characters_of_utf16(units, (start, end)))])
    cause = "its offsets count units of UTF-16, and should count characters" if pairs else "count again"
    raise UserError(f"{problem}; {cause}.")


def characters_of_utf16(text: str, span: Sequence[int]) -> tuple[int, int]:
    """The bounds of a span in characters, if they count units of UTF-16."""
    if text.isascii():
        return span[0], span[1]
    units = text.encode("utf-16-le", "surrogatepass")
    start, end = (len(units[: 2 * bound].decode("utf-16-le", errors="ignore")) for bound in map(whole, span))
    return start, end


def _letters(text: str) -> str:
    text = text.replace("\\n", "\n")  # Label Studio names an entity across a line end so
    return _NO_LETTERS.sub("", normalize("NFKD", text.casefold()))


def distance(one: Sequence[int], other: Sequence[int]) -> int:
    """The number of characters between two spans; negative if they overlap."""
    return max(one[0], other[0]) - min(one[1], other[1])


def whole(bound: Any) -> int:
    """A bound as a whole number: 4, 4.0, "4" or "4.0"."""
    number = float(bound)
    if isinstance(bound, bool) or number != int(number):
        raise ValueError
    return int(number)


def cuts_word(text: str, offset: int) -> bool:
    """
    Whether an offset is between two letters or two digits, or before a mark, such as an accent or a vowel sign.

    Letters without case do not count: most scripts without case do not separate words by spaces, or attach particles.
    """
    pair = text[offset - 1 : offset + 1] if offset else ""
    return len(pair) == 2 and (all(map(_is_cased, pair)) or pair.isdecimal() or category(pair[1])[0] == "M")


def cuts_words(text: str, span: Sequence[int]) -> bool:
    """Whether a span begins or ends within a word; see [`cuts_word`]."""
    return cuts_word(text, span[0]) or cuts_word(text, span[1])


def whole_words(text: str, span: Sequence[int]) -> bool:
    """Whether a span is whole words, without white space around them."""
    return not cuts_words(text, span) and text[slice(*span)] == text[slice(*span)].strip()


def _is_cased(character: str) -> bool:
    return character.isupper() or character.islower()
