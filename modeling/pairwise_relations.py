"""Relation classification from the pairwise scores of two entities, on an encoder of any family."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .attention_adapters import OURS, takes_keywords
from .pairwise_models import PairwiseModel
from .real_tokens import checked_mask

# Pairs that are scored together.
PAIRS = 4096


class PairwiseRelations(PairwiseModel):
    """Relation classification from the pairwise scores of two entities."""

    _hub_auto_classes = ("AutoModel", "AutoModelForRelationExtraction", "AutoModelForSequenceClassification")
    _hub_pipelines = {
        "relation-extraction": ("pipelines/relation_extraction.py", "RelationExtractionPipeline", "AutoModel")
    }

    def __init__(self, config: Any):
        super().__init__(config)
        self._takes_rows = takes_keywords(self._encoder)
        self.loss_type = "ForSequenceClassification"
        self.classifier = self._scores(config.num_labels, config.relation_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        entity_pieces: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        entity_pairs: torch.Tensor | None = None,
        entity_texts: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | SequenceClassifierOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            entity_pieces (`torch.LongTensor` of shape `(batch, 2, m)` or `(batch, pairs, 2, m)`):
                Positions of the pieces of the first and of the second entity, or of a marker in their place. -1 where
                an entity has fewer than m. With several pairs, the logits are `(batch, pairs, num_labels)`, and each
                entity is read once, however many pairs it is in.
            labels (`torch.Tensor` of shape `(batch,)`, `(batch, num_labels)` or `(batch, pairs)`, *optional*):
                Relations in `[0, config.num_labels)`, with -100 where there is no loss, or floats for regression and
                multi-label classification (`config.problem_type`).
            output_attentions (`bool`, *optional*): Return `attentions`, if the attention implementation has them.
            entity_pairs (`torch.LongTensor` of shape `(batch, pairs, 2)`, *optional*):
                Numbers of the entities of each pair, for any number of entities: `entity_pieces` is then `(batch,
                entities, m)`, and the logits are `(batch, pairs, num_labels)`. Pairs are scored in blocks.
            entity_texts (`torch.LongTensor` of shape `(pairs,)`, *optional*):
                Number of the text of each pair. `entity_pairs` is then `(pairs, 2)`, and the logits are `(pairs,
                num_labels)`: those of all pairs of a batch, whose texts are encoded once.

        Returns:
            `logits` of shape `(batch, num_labels)`, or as above.

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds` are given, `attention_mask` is not
                `(batch, tokens)`, or `entity_pieces` is missing or of another shape.
        """
        batch, tokens = checked_mask(input_ids, inputs_embeds, attention_mask).shape
        sizes = None if entity_pieces is None else (entity_pieces.dim(), entity_pieces.shape[0])
        if entity_pieces is None or (
            sizes != (3, batch)
            if entity_pairs is not None
            else sizes not in ((3, batch), (4, batch)) or entity_pieces.shape[-2] != 2
        ):
            got = None if entity_pieces is None else tuple(entity_pieces.shape)
            raise ValueError(
                f"entity_pieces must be of shape (batch, 2, pieces) or (batch, pairs, 2, pieces), got {got}"
            )
        entities, pairs = _entities_of_pairs(entity_pieces) if entity_pairs is None else (entity_pieces, entity_pairs)
        wants_states = self._wants("output_hidden_states", output_hidden_states)
        wants_attention = self._wants("output_attentions", output_attentions) and self._gives_attentions
        reads_attention, rows = "att" in self.config.features, None
        if reads_attention and not wants_attention:
            rows = self._rows(entities.flatten(1), tokens)
        outputs, states = self._encode(
            input_ids,
            attention_mask,
            inputs_embeds,
            wants_states,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            output_attentions=reads_attention or wants_attention,
            **({} if rows is None else {"rows": rows}),
            **kwargs,
        )
        entities, pairs = (part.to(outputs.last_hidden_state.device) for part in (entities, pairs))
        if entity_texts is None:
            entity_texts = torch.arange(batch, device=pairs.device).unsqueeze(-1)
        texts = entity_texts.to(pairs.device).expand(pairs.shape[:-1])
        logits = self._scores_of(outputs, states, entities, pairs, texts, rows)
        logits = logits if entity_pairs is not None or entity_pieces.dim() == 4 else logits.squeeze(1)
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=self._reaching_all(loss, outputs.last_hidden_state),
            logits=logits,
            hidden_states=outputs.hidden_states if wants_states else None,
            attentions=outputs.attentions if wants_attention else None,
        )

    def _rows(self, pieces: torch.Tensor, tokens: int) -> torch.Tensor | None:
        """
        The argument `rows` of the encoder, or `None` for whole maps.

        Args:
            pieces (`torch.LongTensor` of shape `(batch, n)`): Positions; numbers below 0 fill up.
            tokens (`int`): Number of tokens.
        """
        if not self._takes_rows or self._encoder.config._attn_implementation not in OURS:
            return None
        # The shape has to tell rows from whole maps.
        return pad(pieces, (0, 1), value=-1) if pieces.shape[1] == tokens else pieces

    def _scores_of(
        self,
        outputs: Any,
        states: torch.Tensor,
        entities: torch.Tensor,
        pairs: torch.Tensor,
        texts: torch.Tensor,
        rows: torch.Tensor | None,
    ) -> torch.Tensor:
        """The scores of pairs `(..., 2)` of these texts: the features of entities once, then blocks of pairs."""
        real = entities >= 0
        mean = real.to(states.dtype) / real.sum(dim=-1, keepdim=True).clamp_min(1)
        of_entities = attention = None
        if self.classifier.states is not None:
            batch = torch.arange(states.shape[0], device=states.device)[:, None, None]
            of_entities = (mean.unsqueeze(-1) * states[batch, entities.clamp_min(0)]).sum(dim=-2)
            of_entities = self.classifier.dropout(of_entities)
        if "att" in self.config.features:
            attention = self._entity_attention(outputs, entities, rows, mean)

        def score(block: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
            first = second = between = None
            if of_entities is not None:
                first, second = (of_entities[texts, block[..., role]] for role in (0, 1))
            if attention is not None:
                there, back = (attention[texts, :, block[..., role], block[..., 1 - role]] for role in (0, 1))
                between = torch.cat([there, back], dim=-1)
            return self.classifier.score(first, second, between)

        if torch.compiler.is_exporting():  # no loop whose number of steps depends on the sizes
            return score(pairs, texts)
        blocks = zip(pairs.split(PAIRS, dim=-2), texts.split(PAIRS, dim=-1), strict=True)
        return torch.cat([score(*block) for block in blocks], dim=-2)

    def _entity_attention(
        self, outputs: Any, entities: torch.Tensor, rows: torch.Tensor | None, mean: torch.Tensor
    ) -> torch.Tensor:
        """Attention between all entities, in all layers, `(batch, L * H, entities, entities)`."""
        count, pieces, maps = entities.shape[1], entities.flatten(1), []
        for weights in self._attention_maps(outputs, None if rows is None else rows.shape[1]):
            if weights.shape[2] == weights.shape[3]:  # whole maps
                index = pieces.clamp_min(0)[:, None, :, None].expand(-1, weights.shape[1], -1, weights.shape[3])
                weights = weights.gather(2, index)
            else:
                weights = weights[:, :, : pieces.shape[1]]
            positions = torch.arange(weights.shape[-1], device=entities.device)
            to = (entities.unsqueeze(-1) == positions).any(dim=-2)
            received = weights.flatten(1, 2) @ to.to(weights.dtype).mT
            received = received.view(*weights.shape[:2], *entities.shape[1:], count)
            maps.append((received * mean[:, None, ..., None]).sum(dim=-2))
        return torch.cat(maps, dim=1)


def _entities_of_pairs(entity_pieces: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The different entities of pairs.

    Args:
        entity_pieces (`torch.LongTensor` of shape `(batch, 2, m)` or `(batch, pairs, 2, m)`): See the models.

    Returns:
        `tuple[torch.Tensor, torch.Tensor]`: The pieces of each entity, `(batch, entities, m)`, and the numbers of both
        entities of each pair, `(batch, pairs, 2)`.
    """
    if entity_pieces.dim() == 3:
        return entity_pieces, torch.arange(2, device=entity_pieces.device).expand(entity_pieces.shape[0], 1, 2)
    found = [pieces.unique(dim=0, return_inverse=True) for pieces in entity_pieces.flatten(1, 2)]
    entities = pad_sequence([entities for entities, _ in found], batch_first=True, padding_value=-1)
    return entities, torch.stack([numbers for _, numbers in found]).view(entity_pieces.shape[:3])
