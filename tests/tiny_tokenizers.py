"""A tiny tokenizer of each kind that the families of encoders have."""

from __future__ import annotations

from functools import cache

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

TEXTS = [
    "The author of a large book wrote in the old house .",
    "Dogs don't like cats , and cats ignored the unpayers .",
    "Über den Wolken 你好 世界 naïve café , e.g. 3.50 € !",
]
#: The families with a tokenizer of each kind.
KINDS = {
    "wordpiece": ("bert", "distilbert", "electra", "mpnet"),
    "byte level": ("roberta",),
    "byte level with [CLS]": ("modernbert",),
    "unigram": ("xlm-roberta",),
    "unigram with [CLS]": ("albert", "deberta-v2"),
    "unigram without [CLS]": ("t5", "mt5"),
    "byte fallback with <s>": ("llama", "gemma3_text"),
    "byte level with <s>": ("eurobert",),
    "byte level alone": ("qwen3",),
}
KIND_OF = {family: kind for kind, families in KINDS.items() for family in families}


def _byte_level(begin: str | None, end: str | None, trim: bool = True) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    specials = ["<pad>", *filter(None, (begin, end))]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=specials, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return _with_template(tokenizer, begin, end, tokenizer.post_processor)


def _unigram(begin: str | None, end: str | None) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    specials = ["<pad>", "<unk>", *filter(None, (begin, end))]
    trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=specials, unk_token="<unk>")
    tokenizer.train_from_iterator(TEXTS, trainer)
    return _with_template(tokenizer, begin, end)


def _byte_fallback(begin: str) -> Tokenizer:
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    specials = ["<pad>", "<unk>", begin]
    letters = sorted({letter for text in TEXTS for letter in text if letter.isascii()} - {" "} | {"▁"})
    vocabulary = {token: number for number, token in enumerate([*specials, *bytes_, *letters, "▁t", "he", "▁the"])}
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return _with_template(tokenizer, begin, None)


def _wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.train_from_iterator(TEXTS, trainer)
    return _with_template(tokenizer, "[CLS]", "[SEP]")


def _with_template(
    tokenizer: Tokenizer, begin: str | None, end: str | None, first: processors.PostProcessor | None = None
) -> Tokenizer:
    single = " ".join(filter(None, (begin, "$A", end)))
    specials = [(token, tokenizer.token_to_id(token)) for token in (begin, end) if token]
    template = processors.TemplateProcessing(
        single=single, pair=f"{single} $B{f' {end}' if end else ''}", special_tokens=specials
    )
    tokenizer.post_processor = template if first is None else processors.Sequence([first, template])
    return tokenizer


@cache
def _backend(kind: str) -> tuple[str, dict[str, str]]:
    names: dict[str, str]
    if kind == "wordpiece":
        backend, names = _wordpiece(), {"cls": "[CLS]", "sep": "[SEP]", "unk": "[UNK]", "pad": "[PAD]"}
    elif kind == "byte level":
        backend, names = _byte_level("<s>", "</s>"), {"cls": "<s>", "sep": "</s>", "pad": "<pad>"}
    elif kind == "byte level with [CLS]":
        backend, names = _byte_level("[CLS]", "[SEP]", trim=False), {"cls": "[CLS]", "sep": "[SEP]", "pad": "<pad>"}
    elif kind == "byte level with <s>":
        backend, names = _byte_level("<s>", None), {"bos": "<s>", "eos": "<s>", "pad": "<pad>"}
    elif kind == "byte level alone":
        backend, names = _byte_level(None, None, trim=False), {"eos": "<pad>"}
    elif kind == "unigram":
        backend, names = _unigram("<s>", "</s>"), {"cls": "<s>", "sep": "</s>", "unk": "<unk>", "pad": "<pad>"}
    elif kind == "unigram with [CLS]":
        backend, names = _unigram("[CLS]", "[SEP]"), {"cls": "[CLS]", "sep": "[SEP]", "unk": "<unk>", "pad": "<pad>"}
    elif kind == "unigram without [CLS]":
        backend, names = _unigram(None, "</s>"), {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
    else:
        backend, names = _byte_fallback("<s>"), {"bos": "<s>", "eos": "<s>", "unk": "<unk>"}
    return backend.to_str(), {f"{name}_token": token for name, token in names.items()}


def tiny_tokenizer_of(kind: str) -> PreTrainedTokenizerFast:
    """A new tokenizer of the kind. Decoders' tokenizers pad on the left, and the last two kinds have no padding."""
    backend, names = _backend(kind)
    decoder = kind.endswith(("<s>", "alone"))
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(backend),
        padding_side="left" if decoder else "right",
        model_max_length=64,
        model_input_names=["input_ids", *(["token_type_ids"] if kind == "wordpiece" else []), "attention_mask"],
        clean_up_tokenization_spaces=False,
        **names,
    )
