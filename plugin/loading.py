"""Loads a checkpoint to answer with it: whole, or not at all."""

from __future__ import annotations

from typing import Any, NamedTuple

from transformers import Pipeline, PreTrainedTokenizerBase, pipeline

from msattn.auto import auto_class_of
from msattn.command_line import user_mistakes
from msattn.errors import UserError
from msattn.onnx.runtime import is_exported, load
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import load_config, load_model, load_tokenizer


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


def load_trained(name: str, fallback: Any = None) -> Trained:
    """
    Loads a fine-tuned checkpoint, or one that `msattn export` has written.

    Args:
        name (`str`): A folder, or a name on the Hub.
        fallback (`type`, *optional*): The Auto class of checkpoints without a task. Default: they are refused.

    Raises:
        UserError: The checkpoint cannot be loaded, has no task, lacks weights or embeddings of its tokenizer, or is of
            a subclass of one of ours.
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
            if len(tokenizer) > (getattr(config, "vocab_size", None) or len(tokenizer)):
                raise UserError(f"{name}: the model has no embeddings of some tokens; give it its own tokenizer.")
            return Trained(auto_class, load(name), tokenizer)
        return Trained(
            auto_class, load_model(auto_class, source, tokenizer, refuse_new_weights=True).eval(), tokenizer
        )


def load_pipeline(task: str, name: str) -> Pipeline:
    """
    Loads the pipeline of a fine-tuned checkpoint, or of one that `msattn export` has written.

    Args:
        task (`str`): The task, such as `"dependency-parsing"`.
        name (`str`): A folder, or a name on the Hub.

    Raises:
        UserError: As for [`load_trained`]; or the checkpoint is of another task.
    """
    _, model, tokenizer = load_trained(name)
    device = "cpu" if is_exported(name) else None  # where an exported model runs
    return pipeline(task, model=model, tokenizer=tokenizer, device=device)
