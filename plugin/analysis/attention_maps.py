"""The attention of any encoder: full maps of a text, received attention over many texts, and input for bertviz."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from datasets.utils import tqdm
from transformers import BatchEncoding, DataCollatorWithPadding, PreTrainedModel, PreTrainedTokenizerBase

from msattn.errors import UserError
from msattn.modeling.attention_readings import Reading, read_attention
from msattn.modeling.attention_windows import has_windows
from msattn.modeling.evaluation_mode import evaluating
from msattn.modeling.received_attention import AttentionRefused

# A sentence or a sentence pair.
Text = tuple[str, ...]
# Maximum number of attention weights per head in a batch: 32 texts of 128 tokens, or two of 512.
LARGEST_BATCH = 2**19
# The same where no map is kept: 32 texts of 724 tokens, or one of 4,096.
LARGEST_READ = 2**24


class AttentionMaps(NamedTuple):
    """
    The attention maps of a text.

    Args:
        maps (`torch.Tensor` of shape `(layers, heads, N, N)`): Attention weights `[query, key]`.
        tokens (`list[str]`): The N tokens, decoded.
        sentence_b_start (`int`, *optional*): The index of the first token of the second text of a pair.
    """

    maps: torch.Tensor
    tokens: list[str]
    sentence_b_start: int | None = None


def attention_maps(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, text_pair: str | None = None
) -> AttentionMaps:
    """
    Computes the attention maps of a text or text pair with eager attention.

    Args:
        model (`PreTrainedModel`): Any encoder. Its attention implementation and mode are restored afterwards.
        tokenizer (`PreTrainedTokenizerBase`): The fast tokenizer of the encoder.
        text (`str`): The sentence, truncated to the limit of the model.
        text_pair (`str`, *optional*): The second sentence.

    Returns:
        `AttentionMaps`: The maps and tokens.

    Raises:
        UserError: The model returns no attention maps.

    Example:

    ```python
    >>> from msattn.analysis import attention_maps

    >>> attention_maps(model, tokenizer, "A cat sat.").maps.shape
    torch.Size([12, 12, 6, 6])
    ```
    """
    encoded = _encode(model, tokenizer, [(text,) if text_pair is None else (text, text_pair)])
    with attention_implementation(model, "eager"):
        layers = _attentions(model, {name: torch.tensor(value) for name, value in encoded.items()})
    _check_maps(model, layers)
    ids = encoded["input_ids"][0]
    # Decoding makes byte-level tokens readable; a token that is only a word boundary decodes to nothing.
    tokens = [tokenizer.decode([i]).strip() or tokenizer.convert_ids_to_tokens(i) for i in ids]
    sequences = encoded.sequence_ids(0)
    return AttentionMaps(
        torch.stack([layer[0] for layer in layers]), tokens, sequences.index(1) if 1 in sequences else None
    )


def received_maps(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], batch_size: int = 32
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """
    Computes the attention that each token receives in each map, batch by batch, longest texts first.

    No attention matrix is stored: see [`read_attention`]. Models outside the attention interface of Transformers run
    with eager attention, and their maps are summed.

    Args:
        model (`PreTrainedModel`): Any encoder or decoder. Its attention implementation and mode are restored
            afterwards.
        tokenizer (`PreTrainedTokenizerBase`): The fast tokenizer of the encoder.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)` or pairs `(text, text_pair)`.
        batch_size (`int`, *optional*, defaults to 32): Maximum number of texts per batch; fewer if they are long.

    Yields:
        `tuple[torch.Tensor, torch.Tensor]`: Received attention of shape `(batch, layers, heads, tokens)`, zero at
        padding, and the mask of real tokens, `(batch, tokens)`.

    Raises:
        UserError: The model returns no attentions.
    """
    if is_readable(model, tokenizer):
        for batch, readings in read_texts_attention(model, tokenizer, texts, batch_size, lambda batch: {}):
            received = torch.stack([reading["received"] for reading in readings], dim=1)
            yield received, batch["attention_mask"].to(received.device).bool()
        return
    with attention_implementation(model, "eager"):
        for batch in _batches(model, tokenizer, texts, batch_size, LARGEST_BATCH):
            layers = _attentions(model, batch)
            _check_maps(model, layers)
            real = batch["attention_mask"].to(layers[0])
            yield torch.stack([(real[:, None, None] @ layer).squeeze(-2) for layer in layers], dim=1), real.bool()


def is_readable(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether [`read_attention`] reads maps over the tokens of a text from a model, by a trial."""
    batch = next(_batches(model, tokenizer, [("some words to read",)], 1))
    try:
        readings = _read(model, batch, {})
    except AttentionRefused:
        return False
    return bool(readings) and all(reading.real.shape == batch["input_ids"].shape for reading in readings)


def read_texts_attention(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    batch_size: int,
    options: Callable[[BatchEncoding], dict[str, Any]],
) -> Iterator[tuple[BatchEncoding, list[Reading]]]:
    """
    Reads statistics of the attention in texts, batch by batch, longest texts first.

    Args:
        model (`PreTrainedModel`): A model for which [`is_readable`] is true. Its mode is restored afterwards.
        tokenizer, texts, batch_size: As in [`received_maps`].
        options (`Callable`): Gives the arguments of [`read_attention`] for a batch.

    Yields:
        `tuple[BatchEncoding, list[Reading]]`: The batch, and the reading of each layer.
    """
    for batch in _batches(model, tokenizer, texts, batch_size, LARGEST_READ):
        yield batch, _read(model, batch, options(batch))


def eager_maps(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text], batch_size: int = 32
) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
    """
    Computes the full attention maps of texts with eager attention, batch by batch, longest texts first.

    Args:
        model (`PreTrainedModel`): Any encoder. Its attention implementation and mode are restored afterwards.
        tokenizer (`PreTrainedTokenizerBase`): The fast tokenizer of the encoder.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)` or pairs `(text, text_pair)`.
        batch_size (`int`, *optional*, defaults to 32): Maximum number of texts per batch; fewer if they are long.

    Yields:
        `tuple[list[torch.Tensor], torch.Tensor]`: The attention weights `[query, key]` of each layer, `(batch, heads,
        tokens, tokens)`, and the mask of tokens that are neither padding nor special, `(batch, tokens)`.

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
    Computes the attention of a text as arguments of `head_view` and `model_view` of bertviz.

    Args:
        model (`PreTrainedModel`): Any encoder. Its attention implementation and mode are restored afterwards.
        tokenizer (`PreTrainedTokenizerBase`): The fast tokenizer of the encoder.
        text (`str`): The sentence.
        text_pair (`str`, *optional*): The second sentence.

    Returns:
        `tuple[Any, ...]`: A tuple with one tensor of shape `(1, heads, N, N)` per layer; the list of tokens; and, for
        a pair, the index of the first token of the second text.

    Raises:
        UserError: The model returns no attention maps.

    Example:

    ```python
    >>> from bertviz import head_view  # pip install bertviz; in a notebook

    >>> head_view(*bertviz_attention(model, tokenizer, "A cat sat.", "It slept."))
    ```
    """
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
    """
    Collates encoded texts into batches, longest texts first.

    Args:
        features (`Sequence[Mapping[str, Any]]`): The encoded texts, with `input_ids`.
        collator (`Callable`): Pads a list of features to a batch.
        batch_size (`int`): Maximum number of texts per batch.
        largest (`int`, *optional*): Maximum of texts · tokens² per batch. Default: no limit.
    """
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
    """
    A context with another attention implementation, if the model supports it, and without dropout.

    Args:
        model (`PreTrainedModel`): The model. Its attention implementation and mode are restored on exit.
        implementation (`str`):
            The attention implementation, such as `"eager"`, in whose place `"words"` reads the maps of a model with
            windows: `"eager"` knows none.
    """
    own = model.config._attn_implementation
    if implementation == "eager" and has_windows(model.config):
        implementation = "words"
    if own != implementation:
        model.set_attn_implementation(implementation)
    try:
        with evaluating(model):
            yield
    finally:
        if model.config._attn_implementation != own:
            model.set_attn_implementation(own)


def encoder_outputs(
    model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """
    Runs an encoder without gradients. Call it within [`attention_implementation`] `"eager"`.

    Args:
        model (`PreTrainedModel`): Any encoder.
        inputs (`Mapping[str, torch.Tensor]`): A batch. Columns that `forward` does not take are dropped.

    Returns:
        `tuple[torch.Tensor, list[torch.Tensor]]`: The last hidden states, `(batch, tokens, width)`, and the attention
        weights `[query, key]` of each layer, `(batch, heads, tokens, tokens)`.

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


def _read(model: PreTrainedModel, batch: BatchEncoding, options: dict[str, Any]) -> list[Reading]:
    parameters = inspect.signature(model.forward).parameters
    inputs = {name: value.to(model.device) for name, value in batch.items() if name in parameters}
    with attention_implementation(model, model.config._attn_implementation):  # for its mode
        with read_attention(model, **options) as readings, torch.no_grad():
            model(**inputs)
    return readings


def _attentions(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The attention of each layer: `(batch, heads, tokens, tokens)`, or received, `(batch, heads, tokens)`."""
    return _maps(model, inputs, _outputs(model, inputs))


def _outputs(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]) -> Any:
    """The model outputs; `None` if `forward` does not take `output_attentions`."""
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
