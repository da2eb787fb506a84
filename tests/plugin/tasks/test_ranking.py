from __future__ import annotations

import pytest
from transformers import TrainingArguments

from msattn import GuidingArguments
from msattn.arguments.classifier_arguments import ClassifierArguments
from msattn.arguments.pretrained import ModelArguments
from msattn.arguments.ranking_arguments import RankingDataArguments
from msattn.tasks.ranking import Ranking
from tests.tiny_models import tiny_relation_extractor

QUERIES = range(8)


@pytest.fixture
def trec(tmp_path):
    """A run that finds three documents for each query, none of which is relevant."""
    lines = {
        "run": [f"q{query} Q0 d{query}-{rank} {rank} 1 bm25" for query in QUERIES for rank in (1, 2, 3)],
        "queries.tsv": [f"q{query}\tquery {query}" for query in QUERIES],
        "documents.tsv": [f"d{query}-{rank}\tdocument {query} {rank}" for query in QUERIES for rank in range(4)],
        "qrels": [f"q{query} 0 d{query}-0 1" for query in QUERIES],
    }
    for name, text in lines.items():
        (tmp_path / name).write_text("\n".join(text) + "\n")
    return RankingDataArguments(
        train_file=str(tmp_path / "run"),
        queries_file=[str(tmp_path / "queries.tsv")],
        collection_file=[str(tmp_path / "documents.tsv")],
        qrels_file=[str(tmp_path / "qrels")],
        validation_split_percentage=50,
    )


def test_a_held_out_part_has_the_candidates_of_the_run(trec, tmp_path):
    for part in tiny_relation_extractor():
        part.save_pretrained(tmp_path / "model")
    args = TrainingArguments(output_dir=str(tmp_path), do_train=True, do_eval=True, report_to=[])
    task = Ranking(ModelArguments(str(tmp_path / "model")), ClassifierArguments(), trec, args, GuidingArguments())
    task.load()
    splits = task.data
    assert sum(splits["train"].pairs["label"]) == 4 and not splits["train"].missed
    held = splits["eval"]
    assert len(held.pairs) == 4 * 3 and not any(held.pairs["label"])
    assert {len(documents) for documents in held.missed.values()} == {1} and len(held.missed) == 4
    queries = [set(data.pairs["query_id"]) for data in splits.values()]
    assert not queries[0] & queries[1] and len(queries[0] | queries[1]) == len(QUERIES)
