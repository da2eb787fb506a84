from __future__ import annotations

import pytest

from msattn.errors import UserError


def test_wrong_checkpoints_are_a_sentence(load, tmp_path):
    with pytest.raises(UserError, match="entities and .*words are both for token-classification; the page shows one"):
        load("entities", "words")
    with pytest.raises(UserError, match="--lang en is for a parser, and none of .*words is one"):
        load("words", lang="en")
    with pytest.raises(UserError, match="nowhere"):
        load("nowhere")
    with pytest.raises(UserError, match="xx"):
        load("parser", lang="xx")
