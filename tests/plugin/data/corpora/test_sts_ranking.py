from __future__ import annotations

import json

import pytest

from msattn.data.corpora.sts_ranking import main, sts_ranking
from msattn.data.ranking import read_ranking
from msattn.errors import UserError

PAIRS = [
    ("a man eats", "a man is eating", 4.8),
    ("a man eats", "a woman eats", 2.0),
    ("rain falls", "it rains", 4.0),
    ("it snows", "A man eats!", 1.0),
    ("a dog", "a cat", 3.9),
    ("a bird", "a man is eating", 0.0),
]
ROWS = [
    {"sentence1": one, "sentence2": other, "label": score, "idx": number}
    for number, (one, other, score) in enumerate(PAIRS)
]


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
    another = {**ROWS[1], "sentence2": "it eats", "idx": 6}
    assert candidates(next(sts_ranking([*ROWS, another], negatives=1))) == {"s0": 1, "s1": 0}
    one, same = (list(sts_ranking(ROWS, negatives=2, seed=3)) for _ in range(2))
    assert one == same and [len(row["candidates"]) for row in one] == [3, 3]


def test_command(tmp_path, capsys):
    (tmp_path / "STS-B").mkdir()
    header = "index\tgenre\tsentence1\tsentence2\tscore\n"
    lines = [f"{number}\tnews\t{one}\t{other}\t{score}\n" for number, (one, other, score) in enumerate(PAIRS)]
    (tmp_path / "STS-B" / "dev.tsv").write_text(header + "".join(lines))
    output = tmp_path / "new" / "dev.jsonl"
    arguments = ["--glue_dir", str(tmp_path), "--split", "validation", "--output_file", str(output)]
    main(arguments)
    assert "2 queries, 9 candidates, 2 of them relevant" in capsys.readouterr().out
    assert [json.loads(line) for line in output.read_text().splitlines()] == list(sts_ranking(ROWS))
    assert read_ranking(output).relevant() == {"q0": {"s0"}, "q2": {"s2"}}

    with pytest.raises(UserError, match="--negatives must be a whole number of at least 1"):
        main([*arguments, "--negatives", "0"])
    with pytest.raises(UserError, match="no pair is so similar"):
        main([*arguments, "--threshold", "4.9"])
    assert output.read_text().count("\n") == 2  # nothing already written is lost
