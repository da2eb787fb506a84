"""What 8-bit integers cost: the score of a relation extractor for SemEval or of a parser, in torch and exported."""

from __future__ import annotations

import argparse
import os
from tempfile import TemporaryDirectory
from typing import Any

import torch
from bench_multiscale import markdown
from transformers import pipeline

from msattn import AutoModelForDependencyParsing, onnx
from msattn.auto import auto_class_of
from msattn.data.relations import read_relations
from msattn.data.treebanks import read_treebank
from msattn.metrics import score_semeval, score_trees
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import load_config, load_model, load_tokenizer


def parse(model: Any, tokenizer: Any, path: str) -> dict[str, float]:
    """UAS and LAS on a treebank."""
    gold = read_treebank(path)
    parsed = pipeline("dependency-parsing", model=model, tokenizer=tokenizer)(gold["words"][:], batch_size=32)
    own = [([word["head"] for word in words], [word["relation"] for word in words]) for words in parsed]
    scores = score_trees(own, list(zip(gold["heads"][:], gold["relations"][:], strict=True)))
    return {"UAS": scores["uas"], "LAS": scores["las"]}


def relate(model: Any, tokenizer: Any, path: str) -> dict[str, float]:
    """The official macro-F1 of SemEval-2010 Task 8."""
    rows = read_relations(path)
    texts = [
        f"{text[:a]}<e1>{text[a:b]}</e1>{text[b:c]}<e2>{text[c:d]}</e2>{text[d:]}"
        for text, (a, b), (c, d) in zip(*(rows[name][:] for name in ("text", "head", "tail")), strict=True)
    ]
    found = pipeline("relation-extraction", model=model, tokenizer=tokenizer)(texts, batch_size=32, negative="keep")
    return {"official F1": score_semeval([each["label"] for each in found], rows["label"][:])["f1"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip())
    parser.add_argument("--model", required=True, help="checkpoint that msattn export takes")
    parser.add_argument("--file", required=True, help="test file of SemEval-2010 Task 8, or a treebank in CoNLL-U")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    source = ModelArguments(model_name_or_path=arguments.model)
    config = load_config(source)
    tokenizer = load_tokenizer(source, config)
    auto_class = auto_class_of(config, arguments.model)
    model = load_model(auto_class, source, tokenizer).eval()
    score = parse if auto_class is AutoModelForDependencyParsing else relate
    scores = {"torch": score(model, tokenizer, arguments.file)}
    with TemporaryDirectory() as folder:
        onnx.export(model, tokenizer, folder, int8=True)
        scores["ONNX int8"] = score(onnx.load(folder, threads=1), tokenizer, arguments.file)
    print(f"{os.path.basename(arguments.model)} on {os.path.basename(arguments.file)}, in percent.\n")
    rows = [[name, *(f"{value:.2f}" for value in each.values())] for name, each in scores.items()]
    print(markdown(" | ".join(["runtime", *scores["torch"]]), rows))


if __name__ == "__main__":
    main()
