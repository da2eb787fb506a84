"""The checks that every model class must pass.

A family's tests subclass a tester, name the class in `model_class`, and give `config` and `inputs`:

    class TestMyModel(ModelTester):
        model_class = MyModel

        def config(self, **changes):
            return MyConfig(**{"hidden_size": 32, **changes})
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

TOLERANCE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
#: Sizes of an encoder that is trained from scratch.
SCRATCH: dict[str, Any] = {
    "vocab_size": 60,
    "embedding_size": 24,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "hidden_dropout_prob": 0.0,
    "num_labels": 3,
}


class ModelTester:
    """Any model of this project that reads `input_ids` or `inputs_embeds` under an `attention_mask`."""

    model_class: type[PreTrainedModel]
    #: A method: the smallest configuration that has every part of the model, without dropout, but for `**changes`.
    config: Callable[..., PreTrainedConfig]
    #: What the checks compare: the name of an output, `(batch, ...)`.
    result = "last_hidden_state"
    #: Changes to the configuration without which a rounding error can make a large difference.
    continuous: ClassVar[dict[str, Any]] = {}
    #: Real tokens of the sentences in a batch.
    lengths = (11, 5, 8)

    def inputs(self, config: PreTrainedConfig, lengths: tuple[int, ...] | None = None, left: int = 0) -> dict:
        """A batch with padding on the right, after `left` padded tokens. A sentence is the same in every batch."""
        lengths = lengths or self.lengths
        generator = torch.Generator().manual_seed(0)
        sentences = torch.randint(5, config.vocab_size, (len(lengths), 64), generator=generator)
        tokens = left + max(lengths)
        positions = torch.arange(tokens) - left
        real = (positions >= 0) & (positions < torch.tensor(lengths).unsqueeze(-1))
        input_ids = sentences[:, positions.clamp_min(0)].where(real, torch.tensor(config.pad_token_id or 0))
        return {"input_ids": input_ids, "attention_mask": real.long(), **self.extra_inputs(len(lengths), left)}

    def extra_inputs(self, batch: int, left: int) -> dict:
        return {}

    def labels(self, config: PreTrainedConfig) -> torch.Tensor | None:
        return None

    def build(self, attn_implementation: str | None = None, **changes) -> PreTrainedModel:
        config = self.config(**changes)
        config._attn_implementation = attn_implementation
        torch.manual_seed(0)
        model = self.model_class(config).eval()
        # Far from the tiny weights of a fresh model, every part of it matters.
        for weight in model.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.15)
        return model

    def loss(self, model: PreTrainedModel, inputs: dict) -> torch.Tensor:
        labels = self.labels(model.config)
        if labels is not None:
            return model(**inputs, labels=labels).loss
        real = inputs["attention_mask"].unsqueeze(-1)
        return (model(**inputs)[self.result] * real).square().mean()

    def assert_same(self, one: PreTrainedModel, other: PreTrainedModel, inputs: dict, **tolerance) -> None:
        with torch.no_grad():
            results = [model(**inputs)[self.result] for model in (one, other)]
        torch.testing.assert_close(*results, **tolerance or TOLERANCE)

    def check_gradients(self, model: PreTrainedModel) -> None:
        """`DistributedDataParallel` waits for the gradient of every weight that asks for one."""
        self.loss(model, self.inputs(model.config)).backward()
        for name, weight in model.named_parameters():
            assert (weight.grad is not None) == weight.requires_grad, name
            assert weight.grad is None or weight.grad.isfinite().all(), name

    def check_attentions(self, outputs, config: PreTrainedConfig, batch: int, tokens: int) -> None:
        """For what a family returns beside the attention of its encoder."""

    def test_save_and_load(self, tmp_path):
        model = self.build()
        model.save_pretrained(tmp_path)
        assert (tmp_path / "model.safetensors").is_file()
        loaded, info = self.model_class.from_pretrained(tmp_path, output_loading_info=True)
        assert not any(info.values()), info
        assert not loaded.training
        weights, trainable = (
            loaded.state_dict(),
            {name: weight.requires_grad for name, weight in model.named_parameters()},
        )
        assert list(weights) == list(model.state_dict())
        assert trainable == {name: weight.requires_grad for name, weight in loaded.named_parameters()}
        for name, weight in model.state_dict().items():
            assert torch.equal(weight, weights[name]), name
        # Not bit by bit: the same weights at other memory addresses may change the last bit of an output.
        self.assert_same(model, loaded, self.inputs(model.config))

    def test_load_in_bfloat16(self, tmp_path):
        self.build().save_pretrained(tmp_path)
        model = self.model_class.from_pretrained(tmp_path, dtype=torch.bfloat16)
        assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
        assert model(**self.inputs(model.config))[self.result].dtype == torch.bfloat16

    def test_is_deterministic(self):
        model = self.build(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
        self.assert_same(model, model, self.inputs(model.config), rtol=0, atol=0)
        model.train()
        draws = []
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            draws.append(model(**self.inputs(model.config))[self.result])
        assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])

    def test_every_trainable_weight_gets_a_gradient(self):
        self.check_gradients(self.build().train())

    def test_hidden_states_and_attentions(self):
        model = self.build("eager")
        config, inputs = model.config, self.inputs(model.config)
        batch, tokens = inputs["input_ids"].shape
        plain = model(**inputs)
        assert not {"hidden_states", "attentions", "fusion_attentions"} & set(plain)
        outputs = model(**inputs, output_hidden_states=True, output_attentions=True)
        torch.testing.assert_close(outputs[self.result], plain[self.result])
        assert [tuple(state.shape) for state in outputs.hidden_states] == [(batch, tokens, config.hidden_size)] * (
            config.num_hidden_layers + 1
        )
        shape = (batch, config.num_attention_heads, tokens, tokens)
        assert [tuple(attention.shape) for attention in outputs.attentions] == [shape] * config.num_hidden_layers
        for attention in outputs.attentions:
            assert not (attention * (1 - inputs["attention_mask"])[:, None, None]).any()
        self.check_attentions(outputs, config, batch, tokens)

        config.output_hidden_states = config.output_attentions = True
        again = model(**inputs)
        assert list(again) == list(outputs)

    def test_hidden_states_and_attentions_retain_gradients(self):
        model = self.build("eager")
        outputs = model(**self.inputs(model.config), output_hidden_states=True, output_attentions=True)
        kept = [outputs.hidden_states[0], outputs.attentions[0]]
        kept += [attentions[0] for name, attentions in outputs.items() if name.endswith("_attentions")]
        for tensor in kept:
            tensor.retain_grad()
        outputs[self.result].square().sum().backward()
        for tensor in kept:
            assert tensor.grad is not None and tensor.grad.any()

    def test_tuple_instead_of_dictionary(self):
        model = self.build("eager")
        inputs = self.inputs(model.config)
        options = {"output_hidden_states": True, "output_attentions": True}
        expected = model(**inputs, **options).to_tuple()
        by_argument = model(**inputs, **options, return_dict=False)
        model.config.return_dict = False
        by_config = model(**inputs, **options)
        for found in (by_argument, by_config):
            assert isinstance(found, tuple)
            torch.testing.assert_close(found, expected)

    def test_resize_token_embeddings(self):
        model = self.build()
        inputs, size = self.inputs(model.config), model.config.vocab_size
        before = model(**inputs)[self.result]
        model.resize_token_embeddings(size + 4)
        assert model.config.vocab_size == size + 4 == model.get_input_embeddings().num_embeddings
        torch.testing.assert_close(model(**inputs)[self.result], before)
        inputs["input_ids"][0, 1] = size + 3
        assert not torch.equal(model(**inputs)[self.result][0], before[0])

    def test_embeddings_as_inputs(self):
        model = self.build()
        inputs = self.inputs(model.config)
        expected = model(**inputs)[self.result]
        input_ids = inputs.pop("input_ids")
        embeddings = model.get_input_embeddings()(input_ids)
        torch.testing.assert_close(model(**inputs, inputs_embeds=embeddings)[self.result], expected)
        with pytest.raises(ValueError, match="exactly one of input_ids or inputs_embeds"):
            model(**inputs, input_ids=input_ids, inputs_embeds=embeddings)
        with pytest.raises(ValueError, match="exactly one of input_ids or inputs_embeds"):
            model(**inputs)

    def test_padding_and_neighbours_change_nothing(self):
        model = self.build()
        batch = self.inputs(model.config)
        results = model(**batch)[self.result]
        per_token = results.shape[:2] == batch["input_ids"].shape
        for i, length in enumerate(self.lengths):
            alone = {name: value[i : i + 1] for name, value in batch.items()}
            for name in ("input_ids", "attention_mask"):
                alone[name] = alone[name][:, :length]
            result = model(**alone)[self.result][0]
            torch.testing.assert_close(results[i, :length] if per_token else results[i], result, **TOLERANCE)
            del alone["attention_mask"]
            torch.testing.assert_close(model(**alone)[self.result][0], result, **TOLERANCE)
        noise = dict(batch)
        noise["input_ids"] = batch["input_ids"].where(batch["attention_mask"].bool(), torch.tensor(7))
        found = model(**noise)[self.result]
        if per_token:
            real = batch["attention_mask"].bool()
            results, found = results[real], found[real]
        torch.testing.assert_close(found, results, **TOLERANCE)

    def test_eager_is_sdpa(self):
        eager, sdpa = self.build("eager"), self.build("sdpa")
        inputs = self.inputs(eager.config)
        batch, tokens = inputs["input_ids"].shape
        self.assert_same(eager, sdpa, inputs)
        outputs = sdpa(**inputs, output_attentions=True)
        assert "attentions" not in outputs
        self.check_attentions(outputs, sdpa.config, batch, tokens)
        assert self.model_class._supports_sdpa and self.model_class._supports_flash_attn

    def test_gradient_checkpointing(self):
        dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
        plain, checkpointed = self.build(**dropout).train(), self.build(**dropout).train()
        checkpointed.gradient_checkpointing_enable()
        assert any(getattr(module, "gradient_checkpointing", False) for module in checkpointed.modules())
        losses = []
        for model in (plain, checkpointed):
            torch.manual_seed(1)
            losses.append(self.loss(model, self.inputs(model.config)))
            losses[-1].backward()
        torch.testing.assert_close(*losses)
        for (name, one), other in zip(plain.named_parameters(), checkpointed.parameters(), strict=True):
            if one.requires_grad:
                torch.testing.assert_close(one.grad, other.grad, msg=lambda text, name=name: f"{name}: {text}")

    def test_export(self):
        model = self.build()
        inputs = self.inputs(model.config)
        program = torch.export.export(model, args=(), kwargs=inputs, strict=False)
        torch.testing.assert_close(program.module()(**inputs)[self.result], model(**inputs)[self.result], **TOLERANCE)

    @pytest.mark.parametrize("autocast", [False, True])
    def test_bfloat16(self, autocast):
        model = self.build(**self.continuous)
        inputs = self.inputs(model.config)
        exact = model(**inputs)[self.result]
        if not autocast:
            model = model.to(torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            result = model(**inputs)[self.result]
            self.loss(model, inputs).backward()
        assert (result - exact).abs().mean() < 0.1 * exact.std()
        assert all(weight.grad.isfinite().all() for weight in model.parameters() if weight.requires_grad)

    @pytest.mark.heavy
    def test_compiles_to_one_graph(self):
        model = self.build(num_hidden_layers=1)
        inputs = self.inputs(model.config)
        # Captures forward and backward as any backend does; what a backend makes of the graphs is its own affair.
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        results = []
        for call in (model, compiled):
            model.zero_grad()
            loss = self.loss(call, inputs)
            loss.backward()
            results.append([loss, *(weight.grad for weight in model.parameters() if weight.requires_grad)])
        torch.testing.assert_close(*results, **TOLERANCE)

    def test_fresh_weights(self):
        model = self.model_class(self.config(initializer_range=0.05))
        for name, weight in model.named_parameters():
            assert_fresh(name, weight, 0.05)


class CompiledLikeASibling(ModelTester):
    """A [`ModelTester`] for models whose graphs are a sibling's but for their last layers."""

    @pytest.mark.slow
    def test_compiles_to_one_graph(self):
        super().test_compiles_to_one_graph()

    @pytest.mark.slow
    def test_export(self):
        super().test_export()


class TaggingTester(ModelTester):
    """A [`ModelTester`] for models with one row of `logits` a token."""

    result = "logits"

    def labels(self, config: PreTrainedConfig) -> torch.Tensor:
        labels = torch.arange(33).view(3, 11) % config.num_labels
        return labels.where(torch.arange(11) < torch.tensor(self.lengths).unsqueeze(-1), -100)


class ClassificationTester(ModelTester):
    """A [`ModelTester`] for models with one row of `logits` a sentence."""

    result = "logits"

    def labels(self, config: PreTrainedConfig) -> torch.Tensor:
        batch, classes = len(self.lengths), config.num_labels
        if config.problem_type == "regression":
            return torch.linspace(0, 1, batch * classes).view(batch, classes).squeeze(-1)
        if config.problem_type == "multi_label_classification":
            return (torch.arange(batch * classes).view(batch, classes) % 2).float()
        return torch.arange(batch) % classes

    @pytest.mark.parametrize(
        ("problem_type", "num_labels", "criterion"),
        [
            ("regression", 1, nn.MSELoss()),
            ("single_label_classification", 2, nn.CrossEntropyLoss()),
            ("multi_label_classification", 4, nn.BCEWithLogitsLoss()),
        ],
    )
    @pytest.mark.parametrize("stated", [True, False])
    def test_problem_types(self, problem_type, num_labels, criterion, stated):
        """`config.problem_type`, or what the number and type of the labels say."""
        model = self.build(num_labels=num_labels, problem_type=problem_type)
        inputs, labels = self.inputs(model.config), self.labels(model.config)
        if not stated:
            model.config.problem_type = None
        outputs = model(**inputs, labels=labels)
        assert outputs.logits.shape == (len(self.lengths), num_labels)
        torch.testing.assert_close(outputs.loss, criterion(outputs.logits.squeeze(-1), labels))


def assert_fresh(name: str, weight: torch.Tensor, initializer_range: float) -> None:
    """Is the weight as Transformers initialises it?"""
    if weight.dim() > 1:
        count = weight.numel()
        assert weight.mean().abs() < 4 * initializer_range / count**0.5, name
        assert abs(weight.std() / initializer_range - 1) < 4 / (2 * count) ** 0.5 + 0.01, name
    else:
        norm_weight = name.lower().endswith("norm.weight")
        assert torch.equal(weight, torch.full_like(weight, float(norm_weight))), name
