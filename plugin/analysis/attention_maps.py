"""The attention of any encoder: full maps of a text, what tokens receive in many texts, and the form of bertviz."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from datasets.utils import tqdm
from transformers import BatchEncoding, DataCollatorWithPadding, PreTrainedModel, PreTrainedTokenizerBase

from msattn.errors import UserError

# A sentence, or a pair of them.
Text = tuple[str, ...]
# Full maps of a batch have at most so many weights in each head: 32 texts of 128 tokens, or two of 512.
LARGEST_BATCH = 2**19


class AttentionMaps(NamedTuple):
    """
    All maps of one text.

    Args:
        maps (`torch.Tensor` of shape `(layers, heads, N, N)`): Weights `[query, key]`.
        tokens (`list[str]`): The N tokens, as one reads them.
        sentence_b_start (`int`, *optional*): Where the second text of a pair begins.
    """

    maps: torch.Tensor
    tokens: list[str]
    sentence_b_start: int | None = None


def attention_maps(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, text_pair: str | None = None
) -> AttentionMaps:
    """
    Runs an encoder with eager attention on a text, or a pair of them, cut to what the model can read.

    Args:
        model (`PreTrainedModel`): Any encoder. It is left as it came.
        tokenizer (`PreTrainedTokenizerBase`): Its fast tokenizer.
        text (`str`): The sentence.
        text_pair (`str`, *optional*): The second sentence.

    Raises:
        UserError: The model returns no attention maps.
    """
    encoded = _encode(model, tokenizer, [(text,) if text_pair is None else (text, text_pair)])
    with attention_implementation(model, "eager"):
        layers = _attentions(model, {name: torch.tensor(value) for name, value in encoded.items()})
    _check_maps(model, layers)
    ids = encoded["input_ids"][0]
    # Decoded, the tokens of byte-level vocabularies are readable; a lone word boundary is empty.
    tokens = [tokenizer.decode([i]).strip() or tokenizer.convert_ids_to_tokens(i) for i in ids]
    sequences = encoded.sequence_ids(0)
    return AttentionMaps(
        torch.stack([layer[0] for layer in layers]), tokens, sequences.index(1) if 1 in sequences else None
    )


def received_maps(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], batch_size: int = 32
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """
    What each token of each text receives in each map, batch by batch, the longest texts first.

    The model runs with the attention implementation `"received"` and holds no attention matrix; a model outside the
    attention interface of Transformers runs with eager attention, whose maps are summed. It is left as it came.

    Args:
        model (`PreTrainedModel`): Any encoder.
        tokenizer (`PreTrainedTokenizerBase`): Its fast tokenizer.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)`, or pairs `(text, text_pair)`.
        batch_size (`int`, *optional*, defaults to 32): Texts at a time.

    Yields:
        `tuple[torch.Tensor, torch.Tensor]`: Received attention of shape `(batch, layers, heads, tokens)`, zero at
        padding, and the mask of real tokens, `(batch, tokens)`.

    Raises:
        UserError: The model returns no attentions.
    """
    with attention_implementation(model, "received"):
        for batch in _batches(model, tokenizer, texts, batch_size):
            layers = _attentions(model, batch)
            real = batch["attention_mask"].to(layers[0])
            if layers[0].dim() == 4:
                layers = [(real[:, None, None] @ layer).squeeze(-2) for layer in layers]
            yield torch.stack(layers, dim=1), real.bool()


def eager_maps(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], batch_size: int = 32
) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
    """
    All maps of each text, batch by batch, the longest texts first. Long texts come in smaller batches.

    Args:
        model (`PreTrainedModel`): Any encoder. It runs with eager attention, and is left as it came.
        tokenizer (`PreTrainedTokenizerBase`): Its fast tokenizer.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)`, or pairs `(text, text_pair)`.
        batch_size (`int`, *optional*, defaults to 32): Texts at a time.

    Yields:
        `tuple[list[torch.Tensor], torch.Tensor]`: Of each layer the weights `[query, key]`, `(batch, heads, tokens,
        tokens)`, and the mask of tokens that are neither padding nor special, `(batch, tokens)`.

    Raises:
        UserError: The model returns no attention maps.
    """
    with attention_implementation(model, "eager"):
        for batch in _batches(model, tokenizer, texts, batch_size, LARGEST_BATCH):
            layers = _attentions(model, batch)
            _check_maps(model, layers)
            yield layers, batch["special_tokens_mask"].to(layers[0].device) == 0


def bertviz_attention(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, text_pair: str | None = None
) -> tuple[Any, ...]:
    """
    The attention of a text in the form that the `head_view` and `model_view` of bertviz read.

    Args:
        model (`PreTrainedModel`): Any encoder. It is left as it came.
        tokenizer (`PreTrainedTokenizerBase`): Its fast tokenizer.
        text (`str`): The sentence.
        text_pair (`str`, *optional*): The second sentence.

    Returns:
        `tuple`: The attention, a tuple of one `(1, heads, N, N)` tensor a layer; the tokens, a list of strings; and,
        for a pair, the number of the first token of the second text.

    Raises:
        UserError: The model returns no attention maps.

    Example:

    ```python
    >>> from bertviz import head_view  # pip install bertviz; in a notebook

    >>> head_view(*bertviz_attention(model, tokenizer, "A cat sat.", "It slept."))
    ```"""
    maps, tokens, start = attention_maps(model, tokenizer, text, text_pair)
    attention = maps.cpu().split(1)
    return (attention, tokens) if start is None else (attention, tokens, start)


def _encode(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text]) -> BatchEncoding:
    positions = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
    limit = min(tokenizer.model_max_length, positions)
    columns = map(list, zip(*texts, strict=True))
    return tokenizer(*columns, truncation=True, max_length=limit, return_special_tokens_mask=True)


def _batches(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    batch_size: int,
    largest: int | None = None,
) -> Iterator[BatchEncoding]:
    encoded = _encode(model, tokenizer, texts)
    features = [{name: values[row] for name, values in encoded.items()} for row in range(len(texts))]
    return padded_batches(features, DataCollatorWithPadding(tokenizer), batch_size, largest)


def padded_batches(
    features: Sequence[Mapping[str, Any]], collator: Callable[..., Any], batch_size: int, largest: int | None = None
) -> Iterator[Any]:
    """The longest texts first. `largest` is the most tokens², all texts of a batch together."""
    features = sorted(features, key=lambda feature: len(feature["input_ids"]), reverse=True)
    with tqdm(total=len(features), desc="Reading attention", unit="text", delay=2, leave=False) as bar:
        while features:
            length = max(1, len(features[0]["input_ids"]))
            count = batch_size if largest is None else min(batch_size, max(1, largest // length**2))
            batch, features = features[:count], features[count:]
            yield collator(batch)
            bar.update(len(batch))


def _check_maps(model: PreTrainedModel, layers: Sequence[torch.Tensor]) -> None:
    if layers[0].dim() != 4:
        raise UserError(f"{type(model).__name__} returns no full attention maps with eager attention.")


@contextmanager
def attention_implementation(model: PreTrainedModel, implementation: str) -> Iterator[None]:
    """Sets an attention implementation, where the model lets it be set, and switches dropout off."""
    own, training = model.config._attn_implementation, model.training
    if own != implementation:
        model.set_attn_implementation(implementation)
    model.eval()
    try:
        yield
    finally:
        if model.config._attn_implementation != own:
            model.set_attn_implementation(own)
        model.train(training)


def encoder_outputs(
    model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """
    Runs an encoder within [`attention_implementation`] `"eager"`, without gradients.

    Args:
        model (`PreTrainedModel`): Any encoder.
        inputs (`Mapping[str, torch.Tensor]`): A batch. What the model does not know is left out.

    Returns:
        `tuple[torch.Tensor, list[torch.Tensor]]`: The last hidden states, `(batch, tokens, width)`, and of each layer
        the weights `[query, key]`, `(batch, heads, tokens, tokens)`.

    Raises:
        UserError: The model returns no hidden states or no attention maps.
    """
    outputs = _outputs(model, inputs)
    layers = _maps(model, inputs, outputs)
    _check_maps(model, layers)
    hidden_states = getattr(outputs, "last_hidden_state", None)
    if hidden_states is None:
        raise UserError(f"{type(model).__name__} returns no last hidden states.")
    return hidden_states, layers


def _attentions(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Of each layer, `(batch, heads, tokens, tokens)`, or `(batch, heads, tokens)` where it is received attention."""
    return _maps(model, inputs, _outputs(model, inputs))


def _outputs(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]) -> Any:
    """What the model returns; `None` if it cannot be asked for attentions."""
    parameters = inspect.signature(model.forward).parameters
    takes_any = any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    if not takes_any and "output_attentions" not in parameters:
        return None
    inputs = {name: value.to(model.device) for name, value in inputs.items() if name in parameters}
    with torch.no_grad():
        return model(**inputs, output_attentions=True, return_dict=True)


def _maps(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], outputs: Any) -> list[torch.Tensor]:
    attentions = getattr(outputs, "attentions", None)
    if not attentions:
        raise UserError(f"{type(model).__name__} returns no attentions.")
    tokens = inputs["input_ids"].shape[1]
    for attention in attentions:
        if attention.dim() not in (3, 4) or set(attention.shape[2:]) != {tokens}:
            raise UserError(f"{type(model).__name__} has attentions of shape {tuple(attention.shape)}: no maps.")
    return [attention.to(torch.promote_types(attention.dtype, torch.float32)) for attention in attentions]
