"""Base of all configurations of this package, before one of Transformers."""

from dataclasses import fields
from typing import Any

from transformers.utils import logging

logger = logging.get_logger(__name__)

# What a training finds for the labels of a classifier.
OF_LABELS = (
    "negative_label",
    "calibration_temperature",
    "decision_threshold",
    "relation_thresholds",
    "trained_pairs",
)


class OwnFields:
    """
    Comes before a configuration class of Transformers. New fields are checked where `from_pretrained` is given them.
    So are the fields that change answers: the labels, the temperature and the threshold. The pipelines that a
    checkpoint brings along (`custom_pipelines`) are hidden where this package is installed: `pipeline` would ask for
    `trust_remote_code=True` otherwise, although the package has the same pipelines.

    Where `from_pretrained` is given other labels, what was fitted to those of the checkpoint is left out, and named.
    """

    def __post_init__(self, **kwargs):
        # Where several models share an Auto class, Transformers iterates over `architectures`.
        self.architectures: list[str] = self.architectures or []
        super().__post_init__(**kwargs)  # type: ignore[misc]

    def validate_answers(self):
        """Part of the `@strict` validation, which runs on construction."""
        numbers = sorted(getattr(self, "id2label", None) or ())
        if numbers != [*range(len(numbers))]:
            raise ValueError(f"id2label must name the numbers from 0 on, got {numbers}")
        temperature = getattr(self, "calibration_temperature", None)
        if temperature is not None and not (isinstance(temperature, (int, float)) and 0 < temperature < float("inf")):
            raise ValueError(f"calibration_temperature must be above 0 and finite, got {temperature!r}")
        threshold = getattr(self, "decision_threshold", None)
        if threshold is not None and not (isinstance(threshold, (int, float)) and 0 <= threshold <= 1):
            raise ValueError(f"decision_threshold must be from 0 to 1, got {threshold!r}")
        thresholds = getattr(self, "relation_thresholds", None) or {}
        if wrong := [name for name, each in thresholds.items() if not 0 <= each <= 1]:
            raise ValueError(f"relation_thresholds must be from 0 to 1, got {thresholds[wrong[0]]!r} for {wrong[0]!r}")

    @property
    def custom_pipelines(self) -> dict[str, Any]:
        is_remote = __name__.startswith("transformers_modules.")
        return vars(self).get("custom_pipelines", {}) if is_remote else {}

    @custom_pipelines.setter
    def custom_pipelines(self, pipelines: dict[str, Any]) -> None:
        vars(self)["custom_pipelines"] = pipelines

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        # Transformers sets the arguments of `from_pretrained` one by one after construction: too late for validation.
        base = next(one for one in cls.__mro__ if one.__module__.startswith("transformers."))
        new = {field.name for field in fields(cls)} - {field.name for field in fields(base)}  # type: ignore[arg-type]
        own = {name: kwargs.pop(name) for name in new & kwargs.keys()}
        stored = _by_number(config_dict.get("id2label") or {0: "LABEL_0", 1: "LABEL_1"})  # the default is not stored
        given = _by_number(kwargs.get("id2label") or stored)
        if given != stored or (kwargs.get("num_labels") or len(stored)) != len(stored):
            own |= {name: None for name in OF_LABELS if name in config_dict}
            if lost := [name for name in OF_LABELS if config_dict.get(name) is not None and name not in kwargs]:
                logger.warning(
                    f"Other labels than the checkpoint's are given, which leaves out its {', '.join(lost)}; where "
                    "from_pretrained only renames labels, give it these, too."
                )
        return super().from_dict(config_dict | own, **kwargs)  # type: ignore[misc]


def _by_number(labels: dict) -> dict[int, str]:
    return {int(number): label for number, label in labels.items()}
