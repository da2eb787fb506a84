"""`benchmarks/families.py`: what works with which encoder."""

from __future__ import annotations

import pytest
from families import CHECKS, MODELS, family_table

from tests.tiny_encoders import FAMILIES


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


@pytest.mark.slow
@pytest.mark.heavy
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("title", MODELS)
def test_every_family_does_everything(family, title):
    row = family_table(MODELS[title], [family]).splitlines()[2]
    # Transformers has no gradient checkpointing for two families.
    assert row.count("| yes ") == len(CHECKS) - (family in ("albert", "mpnet")), row
