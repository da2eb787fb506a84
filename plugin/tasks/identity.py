"""What the result of a run depends on: its task, arguments, model and data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset
from transformers import PreTrainedModel, TrainingArguments

from msattn.tasks.task import Task

# Arguments that change no weight and no score, or that the data, the weights or the number of processes stand for.
WITHOUT_EFFECT = {
    *("output_dir", "resume_from_checkpoint", "do_train", "do_eval", "do_predict", "use_cpu", "local_rank", "seeds"),
    *("model_name_or_path", "tokenizer_name", "cache_dir", "token", "trust_remote_code"),
    *("train_file", "validation_file", "test_file", "dataset_name", "dataset_config_name", "glue_dir", "mtl16_dir"),
    *("queries_file", "collection_file", "qrels_file"),
    *("domains", "train_fraction", "guide_doses", "guide_each_layer", "max_eval_samples", "max_predict_samples"),
    *("resume_anyway", "overwrite_output_dir", "preprocessing_num_workers", "label_file", "language"),
    *("disable_tqdm", "report_to", "run_name", "project", "skip_memory_metrics", "debug", "ignore_mismatched_sizes"),
    *("save_strategy", "save_steps", "save_total_limit", "save_only_model", "save_on_each_node"),
    *("enable_jit_checkpoint", "restore_callback_states_from_checkpoint", "include_for_metrics"),
    *("per_device_eval_batch_size", "eval_accumulation_steps"),
    *("include_num_input_tokens_seen", "eval_use_gather_object", "torch_empty_cache_steps"),
}
PREFIXES_WITHOUT_EFFECT = ("log", "hub_", "push_", "dataloader_", "ddp_", "trackio_")
# Training arguments of the data loader that change the batches.
WITH_EFFECT = {"dataloader_drop_last", "logging_nan_inf_filter"}
# What the configuration holds but does not depend on: where the model came from and who saved it.
CONFIG_WITHOUT_EFFECT = ("_name_or_path", "transformers_version", "auto_map", "architectures", "dtype")
# Rows that are hashed at a time.
ROWS = 10_000


def identity_of(
    task: Task, model: PreTrainedModel, args: TrainingArguments, datasets: Mapping[str, Dataset], *others: Any
) -> dict[str, Any]:
    """
    Everything that the weights of a run depend on.

    Args:
        task (`Task`): The task.
        model (`PreTrainedModel`): The model before training.
        args (`TrainingArguments`): The training arguments of this run.
        datasets (`Mapping[str, datasets.Dataset]`): The model inputs by metric prefix.
        *others: Further argument dataclasses, such as attention guiding; they take the place of the task's own.

    Returns:
        `dict[str, Any]`: Values by name: arguments other than their default (`--learning_rate`), `config.*`, `data.*`.
    """
    found = {**arguments_of(task, args, *others), "--seed": args.seed, "model": type(model).__name__}
    found["weights"] = weights_hash(task.model_args.model_name_or_path)
    config = json.loads(model.config.to_json_string())
    found |= {f"config.{name}": value for name, value in config.items() if name not in CONFIG_WITHOUT_EFFECT}
    used = {"train"} | ({"eval"} if task.calibrates or args.eval_strategy != "no" else set())
    found |= {f"data.{prefix}": rows_hash(data) for prefix, data in datasets.items() if prefix in used}
    return found


def arguments_of(task: Task, args: TrainingArguments, *others: Any) -> dict[str, Any]:
    """The task, the number of processes, and all arguments but the seed that change a result."""
    given = {type(value): value for value in vars(task).values() if is_dataclass(value)}
    given |= {type(value): value for value in (args, *others)}
    found: dict[str, Any] = {"task": type(task).__name__, "processes": args.world_size * max(1, args.n_gpu)}
    for arguments in given.values():
        found |= changed_arguments(arguments)
    if args.load_best_model_at_end:
        found |= {"--save_strategy": args.save_strategy.value, "--save_steps": args.save_steps}
    return {name: value for name, value in found.items() if name != "--seed"}


def changed_arguments(arguments: Any) -> dict[str, Any]:
    """The arguments of a dataclass that change a result and are not at their default, by flag."""
    return {
        f"--{field.name}": value
        for field in fields(arguments)
        if field.init
        and (field.name in WITH_EFFECT or not field.name.startswith(PREFIXES_WITHOUT_EFFECT))
        and field.name not in WITHOUT_EFFECT
        and (value := _plain(getattr(arguments, field.name))) != (default := _plain(_default(field)))
        and (value or default)
    }


def rows_hash(dataset: Dataset) -> str:
    """A hash of the rows of a dataset, their order and their columns' names and types; not of where they lie."""
    digest = hashlib.blake2b(digest_size=16)
    plain = dataset.with_format("arrow")
    for name in sorted(dataset.column_names):
        digest.update(name.encode())
    for start in range(0, len(dataset), ROWS):
        table = plain[start : start + ROWS]
        for name in sorted(table.column_names):
            _add(digest, table[name].combine_chunks())
    return digest.hexdigest()


def weights_hash(name: str | None) -> str | None:
    """A hash of the weights that a run begins with, or their name on the Hub; `None` for fresh ones."""
    folder = Path(str(name))
    if name is None or not folder.is_dir():
        return name
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
    return _files_hash(tuple((path, path.stat().st_mtime_ns) for path in files if path.name != "training_args.bin"))


@cache
def versions() -> dict[str, str]:
    """The versions that a result may depend on in its last digits, and a hash of the package's code."""
    digest = hashlib.blake2b(digest_size=8)
    for path in _code(resources.files("msattn")):
        digest.update(path.read_bytes())
    libraries = {name: version(name) for name in ("msattn", "transformers", "torch", "accelerate")}
    return {**libraries, "code": digest.hexdigest()}


def _code(folder: Traversable) -> list[Traversable]:
    found = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        found += _code(path) if path.is_dir() else [path] if path.name.endswith(".py") else []
    return found


@cache
def _files_hash(files: tuple[tuple[Path, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path, _ in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _add(digest: Any, array: pa.Array) -> None:
    """Adds the values of an array to a hash, and not its layout in memory."""
    kind = array.type
    digest.update(f"{kind} {len(array)} {array.null_count};".encode())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        digest.update(pc.fill_null(pc.list_value_length(array), -1).to_numpy(zero_copy_only=False).tobytes())
        _add(digest, array.flatten())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if array.null_count:
            digest.update(array.is_null().to_numpy(zero_copy_only=False).tobytes())
            array = pc.fill_null(array, 0)
        digest.update(array.to_numpy(zero_copy_only=False).tobytes())
    else:
        digest.update(repr(array.to_pylist()).encode("utf-8", "surrogatepass"))


def _default(field: Field) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _plain(value: Any) -> Any:
    """The value as JSON can hold it."""
    if is_dataclass(value):
        return changed_arguments(value)
    return json.loads(json.dumps(value, default=lambda other: getattr(other, "value", None) or str(other)))
