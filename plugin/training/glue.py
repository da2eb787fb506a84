"""Classification and regression of sentences and pairs, GLUE's or one's own, as an experiment from arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from sklearn.metrics import accuracy_score, classification_report, f1_score, mean_squared_error
from transformers import (
    AutoModelForSequenceClassification,
    EvalPrediction,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    TrainingArguments,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER
from transformers.utils import logging

from msattn import metrics
from msattn.configuration.configuration_ms_transformer import MSTransformerConfig
from msattn.data.glue import GLUE_TASKS
from msattn.data.sentences import encode_sentences
from msattn.errors import UserError
from msattn.metrics import write_glue_submission
from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleSequenceClassification
from msattn.training.experiment import Experiment
from msattn.training.glue_data import MAX_SEQ_LENGTH, GlueDataArguments, glue_data
from msattn.training.model_card import ModelCardFacts
from msattn.training.multiscale import CONFIG_FIELDS, MultiScaleArguments, head_fields, stands_on_bert
from msattn.training.pretrained import most_tokens
from msattn.training.scratch import ModelSource, ScratchArguments

logger = logging.get_logger(__name__)

HEADS: dict[str, dict[str, Any]] = {
    "multiscale": {},
    "bert": {"fusion_layers": 0},
    "plain-attention": {"scales": (), "mask_mode": "none"},
}
METRIC_NAMES = {
    "matthews_correlation": "Matthews correlation",
    "accuracy": "Accuracy",
    "f1": "F1",
    "macro_f1": "Macro F1",
    "pearson": "Pearson",
    "spearmanr": "Spearmanr",
    "mse": "MSE",
    "combined_score": "Combined score",
}


@dataclass
class GlueModelArguments:
    """What sits on top of the encoder."""

    head: str | None = field(
        default=None,
        metadata={
            "help": "For BERT: multiscale (BERT-MS, the default for a plain checkpoint), or a baseline: bert (the "
            "encoder alone, under the same classifier) or plain-attention (as large as multiscale, but words only). "
            "An encoder of another family has the classifier that Transformers has for it.",
            "choices": list(HEADS),
        },
    )
    ignore_mismatched_sizes: bool = field(
        default=False,
        metadata={"help": "Start from a model of another task, whose classifier has another number of labels."},
    )


def glue_experiment(
    model_args: MultiScaleArguments,
    head_args: GlueModelArguments,
    data_args: GlueDataArguments,
    scratch_args: ScratchArguments,
    training_args: TrainingArguments,
    words: bool = False,
    domain: str | None = None,
) -> Experiment:
    """
    Reads and encodes the data, of MTL-16 those of a domain, on request those of the training with their words, and
    says how the model is built and scored.

    Raises:
        UserError: Files, labels, model or arguments are not as they should be.
    """
    source = ModelSource(model_args, scratch_args)
    multiscale = not source.fresh and stands_on_bert(model_args, head_args.head)
    if source.fresh:
        for name in (["head"] if head_args.head else []) + list(model_args.config_overrides()):
            raise UserError(f"--{name} is for a pre-trained BERT; with --model_type there is --config_overrides.")
    data = glue_data(data_args, model_args, training_args, domain)
    splits = data.splits
    pairs = len(data.columns) == 2
    if source.fresh and getattr(source.config, "crf", False):
        raise UserError("crf=true is for tagging: run_tagging.py.")
    if getattr(source.config, "sentence_pairs", False) and not pairs:
        raise UserError(f"the model compares pairs, and there is one column of text: {data.columns[0]}.")
    trained = splits.get("train")
    tokenizer = source.tokenizer(
        None if trained is None else chain.from_iterable(trained[column] for column in data.columns)
    )
    max_length = _max_length(data_args, source.config, tokenizer, pairs)

    def encoded(prefix: str, dataset: Dataset) -> Dataset:
        with training_args.main_process_first(desc=f"encoding {prefix}"):
            dataset, truncated = encode_sentences(
                dataset,
                tokenizer,
                data.columns,
                max_length,
                data_args.pad_to_max_length,
                data_args.preprocessing_num_workers,
                words and prefix == "train",
            )
        if truncated:
            logger.warning(
                f"{prefix}: {truncated} of {len(dataset)} examples are longer than {max_length} tokens and were "
                "truncated (--max_seq_length)."
            )
        return dataset

    datasets = {prefix: encoded(prefix, dataset) for prefix, dataset in splits.items()}
    task, labels = data_args.task_name, data.labels
    names = ["LABEL_0"] if labels is None else labels
    return Experiment(
        model_init=partial(
            source.model,
            BertForMultiScaleSequenceClassification if multiscale else AutoModelForSequenceClassification,
            **({"sentence_pairs": pairs} if source.fresh and hasattr(source.config, "sentence_pairs") else {}),
            **(head_fields(model_args, HEADS[head_args.head]) if head_args.head else {}),
            ignore_mismatched_sizes=head_args.ignore_mismatched_sizes,
            problem_type="regression" if labels is None else "single_label_classification",
            id2label=dict(enumerate(names)),
            label2id={label: number for number, label in enumerate(names)},
        ),
        tokenizer=tokenizer,
        compute_metrics=partial(glue_metrics, task=task, regression=labels is None),
        card=_card(data_args, splits, pairs, source, multiscale, domain),
        train_dataset=datasets.get("train"),
        eval_datasets={name: dataset for name, dataset in datasets.items() if name.startswith(("eval", "dev"))},
        test_datasets={name: dataset for name, dataset in datasets.items() if name.startswith("test")},
        write_predictions=partial(_write_predictions, datasets=datasets, labels=labels, task=task),
        new_layers_learning_rate=model_args.new_layers_learning_rate,
    )


def glue_metrics(prediction: EvalPrediction, task: str | None, regression: bool = False) -> dict[str, float]:
    """
    The measures of a GLUE task under their names in `evaluate`; of several also the mean, as `combined_score`.

    Without a task: accuracy and macro-F1, or for regression the correlations of STS-B and the mean squared error.
    """
    answers = _answers(prediction.predictions, regression)
    references = prediction.label_ids
    if task is None and not regression:
        return {
            "accuracy": float(accuracy_score(references, answers)),
            "macro_f1": float(f1_score(references, answers, average="macro", zero_division=0)),
        }
    values = metrics.load("glue", task or "stsb").compute(predictions=answers, references=references)
    if len(values) > 1:
        values["combined_score"] = float(np.mean(list(values.values())))
    if task is None:
        values["mse"] = float(mean_squared_error(references, answers))
    return values


def _answers(logits: np.ndarray, regression: bool) -> np.ndarray:
    return logits[:, 0] if regression else logits.argmax(axis=-1)


def _max_length(
    data_args: GlueDataArguments, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, pairs: bool
) -> int | None:
    """The most tokens of an example; `None` for any number."""
    wanted = data_args.max_seq_length
    if wanted is None:
        wanted = VERY_LARGE_INTEGER if most_tokens(config) is None else MAX_SEQ_LENGTH
    elif wanted <= tokenizer.num_special_tokens_to_add(pair=pairs):
        raise UserError(f"--max_seq_length {wanted} leaves no room for a word.")
    most = min(wanted, tokenizer.model_max_length)
    if data_args.max_seq_length is not None and most < wanted:
        logger.warning(f"--max_seq_length {wanted}: the model takes {most} tokens at most.")
    if most < VERY_LARGE_INTEGER:
        return most
    if data_args.pad_to_max_length:
        raise UserError("--pad_to_max_length needs --max_seq_length: the model takes any number of tokens.")
    return None


def _write_predictions(
    prefix: str,
    logits: np.ndarray,
    folder: Path,
    datasets: Mapping[str, Dataset],
    labels: Sequence[str] | None,
    task: str | None,
) -> None:
    """
    `<prefix>_predictions.tsv`, or for a test set of GLUE the file that its server takes; and where the classes are
    known `<prefix>_report.txt`, which is printed as well.
    """
    answers = _answers(logits, labels is None)
    if task and prefix.startswith("test"):
        split = "test_mismatched" if prefix == "test_mm" else "test"
        logger.info(f"wrote {write_glue_submission(task, folder, answers.tolist(), split)}")
        return
    cells = [f"{answer:.5f}" for answer in answers] if labels is None else [labels[answer] for answer in answers]
    lines = ["index\tprediction\n", *(f"{number}\t{cell}\n" for number, cell in enumerate(cells))]
    (folder / f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
    references = datasets[prefix]["labels"] if "labels" in datasets[prefix].column_names else None
    if labels is None or references is None:
        return
    report = classification_report(
        references, answers, labels=range(len(labels)), target_names=list(labels), digits=4, zero_division=0
    )
    (folder / f"{prefix}_report.txt").write_text(report, encoding="utf-8")
    print(f"{prefix}\n{report}")


def _card(
    data_args: GlueDataArguments,
    splits: Mapping[str, Dataset],
    pairs: bool,
    source: ModelSource,
    multiscale: bool,
    domain: str | None,
) -> ModelCardFacts:
    task = data_args.task_name
    name = f"MTL-16 {domain}" if domain else Path(str(data_args.train_file)).name
    if task:
        name = f"GLUE {GLUE_TASKS[task].folder}"
    matched = "_matched" if task == "mnli" else ""
    names = {"": f"validation{matched}", "_mm": "validation_mismatched"}
    official = "dev" if "dev" in splits else "eval"
    family = source.config.model_type
    config_fields = source.card_fields
    if multiscale:
        model = (
            "BERT with multi-scale fusion self-attention, or without (`fusion_layers: 0` or `scales: ()` below), as a "
            "baseline,"
        )
        config_fields = CONFIG_FIELDS
    elif source.fresh:
        model = f"a model of the family `{family}`, trained from scratch,"
    else:
        model = "a pre-trained encoder"
    carries_code = multiscale or not type(source.config).__module__.startswith("transformers.")
    tags = ["multi-scale-attention"] if multiscale or family == MSTransformerConfig.model_type else []
    return ModelCardFacts(
        task_type="text-classification",
        pipeline_tag="text-classification",
        task_name="Text Classification",
        dataset_type="nyu-mll/glue" if task else name,
        dataset_name=name,
        dataset_config=task,
        splits={
            **({"eval": "held out of train"} if data_args.validation_split_percentage is not None else {}),
            **{f"{official}{suffix}": split for suffix, split in names.items()},
            "test": "test",
            "test_unseen": "test without what is in train",
        },
        metrics=METRIC_NAMES,
        description=f"A model for {name}: {model} under a classifier of {'sentence pairs' if pairs else 'sentences'}.",
        usage=partial(_usage, pair=pairs, carries_code=carries_code),
        tags=[*tags, *(["glue"] if task else [])],
        config_fields=config_fields,
        carries_code=carries_code,
    )


def _usage(name: str, pair: bool, carries_code: bool) -> str:
    example = '{"text": "A man is eating.", "text_pair": "Someone eats."}' if pair else '"A man is eating."'
    return f'''{"import msattn" if carries_code else ""}
from transformers import pipeline

classify = pipeline("text-classification", model="{name}")
classify({example})'''.lstrip()
