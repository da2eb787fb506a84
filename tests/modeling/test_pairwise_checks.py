"""Every check of the other models, for pairwise models with BERT inside."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from transformers import FNetConfig

from msattn import PairwiseConfig, PairwiseForRelationClassification, PairwiseParser, relations_of_arcs
from msattn.modeling import pairwise_scores
from tests.common import TOLERANCE, ClassificationTester, CompiledLikeASibling, ModelTester
from tests.tiny_encoders import tiny_encoder

NO_ARC = -1e4
OWN = {"num_labels", *PairwiseConfig.__dataclass_fields__}


class PairwiseTester(ModelTester):
    def config(self, **changes):
        own = {"num_labels": 3, "arc_size": 10, "relation_size": 6}
        own |= {name: value for name, value in changes.items() if name in OWN}
        encoder = {name: value for name, value in changes.items() if name not in own}
        return PairwiseConfig(encoder=tiny_encoder("bert", **encoder), **own)

    def parts(self, model):
        return [part for part in model.modules() if isinstance(part, pairwise_scores.PairwiseScores)]


class ParserTester(PairwiseTester):
    model_class = PairwiseParser
    result = "arc_scores"
    options: ClassVar[dict[str, Any]] = {}
    #: Of each sentence, the word of each piece and the head and the relation of each word.
    word_index = torch.tensor(
        [[0, 1, 2, 2, 3, 4, 4, 4, 5, 6, -1], [0, 1, 1, 2, -1, *[-1] * 6], [0, 1, 2, 3, 4, 5, 6, -1, *[-1] * 3]]
    )
    heads = torch.tensor([[2, 0, 2, 5, 3, 2], [2, 0, *[-100] * 4], [0, 1, 2, 3, 4, -100]])
    relations = torch.tensor([[0, 1, 2, 0, 1, 2], [1, 2, *[-100] * 4], [2, 1, 0, 2, -100, -100]])
    words = (6, 2, 6)
    test_padding_and_neighbours_change_nothing = None  # as on every family of encoders

    def config(self, **changes):
        return super().config(**{**self.options, **changes})

    def extra_inputs(self, batch, left):
        return {
            "word_index": self.word_index[:batch],
            "heads": self.heads[:batch],
            "relations": self.relations[:batch],
        }

    def loss(self, model, inputs):
        return model(**inputs).loss

    def test_relations_of_chosen_heads(self):
        model = self.build()
        inputs = self.inputs(model.config)
        every = model(**inputs)

        def choose_heads(arc_scores):
            assert torch.equal(arc_scores, every.arc_scores)
            return arc_scores[:, :, 1:].argmax(dim=1)

        expected = relations_of_arcs(every.relation_logits, choose_heads(every.arc_scores))
        for mode in (True, False):  # there is no dropout
            chosen = model.train(mode)(**inputs, choose_heads=choose_heads)
            torch.testing.assert_close(chosen.loss, every.loss)
            for of_words, others, words in zip(chosen.relation_logits, expected, self.words, strict=True):
                torch.testing.assert_close(of_words[:words], others[:words], **TOLERANCE)
        del inputs["heads"], inputs["relations"]
        chosen = model(**inputs, choose_heads=choose_heads)
        assert chosen.loss is None
        for of_words, others, words in zip(chosen.relation_logits, expected, self.words, strict=True):
            torch.testing.assert_close(of_words[:words], others[:words], **TOLERANCE)

    def test_arcs_that_cannot_be(self):
        model = self.build()
        scores = model(**self.inputs(model.config)).arc_scores
        for sentence, words in enumerate(self.words):
            for i in range(7):
                for j in range(7):
                    possible = i <= words and 0 < j <= words and i != j
                    assert (scores[sentence, i, j] != NO_ARC) == possible

    def test_eager_is_sdpa(self):
        eager, sdpa = self.build("eager", features="emb"), self.build("sdpa", features="emb")
        inputs = self.inputs(eager.config)
        self.assert_same(eager, sdpa, inputs)
        assert "attentions" not in sdpa(**inputs, output_attentions=True)
        assert self.build(features="emb").encoder.config._attn_implementation == "sdpa"
        for implementation in ({}, {"implementation": "sdpa"}):
            reader = self.build(features="emb+att", **implementation)
            assert reader.encoder.config._attn_implementation == "msattn"
            self.assert_same(self.build("eager", features="emb+att"), reader, inputs)
        with pytest.raises(ValueError, match="attn_implementation 'flex_attention' has no attention maps, which feat"):
            self.build("flex_attention", features="emb+att")

    def test_long_sentences_in_blocks(self, monkeypatch):
        model = self.build()
        inputs = self.inputs(model.config)
        whole = self.loss(model, inputs)
        gradients = torch.autograd.grad(whole, model.parameters())
        monkeypatch.setitem(pairwise_scores.PAIR_SCORES, "cpu", 1)
        blocks = self.loss(model, inputs)
        torch.testing.assert_close(blocks, whole)
        torch.testing.assert_close(torch.autograd.grad(blocks, model.parameters()), gradients, **TOLERANCE)

    def test_words_without_a_target(self):
        model = self.build()
        inputs = self.inputs(model.config)
        inputs["heads"] = torch.full_like(inputs["heads"], -100)
        assert model(**inputs).loss == 0
        only_root = {name: inputs[name][:, :1] for name in ("input_ids", "attention_mask", "word_index")}
        outputs = model(**only_root)
        assert outputs.arc_scores.tolist() == [[[NO_ARC]]] * 3
        empty = torch.empty(3, 0, dtype=torch.long)
        assert model(**only_root, heads=empty, relations=empty).loss == 0

    def test_wrong_inputs(self):
        model = self.build()
        inputs = self.inputs(model.config)
        with pytest.raises(ValueError, match="heads and relations must be given together"):
            model(**{**inputs, "relations": None})
        for word_index in (None, inputs["word_index"][:, 1:]):
            with pytest.raises(
                ValueError, match=r"word_index must be \(batch, pieces\) \(3, 11\), got (None|\(3, 10)"
            ):
                model(**{**inputs, "word_index": word_index})
        fewer = {name: inputs[name][:, :5] for name in ("heads", "relations")}
        with pytest.raises(ValueError, match="word_index has 6 words, heads 5"):
            model(**{**inputs, **fewer})


class TestParserOfPairs(CompiledLikeASibling, ParserTester):
    @pytest.mark.parametrize("none_weight", [1.0, 0.2])
    def test_loss_from_the_definition(self, none_weight):
        """Each ordered pair of words, and ROOT with each word, has a relation or NONE."""
        model = self.build(none_weight=none_weight)
        inputs = self.inputs(model.config)
        outputs = model(**inputs)
        # The logit of NONE, out of the score of the arc.
        relation = outputs.relation_logits.double().detach().numpy()
        arc = outputs.arc_scores.double().detach().numpy()
        total = weights = 0.0
        for sentence, words in enumerate(self.words):
            for i in range(words + 1):
                for j in range(1, words + 1):
                    head, label = (int(part[sentence, j - 1]) for part in (self.heads, self.relations))
                    if i == j or head < 0 or (i == head and label < 0):
                        continue
                    every = math.log(np.exp(relation[sentence, i, j]).sum())
                    none = every - arc[sentence, i, j]
                    chosen = relation[sentence, i, j, label] if i == head else none
                    weight = 1.0 if i == head else none_weight
                    total += weight * (np.logaddexp(every, none) - chosen)
                    weights += weight
        assert outputs.loss.item() == pytest.approx(total / weights, rel=1e-4)


class TestParserOfHeads(ParserTester):
    options: ClassVar[dict[str, Any]] = {"objective": "head_select"}

    def test_loss_from_the_definition(self):
        model = self.build()
        inputs = self.inputs(model.config)
        outputs = model(**inputs)
        arc_losses, relation_losses = [], []
        for sentence, words in enumerate(self.words):
            for j in range(1, words + 1):
                head, label = (int(part[sentence, j - 1]) for part in (self.heads, self.relations))
                if head >= 0:
                    candidates = [i for i in range(words + 1) if i != j]
                    column = outputs.arc_scores[sentence, candidates, j].log_softmax(dim=0)
                    arc_losses.append(-column[candidates.index(head)])
                if label >= 0:
                    relation_losses.append(-outputs.relation_logits[sentence, head, j].log_softmax(dim=0)[label])
        expected = torch.stack(arc_losses).mean() + torch.stack(relation_losses).mean()
        torch.testing.assert_close(outputs.loss, expected, **TOLERANCE)

    def test_training_scores_the_relations_of_gold_arcs_only(self):
        model = self.build()
        inputs = self.inputs(model.config)
        every = model(**inputs)
        gold = model.train()(**inputs)
        assert gold.relation_logits.shape == (3, 6, 3)
        torch.testing.assert_close(gold.loss, every.loss)
        expected = relations_of_arcs(every.relation_logits, inputs["heads"])
        known = inputs["heads"] >= 0
        torch.testing.assert_close(gold.relation_logits[known], expected[known], **TOLERANCE)


class TestBiaffineParser(CompiledLikeASibling, ParserTester):
    options: ClassVar[dict[str, Any]] = {"objective": "head_select", "scorer": "biaffine"}


class TestPairwiseForRelationClassification(PairwiseTester, ClassificationTester):
    model_class = PairwiseForRelationClassification
    pieces = torch.tensor([[[1, -1, -1], [4, 5, 6]], [[3, -1, -1], [1, 2, -1]], [[2, 3, -1], [6, -1, -1]]])

    def extra_inputs(self, batch, left):
        return {"entity_pieces": self.pieces[:batch]}

    def test_eager_is_sdpa(self):
        eager, sdpa = self.build("eager"), self.build("sdpa")
        assert sdpa.encoder.config._attn_implementation == "msattn"
        inputs = self.inputs(eager.config)
        self.assert_same(eager, sdpa, inputs)
        eager, sdpa = (model(**inputs, output_attentions=True) for model in (eager, sdpa))
        torch.testing.assert_close(sdpa.logits, eager.logits, **TOLERANCE)
        for one, other in zip(sdpa.attentions, eager.attentions, strict=True):
            torch.testing.assert_close(one, other, **TOLERANCE)
        assert self.build("sdpa", features="emb").encoder.config._attn_implementation == "sdpa"

    @pytest.mark.parametrize("pieces", [None, torch.tensor([[1, 4]] * 3), torch.tensor([[[1], [4]]])])
    def test_entity_pieces_of_another_shape(self, pieces):
        model = self.build()
        with pytest.raises(ValueError, match=r"entity_pieces must be of shape \(batch, 2, pieces\) .*, got (None|\()"):
            model(**{**self.inputs(model.config), "entity_pieces": pieces})


def test_an_encoder_without_attention():
    """States alone need none, as docs/encoders.md says."""
    config = FNetConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, intermediate_size=8)
    model = PairwiseParser(PairwiseConfig(encoder=config, features="emb", num_labels=3)).eval()
    ids = torch.arange(5, 10).unsqueeze(0)
    outputs = model(input_ids=ids, word_index=torch.tensor([[0, 1, 2, 3, -1]]))
    assert outputs.arc_scores.shape == (1, 4, 4)
