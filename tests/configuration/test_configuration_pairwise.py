from __future__ import annotations

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, BertConfig

from msattn import BertPairwiseConfig, PairwiseConfig
from tests.tiny_encoders import FAMILIES, tiny_encoder

WRONG = [
    ({"features": "all"}, "features"),
    ({"arc_size": 0}, "arc_size must be at least 1, got 0"),
    ({"none_weight": 0.0}, "none_weight must be above 0 and finite, got 0.0"),
    ({"scorer": "biaffine", "features": "att"}, 'scorer "biaffine" reads hidden states'),
    ({"root": "learned", "features": "att"}, 'root "learned" is a hidden state'),
    ({"root": "first"}, "root"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_values(wrong, message, tmp_path):
    tiny_encoder("roberta").save_pretrained(tmp_path)
    for build in (
        lambda: PairwiseConfig(encoder=tiny_encoder("roberta"), **wrong),
        lambda: PairwiseConfig.from_pretrained(tmp_path, **wrong),
        lambda: BertPairwiseConfig(**wrong),
    ):
        with pytest.raises(StrictDataclassError) as error:
            build()
        assert message in str(error.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_survives_json(family, tmp_path):
    config = PairwiseConfig(encoder=tiny_encoder(family), objective="head_select", root="learned", num_labels=7)
    config.save_pretrained(tmp_path)
    for loaded in (PairwiseConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert type(loaded) is PairwiseConfig and type(loaded.encoder) is type(config.encoder)
        assert loaded.objective == "head_select" and loaded.root == "learned" and loaded.num_labels == 7


def test_the_fields_are_those_of_the_member_of_bert():
    own = {name for name in PairwiseConfig().to_dict() if name != "encoder"}
    of_bert = BertPairwiseConfig().to_dict().keys() - BertConfig().to_dict().keys()
    assert of_bert <= own
