"""An encoder with pairwise scores on top, for parsing and for relation classification."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init

from .attention import gives_attentions
from .attention_adapters import OURS, is_outside
from .hub_export import HubExportMixin
from .layer_mix import LayerMix
from .new_layers import classifier_dropout
from .pairwise_scores import PairwiseScores


def choose_implementation(config: Any, encoder: type) -> None:
    """
    Select the attention implementation that attention is read with: ours, or `"eager"` for encoders outside of the
    attention interface.

    Args:
        config (`PreTrainedConfig`): That of a model which reads `config.features`. It is changed in place.
        encoder (`type`): The class of the encoder.

    Raises:
        ValueError: An implementation was requested that has no attention to return.
    """
    chosen = "msattn"
    # A configuration that built one of our models may build the other one.
    for requested in (config._attn_implementation, getattr(config, "encoder", config)._attn_implementation):
        if requested == "eager":
            chosen = requested
        elif requested not in (None, "sdpa", *OURS):
            raise ValueError(
                f"attn_implementation {requested!r} has no attention maps, which "
                f'features="{config.features}" reads; leave it out, or take "eager"'
            )
    config._attn_implementation = "eager" if is_outside(encoder) else chosen


class PairwiseModel(HubExportMixin, PreTrainedModel):
    """
    An encoder, frozen or not, and scores that read its states and attention.

    A family derives from its `PreTrainedModel` class first, then from [`PairwiseParsing`] or [`PairwiseRelations`].

    Raises:
        ValueError: `config.features` includes the attention, and an attention implementation without maps was
            requested.
    """

    # A family defines how an encoder is built (its class, and without a pooler) and called, and where it is.
    _encoder_class: Any
    add_encoder: Any
    encode: Any
    _encoder_paths: ClassVar[tuple[str, ...]]
    # The loss is a mean over the batch: with gradient accumulation, the Trainer has to divide it.
    accepts_loss_kwargs = False

    def __init__(self, config: Any):
        if "att" in config.features:
            choose_implementation(config, self._encoder_class(config))
        super().__init__(config)
        self.num_labels = config.num_labels
        self.add_encoder(config)
        self.mix = LayerMix(config.layer_mix) if config.layer_mix > 1 else None
        self._after_loading()

    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, LayerMix):
            init.zeros_(module.weight)
            init.ones_(module.scale)

    def train(self, mode: bool = True):
        super().train(mode)
        if self.config.freeze_encoder:
            self._encoder.eval()
        return self

    def _after_loading(self) -> None:
        if self.config.freeze_encoder:
            self._encoder.requires_grad_(False)

    def _scores(self, num_outputs: int, size: int, learned_root: bool = False) -> PairwiseScores:
        config = self.config
        return PairwiseScores(
            num_outputs,
            hidden_size=config.hidden_size if "emb" in config.features else 0,
            num_layers=config.num_hidden_layers if "att" in config.features else 0,
            num_heads=config.num_attention_heads or 0,  # FNet has none
            scorer=config.scorer,
            size=size,
            dropout=classifier_dropout(config),
            word_state=config.word_state,
            attention_scale=config.attention_scale,
            learned_root=learned_root,
        )

    def _encode(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        output_hidden_states: bool,
        **kwargs: Any,
    ) -> tuple[Any, torch.Tensor]:
        """The output of the encoder, and the hidden states that the scores read."""
        kwargs["output_hidden_states"] = output_hidden_states if self.mix is None else True
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.config.freeze_encoder):
            outputs = self.encode(input_ids, attention_mask, inputs_embeds, **kwargs)
        if self.mix is None:
            return outputs, outputs.last_hidden_state
        layers = outputs.hidden_states[-self.config.layer_mix : -1]
        return outputs, self.mix([*layers, outputs.last_hidden_state])

    def _attention_maps(self, outputs: Any, rows: int | None = None) -> tuple[torch.Tensor, ...]:
        """
        The attention of each layer, on the device of the last hidden states.

        Args:
            outputs (`BaseModelOutput`): The output of the encoder, given `output_attentions=True`.
            rows (`int`, *optional*): A number of rows that may come in place of whole maps.

        Returns:
            `tuple[torch.Tensor]` of shape `(batch, heads, pieces or rows, pieces)`: Rows attend to columns.

        Raises:
            ValueError: The encoder returns no attention, or one of another shape.
        """
        states, found = outputs.last_hidden_state, outputs.attentions or ()
        batch, pieces = states.shape[:2]
        expected = [(batch, self.config.num_attention_heads, size, pieces) for size in (pieces, rows)]
        for one in found:
            if not isinstance(one, torch.Tensor) or one.shape not in expected:
                got = f"the shape {tuple(one.shape)}" if isinstance(one, torch.Tensor) else "none"
                raise ValueError(f"the encoder must return attention of the shape {expected[0]}, got {got}")
        if not found:
            raise ValueError(
                'the encoder returns no attention: take features="emb", or attn_implementation="eager" if it was '
                "changed"
            )
        return tuple(one.to(states.device) for one in found)

    def _reaching_all(self, loss: torch.Tensor | None, states: torch.Tensor) -> torch.Tensor | None:
        """
        The same loss, which also depends on the last hidden states, by a factor of zero.

        With `features="att"`, no score reads what follows the attention of the last layer, and
        `DistributedDataParallel` waits for a gradient of every weight.
        """
        return loss if loss is None or "emb" in self.config.features else loss + states[:, :0].sum()

    def _wants(self, name: str, given: bool | None) -> bool:
        """An argument such as `output_attentions`, or the default in the configuration."""
        return getattr(self.config, name) if given is None else given

    @property
    def _encoder(self) -> PreTrainedModel:
        return getattr(self, self._encoder_paths[0])

    @property
    def _gives_attentions(self) -> bool:
        return gives_attentions(self._encoder.config._attn_implementation)
