"""A tokenizer whose tokens are the words of a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from msattn.errors import UserError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
# A no-break space or U+0085 is part of a word in some corpora, and no word of a list may end in no token at all.
SPACES = Regex(r"[ \t\r\n]+")
# Words without their contracted ending, the endings, numbers, and every other sign by itself: "do n't", "it 's".
WORDS = Regex(r"(?i)\d+(?:[.,]\d+)*|[^\W_]+(?=n['’]t\b)|n['’]t\b|['’](?:s|m|d|re|ve|ll)\b|\w+|[^\w\s]")


def train_word_tokenizer(
    texts: Iterable[str | Sequence[str]],
    lower_case: bool = True,
    raw_text: bool = False,
    min_frequency: int = 1,
    max_size: int | None = None,
    model_max_length: int | None = None,
) -> PreTrainedTokenizerFast:
    """
    Builds a word-level tokenizer with the vocabulary of a corpus, the most frequent word first.

    A text becomes `[CLS] a [SEP]`, a pair `[CLS] a [SEP] b [SEP]` with 1 as the type of `b [SEP]`. What
    `save_pretrained` writes, `AutoTokenizer` loads.

    Args:
        texts (`Iterable`): Texts, or lists of words.
        lower_case (`bool`, *optional*, defaults to `True`): Whether case is ignored.
        raw_text (`bool`, *optional*, defaults to `False`):
            Whether punctuation and contractions are words of their own, as in the Penn Treebank and in GloVe. Words
            end at spaces only if `False`, for text that is tokenised already.
        min_frequency (`int`, *optional*, defaults to 1): Words that are rarer are unknown.
        max_size (`int`, *optional*): The most tokens in the vocabulary, the four special ones among them.
        model_max_length (`int`, *optional*): The most tokens that the model takes; any number if `None`.

    Raises:
        UserError: There is no word that is frequent enough, or no room for one.
    """
    if max_size is not None and max_size <= len(SPECIAL_TOKENS):
        raise UserError(f"max_size must be more than the {len(SPECIAL_TOKENS)} special tokens, not {max_size}.")
    pad, unknown, start, end = SPECIAL_TOKENS
    tokenizer = Tokenizer(models.WordLevel(unk_token=unknown))
    if lower_case:
        tokenizer.normalizer = normalizers.Lowercase()
    spaces = pre_tokenizers.Split(SPACES, "removed")
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([spaces, pre_tokenizers.Split(WORDS, "isolated")]) if raw_text else spaces
    )
    trainer = trainers.WordLevelTrainer(
        vocab_size=2**31 if max_size is None else max_size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() == len(SPECIAL_TOKENS):
        raise UserError(f"there is no word in the texts that occurs {min_frequency} times or more.")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B:1 {end}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (start, end)],
    )
    options = {} if model_max_length is None else {"model_max_length": model_max_length}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        unk_token=unknown,
        cls_token=start,
        sep_token=end,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **options,
    )


def add_words(tokenizer: PreTrainedTokenizerFast, words: Iterable[str], max_size: int | None = None) -> None:
    """
    Lets a word-level tokenizer know more words, such as those that have vectors, as long as its vocabulary has room.
    Those that it would read in another way, like one of two words or in upper case, are left out.
    """
    backend = tokenizer.backend_tokenizer
    vocabulary = backend.get_vocab()
    for word in words:
        if max_size is not None and len(vocabulary) >= max_size:
            break
        read = word if backend.normalizer is None else backend.normalizer.normalize_str(word)
        if word not in vocabulary and backend.pre_tokenizer.pre_tokenize_str(read) == [(word, (0, len(word)))]:
            vocabulary[word] = len(vocabulary)
    backend.model = models.WordLevel(vocabulary, unk_token=tokenizer.unk_token)
