from __future__ import annotations

import pytest

from msattn.data.negative_label import find_negative_label
from msattn.errors import UserError


@pytest.mark.parametrize("label", ["Other", "none", "NONE", "No Relation", "no_relation", "unrelated", None])
def test_any_spelling(label):
    others = ["born in", "mother", "Nonesuch", "nationality"]
    assert find_negative_label([*others, label] if label else others) == label


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["Other", "no_relation", "x"], "each of the labels 'Other', 'no_relation' may stand for no relation; name"),
        (["x", "N/A"], "the label 'N/A' may stand for no relation, or not; name the right one with --negative_label"),
    ],
)
def test_doubt_is_an_error(labels, message):
    with pytest.raises(UserError, match=message):
        find_negative_label(labels)
