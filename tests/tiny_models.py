"""Models and tokenizers small enough to build in every test."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, BertTokenizerFast, PreTrainedModel

from msattn import BertForMultiScaleRE, BertPairwiseConfig, BertPairwiseParser, MultiScaleBertConfig
from msattn.data.inputs.entity_markers import add_entity_markers

WORDS = "the author book of a in house dog cat taxi wrote . , ##s ##payer un".split()
LABELS = ("Other", "Product-Producer(e2,e1)", "Content-Container(e1,e2)")
RELATIONS = ("det", "nsubj", "punct", "root")
SIZES = {
    "vocab_size": 25,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}


def labelled(*names: str) -> dict[str, dict]:
    """The fields of a configuration that name its labels."""
    return {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}


def tiny_tokenizer() -> BertTokenizerFast:
    """The entity markers are the ids 21 to 24."""
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer = BertTokenizerFast(tokenizer_object=backend, model_max_length=64)
    add_entity_markers(tokenizer)
    return tokenizer


def saved_model(folder: Path, model: PreTrainedModel, tokenizer: BertTokenizerFast | None = None) -> str:
    """Saves a model and its tokenizer, by default that above."""
    for part in (model, tokenizer or tiny_tokenizer()):
        part.save_pretrained(folder)
    return str(folder)


def saved_encoder(folder: Path, layers: int) -> Path:
    """Saves an untrained BERT, the same every time, and its tokenizer."""
    torch.manual_seed(0)
    saved_model(folder, BertModel(BertConfig(**SIZES | {"num_hidden_layers": layers})))
    return folder


def tiny_relation_extractor(**config) -> tuple[BertForMultiScaleRE, BertTokenizerFast]:
    """An untrained model, the same every time, and its tokenizer."""
    torch.manual_seed(0)
    return BertForMultiScaleRE(
        MultiScaleBertConfig(**{**SIZES, **labelled(*LABELS), **config})
    ).eval(), tiny_tokenizer()


def tiny_parser(**config) -> tuple[BertPairwiseParser, BertTokenizerFast]:
    """An untrained parser, the same every time, and its tokenizer."""
    torch.manual_seed(0)
    fields = {**SIZES, **labelled(*RELATIONS), "num_hidden_layers": 2, "initializer_range": 0.5}
    config = {**fields, "objective": "head_select", **config}
    return BertPairwiseParser(BertPairwiseConfig(**config)).eval(), tiny_tokenizer()
