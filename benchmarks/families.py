"""Tries our models on a tiny random encoder of every family, and prints a table of what works."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch.nn.functional import pad
from transformers import AutoModel, PreTrainedModel
from transformers.utils import logging

from msattn import MultiScaleConfig, PairwiseConfig
from msattn.modeling.modeling_multiscale import MultiScaleForSequenceClassification
from msattn.modeling.modeling_pairwise import PairwiseForRelationClassification, PairwiseParser
from msattn.plots.style import markdown_table

sys.path.append(str(Path(__file__).parents[1]))
from tests.tiny_encoders import FAMILIES, LENGTHS, batch, randomized, tiny_encoder

TOLERANCE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
#: A smooth mask: a rounding error does not move a word from one side of 1/n to the other.
FUSION = {"mask_mode": "sigmoid", "scales": (2, 3), "num_labels": 4}
PAIRS = {"num_labels": 3, "arc_size": 6, "relation_size": 5}
MODELS: dict[str, list[tuple[type[PreTrainedModel], dict[str, Any]]]] = {
    "multi-scale fusion": [(MultiScaleForSequenceClassification, FUSION)],
    "pairwise": [
        (PairwiseParser, {**PAIRS, "objective": "head_select", "scorer": "biaffine"}),
        (PairwiseForRelationClassification, PAIRS),
    ],
}
# Where msattn cannot be imported: loads each folder by the code in it, compares the outputs and saves it again.
WITHOUT_MSATTN = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "msattn":
            raise ModuleNotFoundError("No module named 'msattn'", name="msattn")

sys.meta_path.insert(0, Blocked())
import torch
from transformers import AutoConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module

for line in sys.stdin:
    folder = line.strip()
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
        file = config.auto_map["AutoConfig"].partition(".")[0].replace("configuration", "modeling")
        model_class = get_class_from_dynamic_module(f"{file}.{config.architectures[0]}", folder)
        model = model_class.from_pretrained(folder, trust_remote_code=True).eval()
        inputs, expected = torch.load(folder + "/expected.pt")
        torch.testing.assert_close(model(**inputs)[1], expected, rtol=1e-4, atol=1e-5)
        model.save_pretrained(folder + "/again")
        print("loaded", flush=True)
    except Exception as error:
        print(repr(error), flush=True)
"""


@dataclass(frozen=True)
class Trial:
    """
    A model class on a family, with random weights.

    Args:
        family (`str`): The `model_type` of the encoder.
        model_class (`type`): The class that is tried.
        options (`Mapping[str, Any]`): Fields of its configuration.
        folder (`Path`): An empty folder.
    """

    family: str
    model_class: type[PreTrainedModel]
    options: Mapping[str, Any]
    folder: Path

    def model(self) -> PreTrainedModel:
        """The model in evaluation mode, with the same weights every time."""
        config_class = MultiScaleConfig if self.model_class.config_class is MultiScaleConfig else PairwiseConfig
        return randomized(self.model_class(config_class(encoder=tiny_encoder(self.family), **self.options)))

    def inputs(self, left: int = 0, right: int = 0) -> dict[str, torch.Tensor]:
        """Three sentences with their labels, and so much padding more on either side."""
        inputs = batch(self.family, left, right)
        if self.model_class is PairwiseParser:
            rows = [[*range(length - 1), *[-1] * (max(LENGTHS) - length + 1)] for length in LENGTHS]
            words = max(LENGTHS) - 2
            heads = [[*range(length - 2), *[-100] * (words - length + 2)] for length in LENGTHS]
            inputs["word_index"] = pad(torch.tensor(rows), (left, right), value=-1)
            inputs["heads"] = torch.tensor(heads)
            inputs["relations"] = torch.tensor(heads) % 3
            return inputs
        if self.model_class is PairwiseForRelationClassification:
            inputs["entity_pieces"] = torch.tensor([[[1, 2], [4, 5]], [[3, 3], [1, 1]], [[2, 3], [5, 6]]]) + left
        return {**inputs, "labels": torch.tensor([0, 2, 1])}

    @torch.no_grad()
    def result(self, model: PreTrainedModel, left: int = 0, right: int = 0) -> torch.Tensor:
        """The logits or the scores of arcs."""
        return model(**self.inputs(left, right))[1]

    def gradients(self, model: Callable[..., Any], weights: Iterable[torch.nn.Parameter]) -> list[torch.Tensor]:
        """The loss and the gradients of the weights."""
        loss = model(**self.inputs())["loss"]
        return [loss, *torch.autograd.grad(loss, list(weights))]


def trains(trial: Trial) -> None:
    model = trial.model().train()
    for value in trial.gradients(model, model.parameters()):  # fails for a weight without a gradient
        assert value.isfinite().all()


def ignores_padding(trial: Trial) -> None:
    model = trial.model()
    expected = trial.result(model)
    for left, right in ((3, 0), (0, 2), (2, 3)):
        torch.testing.assert_close(trial.result(model, left, right), expected, **TOLERANCE)


def saves(trial: Trial) -> None:
    model = trial.model()
    model.save_pretrained(trial.folder)
    assert_same(trial, trial.model_class.from_pretrained(trial.folder), model)


def loads_from_the_hub(trial: Trial) -> None:
    """Without msattn, by the code in the checkpoint; saved there, it loads with msattn again."""
    model = trial.model()
    model.save_pretrained(trial.folder)
    inputs = trial.inputs()
    with torch.no_grad():
        torch.save((inputs, model(**inputs)[1]), trial.folder / "expected.pt")
    interpreter = _interpreter_without_msattn()
    print(trial.folder, file=interpreter.stdin, flush=True)
    answer = interpreter.stdout.readline().strip() if interpreter.stdout else ""
    assert answer == "loaded", answer
    assert_same(trial, trial.model_class.from_pretrained(trial.folder / "again"), model)
    saved = (load_file(folder / "model.safetensors") for folder in (trial.folder, trial.folder / "again"))
    assert len({frozenset(weights) for weights in saved}) == 1
    assert type(AutoModel.from_pretrained(trial.folder)).config_class is trial.model_class.config_class


@cache
def _interpreter_without_msattn() -> subprocess.Popen:
    """It ends with this process, which closes its standard input."""
    return subprocess.Popen(
        [sys.executable, "-c", WITHOUT_MSATTN],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def checkpoints_activations(trial: Trial) -> None:
    plain, checkpointed = trial.model().train(), trial.model().train()
    checkpointed.gradient_checkpointing_enable()
    torch.testing.assert_close(*(trial.gradients(model, model.parameters()) for model in (plain, checkpointed)))


def runs_in_bfloat16(trial: Trial) -> None:
    model = trial.model()
    model.save_pretrained(trial.folder)
    half = trial.model_class.from_pretrained(trial.folder, dtype=torch.bfloat16)
    exact, found = trial.result(model), trial.result(half)
    assert found.dtype == torch.bfloat16
    real = exact > -1e4
    assert (found - exact)[real].abs().mean() < 0.2 * exact[real].std()


def compiles(trial: Trial) -> None:
    """To one graph, forward and backward."""
    torch.compiler.reset()  # families share our code, and PyTorch gives up after so many versions of it
    model = trial.model()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(*(trial.gradients(call, model.parameters()) for call in (model, compiled)), **TOLERANCE)


def is_spread_over_devices(trial: Trial) -> None:
    model = trial.model()
    model.save_pretrained(trial.folder)
    spread = trial.model_class.from_pretrained(trial.folder, device_map="auto")
    torch.testing.assert_close(trial.result(spread).cpu(), trial.result(model), **TOLERANCE)


def assert_same(trial: Trial, found: PreTrainedModel, expected: PreTrainedModel) -> None:
    weights = found.state_dict()
    for name, weight in expected.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    torch.testing.assert_close(trial.result(found), trial.result(expected), **TOLERANCE)


CHECKS: dict[str, Callable[[Trial], None]] = {
    "loss and gradients": trains,
    "padding on either side": ignores_padding,
    "save and reload": saves,
    "Hub, without msattn and back": loads_from_the_hub,
    "gradient checkpointing": checkpoints_activations,
    "bfloat16": runs_in_bfloat16,
    "`torch.compile`": compiles,
    '`device_map="auto"`': is_spread_over_devices,
}


def family_table(
    models: Iterable[tuple[type[PreTrainedModel], Mapping[str, Any]]],
    families: Iterable[str],
    checks: Mapping[str, Callable[[Trial], None]] = CHECKS,
) -> str:
    """
    A table in Markdown: a row a family, a column a check. What fails is numbered, with the reason below.

    Args:
        models (`Iterable[tuple[type, Mapping]]`): Model classes, all of which have to pass, and their options.
        families (`Iterable[str]`): Families among `FAMILIES`.
        checks (`Mapping[str, Callable]`, *optional*): Functions of a [`Trial`] that raise an error if it fails.

    Returns:
        `str`: The table.
    """
    reasons: list[str] = []
    rows = []
    for family in families:
        cells = [family]
        for check in checks.values():
            reason = next(filter(None, (_tried(check, family, *model) for model in models)), None)
            if reason is not None and reason not in reasons:
                reasons.append(reason)
            cells.append("yes" if reason is None else f"no ({reasons.index(reason) + 1})")
        rows.append(cells)
    notes = "".join(f"\n\n({number}) {reason}" for number, reason in enumerate(reasons, start=1))
    return markdown_table(["family", *checks], rows) + notes


def _tried(
    check: Callable[[Trial], None], family: str, model_class: type[PreTrainedModel], options: Mapping[str, Any]
) -> str | None:
    """Why a check fails; `None` if it does not."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(Trial(family, model_class, options, Path(folder)))
        except Exception as error:  # whatever it is, the table is to name it
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return lines[-1]
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    args = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for title, models in MODELS.items():
        print(f"{title.capitalize()}:\n\n{family_table(models, args.families)}\n")


if __name__ == "__main__":
    main()
