"""The checkpoints behind the page, by what they find in a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    Pipeline,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    pipeline,
)

from msattn.auto import AutoModelForDependencyParsing, AutoModelForRelationExtraction
from msattn.errors import UserError
from msattn.loading import load_trained
from msattn.pipelines.word_tagger import WordTagger

TASKS: Mapping[Any, str] = {
    AutoModelForRelationExtraction: "relation-extraction",
    AutoModelForDependencyParsing: "dependency-parsing",
    AutoModelForTokenClassification: "token-classification",
    AutoModelForSequenceClassification: "text-classification",
}
# The task of checkpoints without a head that we know. They show their attention.
ENCODER = "encoder"


class Checkpoint(NamedTuple):
    """
    A loaded checkpoint.

    Args:
        name (`str`): A folder, or a name on the Hub.
        model (`PreTrainedModel`): The model, in evaluation mode. It is on the GPU if there is one.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        run (`Pipeline` or `WordTagger`, *optional*): The pipeline of its task, or the tagger; `None` for an encoder.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    run: Pipeline | WordTagger | None = None

    @property
    def short(self) -> str:
        """The name without the folders around it, or the owner."""
        return Path(self.name).name


def load_checkpoints(names: Sequence[str], lang: str | None = None) -> dict[str, Checkpoint]:
    """
    Loads checkpoints.

    Args:
        names (`Sequence[str]`): Folders, or names on the Hub; one of each task.
        lang (`str`, *optional*): The language of the rules for words, such as `"en"`.

    Returns:
        `dict[str, Checkpoint]`: The checkpoints by task: a pipeline's, or `"encoder"`.

    Raises:
        UserError: A checkpoint cannot be loaded, two are of one task, or `lang` is given without a parser or tagger.
    """
    found: dict[str, Checkpoint] = {}
    for name in names:
        task, checkpoint = _load(name, lang)
        if task in found:
            raise UserError(
                f"{found[task].name} and {name} are both for {task}; the page shows one checkpoint of a task."
            )
        found[task] = checkpoint
    if lang is not None and found.keys().isdisjoint(("dependency-parsing", "token-classification")):
        raise UserError(f"--lang {lang} is for a parser or a tagger, and none of {', '.join(names)} is one.")
    return found


def _load(name: str, lang: str | None) -> tuple[str, Checkpoint]:
    auto_class, model, tokenizer = load_trained(name, AutoModel)
    if not isinstance(model, PreTrainedModel):
        raise UserError(f"{name}: the page shows the inside of models, and an exported one has none to show.")
    model.float().to("cuda" if torch.cuda.is_available() else "cpu")
    if auto_class is AutoModel:
        return ENCODER, Checkpoint(name, model, tokenizer)
    task = TASKS[auto_class]
    if task == "token-classification":
        return task, Checkpoint(name, model, tokenizer, WordTagger(model, tokenizer, lang=lang))
    given = {"lang": lang} if lang is not None and task == "dependency-parsing" else {}
    run = pipeline(task, model=model, tokenizer=tokenizer, device=model.device, **given)
    return task, Checkpoint(name, model, tokenizer, run)
