"""Pairwise scores on every family of encoders, each with a tiny random checkpoint."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    FunnelConfig,
    LongformerConfig,
    PreTrainedModel,
)

from msattn import (
    PairwiseConfig,
    PairwiseForRelationClassification,
    PairwiseParser,
)
from msattn.modeling.word_attention import word_attention, word_members, word_states
from tests.common import TOLERANCE
from tests.tiny_encoders import BERT, FAMILIES, LENGTHS, batch, randomized, save_classifier, tiny_encoder

SIZES = {"num_labels": 3, "arc_size": 6, "relation_size": 5}
SELECT = {"objective": "head_select", "scorer": "biaffine"}
#: One of each kind: bidirectional, with a position bias, with windows, causal with windows, outside the interface.
QUICK = ("roberta", "t5", "modernbert", "gemma3_text", "deberta-v2")
WORDS = torch.tensor([[0, 1, 2, 2, 3, 4, 4, 5, -1], [0, 1, 1, 2, -1, *[-1] * 4], [0, 1, 2, 3, 4, 5, -1, -1, -1]])
HEADS = torch.tensor([[2, 0, 2, 5, 3], [2, 0, -100, -100, -100], [0, 1, 2, 3, 4]])
RELATIONS = torch.tensor([[0, 1, 2, 0, 1], [1, 2, -100, -100, -100], [2, 1, 0, 2, -100]])
ENTITIES = torch.tensor([[[1, -1], [4, 5]], [[2, 3], [1, -1]], [[5, -1], [2, 3]]])


FAMILY_PARAMS = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in FAMILIES]


@pytest.fixture(params=FAMILY_PARAMS)
def family(request):
    return request.param


def build(family, model_class=PairwiseParser, encoder=None, **changes) -> PreTrainedModel:
    return randomized(model_class(PairwiseConfig(encoder=tiny_encoder(family, **encoder or {}), **SIZES | changes)))


def tree(family: str, left: int = 0, right: int = 0) -> dict[str, torch.Tensor]:
    """The sentences of [`batch`], their words and trees."""
    word_index = torch.nn.functional.pad(WORDS, (left, right), value=-1)
    return {**batch(family, left, right), "word_index": word_index, "heads": HEADS, "relations": RELATIONS}


def relation(family: str, left: int = 0, right: int = 0) -> dict[str, torch.Tensor]:
    """The sentences of [`batch`] and two entities in each."""
    pieces = (ENTITIES + left).where(ENTITIES >= 0, torch.tensor(-1))
    return {**batch(family, left, right), "entity_pieces": pieces, "labels": torch.tensor([0, 2, 1])}


INPUTS = {PairwiseParser: tree, PairwiseForRelationClassification: relation}
CASES = [(PairwiseParser, {}), (PairwiseParser, SELECT), (PairwiseForRelationClassification, {})]
MODELS = pytest.mark.parametrize(("model_class", "options"), CASES, ids=["pairs", "heads", "relations"])


@MODELS
def test_padding_on_either_side_changes_nothing(family, model_class, options):
    model, inputs = build(family, model_class, **options), INPUTS[model_class]
    with torch.no_grad():
        expected = model(**inputs(family))
        for left, right in ((3, 0), (0, 2), (2, 3)):
            found = model(**inputs(family, left, right))
            for one, other in zip(found.to_tuple(), expected.to_tuple(), strict=True):
                torch.testing.assert_close(one, other, **TOLERANCE)
        for row, length in enumerate(LENGTHS):
            alone = {name: value[row : row + 1] for name, value in inputs(family).items() if name != "attention_mask"}
            for name in alone.keys() & {"input_ids", "word_index"}:
                alone[name] = alone[name][:, :length]
            torch.testing.assert_close(model(**alone)[1][0], expected[1][row], **TOLERANCE)


def test_scores_from_the_maps(family):
    """The naive form, from what the stock encoder returns."""
    model, inputs = build(family, word_state="mean", attention_scale=2.0), tree(family)
    encoder = model.encoder
    with torch.no_grad():
        found = model(**inputs)
        outputs = encoder(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], output_attentions=True
        )
    assert len(outputs.attentions) == 2
    maps = torch.cat([word_attention(attention, WORDS) for attention in outputs.attentions], dim=1).permute(0, 2, 3, 1)
    words = word_states(outputs.last_hidden_state, word_members(WORDS), "mean")
    layer = model.relations
    logits = 2.0 * torch.cat([maps, maps.transpose(1, 2)], dim=-1) @ layer.attention.weight.T
    logits = logits + layer.states.head(words).unsqueeze(2) + layer.states.dependent(words).unsqueeze(1)
    torch.testing.assert_close(found.relation_logits, logits[..., :3], **TOLERANCE)


@pytest.mark.parametrize(
    "options", [{}, {"scorer": "biaffine"}, {"features": "att"}], ids=["linear", "biaffine", "att"]
)
def test_many_pairs_are_those_one_by_one(family, options):
    model, inputs = build(family, PairwiseForRelationClassification, **options), relation(family)
    places = inputs.pop("entity_pieces").roll(1, dims=0)
    places = torch.cat([places, torch.tensor([[[1, -1]], [[2, 3]], [[4, 2]]])], dim=1)
    pairs = torch.stack([places[:, pair] for pair in ([0, 1], [1, 0], [2, 0], [0, 1])], dim=1)
    pairs[1, 3] = -1  # padding
    labels = torch.tensor([[0, 1, 2, 0], [2, 1, 1, -100], [0, 0, 1, 2]])
    with torch.no_grad():
        found = model(**{**inputs, "labels": labels}, entity_pieces=pairs)
        alone = [model(**inputs, entity_pieces=pairs[:, number]).logits for number in range(4)]
    torch.testing.assert_close(found.logits, torch.stack(alone, dim=1), **TOLERANCE)
    expected = torch.nn.functional.cross_entropy(found.logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(found.loss, expected)

    del inputs["labels"]
    of_texts, numbers = torch.tensor([2, 0, 0, 1]), torch.tensor([[0, 1], [1, 0], [2, 0], [2, 1]])
    with torch.no_grad():
        mixed = model(**inputs, entity_pieces=places, entity_pairs=numbers, entity_texts=of_texts).logits
        whole = model(**inputs, entity_pieces=places, entity_pairs=numbers.expand(3, 4, 2)).logits
    torch.testing.assert_close(mixed, whole[of_texts, range(4)], **TOLERANCE)


def test_relations_from_the_maps(family):
    model, inputs = build(family, PairwiseForRelationClassification, attention_scale=2.0), relation(family)
    with torch.no_grad():
        found = model(**inputs).logits
        outputs = model.encoder(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], output_attentions=True
        )
    layer = model.classifier
    for row, entities in enumerate(ENTITIES.tolist()):
        one, two = ([piece for piece in entity if piece >= 0] for entity in entities)
        first, second = (outputs.last_hidden_state[row, entity].mean(dim=0) for entity in (one, two))
        maps = [
            layer_map[row][:, start][:, :, end].sum(dim=-1).mean(dim=-1)
            for start, end in ((one, two), (two, one))
            for layer_map in outputs.attentions
        ]
        expected = layer.states.head(first) + layer.states.dependent(second)
        expected = expected + 2.0 * layer.attention.weight @ torch.cat(maps)
        torch.testing.assert_close(found[row], expected, **TOLERANCE)


@pytest.mark.slow
@pytest.mark.heavy
@pytest.mark.parametrize("options", [{}, SELECT], ids=["pairs", "heads"])
def test_compiled_code_counts_the_words(options):
    model, inputs = build("bert", **options), tree("bert")
    del inputs["heads"], inputs["relations"]
    compiled = torch.compile(model, backend="aot_eager")
    for words in (5, 3):
        inputs["word_index"] = inputs["word_index"].clamp_max(words)
        with torch.no_grad():
            found, expected = compiled(**inputs), model(**inputs)
        assert expected.arc_scores.shape[1:] == (words + 1, words + 1)
        torch.testing.assert_close(found.to_tuple(), expected.to_tuple(), **TOLERANCE)


class TestLearnedRoot:
    """A tokenizer without a leading special token: no piece stands for ROOT."""

    @pytest.fixture(params=[{}, SELECT], ids=["pairs", "heads"])
    def options(self, request):
        return {**request.param, "root": "learned"}

    @pytest.fixture
    def inputs(self):
        inputs = tree("t5")
        return {**inputs, "word_index": inputs["word_index"] - (inputs["word_index"] == 0).long()}

    def test_it_is_learned(self, options, inputs):
        model = build("t5", **options)
        outputs = model(**inputs)
        outputs.loss.backward()
        roots = [part.root for part in (model.relations, getattr(model, "arcs", None)) if part is not None]
        assert all(root.weight.grad.any() for root in roots)
        for root in roots:
            torch.nn.init.zeros_(root.weight)
        changed = model(**inputs).arc_scores
        differs = (changed != outputs.arc_scores).any(dim=0)
        assert differs[0, 1:].all() and not differs[1:].any()

    def test_says_which_is_meant(self, options, inputs):
        with pytest.raises(ValueError, match='config.root is "learned"; number them -1'):
            build("t5", **options)(**tree("t5"))
        with pytest.raises(ValueError, match='without ROOT, .* set config.root to "learned"'):
            build("t5")(**inputs)


@MODELS
def test_a_frozen_encoder(model_class, options, tmp_path):
    build("electra", model_class, **options).save_pretrained(tmp_path)
    model = model_class.from_pretrained(tmp_path, freeze_encoder=True).train()
    assert model.training and not model.encoder.training
    model(**INPUTS[model_class]("electra")).loss.backward()
    for name, weight in model.named_parameters():
        assert (weight.grad is None) == (not weight.requires_grad) == name.startswith("encoder."), name


class TestRefusals:
    @pytest.mark.parametrize("model_class", INPUTS)
    def test_attention_without_maps(self, model_class, tmp_path):
        save_classifier("roberta", tmp_path)
        with pytest.raises(ValueError, match="attn_implementation 'flash_attention_2' has no attention maps"):
            model_class.from_pretrained(tmp_path, attn_implementation="flash_attention_2")
        model = model_class.from_pretrained(tmp_path, attn_implementation="sdpa", features="emb")
        assert model.encoder.config._attn_implementation == "sdpa"
        model = model_class.from_pretrained(tmp_path, **SIZES)
        assert model.encoder.config._attn_implementation == "msattn"
        eager = model_class.from_pretrained(tmp_path, **SIZES, attn_implementation="eager")
        assert eager.encoder.config._attn_implementation == "eager"
        model.set_attn_implementation("sdpa")
        with pytest.raises(ValueError, match="the encoder .* attention"):
            model(**INPUTS[model_class]("roberta"))

    @pytest.mark.parametrize(
        "config",
        [
            LongformerConfig(**BERT | {"max_position_embeddings": 60, "attention_window": [4, 4]}),
            FunnelConfig(vocab_size=60, d_model=32, n_head=4, d_head=8, d_inner=48, block_sizes=[1, 1]),
        ],
        ids=lambda config: config.model_type,
    )
    @pytest.mark.parametrize("model_class", INPUTS)
    def test_attention_of_another_shape(self, model_class, config):
        model = model_class(PairwiseConfig(encoder=config, **SIZES)).eval()
        with pytest.raises(ValueError, match=r"must return attention of the shape \(3, 4, 9, 9\), got"):
            model(**INPUTS[model_class]("roberta"))
