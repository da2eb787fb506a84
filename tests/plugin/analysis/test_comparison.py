"""Runs over seeds side by side."""

from __future__ import annotations

import pytest

from msattn import UserError
from msattn.analysis import comparison_table, read_seeds
from msattn.analysis.__main__ import main
from msattn.results import write_json


def seeds(*scores: float, first: int = 1, **others: float) -> dict[int, dict[str, float]]:
    return {
        seed: {"eval_loss": 1.0, "eval_accuracy": score, **others} for seed, score in enumerate(scores, start=first)
    }


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_paired_over_the_seeds_in_common():
    """With two degrees of freedom the p-value of t is 1 - |t| / √(t² + 2); the differences 1, 2, 3 have t = √12."""
    runs = {"none": seeds(1, 2, 3, 9), "more": seeds(2, 4, 6, epoch=2.0, train_runtime=30.0), "one": seeds(8, first=4)}
    header, _, none, more, one = cells(comparison_table(runs))
    assert header == ["", "seeds", "eval_accuracy", "difference", "p", "seconds an epoch"]
    assert none == ["none", "1 2 3 4", "3.75 ± 3.6", "", "", ""]
    assert more == ["more", "1 2 3", "4 ± 2", "+2", f"{1 - 12**0.5 / 14**0.5:.2g}", "15"]
    assert one == ["one", "4", "8", "-1", "", ""]


def test_what_cannot_be_tested():
    """Equal differences are so but for rounding."""
    runs = {"none": seeds(84.1, 85.2, 83.3), "equal": seeds(84.2, 85.3, 83.4), "others": seeds(5, 6, first=7)}
    *_, equal, others = cells(comparison_table(runs, "eval_accuracy"))
    assert equal[3:5] == ["+0.1", ""] and others[3:5] == ["", ""]


def test_command(tmp_path, capsys):
    for name, scores in (("none", (0.5, 0.75)), ("both", (0.25, 0.75))):
        for seed, results in seeds(*scores, first=9).items():
            write_json(tmp_path / name / f"seed-{seed}" / "all_results.json", results)
    (tmp_path / "none" / "seed-old").mkdir()
    folders = [str(tmp_path / name) for name in ("none", "both")]
    assert list(read_seeds(folders[0])) == [9, 10]
    main(["compare", "--folders", *folders])
    assert [row[:4] for row in cells(capsys.readouterr().out)[2:]] == [
        ["none", "9 10", "0.625 ± 0.18", ""],
        ["both", "9 10", "0.5 ± 0.35", "-0.12"],
    ]
    main(["compare", "--folders", *folders, "--names", "BERT", "guided", "--metric", "eval_loss"])
    assert cells(capsys.readouterr().out)[3][:5] == ["guided", "9 10", "1 ± 0", "+0", ""]


def test_wrong_arguments(tmp_path):
    with pytest.raises(UserError, match=r"there is no folder seed-N; runs over seeds are made by --seeds"):
        main(["compare", "--folders", str(tmp_path)])
    (tmp_path / "seed-1").mkdir()
    with pytest.raises(UserError, match=r"seed-1.all_results.json: there is no such file"):
        main(["compare", "--folders", str(tmp_path)])
    with pytest.raises(UserError, match="--names: there are 1 for 2 folders"):
        main(["compare", "--folders", str(tmp_path), str(tmp_path), "--names", "a"])
    with pytest.raises(UserError, match="--names: one is there twice, among a, a"):
        main(["compare", "--folders", str(tmp_path), str(tmp_path), "--names", "a", "a"])
    with pytest.raises(UserError, match="all have are eval_loss, eval_accuracy; there is no eval_f1"):
        comparison_table({"a": seeds(1)}, "eval_f1")
