"""What `run_re.py` knows of relation extraction: heads, labels, files of predictions, the model card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from msattn.data.negative_label import find_negative_label
from msattn.errors import UserError
from msattn.metrics import SEMEVAL_LABELS, score_semeval
from msattn.metrics.relation_reports import confusion_table, relation_report
from msattn.training.model_card import ModelCardFacts

# Configuration fields of the models in Table 1 of the multi-scale fusion paper, and of a control without phrases.
HEADS: dict[str, dict[str, Any]] = {
    "multiscale": {},
    "cls": {"fusion_layers": 0, "pooling": "cls"},
    "entity-start": {"fusion_layers": 0, "pooling": "entity_start"},
    "plain-attention": {"scales": (), "mask_mode": "none"},
}
# Their names in version 0.1.
OLD_HEADS = {"bert": "cls", "bert-entity": "entity-start"}
# Selects the pairwise-attention relation classifier, a different model class.
PAIRWISE = "pairwise"
# The label of pairs that --negative_pairs draws.
NO_RELATION = "no_relation"
# Configuration fields that a model card lists.
FUSION_FIELDS = (
    *("scales", "mask_mode", "mask_temperature", "conv_alignment", "fusion_heads", "fusion_layers"),
    *("fusion_residual", "renormalize", "pooling"),
)
PAIRWISE_FIELDS = ("features", "scorer", "relation_size", "freeze_encoder", "attention_scale", "layer_mix")
ANSWER_FIELDS = ("negative_label", "calibration_temperature", "decision_threshold")


def fusion_fields(head: str | None, config: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """
    The configuration fields of a fusion `--head`.

    Args:
        head (`str` or `None`): One of `HEADS`; `None` keeps the checkpoint's.
        config (`PreTrainedConfig`): The checkpoint's, which may be a baseline without fusion layers.
        given (`Mapping[str, Any]`): The fields of `--config_overrides`.

    Raises:
        UserError: The head needs phrases, and neither `given` nor the checkpoint has scales.
    """
    fields = HEADS[head] if head else {}
    if head is None or "fusion_layers" in fields:
        return dict(fields)
    if "scales" not in fields and not given.get("scales", getattr(config, "scales", True)):
        raise UserError(f"{config.name_or_path}: the model attends to words only; give --config_overrides scales=[3].")
    layers = given.get("fusion_layers", getattr(config, "fusion_layers", 1))
    return {**fields, "fusion_layers": max(1, layers)}


def read_labels(path: str) -> list[str]:
    """
    The labels of a `--label_file`, in the order of their ids.

    Args:
        path (`str`): A JSON list of labels, or an object from label to id.

    Raises:
        UserError: The file holds something else.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        labels = sorted(content, key=content.__getitem__) if isinstance(content, dict) else list(content)
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: expected a JSON list of labels, or an object from label to id ({error}).") from None
    if not labels or not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
        raise UserError(f"{path}: expected different labels, each a string.")
    return labels


def read_label_names(path: str | None) -> dict[str, str]:
    """
    New names of labels: `{"P177": "crosses"}`, or FewRel's `{"P177": ["crosses", description]}`. Empty without a file.

    Raises:
        UserError: The file holds something else, or two labels have the same name.
    """
    if path is None:
        return {}
    content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    names = {label: name[0] if isinstance(name, list) and name else name for label, name in dict(content).items()}
    if not names or not all(isinstance(name, str) and name for name in names.values()):
        raise UserError(f'{path}: expected a JSON object from label to name, such as {{"P177": "crosses"}}.')
    if len(set(names.values())) < len(names):
        raise UserError(f"{path}: two labels have the same name.")
    return names


def choose_negative(labels: Sequence[str], given: str | None, stored: str | None, draws: bool) -> str | None:
    """
    The label that stands for no relation.

    Args:
        labels (`Sequence[str]`): All labels.
        given (`str` or `None`): `--negative_label`; an empty one says that there is none.
        stored (`str` or `None`): That of the checkpoint.
        draws (`bool`): Whether `--negative_pairs` draws pairs with the label `no_relation`.

    Returns:
        `str` or `None`: The given one, that of the checkpoint, or the one with such a meaning ("Other", "none", ...).

    Raises:
        UserError: The given label is none of the labels, or it is not clear which one it is.
    """
    if given is None and draws and stored in labels and stored != NO_RELATION:
        raise UserError(
            f"--negative_pairs draws the label {NO_RELATION!r}, and {stored!r} stands for no relation in the "
            "checkpoint; name one of them with --negative_label."
        )
    if given is None and (stored in labels or (stored == "" and not draws)):
        given = stored
    if given and given not in labels:
        raise UserError(f"--negative_label {given}: not one of the labels {', '.join(labels)}.")
    return find_negative_label(labels) if given is None else given or None


def write_relation_predictions(
    folder: Path,
    prefix: str,
    examples: Dataset,
    answers: Sequence[str],
    probabilities: np.ndarray,
    labels: Sequence[str],
    negative: str | None,
) -> None:
    """
    Writes `<prefix>_predictions.tsv` and `.jsonl`; with labels, also writes `<prefix>_report.txt` and
    `<prefix>_confusion.tsv`, and prints the table of the report.

    Args:
        folder (`Path`): The folder.
        prefix (`str`): The prefix of the split, such as `"test"`.
        examples (`datasets.Dataset`): The examples as read.
        answers (`Sequence[str]`): The predicted label of each example.
        probabilities (`np.ndarray` of shape `(examples, labels)`): Their probabilities.
        labels (`Sequence[str]`): All labels in the order of their ids.
        negative (`str` or `None`): The label that stands for no relation.
    """
    lines = [f"{identifier}\t{label}\n" for identifier, label in zip(examples["id"], answers, strict=True)]
    (folder / f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
    with open(folder / f"{prefix}_predictions.jsonl", "w", encoding="utf-8") as file:
        for example, label, row in zip(examples, answers, probabilities, strict=True):
            probability = round(float(row[labels.index(label)]), 6)
            file.write(json.dumps(_predicted(example, label, probability), ensure_ascii=False) + "\n")
    references = examples["label"][:]
    if references[0] is None:
        return
    if set(labels) <= set(SEMEVAL_LABELS):
        scores = score_semeval(answers, references)
        report, shown = scores.report(), scores.official.report()
    else:
        report = shown = relation_report(answers, references, negative)
    (folder / f"{prefix}_report.txt").write_text(report, encoding="utf-8")
    (folder / f"{prefix}_confusion.tsv").write_text(confusion_table(answers, references), encoding="utf-8")
    print(f"{prefix}\n{shown}")


def relation_card(
    config: Any, source: str, labels: Sequence[str], negative: str | None, splits: Mapping[str, str]
) -> ModelCardFacts:
    """
    What the model card says of a relation extractor.

    Args:
        config (`PreTrainedConfig`): The configuration of the model.
        source (`str`): The name of the training data.
        labels (`Sequence[str]`): All labels.
        negative (`str` or `None`): The label that stands for no relation.
        splits (`Mapping[str, str]`): The names of the scored splits by prefix.
    """
    official = set(labels) <= set(SEMEVAL_LABELS)
    without = "" if negative is None else f" without {negative}"
    reads, tag = _description(config)
    fields = PAIRWISE_FIELDS if hasattr(config, "features") else (*FUSION_FIELDS, "entity_markers")
    return ModelCardFacts(
        # No pipeline_tag: the Hub has none for relation extraction, and other widgets cannot mark entities.
        task_type="relation-extraction",
        task_name="Relation Extraction",
        dataset_type=source,
        dataset_name=source,
        splits=splits,
        metrics={
            "f1": "Official macro-F1" if official else f"Micro-F1{without}",
            **({"micro_f1": f"Micro-F1{without}"} if official else {}),
            "macro_f1": f"Macro-F1 over labels{without}",
            "accuracy": "Accuracy",
            "auc": "Area under the precision-recall curve",
            "ece": "Expected calibration error (%)",
            "false_positive_rate": "Random unrelated pairs that get a relation (%)",
        },
        description=f"A relation extractor for {len(labels)} labels, between two marked entities: {reads}",
        usage=_usage,
        tags=["relation-extraction", *tag],
        config_fields=(*fields, *ANSWER_FIELDS),
        carries_pipeline=True,
        language="en" if official else None,
    )


def _predicted(example: Mapping[str, Any], label: str, probability: float) -> dict[str, Any]:
    """A line of the file of predictions."""
    entities = {
        role: {
            "start": example[role][0],
            "end": example[role][1],
            "text": example["text"][slice(*example[role])],
            **({"label": example[f"{role}_type"]} if example[f"{role}_type"] else {}),
        }
        for role in ("head", "tail")
    }
    known = {"id": example["id"], "text": example["text"], **entities, "gold": example["label"]}
    return {**known, "prediction": label, "probability": probability}


def _description(config: Any) -> tuple[str, list[str]]:
    """What a model reads, and the tag of its attention."""
    if hasattr(config, "features"):
        if "att" not in config.features:
            return "an encoder whose hidden states of both entities are the features.", []
        beside = " beside their hidden states" if "emb" in config.features else ""
        return (
            f"an encoder whose attention between them, in all layers and heads, is a feature{beside}.",
            ["pairwise-attention"],
        )
    if not config.fusion_layers:
        return "an encoder under a classifier, without fusion attention.", []
    if not config.scales:
        return "an encoder with self-attention above it, without phrases: a baseline.", []
    return "an encoder with multi-scale fusion self-attention.", ["multi-scale-attention"]


def _usage(name: str) -> str:
    return f'''from transformers import pipeline

extract = pipeline("relation-extraction", model="{name}", trust_remote_code=True)
extract("The <e1>storm</e1> caused heavy <e2>damage</e2>.")'''
