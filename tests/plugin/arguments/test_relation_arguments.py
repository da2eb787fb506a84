from __future__ import annotations

import pytest

from msattn.arguments.relation_arguments import find_negative_label


@pytest.mark.parametrize(
    "label",
    ["Other", "other", "no_relation", "No_relation", "no relation", "NO-RELATION", "NA", "N/A", "none", "NONE"],
)
def test_the_negative_label_in_any_spelling(label):
    """By exact spelling only, always predicting it had a micro-F1 of 80 in place of 0, in silence."""
    assert find_negative_label(["cause", label, "effect"]) == label


def test_labels_without_a_negative_one():
    assert find_negative_label(["another", "nationality", "cause"]) is None


def test_the_known_order_decides():
    assert find_negative_label(["none", "Other"]) == "Other"
