"""Writes a model as ONNX, beside its tokenizer and configuration, and compares the two."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch.export import Dim
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.configuration.max_tokens import most_tokens
from msattn.errors import UserError, extra
from msattn.onnx.runtime import INPUTS, MODEL, OnnxModel
from msattn.writing import write_whole

# Sentences, tokens and pairs of the batches that are compared. The first is the one that is traced.
BATCHES = ((2, 16, 2), (1, 7, 1), (5, 40, 3))
# The largest difference of an exported output that is rounding, in units of the largest output.
ROUNDING = 1e-4
# Where a model has no limit of its own.
MOST_TOKENS = 4096
# Of weights: the format of the file, protobuf, holds less.
MOST_BYTES = 2**31


class Parity(NamedTuple):
    """
    How an exported model compares with the one of torch, on random tokens.

    Args:
        difference (`float`): The largest difference of an output, in units of the largest output.
        agreement (`float`): The share of equal answers: classes, or heads of words; from 0 to 1.
        answers (`int`): The number of answers that were compared; 0 for a model with one output, which has no classes.
    """

    difference: float
    agreement: float
    answers: int


def export(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path, int8: bool = False
) -> Parity:
    """
    Writes `model.onnx`, the configuration and the tokenizer into a folder.

    Args:
        model (`PreTrainedModel`):
            A classifier of texts, words or relations, or a parser. It is left on the CPU, in float32 and in evaluation
            mode.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        folder (`str` or `Path`): The folder; created if needed.
        int8 (`bool`, *optional*, defaults to `False`):
            Whether to store the weights of linear layers as 8-bit integers and to multiply in them.

    Returns:
        `Parity`: The comparison with `model`.

    Raises:
        ImportError: A package of the extra `onnx` is not installed.
        UserError: The model has a CRF or 2 GB of weights, cannot be exported, or answers otherwise in ONNX, or the
            folder has the weights of a model, which would no longer be read.
    """
    with extra("onnx"):
        import onnx
        import onnxruntime.quantization  # noqa: F401
        import onnxscript  # noqa: F401
    if getattr(model.config, "crf", False):
        raise UserError("a tagger with a CRF is tied to one length of sentences and cannot be exported.")
    folder = Path(folder)
    if any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin")):
        raise UserError(f"{folder}: the folder has the weights of a model; give another one.")
    size = sum(weight.numel() for weight in model.parameters()) * 4
    if size >= MOST_BYTES:
        raise UserError(
            f"the weights have {size / 2**30:.1f} GB in float32, and a file of ONNX holds less than "
            f"{MOST_BYTES >> 30} GB."
        )
    folder.mkdir(parents=True, exist_ok=True)
    model = model.cpu().float().eval()
    inputs = [random_inputs(model, tokenizer, *sizes) for sizes in BATCHES]
    with torch.no_grad():
        expected = [_tensors(model(**given)) for given in inputs]
    program = _exported(model, inputs[0], [*expected[0]])
    onnx.helper.set_model_props(program, {INPUTS: ",".join(inputs[0])})
    content = program.SerializeToString()
    write_whole(folder / MODEL, _in_8_bits(content) if int8 else content)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    parity = _compare(OnnxModel(folder, threads=1), inputs, expected)
    if not int8 and not parity.difference <= ROUNDING:
        raise UserError(
            f"{folder / MODEL}: the exported model differs by {parity.difference:.2g} of the largest output; do not "
            "use it, and report the model."
        )
    return parity


def random_inputs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    batch: int,
    tokens: int,
    pairs: int,
    padded: bool = True,
) -> dict[str, torch.Tensor]:
    """
    Inputs of a model: random tokens, and two entities of one or two tokens in each pair.

    Args:
        model (`PreTrainedModel`): The model.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer, for the vocabulary.
        batch (`int`): Number of sentences.
        tokens (`int`): Tokens per sentence, at least 4.
        pairs (`int`): Pairs of entities per sentence, for models that take several.
        padded (`bool`, *optional*, defaults to `True`): Whether the last of several sentences is one third shorter.
    """
    generator = torch.Generator().manual_seed(tokens)
    real = torch.ones(batch, tokens, dtype=torch.long)
    if padded:
        real[1:][-1:, tokens - tokens // 3 :] = 0
    given = {"input_ids": torch.randint(len(tokenizer), (batch, tokens), generator=generator), "attention_mask": real}
    names = inspect.signature(model.forward).parameters
    if "token_type_ids" in tokenizer.model_input_names and "token_type_ids" in names:
        given["token_type_ids"] = torch.zeros_like(real)
    if "word_index" in names:
        # Each piece but the first and the last is a word.
        words = torch.arange(tokens).expand(batch, tokens)
        last = words == real.sum(dim=1, keepdim=True) - 1
        outside = last | (real == 0) | ((words == 0) & (getattr(model.config, "root", "token") == "learned"))
        given["word_index"] = words.masked_fill(outside, -1)
    if "entity_starts" in names:
        given["entity_starts"] = torch.tensor([[1, 3]]).repeat(batch, 1)
    if "entity_ends" in names and getattr(model, "pooling", None) == "r_bert":
        given["entity_ends"] = torch.tensor([[2, 5]]).repeat(batch, 1)
    if "entity_pieces" in names:
        given["entity_pieces"] = torch.tensor([[1, 2], [3, -1]]).repeat(batch, 1, 1)
        given["entity_pairs"] = torch.tensor([[0, 1]]).repeat(batch, pairs, 1)
    return given


def _tensors(outputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The outputs by the names that the graph gives them: `tag_logits.upos` is one of the tags of a parser."""
    found: dict[str, torch.Tensor] = {}
    for name, value in outputs.items():
        if isinstance(value, dict):
            found |= _tensors({f"{name}.{key}": inner for key, inner in value.items()})
        elif isinstance(value, torch.Tensor):
            found[name] = value
        else:
            raise UserError(f"the model returns {name} as {type(value).__name__}, which cannot be exported.")
    return found


def _exported(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], outputs: list[str]) -> Any:
    most = min(most_tokens(model.config) or MOST_TOKENS, MOST_TOKENS)
    batch, tokens = Dim("batch", max=4096), Dim("tokens", min=4, max=most)
    shapes: dict[str, dict[int, Any]] = {name: {0: batch, 1: tokens} for name in inputs}
    shapes |= {name: {0: batch} for name in ("entity_starts", "entity_ends") if name in inputs}
    if "entity_pieces" in inputs:
        shapes["entity_pieces"] = {0: batch, 1: Dim("entities", min=2, max=4096), 2: Dim("pieces", max=most)}
        shapes["entity_pairs"] = {0: batch, 1: Dim("pairs", max=4096)}
    try:
        with _quiet():
            program = torch.export.export(model, (), dict(inputs), dynamic_shapes=shapes, strict=False)
            exported: Any = torch.onnx.export(program, dynamo=True, verbose=False, output_names=outputs)
            return exported.model_proto
    except Exception as error:  # of many classes, none of them for users
        raise UserError(f"the {type(model).__name__} cannot be exported ({error}).") from error


def _in_8_bits(program: bytes) -> bytes:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory() as folder, _quiet():
        path = Path(folder, MODEL)
        try:
            write_whole(path, program)
            # A scale for each column: with one for the whole matrix, a parser loses 0.7 points more. A reduced range,
            # of 7 bits: sums of two 8-bit products overflow 16 bits on processors without VNNI.
            quantize_dynamic(path, path, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
        except Exception as error:  # that of protobuf, if half of a file was written
            raise UserError(
                f"the model cannot be stored in 8-bit integers ({error}); {folder} needs room for two copies of it."
            ) from error
        return path.read_bytes()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings: of torchvision, which no model of text needs, and of steps that change nothing here."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _compare(exported: OnnxModel, inputs: list[dict], expected: list[dict[str, torch.Tensor]]) -> Parity:
    differences, same, answers = [], 0, 0
    for given, reference in zip(inputs, expected, strict=True):
        found = _tensors(exported(**given))
        for name, values in reference.items():
            possible = values > -1e3  # no arc has -10,000
            scale = values[possible].abs().max().clamp_min(torch.finfo(values.dtype).tiny)
            differences.append((found[name] - values)[possible].abs().max() / scale)
        if "arc_scores" in reference:
            own, theirs = (scores["arc_scores"][:, :, 1:].argmax(dim=1) for scores in (found, reference))
        elif reference["logits"].shape[-1] == 1:
            continue
        else:
            own, theirs = (scores["logits"].argmax(dim=-1) for scores in (found, reference))
        same, answers = same + int((own == theirs).sum()), answers + own.numel()
    # The greatest number of torch is NaN if any is; that of Python may hide it.
    return Parity(float(torch.stack(differences).max()), same / max(answers, 1), answers)
