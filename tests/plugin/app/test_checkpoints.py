from __future__ import annotations

import pytest

from msattn.app.entities import found
from msattn.errors import UserError


def test_wrong_checkpoints_are_a_sentence(load, tmp_path):
    with pytest.raises(UserError, match="entities and .*words are both for token-classification; the page shows one"):
        load("entities", "words")
    with pytest.raises(UserError, match="--lang en is for a parser or a tagger, and none of .*classes is one"):
        load("classes", lang="en")
    with pytest.raises(UserError, match="nowhere"):
        load("nowhere")
    with pytest.raises(UserError, match="xx"):
        load("parser", lang="xx")


def test_a_tagger_has_the_words_of_a_language(load):
    tagger = load("words", lang="fr")["token-classification"].run
    assert [word["text"] for word in found(tagger, "du chat")] == ["de", "le", "chat"]
