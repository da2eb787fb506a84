"""MPNet, DeBERTa-v2 and v3 on the attention interface: in Transformers, these compute their softmax themselves."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta_v2
from transformers.models.mpnet import modeling_mpnet as mpnet
from transformers.models.t5.modeling_t5 import eager_attention_forward  # it takes a position bias

from .attention_call import refuse_rows


class OnTheInterface:
    """A self-attention layer whose output is computed by the attention implementation of its `config`."""

    on_the_interface = True
    is_causal = False
    config: Any
    layer_idx: int

    def attend(
        self, *states: torch.Tensor, mask: torch.Tensor | None, output_attentions: bool, **options: Any
    ) -> tuple[torch.Tensor, Any]:
        """
        The output `(batch, tokens, heads * width)`, and what the implementation returns as `attentions`.

        Args:
            *states (`torch.Tensor`): Query, key and value, as the interface takes them.
            mask (`torch.Tensor`, *optional*): True at visible keys, or numbers to add.
            output_attentions (`bool`): Whether the model is asked for attentions.
            **options: Further arguments of the interface.
        """
        implementation = self.config._attn_implementation
        forward = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
        if implementation != "eager":
            options["output_attentions"] = output_attentions
        elif mask is not None and mask.dtype == torch.bool:
            mask = torch.finfo(states[0].dtype).min * (~mask).to(states[0].dtype)
        output, weights = forward(self, *states, mask, **options)
        return output.flatten(-2), weights


class MPNetSelfAttention(OnTheInterface, mpnet.MPNetSelfAttention):
    """Scores with a position bias that all layers share."""

    def forward(
        self, hidden_states, attention_mask=None, position_bias=None, output_attentions=False, **kwargs
    ) -> tuple[torch.Tensor, ...]:
        heads = self.num_attention_heads
        output, weights = self.attend(
            *(
                project(hidden_states).unflatten(-1, (heads, -1)).transpose(1, 2)
                for project in (self.q, self.k, self.v)
            ),
            mask=attention_mask,
            scaling=self.attention_head_size**-0.5,
            dropout=self.dropout.p if self.training else 0.0,
            position_bias=position_bias,
            output_attentions=output_attentions,
            **kwargs,
        )
        return (self.o(output), weights) if output_attentions else (self.o(output),)


# The stock classes around it drop keyword arguments.
class MPNetAttention(mpnet.MPNetAttention):
    def forward(self, hidden_states, attention_mask=None, position_bias=None, output_attentions=False, **kwargs):
        states, *others = self.attn(hidden_states, attention_mask, position_bias, output_attentions, **kwargs)
        return self.LayerNorm(self.dropout(states) + hidden_states), *others


class MPNetLayer(mpnet.MPNetLayer):
    def forward(self, hidden_states, attention_mask=None, position_bias=None, output_attentions=False, **kwargs):
        states, *others = self.attention(hidden_states, attention_mask, position_bias, output_attentions, **kwargs)
        return self.output(self.intermediate(states), states), *others


class MPNetModel(mpnet.MPNetModel):
    _supports_sdpa = _can_set_attn_implementation_cached_value = True

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        inputs_embeds=None,
        output_attentions=None,
        output_hidden_states=None,
        return_dict=None,
        **kwargs,
    ) -> tuple[torch.Tensor, ...] | BaseModelOutputWithPooling:
        config = self.config
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("the model takes exactly one of input_ids or inputs_embeds")
        states = self.embeddings(input_ids=input_ids, position_ids=position_ids, inputs_embeds=inputs_embeds)
        outputs = self.encoder(
            states,
            create_bidirectional_mask(config=config, inputs_embeds=states, attention_mask=attention_mask),
            output_attentions=config.output_attentions if output_attentions is None else output_attentions,
            output_hidden_states=config.output_hidden_states if output_hidden_states is None else output_hidden_states,
            return_dict=True,
            **kwargs,
        )
        pooled = None if self.pooler is None else self.pooler(outputs.last_hidden_state)
        found = BaseModelOutputWithPooling(**outputs, pooler_output=pooled)
        return found if (config.return_dict if return_dict is None else return_dict) else found.to_tuple()


class DisentangledSelfAttention(OnTheInterface, deberta_v2.DisentangledSelfAttention):
    """Scores with a position bias that depends on queries and keys."""

    def forward(
        self,
        hidden_states,
        attention_mask,
        output_attentions=False,
        query_states=None,
        relative_pos=None,
        rel_embeddings=None,
    ) -> tuple[torch.Tensor, Any]:
        heads = self.num_attention_heads
        query = self.transpose_for_scores(
            self.query_proj(hidden_states if query_states is None else query_states), heads
        )
        key, value = (
            self.transpose_for_scores(project(hidden_states), heads) for project in (self.key_proj, self.value_proj)
        )
        kinds = 1 + ("c2p" in self.pos_att_type) + ("p2c" in self.pos_att_type)
        bias = None
        if self.relative_attention and kinds > 1:
            positions = self.pos_dropout(rel_embeddings)
            bias = self.disentangled_attention_bias(query, key, relative_pos, positions, kinds).unflatten(
                0, (-1, heads)
            )
        return self.attend(
            *(states.unflatten(0, (-1, heads)) for states in (query, key, value)),
            mask=attention_mask.bool(),
            scaling=(query.shape[-1] * kinds) ** -0.5,
            dropout=self.dropout.p if self.training else 0.0,
            position_bias=bias,
            output_attentions=output_attentions,
        )


class DebertaV2Model(deberta_v2.DebertaV2Model):
    _supports_sdpa = _can_set_attn_implementation_cached_value = True
    #: Its layers take no keyword arguments.
    drops_keywords = True

    @wraps(deberta_v2.DebertaV2Model.forward)
    def forward(self, *args, **kwargs):
        refuse_rows(self, kwargs)
        return super().forward(*args, **kwargs)


ADAPTED: dict[type, type] = {
    mpnet.MPNetModel: MPNetModel,
    mpnet.MPNetLayer: MPNetLayer,
    mpnet.MPNetAttention: MPNetAttention,
    mpnet.MPNetSelfAttention: MPNetSelfAttention,
    deberta_v2.DebertaV2Model: DebertaV2Model,
    deberta_v2.DisentangledSelfAttention: DisentangledSelfAttention,
}
