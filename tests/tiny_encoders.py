"""A tiny random encoder of every family that our models are tried on, and inputs for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, AutoConfig, PreTrainedConfig, PreTrainedModel

from msattn.modeling.any_encoder import encoder_class
from tests.tiny_tokenizers import KIND_OF, tiny_tokenizer_of

COMMON = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
BERT = {**COMMON, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
T5 = {
    "vocab_size": 60,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.0,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
}
CAUSAL = {**COMMON, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
# Windows shorter than the sentences.
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": BERT,
    "roberta": {**BERT, "pad_token_id": 1},
    "xlm-roberta": {**BERT, "pad_token_id": 1},
    "albert": {**BERT, "embedding_size": 16},
    "electra": {**BERT, "embedding_size": 16},
    "distilbert": {
        "vocab_size": 60,
        "dim": 32,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 48,
        "max_position_embeddings": 40,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    },
    "mpnet": {**BERT, "pad_token_id": 1},
    "deberta-v2": {
        **BERT,
        "relative_attention": True,
        "position_buckets": 4,
        "position_biased_input": False,
        "pos_att_type": ["p2c", "c2p"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "type_vocab_size": 0,
    },
    "modernbert": {
        **COMMON,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "cls_token_id": 2,
        "sep_token_id": 3,
        "global_attn_every_n_layers": 2,
        "local_attention": 6,
    },
    "eurobert": {**COMMON, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    "t5": T5,
    "mt5": {**T5, "feed_forward_proj": "gated-gelu"},
    "llama": CAUSAL,
    "qwen3": CAUSAL,
    "gemma3_text": {
        **CAUSAL,
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
        "query_pre_attn_scalar": 8,
    },
}
CAUSAL_FAMILIES = {"llama", "qwen3", "gemma3_text"}
#: Real tokens of the sentences in a batch.
LENGTHS = (9, 5, 7)


def tiny_encoder(family: str, **changes: Any) -> PreTrainedConfig:
    """A configuration of the family without dropout."""
    return AutoConfig.for_model(family, **{**FAMILIES[family], **changes})


def saved_tiny_encoder(family: str, folder: Path) -> Path:
    """Saves an untrained encoder, the same every time, and a tokenizer of its kind."""
    tokenizer = tiny_tokenizer_of(KIND_OF[family])
    tokenizer.save_pretrained(folder)
    special = {"pad_token_id": tokenizer.pad_token_id or 0}
    if family in ("t5", "mt5"):
        special |= {"eos_token_id": tokenizer.eos_token_id, "decoder_start_token_id": 0}
    else:
        special |= {"max_position_embeddings": 70}
    config = tiny_encoder(family, vocab_size=len(tokenizer), **special)
    torch.manual_seed(0)
    encoder_class(type(config))(config).save_pretrained(folder)
    return folder


def randomized(model: PreTrainedModel) -> PreTrainedModel:
    """Far from the tiny weights of a fresh model, every part of it matters."""
    torch.manual_seed(0)
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.15)
    return model.eval()


def save_classifier(family: str, folder: Path) -> PreTrainedModel:
    """The family's own classifier, saved in a folder."""
    config = tiny_encoder(family, num_labels=4)
    model = randomized(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[type(config)](config))
    model.save_pretrained(folder)
    return model


def batch(family: str, left: int = 0, right: int = 0) -> dict[str, torch.Tensor]:
    """Sentences of `LENGTHS` tokens, with so much padding more on either side."""
    pad = FAMILIES[family].get("pad_token_id", 0)
    generator = torch.Generator().manual_seed(0)
    sentences = torch.randint(5, 60, (len(LENGTHS), max(LENGTHS)), generator=generator)
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(-1)
    sides = (left, right)
    return {
        "input_ids": nn.functional.pad(sentences.where(real, torch.tensor(pad)), sides, value=pad),
        "attention_mask": nn.functional.pad(real.long(), sides),
    }
