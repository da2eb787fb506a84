"""`papers/repeat.py` with a script that counts its training examples in place of training."""

from __future__ import annotations

import csv
import json
import statistics
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import curves
import pytest
import repeat
import yaml
from tuning import best

STUDIES = sorted(path for path in repeat.ROOT.glob("papers/*/*.yaml") if path.name != "claims.yaml")
# Writes scores, and a checkpoint before it fails if there is a file `fail`.
SCRIPT = """
import json, sys
from pathlib import Path

args = dict(zip(sys.argv[1::2], sys.argv[2::2]))
out = Path(args["--output_dir"])
if Path("fail").exists() and args["--head"] == "two":
    (out / "checkpoint-1").mkdir()
    Path("fail").unlink()
    print("out of luck")
    sys.exit(1)
samples = 40 * float(args.get("--train_fraction", 1))
score = len(args["--head"]) + int(args["--seed"]) ** 2
results = {"eval_loss": 1.0, "eval_f1": score, "train_samples": samples, "eval_runtime": 3.0}
(out / "all_results.json").write_text(json.dumps(results))
log = [{"epoch": 1.0, "eval_f1": score - 1}, {"epoch": 2.0, "eval_f1": score}]
(out / "trainer_state.json").write_text(json.dumps({"log_history": log}))
(out / "command.json").write_text(json.dumps(sys.argv[1:]))
"""


@pytest.fixture
def study(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CORPUS", str(tmp_path))
    (tmp_path / "script.py").write_text(SCRIPT)
    content = {
        "script": str(tmp_path / "script.py"),
        "arguments": {"train_file": "$CORPUS/train.txt", "name": "{setting}!"},
        "settings": {"one": {"head": "one"}, "two": {"head": "two"}},
        "seeds": [1, 2],
        "fractions": [0.25, 1.0],
        "average": True,
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return tmp_path / "study.yaml"


def test_a_study(study, tmp_path, capsys):
    repeat.main([str(study)])
    out = tmp_path / "outputs" / "study"
    given = json.loads((out / "two" / "fraction-0.25" / "seed-2" / "command.json").read_text())
    pairs = dict(zip(given[::2], given[1::2], strict=True))
    assert pairs["--head"] == "two" and pairs["--seed"] == "2" and pairs["--name"] == "two!"
    assert pairs["--train_file"] == str(tmp_path / "train.txt") and pairs["--train_fraction"] == "0.25"
    rows = (out / "table.md").read_text().splitlines()
    assert rows[0] == "| setting | fraction | n | eval_f1 | eval_loss | difference | p |"
    assert rows[2] == "| one | 0.25 | 2 | 5.5 ± 2.1 | 1 ± 0 |  |  |"
    assert rows[4] == "| two | 0.25 | 2 | 5.5 ± 2.1 | 1 ± 0 | +0 |  |"
    assert rows[6].startswith("| average of 2 | 0.25 | 2 | 5.5 ± 2.1 |")
    assert "\n".join(rows) in capsys.readouterr().out
    table = list(csv.DictReader((out / "table.csv").open()))
    assert float(table[0]["eval_f1"]) == 5.5 and float(table[0]["eval_f1_std"]) == statistics.stdev([4, 7])

    # Several runs at a time end in the same tables.
    repeat.main([str(study), "--jobs", "3", "--output_dir", "beside"])
    assert (tmp_path / "beside" / "table.md").read_text().splitlines() == rows

    # What is finished is not run again; another argument is another study.
    (out / "two" / "fraction-0.25" / "seed-2" / "command.json").unlink()
    repeat.main([str(study)])
    assert not (out / "two" / "fraction-0.25" / "seed-2" / "command.json").exists()
    with pytest.raises(SystemExit, match="holds a run with another learning_rate"):
        repeat.main([str(study), "learning_rate=0.1", "--seeds", "2", "3", "--jobs", "8", "other=1"])
    assert not (out / "one" / "fraction-1" / "seed-3").exists()


def test_a_run_that_failed_is_named_and_resumed(study, tmp_path, capsys):
    (tmp_path / "fail").touch()
    with pytest.raises(SystemExit, match="1 runs failed"):
        repeat.main([str(study), "--seeds", "1", "--output_dir", "out"])
    assert "fraction-0.25/seed-1: exit code 1: out of luck" in capsys.readouterr().out
    assert "| two | 1 | 1 |" in (tmp_path / "out" / "table.md").read_text()
    with pytest.raises(SystemExit, match="holds a run with another name"):
        repeat.main([str(study), "name=x", "--settings", "two", "--seeds", "1", "--output_dir", "out"])
    repeat.main([str(study), "--settings", "two", "--seeds", "1", "--output_dir", "out"])
    given = json.loads((tmp_path / "out" / "two" / "fraction-0.25" / "seed-1" / "command.json").read_text())
    assert given[-2:] == ["--resume_from_checkpoint", "last"]
    with pytest.raises(SystemExit):
        repeat.main([str(study), "--settings", "three"])


def test_changes_that_a_setting_would_override_are_refused(study, capsys):
    with pytest.raises(SystemExit):
        repeat.main([str(study), "head=three"])
    assert "head: settings, their grid or repeat.py set this; change it in" in capsys.readouterr().err


def test_the_difference_is_paired():
    first = {1: [80.0], 2: [82.0], 3: [84.0]}
    assert repeat.difference({1: [81.0], 2: [83.5], 4: [0.0]}, first) == ("+1.2", "0.13")
    assert repeat.difference({1: [81.0]}, first) == ("+1", "") and repeat.difference(first, first) == ("", "")


def test_flags():
    given = {"do_train": True, "bf16": False, "scales": [3, 5], "learning_rate": "5e-5", "preset": None}
    assert repeat.flags(given) == ["--do_train", "--bf16", "False", "--scales", "3", "5", "--learning_rate", "5e-5"]


@pytest.mark.parametrize("path", STUDIES, ids=[f"{path.parent.name}-{path.stem}" for path in STUDIES])
def test_the_scripts_know_every_argument_of_the_studies(path, monkeypatch):
    class Parsed(BaseException):
        pass

    def stop(*args, **kwargs):
        _, unknown = parse(*args, **kwargs)
        assert not unknown
        raise Parsed

    parse = ArgumentParser.parse_known_args
    monkeypatch.setattr(ArgumentParser, "parse_known_args", stop)
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    monkeypatch.syspath_prepend(repeat.ROOT / study["script"].rpartition("/")[0])
    script = import_module(Path(study["script"]).stem)
    for own in study["settings"].values():
        trial = study.get("tune", {}).get("arguments", {})
        given = {**study["arguments"], **own, **trial, "seed": study["seeds"][0], "output_dir": "out"}
        given = {name: repeat.replaced(value, "name", 1) for name, value in given.items()}
        with pytest.raises(Parsed):
            script.main(repeat.flags(given))


def test_curves(study, tmp_path):
    repeat.main([str(study)])
    curves.main([str(study), "--output", "a.svg", "--epochs", "1", "2"])
    text = (tmp_path / "a.svg").read_text()
    assert all(f">{word}<" in text for word in ("one", "two", "10", "40", "after epoch 1", "eval_f1"))


def test_a_setting_with_a_slash_has_its_own_rate():
    study = {"settings": {"books": {}, "books/a": {}}, "tune": {"score": "f1"}}
    scores = {"books/rate=1": 1, "books/rate=2": 2, "books/a/rate=1": 4, "books/a/rate=2": 3}
    runs = [SimpleNamespace(setting=name, fraction=1.0, results={"f1": score}) for name, score in scores.items()]
    assert best(study, runs) == {("books", 1.0): {"rate": "2"}, ("books/a", 1.0): {"rate": "1"}}


def test_each_setting_is_tuned_by_itself_on_development_data(study, tmp_path):
    content = yaml.safe_load(study.read_text())
    # The score of "one" is best at the larger rate of the two, that of "two" at the smaller.
    (tmp_path / "script.py").write_text(
        SCRIPT.replace(
            "results =", "score += float(args['--rate']) * (1 if args['--head'] == 'one' else -1)\nresults ="
        )
    )
    content |= {"fractions": [1.0], "average": False}
    content["tune"] = {"arguments": {"trial": "yes"}, "grid": {"rate": [1, 2], "other": [3]}, "seeds": [7]}
    study.write_text(yaml.safe_dump(content | {"tune": content["tune"] | {"score": "eval_f1"}}, sort_keys=False))
    repeat.main([str(study), "--output_dir", "out"])
    for setting, rate in (("one", "2"), ("two", "1")):
        given = json.loads((tmp_path / "out" / setting / "fraction-1" / "seed-1" / "command.json").read_text())
        assert given[given.index("--rate") + 1] == rate and "--trial" not in given
    # A rate that diverges is the worst.
    message = "the loss is nan; lower --learning_rate or --max_grad_norm"
    diverges = f"if '--trial' in args and args['--rate'] == '1': sys.exit({message!r})"
    (tmp_path / "script.py").write_text(SCRIPT.replace("samples =", f"{diverges}\nsamples ="))
    repeat.main([str(study), "--output_dir", "beside"])
    given = json.loads((tmp_path / "beside" / "two" / "fraction-1" / "seed-1" / "command.json").read_text())
    assert given[given.index("--rate") + 1] == "2"

    rows = list(csv.DictReader((tmp_path / "out" / "tune" / "table.csv").open()))
    assert [row["setting"] for row in rows] == [
        f"{head}/rate={rate},other=3" for head in ("one", "two") for rate in (1, 2)
    ]
