"""Functions of `run_re.py`: heads, markers, the model card."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from transformers import PreTrainedConfig

from msattn.configuration.own_fields import OF_LABELS
from msattn.errors import UserError
from msattn.metrics import SEMEVAL_LABELS
from msattn.training.fusion import fusion_card_fields
from msattn.training.model_card import ModelCardFacts
from msattn.training.splits import split_names

# The values of --head: fusion and its baselines, and pairwise attention, which is another class.
HEADS = ("multiscale", "cls", "entity-start", "r-bert", "plain-attention", "pairwise")
# Configuration fields that a model card lists.
PAIRWISE_FIELDS = ("features", "scorer", "relation_size", "freeze_encoder", "attention_scale", "layer_mix")
ANSWER_FIELDS = ("problem_type", *OF_LABELS)
# Configuration fields that a training sets, and the flags for them.
SET_FIELDS = {
    **dict.fromkeys(ANSWER_FIELDS, ""),
    **{"negative_label": "--negative_label", "problem_type": "--multi_label", "entity_markers": "--entity_markers"},
}


def choose_markers(given: str | None, config: PreTrainedConfig, pairwise: bool, training: bool) -> str:
    """
    The style of the entity markers: the given one, that of the checkpoint, or plain.

    Raises:
        UserError: The model reads no markers, or has been trained with others.
    """
    stored = getattr(config, "entity_markers", None)
    if pairwise and given is not None:
        raise UserError("--entity_markers is not for --head pairwise.")
    if not training and given is not None and given != (stored or "plain"):
        raise UserError(f"--entity_markers {given}: the model has been trained with {stored or 'plain'} ones.")
    return "plain" if pairwise else given or stored or "plain"


def relation_card(config: Any, data_args: Any, labels: Sequence[str], negative: str | None) -> ModelCardFacts:
    """
    The facts for the model card of a relation extractor.

    Args:
        config (`PreTrainedConfig`): The configuration of the model.
        data_args (`RelationDataArguments`): Names the data.
        labels (`Sequence[str]`): All labels.
        negative (`str` or `None`): The label that stands for no relation.
    """
    official = set(labels) <= set(SEMEVAL_LABELS)
    without = "" if negative is None else f" without {negative}"
    reads, tag = _description(config)
    tails_of = (config.trained_pairs or {}).get("types") or {}
    types = next(((head, tail) for head, tails in tails_of.items() for tail in tails), None)
    fields = PAIRWISE_FIELDS if hasattr(config, "features") else (*fusion_card_fields(config), "entity_markers")
    return ModelCardFacts(
        task_type="relation-extraction",
        dataset_name=data_args.source,
        dataset_config=data_args.dataset_config_name,
        splits=split_names(data_args),
        metrics={
            "f1": "Official macro-F1" if official else f"Micro-F1{without}",
            **({"micro_f1": f"Micro-F1{without}"} if official else {}),
            "majority_f1": "The first score, of always naming the most frequent relation",
            "macro_f1": f"Macro-F1 over labels{without}",
            "precision": f"Precision{without}",
            "recall": f"Recall{without}",
            "accuracy": "Accuracy",
            "majority_accuracy": "Accuracy of the most frequent label",
            "auc": "Area under the precision-recall curve",
            "ece": "Expected calibration error (%)",
            "false_positives": "Scored pairs without a relation that get one (%)",
            "false_positive_rate": "Random unrelated pairs that get a relation (%)",
        },
        description=f"A relation extractor for {len(labels)} labels, between two marked entities: {reads}",
        usage=partial(_usage, types=types),
        tags=["relation-extraction", *tag],
        config_fields=(*fields, *ANSWER_FIELDS),
        carries_pipeline=True,
        language="en" if official else None,
    )


def _description(config: Any) -> tuple[str, list[str]]:
    """A description of the model, and the tag of its attention."""
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


def _usage(name: str, types: tuple[str, str] | None) -> str:
    if types:  # which markers or the rules for pairs want
        head, tail = types
        text = f"""{{
    "text": "The storm caused heavy damage.",
    "entities": [{{"text": "storm", "label": "{head}"}}, {{"text": "damage", "label": "{tail}"}}],
}}"""
    else:
        text = '"The <e1>storm</e1> caused heavy <e2>damage</e2>."'
    return f'''extract = pipeline("relation-extraction", model="{name}", trust_remote_code=True)
extract({text})'''
