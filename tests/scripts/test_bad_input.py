"""What is wrong with the input comes out as one line, with the exit code 2, and does no harm."""

from __future__ import annotations

import resource
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from msattn import AutoModelForRelationExtraction, UserError
from msattn.writing import is_write_failure
from tests.scripts.relation_runs import ROOT, arguments, launch, run, same_weights

SCRIPT = [sys.executable, str(ROOT / "run_re.py")]


@pytest.fixture
def complaint():
    """Runs the script in this process and returns the sentence that it ends with."""

    def run_and_fail(argv: list[str]) -> str:
        with pytest.raises(UserError) as stop:
            run(argv)
        return str(stop.value)

    return run_and_fail


def last_line(stderr: str) -> str:
    """The error, after which nothing comes and before which there is no traceback."""
    assert "Traceback" not in stderr
    *before, line = stderr.splitlines()
    assert line.startswith("error: ") and not any(other.startswith("error: ") for other in before)
    return line.removeprefix("error: ")


def semeval(*rows: tuple[str, str]) -> bytes:
    blocks = (f'{number}\t"{text}"\n{label}\nComment:\n\n' for number, (text, label) in enumerate(rows, start=1))
    return "".join(blocks).encode()


GOOD = ("The <e1>storm</e1> led to a <e2>leak</e2>.", "Cause-Effect(e1,e2)")

FILES = {
    "one label": (
        semeval(GOOD, GOOD),
        "there has to be more than one label, and every example has 'Cause-Effect(e1,e2)'.",
    ),
    "no labels": (
        b'1\t"The <e1>storm</e1> led to a <e2>leak</e2>."\n',
        "{file}: the examples have no labels (field relation or label).",
    ),
}


@pytest.mark.parametrize("content, expected", FILES.values(), ids=FILES)
def test_training_file(content, expected, demo, tmp_path, complaint):
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    line = complaint(arguments(demo, tmp_path / "model", "do_train", train_file=file))
    assert line.startswith(expected.format(file=file))
    assert not (tmp_path / "model").exists()


def test_labels_that_the_training_data_lack(demo, tmp_path, complaint):
    file = tmp_path / "few.txt"
    file.write_bytes(semeval(GOOD))
    line = complaint(arguments(demo, tmp_path, "do_train", "do_predict", train_file=file, test_file=demo.test_file))
    assert line.startswith(f"{demo.test_file}:1: unknown label ")
    assert "the known ones are Cause-Effect(e1,e2)." in line


def test_a_label_that_the_label_file_lacks(demo, tmp_path, complaint):
    file, labels = tmp_path / "train.txt", tmp_path / "labels.json"
    file.write_bytes(semeval(GOOD, (GOOD[0], "Cause-Efect(e1,e2)")))
    labels.write_text('["Cause-Effect(e1,e2)", "Other"]')
    line = complaint(arguments(demo, tmp_path, "do_train", train_file=file, label_file=labels))
    assert line == f"{file}:5: unknown label 'Cause-Efect(e1,e2)'; the known ones are Cause-Effect(e1,e2), Other."


@pytest.mark.parametrize(
    "content", ["[", "[1]", '["a", "a"]', "[]", "3", '{"a": ""}', '{"a": ["x"], "b": "x"}', '{"a": [], "b": "x"}']
)
def test_a_wrong_label_file(content, demo, tmp_path, complaint):
    labels = tmp_path / "labels.json"
    labels.write_text(content)
    assert complaint(arguments(demo, tmp_path, "do_train", label_file=labels)).startswith(f"{labels}: expected ")


OPTIONS = {
    "no fusion layers": (
        {"config_overrides": ["scales=[3, 5]"], "train_file": "missing.txt"},
        "--config_overrides scales=[3, 5]: the head entity-start has no fusion layers; give --head multiscale.",
    ),
    "a field of parsers": (
        {"head": "pairwise", "config_overrides": ["none_weight=0.5"], "train_file": "missing.txt"},
        "--config_overrides none_weight: only parsers read this field; leave it out.",
    ),
    "a field of the training": (
        {"config_overrides": ["decision_threshold=0.3"]},
        "--config_overrides decision_threshold: the training sets this field itself; leave it out.",
    ),
    "a field with a flag": (
        {"config_overrides": ["negative_label=none"]},
        "--config_overrides negative_label: the training sets this field itself; give --negative_label.",
    ),
}


@pytest.mark.parametrize("options, expected", OPTIONS.values(), ids=OPTIONS)
def test_option(options, expected, demo, tmp_path, complaint):
    assert expected in complaint(arguments(demo, tmp_path, "do_train", **options))


@pytest.fixture
def checkpoint(demo, tmp_path) -> Path:
    return shutil.copytree(demo.encoder, tmp_path / "checkpoint")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_checkpoint_that_lacks_a_file(name, checkpoint, demo, tmp_path, complaint):
    (checkpoint / name).unlink()
    assert str(checkpoint) in complaint(arguments(demo, tmp_path / "model", "do_train", model_name_or_path=checkpoint))


@pytest.mark.slow
@pytest.mark.heavy
def test_a_run_of_its_own_says_one_line_too(demo, tmp_path):
    done = launch(SCRIPT, arguments(demo, tmp_path, "do_train", train_file=tmp_path / "missing.txt"), code=2)
    assert done.stdout == ""
    assert (
        last_line(done.stderr) == f"{tmp_path / 'missing.txt'}: the file cannot be read (No such file or directory)."
    )


@pytest.fixture
def trained(demo, tmp_path) -> Path:
    """Two steps, of which the second left a checkpoint."""
    run(arguments(demo, tmp_path, "do_train", max_steps=2, save_strategy="steps", save_steps=2))
    return tmp_path


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """Writing beyond that fails, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize(("share", "strategy"), [(0.5, "steps"), (1.5, "steps"), (0.5, "no")])
def test_a_full_disk_leaves_the_last_good_checkpoint(share, strategy, trained, demo, tmp_path_factory, complaint):
    """The disk takes half a model, at a checkpoint or at the end, or the model without the optimizer's state."""
    good = shutil.copytree(trained, tmp_path_factory.mktemp("good") / "model")
    room = int(share * (trained / "model.safetensors").stat().st_size)
    goes_on = {"max_steps": 4, "save_strategy": strategy, "save_steps": 2, "resume_from_checkpoint": "last"}
    with files_no_larger_than(room), pytest.raises(Exception) as failed:
        run(arguments(demo, trained, "do_train", **goes_on))
    assert is_write_failure(failed.value)
    assert same_weights(trained, good) and same_weights(trained / "checkpoint-2", good / "checkpoint-2")
    AutoModelForRelationExtraction.from_pretrained(trained)

    run(arguments(demo, trained, "do_train", **goes_on))
    run(arguments(demo, good, "do_train", **goes_on))
    assert same_weights(trained, good)
