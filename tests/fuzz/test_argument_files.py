"""Whatever an argument file holds, arguments or a `UserError` come out."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from typing import Any
from unittest.mock import patch

import yaml
from hypothesis import given
from hypothesis import strategies as st
from transformers import TrainingArguments

from msattn import UserError
from msattn.arguments.experiment_arguments import ExperimentArguments
from msattn.command_line import parse_arguments
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.tasks.relation_extraction import RelationExtraction
from tests.fuzz.limits import fuzz, limits
from tests.fuzz.mutations import VALUES, damaged

TYPES = (*RelationExtraction.argument_classes, ExperimentArguments, GuidingArguments, TrainingArguments)
# Not those that start a service, or change how the tests themselves run.
NAMES = sorted(
    {field.name for each in TYPES for field in fields(each) if field.init} - {"report_to", "full_determinism"}
)
GOOD = {
    "output_dir": "model",
    "use_cpu": True,
    "scales": [3, 5],
    "learning_rate": 1e-4,
    "seeds": [1, 2],
    "mask_mode": "ste",
}


def outcome(path: str) -> None:
    with limits(), patch.dict(os.environ):
        try:
            parsed = parse_arguments(TYPES, [path])
            assert len(parsed) == len(TYPES)
        except UserError as error:
            message = str(error)
            assert message.startswith(f"{path}: ") and len(message.replace(path, "")) <= 560


def test_odd_values(tmp_path):
    path = tmp_path / "a.json"

    @fuzz(0.06)
    @given(st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=3))
    def run(values: dict[str, Any]) -> None:
        path.write_text(json.dumps({"use_cpu": True, **values}))
        outcome(str(path))

    run()


def test_damaged_files(tmp_path):
    originals = {".json": json.dumps(GOOD).encode(), ".yaml": yaml.safe_dump(GOOD).encode()}

    @fuzz(0.04)
    @given(st.data(), st.sampled_from(sorted(originals)))
    def run(data: st.DataObject, suffix: str) -> None:
        path = tmp_path / f"a{suffix}"
        path.write_bytes(data.draw(damaged([originals[suffix]])))
        outcome(str(path))

    run()
