"""The scripts of papers/guiding, against references."""

from __future__ import annotations

import json
from itertools import permutations

import doses
import numpy as np
import pytest
import torch
from diversity import diversity, map_similarity, received_entropy
from heads import head_vectors
from heads import main as draw_heads
from importance import importances, labelled_texts, removal_order
from importance import main as measure_importance
from sts_ranking import main as write_ranking
from sts_ranking import sts_ranking
from torch.nn.functional import cross_entropy
from window_cost import window_costs

from msattn import UserError, fit_windows, set_windows
from msattn.data import read_ranking
from msattn.plots import attention_maps
from tests.plugin.plots.test_encoders import classifier, encoder
from tests.tiny_models import tiny_tokenizer

TEXTS = [("the dog",), ("the author wrote the book",), ("a house",), ("the house the dog",), ("book",)]
LABELS = [0, 1, 1, 0, 1]


def measures(maps: np.ndarray) -> list[float]:
    """Cosine and entropy of maps `(maps, tokens)`, pair by pair."""
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in permutations(maps, 2)]
    shares = maps / maps.sum(axis=1, keepdims=True)
    bits = -(shares * np.log2(shares)).sum(axis=1).mean()
    return [float(np.mean(cosines)), bits, bits / np.log2(maps.shape[1])]


def test_diversity_against_the_reference():
    model, tokenizer = encoder(), tiny_tokenizer()
    expected = []
    for text in TEXTS:
        received = attention_maps(model, tokenizer, *text)[0].double().sum(dim=-2).numpy()
        expected.append([measures(received.reshape(-1, received.shape[-1])), *map(measures, received)])
    np.testing.assert_allclose(diversity(model, tokenizer, TEXTS), np.mean(expected, axis=0), rtol=1e-5)


def test_extremes_of_diversity():
    alike, apart = torch.ones(1, 4, 4), torch.eye(4)[None]
    assert map_similarity(alike).item() == pytest.approx(1) and map_similarity(apart).item() == pytest.approx(0)
    assert received_entropy(alike)[0].tolist() == [2.0] * 4 and not received_entropy(apart).any()
    assert map_similarity(torch.ones(1, 1, 4)).isnan().all()


def test_vectors_of_heads_are_received_attention(tmp_path):
    model, tokenizer = encoder(), tiny_tokenizer()
    vectors = head_vectors(model, tokenizer, TEXTS)
    parts = [attention_maps(model, tokenizer, *text)[0].sum(dim=-2).numpy() for text in TEXTS]
    parts.sort(key=lambda part: -part.shape[-1])
    np.testing.assert_allclose(vectors, np.concatenate(parts, axis=-1), atol=1e-5)
    for name, seed in (("one", 0), ("two", 1)):
        encoder(seed=seed).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    (tmp_path / "texts.txt").write_text("the dog\na house\n")
    models = [str(tmp_path / name) for name in ("one", "two")]
    draw_heads(["--model", *models, "--file", str(tmp_path / "texts.txt"), "--output", str(tmp_path / "heads.svg")])
    text = (tmp_path / "heads.svg").read_text()
    assert all(f">{word}<" in text for word in ("one", "two", "layer"))


def test_importance_is_the_mean_of_absolute_gradients():
    """Against columns of the output projection, one text and one head at a time."""
    model, tokenizer = classifier(num_labels=2).eval(), tiny_tokenizer()
    expected = np.zeros((2, 4))
    for text, label in zip(TEXTS, LABELS, strict=True):
        inputs = tokenizer(*text, return_tensors="pt")
        for layer, head in np.ndindex(2, 4):
            weight = model.bert.encoder.layer[layer].attention.output.dense.weight
            columns = slice(8 * head, 8 * head + 8)
            (gradient,) = torch.autograd.grad(cross_entropy(model(**inputs).logits, torch.tensor([label])), weight)
            expected[layer, head] += abs((gradient[:, columns] * weight[:, columns]).sum().item())
    np.testing.assert_allclose(importances(model, tokenizer, TEXTS, LABELS), expected / 5, rtol=1e-4, atol=1e-7)


def test_order_within_layers_of_unit_length():
    assert removal_order(np.array([[3.0, 4.0], [0.0, 0.1], [0.0, 0.0]])).tolist() == [2, 4, 5, 0, 1, 3]


def test_accuracy_without_heads(tmp_path, capsys):
    model = classifier(num_labels=2).eval()
    model.config.id2label, model.config.label2id = {0: "animal", 1: "thing"}, {"animal": 0, "thing": 1}
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    rows = [{"text": text, "label": ("animal", "thing")[label]} for (text,), label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["--model", str(tmp_path), "--file", str(tmp_path / "texts.jsonl"), "--output", str(tmp_path / "a.png")]
    # Accuracy on one example, heads ranked by all.
    measure_importance([*given, "--steps", "1", "--max_samples", "1", "--fit_file", str(tmp_path / "texts.jsonl")])
    assert "| 8 | 100 % |" in capsys.readouterr().out
    measure_importance([*given, "--steps", "2"])
    out = capsys.readouterr().out
    order = removal_order(importances(model, tiny_tokenizer(), TEXTS, LABELS))
    for count in (0, 4, 8):
        without = classifier(num_labels=2).eval()
        for layer, head in zip(*np.unravel_index(order[:count], (2, 4)), strict=True):
            with torch.no_grad():
                without.bert.encoder.layer[layer].attention.output.dense.weight[:, 8 * head : 8 * head + 8] = 0
        guesses = [without(**tiny_tokenizer()(*text, return_tensors="pt")).logits.argmax().item() for text in TEXTS]
        assert f"| {count} | {100 * count / 8:.0f} % | {np.mean(np.equal(guesses, LABELS)):.4f} |" in out
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


PAIRS = [
    ("a man eats", "a man is eating", 4.8),
    ("a man eats", "a woman eats", 2.0),
    ("rain falls", "it rains", 4.0),
    ("it snows", "A man eats!", 1.0),
    ("a dog", "a cat", 3.9),
    ("a bird", "a man is eating", 0.0),
]
ROWS = [{"sentence1": a, "sentence2": b, "label": score, "idx": number} for number, (a, b, score) in enumerate(PAIRS)]


def candidates(row: dict) -> dict[str, int]:
    return {candidate["id"]: candidate["label"] for candidate in row["candidates"]}


def test_every_second_sentence_is_a_candidate_except_the_query_itself():
    eats, rain = sts_ranking(ROWS)
    assert (eats["id"], eats["query"]) == ("q0", "a man eats")
    assert candidates(eats) == {"s0": 1, "s1": 0, "s2": 0, "s4": 0}
    assert candidates(rain) == {"s0": 0, "s1": 0, "s2": 1, "s3": 0, "s4": 0}
    assert [row["query"] for row in sts_ranking(ROWS, threshold=3.9)] == ["a man eats", "rain falls", "a dog"]


def test_negatives_are_first_those_that_annotators_judged():
    assert candidates(next(sts_ranking(ROWS, negatives=1))) == {"s0": 1, "s1": 0}
    one, same = (list(sts_ranking(ROWS, negatives=2, seed=3)) for _ in range(2))
    assert one == same and [len(row["candidates"]) for row in one] == [3, 3]


def test_the_ranking_file(tmp_path, capsys):
    (tmp_path / "STS-B").mkdir()
    lines = [f"{number}\tnews\t{one}\t{other}\t{score}\n" for number, (one, other, score) in enumerate(PAIRS)]
    (tmp_path / "STS-B" / "dev.tsv").write_text("index\tgenre\tsentence1\tsentence2\tscore\n" + "".join(lines))
    output = tmp_path / "new" / "dev.jsonl"
    write_ranking(["--glue_dir", str(tmp_path), "--split", "validation", "--output_file", str(output)])
    assert "2 queries, 9 candidates, 2 of them relevant" in capsys.readouterr().out
    assert [json.loads(line) for line in output.read_text().splitlines()] == list(sts_ranking(ROWS))
    assert read_ranking(output).relevant() == {"q0": {"s0"}, "q2": {"s2"}}


def test_doses_are_drawn_beside_the_cosine(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doses.yaml").write_text("arguments: {}\nsettings: {dose-0: {}, dose-1: {}}\nseeds: [1, 2]\n")
    (tmp_path / "texts.txt").write_text("the dog\na house\n")
    cosines = []
    for dose, score in (("0", 0.8), ("1", 0.6)):
        for seed in (1, 2):
            folder = tmp_path / "outputs" / "doses" / f"dose-{dose}" / f"seed-{seed}"
            model = encoder(seed=10 * int(dose) + seed)
            model.save_pretrained(folder)
            tiny_tokenizer().save_pretrained(folder)
            content = {"arguments": {}, "results": {"eval_accuracy": score + seed / 100}}
            (folder / "run.json").write_text(json.dumps(content))
            cosines.append(diversity(model, tiny_tokenizer(), [("the dog",), ("a house",)])[0, 0].item())
    doses.main(["doses.yaml", "--file", "texts.txt", "--output", "doses.svg"])
    row = capsys.readouterr().out.splitlines()[3]
    assert row.startswith(f"| doses | dose-1 | {np.mean(cosines[2:]):.3f} ± ") and "| 61.500 ± 0.707 |" in row
    assert ">dose-1<" in (tmp_path / "doses.svg").read_text()


def test_best_of_many_runs(tmp_path, capsys):
    import best_of

    for study, settings, seeds in (("pairs", ("a", "b"), (1, 2)), ("null", ("none",), range(4))):
        for place, setting in enumerate(settings):
            for seed in seeds:
                folder = tmp_path / study / setting / f"seed-{seed}"
                folder.mkdir(parents=True)
                results = {"unit": "percent", "eval_accuracy": place + seed, "test_accuracy": 10 * place + seed}
                (folder / "run.json").write_text(json.dumps({"results": results}))
    best_of.main([str(tmp_path / "pairs"), str(tmp_path / "null")])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows[0] == "| guided | 1 | 2 | 6.00 | 11.00 | +5.00 |"
    assert rows[2:] == ["| no guiding | 1 | 2 | 0.50 | 1.00 | +0.50 |", "| no guiding | 2 | 2 | 2.50 | 3.00 | +0.50 |"]


def test_labels_are_names_or_numbers_of_the_model(tmp_path):
    model = classifier(id2label={0: "bad", 1: "so so", 2: "good"}, label2id={"bad": 0, "so so": 1, "good": 2})
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a cat", "label": "good"}\n{"text": "a dog", "label": "bad"}\n')
    assert labelled_texts(model, str(path)) == ([("a cat",), ("a dog",)], [2, 0])
    path.write_text('{"text": "a cat", "label": "2"}\n{"text": "a dog", "label": "fine"}\n')
    with pytest.raises(UserError, match="does not know the label 'fine'; it knows"):
        labelled_texts(model, str(path))


def test_the_cost_is_that_of_the_fitted_windows():
    model, tokenizer = classifier(), tiny_tokenizer()
    texts, labels = [("a cat .",), ("the author of the book wrote in a house , a dog .",), ("cat",)], [0, 2, 1]
    rows = window_costs(model.eval(), tokenizer, texts, labels, (0.5, 1.0))
    set_windows(model, None)
    encoded = [tokenizer(*text, return_tensors="pt") for text in texts]
    for mass, count, _, widest, score in rows[1:]:
        windows = fit_windows(model, encoded, float(mass), tokenizer.all_special_ids)
        chosen = [window for row in windows for window in row if window is not None]
        assert int(count) == len(chosen) and widest == str(max(chosen, default=""))
        set_windows(model, windows, tokenizer.all_special_ids)
        found = [model(**one).logits.argmax().item() for one in encoded]
        assert score == f"{np.mean(np.equal(found, labels)):.4f}"
        set_windows(model, None)
