"""Sequence classification and regression of sentences and sentence pairs, such as GLUE."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from scipy.special import softmax
from sklearn.metrics import accuracy_score, classification_report, f1_score, mean_squared_error
from transformers import (
    AutoModelForSequenceClassification,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER
from transformers.utils import logging

from msattn.arguments.classifier_arguments import ClassifierArguments
from msattn.arguments.multiscale_arguments import MULTISCALE_FIELDS, MultiScaleArguments, head_fields
from msattn.arguments.pretrained import check_model, family_class, load_config
from msattn.arguments.scratch_arguments import ScratchArguments
from msattn.arguments.sentence_arguments import (
    HEADS,
    MAX_SEQ_LENGTH,
    OLD_MEAN,
    PLAIN,
    SentenceDataArguments,
    SentenceModelArguments,
)
from msattn.configuration.any_encoder_config import COMPOSED_FAMILIES
from msattn.configuration.configuration_ms_transformer import MSTransformerConfig
from msattn.configuration.max_tokens import most_tokens
from msattn.data.formats.glue import GLUE_TASKS
from msattn.data.formats.mtl16 import MTL16_DOMAINS
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.metrics import write_glue_submission
from msattn.metrics.glue_scores import score_glue
from msattn.modeling.modeling_multiscale import MultiScaleForSequenceClassification
from msattn.modeling.modeling_multiscale_bert import BertForMultiScaleSequenceClassification
from msattn.tasks.labels import label_fields
from msattn.tasks.model_card import ModelCardFacts
from msattn.tasks.model_source import ModelSource
from msattn.tasks.sentence_data import check_source, read_sentence_data
from msattn.tasks.text_task import TextTask

logger = logging.get_logger(__name__)

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


class SequenceClassification(TextTask):
    """
    Classification or regression of sentences and sentence pairs.

    The model is the sequence classifier of Transformers for an encoder, multi-scale fusion on it or one of its
    baselines, or a model trained from scratch.

    Args:
        model_args (`MultiScaleArguments`): Checkpoint and hyperparameters of multi-scale fusion.
        head_args (`SentenceModelArguments`): The head.
        classifier_args (`ClassifierArguments`): How to treat the classification head of the checkpoint.
        scratch_args (`ScratchArguments`): Model family and vocabulary, for training from scratch.
        data_args (`SentenceDataArguments`): Names the data.
        args (`TrainingArguments`): The training arguments.
        guiding (`GuidingArguments`): Attention guiding.
        domain (`str`, *optional*): The MTL-16 domain. Without it, `--mtl16_dir` gives one task per domain.

    Raises:
        UserError: The data are named twice, an argument of multi-scale fusion is used with another model, the
            encoder cannot have the head, or `crf=true` is set.
    """

    argument_classes = (
        MultiScaleArguments,
        SentenceModelArguments,
        ClassifierArguments,
        ScratchArguments,
        SentenceDataArguments,
    )
    other_sources = ", --dataset_name, --task_name or --mtl16_dir"

    model_args: MultiScaleArguments
    data_args: SentenceDataArguments

    def __init__(
        self,
        model_args: MultiScaleArguments,
        head_args: SentenceModelArguments,
        classifier_args: ClassifierArguments,
        scratch_args: ScratchArguments,
        data_args: SentenceDataArguments,
        args: TrainingArguments,
        guiding: GuidingArguments,
        domain: str | None = None,
    ):
        super().__init__(model_args, data_args, args, guiding)
        self.head_args, self.classifier_args, self.scratch_args = head_args, classifier_args, scratch_args
        self.domain = domain
        check_source(data_args)
        self.source = ModelSource(model_args, scratch_args, args.do_train)
        self.multiscale = not self.source.fresh and _is_multiscale(model_args, head_args.head)
        self.model_class: Any = AutoModelForSequenceClassification
        if self.multiscale:
            self.model_class = family_class(
                model_args, MultiScaleForSequenceClassification, BertForMultiScaleSequenceClassification
            )
            check_model(self.model_class, model_args, **self._overrides)
        if self.source.fresh:
            for name in (["head"] if head_args.head else []) + list(model_args.config_overrides()):
                raise UserError(f"--{name} is for a pre-trained encoder; use --config_overrides.")
            if getattr(self.source.config, "crf", False):
                raise UserError("crf=true is for tagging: run_tagging.py.")

    @property
    def domains(self) -> Mapping[str, TextTask]:
        if not self.data_args.mtl16_dir or self.domain:
            return {}
        heads = self.model_args, self.head_args, self.classifier_args, self.scratch_args
        return {
            domain: type(self)(*heads, self.data_args, self.args, self.guiding, domain)
            for domain in MTL16_DOMAINS
            if domain in (self.data_args.domains or MTL16_DOMAINS)
        }

    def read(self, splits: Collection[str]) -> dict[str, Dataset]:
        found = read_sentence_data(self.data_args, self.model_args, splits, self.domain, not self.multiscale)
        self.columns, self.labels = found.columns, found.labels
        known = self.data_args.task_name or self.data_args.mtl16_dir or self.data_args.text_column_names
        # Printed as the scores are: by default, the log shows warnings only.
        if self.columns and not known and self.args.should_log:
            print(f"The text is read from {' and '.join(self.columns)}; the label is {_described(self.labels)}.")
        return dict(found.splits)

    def prepare(self, data: Mapping[str, Dataset]) -> None:
        if getattr(self.source.config, "sentence_pairs", False) and not self.pairs:
            raise UserError(f"the model compares pairs, and there is one column of text: {self.columns[0]}.")

    def strata(self, data: Dataset) -> Sequence | None:
        return None if self.labels is None else data["label"][:]

    def hold_out(self, data: Dataset) -> tuple[Dataset, Dataset]:
        train, held = super().hold_out(data)
        texts, cut = (zip(*(part[column][:] for column in self.columns), strict=True) for part in (train, held))
        seen = set(texts)
        if repeated := sum(text in seen for text in cut):
            logger.warning(
                f"{repeated} of the {len(held)} examples that --validation_split_percentage holds out have the same "
                "text as one that is left."
            )
        return train, held

    def make_tokenizer(self) -> PreTrainedTokenizerBase:
        trained = self.data.get("train")
        texts = None if trained is None else chain.from_iterable(trained[column] for column in self.columns)
        tokenizer = self.source.tokenizer(texts)
        self.max_length = self._max_length(tokenizer)
        return tokenizer

    def encode(self, prefix: str, data: Dataset) -> Dataset:
        return self.encode_texts(prefix, data, self.columns)

    def model(self) -> PreTrainedModel:
        names = ["LABEL_0"] if self.labels is None else self.labels
        pairs = self.source.fresh and hasattr(self.source.config, "sentence_pairs")
        return self.source.model(
            self.model_class,
            **({"sentence_pairs": self.pairs} if pairs else {}),
            **self._overrides,
            ignore_mismatched_sizes=self.classifier_args.ignore_mismatched_sizes,
            problem_type="regression" if self.labels is None else "single_label_classification",
            **label_fields(names),
        )

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        return sentence_metrics(prediction, self.data_args.task_name, self.labels is None)

    def write_predictions(self, prefix: str, predictions: np.ndarray, folder: Path) -> None:
        """
        Writes `<prefix>_predictions.tsv`, or for a GLUE test set the submission file.

        For labelled classification data, also writes `<prefix>_predictions.jsonl`, with the texts and the probability
        of each label, and `<prefix>_report.txt`, which it prints.
        """
        task, labels, data = self.data_args.task_name, self.labels, self.encoded[prefix]
        answers = _answers(predictions, labels is None)
        if task and prefix.startswith("test"):
            split = "test_mismatched" if prefix == "test_mm" else "test"
            logger.info(f"wrote {write_glue_submission(task, folder, answers.tolist(), split)}")
            return
        cells = [f"{answer:.5f}" for answer in answers] if labels is None else [labels[answer] for answer in answers]
        lines = ["index\tprediction\n", *(f"{number}\t{cell}\n" for number, cell in enumerate(cells))]
        (folder / f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
        if labels is None or "labels" not in data.column_names:
            return
        with open(folder / f"{prefix}_predictions.jsonl", "w", encoding="utf-8") as file:
            for example, gold, row in zip(self.data[prefix], data["labels"], softmax(predictions, -1), strict=True):
                texts = {name: example[key] for name, key in zip(("text", "text_pair"), self.columns, strict=False)}
                answer = {"gold": labels[gold], "prediction": labels[row.argmax()]}
                probabilities = {label: round(float(value), 6) for label, value in zip(labels, row, strict=True)}
                line = {**texts, **answer, "probabilities": probabilities}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        report = classification_report(
            data["labels"], answers, labels=range(len(labels)), target_names=list(labels), digits=4, zero_division=0
        )
        (folder / f"{prefix}_report.txt").write_text(report, encoding="utf-8")
        print(f"{prefix}\n{report}")

    def card(self) -> ModelCardFacts:
        task, family = self.data_args.task_name, self.source.config.model_type
        name = self.data_args.dataset_name or Path(str(self.data_args.train_file)).name
        if self.domain:
            name = f"MTL-16 {self.domain}"
        if task:
            name = f"GLUE {GLUE_TASKS[task].folder}"
        carries_code = self.multiscale or not type(self.source.config).__module__.startswith("transformers.")
        windows = self.multiscale or family == MSTransformerConfig.model_type
        return ModelCardFacts(
            task_type="text-classification",
            pipeline_tag="text-classification",
            task_name="Text Classification",
            dataset_type="nyu-mll/glue" if task else name,
            dataset_name=name,
            dataset_config=task or self.data_args.dataset_config_name,
            splits=self.card_splits(),
            metrics=METRIC_NAMES,
            description=(
                f"A model for {name}: {self._description()} under a classifier of "
                f"{'sentence pairs' if self.pairs else 'sentences'}."
            ),
            usage=partial(_usage, pair=self.pairs, carries_code=carries_code),
            tags=[*(["multi-scale-attention"] if windows else []), *(["glue"] if task else [])],
            config_fields=MULTISCALE_FIELDS if self.multiscale else self.source.card_fields,
            carries_code=carries_code,
            language="en" if task or self.domain else None,
        )

    def card_splits(self) -> dict[str, str]:
        splits = {**super().card_splits(), "test_unseen": "test without what is in train"}
        if self.data_args.task_name == "mnli":
            official = "eval" if self.data_args.validation_split_percentage is None else "dev"
            splits |= {official: "validation_matched", f"{official}_mm": "validation_mismatched"}
        return splits

    @property
    def pairs(self) -> bool:
        """Whether an example has two texts."""
        return len(self.columns) == 2

    @property
    def _overrides(self) -> dict[str, Any]:
        """The configuration fields of `--head`."""
        head = self.head_args.head
        if head in (None, PLAIN):
            return {}
        return head_fields(self.model_args, {"fusion_layers": 0} if head == OLD_MEAN else HEADS[head])

    def _max_length(self, tokenizer: PreTrainedTokenizerBase) -> int | None:
        """The maximum number of tokens per example; `None` if the model has no limit."""
        args, wanted = self.data_args, self.data_args.max_seq_length
        if wanted is None:
            wanted = VERY_LARGE_INTEGER if most_tokens(self.source.config) is None else MAX_SEQ_LENGTH
        elif wanted <= tokenizer.num_special_tokens_to_add(pair=self.pairs):
            raise UserError(f"--max_seq_length {wanted} leaves no room for a word.")
        most = min(wanted, tokenizer.model_max_length)
        if args.max_seq_length is not None and most < wanted:
            logger.warning(f"--max_seq_length {wanted}: the model takes {most} tokens at most.")
        if most < VERY_LARGE_INTEGER:
            return most
        if args.pad_to_max_length:
            raise UserError("--pad_to_max_length needs --max_seq_length: the model takes any number of tokens.")
        return None

    def _description(self) -> str:
        if self.multiscale:
            return (
                "an encoder with multi-scale fusion self-attention, or without (`fusion_layers: 0` or `scales: ()` "
                "below), as a baseline,"
            )
        if self.source.fresh:
            return f"a model of the family `{self.source.config.model_type}`, trained from scratch,"
        return "a pre-trained encoder"


def sentence_metrics(prediction: EvalPrediction, task: str | None, regression: bool = False) -> dict[str, float]:
    """
    The metrics of a GLUE task, or of other classification and regression data.

    GLUE metrics have the names of the library `evaluate`; `combined_score` is their mean if there are several. Without
    a task: accuracy and macro-F1, or for regression Pearson and Spearman correlation, their mean and the mean squared
    error.

    Args:
        prediction (`EvalPrediction`): Logits of shape `(examples, labels)` and label ids or scores `(examples,)`.
        task (`str` or `None`): The GLUE task.
        regression (`bool`, *optional*, defaults to `False`): Whether the labels are scores.
    """
    answers = _answers(prediction.predictions, regression)
    references = prediction.label_ids
    if task is None and not regression:
        return {
            "accuracy": float(accuracy_score(references, answers)),
            "macro_f1": float(f1_score(references, answers, average="macro", zero_division=0)),
        }
    values = score_glue(task or "stsb", answers, references)
    if len(values) > 1:
        values["combined_score"] = float(np.mean(list(values.values())))
    if task is None:
        values["mse"] = float(mean_squared_error(references, answers))
    return values


def _answers(logits: np.ndarray, regression: bool) -> np.ndarray:
    return logits[:, 0] if regression else logits.argmax(axis=-1)


def _is_multiscale(args: MultiScaleArguments, head: str | None) -> bool:
    """
    Whether the model is multi-scale fusion or one of its baselines, by `--head` or else by the checkpoint.

    Raises:
        UserError: The model is the classifier of Transformers, and an argument of multi-scale fusion is given, the
            checkpoint is one of multi-scale fusion, or the family has no classifier in Transformers.
    """
    config = load_config(args)
    if head == OLD_MEAN:
        logger.warning(
            "--head bert is called mean. It pools otherwise than --head plain, the classifier of Transformers."
        )
    if head is None:
        classifies = any(name.endswith("ForSequenceClassification") for name in config.architectures or ())
        multiscale = config.model_type in COMPOSED_FAMILIES or (config.model_type == "bert" and not classifies)
    else:
        multiscale = head != PLAIN
    if multiscale:
        return True
    name = args.model_name_or_path
    for option in args.config_overrides():
        raise UserError(f"--{option} is for multi-scale fusion: give --head multiscale or one of its baselines.")
    if config.model_type in COMPOSED_FAMILIES:
        raise UserError(f"--head plain is the classifier of Transformers, and {name} has one of ours; leave it out.")
    if type(config) not in AutoModelForSequenceClassification._model_mapping and not hasattr(config, "auto_map"):
        raise UserError(
            f"{name}: Transformers has no sequence classifier for the family {config.model_type}; give another --head."
        )
    return False


def _usage(name: str, pair: bool, carries_code: bool) -> str:
    example = '{"text": "A man is eating.", "text_pair": "Someone eats."}' if pair else '"A man is eating."'
    return f'''{"import msattn" if carries_code else ""}
from transformers import pipeline

classify = pipeline("text-classification", model="{name}")
classify({example})'''.lstrip()


def _described(labels: Sequence[str] | None) -> str:
    if labels is None:
        return "a number (regression)"
    shown = ", ".join(labels[:10])
    return f"one of {len(labels)}: {shown}" + (", ..." if len(labels) > 10 else "")
