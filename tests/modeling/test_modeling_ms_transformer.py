from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.export import Dim
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    pipeline,
)

from msattn import (
    MSTransformerConfig,
    MSTransformerForSequenceClassification,
    MSTransformerForTokenClassification,
    MSTransformerModel,
    scale_aware_attention,
)
from msattn.modeling.crf import crf_loss
from msattn.modeling.modeling_ms_transformer import classification_node, layer_windows, sinusoids, split_pairs
from tests.common import (
    TOLERANCE,
    ClassificationTester,
    ModelTester,
    assert_fresh,
    assert_load_without_msattn,
)
from tests.tiny_models import tiny_tokenizer


def padded_batch(size, tokens):
    """Sentences of all lengths from a half to the whole."""
    lengths = torch.linspace(tokens // 2, tokens, size).long()[:, None]
    numbers = torch.arange(size * tokens).view(size, tokens)
    return {"input_ids": numbers % 60, "attention_mask": torch.arange(tokens) < lengths}


class MSTransformerTester(ModelTester):
    def config(self, **changes):
        sizes = {
            "vocab_size": 60,
            "embedding_size": 24,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "scales": (1, "N/4", None),
            "hidden_dropout_prob": 0.0,
            "num_labels": 3,
        }
        return MSTransformerConfig(**{**sizes, **changes})

    def test_eager_is_sdpa(self):
        """Both return attentions when asked."""
        eager, sdpa = self.build("eager"), self.build("sdpa")
        inputs = self.inputs(eager.config)
        self.assert_same(eager, sdpa, inputs)
        outputs = [model(**inputs, output_attentions=True) for model in (eager, sdpa)]
        torch.testing.assert_close(outputs[0].attentions, outputs[1].attentions)
        torch.testing.assert_close(outputs[1][self.result], sdpa(**inputs)[self.result], **TOLERANCE)

    @pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
    def test_flex_attention_is_sdpa(self):
        flex, sdpa = self.build("flex_attention"), self.build("sdpa")
        self.assert_same(flex, sdpa, self.inputs(flex.config))

    @pytest.mark.parametrize("positions", [None, "sinusoidal", "learned"])
    def test_left_padding_changes_nothing(self, positions):
        model = self.build(position_embeddings=positions, cls_global=True)
        right = model(**self.inputs(model.config, (6, 6)))[self.result]
        left = model(**self.inputs(model.config, (6, 6), left=4))[self.result]
        torch.testing.assert_close(left[:, 4:] if left.shape[1] == 10 else left, right, **TOLERANCE)

    @pytest.mark.parametrize("implementation", ["eager", "sdpa"])
    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_every_option_learns(self, norm, implementation):
        model = self.build(
            implementation,
            norm=norm,
            position_embeddings="learned",
            intermediate_size=20,
            cls_global=True,
            window="full",
            attention_probs_dropout_prob=0.1,
        )
        self.check_gradients(model.train())


class TestMSTransformerModel(MSTransformerTester):
    model_class = MSTransformerModel

    def states(self, model: MSTransformerModel, words: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(inputs_embeds=words).last_hidden_state

    def words(self, tokens: int) -> torch.Tensor:
        return torch.randn(2, tokens, 24, generator=torch.Generator().manual_seed(1))

    def test_layers_are_the_formula(self):
        """H <- LayerNorm(H + ReLU(MSMSA(H)))"""
        model = self.build(scales=(1, 3), alpha=1.0, embedding_size=None)
        inputs = self.inputs(model.config)
        states = model.get_input_embeddings()(inputs["input_ids"])
        for layer, windows in zip(model.layers, ([1, 1, 1, 3], [1, 1, 3, 3]), strict=True):
            parts = [
                projection(states).view(3, 11, 4, 8).transpose(1, 2)
                for projection in (layer.attention.query, layer.attention.key, layer.attention.value)
            ]
            heads = scale_aware_attention(*parts, windows, inputs["attention_mask"], method="materialized")
            attended = layer.attention.output(heads.transpose(1, 2).reshape(3, 11, 32))
            states = nn.functional.layer_norm(states + attended.relu(), (32,))
        real = inputs["attention_mask"].bool()
        torch.testing.assert_close(model(**inputs).last_hidden_state[real], states[real], **TOLERANCE)

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_plain_transformer_is_torchs(self, norm):
        model = self.build(
            scales=[None], position_embeddings="sinusoidal", intermediate_size=48, embedding_size=None, norm=norm
        )
        torchs = nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0, batch_first=True, norm_first=norm == "pre")
        inputs = self.inputs(model.config)
        states = model.embeddings(inputs["input_ids"], None, inputs["attention_mask"])
        for layer in model.layers:
            names = ("query", "key", "value")
            projections = [getattr(layer.attention, name).state_dict() for name in names]
            torchs.load_state_dict(
                {
                    "self_attn.in_proj_weight": torch.cat([part["weight"] for part in projections]),
                    "self_attn.in_proj_bias": torch.cat([part["bias"] for part in projections]),
                    "self_attn.out_proj.weight": layer.attention.output.weight,
                    "self_attn.out_proj.bias": layer.attention.output.bias,
                    "linear1.weight": layer.feed_forward.dense.weight,
                    "linear1.bias": layer.feed_forward.dense.bias,
                    "linear2.weight": layer.feed_forward.output.weight,
                    "linear2.bias": layer.feed_forward.output.bias,
                    "norm1.weight": layer.attention_norm.weight,
                    "norm1.bias": layer.attention_norm.bias,
                    "norm2.weight": layer.feed_forward_norm.weight,
                    "norm2.bias": layer.feed_forward_norm.bias,
                }
            )
            states = torchs(states, src_key_padding_mask=inputs["attention_mask"] == 0)
        states = model.final_norm(states)
        real = inputs["attention_mask"].bool()
        torch.testing.assert_close(model(**inputs).last_hidden_state[real], states[real], **TOLERANCE)

    def test_words_and_waves_are_of_like_size(self):
        model = self.build(position_embeddings="sinusoidal", embedding_size=None)
        inputs = self.inputs(model.config, (6,))
        words = model.get_input_embeddings()(inputs["input_ids"])
        expected = words * 32**0.5 + sinusoids(torch.arange(6), 32)
        torch.testing.assert_close(model.embeddings(None, words, inputs["attention_mask"]), expected)

    def test_reversed_words_give_reversed_states(self):
        model, words = self.build(), self.words(21)
        states = self.states(model, words)
        torch.testing.assert_close(self.states(model, words.flip(1)), states.flip(1), **TOLERANCE)
        model = self.build(position_embeddings="sinusoidal")
        states = self.states(model, words)
        assert (self.states(model, words.flip(1)) - states.flip(1)).abs().max() > 0.1

    def test_without_bounds_order_does_not_matter(self):
        words, order = self.words(21), torch.randperm(21, generator=torch.Generator().manual_seed(2))
        for scales, same in (((None,), True), ((3,), False)):
            model = self.build(scales=scales)
            difference = self.states(model, words[:, order]) - self.states(model, words)[:, order]
            assert (difference.abs().max() < 1e-4) == same

    @pytest.mark.parametrize(
        ("scales", "window", "reach"),
        [((3,), "half", 3), ((1, 2), "half", 2), ((7,), "full", 3), (("N/16",), "half", 18), ((1,), "full", 0)],
    )
    def test_a_token_is_seen_as_far_as_the_windows_reach(self, scales, window, reach):
        """L layers of half-width w: no further than L * w, and that far."""
        model, words = self.build(scales=scales, window=window), self.words(300)
        changed = words.clone()
        changed[:, 150] += 1
        moved = (self.states(model, changed) != self.states(model, words)).any(dim=-1)
        assert torch.equal(moved[0].nonzero().flatten(), torch.arange(150 - 2 * reach, 150 + 2 * reach + 1))

    def test_first_token_may_see_everything(self):
        words = self.words(40)
        changed = words.clone()
        changed[:, 30] += 1
        for cls_global, implementation in ((False, "sdpa"), (True, "sdpa"), (True, "eager")):
            model = self.build(implementation, scales=(1,), cls_global=cls_global)
            moved = (self.states(model, changed) != self.states(model, words)).any(dim=-1)[0]
            expected = torch.arange(40).sub(30).abs() <= 2
            expected[0] = cls_global
            expected[1] |= cls_global  # of the first token's state after one layer
            assert torch.equal(moved, expected)

    def test_windows_are_those_of_each_sentence(self):
        config = MSTransformerConfig(num_hidden_layers=1, num_attention_heads=5)
        mask = (torch.arange(100) < torch.tensor([[100], [19], [1]])).long()
        assert layer_windows(config, mask)[0].tolist() == [[1, 3, 6, 12, 25], [1, 3, 1, 2, 4], [1, 3, 1, 1, 1]]
        config = MSTransformerConfig(num_hidden_layers=1, num_attention_heads=5, window="full")
        assert layer_windows(config, mask)[0].tolist() == [[0, 1, 2, 5, 12], [0, 1, 0, 0, 1], [0, 1, 0, 0, 0]]
        config = MSTransformerConfig(num_hidden_layers=2, num_attention_heads=3, scales=(3, None, "N/4"), alpha=9.0)
        low, high = layer_windows(config, mask)
        assert low == [3, 3, 3]
        assert high.tolist() == [[3, 100, 25], [3, 100, 4], [3, 100, 1]]

    def test_too_many_tokens_for_learned_positions(self):
        model = self.build(position_embeddings="learned", max_position_embeddings=10)
        with pytest.raises(ValueError, match="11 tokens are more than the 10 learned positions"):
            model(**self.inputs(model.config))

    def test_attention_mask_of_another_shape(self):
        model = self.build()
        inputs = self.inputs(model.config)
        inputs["attention_mask"] = inputs["attention_mask"][:, None, None]
        with pytest.raises(ValueError, match=r"must be \(batch, tokens\) = \(3, 11\), got \(3, 1, 1, 11\)"):
            model(**inputs)

    @pytest.mark.parametrize("scales", [(3,), (1, "N/4")])
    def test_exported_program_takes_all_lengths(self, scales):
        model = self.build(scales=scales, num_hidden_layers=1)
        axes = {0: Dim("batch"), 1: Dim("tokens", min=4, max=400)}
        shapes = dict.fromkeys(("input_ids", "attention_mask"), axes)
        program = torch.export.export(model, (), padded_batch(2, 40), dynamic_shapes=shapes, strict=False).module()
        for tokens in (7, 60, 300):
            inputs = padded_batch(3, tokens)
            states = program(**inputs).last_hidden_state
            torch.testing.assert_close(states, model(**inputs).last_hidden_state, **TOLERANCE)

    @pytest.mark.parametrize("scales", [(3,), (1, "N/4")])
    def test_compiles_for_all_lengths(self, scales):
        model = self.build(scales=scales, num_hidden_layers=1)
        torch.compiler.reset()
        graphs = CompileCounter()
        compiled = torch.compile(model, fullgraph=True, backend=graphs)
        for tokens in (20, 30, 47, 90, 160, 301):
            inputs = padded_batch(2, tokens)
            states = compiled(**inputs).last_hidden_state
            torch.testing.assert_close(states, model(**inputs).last_hidden_state, **TOLERANCE)
        assert graphs.frame_count <= 4


class TestMSTransformerForSequenceClassification(MSTransformerTester, ClassificationTester):
    model_class = MSTransformerForSequenceClassification

    def test_reads_the_node(self):
        model = self.build()
        inputs = self.inputs(model.config)
        states = model.ms_transformer(**inputs).last_hidden_state
        nodes = [torch.cat([states[i, 0], states[i, 1:n].amax(dim=0)]) for i, n in enumerate(self.lengths)]
        expected = model.classifier(model.dense(torch.stack(nodes)).relu())
        torch.testing.assert_close(model(**inputs).logits, expected)

    def test_dropout_of_the_classifier(self):
        assert self.build(hidden_dropout_prob=0.3).dropout.p == 0.3
        assert self.build(hidden_dropout_prob=0.3, classifier_dropout=0.0).dropout.p == 0.0

    def test_one_batch_learned_by_heart(self):
        model = self.build().train()
        inputs = self.inputs(model.config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for _ in range(30):
            loss = self.loss(model, inputs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert loss < 0.05


class TestMSTransformerForTokenClassification(MSTransformerTester):
    model_class = MSTransformerForTokenClassification
    result = "logits"

    def labels(self, config):
        labels = torch.arange(33).view(3, 11) % config.num_labels
        return labels.where(torch.arange(11) < torch.tensor(self.lengths).unsqueeze(-1), -100)

    def test_loss_is_a_mean_over_tags(self):
        model = self.build()
        inputs, labels = self.inputs(model.config), self.labels(model.config)
        outputs = model(**inputs, labels=labels)
        expected = nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), reduction="sum")
        torch.testing.assert_close(outputs.loss, expected / 24)
        torch.testing.assert_close(model(**inputs, labels=labels, num_items_in_batch=48).loss, expected / 48)

    def test_reads_each_token(self):
        model = self.build()
        inputs = self.inputs(model.config)
        states = model.ms_transformer(**inputs).last_hidden_state
        torch.testing.assert_close(model(**inputs).logits, model.classifier(states))


class TestTaggerWithCRF(MSTransformerTester):
    model_class = MSTransformerForTokenClassification
    result = "logits"
    labels = TestMSTransformerForTokenClassification.labels

    def config(self, **changes):
        return super().config(crf=True, **changes)

    def test_loss_is_a_mean_over_tags(self):
        model = self.build()
        inputs, labels = self.inputs(model.config), self.labels(model.config)
        scores = model.classifier(model.ms_transformer(**inputs).last_hidden_state)
        expected = crf_loss(model.crf, scores, labels, inputs["attention_mask"]).sum()
        torch.testing.assert_close(model(**inputs, labels=labels).loss, expected / 24)
        torch.testing.assert_close(model(**inputs, labels=labels, num_items_in_batch=48).loss, expected / 48)

    def test_largest_logits_are_the_best_sequence(self):
        model = self.build()
        inputs = self.inputs(model.config)
        scores = model.train()(**inputs).logits
        best = model.crf.decode(scores, inputs["attention_mask"].bool())
        predicted = model.eval()(**inputs).logits.argmax(-1)
        assert [predicted[row, : len(tags)].tolist() for row, tags in enumerate(best)] == best
        assert not torch.equal(predicted, scores.argmax(-1))

    def test_learns_what_single_tokens_do_not_say(self):
        """The tag of a word changes each time that the word comes again."""
        model = self.build(num_labels=2, scales=(1,), num_hidden_layers=1).train()
        words = torch.full((1, 12), 7)
        tags = torch.arange(12).unsqueeze(0) % 2
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(60):
            optimizer.zero_grad()
            model(words, labels=tags).loss.backward()
            optimizer.step()
        assert torch.equal(model.eval()(words).logits.argmax(-1), tags)

    def test_a_checkpoint_without_crf_gets_a_fresh_one(self, tmp_path):
        plain = TestMSTransformerForTokenClassification().build()
        plain.save_pretrained(tmp_path)
        model = self.model_class.from_pretrained(tmp_path, crf=True)
        assert torch.equal(model.classifier.weight, plain.classifier.weight)
        for name, weight in model.crf.named_parameters():
            assert_fresh(name, weight, model.config.initializer_range)

    def test_compiles_to_one_graph(self):
        """But for the field, around which all lengths share what is compiled."""
        model = self.build(num_hidden_layers=1)
        torch.compiler.reset()
        graphs = CompileCounter()
        compiled = torch.compile(model, backend=graphs)
        for tokens in range(20, 32):
            inputs = padded_batch(2, tokens)
            outputs, expected = (
                reader(**inputs, labels=torch.ones(2, tokens, dtype=torch.long)) for reader in (compiled, model)
            )
            torch.testing.assert_close(outputs.loss, expected.loss, **TOLERANCE)
            torch.testing.assert_close(outputs.logits, expected.logits, **TOLERANCE)
        assert graphs.frame_count <= 8


class TestSentencePairs:
    build = TestMSTransformerForSequenceClassification().build

    def encoded(self, pairs: list[tuple[str, str]]) -> dict[str, torch.Tensor]:
        return dict(tiny_tokenizer()(*map(list, zip(*pairs, strict=True)), padding=True, return_tensors="pt"))

    def test_each_sentence_is_read_on_its_own(self):
        model = self.build(sentence_pairs=True)
        batch = self.encoded([("the author of a book", "dog"), ("a", "the author wrote the book .")])
        logits = model(**batch).logits
        for i, (first, second) in enumerate(zip(*self.sentences(batch), strict=True)):
            u, v = (
                classification_node(model.ms_transformer(ids.unsqueeze(0)).last_hidden_state)
                for ids in (first, second)
            )
            expected = model.classifier(model.dense(torch.cat([u, v, (u - v).abs(), u * v], dim=-1)).relu())
            torch.testing.assert_close(logits[i : i + 1], expected, **TOLERANCE)
        vectors = model.get_input_embeddings()(batch.pop("input_ids"))
        torch.testing.assert_close(model(**batch, inputs_embeds=vectors).logits, logits)

    def sentences(self, batch) -> list[list[torch.Tensor]]:
        real, types = batch["attention_mask"].bool(), batch["token_type_ids"]
        types = torch.cat([torch.full_like(types[:, :1], -1), types[:, 1:]], dim=1)  # [CLS] stands before both
        return [
            [
                ids[mask & ((of == side) | (of == -1))]
                for ids, mask, of in zip(batch["input_ids"], real, types, strict=True)
            ]
            for side in (0, 1)
        ]

    def test_split(self):
        input_ids = torch.tensor([[2, 7, 3, 8, 9], [2, 6, 5, 3, 0]])
        mask, types = torch.tensor([[1] * 5, [1, 1, 1, 1, 0]]), torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 1, 0]])
        ids, _, real = split_pairs(input_ids, None, mask, types)
        assert (ids * real).tolist() == [[2, 7, 3, 0], [2, 8, 9, 0], [2, 0, 0, 0], [2, 6, 5, 3]]
        assert real.tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]]

    def test_padding_and_neighbours_change_nothing(self):
        model = self.build(sentence_pairs=True)
        pairs = [("the author of a book", "dog"), ("a", "the author wrote the book ."), ("", "")]
        together = model(**self.encoded(pairs)).logits
        alone = torch.cat([model(**self.encoded([pair])).logits for pair in pairs])
        torch.testing.assert_close(together, alone, **TOLERANCE)

    def test_compiles_and_exports(self):
        model = self.build(sentence_pairs=True)
        batch = self.encoded([("the author of a book", "dog"), ("a", "the author wrote the book .")])
        expected = model(**batch).logits
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(**batch).logits, expected, **TOLERANCE)
        program = torch.export.export(model, args=(), kwargs=batch, strict=False)
        torch.testing.assert_close(program.module()(**batch).logits, expected, **TOLERANCE)

    def test_without_token_types(self):
        model = self.build(sentence_pairs=True)
        with pytest.raises(ValueError, match="sentence_pairs=True needs token_type_ids, 0 in the first"):
            model(input_ids=torch.ones(1, 4, dtype=torch.long))

    def test_trainer_collator_and_pipeline(self, tmp_path):
        """Pairs in the form that a tokenizer gives them reach the model through all of these."""
        tokenizer = tiny_tokenizer()
        model = self.build(sentence_pairs=True, num_labels=2)
        texts = [("the author", "the book of a"), ("a dog in the house", "cat"), ("taxi", "a")]
        rows = [{**tokenizer(*pair), "labels": i % 2} for i, pair in enumerate(texts)]
        arguments = TrainingArguments(tmp_path, max_steps=2, per_device_train_batch_size=3, report_to=[], use_cpu=True)
        trainer = Trainer(model, arguments, DataCollatorWithPadding(tokenizer), train_dataset=rows, eval_dataset=rows)
        trainer.train()
        logits = torch.tensor(trainer.predict(rows).predictions)
        classifier = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
        for pair, expected in zip(texts, logits.softmax(-1), strict=True):
            found = classifier([{"text": pair[0], "text_pair": pair[1]}], top_k=None)[0]
            scores = {row["label"]: row["score"] for row in found}
            torch.testing.assert_close(torch.tensor([scores["LABEL_0"], scores["LABEL_1"]]), expected, **TOLERANCE)


def test_node_reads_real_tokens_only():
    states = torch.arange(20.0).view(2, 5, 2) - 30
    mask = torch.tensor([[0, 1, 1, 1, 0], [0, 0, 1, 0, 0]])
    assert classification_node(states, mask).tolist() == [[-28, -27, -24, -23], [-16, -15, 0, 0]]
    assert not classification_node(states, torch.zeros(2, 5)).any()


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoids(width):
    found = sinusoids(torch.tensor([[0, 3]]), width)
    assert found.shape == (1, 2, width)
    half = (width + 1) // 2
    for i in range(half):
        angle = torch.tensor(3 / 10000 ** (2 * i / width))
        torch.testing.assert_close(found[0, 1, i], angle.sin())
        if half + i < width:
            torch.testing.assert_close(found[0, :, half + i], torch.stack([torch.tensor(1.0), angle.cos()]))


AUTO_CLASSES = [
    (AutoModel, MSTransformerModel),
    (AutoModelForSequenceClassification, MSTransformerForSequenceClassification),
    (AutoModelForTokenClassification, MSTransformerForTokenClassification),
]


@pytest.mark.parametrize(("auto_class", "model_class"), AUTO_CLASSES)
def test_auto_classes_build_and_load(auto_class, model_class, tmp_path):
    built = auto_class.from_config(TestMSTransformerModel().config())
    assert type(built) is model_class
    built.save_pretrained(tmp_path)
    assert type(auto_class.from_pretrained(tmp_path)) is model_class


def test_checkpoints_load_without_msattn(tmp_path):
    testers = TestMSTransformerForSequenceClassification(), TestMSTransformerForTokenClassification()
    models = [tester.build(norm="pre", intermediate_size=8) for tester in testers]
    assert_load_without_msattn([*models, TestTaggerWithCRF().build()], tmp_path)
