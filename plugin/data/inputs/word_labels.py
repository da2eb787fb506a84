"""Labels of words: parts of speech, features, and lemmas by edit scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msattn.data.files.conllu_lines import TAG_CELLS, word_cells
from msattn.data.inputs.edit_scripts import edit_script, edited
from msattn.errors import UserError

# An empty cell. It says something as the lemma of the word `_`, and in FEATS beside UPOS: no features.
EMPTY = "_"


def word_labels(lines: Sequence[str], name: str) -> list[str | None]:
    """
    The label of each word of a sentence; `None` where the treebank has none.

    Args:
        lines (`Sequence[str]`): The lines of a [`~msattn.data.files.conllu.ConlluSentence`].
        name (`str`): `"upos"`, `"xpos"`, `"feats"` or `"lemma"`, whose labels are edit scripts.
    """
    return [_label(cells, name) for cells in word_cells(lines)]


def learn_labels(sentences: Iterable[Sequence[str]], names: Sequence[str], source: str) -> dict[str, list[str]]:
    """
    The labels of a treebank, sorted.

    Args:
        sentences (`Iterable[Sequence[str]]`): The lines of each sentence.
        names (`Sequence[str]`): Some of `TAG_CELLS`.
        source (`str`): What to call the treebank in an error message.

    Raises:
        UserError: A column is empty in all sentences.
    """
    found: dict[str, set[str | None]] = {name: set() for name in names}
    for lines in sentences:
        for name in names:
            found[name].update(word_labels(lines, name))
    labels = {name: sorted(label for label in each if label is not None) for name, each in found.items()}
    for name, each in labels.items():
        if each in ([], [EMPTY]):
            raise UserError(
                f"{source}: the column {name.upper()} is empty throughout, so --tag {name} has no examples."
            )
    return labels


def tag_words(
    labels: Mapping[str, Sequence[str]], numbers: Mapping[str, Iterable[int]], words: Sequence[str]
) -> dict[str, list[str]]:
    """
    The cells of words in CoNLL-U from the numbers of their labels.

    Args:
        labels (`Mapping[str, Sequence[str]]`): The labels of each column, in the order of their numbers.
        numbers (`Mapping[str, Iterable[int]]`): By column, those of each word.
        words (`Sequence[str]`): The forms.

    Returns:
        `dict[str, list[str]]`: By column, those of each word.
    """
    cells = {name: [labels[name][number] for number in each] for name, each in numbers.items()}
    if "lemma" in cells:
        cells["lemma"] = [edited(script, form) for script, form in zip(cells["lemma"], words, strict=True)]
    return cells


def _label(cells: Sequence[str], name: str) -> str | None:
    form, cell = cells[1], cells[TAG_CELLS[name]]
    if name == "lemma":
        empty_is_meant = form == EMPTY
    else:
        empty_is_meant = name == "feats" and cells[TAG_CELLS["upos"]] != EMPTY
    if not cell or (cell == EMPTY and not empty_is_meant):
        return None
    return edit_script(form, cell) if name == "lemma" else cell
