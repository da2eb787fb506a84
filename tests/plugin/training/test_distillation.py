"""The loss of distillation, from its formula."""

from __future__ import annotations

import pytest
import torch

from msattn.training.distillation import TEMPERATURE, distillation_loss


@pytest.fixture
def logits():
    torch.manual_seed(0)
    return torch.randn(6, 3, dtype=torch.float64), torch.randn(6, 3, dtype=torch.float64)


def as_outputs(logits):
    return {"logits": logits}


def test_loss_is_the_divergence_from_the_teacher(logits):
    student, teacher = logits
    p, q = (torch.exp(x / TEMPERATURE) / torch.exp(x / TEMPERATURE).sum(-1, keepdim=True) for x in (teacher, student))
    expected = TEMPERATURE**2 * (p * (p / q).log()).sum() / 6
    torch.testing.assert_close(distillation_loss(as_outputs(student), teacher).double(), expected, rtol=1e-6, atol=0)
    assert distillation_loss(as_outputs(teacher), teacher) == pytest.approx(0, abs=1e-6)


def test_parts_of_a_step_add_up(logits):
    student, teacher = logits
    parts = [distillation_loss(as_outputs(student[rows]), teacher[rows], 18) for rows in (slice(0, 2), slice(2, 6))]
    torch.testing.assert_close(sum(parts), distillation_loss(as_outputs(student), teacher))


def test_labels_are_scored_as_ever(logits):
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    expected = torch.nn.functional.cross_entropy(logits[0].float(), labels)
    assert distillation_loss(as_outputs(logits[0]), labels) == expected
