"""Arguments of attention guiding: weights, layers and variants of its losses."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from transformers import PreTrainedConfig, TrainingArguments
from transformers.utils import logging

from msattn.errors import UserError, refuse_below
from msattn.guiding.pattern_sources import PATTERNS, WORD_PATTERNS
from msattn.modeling.attention_patterns import POSITIONS
from msattn.modeling.guiding_losses import NORMALIZATIONS, REDUCTIONS

logger = logging.get_logger(__name__)

CHOICES = {
    "guiding_axis": ("received", "official"),
    "mdg_normalize": NORMALIZATIONS,
    "pdg_normalize": NORMALIZATIONS,
    "guiding_reduction": REDUCTIONS,
    "guiding_tokens": ("all", "words"),
    "guiding_decay": ("none", "linear"),
}
# What no variant changes.
USUAL: dict[str, Any] = {
    "guide_every": 1,
    "guiding_tokens": "all",
    "guiding_decay": "none",
    "pattern_heads": None,
}
RECOMMENDED: dict[str, Any] = {
    "guiding_axis": "received",
    "guiding_temperature": 1.0,
    "mdg_normalize": "row",
    "pdg_normalize": "row",
    "guiding_reduction": "mean",
}
PRESETS = {
    "recommended": RECOMMENDED,
    "paper": RECOMMENDED | {"pdg_normalize": "none", "guiding_reduction": "sum"},
    "official": RECOMMENDED | {"guiding_axis": "official", "guiding_temperature": 2.0},
}


@dataclass
class GuidingArguments:
    """
    The guiding losses that are added to the task loss.

    The losses are MDG and PDG of the attention-guiding paper ([`mdg_loss`], [`pdg_loss`]) and the distance to
    attention patterns ([`pattern_loss`]). The metadata of each field describes it; so does `--help`. A preset chooses
    the variant of MDG and PDG; `guiding_kwargs` changes single values of it.

    Attributes:
        guiding_axis (`str`): How a map becomes a vector: the attention that each token receives (`"received"`), or the
            mean over the keys (`"official"`).
        guiding_temperature (`float`): Softmax temperature of MDG.
        mdg_normalize (`str`): Scaling to unit length in MDG: each map (`"row"`), each token over all maps (`"col"`) or
            `"none"`.
        pdg_normalize (`str`): The same in PDG.
        guiding_reduction (`str`): Reduction of MDG over maps and PDG over tokens: `"mean"`, or `"sum"` as printed.
        guide_every (`int`): Guide every k-th step only, the first one included; the others cost nothing. The weights
            are those of a guided step.
        guiding_tokens (`str`): Tokens that MDG and PDG compare: `"all"`, or `"words"`, which leaves special tokens out
            of rows and columns of the maps.
        guiding_decay (`str`): How the weights fall in training: `"none"`, or `"linear"`, to 0 at the last step.
        pattern_heads (`list[int]`, *optional*): Number of heads per layer for each pattern, or one number for all.
            Heads are assigned in order from the first one. Default: half of the heads, divided equally, at least one
            each.

    Raises:
        UserError: A value is unknown or out of range, or the arguments contradict each other.

    Example:

    ```python
    >>> from msattn import GuidingArguments

    >>> guiding = GuidingArguments(mdg_weight=0.01, guided_layers=[0, 1])
    ```
    """

    guiding: str = field(
        default="recommended",
        metadata={
            "help": "Variant of MDG and PDG: recommended, paper (the equations as printed) or official (the released "
            "code, whose axis gives no gradient but dropout noise).",
            "choices": list(PRESETS),
        },
    )
    guiding_kwargs: dict | str | None = field(
        default=None,
        metadata={
            "help": "JSON object of values that differ from the variant: guiding_axis, guiding_temperature, "
            "mdg_normalize, pdg_normalize, guiding_reduction, guide_every, guiding_tokens, guiding_decay, "
            "pattern_heads (docs/guiding.md)."
        },
    )
    mdg_weight: float = field(
        default=0.0, metadata={"help": "Weight of MDG (alpha), which makes attention maps differ."}
    )
    pdg_weight: float = field(
        default=0.0,
        metadata={"help": "Weight of PDG (beta), which makes attention maps attend to different tokens."},
    )
    guided_layers: list[int] | None = field(
        default=None, metadata={"help": "Layers to guide, from 0, or from -1 for the last one. Default: all."}
    )
    patterns: list[str] | None = field(
        default=None,
        metadata={
            "help": "Attention patterns to guide heads to: the first, next or previous token, periods, delimiters, "
            "co-occurring words (pmi), head and dependent (dependency) or similar words (wordsim).",
            "choices": list(PATTERNS),
        },
    )
    pattern_weight: float = field(default=0.0, metadata={"help": "Weight of the pattern loss."})
    dependency_files: list[str] | None = field(
        default=None,
        metadata={"help": "CoNLL-U files with trees of the training sentences, for the pattern dependency."},
    )

    guiding_axis: str = field(init=False)
    guiding_temperature: float = field(init=False)
    mdg_normalize: str = field(init=False)
    pdg_normalize: str = field(init=False)
    guiding_reduction: str = field(init=False)
    guide_every: int = field(init=False)
    guiding_tokens: str = field(init=False)
    guiding_decay: str = field(init=False)
    pattern_heads: list[int] | None = field(init=False)

    def __post_init__(self) -> None:
        if self.guiding not in PRESETS:
            raise UserError(f"guiding must be one of {', '.join(PRESETS)}, got {self.guiding!r}.")
        given: Any = self.guiding_kwargs
        try:
            given = self.guiding_kwargs = json.loads(given) if isinstance(given, str) else given
        except ValueError:
            given = False
        if not isinstance(given, dict | None):
            raise UserError(
                f'guiding_kwargs {self.guiding_kwargs}: expected a JSON object such as {{"guide_every": 4}}.'
            )
        preset = {**PRESETS[self.guiding], **USUAL}
        for name, value in {**preset, **(given or {})}.items():
            if name not in preset:
                raise UserError(f"guiding_kwargs: there is no {name}, but {', '.join(preset)}.")
            if value not in CHOICES.get(name, (value,)):
                raise UserError(f"{name} must be one of {', '.join(CHOICES[name])}, got {value!r}.")
            setattr(self, name, value)
        for name in ("guided_layers", "patterns", "pattern_heads", "dependency_files"):
            if isinstance(value := getattr(self, name), (int, float, str)):
                setattr(self, name, [value])
        refuse_below(self, mdg_weight=0, pdg_weight=0, pattern_weight=0)
        if not isinstance(self.guide_every, int) or self.guide_every < 1:
            raise UserError(f"guide_every must be a positive whole number, got {self.guide_every!r}.")
        if not self.guiding_temperature > 0:
            raise UserError(f"guiding_temperature must be a positive number, got {self.guiding_temperature!r}.")
        if self.guided_layers == []:
            raise UserError("guided_layers names no layer: leave it out for all layers.")
        if (self.guiding != "recommended" or given or self.guided_layers) and not self.weights:
            logger.warning(
                f"guiding={self.guiding}: nothing is guided, as mdg_weight, pdg_weight and pattern_weight are 0."
            )
        self._check_patterns()

    def _check_patterns(self) -> None:
        patterns = self.patterns or []
        for pattern in patterns:
            if pattern not in PATTERNS:
                raise UserError(f"patterns are some of {', '.join(PATTERNS)}, not {pattern!r}.")
        if len(set(patterns)) < len(patterns):
            raise UserError(f"patterns names one twice: {', '.join(patterns)}.")
        if self.dependency_files and "dependency" not in patterns:
            raise UserError("dependency_files are for the pattern dependency: name it in patterns.")
        if self.pattern_weight and not patterns:
            raise UserError("pattern_weight needs patterns: name at least one.")
        if patterns and not self.pattern_weight:
            logger.warning("no head is guided to a pattern, as pattern_weight is 0.")
        heads = self.pattern_heads or [1]
        if len(heads) not in (1, len(patterns)) or not all(isinstance(size, int) and size > 0 for size in heads):
            raise UserError(f"pattern_heads must be a positive whole number, or one a pattern, got {heads}.")

    @property
    def weights(self) -> dict[str, float]:
        """The non-zero weights, by the name of the loss term."""
        weights = {"mdg_loss": self.mdg_weight, "pdg_loss": self.pdg_weight, "pattern_loss": self.pattern_weight}
        return {name: weight for name, weight in weights.items() if weight}

    def layers(self, count: int) -> list[int]:
        """
        The indices of the guided layers, from 0, in ascending order.

        Args:
            count (`int`): The number of layers of the model.

        Raises:
            UserError: `guided_layers` names a layer that the model lacks.
        """
        if self.guided_layers is None:
            return list(range(count))
        for layer in self.guided_layers:
            if not -count <= layer < count:
                raise UserError(f"guided_layers: there is no layer {layer}; the model has 0 to {count - 1}.")
        return sorted({layer % count for layer in self.guided_layers})

    def heads(self, count: int) -> dict[str, slice]:
        """
        The heads of a layer that each pattern guides.

        Args:
            count (`int`): The number of heads per layer.

        Returns:
            `dict[str, slice]`: A range of heads by pattern.

        Raises:
            UserError: The patterns need more heads than a layer has.
        """
        patterns = self.patterns or []
        sizes = self.pattern_heads or [max(1, count // 2 // max(1, len(patterns)))]
        sizes = sizes * len(patterns) if len(sizes) == 1 else sizes
        if sum(sizes) > count:
            raise UserError(f"patterns: they would have {sum(sizes)} heads of a layer, and the model has {count}.")
        ends = list(accumulate(sizes))
        return {pattern: slice(end - size, end) for pattern, size, end in zip(patterns, sizes, ends, strict=True)}

    def schedule(self, step: int, steps: int) -> float:
        """The factor of the weights at a training step: 1, or 1 − step / steps."""
        return 1.0 if self.guiding_decay == "none" else max(0.0, 1 - step / steps)

    def check(self, config: PreTrainedConfig, training: TrainingArguments) -> None:
        """
        Refuses what cannot be guided in a model of this configuration, trained like this.

        Raises:
            UserError: It lacks a layer or heads that are named, has other heads in each stage, or reads the sentences
                of a pair apart; or `guiding_tokens="words"` does not work there.
        """
        if not self.weights:
            return
        if self.guiding_tokens == "words" and (self.by_outputs(training) or training.gradient_checkpointing):
            raise UserError(
                "guiding_tokens=words works neither with the official axis or gradient checkpointing, nor in compiled "
                "or parallel models."
            )
        name = config.model_type
        if getattr(config, "sentence_pairs", False):
            raise UserError(
                f"{name} attends to the sentences of a pair apart, and so cannot be guided: with sentence_pairs=False "
                "it reads both as one text."
            )
        for size, check in (("num_hidden_layers", self.layers), ("num_attention_heads", self.heads)):
            count = getattr(config, size, None)
            if isinstance(count, (list, tuple)):
                raise UserError(f"{name} has other heads in each stage ({size}={list(count)}): it cannot be guided.")
            if isinstance(count, int):
                check(count)

    def by_outputs(self, training: TrainingArguments) -> bool:
        """Whether the model is asked for its attentions: compiled, in threads, or with the official axis."""
        return self.guiding_axis == "official" or training.torch_compile or training.n_gpu > 1

    @property
    def needs_words(self) -> bool:
        """Whether the training data must be encoded with their words (`words=True`)."""
        return bool(self.pattern_weight) and not set(WORD_PATTERNS).isdisjoint(self.patterns or ())

    @property
    def text_patterns(self) -> set[str]:
        """The patterns that depend on the text: the collator must add their targets."""
        return set(self.patterns or ()).difference(POSITIONS) if self.pattern_weight else set()
