"""Loads a checkpoint to answer with it: whole, or not at all."""

from __future__ import annotations

from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from msattn.auto import auto_class_of
from msattn.command_line import user_mistakes
from msattn.errors import UserError
from msattn.onnx.runtime import OnnxModel, is_exported
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import load_config, load_tokenizer


class Trained(NamedTuple):
    """
    A checkpoint that answers.

    Args:
        auto_class (`type`): The Auto class of its task.
        model (`PreTrainedModel` or `OnnxModel`): The model, in evaluation mode.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
    """

    auto_class: type
    model: Any
    tokenizer: PreTrainedTokenizerBase


def load_trained(name: str, fallback: type | None = None) -> Trained:
    """
    Loads a fine-tuned checkpoint, or one that `msattn export` has written.

    Args:
        name (`str`): A folder, or a name on the Hub.
        fallback (`type`, *optional*): The Auto class of checkpoints without a task. Default: they are refused.

    Raises:
        UserError: The checkpoint cannot be loaded, has no task, or lacks weights or embeddings of its tokenizer.
    """
    source = ModelArguments(model_name_or_path=name)
    with user_mistakes():
        config = load_config(source)
        tokenizer = load_tokenizer(source, config)
        try:
            auto_class = auto_class_of(config, name)
        except UserError:
            if fallback is None:
                raise
            return Trained(fallback, fallback.from_pretrained(name).eval(), tokenizer)
        if is_exported(name):
            return Trained(auto_class, OnnxModel(name), tokenizer)
        model, loading = auto_class.from_pretrained(name, output_loading_info=True)
    refuse_missing_weights(name, loading)
    known = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > known:
        raise UserError(f"{name}: the tokenizer has {len(tokenizer)} tokens, and the model knows {known} of them.")
    return Trained(auto_class, model.eval(), tokenizer)


def refuse_missing_weights(name: str, loading: dict[str, Any]) -> None:
    """
    Refuses a checkpoint that would answer at random.

    Args:
        name (`str`): The checkpoint.
        loading (`dict[str, Any]`): What `from_pretrained(..., output_loading_info=True)` returns beside the model.

    Raises:
        UserError: The checkpoint lacks weights of the model.
    """
    if missing := sorted(loading["missing_keys"]):
        raise UserError(
            f"{name}: the checkpoint lacks {missing[0]} and {len(missing) - 1} other weights, which would be random; "
            "give one that was fine-tuned for the task."
        )
