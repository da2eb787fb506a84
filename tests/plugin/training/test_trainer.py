from __future__ import annotations

import json
import os

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from datasets import Dataset
from transformers import (
    BertConfig,
    BertForTokenClassification,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    TrainerCallback,
    TrainingArguments,
)

from msattn.errors import UserError
from msattn.training.length_samplers import (
    RepeatableLengthGroupedSampler,
    TextSampler,
    longest_first,
    rows_by_text,
)
from msattn.training.resuming import RunRecord, find_checkpoint
from msattn.training.trainer import FineTuningTrainer
from tests.hub_double import commits
from tests.tiny_models import tiny_relation_extractor


def optimizer_of(tmp_path, new_layers_learning_rate, embedding_learning_rate=None, **config):
    model, _ = tiny_relation_extractor(**config)
    args = TrainingArguments(str(tmp_path), learning_rate=1e-4, weight_decay=0.1, use_cpu=True)
    rates = {
        "new_layers_learning_rate": new_layers_learning_rate,
        "embedding_learning_rate": embedding_learning_rate,
    }
    return model, FineTuningTrainer(model, args, **rates).create_optimizer()


def settings(model, optimizer) -> dict[str, tuple[float, float]]:
    """Learning rate and weight decay of every parameter that is trained; none is there twice."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            assert names[parameter] not in found
            found[names[parameter]] = group["lr"], group["weight_decay"]
    return found


@pytest.mark.parametrize("mask_mode", ["hard", "ste"])
def test_fusion_and_classifier_learn_at_their_own_rate(mask_mode, tmp_path):
    model, optimizer = optimizer_of(tmp_path, 5e-4, mask_mode=mask_mode)
    found = settings(model, optimizer)
    assert found.keys() == {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    new = {name for name, (rate, _) in found.items() if rate == 5e-4}
    assert new == {name for name in found if name.startswith(("bert.fusion.", "classifier."))}
    # All else, weight decay too, is that of one rate.
    same = settings(*optimizer_of(tmp_path, None, mask_mode=mask_mode))
    assert same == {name: (1e-4, decay) for name, (_, decay) in found.items()}
    assert {decay for _, decay in found.values()} == {0.0, 0.1} and found["classifier.bias"][1] == 0.0


@pytest.mark.parametrize("new_rate", [None, 5e-4])
def test_embeddings_learn_at_their_own_rate(new_rate, tmp_path):
    found = settings(*optimizer_of(tmp_path, new_rate, embedding_learning_rate=1e-5))
    others = settings(*optimizer_of(tmp_path, new_rate))
    assert found == others | {"bert.embeddings.word_embeddings.weight": (1e-5, 0.1)}


def test_a_rate_of_zero_freezes_the_embeddings(tmp_path):
    model, optimizer = optimizer_of(tmp_path, None, embedding_learning_rate=0)
    assert not model.get_input_embeddings().weight.requires_grad
    trained = settings(*optimizer_of(tmp_path, None))
    assert settings(model, optimizer).keys() == trained.keys() - {"bert.embeddings.word_embeddings.weight"}


def test_grouping_by_length_depends_on_the_seed_alone():
    lengths = torch.randint(1, 50, (300,), generator=torch.Generator().manual_seed(0)).tolist()
    orders = []
    for seed in (1, 1, 2):
        torch.rand(len(orders))  # moves the global generator on
        orders.append(list(RepeatableLengthGroupedSampler(4, lengths, lambda seed=seed: seed)))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(300))
    batches = [[lengths[index] for index in orders[0][start : start + 4]] for start in range(0, 200, 4)]
    assert max(max(batch) - min(batch) for batch in batches) < 10


def test_pairs_of_a_text_come_one_after_the_other():
    tokens = [[1, 2], [1, 3], [1, 2], [4], [1, 2], [1, 3]]
    rows = rows_by_text(Dataset.from_dict({"input_ids": tokens}).select(range(1, 6)))
    assert rows == [[0, 4], [1, 3], [2]]
    orders = [list(TextSampler(2, rows, [1] * 5, lambda seed=seed: seed)) for seed in (1, 1, *range(2, 9))]
    assert orders[0] == orders[1] and len({*map(tuple, orders)}) > 3
    for order in orders:
        assert sorted(order) == list(range(5))
        assert abs(order.index(0) - order.index(4)) == abs(order.index(1) - order.index(3)) == 1


@pytest.mark.parametrize("strategy", ["random", "group_by_length"])
def test_predictions_come_in_the_order_of_the_examples(strategy, tmp_path):
    model, tokenizer = tiny_relation_extractor()
    lengths = [5, 12, 3, 12, 7, 4, 9]
    rows = [
        {
            "input_ids": [1 + (5 * row + token) % 20 for token in range(length)],
            "entity_starts": [0, 2],
            "labels": row % 3,
        }
        for row, length in enumerate(lengths)
    ]
    given = {"per_device_eval_batch_size": 2, "train_sampling_strategy": strategy, "dataloader_drop_last": True}
    args = TrainingArguments(str(tmp_path), use_cpu=True, **given)
    trainer = FineTuningTrainer(
        model, args, processing_class=tokenizer, data_collator=DataCollatorWithPadding(tokenizer)
    )
    output = trainer.predict(Dataset.from_list(rows))
    with torch.no_grad():
        expected = [
            model(torch.tensor([row["input_ids"]]), entity_starts=torch.tensor([row["entity_starts"]])).logits[0]
            for row in rows
        ]
    torch.testing.assert_close(torch.from_numpy(output.predictions), torch.stack(expected))
    assert output.label_ids.tolist() == [row["labels"] for row in rows]
    assert longest_first(Dataset.from_list(rows)) == [1, 3, 6, 4, 0, 5, 2]

    state = torch.get_rng_state()
    trainer.evaluate(Dataset.from_list(rows))
    assert torch.equal(torch.get_rng_state(), state)  # training goes on as it would without


@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_loss_is_the_mean_over_the_words_whatever_the_batches(size, tmp_path):
    torch.manual_seed(0)
    model = BertForTokenClassification(
        BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    )
    rows = [{"input_ids": [*range(1, size + 1)], "labels": [-100] + [size % 2] * (size - 1)} for size in range(2, 9)]
    args = TrainingArguments(str(tmp_path), per_device_eval_batch_size=size, use_cpu=True)
    collator = DataCollatorForTokenClassification(tiny_relation_extractor()[1])
    trainer = FineTuningTrainer(model, args, data_collator=collator, compute_metrics=lambda prediction: {})
    found = trainer.evaluate(Dataset.from_list(rows))["eval_loss"]
    with torch.no_grad():
        logits = torch.cat([model(torch.tensor([row["input_ids"]])).logits[0] for row in rows])
    labels = torch.tensor([label for row in rows for label in row["labels"]])
    assert found == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-5)


def test_training_batches_are_grouped_by_length(tmp_path):
    model, tokenizer = tiny_relation_extractor()
    data = Dataset.from_dict({"input_ids": [[1] * length for length in range(1, 101)], "other": [0] * 100})
    args = TrainingArguments(
        str(tmp_path), per_device_train_batch_size=5, train_sampling_strategy="group_by_length", use_cpu=True
    )
    trainer = FineTuningTrainer(model, args, train_dataset=data.select(range(99, 19, -1)), processing_class=tokenizer)
    order = list(trainer._get_train_sampler())
    assert sorted(order) == list(range(80))
    # The longest first; a batch of any five would have a spread of some 50.
    spreads = [max(order[start : start + 5]) - min(order[start : start + 5]) for start in range(0, 80, 5)]
    assert order[0] == 0 and sum(spreads) / len(spreads) < 30


def broken_trainer(tmp_path, **options):
    model, tokenizer = tiny_relation_extractor()
    rows = {"input_ids": [[2, 21, 6, 22, 23, 7, 24, 3]] * 8, "labels": [0, 1] * 4}
    starts = {"attention_mask": [[1] * 8] * 8, "entity_starts": [[1, 4]] * 8}
    options = {"report_to": "none", "disable_tqdm": True, "per_device_train_batch_size": 2, **options}
    args = TrainingArguments(str(tmp_path), use_cpu=True, **options)
    data = Dataset.from_dict({**rows, **starts})
    collator = DataCollatorWithPadding(tokenizer)
    return FineTuningTrainer(model, args, train_dataset=data, eval_dataset=data, data_collator=collator)


@pytest.mark.parametrize(
    ("strategy", "sampler"), [("sequential", "SequentialSampler"), ("batch_rebalance", "BatchRebalanceSampler")]
)
def test_pairs_of_a_text_keep_their_order_if_asked(tmp_path, strategy, sampler):
    trainer = broken_trainer(tmp_path, train_sampling_strategy=strategy)
    trainer.data_collator.shares = True
    assert type(trainer._get_train_sampler()).__name__ == sampler


def test_checkpoints_hold_no_token(tmp_path):
    """`tests/scripts/test_push.py` looks for it in what a script pushes."""
    trainer = broken_trainer(tmp_path, max_steps=1, save_steps=1, hub_token="hf_secret")
    trainer.train()
    trainer.save_model()
    assert trainer.args.hub_token == "hf_secret"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"training_args.bin", "trainer_state.json"} <= {path.name for path in files}
    assert not [path for path in files if b"hf_secret" in path.read_bytes()]


def test_each_push_holds_the_code_that_its_configuration_names(tmp_path):
    with commits() as found:
        trainer = broken_trainer(tmp_path, max_steps=1, save_steps=1, push_to_hub=True, hub_model_id="tester/model")
        trainer.train()
    first = next(files for files in found["tester/model"] if "config.json" in files)
    for name in json.loads(first["config.json"])["auto_map"].values():
        assert f"{name.partition('.')[0]}.py" in first


def test_checkpoints_from_before_a_clock_was_set_back_make_room(tmp_path):
    class SetBack(TrainerCallback):
        def on_save(self, args, state, control, **kwargs):
            os.utime(tmp_path / f"checkpoint-{state.global_step}", (4e9 - state.global_step, 4e9 - state.global_step))

    trainer = broken_trainer(tmp_path, max_steps=12, save_steps=4, save_total_limit=2)
    trainer.add_callback(SetBack())
    trainer.train()
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-8", "checkpoint-12"}


def test_fsdp_predicts_with_a_whole_model_on_the_device(tmp_path, monkeypatch):
    trainer = broken_trainer(tmp_path)
    monkeypatch.setattr(Accelerator, "distributed_type", DistributedType.FSDP)
    monkeypatch.setattr(Accelerator, "device", torch.device("meta"))
    assert trainer._evaluated_model().device.type == "meta"


def test_an_address_is_no_name_of_a_repository(tmp_path):
    with pytest.raises(UserError, match="--hub_model_id is NAME or OWNER/NAME, not an address"):
        broken_trainer(tmp_path, hub_model_id="https://hf_secret@huggingface.co/me/out")


def test_a_score_that_is_not_there_chooses_no_checkpoint(tmp_path):
    options = {"eval_strategy": "steps", "eval_steps": 1, "max_steps": 1, "lr_scheduler_type": "reduce_lr_on_plateau"}
    trainer = broken_trainer(tmp_path, **options, metric_for_best_model="f2")
    trainer.compute_metrics = lambda prediction: {"f1": 80.0}
    with pytest.raises(UserError, match="^--metric_for_best_model f2: there is no such score; there are loss, f1.$"):
        trainer.train()
    trainer.args.metric_for_best_model = "eval_f1"
    trainer.train()
    assert trainer.state.best_metric == 80


def test_a_loss_that_is_not_finite_stops_the_training(tmp_path):
    """The Trainer of Transformers would log the mean of the finite losses, and save a model of NaN."""
    trainer = broken_trainer(tmp_path, logging_steps=1, max_steps=4, save_strategy="no")
    computed = trainer.compute_loss
    trainer.compute_loss = lambda *args, **kwargs: (
        computed(*args, **kwargs) * (float("nan") if trainer.state.global_step == 2 else 1)
    )
    with pytest.raises(UserError, match=r"^step 3: the loss is nan, at a learning rate of 5e-05; lower"):
        trainer.train()


def test_a_weight_that_is_not_finite_is_not_saved(tmp_path):
    trainer = broken_trainer(tmp_path, max_steps=2, save_steps=1, logging_strategy="no")
    step = trainer.training_step

    def poisoned(*args, **kwargs):
        loss = step(*args, **kwargs)
        if trainer.state.global_step == 1:
            next(trainer.model.parameters()).grad.fill_(float("inf"))
        return loss

    trainer.training_step = poisoned
    with pytest.raises(UserError, match=r"^step 2: a weight is NaN or infinite"):
        trainer.train()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-1"]


def test_a_signal_ends_the_run_with_a_checkpoint(tmp_path):
    """SIGTERM itself is handled by Transformers, some seconds later."""
    best = {"eval_strategy": "steps", "eval_steps": 4, "load_best_model_at_end": True, "save_total_limit": 1}
    trainer = broken_trainer(tmp_path, max_steps=8, save_steps=4, enable_jit_checkpoint=True, **best)
    record = RunRecord(trainer.args, trainer.train_dataset)
    trainer.add_callback(record)
    jit = next(one for one in trainer.callback_handler.callbacks if type(one).__name__ == "JITCheckpointCallback")

    class Signal(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            jit.jit_manager.is_checkpoint_requested = state.global_step == 5

    trainer.add_callback(Signal)
    with pytest.raises(UserError, match="stopped by SIGTERM: checkpoint-5 is saved to"):
        trainer.train()
    assert (tmp_path / "checkpoint-5" / "optimizer.pt").exists() and not (tmp_path / "model.safetensors").exists()
    trainer.args.resume_from_checkpoint = "last"
    assert find_checkpoint(trainer.args, record) == str(tmp_path / "checkpoint-5")  # not the regular checkpoint-4


def test_early_stopping_goes_on_with_the_patience_that_is_given(tmp_path):
    before, now = EarlyStoppingCallback(2), EarlyStoppingCallback(5)
    before.early_stopping_patience_counter = 1
    trainer = broken_trainer(tmp_path, restore_callback_states_from_checkpoint=True)
    trainer.add_callback(now)
    trainer.state.stateful_callbacks = {"EarlyStoppingCallback": before.state()}
    trainer._load_callback_state()
    (restored,) = (one for one in trainer.callback_handler.callbacks if isinstance(one, EarlyStoppingCallback))
    assert (restored.early_stopping_patience, restored.early_stopping_patience_counter) == (5, 1)
