"""Builds a word-level tokenizer from a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from msattn.errors import UserError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
# Unicode spaces such as U+00A0 and U+0085 are not included: in some corpora they are words or parts of words.
SPACES = Regex(r"[ \t\r\n]+")
# Numbers, words, split contractions ("do n't", "it 's") and single punctuation marks.
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
    Builds a word-level tokenizer with the words of a corpus as its vocabulary, ordered by frequency.

    A text is encoded as `[CLS] a [SEP]`, a pair as `[CLS] a [SEP] b [SEP]` with the token type 1 for `b [SEP]`. Save
    it with `save_pretrained` and load it with `AutoTokenizer`.

    Args:
        texts (`Iterable[str | Sequence[str]]`): Texts, or lists of words.
        lower_case (`bool`, *optional*, defaults to `True`): Whether to lower-case the text.
        raw_text (`bool`, *optional*, defaults to `False`):
            Whether to split off punctuation and contractions, as in the Penn Treebank and GloVe. Otherwise words are
            split at spaces only, for text that is already tokenized.
        min_frequency (`int`, *optional*, defaults to 1): Minimum frequency of a word.
        max_size (`int`, *optional*): Maximum size of the vocabulary, with the four special tokens. Default: no limit.
        model_max_length (`int`, *optional*): Maximum input length of the model in tokens. Default: no limit.

    Returns:
        `PreTrainedTokenizerFast`: The tokenizer.

    Raises:
        UserError: No word has the minimum frequency, or `max_size` leaves no room for a word.

    Example:

    ```python
    >>> from msattn.data import train_word_tokenizer

    >>> train_word_tokenizer(["A cat sleeps ."]).tokenize("a cat")
    ['a', 'cat']
    ```
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
    Adds words to the vocabulary of a word-level tokenizer, such as those with pre-trained vectors.

    Words that the tokenizer would split or lower-case are skipped.

    Args:
        tokenizer (`PreTrainedTokenizerFast`): The tokenizer, which is changed in place.
        words (`Iterable[str]`): The words, in order of priority.
        max_size (`int`, *optional*): Maximum size of the vocabulary. Default: no limit.
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
