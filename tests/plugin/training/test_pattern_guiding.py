from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from datasets import Dataset
from torch import nn
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    MegatronBertConfig,
    MegatronBertForSequenceClassification,
)

from msattn import GuidedTrainer, GuidingArguments, UserError
from msattn.data.files.conllu_lines import conllu_lines, with_tree
from msattn.data.inputs.sentence_inputs import encode_sentences
from msattn.guiding.pattern_sources import PATTERNS, PatternCollator, word_sources
from msattn.modeling.attention_patterns import pattern_loss
from tests.plugin.training.guided_runs import logged, moves, one_step
from tests.tiny_encoders import BERT, tiny_encoder
from tests.tiny_models import tiny_tokenizer

SENTENCES = ["The unpayer wrote a book.", "a dog in a house.", "the cat", "the author wrote a book in the house"]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def data(tokenizer) -> Dataset:
    rows = Dataset.from_dict({"sentence": SENTENCES, "label": [0, 1, 0, 1]})
    return encode_sentences(rows, tokenizer, ["sentence"], words=True)[0]


def build(tokenizer, family="bert", attention=None, **changes):
    config = tiny_encoder(family, vocab_size=len(tokenizer), initializer_range=0.3, **changes)
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_config(config, attn_implementation=attention)


def trainer_of(tokenizer, data, folder, guiding, model=None, **args) -> GuidedTrainer:
    return GuidedTrainer(
        build(tokenizer) if model is None else model,
        one_step(folder, lr_scheduler_type="constant", **args),
        train_dataset=data,
        eval_dataset=data.remove_columns(["words", "word_ids"]),
        processing_class=tokenizer,
        guiding=guiding,
    )


def expected(model, tokenizer, data, guiding, layers, heads) -> torch.Tensor:
    """The term of one batch with all examples."""
    patterns, embeddings = guiding.patterns, model.get_input_embeddings().weight.detach()
    sources = word_sources(patterns, data, tokenizer, embeddings, guiding.dependency_files)
    collator = PatternCollator(DataCollatorWithPadding(tokenizer), tokenizer, patterns, sources)
    inputs = dict(collator([{**example} for example in data]))
    targets = inputs.pop("pattern_targets")
    total = torch.zeros(())
    attentions = model(**inputs, output_attentions=True).attentions
    for layer in layers:
        for number, pattern in enumerate(patterns):
            maps = attentions[layer][:, number * heads : (number + 1) * heads]
            total = total + pattern_loss(maps, targets.get(pattern, pattern), inputs["attention_mask"])
    return total


@pytest.mark.parametrize(("size", "accumulated"), [(4, 1), (3, 2)])
@pytest.mark.parametrize(
    ("patterns", "layers", "heads"), [(list(PATTERNS[:4]), None, 1), (list(PATTERNS[4:]), [-1], 1), (["pmi"], None, 2)]
)
def test_the_term_and_its_gradient(patterns, layers, heads, size, accumulated, tokenizer, data, tmp_path):
    """One step of the Trainer, in one batch or in several that differ in size, is a step down the weighted sum."""
    trees = tmp_path / "trees.conllu"  # each word depends on the one before
    words = [words for (words,) in data["words"]]
    trees.write_text("".join(with_tree(conllu_lines(each), range(len(each)), each) for each in words))
    files = [str(trees)] if "dependency" in patterns else None
    guiding = GuidingArguments(patterns=patterns, pattern_weight=2.0, guided_layers=layers, dependency_files=files)
    model = build(tokenizer, attention="eager")
    term = expected(model, tokenizer, data, guiding, layers or range(2), heads)
    collator = DataCollatorWithPadding(tokenizer)
    task = model(**collator([{**row} for row in data.remove_columns(["words", "word_ids"])])).loss
    (task + 2.0 * term).backward()

    args = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulated}
    trainer = trainer_of(tokenizer, data, tmp_path, guiding, **args)
    gradients = moves(trainer)
    for name, weight in model.named_parameters():
        expected_gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
        torch.testing.assert_close(gradients[name], expected_gradient, rtol=1e-3, atol=1e-3)
    (line,) = logged(trainer)
    assert line["pattern_loss"] == pytest.approx(term.item(), rel=1e-4)
    assert line["task_loss"] == pytest.approx(task.item(), rel=1e-4)
    assert line["loss"] == pytest.approx((task + 2 * term).item(), rel=1e-3)


def test_word_similarity_stays_that_of_the_start(tokenizer, data, tmp_path):
    """As it has to where a training is resumed."""
    trainer = trainer_of(tokenizer, data, tmp_path, GuidingArguments(patterns=["wordsim"], pattern_weight=1.0))
    before, after = [], []
    for targets in (before, after):
        # In the order of the sampler, whose seed is fixed.
        targets += [batch["pattern_targets"]["wordsim"] for batch in trainer.get_train_dataloader()]
        torch.nn.init.normal_(trainer.model.get_input_embeddings().weight)
    assert len(before) == 1 and torch.equal(before[0], after[0]) and before[0].any()


def test_training_needs_no_maps_and_nothing_after(tokenizer, data, tmp_path):
    guiding = GuidingArguments(patterns=["next", "pmi"], pattern_weight=10.0, mdg_weight=0.1)
    trainer = trainer_of(tokenizer, data, tmp_path, guiding, max_steps=30)
    seen = set()
    hook = trainer.model.register_forward_pre_hook(lambda model, _: seen.add(model.config._attn_implementation))
    trainer.train()
    hook.remove()
    assert seen == {"received"} and trainer.model.config._attn_implementation == "sdpa"
    lines = logged(trainer)
    assert set(lines[0]) >= {"task_loss", "mdg_loss", "pattern_loss"}
    assert lines[-1]["pattern_loss"] < lines[0]["pattern_loss"]
    assert "eval_loss" in trainer.evaluate()


def test_a_model_that_the_trainer_makes(tokenizer, data, tmp_path):
    guiding, args = GuidingArguments(patterns=["period"], pattern_weight=1.0), one_step(tmp_path)
    options = {"model_init": lambda: build(tokenizer), "processing_class": tokenizer}
    trainer = GuidedTrainer(args=args, train_dataset=data, guiding=guiding, **options)
    trainer.train()
    assert "pattern_loss" in logged(trainer)[0]


def test_a_model_outside_the_attention_interface(tokenizer, data, tmp_path):
    model = build(tokenizer, "deberta-v2", "eager")
    trainer = trainer_of(tokenizer, data, tmp_path, GuidingArguments(patterns=["prev"], pattern_weight=1.0), model)
    trainer.train()
    assert trainer.state.log_history[0]["pattern_loss"] > 0


def test_patterns_of_maps_see_special_tokens(tokenizer, data, tmp_path):
    losses = []
    for tokens in ("all", "words"):  # which MDG and PDG compare
        options = {"pattern_weight": 1.0, "guiding_kwargs": {"guiding_tokens": tokens}}
        torch.manual_seed(0)
        model = MegatronBertForSequenceClassification(MegatronBertConfig(**{**BERT, "vocab_size": len(tokenizer)}))
        guiding = GuidingArguments(patterns=["delim", "first"], **options)
        (trainer := trainer_of(tokenizer, data, tmp_path, guiding, model)).train()
        losses.append(logged(trainer)[0]["pattern_loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_a_model_in_a_plain_module(tokenizer, data, tmp_path):
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = build(tokenizer)

        def forward(self, input_ids, attention_mask, labels):
            return self.inner(input_ids=input_ids, attention_mask=attention_mask, labels=labels)

    guiding = GuidingArguments(patterns=["pmi", "wordsim"], pattern_weight=1.0)
    trainer = trainer_of(tokenizer, data, tmp_path, guiding, Plain())
    trainer.train()
    assert logged(trainer)[0]["pattern_loss"] > 0


def test_patterns_are_those_before_dropout(tokenizer, data, tmp_path):
    guiding = GuidingArguments(patterns=["next", "pmi"], pattern_weight=1.0, guiding_kwargs={"pattern_heads": [1]})
    terms = []
    for dropout in (0.0, 0.5):
        model = build(tokenizer, attention_probs_dropout_prob=dropout)
        trainer = trainer_of(tokenizer, data, tmp_path, replace(guiding, guided_layers=[0]), model)
        trainer.train()
        terms.append(trainer.state.log_history[0]["pattern_loss"])
    assert terms[0] == pytest.approx(terms[1], rel=1e-4)


def test_a_pattern_that_finds_nothing_warns(tokenizer, data, tmp_path, caplog):
    none = data.filter(lambda row: "." not in row["words"][0])
    guiding = GuidingArguments(
        patterns=["period", "delim", "pmi"],
        pattern_weight=1.0,
        guiding_kwargs={"pattern_heads": [1]},
    )
    for rows, warned in ((none, True), (data, False)):
        caplog.clear()
        trainer = trainer_of(tokenizer, rows, tmp_path, guiding)
        with caplog.at_level("WARNING"):
            trainer.get_train_dataloader()
        assert ("the pattern period finds nothing in the training data" in caplog.text) == warned
        assert "delim finds" not in caplog.text


def test_a_pattern_without_targets_is_refused(tokenizer, data, tmp_path):
    guiding = GuidingArguments(patterns=["next", "pmi"], pattern_weight=1.0)
    trainer = trainer_of(tokenizer, data, tmp_path, guiding)
    trainer.get_train_dataloader = lambda: DataLoader(data, 4, collate_fn=trainer.data_collator)
    with pytest.raises(UserError, match="no targets of the pattern pmi: collate it with"):
        trainer.train()


def test_heads():
    def heads(count, patterns, sizes=None):
        slices = GuidingArguments(
            patterns=patterns, pattern_weight=1.0, guiding_kwargs={"pattern_heads": sizes}
        ).heads(count)
        return {name: (heads.start, heads.stop) for name, heads in slices.items()}

    assert heads(12, ["next"]) == {"next": (0, 6)}
    assert heads(12, ["next", "first"]) == {"next": (0, 3), "first": (3, 6)}
    assert heads(1, ["next"]) == {"next": (0, 1)}
    assert heads(12, ["next", "first"], [2]) == {"next": (0, 2), "first": (2, 4)}
    assert heads(12, ["next", "prev", "first"], [1, 1, 4]) == {"next": (0, 1), "prev": (1, 2), "first": (2, 6)}
    with pytest.raises(UserError, match="they would have 14 heads of a layer, and the model has 12"):
        heads(12, ["next", "first"], [7])
    assert GuidingArguments(mdg_weight=1.0).heads(12) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"patterns": ["last"]}, "first, next, prev, delim, period, pmi, .*, not 'last'"),
        ({"patterns": ["next", "next"]}, "names one twice"),
        ({"patterns": None}, "pattern_weight needs patterns"),
        ({"dependency_files": "a.conllu"}, "dependency_files are for the pattern dependency"),
        ({"guiding_kwargs": {"pattern_heads": [0]}}, "pattern_heads must be a positive"),
        ({"guiding_kwargs": {"pattern_heads": [1, 2]}}, "or one a pattern"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(UserError, match=message):
        GuidingArguments(**{"patterns": ["next"], "pattern_weight": 1.0, **arguments})


def test_what_a_trainer_lacks(tokenizer, data, tmp_path):
    guiding = GuidingArguments(patterns=["pmi"], pattern_weight=1.0)
    many = GuidingArguments(patterns=["next"], pattern_weight=1.0, guiding_kwargs={"pattern_heads": [5]})
    with pytest.raises(UserError, match="would have 5 heads"):
        trainer_of(tokenizer, data, tmp_path, many)
    bare = data.remove_columns(["words", "word_ids"])
    trainer = trainer_of(tokenizer, data, tmp_path, guiding)
    trainer.train_dataset = bare
    with pytest.raises(UserError, match="pmi needs word_ids and words"):
        trainer.train()
    with pytest.raises(UserError, match="pmi cannot be found without a tokenizer"):
        trainer_of(None, data, tmp_path, guiding, model=build(tokenizer))
    assert guiding.needs_words and not GuidingArguments(patterns=["pmi", "delim"]).needs_words
    assert not GuidingArguments(patterns=["delim"], pattern_weight=1.0).needs_words
