"""Models with fresh weights, from arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    RobertaConfig,
    TrainingArguments,
)

from msattn import MSTransformerConfig, MSTransformerForSequenceClassification, UserError
from msattn.configuration.max_tokens import most_tokens
from msattn.training.arguments import ModelArguments
from msattn.training.from_scratch import (
    ScratchArguments,
    scratch_config,
    scratch_model,
    scratch_tokenizer,
    trains_from_scratch,
)
from tests.tiny_models import saved_model, tiny_tokenizer

TEXTS = ["The dog wrote .", "a dog", ["a", "house", "."]]
SMALL = ["hidden_size=16", "num_attention_heads=2", "num_hidden_layers=1"]
SPECIAL = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}


class Fresh:
    """What a script makes of its arguments: a tokenizer and, when asked, a model."""

    def __init__(self, *overrides: str, tokenizer_name: Any = None, small: bool = True, **options: Any):
        given = [*(SMALL if small else ()), *overrides]
        self.model_args = ModelArguments(config_overrides=given, tokenizer_name=tokenizer_name)
        self.scratch = ScratchArguments(**{"model_type": None if "preset" in options else "ms_transformer", **options})
        assert trains_from_scratch(self.scratch, self.model_args, TrainingArguments("out", do_train=True))
        config = scratch_config(self.scratch, self.model_args)
        self.tokenizer: PreTrainedTokenizerBase
        self.tokenizer, self.vectors = scratch_tokenizer(self.scratch, self.model_args, config, TEXTS)

    @property
    def words(self) -> set[str]:
        return set(self.tokenizer.get_vocab()) - SPECIAL

    def model(self, model_class: Any = AutoModelForSequenceClassification, **from_data: Any) -> PreTrainedModel:
        return scratch_model(model_class, self.scratch, self.model_args, self.tokenizer, self.vectors, **from_data)

    def embeddings(self) -> torch.Tensor:
        return self.model().get_input_embeddings().weight.detach()


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("dog 1 2 3\ncat 4 5 6\nTaxi 7 8 9\nnew york 1 1 1\n. 2 2 2\nzebra 3 3 3\n")
    return str(path)


def test_a_model_of_the_words_of_the_training_data():
    fresh = Fresh("alpha=-0.5", 'scales=[1, "N/4", null]', "cls_global=True", "window=full")
    assert fresh.words == {"the", "dog", "wrote", ".", "a", "house"}
    model = fresh.model(id2label={0: "no", 1: "yes", 2: "maybe"})
    assert isinstance(model, MSTransformerForSequenceClassification)
    config = model.config
    assert (config.vocab_size, config.num_labels, config.pad_token_id, config.hidden_size) == (10, 3, 0, 16)
    assert (config.alpha, config.scales, config.window, config.cls_global) == (-0.5, (1, "N/4", None), "full", True)
    assert model(**fresh.tokenizer("the dog", return_tensors="pt")).logits.shape == (1, 3)
    assert fresh.model(AutoModelForTokenClassification).config.num_labels == 2


def test_word_vectors(vectors, caplog):
    fresh = Fresh(word_vectors=vectors)
    vocabulary = fresh.tokenizer.get_vocab()
    # Words that the tokenizer never makes are left out: "Taxi" of an uncased one, and two words in one.
    assert {"cat", "zebra"} < vocabulary.keys() and len(vocabulary) == 12
    model = fresh.model()
    assert model.config.embedding_size == 3 and model.config.hidden_size == 16
    weights = model.get_input_embeddings().weight
    rows = weights[[vocabulary["dog"], vocabulary["cat"], 0]]
    assert torch.equal(rows, torch.tensor([[1.0, 2, 3], [4, 5, 6], [0, 0, 0]]))
    assert weights.requires_grad and weights[vocabulary["house"]].abs().sum() > 0
    assert "vectors of 2 of 6 words" in caplog.text  # those of the texts


def test_most_words(vectors):
    assert Fresh(vocabulary_size=7).words == {"a", ".", "dog"}
    assert Fresh(vocabulary_size=7, word_vectors=vectors).words == {"a", ".", "dog"}
    assert len(Fresh(vocabulary_size=11, word_vectors=vectors).words & {"cat", "zebra"}) == 1
    assert {"The", "cat", "Taxi", "zebra"} < Fresh(cased=True, word_vectors=vectors).words


def test_raw_text_unless_it_is_pretokenized(tmp_path):
    raw = Fresh().tokenizer
    assert raw.tokenize("(dog).") == ["[UNK]", "dog", "[UNK]", "."]
    raw.save_pretrained(tmp_path)  # a pipeline reads as training did
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize("(dog)") == ["[UNK]", "dog", "[UNK]"]
    assert Fresh(pretokenized=True).tokenizer.tokenize("dog. dog") == ["[UNK]", "dog"]


def test_another_tokenizer_and_word_dropout(tmp_path):
    config = Fresh("word_dropout=0.2", small=False, model_type="bilstm").model().config
    assert (config.word_dropout, config.unk_token_id) == (0.2, 1)
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    assert (
        Fresh("word_dropout=0.2", tokenizer_name=str(tmp_path)).model().config.unk_token_id == tokenizer.unk_token_id
    )
    tokenizer.unk_token = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="word_dropout: the tokenizer has no token of unknown words"):
        Fresh("word_dropout=0.2", tokenizer_name=str(tmp_path)).model()


def test_presets_are_defaults():
    def config(*overrides: str, **options: Any) -> MSTransformerConfig:
        return Fresh(*overrides, small=False, **options).model().config

    assert config(preset="paper").to_dict() == MSTransformerConfig(vocab_size=10).to_dict()
    small, long = config(preset="small"), config(preset="long-document", model_type="ms_transformer")
    assert (small.hidden_size, small.word_dropout) == (long.hidden_size, long.word_dropout) == (100, 0.1)
    assert all(isinstance(scale, int) for scale in (*small.scales, *long.scales))  # linear cost
    assert max(long.scales) > max(small.scales)
    mine = config("hidden_size=20", 'scales=[1, "N/4"]', "word_dropout=0", preset="small")
    assert (mine.hidden_size, mine.scales, mine.word_dropout, mine.num_attention_heads) == (20, (1, "N/4"), 0, 5)


def test_another_family(vectors):
    bert = "intermediate_size=32", "max_position_embeddings=40"
    fresh = Fresh(*bert, model_type="bert")
    assert fresh.tokenizer.model_max_length == 40
    assert isinstance(fresh.model(), BertForSequenceClassification)
    fresh = Fresh(*bert, model_type="roberta")
    pair = fresh.tokenizer("the dog", "wrote", return_tensors="pt")
    assert fresh.model()(**pair).logits.shape == (1, 2)
    with pytest.raises(UserError, match="12 vectors of 3 numbers do not fit the model's 12 embeddings of 16"):
        Fresh(*bert, model_type="bert", word_vectors=vectors).model()
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        Fresh(small=False, model_type="bilstm").model(AutoModelForMaskedLM)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ({}, {}, "give either --model_name_or_path, a checkpoint, or --model_type"),
        ({"model_name_or_path": "folder"}, {"model_type": "bert"}, "give either --model_name_or_path"),
        ({"model_name_or_path": "folder"}, {"cased": True}, "--cased is for training from scratch"),
        ({"tokenizer_name": "folder"}, {"model_type": "bert", "cased": True}, "--cased is for a vocabulary of"),
        ({}, {"preset": "small", "word_vectors": "some/encoder", "pretokenized": True}, "--pretokenized is for a v"),
        ({}, {"model_type": "ms_transfomer"}, "no family 'ms_transfomer'; did you mean ms_transformer?"),
        (
            {"config_overrides": ["hiden_size=3"]},
            {"preset": "paper"},
            "no field 'hiden_size' to set; did you mean hid",
        ),
        ({"config_overrides": ["vocab_size=3"]}, {"preset": "paper"}, "ms_transformer has no field 'vocab_size' to"),
        ({"config_overrides": ["hidden_size=31"]}, {"preset": "paper"}, "num_attention_heads must divide hidden_size"),
        ({"config_overrides": ["scales=1,3"]}, {"preset": "paper"}, "'scales' with value '1,3'"),
        ({}, {"preset": "paper", "word_vectors": "none.txt"}, "none.txt"),
    ],
)
def test_mistakes(model, options, message):
    model_args, scratch = ModelArguments(**model), ScratchArguments(**options)
    with pytest.raises(Exception, match=message.replace("?", r"\?")):
        assert trains_from_scratch(scratch, model_args, TrainingArguments("out", do_train=True))
        scratch_tokenizer(scratch, model_args, scratch_config(scratch, model_args), TEXTS)


def test_fresh_weights_are_trained():
    with pytest.raises(UserError, match="--model_type ms_transformer: fresh weights need --do_train"):
        trains_from_scratch(ScratchArguments(preset="paper"), ModelArguments(), TrainingArguments("out"))
    assert not trains_from_scratch(ScratchArguments(), ModelArguments("folder"), TrainingArguments("out"))


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (RobertaConfig(max_position_embeddings=66, pad_token_id=0), 65),
        (MSTransformerConfig(), None),
        (MSTransformerConfig(position_embeddings="sinusoidal"), None),
        (MSTransformerConfig(position_embeddings="learned", max_position_embeddings=20), 20),
    ],
)
def test_most_tokens(config, limit):
    assert most_tokens(config) == limit


class TestVectorsOfAnEncoder:
    """`--word_vectors` names an encoder: its tokenizer and its embeddings."""

    @pytest.fixture
    def encoder(self, tmp_path):
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        return saved_model(tmp_path, BertModel(BertConfig(vocab_size=len(tiny_tokenizer()), **sizes)))

    @pytest.fixture
    def centred(self, encoder):
        given = BertModel.from_pretrained(encoder).get_input_embeddings().weight.detach().double()
        return given - given.mean(dim=0)

    def test_are_centred_and_scaled(self, encoder, centred):
        fresh = Fresh(word_vectors=encoder)
        assert fresh.tokenizer.get_vocab() == tiny_tokenizer().get_vocab()
        found = fresh.embeddings()
        torch.testing.assert_close(found[1:], (centred * 0.4 / centred.std())[1:].float())
        assert not found[0].any()  # padding

    def test_need_its_tokenizer_and_its_sizes(self, encoder):
        with pytest.raises(UserError, match="--tokenizer_name: the word vectors of .* are those of its own tokens"):
            Fresh(word_vectors=encoder, tokenizer_name="other")
