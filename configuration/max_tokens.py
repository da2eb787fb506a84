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
# Position ids of these families start at a number that is constant in their code.
FIRST_POSITIONS = {"mpnet": 2, "mra": 2, "nystromformer": 2, "yoso": 2}


def first_position(config: PreTrainedConfig) -> int:
    """The position id of the first token of a text."""
    behind_padding = config.pad_token_id + 1 if config.model_type in OFFSET_POSITIONS else 0
    return FIRST_POSITIONS.get(config.model_type, behind_padding)


def most_tokens(config: PreTrainedConfig) -> int | None:
    """The maximum input length in tokens, given the model's position embeddings; `None` if there is no limit."""
    config = getattr(config, "encoder", config)
    if getattr(config, "position_embeddings", "learned") != "learned":
        return None
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    return positions - first_position(config) if config.model_type in OFFSET_POSITIONS else positions
