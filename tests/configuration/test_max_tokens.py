"""The maximum length is that of the position embeddings, in every family of Transformers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import MODEL_FOR_MASKED_LM_MAPPING, MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING, AutoConfig

from msattn.configuration.max_tokens import OFFSET_POSITIONS, most_tokens
from msattn.modeling.any_encoder import encoder_class

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
# Its positions are counted from 0, and the first has a vector of zeros.
NOT_BEHIND_PADDING = {"lxmert"}


@pytest.mark.parametrize("family", ["bert", "data2vec-text", "ibert", "luke", "mpnet", "roberta"])
def test_the_model_takes_so_many_and_no_more(family):
    config = AutoConfig.for_model(family, **SIZES, vocab_size=30, max_position_embeddings=20)
    model, most = encoder_class(type(config))(config).eval(), most_tokens(config)
    model(input_ids=torch.full((1, most), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, most + 1), 5))


@pytest.mark.slow
def test_all_families_that_count_positions_behind_padding_are_known():
    found = set()
    for config_class in {*MODEL_FOR_MASKED_LM_MAPPING, *MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING}:
        try:
            config = config_class()
            with torch.device("meta"):
                model = encoder_class(config_class)(config)
        except Exception:  # no encoder, or a package is missing
            continue
        tables = (one for name, one in model.named_modules() if "position" in name and isinstance(one, nn.Embedding))
        if any(table.padding_idx is not None for table in tables):
            found.add(config.model_type)
    assert found - NOT_BEHIND_PADDING <= {*OFFSET_POSITIONS}
    assert len(found) > 8
