"""Runs an exported model in ONNX Runtime, as the pipelines run a model of torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, PreTrainedConfig
from transformers.modeling_outputs import SequenceClassifierOutput

from msattn.errors import UserError, extra
from msattn.modeling.pairwise_parsing import PairwiseParserOutput
from msattn.modeling.pairwise_scores import relations_of_arcs

MODEL = "model.onnx"
# Where the file names the inputs of the model, as the graph lacks those that do not matter.
INPUTS = "msattn_inputs"
# Before the column of a parser's tags, in the names of the outputs.
TAGS = "tag_logits."


class OnnxModel:
    """
    An exported model, on the processor. The pipelines of msattn and of Transformers take it like a model of torch.

    Args:
        folder (`str` or `Path`): A folder that `msattn export onnx` has written.
        threads (`int`, *optional*): Threads of ONNX Runtime. Default: one for each core.

    Raises:
        ImportError: onnxruntime is not installed.
        UserError: The folder has no model that msattn exported.

    Example:

    ```python
    >>> import msattn
    >>> from transformers import AutoTokenizer, pipeline

    >>> model = msattn.onnx.load("outputs/semeval-onnx")
    >>> tokenizer = AutoTokenizer.from_pretrained("outputs/semeval-onnx")
    >>> extractor = pipeline("relation-extraction", model=model, tokenizer=tokenizer, device="cpu")
    ```
    """

    device = torch.device("cpu")
    dtype = torch.float32
    input_modalities = "text"  # which pipelines print

    def __init__(self, folder: str | Path, threads: int | None = None):
        with extra("onnx"):
            import onnxruntime
        if not is_exported(folder):
            raise UserError(f"{folder}: there is no {MODEL}; write the folder by msattn export onnx MODEL FOLDER.")
        self.name_or_path, self.threads = str(folder), threads
        self.config: PreTrainedConfig = AutoConfig.from_pretrained(folder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or 0
        file = Path(folder) / MODEL
        try:
            self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of a class of its own for each reason
            raise UserError(f"{file}: the file is no model of ONNX ({error}).") from error
        properties = self.session.get_modelmeta().custom_metadata_map
        if INPUTS not in properties:
            raise UserError(f"{file}: the file is not of msattn export onnx; move it elsewhere or export the model.")
        self.inputs = properties[INPUTS].split(",")
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.forward = self._forward()

    def __reduce__(self) -> tuple:
        # Each process opens the file. Its time tells the caches of `datasets` that another model is there now.
        changed = (Path(self.name_or_path) / MODEL).stat().st_mtime_ns
        return load, (self.name_or_path, self.threads), {"changed": changed}

    def __call__(self, **inputs: Any) -> PairwiseParserOutput | SequenceClassifierOutput:
        """
        The outputs of the model that was exported.

        Args:
            **inputs: Its inputs, and for a parser `choose_heads`; see [`~msattn.PairwiseParser.forward`].

        Raises:
            UserError: An input is unknown, or attention is asked for.
        """
        return self.forward(**inputs)

    def to(self, device: Any) -> OnnxModel:
        """Does nothing: the model stays on the processor. Raises `UserError` for another device."""
        if torch.device(device) != self.device:
            raise UserError(f"{self.name_or_path}: an exported model runs on the cpu, not on {device}.")
        return self

    def eval(self) -> OnnxModel:
        """Does nothing: there is no training mode."""
        return self

    def can_generate(self) -> bool:
        """`False`, for pipelines that ask."""
        return False

    def _forward(self) -> Callable[..., Any]:
        parser = "arc_scores" in self.outputs

        def forward(**inputs: Any) -> PairwiseParserOutput | SequenceClassifierOutput:
            choose_heads = inputs.pop("choose_heads", None) if parser else None
            found = self._run(
                {
                    name: value
                    for name, value in inputs.items()
                    if value is not None and value is not False
                    if name in self.inputs or name != "token_type_ids"  # which DistilBERT's tokenizer gives
                }
            )
            if not parser:
                return SequenceClassifierOutput(logits=found["logits"])
            arcs, relations = found["arc_scores"], found["relation_logits"]
            if choose_heads is not None:
                relations = relations_of_arcs(relations, choose_heads(arcs).clamp_min(0))
            tags = {name.removeprefix(TAGS): logits for name, logits in found.items() if name.startswith(TAGS)}
            return PairwiseParserOutput(arc_scores=arcs, relation_logits=relations, tag_logits=tags or None)

        # Pipelines ask the signature what the model reads.
        keywords = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in self.inputs]
        forward.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
        return forward

    def _run(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if unknown := inputs.keys() - set(self.inputs):
            raise UserError(
                f"{self.name_or_path}: an exported model takes {', '.join(self.inputs)}, not {min(unknown)}."
            )
        used = [node.name for node in self.session.get_inputs()]
        arrays = {name: inputs[name].numpy().astype(np.int64) for name in used if name in inputs}
        return dict(zip(self.outputs, map(torch.from_numpy, self.session.run(None, arrays)), strict=True))


def is_exported(folder: str | Path) -> bool:
    """Whether a folder holds an exported model."""
    return (Path(folder) / MODEL).is_file()


def load(folder: str | Path, threads: int | None = None) -> OnnxModel:
    """Loads an exported model: an [`OnnxModel`], in a class of the name of the exported one."""
    model = OnnxModel(folder, threads)
    # Pipelines of Transformers complain of classes whose names they do not know.
    model.__class__ = type((model.config.architectures or ["OnnxModel"])[0], (OnnxModel,), {})
    return model
