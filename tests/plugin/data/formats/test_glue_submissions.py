from __future__ import annotations

import pytest

from msattn.data.formats.glue_submissions import write_glue_submission


@pytest.mark.parametrize(
    ("task", "predictions", "name", "rows"),
    [
        ("sst2", [1], "SST-2.tsv", ["1"]),
        ("stsb", [5.25, -0.5, 2.5], "STS-B.tsv", ["5.00000", "0.00000", "2.50000"]),
        ("mnli", [0, 1, 2], "MNLI-m.tsv", ["entailment", "neutral", "contradiction"]),
        ("mnli_mm", [2], "MNLI-mm.tsv", ["contradiction"]),
        ("qnli", [0, 1], "QNLI.tsv", ["entailment", "not_entailment"]),
    ],
)
def test_glue_submission(tmp_path, task, predictions, name, rows):
    write_glue_submission(task, tmp_path, predictions)
    lines = ["index\tprediction", *(f"{index}\t{row}" for index, row in enumerate(rows))]
    assert (tmp_path / name).read_text(encoding="utf-8") == "\n".join(lines) + "\n"
