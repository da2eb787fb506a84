"""Registration in Transformers: Auto classes, attention implementations and pipelines."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module, util
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import transformers.models.auto
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
)
from transformers.models.auto.auto_factory import _BaseAutoModelClass, _LazyAutoMapping
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from msattn.configuration.configuration_bert_pairwise import BertPairwiseConfig
from msattn.configuration.configuration_bilstm import BiLSTMConfig
from msattn.configuration.configuration_ms_transformer import MSTransformerConfig
from msattn.configuration.configuration_multiscale import MultiScaleConfig
from msattn.configuration.configuration_multiscale_bert import MultiScaleBertConfig
from msattn.configuration.configuration_pairwise import PairwiseConfig
from msattn.errors import UserError


class AutoModelForRelationExtraction(_BaseAutoModelClass):
    """
    Auto class for relation extraction. Loads the model class that a checkpoint or configuration names.

    It has `from_pretrained`, `from_config` and `register` like all Auto classes of Transformers.

    Example:

    ```python
    >>> from msattn import AutoModelForRelationExtraction

    >>> model = AutoModelForRelationExtraction.from_pretrained("outputs/semeval")
    ```
    """

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class AutoModelForDependencyParsing(_BaseAutoModelClass):
    """
    Auto class for dependency parsing; see [`AutoModelForRelationExtraction`].

    Example:

    ```python
    >>> from msattn import AutoModelForDependencyParsing

    >>> model = AutoModelForDependencyParsing.from_pretrained("outputs/ewt")
    ```
    """

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


# By the end of the name of a model class.
AUTO_CLASSES: Mapping[str, type[_BaseAutoModelClass]] = {
    "Parser": AutoModelForDependencyParsing,
    "ForMultiScaleRE": AutoModelForRelationExtraction,
    "ForRelationExtraction": AutoModelForRelationExtraction,
    "ForRelationClassification": AutoModelForRelationExtraction,
    "ForMultiScaleSequenceClassification": AutoModelForSequenceClassification,
    "ForTokenClassification": AutoModelForTokenClassification,
    "ForSequenceClassification": AutoModelForSequenceClassification,
}


def auto_class_of(config: PreTrainedConfig, name: str) -> type[_BaseAutoModelClass]:
    """
    The Auto class of the task that a checkpoint is for.

    Args:
        config (`PreTrainedConfig`): Its configuration.
        name (`str`): Its name, for the error message.

    Raises:
        UserError: It has no classifier and is no parser.
    """
    architecture = (config.architectures or ["model without a head"])[0]
    for end, auto_class in AUTO_CLASSES.items():
        if architecture.endswith(end):
            return auto_class
    raise UserError(f"{name}: a {architecture} predicts nothing; give a checkpoint that msattn train has made.")


class Models(tuple):
    """
    The names of model classes, `FILE.CLASS`, that Transformers reads as classes. They are imported on first use.

    Of several, Transformers takes the one that the checkpoint's `architectures` names, or else the first.
    """

    def __iter__(self) -> Iterator[type]:
        for name in super().__iter__():
            file, _, model = name.partition(".")
            yield getattr(import_module(f"msattn.modeling.{file}"), model)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


# The model classes of each family by Auto class, the default first. They are in `modeling_<model_type>.py`.
FAMILIES: Mapping[type[PreTrainedConfig], Mapping[type[_BaseAutoModelClass], str]] = {
    MultiScaleConfig: {
        AutoModel: "MultiScaleModel",
        AutoModelForRelationExtraction: "MultiScaleForRelationExtraction",
        AutoModelForSequenceClassification: "MultiScaleForSequenceClassification MultiScaleForRelationExtraction",
        AutoModelForTokenClassification: "MultiScaleForTokenClassification",
    },
    MultiScaleBertConfig: {
        AutoModel: "MultiScaleBertModel",
        AutoModelForRelationExtraction: "BertForMultiScaleRE",
        AutoModelForSequenceClassification: "BertForMultiScaleSequenceClassification BertForMultiScaleRE",
    },
    PairwiseConfig: {
        AutoModel: "PairwiseParser PairwiseForRelationClassification",
        AutoModelForDependencyParsing: "PairwiseParser",
        AutoModelForRelationExtraction: "PairwiseForRelationClassification",
        AutoModelForSequenceClassification: "PairwiseForRelationClassification",
    },
    BertPairwiseConfig: {
        AutoModel: "BertPairwiseParser BertPairwiseForRelationClassification",
        AutoModelForDependencyParsing: "BertPairwiseParser",
        AutoModelForRelationExtraction: "BertPairwiseForRelationClassification",
        AutoModelForSequenceClassification: "BertPairwiseForRelationClassification",
    },
    MSTransformerConfig: {
        AutoModel: "MSTransformerModel",
        AutoModelForSequenceClassification: "MSTransformerForSequenceClassification",
        AutoModelForTokenClassification: "MSTransformerForTokenClassification",
    },
    BiLSTMConfig: {
        AutoModel: "BiLSTMModel",
        AutoModelForSequenceClassification: "BiLSTMForSequenceClassification",
        AutoModelForTokenClassification: "BiLSTMForTokenClassification",
    },
}


def register() -> None:
    """
    Registers all model families, attention implementations and pipelines in Transformers. It is idempotent.

    What Transformers imports for models and for pipelines takes longer than all else here, so these two wait until it
    does.
    """
    for auto_class in (AutoModelForRelationExtraction, AutoModelForDependencyParsing):
        # Transformers looks up the Auto classes in a checkpoint's `auto_map` here.
        setattr(transformers.models.auto, auto_class.__name__, auto_class)
    for config, models in FAMILIES.items():
        AutoConfig.register(config.model_type, config, exist_ok=True)
        for auto_class, names in models.items():
            files = (f"modeling_{config.model_type}.{name}" for name in names.split())
            auto_class.register(config, Models(files), exist_ok=True)
    # The adapters are models, which need `modeling_layers`; it imports `modeling_utils` before it is whole.
    _when_imported("transformers.modeling_layers", _register_attention)
    for name in ("transformers.modeling_utils", "transformers.processing_utils"):
        _when_imported(name, _import_layers)
    _when_imported("transformers.pipelines", _register_pipelines)


def _import_layers() -> None:
    # Layers import `processing_utils`, which imports `modeling_utils`: the one that is whole last imports them.
    models, processors = (sys.modules.get(f"transformers.{name}_utils") for name in ("modeling", "processing"))
    if models is not None and (processors is None or hasattr(processors, "ProcessorMixin")):
        import_module("transformers.modeling_layers")


def _register_attention() -> None:
    from msattn.modeling import attention

    attention.register()  # again, should a checkpoint from the Hub have brought its own


def _register_pipelines() -> None:
    from transformers.pipelines import PIPELINE_REGISTRY

    from msattn.pipelines.dependency_parsing import DependencyParsingPipeline
    from msattn.pipelines.relation_extraction import RelationExtractionPipeline

    for task, pipeline, auto_class in (
        ("relation-extraction", RelationExtractionPipeline, AutoModelForRelationExtraction),
        ("dependency-parsing", DependencyParsingPipeline, AutoModelForDependencyParsing),
    ):
        if task not in PIPELINE_REGISTRY.get_supported_tasks():
            PIPELINE_REGISTRY.register_pipeline(task, pipeline, pt_model=auto_class, type="text")
            # Otherwise saved pipelines would ship their code and require trust_remote_code, though they import msattn.
            del pipeline._registered_impl


def _when_imported(name: str, action: Callable[[], Any]) -> None:
    """Calls `action` once the module is imported: now, or by the import system."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _AfterImport(name, action))


class _AfterImport(MetaPathFinder):
    def __init__(self, name: str, action: Callable[[], Any]):
        self.name, self.action = name, action

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_act(module: ModuleType) -> None:
            run(module)
            self.action()

        spec.loader.exec_module = run_and_act  # type: ignore[method-assign]
        return spec
