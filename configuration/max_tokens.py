"""The maximum input length of a model."""

from __future__ import annotations

from transformers import PreTrainedConfig

# Position ids of these families start at pad_token_id + 1, so fewer positions are usable.
OFFSET_POSITIONS = (
    "camembert",
    "data2vec-text",
    "esm",
    "ibert",
    "layoutlmv3",
    "lilt",
    "longformer",
    "luke",
    "markuplm",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)


def most_tokens(config: PreTrainedConfig) -> int | None:
    """The maximum input length in tokens, given the model's position embeddings; `None` if there is no limit."""
    config = getattr(config, "encoder", config)
    if getattr(config, "position_embeddings", "learned") != "learned":
        return None
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    return positions - config.pad_token_id - 1 if config.model_type in OFFSET_POSITIONS else positions
