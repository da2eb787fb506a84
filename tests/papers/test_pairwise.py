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
from transformers import BertConfig, BertModel, PreTrainedModel
from word_pairs import FARTHEST, HeadHits, PairLayout, read_word_pairs, sample_pairs

from msattn.data.files.conllu_lines import conllu_lines, with_tree
from msattn.data.inputs.parser_inputs import encode_treebank
from msattn.data.inputs.word_pieces import NO_LABEL
from tests.plugin.plots.test_encoders import encoder
from tests.tiny_encoders import tiny_encoder
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


class PlantedEncoder(BertModel):
    """In head 2 of layer 1 each piece gives most of its attention to the first piece of its word's head."""

    def __init__(self, config: BertConfig, encoded: Dataset):
        super().__init__(config)
        self.trees = {tuple(row["input_ids"]): row for row in encoded}

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, output_attentions=None, return_dict=None):
        outputs = super().forward(input_ids, attention_mask, token_type_ids, output_attentions=True)
        for ids, mask, maps in zip(input_ids, attention_mask, outputs.attentions[1], strict=True):
            tree = self.trees[tuple(ids[mask.bool()].tolist())]
            for piece, word in enumerate(tree["word_index"]):
                if word > 0:
                    maps[2, piece] *= 0.2
                    maps[2, piece, tree["word_index"].index(tree["heads"][word - 1])] += 0.8
        return outputs


def planted(encoded: Dataset) -> PlantedEncoder:
    torch.manual_seed(0)
    return PlantedEncoder(tiny_encoder("bert", attn_implementation="eager", initializer_range=0.3), encoded).eval()


# The reference


def reference_maps(model: PreTrainedModel, row: dict) -> tuple[np.ndarray, np.ndarray]:
    """Of one sentence the states of its words, `(W + 1, M)` and `(W + 1, pieces, M)`, and its word attention."""
    inputs = {name: torch.tensor([row[name]]) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
    hidden, maps = outputs.last_hidden_state[0].numpy(), torch.cat(outputs.attentions).numpy()
    pieces = [
        [piece for piece, of in enumerate(row["word_index"]) if of == word] for word in range(len(row["heads"]) + 1)
    ]
    attention = np.zeros((*maps.shape[:2], len(pieces), len(pieces)))
    for layer, head, i, j in np.ndindex(attention.shape):
        given = [sum(maps[layer, head, one, other] for other in pieces[j]) for one in pieces[i]]
        attention[layer, head, i, j] = sum(given) / len(given)
    return [hidden[part] for part in pieces], attention


def reference(model: PreTrainedModel, encoded: Dataset, word_state: str, pairs: list) -> tuple[np.ndarray, HeadHits]:
    features = []
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    hits = HeadHits(
        np.zeros((len(RELATIONS), 2, layers, heads), dtype=int),
        np.zeros(len(RELATIONS), dtype=int),
        np.zeros((len(RELATIONS), 2 * FARTHEST + 1), dtype=int),
    )
    for number in sorted(range(len(encoded)), key=lambda number: -len(encoded[number]["input_ids"])):
        row = encoded[number]
        states, attention = reference_maps(model, row)
        states = [part[0] if word_state == "first" else part.mean(axis=0) for part in states]
        for i, j in zip(*pairs[number], strict=True):
            features.append(
                np.concatenate(
                    [states[i], states[j], attention[:, :, i, j].reshape(-1), attention[:, :, j, i].reshape(-1)]
                )
            )
        words = range(1, len(row["heads"]) + 1)
        for j, i, relation in zip(words, row["heads"], row["relations"], strict=True):
            if i <= 0:
                continue
            hits.words[relation] += 1
            if abs(i - j) <= FARTHEST:
                hits.offsets[relation, i - j + FARTHEST] += 1
            others = [word for word in words if word != j]
            for layer, head in np.ndindex(layers, heads):
                weights = attention[layer, head]
                hits.hits[relation, 0, layer, head] += max(others, key=lambda word: weights[word, j]) == i
                hits.hits[relation, 1, layer, head] += max(others, key=lambda word: weights[j, word]) == i
    return np.array(features), hits


@pytest.mark.parametrize("max_length", [None, 9])
@pytest.mark.parametrize("word_state", ["first", "mean"])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_against_the_naive_concatenation(family, word_state, max_length):
    model = encoder(family).double()
    model.set_attn_implementation("eager")
    encoded = encode(random_trees(7, seed=1), max_length)
    pairs = sample_pairs(encoded["heads"][:], 40, seed=3)
    expected, counted = reference(model, encoded, word_state, pairs)
    for batch_size in (1, 3, 32):
        found, hits = read_word_pairs(model, tiny_tokenizer(), encoded, 3, 40, 3, word_state, batch_size)
        np.testing.assert_allclose(found.features, expected, rtol=1e-4, atol=1e-5)
        assert found.features.shape[1] == found.layout.groups["a_ji"].stop
        for name, value in vars(counted).items():
            np.testing.assert_array_equal(getattr(hits, name), value, err_msg=name)
    assert found.is_arc.mean() == 0.5


# The pairs


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


def test_other_pairs_are_drawn_evenly():
    counts = np.zeros((4, 4), dtype=int)
    for seed in range(3000):
        ((firsts, seconds),) = sample_pairs([[2, 0, 2]], 2, seed)
        counts[firsts[1], seconds[1]] += 1
    allowed = counts[counts > 0]
    assert len(allowed) == 6 and allowed.min() > 400 and counts[0, 2] == counts[2, 1] == counts[2, 3] == 0


# What is found


@pytest.fixture(scope="module")
def study():
    """With a planted head: the encoder, the held-out sentences, the pairs and the hits of both parts."""
    parts = [encode(random_trees(count, seed)) for seed, count in enumerate((150, 40))]
    model = planted(Dataset.from_list([row for part in parts for row in part]))
    read = [read_word_pairs(model, tiny_tokenizer(), part, 3, 10_000) for part in parts]
    (train, train_hits), (held_out, hits) = read
    return model, parts[1], train, held_out, probe_pairs(train, held_out, 30), best_heads(train_hits, hits, RELATIONS)


def test_the_planted_head_is_the_best_one(study):
    *_, heads = study
    assert [row.relation for row in heads][0] == "all" and sorted(row.relation for row in heads[1:]) == ["a", "b"]
    for row in heads:
        assert (row.direction, row.layer, row.head, row.accuracy) == ("a_ji", 1, 2, 1.0)
        assert row.offset_accuracy < 0.6
    assert heads[0].words == heads[1].words + heads[2].words


def test_the_planted_head_is_the_first_feature(study):
    _, _, train, _, probe, _ = study
    assert probe.layout == train.layout == PairLayout(32, 2, 4)
    assert probe.layout.name(probe.ranking[0]) == "a_ji 1-2"
    assert probe.attention_importances[1, 1, 2] == probe.importances.max()
    assert probe.importances.sum() == pytest.approx(1)
    assert probe.accuracies["a"] > 0.95 and probe.accuracies["T"] < 0.75 and probe.accuracies["place only"] < 0.75
    assert max(probe.losses["a"], probe.losses["a_ji"], probe.losses["a_ji 1"]) > 0.2
    assert abs(probe.losses["a_ij 0"]) < 0.05 and probe.losses["a_ji"] > probe.losses["T"]
    attention = [name for name in map(probe.layout.name, probe.top) if name.startswith("a_")]
    assert probe.attention_share == len(attention) / len(probe.top) and probe.chance == 16 / 80


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
