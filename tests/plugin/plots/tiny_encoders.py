"""Encoders of all families, untrained and far from uniform, for one tokenizer."""

from __future__ import annotations

import torch
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedModel,
    RobertaConfig,
)

from msattn import MultiScaleBertConfig
from tests.tiny_models import tiny_tokenizer

SIZES = {
    "vocab_size": len(tiny_tokenizer()),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
DISTILBERT = {
    "vocab_size": SIZES["vocab_size"],
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 32,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
MODERNBERT = {
    **{"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3},
    **{"local_attention": 4, "global_attn_every_n_layers": 2},
}
DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
    "albert": AlbertConfig(**SIZES, embedding_size=8),
    "electra": ElectraConfig(**SIZES, embedding_size=8),
    "distilbert": DistilBertConfig(**DISTILBERT),
    "modernbert": ModernBertConfig(**SIZES, **MODERNBERT),
    "multiscale": MultiScaleBertConfig(**SIZES),
    "deberta": DebertaV2Config(**SIZES, **DEBERTA),
}
if not ModernBertModel._can_set_attn_implementation():
    del CONFIGS["modernbert"]  # Transformers 5.5 takes it for a model outside of the attention interface


def tiny_encoder(family: str = "bert", seed: int = 0, **changes) -> PreTrainedModel:
    config = CONFIGS[family]
    torch.manual_seed(seed)
    return AutoModel.from_config(type(config).from_dict({**config.to_dict(), **changes})).eval()
