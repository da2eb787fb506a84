"""Texts are tagged by the first sub-word of each word, whatever their tokenizer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn.functional import one_hot
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast
from transformers.utils import logging

from msattn.data.inputs.raw_text import split_text, words_to_tag
from msattn.data.inputs.word_pieces import sentence_parts
from msattn.errors import UserError
from msattn.pipelines.word_tagger import WordTagger
from tests.tiny_models import SIZES, labelled, saved_encoder

LABELS = ("O", "B-LOC", "I-LOC")


class Gazetteer:
    """A token classifier that tags pieces by a list."""

    device = torch.device("cpu")

    def __init__(self, tokenizer, tags, *labels):
        self.tokenizer, self.tags = tokenizer, tags
        self.config = BertConfig(**labelled(*(labels or LABELS)))

    def eval(self):
        return self

    def __call__(self, input_ids, **others):
        pieces = [self.tokenizer.convert_ids_to_tokens(row) for row in input_ids.tolist()]
        numbers = [[self.config.label2id[self.tags.get(piece, "O")] for piece in row] for row in pieces]
        return SimpleNamespace(logits=9.0 * one_hot(torch.tensor(numbers), len(self.config.id2label)))


def wrapped(model, pre_tokenizer, **options):
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", pad_token="<unk>", **options)


def unigram(**options):
    pieces = ["▁Rome", "Rome", "▁New", "▁York", "▁in", "▁", "(", ")", ".", "Ann", "▁Ann"]
    vocabulary = [("<unk>", -20.0), *((piece, -1.0 - len(pieces) / 9) for piece in pieces)]
    return wrapped(models.Unigram(vocabulary, unk_id=0), pre_tokenizers.Metaspace(), **options)


def word_level():
    words = {word: number for number, word in enumerate(["<unk>", "Rome", "New", "York", "in", "Ann"])}
    return wrapped(models.WordLevel(words, unk_token="<unk>"), pre_tokenizers.Whitespace())


def tagger(tokenizer):
    tags = {"Rome": "B-LOC", "▁Rome": "B-LOC", "New": "B-LOC", "▁New": "B-LOC", "York": "I-LOC", "▁York": "I-LOC"}
    return WordTagger(Gazetteer(tokenizer, tags), tokenizer)


@pytest.mark.parametrize("tokenizer", [unigram, word_level])
@pytest.mark.parametrize(
    "text, names", [("Ann (Rome).", ["Rome"]), ("in Rome, New York", ["Rome", "New York"]), ("", [])]
)
def test_punctuation_belongs_to_no_entity(tokenizer, text, names):
    found = tagger(tokenizer()).entities(text)
    assert [(one["text"], one["label"]) for one in found] == [(name, "LOC") for name in names]
    assert all(0.99 < one["score"] <= 1 for one in found)


def test_later_sub_words_decide_nothing():
    vocabulary = {piece: number for number, piece in enumerate(["<unk>", "the", "u", "s", ".", "##rat", "wolf"])}
    tokenizer = wrapped(models.WordPiece(vocabulary, unk_token="<unk>"), pre_tokenizers.BertPreTokenizer())
    tags = {"u": "B-LOC", "##rat": "B-LOC"}
    found = WordTagger(Gazetteer(tokenizer, tags), tokenizer).entities("the u.s. wolfrat")
    assert [(one["text"], one["start"]) for one in found] == [("u.s.", 4)]


def test_words_of_chinese_are_its_characters():
    vocabulary = {piece: number for number, piece in enumerate(["<unk>", *"北京是中国的首都。", "2023"])}
    tokenizer = wrapped(models.WordPiece(vocabulary, unk_token="<unk>"), pre_tokenizers.BertPreTokenizer())
    tags = {"北": "B-LOC", "京": "I-LOC", "中": "B-LOC", "国": "I-LOC"}
    found = WordTagger(Gazetteer(tokenizer, tags), tokenizer).entities("2023 北京是中国的首都。")
    assert [(one["text"], one["start"], one["label"]) for one in found] == [("北京", 5, "LOC"), ("中国", 8, "LOC")]


def test_words_are_those_of_a_language():
    tokenizer = word_level()
    tag = WordTagger(tagger(tokenizer).model, tokenizer, lang="fr")
    assert [word["text"] for word in tag.words("du Rome")] == ["de", "le", "Rome"]
    tag = WordTagger(tag.model, tokenizer, lang="en")
    assert [(one["text"], one["start"], one["end"]) for one in tag.entities("in Rome's in")] == [("Rome", 3, 7)]


def test_long_texts_are_read_to_the_end():
    text = "in " * 40 + "Rome"
    (found,) = tagger(unigram(model_max_length=8)).entities(text)
    assert (found["start"], found["end"]) == (120, 124)


def test_long_texts_are_cut_between_sentences():
    words = "Ann in . New York Rome Rome Rome".split()
    assert [len(part.starts) for parts in sentence_parts(word_level(), [words], 5) for part, _ in parts] == [3, 5]


def test_padding_moves_no_word():
    found = tagger(unigram(padding_side="left"))([["in", "Ann", "Rome"], ["Rome"]])
    assert [[tag for tag, _ in tags] for tags in found] == [["O", "O", "B-LOC"], ["B-LOC"]]


def test_phrases_of_scripts_without_spaces_are_named_once(caplog):
    logging.warning_once.cache_clear()
    words_to_tag("東京")
    assert not caplog.records
    for text in ("นายกรัฐมนตรี", "กรุงเทพ"):
        words_to_tag(text)
    split_text("東京")
    assert caplog.text.count("A script without spaces between words is cut at punctuation only") == 1


def test_half_a_character_is_refused():
    with pytest.raises(UserError, match="at character 5 is a lone surrogate"):
        tagger(unigram()).entities("Rome \ud83d")


def test_a_batch_without_room_is_refused():
    with pytest.raises(UserError, match="batch_size is a whole number from 1 on, not 0"):
        tagger(unigram())([["Rome"]], batch_size=0)


def test_tags_without_a_prefix_are_entities_of_one_type():
    tokenizer = word_level()
    tags = {"Rome": "LOC", "New": "LOC", "York": "LOC", "Ann": "PER"}
    found = WordTagger(Gazetteer(tokenizer, tags, "O", "LOC", "PER"), tokenizer).entities("New York in Ann Rome")
    assert [(one["text"], one["label"]) for one in found] == [("New York", "LOC"), ("Ann", "PER"), ("Rome", "LOC")]


def test_a_model_that_was_trained_tags_without_dropout():
    tagger = WordTagger(BertForTokenClassification(BertConfig(**SIZES)), word_level())
    tagger.model.train()
    assert tagger([["Ann"]]) == tagger([["Ann"]])


def test_an_encoder_finds_nothing_at_random(tmp_path):
    with pytest.raises(UserError, match="classifier.bias and 1 other weights are missing and would be random"):
        WordTagger.from_pretrained(str(saved_encoder(tmp_path, layers=1)))
