"""The embedding matrix of a pre-trained encoder as word vectors."""

from __future__ import annotations

from dataclasses import replace

import torch
from transformers import AutoModel

from msattn.arguments.pretrained import ModelArguments, load_model
from msattn.errors import UserError


def encoder_vectors(args: ModelArguments, name: str, tokens: int) -> torch.Tensor:
    """
    Loads the embeddings of an encoder's tokens, centred.

    Args:
        args (`ModelArguments`): Hub options.
        name (`str`): The encoder: a local folder or a name on the Hub.
        tokens (`int`): The tokens of its tokenizer. Embeddings beyond them are left out.

    Returns:
        `torch.FloatTensor` of shape `(tokens, width)`

    Raises:
        UserError: The encoder cannot be loaded, or has fewer embeddings than tokens.
    """
    model = load_model(AutoModel, replace(args, model_name_or_path=name, attn_implementation=None), vocabulary=0)
    vectors = model.get_input_embeddings().weight.detach().float()
    if len(vectors) < tokens:
        raise UserError(
            f"--word_vectors {name}: the tokenizer has {tokens} tokens, the model {len(vectors)} embeddings."
        )
    return (vectors - vectors.mean(dim=0))[:tokens]


def fewer_dimensions(vectors: torch.Tensor, size: int) -> torch.Tensor:
    """
    The principal components of word vectors.

    Args:
        vectors (`torch.FloatTensor` of shape `(tokens, width)`): The vectors.
        size (`int`): Number of components.

    Returns:
        `torch.FloatTensor` of shape `(tokens, size)`

    Raises:
        UserError: `size` is larger than the width.
    """
    if size > vectors.shape[1]:
        raise UserError(f"--word_vector_size {size}: the word vectors have {vectors.shape[1]} numbers.")
    centred = (vectors - vectors.mean(dim=0)).double()
    _, directions = torch.linalg.eigh(centred.T @ centred)  # by ascending variance
    return (centred @ directions.flip(-1)[:, :size]).float()


__all__ = ["encoder_vectors", "fewer_dimensions"]
