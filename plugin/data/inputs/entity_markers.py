"""Entity markers: encodes a text with two entity spans for relation extraction."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import compress, pairwise

from transformers import PreTrainedTokenizerBase
from transformers.tokenization_utils_base import EncodingFast
from transformers.utils import logging

from msattn.data.inputs.encoded_rows import encoded_rows
from msattn.data.inputs.entity_pieces import columns_of, encode_unmarked, model_inputs, special_tokens
from msattn.data.inputs.words import character_words, split_words, token_words
from msattn.errors import UserError, shown

try:
    import datasets
except ImportError:  # where a checkpoint has brought this file along
    pass

logger = logging.get_logger(__name__)

ENTITY_MARKERS = ("[E1]", "[/E1]", "[E2]", "[/E2]")
"""The tokens around the head and around the tail of a relation."""
# Where the markers of both entities are.
PLACES = ("entity_starts", "entity_ends")

# A token id and the index of its word.
Token = tuple[int, "int | None"]


def add_entity_markers(tokenizer: PreTrainedTokenizerBase, style: str = "plain", types: Sequence[str] = ()) -> int:
    """
    Adds the entity markers of a style to a tokenizer as special tokens.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer, which is changed in place.
        style (`str`, *optional*, defaults to `"plain"`): See [`encode_relations`].
        types (`Sequence[str]`, *optional*): The types of entities, for `"typed"`.

    Returns:
        `int`: The number of added tokens. If it is not 0, call `model.resize_token_embeddings(len(tokenizer))`.
    """
    if style == "typed-punct":
        return 0
    markers = [_typed(marker, of) for of in types for marker in ENTITY_MARKERS] if style == "typed" else ENTITY_MARKERS
    return tokenizer.add_special_tokens({"extra_special_tokens": list(markers)}, replace_extra_special_tokens=False)


def encode_relations(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    heads: Sequence[Sequence[int]],
    tails: Sequence[Sequence[int]],
    max_length: int | None = None,
    words: bool = False,
    style: str = "plain",
    types: Sequence[tuple[str | None, str | None]] | None = None,
) -> dict[str, list]:
    """
    Encodes examples as `[CLS] .. [E1] head [/E1] .. [E2] tail [/E2] .. [SEP]`, with the special tokens that the
    tokenizer puts around a text. The tail may also precede the head, and the two may overlap.

    The markers have one of three styles ("An Improved Baseline for Sentence-level Relation Extraction", Zhou and Chen
    2021):

    - `"plain"`: `[E1] Bill [/E1]` and `[E2] Seattle [/E2]`;
    - `"typed"`: special tokens for each type of entity, `[E1:PERSON] Bill [/E1:PERSON]`;
    - `"typed-punct"`: punctuation and the name of the type, `@ * person * Bill @` and `# ^ city ^ Seattle #`. It needs
      no new tokens and takes types that the model has not seen.

    The tokens are those of the text without markers, unless an entity begins or ends inside of a word or token:
    then the parts are tokenized one by one. Special tokens inside a text are encoded as ordinary text. An example
    longer than `max_length` is cut to a window: the entities, everything between them, and an equal number of tokens
    on both sides; a side that needs less leaves its room to the other.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer with entity markers; see [`add_entity_markers`].
        texts (`Sequence[str]`): The texts.
        heads (`Sequence[Sequence[int]]`): The character span `[start, end)` of the head entity in each text.
        tails (`Sequence[Sequence[int]]`): The character span of the tail entity.
        max_length (`int`, *optional*):
            Maximum number of tokens per example, with special tokens. Default: `tokenizer.model_max_length`.
        words (`bool`, *optional*, defaults to `False`):
            Whether to add `words` and `word_ids`; see [`~msattn.data.inputs.words.encoding_words`].
        style (`str`, *optional*, defaults to `"plain"`): The style of the markers.
        types (`Sequence[tuple[str | None, str | None]]`, *optional*):
            The types of head and tail in each text; required unless the style is `"plain"`.

    Returns:
        `dict[str, list]`: `input_ids`, `attention_mask`, `token_type_ids` (if the model uses them), and the
        positions of the markers that open and close head and tail, `entity_starts` and `entity_ends`; one list per
        example, or `None` for an example whose entities do not both fit into `max_length`. If none fit, `input_ids`
        alone.

    Raises:
        ValueError: The tokenizer lacks the markers.
        UserError: The style needs types, and an entity has none or one that the tokenizer has no markers for.
    """
    max_length = max_length or tokenizer.model_max_length
    begin, end = special_tokens(tokenizer)
    special = len(begin) + len(end)
    marked = _marked(tokenizer, texts, heads, tails, words, style, types)
    rows: list[dict[str, list] | None] = []
    for text, (left, core, right, places) in zip(texts, marked, strict=True):
        room = max_length - len(core) - special
        if room < 0:
            rows.append(None)
            continue
        before = min(len(left), max(room // 2, room - len(right)))
        after = min(len(right), room - before)
        window = left[len(left) - before :] + core + right[:after]
        ids, word_ids = zip(*window, strict=True)
        row = model_inputs(tokenizer, [*begin, *ids, *end])
        for name, of_column in zip(PLACES, places, strict=True):
            row[name] = [len(begin) + before + place for place in of_column]
        if words:
            row |= {"words": [split_words(text)], "word_ids": [*[None] * len(begin), *word_ids, *[None] * len(end)]}
        rows.append(row)
    return columns_of(rows)


def encode_relation_dataset(
    dataset: datasets.Dataset,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None = None,
    label2id: Mapping[str, int] | None = None,
    on_overflow: str = "error",
    num_proc: int | None = None,
    words: bool = False,
    style: str = "plain",
    negative: str | None = None,
    marked: bool = True,
    shared: bool = False,
) -> datasets.Dataset:
    """
    Encodes a dataset of [`~msattn.data.relations.read_relations`] with [`encode_relations`] or [`encode_unmarked`].

    Args:
        dataset (`datasets.Dataset`):
            A dataset with the columns `id`, `text`, `head`, `tail`, `head_type`, `tail_type` and `label`.
        tokenizer (`PreTrainedTokenizerBase`):
            A fast tokenizer, with entity markers unless `marked` is `False`; see [`add_entity_markers`].
        max_length (`int`, *optional*):
            Maximum number of tokens per example. Default: `tokenizer.model_max_length`.
        label2id (`Mapping[str, int]`, *optional*): Label ids. Without it, there is no column `labels`.
        on_overflow (`str`, *optional*, defaults to `"error"`):
            Treatment of examples whose entities do not both fit into `max_length`: `"error"`, or `"skip"`, which drops
            them and logs their number.
        num_proc (`int`, *optional*): Number of processes.
        words (`bool`, *optional*, defaults to `False`): Whether to add the columns `words` and `word_ids`.
        style (`str`, *optional*, defaults to `"plain"`): The style of the markers; see [`encode_relations`].
        negative (`str`, *optional*):
            The label of pairs without a relation, if the dataset has the column `labels` (all labels of each pair).
        marked (`bool`, *optional*, defaults to `True`): Whether to put markers around the entities.
        shared (`bool`, *optional*, defaults to `False`): Whether pairs share windows, without markers.

    Returns:
        `datasets.Dataset`: `id`, `row` (the number of the example in `dataset`), the columns of the encoded examples,
        and, if `label2id` is given, `labels`: an int, or for a dataset with this column a list of 0.0 and 1.0.

    Raises:
        UserError: Entities do not fit and `on_overflow` is `"error"`, a label is missing or not in `label2id`, or a
            type is missing or unknown.
    """
    limit = max_length or tokenizer.model_max_length

    def encode(rows: dict[str, list], indices: list[int]) -> dict[str, list]:
        types = None if style == "plain" else list(zip(rows["head_type"], rows["tail_type"], strict=True))
        for identifier, text, given in zip(rows["id"], rows["text"], types or [], strict=False):
            if not all(given):
                raise UserError(
                    f"example {identifier}: an entity has no type, which {style} entity markers name; give all types. "
                    f"The text: {shown(text)}."
                )
        spans = rows["head"], rows["tail"]
        encoded = (
            encode_relations(tokenizer, rows["text"], *spans, limit, words, style, types)
            if marked
            else encode_unmarked(tokenizer, rows["text"], *spans, limit, words, shared)
        )
        encoded |= {"id": rows["id"], "row": indices}
        if label2id is not None:
            several = rows.get("labels") or [[label] for label in rows["label"]]
            known = {*label2id, negative} if "labels" in rows and negative is not None else {*label2id}
            for identifier, labels in zip(rows["id"], several, strict=True):
                if unknown := [label for label in labels if label not in known]:
                    raise UserError(
                        f"example {identifier}: {unknown[0]!r} is not a label; the labels are {', '.join(label2id)}."
                    )
            names = sorted(label2id, key=label2id.__getitem__)
            encoded["labels"] = (
                [[float(name in labels) for name in names] for labels in several]
                if "labels" in rows
                else [label2id[label] for label in rows["label"]]
            )
        fits = [ids is not None for ids in encoded["input_ids"]]
        if on_overflow == "error" and not all(fits):
            at = fits.index(False)
            raise UserError(
                f"example {rows['id'][at]}: the two entities and what lies between do not fit in max_length, {limit} "
                f"tokens; raise it, or skip such examples with on_overflow skip. The text: {shown(rows['text'][at])}."
            )
        return {name: [*compress(column, fits)] for name, column in encoded.items()}

    encoded = encoded_rows(dataset, encode, num_proc)
    if len(encoded) < len(dataset):
        logger.warning(
            f"{len(dataset) - len(encoded)} of {len(dataset)} examples were skipped: their entities do not both fit "
            f"in {limit} tokens."
        )
    return encoded


def _marked(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    heads: Sequence[Sequence[int]],
    tails: Sequence[Sequence[int]],
    words: bool = False,
    style: str = "plain",
    types: Sequence[tuple[str | None, str | None]] | None = None,
) -> list[tuple[list[Token], list[Token], list[Token], tuple[list[int], list[int]]]]:
    """
    Splits each text into tokens before the first marker, from it to the last marker, and after it.

    The fourth item has the positions of the two opening and of the two closing markers in the middle part.
    """
    if not texts:
        # The tokenizer fails on an empty batch.
        return []
    places = [_places(head, tail) for head, tail in zip(heads, tails, strict=True)]
    markers = lru_cache(partial(_markers, tokenizer, style))

    different = [*dict.fromkeys(texts)]  # pairs share texts
    read = {
        text: _read(encoding, text, character_words(text) if words else {})
        for text, encoding in zip(different, _encodings(tokenizer, different), strict=True)
    }
    marked = []
    for row, (text, marks) in enumerate(zip(texts, places, strict=True)):
        bounds = [0, *(place for place, _ in marks), len(text)]
        parts = _parts_of(read[text], text, bounds)
        if parts is None:
            owners = character_words(text) if words else {}
            cut = _encodings(tokenizer, [text[start:end] for start, end in pairwise(bounds)])
            parts = [_tokens(part, owners, start) for part, start in zip(cut, bounds, strict=False)]
        left, *inner, right = parts
        of_example = markers(*(types[row] if types is not None else (None, None)))
        core: list[Token] = []
        opened = {}
        for (_, mark), part in zip(marks, [*inner, []], strict=True):
            opened[mark] = len(core)
            core += [*((marker, None) for marker in of_example[mark]), *part]
        marked.append((left, core, right, ([opened[0], opened[2]], [opened[1], opened[3]])))
    return marked


def _encodings(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[EncodingFast]:
    """Tokenizes texts without special tokens: "[SEP]" inside a text becomes ordinary tokens."""
    return tokenizer(list(texts), add_special_tokens=False, split_special_tokens=True, verbose=False).encodings


def _read(encoding: EncodingFast, text: str, owners: Mapping[int, int]) -> tuple[list[Token], list[int], list[int]]:
    """The tokens of a text, and the first character and the end of each."""
    # A space before a word is part of its token in many vocabularies, and of no entity.
    firsts = [start + len(text[start:end]) - len(text[start:end].lstrip()) for start, end in encoding.offsets]
    return _tokens(encoding, owners), [min(first, len(text) - 1) for first in firsts], [e for _, e in encoding.offsets]


def _parts_of(
    read: tuple[list[Token], list[int], list[int]], text: str, bounds: Sequence[int]
) -> list[list[Token]] | None:
    """The tokens of the text between each two of the bounds; `None` if one of these is inside of a word or token."""
    if any(text[bound - 1 : bound].isalnum() and text[bound : bound + 1].isalnum() for bound in bounds[1:-1]):
        return None
    tokens, firsts, ends = read
    cuts = [0, *(bisect_left(firsts, bound) for bound in bounds[1:-1]), len(tokens)]
    spans = [*pairwise(cuts)]
    parts = zip(spans, bounds[1:], strict=True)
    if any(start < end and text[bound : ends[end - 1]].strip() for (start, end), bound in parts):
        return None
    return [tokens[start:end] for start, end in spans]


def _tokens(encoding: EncodingFast, owners: Mapping[int, int], shift: int = 0) -> list[Token]:
    return list(zip(encoding.ids, token_words(encoding.offsets, owners, shift), strict=True))


def _places(head: Sequence[int], tail: Sequence[int]) -> list[tuple[int, int]]:
    """
    The positions of the four markers in the text, ascending, each with the index of its marker.

    At the same position, markers close before others open; the longer entity opens first, and the one that has opened
    last closes first.
    """
    marks = []
    for role, (start, end) in enumerate((head, tail)):
        marks.append(((start, 1, -end), (start, 2 * role)))
        marks.append(((end, 0, -start), (end, 2 * role + 1)))
    return [place for _, place in sorted(marks)]


def _markers(
    tokenizer: PreTrainedTokenizerBase, style: str, head_type: str | None, tail_type: str | None
) -> list[list[int]]:
    """The token ids of the four markers."""
    if style == "plain":
        markers = tokenizer.convert_tokens_to_ids(list(ENTITY_MARKERS))
        if None in markers or tokenizer.unk_token_id in markers:
            raise ValueError("the tokenizer lacks the entity markers; call add_entity_markers(tokenizer) first")
        return [[marker] for marker in markers]
    for role, given in (("head", head_type), ("tail", tail_type)):
        if not given:
            raise UserError(f"the {role} has no type, and the entity markers of the model name it; give the type.")
    if style == "typed-punct":
        encode = partial(tokenizer.encode, add_special_tokens=False)
        return [
            encode(part)
            for sign, bracket, of in (("@", "*", head_type), ("#", "^", tail_type))
            for part in (f"{sign} {bracket} {str(of).replace('_', ' ').lower()} {bracket}", sign)
        ]
    names = [
        _typed(marker, str(of)) for marker, of in zip(ENTITY_MARKERS, [head_type] * 2 + [tail_type] * 2, strict=True)
    ]
    markers = tokenizer.convert_tokens_to_ids(names)
    for of, marker in ((head_type, markers[0]), (tail_type, markers[2])):
        if marker in (None, tokenizer.unk_token_id):
            raise UserError(f"the model has no markers for the type {of!r}; it knows {', '.join(_types(tokenizer))}.")
    return [[marker] for marker in markers]


def _typed(marker: str, of: str) -> str:
    return f"{marker[:-1]}:{of}]"


def _types(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The types that a tokenizer has markers for."""
    return sorted(token[4:-1] for token in tokenizer.get_added_vocab() if token.startswith("[E1:"))
