from __future__ import annotations

import pytest

from msattn.errors import UserError


def test_each_task_has_its_checkpoint(load, checkpoints):
    loaded = load("entities", "relations", "parser", "classes", "encoder")
    assert {task: one.run and one.run.task for task, one in loaded.items()} == {
        "token-classification": "token-classification",
        "relation-extraction": "relation-extraction",
        "dependency-parsing": "dependency-parsing",
        "text-classification": "text-classification",
        "encoder": None,
    }
    assert loaded["encoder"].name == str(checkpoints / "encoder")
    assert not any(one.model.training for one in loaded.values())


def test_wrong_checkpoints_are_a_sentence(load, tmp_path):
    with pytest.raises(UserError, match="entities and .*words are both for token-classification; the page shows one"):
        load("entities", "words")
    with pytest.raises(UserError, match="--lang en is for a parser, and none of .*words is one"):
        load("words", lang="en")
    with pytest.raises(UserError, match="nowhere"):
        load("nowhere")
    with pytest.raises(UserError, match="xx"):
        load("parser", lang="xx")
