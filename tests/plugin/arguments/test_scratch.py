"""Models with fresh weights, from arguments."""

from __future__ import annotations

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
    RobertaConfig,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from msattn import MSTransformerConfig, MSTransformerForSequenceClassification, UserError
from msattn.arguments.pretrained import ModelArguments, load_tokenizer
from msattn.arguments.scratch_arguments import ScratchArguments
from msattn.configuration.max_tokens import most_tokens
from msattn.tasks.model_source import ModelSource
from tests.tiny_models import tiny_tokenizer

TEXTS = ["The dog wrote .", "a dog", ["a", "house", "."]]
SMALL = ["hidden_size=16", "num_attention_heads=2", "num_hidden_layers=1"]
VECTORS = "dog 1 2 3\ncat 4 5 6\nTaxi 7 8 9\nnew york 1 1 1\n. 2 2 2\nzebra 3 3 3\n"


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(VECTORS)
    return str(path)


def fresh(*overrides: str, model_args: ModelArguments | None = None, **options) -> ModelSource:
    arguments = {"model_type": "ms_transformer", "config_overrides": [*SMALL, *overrides], **options}
    return ModelSource(model_args or ModelArguments(), ScratchArguments(**arguments))


def test_a_model_of_the_words_of_the_training_data():
    source = fresh("alpha=-0.5", 'scales=[1, "N/4", null]', "cls_global=True", "window=full")
    tokenizer = source.tokenizer(TEXTS)
    assert set(tokenizer.get_vocab()) == {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "dog", "wrote", ".", "a", "house"}
    model = source.model(AutoModelForSequenceClassification, id2label={0: "no", 1: "yes", 2: "maybe"})
    assert isinstance(model, MSTransformerForSequenceClassification)
    config = model.config
    assert (config.vocab_size, config.num_labels, config.pad_token_id, config.hidden_size) == (10, 3, 0, 16)
    assert (config.alpha, config.scales, config.window, config.cls_global) == (-0.5, (1, "N/4", None), "full", True)
    assert model(**tokenizer("the dog", return_tensors="pt")).logits.shape == (1, 3)
    assert source.model(AutoModelForTokenClassification).config.num_labels == 2


def test_the_last_word_is_the_overrides():
    def pairs(*overrides: str) -> bool:
        source = fresh(*overrides)
        source.tokenizer(TEXTS)
        return source.model(AutoModelForSequenceClassification, sentence_pairs=True).config.sentence_pairs

    assert pairs() and not pairs("sentence_pairs=false")


def test_word_vectors(vectors, caplog):
    source = fresh(word_vectors=vectors)
    tokenizer = source.tokenizer(TEXTS)
    vocabulary = tokenizer.get_vocab()
    # Words that the tokenizer never makes are left out: "Taxi" of an uncased one, and two words in one.
    assert {"cat", "zebra"} < vocabulary.keys() and len(vocabulary) == 12
    assert tokenizer("cat zebra house")["input_ids"][1:-1] == [vocabulary[word] for word in ("cat", "zebra", "house")]
    model = source.model(AutoModelForSequenceClassification)
    assert model.config.embedding_size == 3 and model.config.hidden_size == 16
    weights = model.get_input_embeddings().weight
    assert torch.equal(
        weights[[vocabulary["dog"], vocabulary["cat"], 0]], torch.tensor([[1.0, 2, 3], [4, 5, 6], [0] * 3])
    )
    assert weights.requires_grad and weights[vocabulary["house"]].abs().sum() > 0
    assert "vectors of 2 of 6 words" in caplog.text  # those of the texts

    # The next seed begins with the same vectors.
    again = source.model(AutoModelForSequenceClassification)
    assert torch.equal(again.get_input_embeddings().weight, weights)
    assert not torch.equal(again.classifier.weight, model.classifier.weight)


def test_most_words(vectors):
    def words(**options) -> set[str]:
        return set(fresh(**options).tokenizer(TEXTS).get_vocab()) - {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}

    assert words(vocabulary_size=7) == {"a", ".", "dog"}
    assert words(vocabulary_size=7, word_vectors=vectors) == {"a", ".", "dog"}
    assert words(vocabulary_size=8, min_word_frequency=2, word_vectors=vectors) == {"a", ".", "dog", "cat"}
    assert words(min_word_frequency=2, cased=True, word_vectors=vectors) == {"a", ".", "dog", "cat", "Taxi", "zebra"}


def test_raw_text_unless_it_is_pretokenized(tmp_path):
    for options in ({}, {"raw_text": True}):
        tokenizer = fresh(**options).tokenizer(["the dog."])
        assert set(tokenizer.get_vocab()) > {"the", "dog", "."}
        tokenizer.save_pretrained(tmp_path)  # a pipeline reads as training did
        assert AutoTokenizer.from_pretrained(tmp_path).tokenize("(dog)") == ["[UNK]", "dog", "[UNK]"]
    spaced = fresh(pretokenized=True).tokenizer(["the dog."])
    assert set(spaced.get_vocab()) > {"the", "dog."} and "dog" not in spaced.get_vocab()


def test_words_without_a_vector_are_as_loud_as_asked(vectors):
    def house(**options) -> torch.Tensor:
        source = fresh(word_vectors=vectors, **options)
        index = source.tokenizer(TEXTS).get_vocab()["house"]
        return source.model(AutoModelForSequenceClassification).get_input_embeddings().weight[index]

    torch.testing.assert_close(house(missing_vector_scale=0.1), 0.1 * house())
    assert not house(missing_vector_scale=0.0).any()


def unk(*overrides: str, **options) -> tuple[float, int]:
    source = fresh(*overrides, **options)
    source.tokenizer(TEXTS)
    config = source.model(AutoModelForSequenceClassification).config
    return config.word_dropout, config.unk_token_id


def test_word_dropout(tmp_path):
    assert unk() == (0, 1)
    assert unk(word_dropout=0.2) == unk(word_dropout=0.2, model_type="bilstm", config_overrides=None) == (0.2, 1)
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    named = ModelArguments(tokenizer_name=str(tmp_path))
    assert unk(word_dropout=0.2, model_args=named) == (0.2, tokenizer.unk_token_id)
    tokenizer.unk_token = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="--word_dropout: the tokenizer has no token of unknown words"):
        unk(word_dropout=0.2, model_args=named)


class TestPresets:
    def config(self, **options) -> MSTransformerConfig:
        source = ModelSource(ModelArguments(), ScratchArguments(**options))
        source.tokenizer(TEXTS)
        return source.model(AutoModelForSequenceClassification).config

    def test_are_defaults(self):
        assert self.config(preset="paper").to_dict() == MSTransformerConfig(vocab_size=10).to_dict()
        small, long = self.config(preset="small"), self.config(preset="long-document")
        assert (small.hidden_size, small.word_dropout) == (long.hidden_size, long.word_dropout) == (100, 0.1)
        assert all(isinstance(scale, int) for scale in (*small.scales, *long.scales))  # linear cost
        assert max(long.scales) > max(small.scales)

    def test_what_is_given_wins(self):
        overrides = ["hidden_size=20", 'scales=[1, "N/4"]']
        config = self.config(preset="small", config_overrides=overrides, word_dropout=0.0)
        assert (config.hidden_size, config.scales, config.word_dropout) == (20, (1, "N/4"), 0)
        assert config.num_attention_heads == 5  # of the preset
        assert self.config(preset="small", model_type="ms_transformer").hidden_size == 100

    def test_are_not_for_checkpoints(self):
        with pytest.raises(UserError, match="--preset is for training from scratch, with --model_type"):
            ModelSource(ModelArguments("folder"), ScratchArguments(preset="small"))


def test_another_family(vectors):
    bert = ["intermediate_size=32", "max_position_embeddings=40"]
    source = fresh(*bert, model_type="bert")
    assert source.tokenizer(TEXTS).model_max_length == 40
    assert isinstance(source.model(AutoModelForSequenceClassification), BertForSequenceClassification)

    source = fresh(*bert, model_type="roberta")
    pair = source.tokenizer(TEXTS)("the dog", "wrote", return_tensors="pt")
    assert source.model(AutoModelForSequenceClassification)(**pair).logits.shape == (1, 2)

    source = fresh(*bert, model_type="bert", word_vectors=vectors)
    source.tokenizer(TEXTS)
    with pytest.raises(UserError, match="the vectors have 3 numbers, but the model's embeddings 16"):
        source.model(AutoModelForSequenceClassification)


def test_another_tokenizer(tmp_path):
    tiny_tokenizer().save_pretrained(tmp_path)
    args = ModelArguments(tokenizer_name=str(tmp_path))
    source = fresh(model_args=args)
    tokenizer = source.tokenizer(TEXTS)
    assert tokenizer.get_vocab() == tiny_tokenizer().get_vocab()
    # The limit is that of the new model: it has none.
    assert tiny_tokenizer().model_max_length == 64 and tokenizer.model_max_length == VERY_LARGE_INTEGER
    assert source.model(AutoModelForSequenceClassification).config.vocab_size == len(tokenizer)
    with pytest.raises(UserError, match="--cased is for a vocabulary of its own: leave out --tokenizer_name"):
        fresh(model_args=args, cased=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": None}, "give either --model_name_or_path, a checkpoint, or --model_type"),
        ({"model_args": ModelArguments("folder")}, "give either --model_name_or_path"),
        ({"model_type": "ms_transfomer"}, "no family 'ms_transfomer'; did you mean ms_transformer?"),
        (
            {"config_overrides": ["hiden_size=3"]},
            "ms_transformer has no field 'hiden_size' to set; did you mean hidden_",
        ),
        ({"config_overrides": ["vocab_size=3"]}, "ms_transformer has no field 'vocab_size' to set"),
        ({"config_overrides": ["scales=1,3"]}, "'scales' with value '1,3' .*; values are JSON, such as 'scales="),
        ({"config_overrides": ["alpha"]}, "--config_overrides alpha: expected NAME=VALUE"),
        ({"config_overrides": ["hidden_size=31"]}, "num_attention_heads must divide hidden_size"),
        ({"config_overrides": ["window=whole"]}, "window"),
        ({"config_overrides": ['scales=["N/0"]']}, "a scale must be a whole number"),
        ({"word_vectors": "none.txt"}, "--word_vectors none.txt: there is no such file"),
        ({"preset": "small", "model_type": "bilstm"}, "--preset small is for --model_type ms_transformer, not bilstm"),
        ({"word_dropout": 0.1, "model_type": "bert"}, "--word_dropout: the family bert has none"),
        ({"word_dropout": 0.1, "config_overrides": ["word_dropout=0.2"]}, "--word_dropout is given, too; leave one"),
        ({"missing_vector_scale": 0.1}, "--missing_vector_scale needs --word_vectors"),
        ({"raw_text": True, "pretokenized": True}, "--raw_text and --pretokenized exclude each other"),
    ],
)
def test_mistakes(options, message):
    arguments = {"model_type": "ms_transformer", "config_overrides": SMALL, **options}
    model_args = arguments.pop("model_args", ModelArguments())
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        ModelSource(model_args, ScratchArguments(**arguments)).tokenizer(TEXTS)


def test_what_a_checkpoint_does_not_take():
    with pytest.raises(UserError, match="--raw_text is for training from scratch, with --model_type"):
        ModelSource(ModelArguments("folder"), ScratchArguments(raw_text=True))
    with pytest.raises(UserError, match="fresh weights need --do_train and training data"):
        fresh().tokenizer(None)
    source = fresh(model_type="t5", config_overrides=None)
    source.tokenizer(TEXTS)
    with pytest.raises(UserError, match="--model_type t5: no model can be made"):
        source.model(AutoModelForMaskedLM)


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (BertConfig(), 512),
        (RobertaConfig(max_position_embeddings=514), 512),
        (RobertaConfig(max_position_embeddings=66, pad_token_id=0), 65),
        (MSTransformerConfig(), None),
        (MSTransformerConfig(position_embeddings="sinusoidal"), None),
        (MSTransformerConfig(position_embeddings="learned", max_position_embeddings=20), 20),
    ],
)
def test_most_tokens(config, limit, tmp_path):
    assert most_tokens(config) == limit
    fresh().tokenizer(TEXTS).save_pretrained(tmp_path)
    tokenizer = load_tokenizer(ModelArguments(tokenizer_name=str(tmp_path)), config)
    assert min(tokenizer.model_max_length, 10**6) == (limit or 10**6)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder, tokenizer = tmp_path_factory.mktemp("encoder"), tiny_tokenizer()
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


class TestVectorsOfAnEncoder:
    """`--word_vectors` names an encoder: its tokenizer and its embeddings."""

    def vectors(self, **options) -> torch.Tensor:
        source = fresh(**options)
        assert source.tokenizer(TEXTS).get_vocab() == tiny_tokenizer().get_vocab()
        return source.model(AutoModelForSequenceClassification).get_input_embeddings().weight.detach()

    def test_are_centred_and_scaled(self, encoder):
        given = BertModel.from_pretrained(encoder).get_input_embeddings().weight.detach()
        centred = given - given.mean(dim=0)
        found = self.vectors(word_vectors=encoder)
        torch.testing.assert_close(found[1:], (centred * 0.4 / centred.std())[1:])
        assert not found[0].any()  # padding
        torch.testing.assert_close(self.vectors(word_vectors=encoder, word_vector_deviation=1.0), found * 2.5)

    def test_principal_components_keep_what_is_nearest(self, encoder):
        whole = self.vectors(word_vectors=encoder)
        found = self.vectors(word_vectors=encoder, word_vector_size=3)
        assert found.shape[1] == 3
        given = BertModel.from_pretrained(encoder).get_input_embeddings().weight.detach().double()
        left, values, _ = torch.linalg.svd(given - given.mean(dim=0), full_matrices=False)
        expected = left[:, :3] * values[:3]
        expected = expected * 0.4 / expected.std()
        torch.testing.assert_close((found @ found.T)[1:, 1:], (expected @ expected.T)[1:, 1:].float())
        # All components are a rotation.
        turned = self.vectors(word_vectors=encoder, word_vector_size=8)
        torch.testing.assert_close((turned @ turned.T)[1:, 1:], (whole @ whole.T)[1:, 1:])

    def test_of_a_file_are_scaled_when_asked(self, vectors):
        source = fresh(word_vectors=vectors, word_vector_deviation=0.1)
        vocabulary = source.tokenizer(TEXTS).get_vocab()
        weights = source.model(AutoModelForSequenceClassification).get_input_embeddings().weight
        dog, cat = weights[vocabulary["dog"]], weights[vocabulary["cat"]]
        torch.testing.assert_close(dog / dog[0], torch.tensor([1.0, 2, 3]))
        torch.testing.assert_close(cat / dog[0], torch.tensor([4.0, 5, 6]))
        assert 0.05 < weights.std() < 0.1  # padding is zero

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"cased": True}, "--cased is for a vocabulary of its own, not for that of "),
            ({"model_args": ModelArguments(tokenizer_name="other")}, "--tokenizer_name other: the word vectors of"),
            ({"pretokenized": True}, "--pretokenized is for a vocabulary of its own, not for that of "),
            ({"missing_vector_scale": 0.1}, "--missing_vector_scale: .* has a vector for each of its tokens"),
        ],
    )
    def test_have_a_tokenizer(self, options, message, encoder):
        with pytest.raises(UserError, match=message):
            fresh(word_vectors=encoder, **options)

    def test_wrong_sizes(self, encoder, monkeypatch, tmp_path):
        tiny_tokenizer().save_pretrained(tmp_path)
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        BertModel(BertConfig(vocab_size=5, **sizes)).save_pretrained(tmp_path)
        with pytest.raises(
            UserError, match=rf"the tokenizer has {len(tiny_tokenizer())} tokens, the model 5 embeddings"
        ):
            fresh(word_vectors=str(tmp_path)).tokenizer(TEXTS)
        with pytest.raises(UserError, match="--word_vector_size 9: the word vectors have 8 numbers"):
            fresh(word_vectors=encoder, word_vector_size=9).tokenizer(TEXTS)
        with pytest.raises(UserError, match="--word_vector_deviation needs --word_vectors"):
            fresh(word_vector_deviation=0.5)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(UserError, match="someone/encoder: no tokenizer could be loaded"):
            fresh(word_vectors="someone/encoder").tokenizer(TEXTS)
