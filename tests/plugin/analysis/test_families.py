from __future__ import annotations

import pytest

from msattn.analysis.__main__ import main
from msattn.analysis.families import CHECKS, MODELS, family_table
from tests.tiny_encoders import FAMILIES


@pytest.mark.parametrize("title", MODELS)
def test_a_row_for_each_family_and_a_reason_for_what_fails(title):
    def fails(trial):
        raise ValueError(f"no such thing for {trial.family}")

    checks = {"padding": CHECKS["padding on either side"], "nothing": fails}
    table = family_table(MODELS[title], ["roberta", "t5"], checks)
    assert table.splitlines() == [
        "| family | padding | nothing |",
        "| --- | --- | --- |",
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
def test_every_family_does_everything(family, tmp_path, capsys):
    main(["families", "--families", family, "--output", str(tmp_path / "table.md")])
    printed = capsys.readouterr().out.strip()
    assert printed == (tmp_path / "table.md").read_text().strip()
    rows = [line for line in printed.splitlines() if line.startswith(f"| {family} ")]
    # Transformers has no gradient checkpointing for two families.
    assert len(rows) == len(MODELS)
    for row in rows:
        assert row.count("| yes ") == len(CHECKS) - (family in ("albert", "mpnet")), printed
