from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import DataCollatorWithPadding, PreTrainedTokenizerFast

from msattn.data.inputs.entity_markers import encode_relation_dataset
from msattn.data.inputs.sentence_inputs import encode_sentences
from msattn.data.inputs.words import split_words
from msattn.errors import UserError
from msattn.guiding.cooccurrence import PositivePMI
from msattn.guiding.dependency_trees import DependencyTrees, read_conllu
from msattn.guiding.pattern_sources import PatternCollator, word_sources
from msattn.guiding.word_similarity import EmbeddingSimilarity
from tests.tiny_models import tiny_tokenizer

CONLLU = """# text = The dog's in the house.
1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_
2-3\tdog's\t_\t_\t_\t_\t_\t_\t_\t_
2\tdog\tdog\tNOUN\t_\t_\t0\troot\t_\t_
3\t's\tbe\tAUX\t_\t_\t6\tcop\t_\t_
4\tin\tin\tADP\t_\t_\t6\tcase\t_\t_
5\tthe\tthe\tDET\t_\t_\t6\tdet\t_\t_
5.1\tbig\tbig\tADJ\t_\t_\t_\t_\t_\t_
6\thouse\thouse\tNOUN\t_\t_\t2\troot\t_\tSpaceAfter=No
7\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

1\tcannot\tcan\tAUX\t_\t_\t0\troot\t_\t_
"""
FRENCH = [(1, "de", 3), (2, "le", 3), (3, "pain", 0)]
PAIRS = [
    ("The unpayer wrote a book.", "a dog. in a house."),
    ("the cat", "the author"),
]


@pytest.fixture
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture
def conllu(tmp_path) -> Path:
    path = tmp_path / "trees.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    return path


@pytest.fixture
def dataset(tokenizer) -> Dataset:
    rows = Dataset.from_dict(dict(zip(("sentence1", "sentence2"), map(list, zip(*PAIRS, strict=True)), strict=True)))
    return encode_sentences(rows, tokenizer, ["sentence1", "sentence2"], words=True)[0]


def pairs_of(scores: np.ndarray, texts: list[list[str]]) -> set[tuple[str, str]]:
    words = [word for text in texts for word in text]
    return {(words[row], words[column]) for row, column in zip(*scores.nonzero(), strict=True)}


def test_words_are_the_same_for_every_tokenizer():
    text = "Don't pay 3.5 (the un-payer's) l’été.\n"
    expected = ["Don't", "pay", "3.5", "(", "the", "un", "-", "payer's", ")", "l’été", "."]
    assert split_words(text) == expected


def test_pieces_inherit_their_word(tokenizer, dataset):
    row = dataset[0]
    assert row["words"] == [["The", "unpayer", "wrote", "a", "book", "."], ["a", "dog", ".", "in", "a", "house", "."]]
    tokens = tokenizer.convert_ids_to_tokens(row["input_ids"])
    assert tokens[:4] == ["[CLS]", "the", "un", "##payer"]
    assert row["word_ids"] == [None, 0, 1, 1, 2, 3, 4, 5, None, 6, 7, 8, 9, 10, 11, 12, None]


def test_truncated_sentences_keep_their_words(tokenizer):
    rows = Dataset.from_dict({"sentence": ["a dog in the house", "cat"]})
    encoded, _ = encode_sentences(rows, tokenizer, ["sentence"], max_length=5, words=True)
    assert encoded["word_ids"][:] == [[None, 0, 1, 2, None], [None, 0, None]]
    assert encoded["words"][0] == [["a", "dog", "in", "the", "house"]]
    assert encode_sentences(rows, tokenizer, ["sentence"])[0].column_names == [
        "input_ids",
        "token_type_ids",
        "attention_mask",
    ]


@pytest.mark.parametrize("max_length", [None, 12])
def test_words_of_relations_are_those_of_the_text(tokenizer, max_length):
    text = "in the house the unpayer wrote a book . the cat"
    spans = {"head": [[17, 24]], "tail": [[33, 37]]}
    rows = Dataset.from_dict({"id": ["0"], "text": [text], **spans, "label": [None]})
    plain = encode_relation_dataset(rows, tokenizer, max_length)
    encoded = encode_relation_dataset(rows, tokenizer, max_length, words=True)
    (row,) = encoded.to_list()
    assert encoded.remove_columns(["words", "word_ids"]).to_list() == plain.to_list()
    (words,) = row["words"]
    assert words == text.split()
    for token, word in zip(tokenizer.convert_ids_to_tokens(row["input_ids"]), row["word_ids"], strict=True):
        assert (word is None) if token.startswith("[") else token.removeprefix("##") in words[word]


def test_pmi():
    texts = [["A", "dog", "dog"], ["a", "cat"], ["the", "dog"], ["the", "cat", "sat"]]
    found = PositivePMI(texts)([["a", "dog", "unseen"], ["THE", "cat", "sat", "sat"]])
    words = ["a", "dog", "unseen", "the", "cat", "sat", "sat"]
    corpus = [{word.lower() for word in text} for text in texts]
    for row, x in enumerate(words):
        for column, y in enumerate(words):
            single = [sum(word in text for text in corpus) for word in (x, y)]
            both = sum({x, y} <= text for text in corpus)
            expected = max(0.0, math.log(len(corpus) * both / math.prod(single))) if both and x != y else 0.0
            assert found[row, column] == pytest.approx(expected, rel=1e-6), (x, y)
    assert found[3, 5] > 0 and found.shape == (7, 7)


def test_pmi_of_nothing():
    assert PositivePMI([["a"], []])([[], []]).shape == (0, 0)
    assert not PositivePMI([])([["a", "b"]]).any()


def test_read_conllu(conllu):
    trees = list(read_conllu(conllu))
    assert trees[0] == (
        ["The", "dog's", "in", "the", "house", "."],
        [(0, 1), (1, 4), (2, 4), (3, 4), (4, 1), (5, 1)],
    )
    assert trees[1] == (
        ["The", "dog", "'s", "in", "the", "house", "."],
        [(0, 1), (2, 5), (3, 5), (4, 5), (5, 1), (6, 1)],
    )
    assert trees[2:] == [(["cannot"], [])]


def test_trees_of_multi_word_tokens_are_found_by_either(conllu):
    lines = ["1-2\tdu" + "\t_" * 8, *(f"{i}\t{word}\t_\t_\t_\t_\t{head}\tx\t_\t_" for i, word, head in FRENCH)]
    conllu.write_text("\n".join(lines) + "\n", encoding="utf-8")
    source = DependencyTrees(read_conllu(conllu))
    for words, pairs in ((["du", "pain"], {("du", "pain")}), (["de", "le", "pain"], {("de", "pain"), ("le", "pain")})):
        assert pairs_of(source([words]), [words]) == pairs | {pair[::-1] for pair in pairs}


def test_trees_are_laid_over_other_words(conllu):
    source = DependencyTrees(read_conllu(conllu))
    texts = [["the", "Dog", "'", "s", "in", "the", "house", "."], ["no", "tree"], ["can", "not"]]
    joined = source(texts)
    assert [text in source for text in texts] == [True, False, True]
    assert np.array_equal(joined, joined.T) and not joined.diagonal().any() and set(joined.flat) == {0.0, 1.0}
    ends = {(min(pair), max(pair)) for pair in zip(*map(np.ndarray.tolist, joined.nonzero()), strict=True)}
    assert ends == {(0, 1), (1, 6), (1, 7), (2, 6), (3, 6), (4, 6), (5, 6)}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2\tdog\t", "2 dog\t", ":4: CoNLL-U has 10 columns with tabs between them, not 9"),
        ("4\tin", "5\tin", ":6: the word has to be number 4, not '5'"),
        ("\t6\tcase", "\t_\tcase", ":6: the head has to be the number of a word or 0, not '_'"),
        ("\t6\tcase", "\t8\tcase", ":11: a head of the sentence above is none of its 7 words"),
    ],
)
def test_broken_conllu(conllu, old, new, message):
    conllu.write_text(CONLLU.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError, match=f"trees.conllu{message}"):
        list(read_conllu(conllu))


def test_embeddings(tokenizer):
    embeddings = np.random.default_rng(0).normal(size=(len(tokenizer), 5)).astype(np.float32)
    source = EmbeddingSimilarity(["dog", "unpayer", "The"], tokenizer, embeddings)
    found = source([["dog", "unpayer"], ["The", "other", "dog"]])
    ids = {token: number for token, number in tokenizer.get_vocab().items()}
    vectors = [embeddings[ids["dog"]], embeddings[[ids["un"], ids["##payer"]]].mean(axis=0), embeddings[ids["the"]]]
    for (row, x), (column, y) in combinations(enumerate(vectors), 2):
        cosine = x @ y / math.sqrt((x @ x) * (y @ y))
        assert found[row, column] == found[column, row] == pytest.approx(max(cosine, 0), abs=1e-6)
    assert found[0, 4] == pytest.approx(1) and not found[3].any() and (found >= 0).all()


def byte_level_tokenizer(side: str, trim_offsets: bool) -> PreTrainedTokenizerFast:
    """As RoBERTa's: a letter or a sign a token, the space before a word is part of it, and pairs have </s></s>."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    merges = [("Ġ", "a"), ("Ġ", "."), ("o", "g")]
    tokens = [*special, *alphabet, *("".join(pair) for pair in merges)]
    backend = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=trim_offsets)
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, padding_side=side, pad_token="<pad>", unk_token="<unk>", **names
    )


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("trim_offsets", [True, False])
def test_byte_level_pairs(side, trim_offsets):
    tokenizer = byte_level_tokenizer(side, trim_offsets)
    pairs = {"one": ["a dog . a dög", "a"], "other": ["dog.", "."]}
    dataset, _ = encode_sentences(Dataset.from_dict(pairs), tokenizer, ["one", "other"], words=True)
    tokens = [tokenizer.convert_ids_to_tokens(ids) for ids in dataset["input_ids"]]
    assert tokens[0] == "<s> a Ġ d og Ġ. Ġa Ġ d Ã ¶ g </s> </s> d og . </s>".split()
    # A space that is a token of its own belongs to no word.
    words = [None, 0, None, 1, 1, 2, 3, None, 4, 4, 4, 4, None, None, 5, 5, 6, None]
    assert dataset[0]["word_ids"] == words
    patterns = ["first", "delim", "period", "pmi"]
    sources = word_sources(patterns, dataset, tokenizer, torch.ones(len(tokenizer), 2))
    examples = list(dataset)
    batch = PatternCollator(DataCollatorWithPadding(tokenizer), tokenizer, patterns, sources)(examples)
    assert set(batch) == {*tokenizer.model_input_names, "pattern_targets"} and "words" in examples[0]
    targets, longest = batch["pattern_targets"], len(tokens[0])
    assert set(targets) == {"delim", "period", "pmi"}
    for row, found in enumerate(tokens):
        places = slice(longest - len(found), None) if side == "left" else slice(len(found))
        assert batch["attention_mask"][row, places].all() and batch["attention_mask"][row].sum() == len(found)
        assert targets["delim"][row, places].tolist() == [token == "</s>" for token in found]
        assert targets["delim"][row].sum() == 3
        assert targets["period"][row, places].tolist() == [token in (".", "Ġ.") for token in found]
        assert targets["period"][row].sum() == (2, 1)[row]
        scores = sources["pmi"](dataset[row]["words"])
        known = [(at, word) for at, word in enumerate(dataset[row]["word_ids"], places.start or 0) if word is not None]
        expected = torch.zeros(longest, longest)
        for query, own in known:
            for key, other in known:
                expected[query, key] = float(scores[own, other])
        assert torch.equal(targets["pmi"][row], expected) and (row == 1 or expected.any())


def test_an_example_without_words(tokenizer):
    rows = Dataset.from_dict({"sentence": ["", "the dog"]})
    dataset, _ = encode_sentences(rows, tokenizer, ["sentence"], words=True)
    sources = word_sources(["pmi"], dataset, tokenizer, torch.ones(len(tokenizer), 2))
    batch = PatternCollator(DataCollatorWithPadding(tokenizer), tokenizer, ["pmi"], sources)(list(dataset))
    assert batch["pattern_targets"]["pmi"].shape == (2, 4, 4) and not batch["pattern_targets"]["pmi"][0].any()


def test_what_a_pattern_needs(tokenizer, dataset, conllu, monkeypatch, caplog):
    embeddings = torch.ones(len(tokenizer), 2)
    assert word_sources(["first", "delim"], None, tokenizer, embeddings) == {}
    with pytest.raises(
        UserError, match="pmi needs word_ids and words in the training data: encode them with words=True"
    ):
        word_sources(["first", "pmi"], dataset.remove_columns(["words", "word_ids"]), tokenizer, embeddings)
    with pytest.raises(UserError, match="a stream also has to know its columns"):
        word_sources(["pmi"], dataset.to_iterable_dataset().map(dict), tokenizer, embeddings)
    with pytest.raises(UserError, match="name CoNLL-U files"):
        word_sources(["dependency"], dataset, tokenizer, embeddings)
    with pytest.raises(UserError, match="trees.conllu: no text of the training data is a sentence in there"):
        word_sources(["dependency"], dataset, tokenizer, embeddings, [str(conllu)])
    conllu.write_text(f"{CONLLU}\n1\tthe\t_\t_\t_\t_\t2\t_\t_\t_\n2\tcat\t_\t_\t_\t_\t0\t_\t_\t_\n", encoding="utf-8")
    sources = word_sources(["dependency"], dataset, tokenizer, embeddings, [str(conllu)])
    assert "3 of 4 training texts are no single sentence with a tree" in caplog.text
    assert pairs_of(sources["dependency"]([["the", "cat"]]), [["the", "cat"]]) == {("the", "cat"), ("cat", "the")}
    tokenizer.sep_token = None
    with pytest.raises(UserError, match="delim needs a tokenizer with a separator"):
        PatternCollator(DataCollatorWithPadding(tokenizer), tokenizer, ["delim"], {})
    monkeypatch.setattr(tokenizer, "get_vocab", dict)
    with pytest.raises(UserError, match=r'period needs a tokenizer with the token "\."'):
        PatternCollator(DataCollatorWithPadding(tokenizer), tokenizer, ["period"], {})
