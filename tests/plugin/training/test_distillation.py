"""The loss of distillation, from its formula."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from msattn.training.distillation import TEMPERATURE, Teacher, distillation_loss
from msattn.training.learning_rates import FineTuningArguments
from tests.tiny_models import saved_encoder


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
    assert distillation_loss(as_outputs(logits[0]), labels) == pytest.approx(expected.item())
    two_processes = 2 * distillation_loss(as_outputs(logits[0]), labels, 12)  # as the Trainer scales it
    assert two_processes == pytest.approx(expected.item())


def test_a_teacher_answers_in_order_and_leaves_the_arguments_alone(tmp_path, caplog):
    folder = saved_encoder(tmp_path / "teacher", layers=1)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3).eval()
    model.save_pretrained(folder)
    args = FineTuningArguments(str(tmp_path / "out"), use_cpu=True, report_to="none", eval_strategy="steps")
    rows = Dataset.from_dict({"text": ["a cat", "the author of the book", "cat"], "label": [0, 1, 2]})
    teacher = Teacher(str(folder))
    answered = teacher.answered(rows, ["text"], teacher.labels[::-1], args)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    expected = [model(**tokenizer(text, return_tensors="pt")).logits[0].flip(0).tolist() for text in rows["text"]]
    torch.testing.assert_close(torch.tensor(answered["label"][:]), torch.tensor(expected))
    assert answered["text"][:] == rows["text"][:]
    assert args.learning_rate is None  # that of the student is chosen later
    assert "the teacher reads" not in caplog.text
    teacher.answered(Dataset.from_dict({"text": ["a cat " * 40, "cat"]}), ["text"], teacher.labels, args)
    assert "--distill_from: of 1 of 2 texts, the teacher reads 64 tokens only" in caplog.text
