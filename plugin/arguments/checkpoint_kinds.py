"""Says what a checkpoint is, for the message that it is not the one that a script needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedConfig

# Scripts by the end of the names of the classes that they train.
SCRIPTS = {
    "ForMultiScaleRE": "run_re.py",
    "ForRelationExtraction": "run_re.py",
    "ForRelationClassification": "run_re.py",
    "Parser": "run_parsing.py",
    "TokenClassification": "run_tagging.py",
    "SequenceClassification": "run_glue.py or run_ranking.py",
}


def checkpoint_kind(config: PreTrainedConfig) -> str:
    """A checkpoint's class and family, its labels, and the script that makes such a checkpoint."""
    architecture = (config.architectures or ["a model without a head"])[0]
    script = next((script for end, script in SCRIPTS.items() if architecture.endswith(end)), None)
    kind = f"{architecture} of the family {config.model_type}"
    return f"{kind}, {_labels(config.id2label)}, as {script} makes" if script else kind


def expected_kind(model_class: type, overrides: Mapping[str, Any]) -> str:
    """What a script loads: the class and, if it names them, the labels."""
    labels = overrides.get("id2label")
    return f"{model_class.__name__}{'' if labels is None else f', {_labels(labels)}'}"


def _labels(names: Mapping[Any, str] | None) -> str:
    labels = list(map(str, (names or {}).values()))
    shown = ", ".join(label[:30] for label in labels[:3])
    more = ", ..." if len(labels) > 3 else ""
    return f"with {len(labels)} label{'s' * (len(labels) != 1)} ({shown}{more})"
