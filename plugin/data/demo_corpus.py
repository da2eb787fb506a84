"""Generates a small relation corpus and a small BERT, for the demonstration and the tests."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

TRAIN, VALIDATION, TEST = 1200, 200, 300

DEMO_SENTENCE = "The mechanic told us that the <e1>leak</e1> was caused by a loose <e2>valve</e2> near the wall."

# Blocks of a relation, nouns of its two arguments, and phrases. {0} is the first argument: if {1} comes first, it is
# (e2,e1). The last block has phrases without a relation.
PHRASES = Path(__file__).with_name("demo_phrases.txt").read_text(encoding="utf-8")
*RELATED, UNRELATED = (block.split("\n") for block in PHRASES.strip().split("\n\n"))
RELATIONS = {name: (first, second, phrases) for name, first, second, *phrases in RELATED}
ADJECTIVES = "old new small heavy loose famous strange red broken local cheap quiet"
OPENINGS = ("", "", "", "yesterday ", "in the end ", "he said that ", "according to her ", "as far as we know ")
ENDINGS = ("", "", "", " last year", " near the wall", " without a word", " on monday", ", as the neighbours know")
CONNECTORS = (" while ", " after ", ", and ", ", but ", " because nobody noticed that ")

SLOT = re.compile(r"(\ba )?\{([01])\}")


@dataclass(frozen=True)
class DemoPaths:
    """
    The paths that [`write_demo`] returns.

    Args:
        train_file (`Path`): 1200 training sentences in the format of SemEval-2010 Task 8.
        validation_file (`Path`): 200 validation sentences.
        test_file (`Path`): 300 test sentences.
        encoder (`Path`): The folder of the BERT checkpoint.
    """

    train_file: Path
    validation_file: Path
    test_file: Path
    encoder: Path


def write_demo(folder: str | os.PathLike, seed: int = 0) -> DemoPaths:
    """
    Writes a corpus with five relations of SemEval-2010 Task 8 and Other, and a randomly initialized two-layer BERT.

    A classifier has to read the context of the marked nouns: most sentences have a second statement as a distraction,
    many nouns occur in several relations, and some examples of Other combine the arguments of two statements. No
    sentence occurs twice. The same seed gives the same files.

    Args:
        folder (`str` or `os.PathLike`): The output folder; created if needed.
        seed (`int`, *optional*, defaults to 0): Random seed of the corpus and the weights.

    Returns:
        `DemoPaths`: The paths of the files and of the BERT.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = DemoPaths(folder / "train.txt", folder / "validation.txt", folder / "test.txt", folder / "encoder")
    examples = _distinct(random.Random(seed))
    first = 1
    for path, count in ((paths.train_file, TRAIN), (paths.validation_file, VALIDATION), (paths.test_file, TEST)):
        rows = enumerate(islice(examples, count), start=first)
        text = "\n".join(f'{number}\t"{sentence}"\n{label}\nComment:\n' for number, (sentence, label) in rows)
        path.write_text(text, encoding="utf-8", newline="\n")
        first += count
    _write_encoder(paths.encoder, seed)
    return paths


def _distinct(rng: random.Random) -> Iterator[tuple[str, str]]:
    seen = set()
    while True:
        sentence, label = _example(rng)
        plain = re.sub(r"</?e[12]>", "", sentence)
        if plain not in seen:
            seen.add(plain)
            yield sentence, label


def _example(rng: random.Random) -> tuple[str, str]:
    """A sentence with its label: a statement, mostly with a distracting one before or after it."""
    kind = rng.random()
    if kind < 0.1:
        nouns = rng.sample(sorted(_nouns()), 2)
        clauses, label = [_fill(rng.choice(UNRELATED[1:]), nouns, ("<e1>", "<e2>"), rng)], "Other"
    elif kind < 0.2:
        first, second = rng.sample(sorted(RELATIONS), 2)
        clauses = [_state(first, ("<e1>", ""), rng)[0], _state(second, ("", "<e2>"), rng)[0]]
        label = "Other"
    else:
        relation = rng.choice(sorted(RELATIONS))
        clause, direction = _state(relation, ("<e1>", "<e2>"), rng)
        clauses, label = [clause], relation + direction
    if len(clauses) == 1 and rng.random() < 0.6:
        distraction = _state(rng.choice(sorted(RELATIONS)), ("", ""), rng)[0]
        clauses.insert(rng.randrange(2), distraction)
    text = rng.choice(OPENINGS) + rng.choice(CONNECTORS).join(clauses) + rng.choice(ENDINGS) + "."
    return text[0].upper() + text[1:], label


def _state(relation: str, tags: tuple[str, str], rng: random.Random) -> tuple[str, str]:
    """A statement of the relation with its nouns tagged in order of mention, and its direction."""
    first, second, phrases = RELATIONS[relation]
    phrase = rng.choice(phrases)
    head = rng.choice(first.split())
    tail = rng.choice([noun for noun in second.split() if noun != head])
    forward = phrase.index("{0}") < phrase.index("{1}")
    return _fill(phrase, [head, tail], tags, rng), "(e1,e2)" if forward else "(e2,e1)"


def _fill(phrase: str, nouns: list[str], tags: tuple[str, str], rng: random.Random) -> str:
    left = iter(tags)

    def noun(slot: re.Match) -> str:
        tag = next(left)
        word = nouns[int(slot[2])]
        marked = f"{tag}{word}{tag.replace('<', '</')}"
        adjective = f"{rng.choice(ADJECTIVES.split())} " if rng.random() < 0.3 else ""
        article = "" if not slot[1] else "an " if (adjective or word)[0] in "aeiou" else "a "
        return article + adjective + marked

    return SLOT.sub(noun, phrase)


def _nouns() -> set[str]:
    return {noun for first, second, _ in RELATIONS.values() for noun in (*first.split(), *second.split())}


def _write_encoder(folder: Path, seed: int) -> None:
    """Writes a randomly initialized BERT, whose WordPiece vocabulary has the words of the corpus and all letters."""
    phrases = [*UNRELATED[1:], ADJECTIVES, "an", *OPENINGS, *ENDINGS, *CONNECTORS]
    phrases += [text for _, *texts in RELATED for text in texts]
    words = set(re.findall(r"[a-z]+", " ".join([*phrases, DEMO_SENTENCE.lower()])))
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*specials, *".,;:!?'\"()-", *letters, *(f"##{letter}" for letter in letters)]
    pieces += sorted(words - set(letters))
    tokenizer = BertTokenizerFast(vocab={piece: index for index, piece in enumerate(pieces)}, model_max_length=128)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=128,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
