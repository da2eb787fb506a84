from __future__ import annotations

import json

import pytest
from transformers import TrainingArguments

from msattn.arguments.data_arguments import DataArguments
from msattn.arguments.multiscale_arguments import MultiScaleArguments
from msattn.command_line import parse_arguments
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments

ALL = (MultiScaleArguments, DataArguments, GuidingArguments, TrainingArguments)

# Name, wrong value, what the message says. Each did harm in version 0.1: a traceback or a wrong result.
WRONG = [
    ("per_device_train_batch_size", 0, "a whole number of at least 1"),
    ("per_device_eval_batch_size", -1, "a whole number of at least 1"),
    ("gradient_accumulation_steps", 0, "a whole number of at least 1"),
    ("seed", -1, "a whole number of at least 0"),
    ("seed", 2**32, "at most 4294967295"),
    ("data_seed", -3, "a whole number of at least 0"),
    ("split_seed", -1, "a whole number of at least 0"),
    ("dataloader_num_workers", -1, "a whole number of at least 0"),
    ("preprocessing_num_workers", 0, "a whole number of at least 1"),
    ("learning_rate", -1, "a number of at least 0"),
    ("learning_rate", 1e30, "at most 1000"),
    ("learning_rate", "nan", "invalid float value: 'nan'"),
    ("learning_rate", "inf", "invalid float value: 'inf'"),
    ("learning_rate", "1_0", "invalid float value: '1_0'"),
    ("learning_rate", "1e39", "invalid float value: '1e39'"),
    ("weight_decay", "nan", "invalid float value"),
    ("max_train_samples", "1_0", "invalid int value: '1_0'"),
    ("max_train_samples", 10**30, "that is too large"),
    ("max_train_samples", "9" * 5000, "invalid int value"),
    ("num_train_epochs", 0, "a number above 0"),
    ("num_train_epochs", -1, "a number above 0"),
    ("max_steps", 0, "a whole number of at least 1 or -1"),
    ("adam_beta1", 1, "below 1"),
    ("max_grad_norm", "nan", "invalid float value"),
    ("validation_split_percentage", 100, "above 0 and below 100"),
    ("mask_temperature", 0, "a number above 0"),
    ("mdg_weight", "nan", "invalid float value"),
    ("fusion_layers", 10**9, "at most 1000"),
    ("lr_scheduler_kwargs", "[1]", "a JSON object"),
    ("gradient_checkpointing_kwargs", '{"a": 1}', "use_reentrant"),
    ("torch_compile_backend", "foo", "inductor"),
    ("torch_compile_mode", "foo", "max-autotune"),
    ("train_file", "/tmp/\udcff.txt", "not UTF-8"),
    ("output_dir", "a\0b", "NUL"),
]


@pytest.mark.parametrize("name, value, right", WRONG, ids=[f"{name} {str(value)[:8]!a}" for name, value, _ in WRONG])
def test_a_value_that_cannot_work(name, value, right):
    with pytest.raises(UserError) as error:
        parse_arguments(ALL, [f"--{name}={value}"])
    assert name in str(error.value) and right in str(error.value)
    assert len(str(error.value)) <= 500


# What an argument file may hold where a value is due.
MISPLACED = [
    ("learning_rate", [1]),
    ("learning_rate", {"a": 1}),
    ("learning_rate", True),
    ("learning_rate", float("nan")),
    ("max_steps", 1.5),
    ("do_train", [True]),
    ("output_dir", {"a": 1}),
    ("train_file", [["a"]]),
    ("scales", ["3"]),
    ("scales", [3, None]),
    ("scales", [[3]]),
    ("scales", [3.5]),
    ("scales", [True]),
    ("scales", {"3": 5}),
    ("scales", [0]),
    ("patterns", ["nowhere"]),
    ("optim", [1]),
    ("optim", {"a": [{"b": [1]}]}),
    ("report_to", [1]),
    ("lr_scheduler_type", ["linear"]),
    ("eval_strategy", {}),
    ("metric_for_best_model", []),
    ("scales", [10**400]),
]


@pytest.mark.parametrize("name, value", MISPLACED, ids=[f"{name} {str(value)[:12]}" for name, value in MISPLACED])
def test_a_value_of_another_type_in_a_file(name, value, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps({name: value}))
    with pytest.raises(UserError) as error:
        parse_arguments(ALL, [str(file)])
    assert str(error.value).startswith(f"{file}: ") and name in str(error.value)
    assert len(str(error.value).removeprefix(str(file))) <= 500


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.json", b'{"scales": ' + b"[" * 100_000, "nested too deeply"),
        ("a.yaml", b"scales: " + b"[" * 1_000, "nested too deeply"),
        ("a.json", b'{"seed": 1, "seed": 2}', "'seed' is there twice"),
        ("a.yaml", b"seed: 1\nseed: 2", "'seed' is there twice"),
        ("a.json", b'{"seed": ' + b"9" * 5000 + b"}", "the file cannot be read"),
        ("a.json", b'{"output_dir": "\xff"}', "the file cannot be read"),
        ("a.json", '{"seed": 1}'.encode("utf-16"), "the file cannot be read"),
        ("a.json", b'{"output_dir": "\\ud800"}', "not UTF-8"),
        ("a.yaml", b"!!python/object/apply:os.system [exit 3]", "could not determine a constructor"),
        ("a.yaml", b"? [a]\n: 1", "the file cannot be read"),
        ("a.yaml", b"1: 2", "there is no argument 1"),
        ("a.yaml", b"x" * 900 + b": 2", "there is no argument xxx"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, bytes) else None,
)
def test_a_file_that_is_no_argument_file(name, text, message, tmp_path):
    file = tmp_path / name
    file.write_bytes(text)
    with pytest.raises(UserError) as error:
        parse_arguments(ALL, [str(file)])
    assert str(error.value).startswith(f"{file}: ") and message in str(error.value)
    assert len(str(error.value).replace(str(file), "")) <= 500


def test_a_bomb_of_yaml_is_named_and_not_printed(tmp_path):
    """Ten names, each a list of ten of the one before: ten to the ninth values in a megabyte of message, printed."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    file = tmp_path / "a.yaml"
    file.write_text("\n".join([*lines, "scales: *a9"]))
    with pytest.raises(UserError, match="there is no argument a0"):
        parse_arguments(ALL, [str(file)])


def test_right_values_pass(tmp_path):
    file = tmp_path / "a.json"
    values = {"scales": [3, 5], "learning_rate": 0, "max_steps": -1, "report_to": ["none"], "seed": 2**32 - 1}
    values |= {
        "lr_scheduler_kwargs": {"num_cycles": 2},
        "max_grad_norm": 0,
        "eval_strategy": "no",
        "warmup_steps": 0.1,
    }
    file.write_text(json.dumps({**values, "output_dir": str(tmp_path), "use_cpu": True}))
    multiscale, _, _, args = parse_arguments(ALL, [str(file)])
    assert multiscale.scales == [3, 5] and args.lr_scheduler_kwargs == {"num_cycles": 2} and args.learning_rate == 0
