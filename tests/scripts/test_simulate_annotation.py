"""The simulation of annotators in `benchmarks/`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from msattn.data.treebanks import read_treebank
from tests.scripts.relation_runs import ROOT
from tests.scripts.test_run_parsing import TREES, conllu


@pytest.fixture
def simulation(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import simulate_annotation

    return simulate_annotation


def points(seed: int, *scores: float, way: str = "random") -> list[dict]:
    return [
        {"seed": seed, "way": way, "sentences": 100 * 2**place, "words": 1000 * 2**place, "uas": uas}
        for place, uas in enumerate(scores)
    ]


def test_what_the_target_takes(simulation):
    assert simulation.needed(points(1, 70, 80, 90), "sentences", 85) == pytest.approx(200 * math.sqrt(2))
    assert simulation.needed(points(1, 70, 90), "words", 90) == pytest.approx(2000)
    assert simulation.needed(points(1, 70, 80), "words", 70) == 1000
    assert simulation.needed(points(1, 70, 80), "words", 81) is None
    table = simulation.summary([*points(1, 80, 90), *points(2, 70, 80), *points(1, 85, 95, way="loss")], 80)
    assert table.splitlines()[2:] == [
        "| random | 75.00 ± 7.07 | 85.00 ± 7.07 | 150 ± 71 | 1,500 ± 707 |",
        "| loss | 85.00 | 95.00 | 100 | 1,000 |",
    ]
    assert "not reached" in simulation.summary([*points(1, 80, 90), *points(2, 70, 80)], 85)


def test_the_longest_sentences(simulation, tmp_path):
    left = Dataset.from_dict({"words": [["Dogs"], ["Dogs", "sleep", "."], ["Dogs", "sleep"]]})
    longest = simulation.Simulation(argparse.Namespace(output_dir=tmp_path)).choose
    assert longest(left, 2, "length", np.random.default_rng(1)) == [1, 2]


@pytest.mark.slow
def test_a_small_simulation_goes_on_where_it_stopped(simulation, encoder, tmp_path, monkeypatch):
    (tmp_path / "pool.conllu").write_text(conllu([*TREES] * 3), encoding="utf-8")
    out = tmp_path / "out"

    def run(folder: Path) -> list[dict]:
        given = {
            "model_name_or_path": encoder,
            "train_file": tmp_path / "pool.conllu",
            "validation_file": tmp_path / "pool.conllu",
            "max_steps": 2,
            "output_dir": folder,
        }
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        lists = ["--sizes", "2", "4", "6", "--seeds", "1", "--ways", "loss", "random", "--decode", "mst"]
        monkeypatch.setattr(sys, "argv", ["simulate_annotation.py", *words, *lists])
        simulation.main()
        return json.loads((folder / "annotation.json").read_text())["points"]

    table = run(out)
    assert [(point["way"], point["sentences"]) for point in table] == [
        (way, size) for way in ("loss", "random") for size in (2, 4, 6)
    ]
    first, second = table[0], table[3]
    assert first["uas"] == second["uas"] and first["words"] == second["words"] and first["next"] != second["next"]
    assert [len(point["next"]) for point in table] == [2, 2, 0] * 2 and (out / "annotation.png").exists()
    assert len(read_treebank(out / "annotated.conllu")) == 6
    saved = json.loads((out / "annotation.json").read_text())
    (out / "annotation.json").write_text(json.dumps(saved | {"points": saved["points"][:4]}))
    again = run(out)
    assert [{**point, "seconds": 0} for point in again] == [{**point, "seconds": 0} for point in table]
    (out / "annotation.json").write_text(json.dumps(saved | {"settings": {}}))
    with pytest.raises(SystemExit, match="is of other settings"):
        run(out)
