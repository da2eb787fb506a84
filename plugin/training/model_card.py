"""Writes the model card of a training run: data, hyperparameters and scores."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from transformers import Trainer
from transformers.modelcard import extract_hyperparameters_from_trainer, make_markdown_table, parse_log_history

# Scores that are of no model: the table has them, the `model-index` of the Hub has not.
BASELINES = ("majority_", "chance_")


@dataclass
class ModelCardFacts:
    """
    The parts of a model card that depend on the task and its data.

    Args:
        task_type (`str`): The task identifier in the `model-index`, such as `"text-classification"`.
        dataset_name (`str`): The display name of the dataset.
        metrics (`Mapping[str, str]`): Display names by metric key without prefix, such as `"f1"`.
        usage (`Callable[[str], str]`):
            Maps the path or name of the model, escaped for double quotes, to Python code that uses it by `pipeline`.
        description (`str`): One or two sentences on the model.
        tags (`list[str]`, *optional*, defaults to `[]`): Tags for the Hub.
        dataset_type (`str`, *optional*): The dataset's identifier on the Hub. Default: `dataset_name`.
        dataset_config (`str`, *optional*): The dataset's configuration on the Hub.
        splits (`Mapping[str, str]`, *optional*): Names of the splits by metric prefix.
        scored_data (`Mapping[str, str]`, *optional*):
            The display name of the data of each split by metric prefix, where it is not `dataset_name`.
        config_fields (`Sequence[str]`, *optional*, defaults to `()`):
            Configuration fields to list, if the model uses them.
        carries_pipeline (`bool`, *optional*, defaults to `False`):
            Whether the task is one of msattn and not of Transformers or the Hub, so that the checkpoint ships its
            pipeline, and `usage` does without msattn.
        language (`str`, *optional*): The language of the data, as a code, if it is known.
    """

    task_type: str
    dataset_name: str
    metrics: Mapping[str, str]
    usage: Callable[[str], str]
    description: str
    tags: list[str] = field(default_factory=list)
    dataset_type: str | None = None
    dataset_config: str | None = None
    splits: Mapping[str, str] = field(default_factory=lambda: {"eval": "validation", "test": "test"})
    scored_data: Mapping[str, str] = field(default_factory=dict)
    config_fields: Sequence[str] = ()
    carries_pipeline: bool = False
    language: str | None = None


def write_model_card(trainer: Trainer, facts: ModelCardFacts, results: Mapping[str, Any]) -> Path:
    """
    Writes the model card `README.md` to `--output_dir`, with the results as `model-index`.

    Args:
        trainer (`Trainer`): The trainer after training.
        facts (`ModelCardFacts`): Task and data.
        results (`Mapping[str, Any]`): Metrics by their logged names, such as `"eval_f1"`.

    Returns:
        `Path`: The path of the card.
    """
    folder, config = Path(trainer.args.output_dir), trainer.model.config
    base_model, dataset_type = config._name_or_path, facts.dataset_type or facts.dataset_name
    # True for model classes of msattn, installed or loaded from the checkpoint's code.
    carries_code = not type(config).__module__.startswith("transformers.")
    rows = [
        (prefix, key, name, value)
        for key, name in facts.metrics.items()
        for prefix in facts.splits
        if isinstance(value := results.get(f"{prefix}_{key}"), (int, float))
    ]
    data = ModelCardData(
        language=facts.language,
        library_name="transformers",
        tags=["msattn", *facts.tags],
        datasets=[dataset_type] if "/" in dataset_type else None,
        base_model=base_model if base_model and not os.path.isdir(base_model) else None,
        # The Hub has none for our tasks, and other widgets cannot mark entities.
        pipeline_tag=None if facts.carries_pipeline else facts.task_type,
        model_name=folder.resolve().name,
        eval_results=[
            EvalResult(
                task_type=facts.task_type,
                task_name=facts.task_type.replace("-", " ").title(),
                dataset_type=facts.scored_data.get(prefix, dataset_type),
                dataset_name=facts.scored_data.get(prefix, facts.dataset_name),
                dataset_config=facts.dataset_config,
                dataset_split=facts.splits[prefix],
                metric_type=key,
                metric_name=name,
                metric_value=round(value, 5),
            )
            for prefix, key, name, value in rows
            if not key.startswith(BASELINES)
        ]
        or None,
    )
    used = trainer.hub_model_id or trainer.args.hub_model_id or str(folder)
    usage = "from transformers import pipeline\n\n" + facts.usage(json.dumps(used, ensure_ascii=False)[1:-1])
    if carries_code and not facts.carries_pipeline:
        usage = f"import msattn\n{usage}"
    evaluations = parse_log_history(trainer.state.log_history)[1] or []
    # A line may lack what others have, such as the score before calibration.
    columns = dict.fromkeys(key for line in evaluations for key, value in line.items() if value is not None)
    history = [{key: "" if line.get(key) is None else line[key] for key in columns} for line in evaluations]
    hyperparameters = {
        **{name: value for name in facts.config_fields if (value := getattr(config, name)) not in (None, "")},
        **(asdict(trainer.guiding) if getattr(trainer, "guiding", None) and trainer.guiding.weights else {}),
        **extract_hyperparameters_from_trainer(trainer),
    }
    if chosen := getattr(trainer, "output_layers_learning_rate", None):
        hyperparameters["output_layers_learning_rate"] = chosen
    card = ModelCard.from_template(
        data,
        template_str=(resources.files("msattn.model_cards") / "TEMPLATE.md").read_text(encoding="utf-8"),
        name=markdown_text(folder.resolve().name),
        description=markdown_text(facts.description),
        dataset_name=markdown_text(facts.dataset_name),
        carries_code=carries_code,
        carries_pipeline=facts.carries_pipeline,
        usage=code_block(usage, "python"),
        rows=[(_split(facts, prefix), name, f"{value:.4g}") for prefix, _, name, value in rows],
        hyperparameters={key: markdown_text(str(value)) for key, value in hyperparameters.items()},
        history=make_markdown_table(history) if history else "",
        command=code_block(command_line()),
        versions={name: version(name) for name in ("msattn", "transformers", "torch", "datasets", "tokenizers")},
    )
    path = folder / "README.md"
    card.save(path)
    print(f"The model is in {folder}. To apply it: msattn predict {shlex.quote(str(folder))} FILE")
    return path


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is: no HTML, links, images, code or table cells. Line ends become spaces."""
    text = html.escape(" ".join(text.split()), quote=False)
    # A list of numbers is no link; the description has code of its own, so only a fence is taken apart.
    return re.sub(r"(\\|\](?=[\[(:])|\|)", r"\\\1", text).replace("```", "` ` `")


def code_block(code: str, language: str = "") -> str:
    """A fenced block, whose fence is longer than any in the code; access tokens in it are masked."""
    code = re.sub(r"hf_\w{30,}", "...", code)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}{language}\n{code}\n{fence}"


def _split(facts: ModelCardFacts, prefix: str) -> str:
    data = facts.scored_data.get(prefix)
    return markdown_text(facts.splits[prefix] + (f" ({data})" if data else ""))


def command_line() -> str:
    """The shell command of this process, with the values of `--token`, `--hub_token` and the like masked."""
    return re.sub(r"(--[\w-]*token[ =])\S+", r"\1...", shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))
