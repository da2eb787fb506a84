"""
Runs every command and every Python block of README.md and docs/ on small inputs. MSATTN_DATA names the corpora,
MSATTN_ENCODER all-MiniLM-L6-v2. What README.md says that it prints is compared.

Each document has a folder in which the names that it uses are real: its scripts, data sets and encoders. A block that
cannot run here has the line `<!-- not run: the reason -->` above it.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
)

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# What the documents call files, and where they are in MSATTN_DATA.
DATA = {
    "TRAIN_FILE.TXT": "semeval2010_task8/TRAIN_FILE.TXT",
    "TEST_FILE_FULL.TXT": "semeval2010_task8/TEST_FILE_FULL.TXT",
    "SICK_train.txt": "sick/SICK_train.txt",
    "SICK_test_annotated.txt": "sick/SICK_test_annotated.txt",
    "train.txt": "sst5/train.txt",
    "dev.txt": "sst5/dev.txt",
    "test.txt": "sst5/test.txt",
    "wnut17train.conll": "wnut17/wnut17train.conll",
    "emerging.dev.conll": "wnut17/emerging.dev.conll",
    "emerging.test.annotated": "wnut17/emerging.test.annotated",
    "GLUE": "glue",
    "SST-2": "glue/SST-2",
    "mtl16": "mtl16",
    "glove.6B.50d.txt": "glove/glove.6B.50d.first9k.txt",
}
# Of these, the first sentences only.
TREEBANKS = {
    "en_ewt-ud-train.conllu.gz": "ud_english_ewt/en_ewt-ud-train.conllu.gz",
    "en_ewt-ud-dev.conllu": "ud_english_ewt/en_ewt-ud-dev.conllu",
    "en_ewt-ud-test.conllu": "ud_english_ewt/en_ewt-ud-test.conllu",
    "en_partut-ud-train.conllu": "ud_english_partut/en_partut-ud-train.conllu",
    "en_partut-ud-dev.conllu": "ud_english_partut/en_partut-ud-dev.conllu",
    "en_partut-ud-test.conllu": "ud_english_partut/en_partut-ud-test.conllu",
}
SENTENCES = 100
RANKING = (
    '{"query": "storms in spring", "candidates": [{"text": "In April it stormed.", "label": 1}, '
    '{"text": "A calm sea.", "label": 0}]}\n'
)
RELATIONS = (
    "<e1>Ann</e1> lives in <e2>Rome</e2>.,lives in\n<e1>Ann</e1> and Bob work for <e2>Acme</e2>.,works for\n" * 8
)
TEXTS = {
    "examples.jsonl": '{"text": "Dogs sleep.", "label": "animal"}\n{"text": "It rained.", "label": "weather"}\n' * 8,
    "train.conllu": "1\tDogs\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tsleep\t_\t_\t_\t_\t0\troot\t_\t_\n"
    "3\t.\t_\t_\t_\t_\t2\tpunct\t_\t_\n\n",
    **dict.fromkeys(("train.csv", "dev.csv", "test.csv"), f"text,relation\n{RELATIONS}"),
    "raw.txt": "Dogs don't sleep. Cats eat mice.\nBirds fly.\n",
    "sentences.txt": "The patient denied any headache.\nThe head does not hurt.\n",
    "train.jsonl": RANKING * 8,
    "dev.jsonl": RANKING,
    "test.jsonl": RANKING,
    "queries.tsv": "q1\tstorms in spring\n",
    "collection.tsv": "d2\tA calm sea.\nd7\tIn April it stormed.\n",
    "qrels.dev.txt": "q1 0 d7 1\n",
    "bm25.dev.trec": "q1 Q0 d2 1 2.0 bm25\nq1 Q0 d7 2 1.0 bm25\n",
}
# Untrained. sentence-transformers/all-MiniLM-L6-v2 is MSATTN_ENCODER.
TINY_ENCODERS = (
    "google-bert/bert-base-uncased",
    "google-bert/bert-base-cased",
    "FacebookAI/roberta-base",
    "answerdotai/ModernBERT-base",
    "outputs/plain",
    "outputs/guided",
)

# What the documents leave to the reader.
PLACEHOLDERS = {
    "run_glue.py ...": "run_glue.py --model_name_or_path google-bert/bert-base-uncased --train_file examples.jsonl "
    "--validation_file examples.jsonl --do_train --do_eval --output_dir outputs/examples",
    "run_parsing.py ...": "run_parsing.py --model_name_or_path google-bert/bert-base-uncased "
    "--train_file en_ewt-ud-train.conllu.gz --validation_file en_ewt-ud-dev.conllu",
    " FLAGS": "",
    " HEAD": " multiscale",
    "TASK": "rte",
}
RUN = "--max_train_samples 20 --max_eval_samples 8 --max_predict_samples 8 --report_to none --use_cpu"
BENCH = "--repeats 1 --threads 1"
# What is added to a command that has one of these words, so that it takes seconds.
LIMITS = {
    "run_glue.py": RUN,
    "run_parsing.py": RUN,
    "run_ranking.py": f"{RUN} --max_train_samples 4 --max_eval_samples 2",
    "run_re.py": RUN,
    "run_tagging.py": RUN,
    "--seeds": "--seeds 1 2",
    "--guide_doses": "--guide_doses 0.5 --seeds 1",
    "--task_name": "--glue_dir GLUE",
    "--mdg_weight": "--overwrite_output_dir",  # of README, where an encoder lies in the folder already
    "--patterns": "--overwrite_output_dir",  # one folder for the three commands of docs/guiding.md
    "0.0038011": "--max_train_samples 600",  # 256 of all training examples
    "--mtl16_dir": "--domains MR",
    "--max_steps": "--max_steps 2",
    "doubt": "--sure 0",
    "probe": "--max_pairs 200 --n_estimators 10",
    "importance": "--max_eval_samples 16",
    "windows": "--max_eval_samples 16 --max_fit_samples 16",
    "papers/guiding/sts_ranking.py": "--negatives 9",
    "effective-scale": "--epochs 1 --samples 256 --test_samples 32 --pairs 1 2",
    "benchmarks/bench_multiscale.py": f"{BENCH} --shape minilm --tokens 16 --scales 3 --batch 1",
    "benchmarks/bench_guiding.py": f"{BENCH} --shape minilm --tokens 16 --batch-tokens 32",
    "benchmarks/bench_statistics.py": f"{BENCH} --tokens 16",
    "benchmarks/bench_scale_attention.py": f"{BENCH} --tokens 16 --windows 1 --model-tokens 16 --batch-tokens 32",
    "benchmarks/bench_presets.py": f"{BENCH} --tokens 16 --train-tokens 16 --batch-tokens 32",
    "benchmarks/bench_windows.py": f"{BENCH} --tokens 16 --hidden-size 32 --heads 2",
    "benchmarks/bench_pairwise.py": f"{BENCH} --words 5 --batch-words 10",
    "benchmarks/bench_entity_pairs.py": f"{BENCH} --words 8 --entities 2",
    "benchmarks/bench_onnx.py": f"{BENCH} --tokens 16 --batch_sizes 1",
    "benchmarks/bench_parser_prediction.py": f"{BENCH} --sentences 8",
    "benchmarks/bench_parser_batches.py": f"{BENCH} --short 4 --long 4",
    "benchmarks/bench_pipeline.py": f"{BENCH} --sentences 4 --batch_sizes 2",
}
# bash expands loops, quotes and lines that go on, and prints the words of each command. It finds no other programs.
SHELL = r"""
python() { printf '%s\0' "$@"; echo; }
msattn() { python -m msattn_command "$@"; }
make() {
    case "$1" in
        demo) python run_re.py ;;
        space) local "${@:2}"; msattn app $MODELS --space "$SPACE" ;;
    esac
}
"""


class Block(NamedTuple):
    place: str
    language: str
    code: str
    runs: bool


def blocks(document: str) -> Iterator[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        mark, language, code = match.groups()
        line = text.count("\n", 0, match.start(2)) + 1
        yield Block(f"{document}:{line}", language, code, mark is None and language in ("bash", "python"))


@pytest.fixture(scope="module")
def data() -> Path:
    if "MSATTN_DATA" not in os.environ:
        pytest.skip("MSATTN_DATA does not name the folder of the corpora")
    return Path(os.environ["MSATTN_DATA"])


@pytest.fixture(scope="module")
def encoder() -> Path:
    if "MSATTN_ENCODER" not in os.environ:
        pytest.skip("MSATTN_ENCODER does not name a BERT checkpoint")
    return Path(os.environ["MSATTN_ENCODER"])


@pytest.fixture(scope="module")
def tiny(encoder, tmp_path_factory) -> Path:
    """A folder with an encoder, a re-ranker and a decoder; 12 heads, as the documents name some of them."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 12, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(tokenizer), num_labels=1, **sizes)
    torch.manual_seed(0)
    for name, model_class in (("encoder", BertModel), ("reranker", BertForSequenceClassification)):
        model_class(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    tokenizer.eos_token = tokenizer.sep_token
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder / "decoder")
    tokenizer.save_pretrained(folder / "decoder")
    return folder


@pytest.fixture
def workplace(data, encoder, tiny, tmp_path, monkeypatch) -> Path:
    """The working directory, with all that the documents name."""
    links = {name: data / path for name, path in DATA.items()}
    links |= {path.name: path for path in (*ROOT.glob("run_*.py"), ROOT / "benchmarks")}
    links["sentence-transformers/all-MiniLM-L6-v2"] = encoder
    links["cross-encoder/ms-marco-MiniLM-L6-v2"] = tiny / "reranker"
    links["HuggingFaceTB/SmolLM2-135M"] = tiny / "decoder"
    for name, target in links.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(target)
    for name in TINY_ENCODERS:  # Copies: some commands write to outputs/guided.
        shutil.copytree(tiny / "encoder", tmp_path / name)
    for name, path in TREEBANKS.items():
        opened = gzip.open if name.endswith(".gz") else open
        with opened(data / path, "rt", encoding="utf-8") as file:
            sentences = file.read().split("\n\n")[:SENTENCES]
        with opened(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write("\n\n".join(sentences) + "\n\n")
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(code: str) -> list[list[str]]:
    """The arguments of each call of Python, made small."""
    for word, words in PLACEHOLDERS.items():
        code = code.replace(word, words)
    done = subprocess.run(["/bin/bash", "-euc", SHELL + code], env={"PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    calls = [line.split("\0")[:-1] for line in done.stdout.splitlines()]
    for call in calls:
        if call != ["run_re.py"]:  # The demonstration.
            call += [word for name, limits in LIMITS.items() if name in call for word in limits.split()]
    return calls


def run_python(call: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, as most of a command's time would be the imports. Benchmarks start processes of their own."""
    if call[0].startswith("benchmarks/"):
        subprocess.run([sys.executable, *call], check=True)
        return
    program = call[1] if call[0] == "-m" else call[0]
    monkeypatch.setattr(sys, "argv", call[call.index(program) :])
    try:
        if call[0] == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as stop:
        assert not stop.code, f"exit status {stop.code}"


@pytest.fixture
def log_levels():
    """The scripts set these for their process, which here is that of other tests, too."""
    loggers = [logging.getLogger(name) for name in ("msattn", "datasets", "transformers")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.slow
@pytest.mark.usefixtures("log_levels")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands(document, workplace, monkeypatch, capsys):
    namespace: dict[str, Any] = {}
    printed = ""
    for block in blocks(document):
        if block.language == "text":
            assert printed == block.code, block.place
        if not block.runs:
            continue
        try:
            capsys.readouterr()
            if block.language == "bash":
                calls = commands(block.code)
                assert calls, "no command"
                for call in calls:
                    run_python(call, monkeypatch)
            else:
                exec(compile(block.code, block.place, "exec"), namespace)
            printed = capsys.readouterr().out
        except Exception as error:
            raise AssertionError(f"{block.place}\n{block.code}") from error


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_is_found(document):
    found = [*blocks(document)]
    assert len(found) * 2 == (ROOT / document).read_text(encoding="utf-8").count("```")
    assert {block.language for block in found} <= {"bash", "python", "text", "json"}
