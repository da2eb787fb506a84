from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

import pytest

from msattn.command_line import parse_arguments, run_cli, user_mistakes
from msattn.errors import UserError


@dataclass
class ModelArguments:
    scales: list[int] | None = field(default=None)
    mask_mode: str | None = field(default=None, metadata={"choices": ["hard", "ste"]})


@dataclass
class RunArguments:
    learning_rate: float = field(default=1.0)
    do_train: bool = field(default=False)
    report: None | str | list[str] = field(default=None)

    def __post_init__(self):
        if self.learning_rate < 0:
            raise ValueError("learning_rate is negative")


BOTH = (ModelArguments, RunArguments)


def test_command_line():
    model, run = parse_arguments(BOTH, ["--scales", "3", "5", "--do_train", "--learning-rate", "1e-3"])
    assert model == ModelArguments([3, 5]) and run == RunArguments(1e-3, True)


@pytest.mark.parametrize("suffix", ["json", "yaml", "yml"])
def test_file(suffix, tmp_path):
    file = tmp_path / f"arguments.{suffix}"
    content = {"scales": [3, 5], "mask_mode": None, "learning_rate": "1e-3", "do_train": True, "report": ["a", "b"]}
    file.write_text(json.dumps(content))  # which is YAML as well
    model, run = parse_arguments(BOTH, [str(file)])
    assert model == ModelArguments([3, 5]) and run == RunArguments(1e-3, True, ["a", "b"])


def test_a_date_in_a_file_is_text(tmp_path):
    (tmp_path / "arguments.yaml").write_text("report: 2025-11-29")
    assert parse_arguments(BOTH, [str(tmp_path / "arguments.yaml")])[1].report == "2025-11-29"


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.json", '{"mask_mod": "ste"}', "there is no argument --mask_mod; did you mean --mask_mode?"),
        ("a.json", '{"mask_mode": "soft"}', "invalid choice: 'soft' (choose from"),
        ("a.json", '{"learning_rate": "fast"}', "invalid float value: 'fast'"),
        ("a.json", '{"learning_rate": -1}', "learning_rate is negative"),
        ("a.json", '{"mask_mode": ', "the file cannot be read"),
        ("a.json", "[3]", "expected an object with the arguments' names and values."),
        ("a.yaml", "scales: [3", "the file cannot be read (while parsing a flow sequence"),
        ("a.yml", "", "expected an object"),
    ],
)
def test_a_wrong_file_is_named(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as error:
        parse_arguments(BOTH, [str(tmp_path / name)])
    assert message in str(error.value)


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(UserError, match="none.json: the file cannot be read"):
        parse_arguments(BOTH, [str(tmp_path / "none.json")])


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--learning_rat", "1"], "there is no argument --learning_rat; did you mean --learning_rate?"),
        (["train.json", "--do_train"], "there is no argument train.json"),
        (["--mask_mode", "soft"], "invalid choice: 'soft'"),
        (["--scales"], "expected at least one argument"),
    ],
)
def test_a_wrong_command_line(argv, message):
    with pytest.raises(UserError) as error:
        parse_arguments(BOTH, argv)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "error, line",
    [
        (UserError("train.txt:3: the tag\n<e1> is missing."), "error: train.txt:3: the tag <e1> is missing.\n"),
        (OSError(28, "No space left on device", "a.txt"), "error: [Errno 28] No space left on device: 'a.txt'\n"),
    ],
)
def test_what_the_user_can_mend_is_one_line(error, line, capsys):
    def main():
        raise error

    with pytest.raises(SystemExit) as stop:
        run_cli(main)
    assert stop.value.code == 2
    assert capsys.readouterr() == ("", line)


def test_an_error_of_the_program_keeps_its_traceback():
    def main():
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run_cli(main)


@pytest.mark.parametrize("rank, said", [("0", "error: wrong\n"), ("1", "")])
def test_only_the_main_process_says_what_is_wrong(rank, said, monkeypatch, capsys):
    def main():
        raise UserError("wrong")

    monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(SystemExit) as stop:
        run_cli(main)
    assert stop.value.code == 2
    assert capsys.readouterr().err == said


def test_what_is_raised_before_training_is_a_mistake_of_the_user():
    with pytest.raises(UserError, match=r"^KeyError: 'relation'$") as error, user_mistakes():
        raise KeyError("relation")
    assert isinstance(error.value.__cause__, KeyError)  # --debug_traceback shows it
    with pytest.raises(UserError, match=r"^a.txt:3: wrong\.$"), user_mistakes():
        raise UserError("a.txt:3: wrong.")


def test_success_does_not_exit(monkeypatch):
    monkeypatch.setattr(sys, "exit", pytest.fail)
    run_cli(lambda: None)
