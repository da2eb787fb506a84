"""
Parses every command of README.md, docs/ and papers/, and runs those of README.md and docs/ on small inputs.

MSATTN_DATA names the corpora, MSATTN_ENCODER all-MiniLM-L6-v2. Each document has a folder in which the names
that it uses are real. A block that cannot run here has the line `<!-- not run: the reason -->` above it.
"""

from __future__ import annotations

import logging
import os
import re
import runpy
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from transformers import AutoTokenizer, BertForSequenceClassification, BertModel, LlamaForCausalLM

import msattn_command

ROOT = Path(__file__).parents[2]
RUN = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))]
PARSED = [
    *RUN,
    *(
        str(path.relative_to(ROOT))
        for each in ("papers/**", "model_cards")
        for path in ROOT.glob(f"{each}/[a-zR]*.md")
    ),
]
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# In MSATTN_DATA. Treebanks are found by their names.
DATA = ("semeval2010_task8/TRAIN_FILE.TXT", "semeval2010_task8/TEST_FILE_FULL.TXT", "wnut17/wnut17train.conll")
DATA += ("wnut17/emerging.dev.conll", "wnut17/emerging.test.annotated", "glue/SST-2")
RELATIONS = "".join(
    f"<e1>Ann {day}</e1> lives in <e2>Rome</e2>.,lives in\n<e1>Bob {day}</e1> works for <e2>Acme</e2>.,works for\n"
    for day in range(8)
)
LISTED = (
    '{"text": "Ann lives in Rome.", "entities": [{"start": 0, "end": 3, "type": "PER"}, '
    '{"start": 13, "end": 17, "type": "LOC"}], "relations": [{"head": 0, "tail": 1, "type": "lives in"}]}\n'
)
RANKING = '{"query": "storm", "candidates": [{"text": "It stormed.", "label": 1}, {"text": "Calm.", "label": 0}]}\n'
TEXTS = {
    "examples.jsonl": '{"text": "Dogs sleep.", "label": "animal"}\n{"text": "It rained.", "label": "weather"}\n' * 8,
    "texts.jsonl": '{"text": "Dogs sleep."}\n{"text": "It rained."}\n' * 8,
    "train.conllu": "1\tDogs\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tsleep\t_\t_\t_\t_\t0\troot\t_\t_\n"
    "3\t.\t_\t_\t_\t_\t2\tpunct\t_\t_\n\n",
    **dict.fromkeys(("train.csv", "dev.csv", "test.csv"), f"text,relation\n{RELATIONS}"),
    **dict.fromkeys(("train300.json", "next100.json", "dev120.json"), LISTED * 8),
    **dict.fromkeys(("train100.json", "next25.json", "rest.json"), LISTED * 8),
    "labels.json": '["lives in"]',
    **dict.fromkeys(("train.jsonl", "dev.jsonl", "test.jsonl"), RANKING * 8),
    "raw.txt": "Dogs don't sleep. Cats eat mice.\nBirds fly.\n",
    "sentences.txt": "The patient denied any headache.\nThe head does not hurt.\n",
    "marked.txt": "<e1>Ann</e1> lives in <e2>Rome</e2>.\n",
    "queries.tsv": "q1\tstorms in spring\n",
    "collection.tsv": "d2\tA calm sea.\nd7\tIn April it stormed.\n",
    "qrels.dev.txt": "q1 0 d7 1\n",
    "bm25.dev.trec": "q1 Q0 d2 1 2.0 bm25\nq1 Q0 d7 2 1.0 bm25\n",
}
# Untrained.
ENCODERS = (
    *("google-bert/bert-base-uncased", "google-bert/bert-base-cased", "FacebookAI/roberta-base"),
    *("answerdotai/ModernBERT-base", "outputs/plain", "outputs/guided"),
)
# `...` in a document.
DOTS = (
    "run_glue.py --model_name_or_path google-bert/bert-base-uncased --train_file examples.jsonl "
    "--validation_file examples.jsonl --do_train --do_eval --output_dir outputs/examples"
)
SMALL = "--max_train_samples 20 --max_eval_samples 8 --max_predict_samples 8 --report_to none --use_cpu"
# What is added to a command that has one of these words, so that it takes seconds.
LIMITS = {
    **dict.fromkeys(("run_glue.py", "run_re.py", "run_tagging.py"), SMALL),
    "run_parsing.py": f"{SMALL} --max_steps 2",
    "run_ranking.py": f"{SMALL} --max_train_samples 4 --max_eval_samples 2",
    "--task_name": "--glue_dir GLUE",
    "--max_steps": "--max_steps 2",
    "doubt": "--sure 0",
}
# Bash expands loops, quotes and lines that go on, and prints the words of each command. It finds no other programs.
SHELL = r"""
python() { printf '%s\0' "$@"; echo; }; msattn() { python -m msattn_command "$@"; }
make() { case "$1" in demo) python run_re.py ;; space) local "${@:2}"; msattn app $MODELS --space "$SPACE" ;; esac; }
accelerate() { while [[ "$1" != *.py && "$1" != -m ]]; do shift; done; [[ "$2" == *.yaml ]] || python "$@"; }
pip() { :; }; hf() { :; }
"""


class Block(NamedTuple):
    place: str
    language: str
    code: str
    runs: bool


class Parsed(BaseException):
    """The arguments are right."""


def blocks(document: str) -> Iterator[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        mark, language, code = match.groups()
        line = text.count("\n", 0, match.start(2)) + 1
        yield Block(f"{document}:{line}", language, code, mark is None and language in ("bash", "python"))


def commands(code: str) -> list[list[str]]:
    """The arguments of each call of Python."""
    code = SHELL + code.replace("run_glue.py ...", DOTS)
    done = subprocess.run(["/bin/bash", "-euc", code], env={"PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.split("\0")[:-1] for line in done.stdout.splitlines()]


def run_python(call: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, as most of a command's time would be the imports."""
    program = call[1] if call[0] == "-m" else call[0]
    monkeypatch.setattr(sys, "argv", call[call.index(program) :])
    try:
        if program == "msattn_command":
            msattn_command.main(call[2:])
        elif call[0] == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            monkeypatch.syspath_prepend(str((ROOT / program).parent))
            runpy.run_path(str(ROOT / program), run_name="__main__")
    except SystemExit as stop:
        assert not stop.code, f"exit status {stop.code}"


@pytest.fixture
def stop_after_parsing(monkeypatch) -> None:
    parse = ArgumentParser.parse_known_args

    def parse_and_stop(*args: Any, **kwargs: Any) -> Any:
        parsed, unknown = parse(*args, **kwargs)
        if unknown:  # The caller refuses them.
            return parsed, unknown
        raise Parsed

    monkeypatch.setattr(ArgumentParser, "parse_known_args", parse_and_stop)
    monkeypatch.setattr(msattn_command, "start", lambda *_: None)  # It looks for the files.


@pytest.mark.usefixtures("stop_after_parsing")
@pytest.mark.parametrize("document", PARSED)
def test_the_parsers_know_every_command(document, monkeypatch):
    for block in blocks(document):
        for call in commands(block.code) if block.language == "bash" and "make test" not in block.code else ():
            if call != ["run_re.py"]:  # The demonstration.
                with pytest.raises(Parsed):
                    run_python(call, monkeypatch)
                    pytest.fail(f"{block.place}: {call} parses no arguments")


@pytest.mark.parametrize("document", PARSED)
def test_every_block_is_found(document):
    found = [*blocks(document)]
    assert len(found) * 2 == (ROOT / document).read_text(encoding="utf-8").count("```")
    assert {block.language for block in found} <= {"bash", "python", "text", "json", "console"}
    # What a training on real data has printed, to its last line.
    assert all("\nThe model is in " in block.code for block in found if block.language == "console")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """A folder with an encoder, a re-ranker and a decoder; 12 heads, as the documents name some of them."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = AutoTokenizer.from_pretrained(os.environ["MSATTN_ENCODER"], eos_token="[SEP]")
    sizes = {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 12, "intermediate_size": 64}
    for model_class in (BertModel, BertForSequenceClassification, LlamaForCausalLM):
        config = model_class.config_class(vocab_size=len(tokenizer), num_labels=1, **sizes)
        model_class(config).save_pretrained(folder / model_class.__name__)
        tokenizer.save_pretrained(folder / model_class.__name__)
    return folder


@pytest.fixture
def workplace(tiny, tmp_path, monkeypatch) -> None:
    """The working directory, with all that the documents name."""
    data = Path(os.environ["MSATTN_DATA"])
    found = [*(data / path for path in DATA), *data.glob("ud_english_*/*.conllu*")]
    links = {path.name: path for path in found} | {"GLUE": data / "glue"}
    links["sentence-transformers/all-MiniLM-L6-v2"] = Path(os.environ["MSATTN_ENCODER"])
    links["cross-encoder/ms-marco-MiniLM-L6-v2"] = tiny / "BertForSequenceClassification"
    links["HuggingFaceTB/SmolLM2-135M"] = tiny / "LlamaForCausalLM"
    for name, target in links.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(target)
    for name in ENCODERS:  # Copies: some commands write to outputs/guided.
        shutil.copytree(tiny / "BertModel", tmp_path / name)
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in ("msattn", "datasets", "transformers"):  # The scripts set these for their process.
        monkeypatch.setattr(logging.getLogger(name), "level", logging.getLogger(name).level)
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not {"MSATTN_DATA", "MSATTN_ENCODER"} <= set(os.environ), reason="needs corpora and an encoder")
@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("document", RUN)
def test_commands(document, monkeypatch, capsys):
    namespace: dict[str, Any] = {}
    printed = ""
    for block in blocks(document):
        if block.language == "text":
            assert printed == block.code, block.place
        if not block.runs:
            continue
        try:
            capsys.readouterr()
            if block.language == "python":
                exec(compile(block.code, block.place, "exec"), namespace)
            else:
                for call in commands(block.code):
                    if not call[0].startswith(("benchmarks/", "papers/")):  # They have tests of their own.
                        small = call != ["run_re.py"]  # The demonstration is.
                        more = (words.split() for name, words in LIMITS.items() if name in call) if small else ()
                        run_python([*call, *(word for words in more for word in words)], monkeypatch)
            printed = capsys.readouterr().out
        except Exception as error:
            raise AssertionError(f"{block.place}\n{block.code}") from error
