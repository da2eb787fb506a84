"""Probing: pairs and hits against a float64 reference, a planted head that has to be found; annotation by doubt."""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
from pathlib import Path

import annotation
import numpy as np
import probing
import pytest
import torch
from datasets import Dataset
from probing import best_heads, probe_pairs
from word_pairs import FARTHEST, HeadHits, PairLayout, WordPairs, read_word_pairs, sample_pairs

from msattn.data.files.conllu_lines import conllu_lines, with_tree
from msattn.data.inputs.parser_inputs import encode_treebank
from msattn.data.inputs.word_pieces import NO_LABEL
from tests.plugin.plots.test_encoders import encoder
from tests.tiny_models import tiny_tokenizer

RELATIONS = ["a", "b", "root"]
NUMBERS = {name: number for number, name in enumerate(RELATIONS)}
VOCABULARY = ["author", "book", "house", "dog", "cats", "taxipayer", "unpayers", "wrote", "in"]


def random_trees(count: int, seed: int, longest: int = 8) -> Dataset:
    """Trees that have nothing to do with the words."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        size = generator.randrange(1, longest + 1)
        order = generator.sample(range(1, size + 1), size)
        heads = [0] * size
        for place, word in enumerate(order[1:], start=1):
            heads[word - 1] = generator.choice(order[:place])
        relations = [generator.choice("ab") if head else "root" for head in heads]
        rows.append({"words": generator.choices(VOCABULARY, k=size), "heads": heads, "relations": relations})
    return Dataset.from_list(rows)


def write_trees(trees: Dataset, path) -> None:
    texts = (with_tree(conllu_lines(row["words"]), row["heads"], row["relations"]) for row in trees)
    path.write_text("".join(texts), encoding="utf-8")


def encode(trees: Dataset, max_length: int | None = None) -> Dataset:
    return encode_treebank(trees, tiny_tokenizer(), NUMBERS, max_length)


def test_features_and_hits_of_words_of_one_piece():
    """States of both words, and attention both ways, layer by layer; the head that looks most at a word's head."""
    model, words = encoder(attn_implementation="eager"), ["dog", "wrote", "book", "house"]
    heads = [2, 0, 2, 3]
    encoded = encode(Dataset.from_list([{"words": words, "heads": heads, "relations": ["a", "root", "b", "a"]}]))
    outputs = model(torch.tensor([encoded[0]["input_ids"]]), output_attentions=True)
    states, maps = outputs.last_hidden_state[0].detach().numpy(), torch.cat(outputs.attentions).detach().numpy()
    found, hits = read_word_pairs(model, tiny_tokenizer(), encoded, 3, 8)
    ((firsts, seconds),) = sample_pairs(encoded["heads"][:], 8, 0)
    assert found.layout == PairLayout(32, 2, 4) and found.is_arc.tolist() == [True] * 4 + [False] * 4
    for row, (i, j) in enumerate(zip(firsts, seconds, strict=True)):  # [CLS] is ROOT
        expected = [states[i], states[j], maps[:, :, i, j].ravel(), maps[:, :, j, i].ravel()]
        np.testing.assert_allclose(found.features[row], np.concatenate(expected), rtol=1e-4, atol=1e-5)
    assert hits.words.tolist() == [2, 1, 0] and hits.offsets.sum() == 3
    for layer, head in np.ndindex(2, 4):
        right = 0
        for j, i in ((1, 2), (4, 3)):
            others = [word for word in range(1, 5) if word != j]
            right += max(others, key=lambda word: maps[layer, head, j, word]) == i
        assert hits.hits[0, 1, layer, head] == right


def test_pairs_are_balanced():
    heads = random_trees(40, seed=0)["heads"][:] + [[0], [2, 0], [NO_LABEL, 3, 0, NO_LABEL]]
    words = sum(head != NO_LABEL for sentence in heads for head in sentence if len(sentence) > 1)
    for most in (1, 2, 31, 10_000):
        drawn = sample_pairs(heads, most, seed=0)
        assert len(drawn) == len(heads)
        arcs = 0
        for sentence, (firsts, seconds) in zip(heads, drawn, strict=True):
            pairs = list(zip(firsts, seconds, strict=True))
            half = len(pairs) // 2
            assert len(set(pairs)) == len(pairs)
            assert all(0 <= i <= len(sentence) and 1 <= j <= len(sentence) and i != j for i, j in pairs)
            assert [sentence[j - 1] == i for i, j in pairs] == [True] * half + [False] * half
            assert all(sentence[j - 1] != NO_LABEL for _, j in pairs)
            arcs += half
        assert arcs == min(most // 2, words)
    assert drawn[40] == ([], []) and sorted(zip(*drawn[41], strict=True)) == [(0, 1), (0, 2), (1, 2), (2, 1)]


# What is found


def test_the_feature_that_tells_arcs_is_the_first():
    layout = PairLayout(width=3, layers=2, heads=4)
    generator = np.random.default_rng(0)
    parts = []
    for count in (400, 200):
        features, is_arc = generator.random((count, 22)), np.arange(count) % 2 == 0
        features[:, 14 + 6] = is_arc + generator.normal(0, 0.2, count)  # a_ji of head 2 in layer 1
        parts.append(WordPairs(layout, features, is_arc, generator.integers(-3, 3, (count, 2))))
    probe = probe_pairs(*parts, n_estimators=30)
    assert layout.name(probe.ranking[0]) == "a_ji 1-2" and layout.name(0) == "T_i 0"
    assert probe.attention_importances[1, 1, 2] == probe.importances.max()
    assert probe.accuracies["a"] > 0.95 and max(probe.accuracies["T"], probe.accuracies["place only"]) < 0.65
    assert min(probe.losses["a"], probe.losses["a_ji"], probe.losses["a_ji 1"]) > 0.2 > abs(probe.losses["T"])
    assert probe.attention_share == probe.chance == 16 / 22


def test_the_best_head_and_offset_of_training_are_scored_on_held_out_data():
    hits, offsets = np.zeros((2, 2, 1, 2), dtype=int), np.zeros((2, 2 * FARTHEST + 1), dtype=int)
    hits[0, 1, 0, 1], offsets[0, FARTHEST + 1] = 8, 5
    train = HeadHits(hits, np.array([10, 0]), offsets)
    found = best_heads(train, HeadHits(hits // 2, np.array([8, 0]), offsets - offsets // 2), ["a", "b"])
    assert [row.relation for row in found] == ["all", "a"]
    assert found[1] == ("a", 8, "a_ji", 0, 1, 0.5, 1, 0.375)


def test_the_script(tmp_path, capsys):
    for name, count in (("train", 60), ("dev", 40)):
        write_trees(random_trees(count, seed=count, longest=14), tmp_path / f"{name}.conllu")
    encoder().save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    files = ["--train_file", str(tmp_path / "train.conllu"), "--validation_file", str(tmp_path / "dev.conllu")]
    given = ["--model_name_or_path", str(tmp_path / "model"), *files, "--output_dir", str(tmp_path / "out")]
    probing.main([*given, "--max_pairs", "200", "--n_estimators", "10"])
    tables = (tmp_path / "out" / "probing.md").read_text()
    assert tables == capsys.readouterr().out and "| T and a |" in tables and "| all |" in tables
    results = json.loads((tmp_path / "out" / "probing.json").read_text())
    assert results["attention_by_chance"] == 0.2 and len(results["importances"]) == 80
    for name in ("importances", "maps"):
        assert (tmp_path / "out" / f"probing_{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_probing_finds_the_heads_of_determiners_in_attention(tmp_path):
    """Of all-MiniLM-L6-v2 on UD English ParTUT."""
    data, encoder = os.environ.get("MSATTN_DATA"), os.environ.get("MSATTN_ENCODER")
    if not data or not encoder:
        pytest.skip("MSATTN_DATA and MSATTN_ENCODER name no corpora and no encoder")
    folder = Path(data) / "ud_english_partut"
    files = [str(folder / f"en_partut-ud-{part}.conllu") for part in ("train", "dev")]
    given = ["--train_file", files[0], "--validation_file", files[1], "--output_dir", str(tmp_path)]
    probing.main(["--model_name_or_path", encoder, *given, "--max_pairs", "2000", "--n_estimators", "50"])
    results = json.loads((tmp_path / "probing.json").read_text(encoding="utf-8"))
    assert results["accuracies"]["a"] > results["accuracies"]["place only"] + 0.03
    assert results["attention_among_top"] > 3 * results["attention_by_chance"]
    (determiners,) = (row for row in results["best_heads"] if row["relation"] == "det")
    assert determiners["accuracy"] > determiners["offset_accuracy"]


# Annotation by doubt


def points(seed: int, *scores: float, way: str = "random") -> list[dict]:
    return [
        {"seed": seed, "way": way, "sentences": 100 * 2**place, "words": 1000 * 2**place, "uas": uas}
        for place, uas in enumerate(scores)
    ]


def test_what_the_target_takes():
    assert annotation.needed(points(1, 70, 80, 90), "sentences", 85) == pytest.approx(200 * math.sqrt(2))
    assert annotation.needed(points(1, 70, 80), "words", 70) == 1000
    assert annotation.needed(points(1, 70, 80), "words", 81) is None
    table = annotation.summary([*points(1, 80, 90), *points(2, 70, 80), *points(1, 85, 95, way="loss")], 80)
    assert table.splitlines()[2:] == [
        "| random | 75.00 ± 7.07 | 85.00 ± 7.07 | 150 ± 71 | 1,500 ± 707 |",
        "| loss | 85.00 | 95.00 | 100 | 1,000 |",
    ]
    assert "not reached" in annotation.summary([*points(1, 80, 90), *points(2, 70, 80)], 85)


def test_the_longest_sentences(tmp_path):
    left = Dataset.from_dict({"words": [["Dogs"], ["Dogs", "sleep", "."], ["Dogs", "sleep"]]})
    longest = annotation.Simulation(argparse.Namespace(output_dir=tmp_path)).choose
    assert longest(left, 2, "length", np.random.default_rng(1)) == [1, 2]


def test_a_simulation_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    """With scores in place of parsers; the ways are those that ask none."""
    monkeypatch.setattr(annotation.Simulation, "train", lambda self, data, seed: {"uas": 70 + len(data), "las": 60})
    write_trees(random_trees(30, seed=1), tmp_path / "pool.conllu")
    files = [word for name in ("train", "validation") for word in (f"--{name}_file", str(tmp_path / "pool.conllu"))]
    given = ["annotation.py", *files, "--output_dir", str(tmp_path / "out"), "--sizes", "5", "10", "--pool", "30"]
    results = []
    for ways in (["random"], ["random", "length"]):
        monkeypatch.setattr(sys, "argv", [*given, "--seeds", "1", "--ways", *ways])
        annotation.main()
        results.append(json.loads((tmp_path / "out" / "annotation.json").read_text())["points"])
    assert results[1][:2] == results[0] and [point["uas"] for point in results[1]] == [75, 80, 75, 80]
    assert results[1][3]["words"] > results[1][1]["words"]
    assert (tmp_path / "out" / "annotation.png").exists() and "| length |" in capsys.readouterr().out
