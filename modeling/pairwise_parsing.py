"""Dependency parsing from pairwise scores, on an encoder of any family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.nn.functional import cross_entropy
from transformers.modeling_outputs import ModelOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .new_layers import classifier_dropout
from .pairwise_models import PairwiseModel
from .pairwise_scores import relations_of_arcs
from .real_tokens import checked_mask
from .tag_layers import TagLayers
from .word_attention import count_words

# The score of an impossible arc. Finite, because the softmax over a word without any arc would be NaN otherwise, and
# representable in every dtype.
NO_ARC = -1e4
# The target without a loss.
IGNORED = -100
ChooseHeads = Callable[[torch.Tensor], torch.Tensor]
# The first arguments of `PairwiseScores`: hidden states, attention maps and the word of each piece.
PairFeatures = tuple[torch.Tensor, tuple[torch.Tensor, ...], torch.Tensor]


@dataclass
class PairwiseParserOutput(ModelOutput):
    """
    Output of a [`PairwiseParser`].

    Args:
        loss (`torch.Tensor` of shape `()`, *optional*): Given `heads` and `relations`, or tags; their sum.
        arc_scores (`torch.Tensor` of shape `(batch, W + 1, W + 1)`):
            Rows are heads, columns are dependents, 0 is ROOT. -10,000 where no arc is possible: in column 0, on the
            diagonal, and beyond the words of a sentence.
        relation_logits (`torch.Tensor` of shape `(batch, W + 1, W + 1, K)` or `(batch, W, K)`):
            Relations of each pair; rows are heads, columns are dependents. [`relations_of_arcs`] selects those of a
            tree. With `choose_heads`, only those of the chosen arcs, one for each word of a sentence. While training
            with the objective `"head_select"`, only those of the arcs in `heads`.
        hidden_states (`tuple[torch.Tensor]`, *optional*): Those of the encoder, on request.
        attentions (`tuple[torch.Tensor]`, *optional*): Those of the encoder, on request.
        tag_logits (`dict[str, torch.Tensor]` of shape `(batch, W, labels)`, *optional*):
            The labels of words, by column of `config.word_tags`.
    """

    loss: torch.Tensor | None = None
    arc_scores: torch.Tensor | None = None
    relation_logits: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None
    tag_logits: dict[str, torch.Tensor] | None = None


class PairwiseParsing(PairwiseModel):
    """Dependency parsing from pairwise scores."""

    _hub_auto_classes = ("AutoModel", "AutoModelForDependencyParsing")
    _hub_pipelines = {
        "dependency-parsing": ("pipelines/dependency_parsing.py", "DependencyParsingPipeline", "AutoModel")
    }

    def __init__(self, config: Any):
        super().__init__(config)
        learned_root = config.root == "learned"
        if config.objective == "head_select":
            self.arcs = self._scores(1, config.arc_size, learned_root)
            self.relations = self._scores(config.num_labels, config.relation_size, learned_root)
        else:  # NONE is the last
            self.relations = self._scores(config.num_labels + 1, config.relation_size, learned_root)
        self.tags: TagLayers | None = None
        if config.word_tags:
            sizes = {name: len(labels) for name, labels in config.word_tags.items()}
            self.tags = TagLayers(sizes, config.hidden_size, classifier_dropout(config), config.word_state)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        word_index: torch.Tensor | None = None,
        heads: torch.Tensor | None = None,
        relations: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        choose_heads: ChooseHeads | None = None,
        upos: torch.Tensor | None = None,
        xpos: torch.Tensor | None = None,
        feats: torch.Tensor | None = None,
        lemma: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | PairwiseParserOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, pieces)`, *optional*): 1 for real pieces, 0 for padding.
            word_index (`torch.LongTensor` of shape `(batch, pieces)`):
                The word of each piece: 0 for ROOT, which is the leading special token, then 1 to W, and -1 for other
                special tokens and padding. With `config.root="learned"`, no piece has the number 0.
            heads (`torch.LongTensor` of shape `(batch, W)`, *optional*):
                The head of each word, 0 for ROOT. -100 for padding and unknown heads, which have no loss.
            relations (`torch.LongTensor` of shape `(batch, W)`, *optional*):
                The relation of each word to its head, in `[0, config.num_labels)`. -100 for padding and unknown
                relations, which have no loss.
            output_attentions (`bool`, *optional*): Return `attentions`, if the attention implementation has them.
            choose_heads (`Callable`, *optional*):
                Gets `arc_scores` and returns the head of each word, `(batch, W)`; numbers below 0 count as 0. Only
                the relations of these arcs are returned, and with `"head_select"` no others are scored.
            upos, xpos, feats, lemma (`torch.LongTensor` of shape `(batch, W)`, *optional*):
                The label of each word in a column of `config.word_tags`. -100 for padding and unknown labels, which
                have no loss.

        Returns:
            `arc_scores` of shape `(batch, W + 1, W + 1)`: rows are heads, columns are dependents, 0 is ROOT; -10,000
            where no arc is possible. `relation_logits` of shape `(batch, W + 1, W + 1, K)`, or `(batch, W, K)` with
            `choose_heads`, and with `"head_select"` in training; `relations_of_arcs` selects those of a tree.
            `tag_logits`, a dictionary of tensors `(batch, W, labels)`. `loss`, if there is something to learn.

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds` are given; `attention_mask` or `word_index`
                is not `(batch, pieces)`, or the latter is missing; a sentence has no piece for ROOT with
                `config.root="token"`, or has one with `"learned"`; `heads` has fewer words than `word_index`; only one
                of `heads` and `relations` is given; `config.word_tags` lacks the column of some labels; or the encoder
                returns no attention between all pieces.
        """
        columns = {"upos": upos, "xpos": xpos, "feats": feats, "lemma": lemma}
        tags = {name: labels for name, labels in columns.items() if labels is not None}
        pieces = checked_mask(input_ids, inputs_embeds, attention_mask).shape
        word_index = self._checked_words(pieces, word_index, heads, relations, tags)
        num_words = self._count_words(word_index, heads)
        reads_attention = "att" in self.config.features
        wanted = self._wants("output_attentions", output_attentions)
        wants_states = self._wants("output_hidden_states", output_hidden_states)
        outputs, states = self._encode(
            input_ids,
            attention_mask,
            inputs_embeds,
            wants_states,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            output_attentions=reads_attention or (wanted and self._gives_attentions),
            **kwargs,
        )
        # The last layer may be on another device than the inputs.
        word_index = word_index.to(states.device)
        if heads is not None and relations is not None:
            heads, relations = heads.to(states.device), relations.to(states.device)
        features = states, self._attention_maps(outputs) if reads_attention else (), word_index
        possible = self._possible_arcs(word_index, num_words)
        score = self._score_pairs if self.config.objective == "pairs" else self._select_heads
        loss, arc_scores, relation_logits = score(features, possible, heads, relations, choose_heads)
        tag_logits = None
        if self.tags is not None:
            tag_logits = self.tags(states, word_index, num_words)
            for name, labels in tags.items():
                of_tag = _mean_loss(tag_logits[name].flatten(0, 1), labels.to(states.device).flatten())
                loss = of_tag if loss is None else loss + of_tag
        return PairwiseParserOutput(
            loss=self._reaching_all(loss, outputs.last_hidden_state),
            arc_scores=arc_scores,
            relation_logits=relation_logits,
            hidden_states=outputs.hidden_states if wants_states else None,
            attentions=outputs.attentions if wanted else None,
            tag_logits=tag_logits,
        )

    def _score_pairs(
        self,
        features: PairFeatures,
        possible: torch.Tensor,
        heads: torch.Tensor | None,
        relations: torch.Tensor | None,
        choose_heads: ChooseHeads | None,
    ) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """The objective `"pairs"`: `loss`, `arc_scores` and `relation_logits`."""
        logits = self.relations(*features, possible.shape[1] - 1)
        relation_logits, none = logits[:, :-1].permute(0, 2, 3, 1), logits[:, -1]
        # In chunks: the sum takes as much memory as its input.
        chunks = [relation_logits] if torch.compiler.is_exporting() else relation_logits.chunk(4, dim=1)
        any_relation = [chunk.logsumexp(dim=-1) for chunk in chunks]
        arc_scores = (torch.cat(any_relation, dim=1) - none).masked_fill(~possible, NO_ARC)
        if choose_heads is not None:
            relation_logits = relations_of_arcs(relation_logits, choose_heads(arc_scores))
        loss = None
        if heads is not None and relations is not None:
            loss = self._pairs_loss(logits, possible, heads, relations)
        return loss, arc_scores, relation_logits

    def _select_heads(
        self,
        features: PairFeatures,
        possible: torch.Tensor,
        heads: torch.Tensor | None,
        relations: torch.Tensor | None,
        choose_heads: ChooseHeads | None,
    ) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """The objective `"head_select"`: `loss`, `arc_scores` and `relation_logits`."""
        words = possible.shape[1] - 1
        arc_scores = self.arcs(*features, words).squeeze(1).masked_fill(~possible, NO_ARC)
        chosen = None if choose_heads is None else choose_heads(arc_scores)
        trees = [tree for tree in (heads, chosen) if tree is not None]
        if chosen is None and not (trees and self.training):
            relation_logits = self.relations(*features, words).permute(0, 2, 3, 1)
            of_trees = [relations_of_arcs(relation_logits, tree) for tree in trees]
        else:
            wanted = None if self.training or torch.compiler.is_compiling() else _new_arcs(trees, possible)
            of_trees = list(self.relations.arcs(*features, torch.stack(trees, dim=-1), wanted).unbind(2))
            relation_logits = of_trees[-1]
            if wanted is not None and len(trees) > 1:
                of_trees[0] = torch.where(wanted[:, :, :1], of_trees[0], relation_logits)
        loss = None
        if heads is not None and relations is not None:
            relations = relations.masked_fill(heads < 0, IGNORED)
            loss = _mean_loss(arc_scores[:, :, 1:], heads) + _mean_loss(of_trees[0].mT, relations)
        return loss, arc_scores, relation_logits

    def _checked_words(
        self,
        pieces: torch.Size,
        word_index: torch.Tensor | None,
        heads: torch.Tensor | None,
        relations: torch.Tensor | None,
        tags: dict[str, torch.Tensor],
    ) -> torch.Tensor:
        """`word_index`, after all inputs are checked."""
        if unknown := [name for name in tags if name not in (self.config.word_tags or {})]:
            raise ValueError(f"config.word_tags has no labels of {', '.join(unknown)}")
        if (heads is None) != (relations is None):
            raise ValueError("heads and relations must be given together")
        if word_index is None or word_index.shape != pieces:
            got = None if word_index is None else tuple(word_index.shape)
            raise ValueError(f"word_index must be (batch, pieces) {tuple(pieces)}, got {got}")
        if torch.compiler.is_compiling():
            return word_index
        has_root, learned = (word_index == 0).any(dim=1), self.config.root == "learned"
        if learned and has_root.any():
            raise ValueError('word_index numbers pieces 0 for ROOT, but config.root is "learned"; number them -1')
        if not learned and not has_root.all():
            raise ValueError(
                "word_index has a sentence without ROOT, which is the leading special token, numbered 0; for a "
                'tokenizer that adds none, set config.root to "learned"'
            )
        return word_index

    def _count_words(self, word_index: torch.Tensor, heads: torch.Tensor | None) -> int:
        """W of the outputs: that of `heads`, which may have room for more words than `word_index` has."""
        if torch.compiler.is_exporting() and heads is None:
            # A size that depends on the data, at least 2 with ROOT.
            words = cast(int, word_index.max().clamp_min(1).item())
            torch._check(words >= 1)
            return words
        if heads is None:
            return count_words(word_index)
        if not torch.compiler.is_compiling() and heads.shape[1] < count_words(word_index):
            raise ValueError(f"word_index has {count_words(word_index)} words, heads {heads.shape[1]}")
        return heads.shape[1]

    @staticmethod
    def _possible_arcs(word_index: torch.Tensor, words: int) -> torch.Tensor:
        """`(batch, W + 1, W + 1)`: both words are in the sentence and differ, and ROOT is no dependent."""
        numbers = torch.arange(words + 1, device=word_index.device)
        real = numbers <= word_index.amax(dim=1, keepdim=True)
        apart = (numbers.unsqueeze(-1) != numbers) & (numbers > 0)
        return real.unsqueeze(-1) & real.unsqueeze(-2) & apart

    def _pairs_loss(
        self, logits: torch.Tensor, possible: torch.Tensor, heads: torch.Tensor, relations: torch.Tensor
    ) -> torch.Tensor:
        """Cross-entropy over all ordered pairs of words and all pairs of ROOT and a word. Most have no relation."""
        none = self.num_labels
        known = heads >= 0
        targets = torch.full_like(possible, IGNORED, dtype=torch.long).masked_fill(possible, none)
        targets[:, :, 1:] = (
            targets[:, :, 1:]
            .scatter(1, heads.clamp_min(0).unsqueeze(1), relations.unsqueeze(1))
            .masked_fill(~known.unsqueeze(1), IGNORED)
        )
        weight = None
        if self.config.none_weight != 1:
            weight = torch.ones(none + 1, device=logits.device)
            weight[none] = self.config.none_weight
        return _mean_loss(logits, targets, weight)


def _new_arcs(trees: list[torch.Tensor], possible: torch.Tensor) -> torch.Tensor:
    """The arcs of words to score, `(batch, W, trees)`: those of the last tree, and what the other one has not."""
    words, last = possible.any(dim=1)[:, 1:], trees[-1].clamp_min(0)
    return torch.stack([*(words & (tree >= 0) & (tree != last) for tree in trees[:-1]), words], dim=-1)


def _mean_loss(logits: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """
    Cross-entropy in float32, or in float64 if the logits are; zero where no target is known.

    Args:
        logits (`torch.Tensor` of shape `(batch, classes, ...)`): Logits.
        targets (`torch.LongTensor` of shape `(batch, ...)`): Classes, or -100 for unknown.
        weight (`torch.Tensor` of shape `(classes,)`, *optional*): Weights of the classes in the mean.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    total = cross_entropy(logits, targets, weight, ignore_index=IGNORED, reduction="sum")
    known = (targets != IGNORED).to(logits.dtype)
    if weight is not None:
        known = known * weight[targets.clamp_min(0)]
    return total / known.sum().clamp_min(torch.finfo(logits.dtype).tiny)
