"""Writes sentences as CoNLL-U."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

# White space in MISC, as UDPipe writes it.
ESCAPES = {" ": "\\s", "\t": "\\t", "\r": "\\r", "\n": "\\n", "|": "\\p", "\\": "\\\\"}
# The columns that a tagger writes, and their places.
TAG_CELLS = {"lemma": 2, "upos": 3, "xpos": 4, "feats": 5}


def conllu_lines(words: Sequence[str], sent_id: str | int | None = None) -> list[str]:
    """
    CoNLL-U lines with words only, with a space between two; [`with_tree`] adds the tree.

    Args:
        words (`Sequence[str]`): The words.
        sent_id (`str` or `int`, *optional*): The name of the sentence.
    """
    return [*_comments(" ".join(words), sent_id), *(_row(number, word) for number, word in enumerate(words, 1)), "\n"]


def conllu_lines_of_text(words: Sequence[Mapping[str, Any]], sent_id: str | int | None = None) -> list[str]:
    """
    CoNLL-U lines of a sentence of a text.

    `# text` is the text, with one space where it has white space. MISC has the spaces around a word.

    Args:
        words (`Sequence[Mapping]`):
            Each has `word`, `start`, `space_after` and, at the start of a text, `space_before`. A word of a multi-word
            token has those of the token, and its form as `token`.
        sent_id (`str` or `int`, *optional*): The name of the sentence.
    """
    rows, text = [], ""
    for _, group in groupby(enumerate(words, 1), key=lambda entry: ("token" in entry[1], entry[1]["start"])):
        numbered = list(group)
        first, word = numbered[0]
        form, misc = word.get("token", word["word"]), _misc(word["space_after"], word.get("space_before", ""))
        text += form + " " * _is_space(word["space_after"])
        if "token" in word:
            rows.append(_row(f"{first}-{numbered[-1][0]}", form, misc))
            misc = "_"
        rows += (_row(number, word["word"], misc) for number, word in numbered)
    return [*_comments(text.rstrip(), sent_id), *rows, "\n"]


def word_cells(lines: Iterable[str]) -> list[list[str]]:
    """The cells of each word, from the lines of a [`ConlluSentence`]."""
    return [line.rstrip("\r\n").split("\t") for line in lines if _is_word(line)]


def tag_columns(lines: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    """The cells of each word in some of the columns `TAG_CELLS`, from the lines of a [`ConlluSentence`]."""
    words = word_cells(lines)
    return {name: [cells[TAG_CELLS[name]] for cells in words] for name in names}


def kept_tags(lines: Iterable[str], tags: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """
    The cells of each word in the columns of `tags`, with tags where they are empty, but for FEATS beside a UPOS: that
    word has none.
    """
    own = tag_columns(lines, ["upos", *tags])
    return {
        name: [
            tag if cell == "_" and (name != "feats" or upos == "_") else cell
            for tag, cell, upos in zip(tags[name], own[name], own["upos"], strict=True)
        ]
        for name in tags
    }


def with_tree(
    lines: Sequence[str], heads: Iterable[int | str], relations: Iterable[str], **tags: Iterable[str]
) -> str:
    """
    Replaces the tree of a sentence, and the columns in `tags`. All other columns stay unchanged.

    Args:
        lines (`Sequence[str]`): The lines of a [`ConlluSentence`].
        heads (`Iterable[int | str]`): The index of each word's head, from 1; 0 for the root, `"_"` if it is unknown.
        relations (`Iterable[str]`): The relation of each word to its head.
        **tags (`Iterable[str]`): The cells of each word in some of the columns `TAG_CELLS`.

    Returns:
        `str`: The lines as one string.

    Raises:
        ValueError: The number of heads, relations or tags is not the number of words.
    """
    lines = list(lines)
    places = [place for place, line in enumerate(lines) if _is_word(line)]
    for place, head, relation, *of_word in zip(places, heads, relations, *tags.values(), strict=True):
        cells = lines[place].split("\t")
        cells[6:8] = str(head), relation
        for name, tag in zip(tags, of_word, strict=True):
            cells[TAG_CELLS[name]] = tag
        lines[place] = "\t".join(cells)
    return "".join(lines)


def _is_word(line: str) -> bool:
    return line.partition("\t")[0].isdecimal()


def _row(number: int | str, form: str, misc: str = "_") -> str:
    return "\t".join([str(number), form, *"_" * 7, misc]) + "\n"


def _comments(text: str, sent_id: str | int | None) -> list[str]:
    comments = [f"# text = {text}\n"]
    return comments if sent_id is None else [f"# sent_id = {sent_id}\n", *comments]


def _is_space(space: str) -> bool:
    """Whether there is white space, and not only signs without a width."""
    return space != "" and any(sign.isspace() for sign in space)


def _misc(after: str, before: str) -> str:
    entries = {
        "SpaceAfter": "" if _is_space(after) else "No",
        "SpacesAfter": "" if after == " " else after,
        "SpacesBefore": before,
    }
    found = [f"{name}={''.join(ESCAPES.get(sign, sign) for sign in each)}" for name, each in entries.items() if each]
    return "|".join(found) or "_"
