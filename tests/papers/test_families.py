"""`benchmarks/families.py`: what works with which encoder."""

from __future__ import annotations

from functools import partial

import pytest
from families import CHECKS, MODELS, PAIRS, Trial, family_table

from msattn import PairwiseParser
from tests.modeling.test_modeling_pairwise import FAMILY_PARAMS


@pytest.mark.parametrize("title", MODELS)
def test_a_row_for_each_family_and_a_reason_for_what_fails(title):
    def fails(trial):
        raise ValueError(f"no such thing for {trial.family}")

    checks = {"padding": CHECKS["padding on either side"], "nothing": fails}
    assert family_table(MODELS[title], ["roberta", "t5"], checks).splitlines()[2:] == [
        "| roberta | yes | no (1) |",
        "| t5 | yes | no (2) |",
        "",
        "(1) no such thing for roberta",
        "",
        "(2) no such thing for t5",
    ]


# What other tests show, starts a process, or compiles.
SLOW = ("loss and gradients", "padding on either side", "Hub, without msattn and back", "`torch.compile`")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow, pytest.mark.heavy] if name in SLOW else []) for name in CHECKS],
)
@pytest.mark.parametrize("family", FAMILY_PARAMS)
@pytest.mark.parametrize(
    ("model_class", "options"),
    [*(model for models in MODELS.values() for model in models), (PairwiseParser, PAIRS)],
    ids=["fusion", "heads", "relations", "pairs"],
)
def test_every_family_does_everything(name, family, model_class, options, tmp_path):
    check = partial(CHECKS[name], Trial(family, model_class, options, tmp_path))
    if name == "gradient checkpointing" and family in ("albert", "mpnet"):  # Transformers has none for them
        with pytest.raises(ValueError, match="does not support activation checkpointing"):
            check()
    else:
        check()
