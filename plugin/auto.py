"""Auto classes for the tasks that Transformers has none for."""

from __future__ import annotations

from collections import OrderedDict

import transformers.models.auto
from transformers.models.auto.auto_factory import _BaseAutoModelClass, _LazyAutoMapping
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES


class OneOf(tuple):
    """
    Classes for a configuration, of which a checkpoint's `architectures` names one; else it is the first.

    Early releases of Transformers 5 take every class that was registered for sentences by its name, in all their text
    classification, and fail at a plain tuple.
    """

    @property
    def __name__(self) -> str:
        return self[0].__name__


class AutoModelForRelationExtraction(_BaseAutoModelClass):
    """
    Loads the relation extraction model that a checkpoint or a configuration asks for, as the Auto classes of
    Transformers do: `from_pretrained`, `from_config` and `register` take the same arguments.

    Example:

    ```python
    >>> from msattn import AutoModelForRelationExtraction

    >>> model = AutoModelForRelationExtraction.from_pretrained("outputs/semeval")
    ```"""

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class AutoModelForDependencyParsing(_BaseAutoModelClass):
    """
    The same for dependency parsers.

    Example:

    ```python
    >>> from msattn import AutoModelForDependencyParsing

    >>> model = AutoModelForDependencyParsing.from_pretrained("outputs/ewt")
    ```"""

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


# Transformers looks here whether the name of an Auto class in a checkpoint's `auto_map` is one.
transformers.models.auto.AutoModelForRelationExtraction = AutoModelForRelationExtraction
transformers.models.auto.AutoModelForDependencyParsing = AutoModelForDependencyParsing
