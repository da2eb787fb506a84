from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import TrainingArguments

from msattn.arguments.multiscale_arguments import MultiScaleArguments
from msattn.command_line import parse_arguments, run_cli, set_up_logging
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


def test_a_switch_of_the_model_needs_no_value():
    def residual(*argv: str) -> bool | None:
        return parse_arguments([MultiScaleArguments], argv)[0].fusion_residual

    assert residual() is None
    assert residual("--fusion_residual") is residual("--fusion_residual", "True") is True
    assert residual("--fusion_residual", "False") is False


@pytest.mark.parametrize("suffix", ["json", "yaml", "yml"])
def test_file(suffix, tmp_path):
    file = tmp_path / f"arguments.{suffix}"
    content = {"scales": [3, 5], "mask_mode": None, "learning_rate": "1e-3", "do_train": True, "report": ["a", "b"]}
    file.write_text(json.dumps(content))  # which is YAML as well
    model, run = parse_arguments(BOTH, [str(file)])
    assert model == ModelArguments([3, 5]) and run == RunArguments(1e-3, True, ["a", "b"])


def test_numbers_of_yaml_without_a_point(tmp_path):
    """PyYAML reads 1e-3 as a string."""
    file = tmp_path / "arguments.yaml"
    file.write_text("learning_rate: 1e-3")
    assert parse_arguments(BOTH, [str(file)])[1].learning_rate == 1e-3


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.json", '{"mask_mod": "ste"}', "there is no argument mask_mod; did you mean mask_mode?"),
        ("a.json", '{"scale": [3]}', "there is no argument scale; did you mean scales?"),
        ("a.json", '{"zzz": 3}', "there is no argument zzz (--help lists them)."),
        ("a.json", '{"mask_mode": "soft"}', "invalid choice: 'soft' (choose from"),
        ("a.json", '{"learning_rate": "fast"}', "invalid float value: 'fast'"),
        ("a.json", '{"learning_rate": -1}', "learning_rate is negative"),
        ("a.json", '{"mask_mode": ', "the file cannot be read (Expecting value: line 1 column 15 (char 14))."),
        ("a.json", "[3]", "expected an object with the arguments' names and values."),
        ("a.yaml", "scales: [3", "the file cannot be read (while parsing a flow sequence"),
        ("a.yml", "", "expected an object"),
    ],
)
def test_a_wrong_file_is_named(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as error:
        parse_arguments(BOTH, [str(tmp_path / name)])
    assert str(error.value).startswith(f"{tmp_path / name}: ") and message in str(error.value)


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(UserError, match="none.json: there is no such file"):
        parse_arguments(BOTH, [str(tmp_path / "none.json")])


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--learning_rat", "1"], "there is no argument --learning_rat; did you mean learning_rate?"),
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
        (StrictDataclassError("wrong"), "error: wrong\n"),
        (OSError(28, "No space left on device", "a.txt"), "error: [Errno 28] No space left on device: 'a.txt'\n"),
        (
            RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"),
            "error: a file could not be written (is the disk full?): [enforce fail at inline_container.cc:672] . "
            "unexpected pos 64 vs 0\n",
        ),
        (
            Exception("No space left on device (os error 28)"),
            "error: a file could not be written (is the disk full?): No space left on device (os error 28)\n",
        ),
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


@pytest.mark.parametrize("reporter, message", [("trackio", "requires trackio"), ("paper", "is not supported")])
def test_a_reporter_whose_package_is_missing(reporter, message, monkeypatch, tmp_path):
    monkeypatch.setattr("transformers.integrations.integration_utils.is_trackio_available", lambda: False)
    with pytest.raises(UserError, match=f"^--report_to {reporter}: .*{message}"):
        set_up_logging(TrainingArguments(str(tmp_path), report_to=reporter, use_cpu=True))


def test_success_does_not_exit(monkeypatch):
    monkeypatch.setattr(sys, "exit", pytest.fail)
    run_cli(lambda: None)
