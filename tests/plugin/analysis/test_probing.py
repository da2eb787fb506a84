"""The probing study: pairs and hits against a float64 reference, a planted head that has to be found, the command."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import BertConfig, BertModel, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from msattn import BertPairwiseConfig, BertPairwiseParser, UserError
from msattn.analysis import (
    HeadHits,
    PairLayout,
    Probe,
    best_heads,
    plot_attention_maps,
    plot_importances,
    probe_pairs,
    probing_figure,
    probing_tables,
    read_word_pairs,
    sample_pairs,
    top_maps,
)
from msattn.analysis.__main__ import main
from msattn.analysis.arguments import load_encoder
from msattn.analysis.word_pairs import FARTHEST
from msattn.data.files.conllu_lines import conllu_lines, with_tree
from msattn.data.inputs.parser_inputs import encode_treebank
from msattn.data.inputs.word_pieces import NO_LABEL
from msattn.data.treebanks import read_treebank
from tests.plugin.analysis.tiny_encoders import CONFIGS, SIZES, tiny_encoder
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
    return PlantedEncoder(BertConfig(**SIZES, attn_implementation="eager"), encoded).eval()


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
@pytest.mark.parametrize("family", [family for family in ("bert", "roberta", "modernbert") if family in CONFIGS])
def test_against_the_naive_concatenation(family, word_state, max_length):
    model = tiny_encoder(family)
    if family != "modernbert":  # which masks padding in float64 with numbers that are infinite in its float32 softmax
        model.double()
    model.set_attn_implementation("eager")
    encoded = encode(random_trees(7, seed=1), max_length)
    pairs = sample_pairs(encoded["heads"][:], 40, seed=3)
    expected, counted = reference(model, encoded, word_state, pairs)
    model.set_attn_implementation("sdpa")
    for batch_size in (1, 3, 32):
        found, hits = read_word_pairs(model, tiny_tokenizer(), encoded, 3, 40, 3, word_state, batch_size)
        np.testing.assert_allclose(found.features, expected, rtol=1e-4, atol=1e-5)
        assert found.features.shape[1] == found.layout.groups["a_ji"].stop
        for name, value in vars(counted).items():
            np.testing.assert_array_equal(getattr(hits, name), value, err_msg=name)
    assert model.config._attn_implementation == "sdpa"
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


def test_the_seed_decides_on_the_pairs():
    heads = random_trees(40, seed=0)["heads"][:]
    assert sample_pairs(heads, 50, seed=1) == sample_pairs(heads, 50, seed=1) != sample_pairs(heads, 50, seed=2)


def test_other_pairs_are_drawn_evenly():
    counts = np.zeros((4, 4), dtype=int)
    for seed in range(3000):
        ((firsts, seconds),) = sample_pairs([[2, 0, 2]], 2, seed)
        counts[firsts[1], seconds[1]] += 1
    allowed = counts[counts > 0]
    assert len(allowed) == 6 and allowed.min() > 400 and counts[0, 2] == counts[2, 1] == counts[2, 3] == 0


def test_names_of_features():
    layout = PairLayout(width=3, layers=2, heads=4)
    names = [layout.name(column) for column in range(22)]
    assert names[:6] == ["T_i 0", "T_i 1", "T_i 2", "T_j 0", "T_j 1", "T_j 2"]
    assert names[6:8] == ["a_ij 0-0", "a_ij 0-1"] and names[13:15] == ["a_ij 1-3", "a_ji 0-0"]
    assert names[-1] == "a_ji 1-3" and len(set(names)) == 22


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


def test_its_map_is_drawn_with_the_arcs(study):
    model, encoded, *_, probe, _ = study
    row = next(row for row in encoded if len(row["heads"]) == 6)
    first, second = top_maps(probe, model, tiny_tokenizer(), row)
    assert first.title == "1-2: dependent → head (rank 1)" and not second.title.startswith("1-2")
    assert first.weights.shape == (6, 6) and len(first.arcs) == 5
    for word, head in first.arcs:
        assert row["heads"][word] == head + 1 and first.weights[word].argmax() == head
    figure = plot_attention_maps([first.weights], [list("abcdef")], marks=[first.arcs])
    frames = [(patch.get_y() + 0.5, patch.get_x() + 0.5) for patch in figure.axes[0].patches]
    assert frames == first.arcs


def test_the_same_seed_gives_the_same_numbers(study):
    _, _, train, held_out, probe, _ = study
    again, other = (probe_pairs(train, held_out, 30, n_jobs=2, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.importances, probe.importances)
    assert (again.accuracies, again.losses) == (probe.accuracies, probe.losses)
    assert (other.importances != probe.importances).any()


def test_best_heads_are_chosen_on_the_training_data():
    hits = np.zeros((2, 2, 1, 2), dtype=int)
    offsets = np.zeros((2, 2 * FARTHEST + 1), dtype=int)
    train = HeadHits(hits.copy(), np.array([10, 4]), offsets.copy())
    held_out = HeadHits(hits.copy(), np.array([5, 8]), offsets.copy())
    train.hits[:, :, 0] = [[[1, 2], [9, 3]], [[1, 4], [1, 0]]]
    held_out.hits[:, :, 0] = [[[5, 0], [2, 0]], [[0, 6], [8, 0]]]
    train.offsets[0, FARTHEST - 2], held_out.offsets[0, FARTHEST - 2] = 7, 1
    train.offsets[1, FARTHEST + 1], held_out.offsets[1] = 3, 8
    every, second, first = best_heads(train, held_out, ["det", "obj"])
    assert first == ("det", 5, "a_ji", 0, 0, 0.4, -2, 0.2)
    assert second == ("obj", 8, "a_ij", 0, 1, 0.75, 1, 1.0)
    assert every[:5] == ("all", 13, "a_ji", 0, 0) and every.accuracy == 10 / 13
    assert [row.relation for row in best_heads(train, held_out, ["det", "obj"], min_count=5)] == ["all", "det"]


# Tables and pictures


def handmade() -> Probe:
    importances = np.array([0.1, 0.0, 0.05, 0.05, 0.3, 0.1, 0.2, 0.2])
    return Probe(PairLayout(2, 1, 2), importances, {"T and a": 0.9, "a": 0.8512}, {"T": 0.0, "a_ji 0": 0.125})


def test_tables():
    heads = best_heads(*[HeadHits(np.full((1, 2, 1, 2), 3), np.array([4]), np.eye(1, 11, 6, dtype=int))] * 2, ["det"])
    lines = [line for line in probing_tables(handmade(), heads, shown=2).splitlines() if line]
    assert lines[1:5] == ["| features | accuracy (%) |", "| --- | --- |", "| T and a | 90.00 |", "| a | 85.12 |"]
    assert "Of the 8 most important features 4 are attention (50 %; by chance 50.0 %)." in lines[5]
    assert lines[8:10] == ["| 1 | a_ij 0-0 | 0.3000 |", "| 2 | a_ji 0-0 | 0.2000 |"]
    assert lines[13:15] == ["| T | 0.00 |", "| a_ji 0 | 12.50 |"]
    assert lines[-2:] == [
        "| all | 4 | 75.0 | 0-0 | head → dependent | 25.0 (+1) |",
        "| det | 4 | 75.0 | 0-0 | head → dependent | 25.0 (+1) |",
    ]


def test_picture_of_importances(tmp_path):
    figure = plot_importances(handmade(), tmp_path / "a.svg")
    given, received, _ = figure.axes
    np.testing.assert_allclose(given.images[0].get_array(), [[30, 10]])
    np.testing.assert_allclose(received.images[0].get_array(), [[20, 20]])
    assert [text.get_text() for text in given.texts + received.texts] == ["1", "5", "2", "3"]
    assert given.get_title() == "a_ij: head → dependent"
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    with pytest.raises(UserError, match=r"saved as .png or .svg"):
        plot_importances(handmade(), tmp_path / "a.pdf")


# The command


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for part in (tiny_encoder(), tiny_tokenizer()):
        part.save_pretrained(tmp_path / "model")
    for seed, name in enumerate(("train", "dev")):
        write_trees(random_trees(25, seed, longest=12), tmp_path / f"{name}.conllu")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arguments(**changes: str) -> list[str]:
    values = {"model_name_or_path": "model", "train_file": "train.conllu", "validation_file": "dev.conllu"}
    values |= {"output_dir": "out", "n_estimators": "5", "max_pairs": "60", "min_count": "2", "n_jobs": "1", **changes}
    return ["probe", *(part for name, value in values.items() for part in (f"--{name}", value))]


def test_command(folder, capsys, monkeypatch):
    main(arguments())
    printed = capsys.readouterr().out
    names = ["probing.json", "probing.md"]
    names += [f"probing_{picture}.{suffix}" for picture in ("importances", "maps") for suffix in ("png", "svg")]
    assert sorted(path.name for path in (folder / "out").iterdir()) == sorted(names)
    assert (folder / "out/probing.md").read_text(encoding="utf-8") == printed
    results = json.loads((folder / "out/probing.json").read_text(encoding="utf-8"))
    assert results["train_pairs"] == results["validation_pairs"] == 60 and results["settings"]["seed"] == 0
    assert results["layout"] == {"width": 32, "layers": 2, "heads": 4} and results["attention_by_chance"] == 0.2
    assert list(results["accuracies"]) == ["T and a", "T", "a", "place only"]
    assert len(results["importances"]) == len(results["top"]) == 80
    assert results["best_heads"][0]["relation"] == "all"
    for path in (folder / "out").glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")

    for name in ("plot_importances", "plot_attention_maps"):
        monkeypatch.setattr(probing_figure, name, lambda *_, **__: None)
    main(arguments(output_dir="again", n_jobs="2"))
    assert capsys.readouterr().out == printed
    main(arguments(seed="1", output_dir="again", word_state="mean", batch_size="2"))
    assert capsys.readouterr().out != printed


def test_the_sentence_that_is_drawn(folder):
    trees = read_treebank("dev.conllu")
    number = next(number for number, words in enumerate(trees["words"][:], start=1) if len(words) == 3)
    main(arguments(sentence=str(number)))
    drawn = (folder / "out/probing_maps.svg").read_text(encoding="utf-8")
    assert all(drawn.count(f">{word}</text>") >= 4 for word in trees[number - 1]["words"])
    assert len(re.findall(r"(?:head|dependent) \(rank \d+\)</text>", drawn)) == 2


def test_a_parser_is_probed_without_its_head(folder):
    config = BertPairwiseConfig(**SIZES, num_labels=3)
    torch.manual_seed(0)
    parser = BertPairwiseParser(config)
    parser.save_pretrained(folder / "parser")
    tiny_tokenizer().save_pretrained(folder / "parser")
    encoder, _ = load_encoder("parser")
    assert isinstance(encoder, BertModel)
    weight = parser.bert.encoder.layer[1].output.dense.weight
    assert torch.equal(encoder.encoder.layer[1].output.dense.weight.cpu(), weight)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_name_or_path": "./nowhere"}, "--model_name_or_path ./nowhere: it is neither"),
        ({"train_file": "nowhere.conllu"}, "--train_file nowhere.conllu: there is no such file"),
        ({"validation_file": "plain.txt"}, "--validation_file plain.txt: the sentences have no trees"),
        ({"train_file": "short.conllu"}, "no sentence of two words"),
        ({"validation_file": "long.conllu", "sentence": "1"}, "--sentence 1: the sentence is longer than the encoder"),
        ({"validation_file": "long.conllu"}, "every held-out sentence is longer"),
        ({"sentence": "26"}, "--sentence 26: there are the held-out sentences 1 to 25"),
        ({"max_pairs": "1"}, "--max_pairs must be at least 2, not 1"),
        ({"n_estimators": "0"}, "--n_estimators must be at least 1"),
        ({"batch_size": "0"}, "--batch_size must be at least 1"),
        ({"min_count": "0"}, "--min_count must be at least 1"),
        ({"n_jobs": "0"}, "--n_jobs must be a number of cores"),
        ({"word_state": "last"}, "invalid choice"),
    ],
)
def test_wrong_arguments(folder, changes, message):
    (folder / "plain.txt").write_text("a cat .\n", encoding="utf-8")
    write_trees(Dataset.from_list([{"words": ["dog"], "heads": [0], "relations": ["root"]}]), folder / "short.conllu")
    long = {"words": ["dog"] * 70, "heads": list(range(70)), "relations": ["root", *["a"] * 69]}
    write_trees(Dataset.from_list([long]), folder / "long.conllu")
    with pytest.raises(UserError, match=message):
        main(arguments(**changes))
    assert not (folder / "out").exists()


def test_models_without_hidden_states():
    class Headless(BertModel):
        def forward(self, input_ids, attention_mask, output_attentions, return_dict):
            outputs = super().forward(input_ids, attention_mask, output_attentions=output_attentions)
            return BaseModelOutput(attentions=outputs.attentions)

    model = Headless(BertConfig(**SIZES)).eval()
    encoded = encode(Dataset.from_list([{"words": ["the", "author"], "heads": [2, 0], "relations": ["a", "root"]}]))
    with pytest.raises(UserError, match="Headless returns no last hidden states"):
        read_word_pairs(model, tiny_tokenizer(), encoded, 3, 10)
