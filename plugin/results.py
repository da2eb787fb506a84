"""What runs leave behind as numbers: over several seeds, and at the points of a study."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from msattn.errors import UserError

# Of the domains of MTL-16.
TEST_ACCURACY = ("test_accuracy", "test_accuracy_std")
ACCURACIES = ("eval_accuracy", "test_accuracy", "test_unseen_accuracy")


def summarize(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean of every number over the runs, and, as `*_std`, its sample standard deviation."""
    summary = {}
    for name in runs[0]:
        values = [run[name] for run in runs if isinstance(run.get(name), (int, float))]
        if len(values) == len(runs):
            summary[name] = statistics.fmean(values)
            summary[f"{name}_std"] = statistics.stdev(values) if len(values) > 1 else 0.0
    return summary


def score_names(results: Mapping[str, float]) -> list[str]:
    """The names of the scores; timings, counts and standard deviations are left out."""
    return [
        name
        for name in results
        if name.startswith(("eval_", "dev_", "test_"))
        and not name.endswith(("_std", "_runtime", "_samples", "_per_second", "_model_preparation_time"))
        and name != "eval_epoch"
    ]


def common_score(scores: Sequence[Collection[str]], wanted: str | None = None) -> str:
    """
    The score to show, of those that all have: the first, which is not a loss if possible.

    Args:
        scores (`Sequence[Collection[str]]`): The names of each one's scores.
        wanted (`str`, *optional*): This one.

    Raises:
        UserError: There is none, or not the one that is wanted.
    """
    common = [name for name in scores[0] if all(name in others for others in scores)]
    if not common:
        raise UserError("the runs have no score in common.")
    if wanted is None:
        return next((name for name in common if not name.endswith("_loss")), common[0])
    if wanted not in common:
        raise UserError(f"metric: the scores that all have are {', '.join(common)}; there is no {wanted}.")
    return wanted


def seed_table(runs: Mapping[int, Mapping[str, float]]) -> str:
    """A Markdown table of the scores: a row a seed, then mean and standard deviation."""
    summary = summarize(list(runs.values()))
    names = score_names(summary)
    rows: list[Sequence[Any]] = [(seed, *(f"{run[name]:.4g}" for name in names)) for seed, run in runs.items()]
    rows.append(("mean", *(f"{summary[name]:.4g}" for name in names)))
    rows.append(("std", *(f"{summary[f'{name}_std']:.2g}" for name in names)))
    return markdown_table(("seed", *names), rows)


@dataclass
class Study:
    """
    What an experiment came to at several points.

    Args:
        variable (`str`): What the points differ in, `"train_fraction"` or `"guided_layer"`.
        points (`list[dict[str, float]]`):
            The value of the variable and the metrics of the runs there; over several seeds their means, with their
            standard deviations as `*_std`.
    """

    variable: str
    points: list[dict[str, Any]] = field(default_factory=list)

    stem: ClassVar[str] = "study"
    # The folder of a point is named after its value.
    folders: ClassVar[dict[str, str]] = {"train_fraction": "fraction-", "guided_layer": "layer-"}

    @classmethod
    def from_folder(cls, folder: str | Path) -> Study:
        """
        Reads `study.json`.

        Raises:
            UserError: There is none in the folder, or another file of this name.
        """
        path = Path(folder) / f"{cls.stem}.json"
        content = read_json(path)
        variable, points = content.get("variable"), content.get("points")
        if variable not in cls.folders or not points or not all(variable in point for point in points):
            raise UserError(f"{path}: the file does not hold a study.")
        return cls(variable, points)

    def after_epoch(self, folder: str | Path, epoch: int) -> Study:
        """
        The study as its runs logged it after an epoch, with `--eval_strategy epoch`.

        Args:
            folder (`str` or `Path`): The folder of the study.
            epoch (`int`): From 1.

        Raises:
            UserError: A run has no scores of that epoch.
        """
        points = []
        for point in self.points:
            place = Path(folder) / self.point_folder(point[self.variable])
            of_seeds = sorted(place.glob("seed-*/trainer_state.json"))
            runs = [_logged(path, epoch) for path in of_seeds or [place / "trainer_state.json"]]
            fixed = {name: point[name] for name in (self.variable, "train_samples") if name in point}
            points.append({**(summarize(runs) if of_seeds else runs[0]), **fixed})
        return type(self)(self.variable, points)

    def point_folder(self, value: Any) -> str:
        """The name of the folder of a point, inside that of the study."""
        return f"{self.folders[self.variable]}{value}"

    def to_dict(self) -> dict[str, Any]:
        """What `study.json` holds."""
        return asdict(self)

    @property
    def scores(self) -> list[str]:
        """The names of the scores that every point has."""
        return [name for name in score_names(self.points[0]) if all(name in point for point in self.points)]

    def table(self) -> str:
        """A Markdown table: a row a point, and mean ± standard deviation where there are several seeds."""
        counts = ["train_samples"] if self.variable == "train_fraction" else []
        header = [self.variable, *counts, *self.scores]
        return markdown_table(header, [[_cell(point, name) for name in header] for point in self.points])


@dataclass
class DomainStudy(Study):
    """What an experiment came to in the domains of MTL-16."""

    variable: str = "domain"

    stem = "mtl16"
    folders = {"domain": ""}

    def average(self) -> dict[str, float]:
        """
        The mean accuracy on each set that all domains have and, over several seeds, its standard deviation: that of a
        mean of independent numbers, for each domain draws weights of its own.

        `test_unseen` is the test without reviews that the training data have. Where it is missing, there are none.
        """
        rows = [_accuracies(point) for point in self.points]
        average = {}
        for name in ACCURACIES:
            if all(name in row for row in rows):
                average[name] = statistics.fmean(row[name] for row in rows)
                if all(f"{name}_std" in row for row in rows):
                    average[f"{name}_std"] = math.hypot(*(row[f"{name}_std"] for row in rows)) / len(rows)
        return average

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "average": self.average()}

    def table(self) -> str:
        """A Markdown table of accuracies in per cent: a row a domain, and the average."""
        average = self.average()
        names = [name for name in ACCURACIES if name in average]
        rows = [
            [title, *(_percent(values[name], values.get(f"{name}_std")) for name in names)]
            for title, values in [
                *((point["domain"], _accuracies(point)) for point in self.points),
                (f"average of {len(self.points)}", average),
            ]
        ]
        return markdown_table(["domain", *names], rows)


def _logged(path: Path, epoch: int) -> dict[str, float]:
    """The scores that a run logged after an epoch."""
    for entry in read_json(path).get("log_history", ()):
        if entry.get("epoch") == epoch and "eval_runtime" in entry:
            return entry
    raise UserError(f"{path}: the run logged no scores after epoch {epoch}; it needs --eval_strategy epoch.")


def _accuracies(point: Mapping[str, float]) -> Mapping[str, float]:
    if "test_unseen_accuracy" in point:
        return point
    return {**point, **{name.replace("test", "test_unseen"): point[name] for name in TEST_ACCURACY if name in point}}


def _percent(accuracy: float, spread: float | None) -> str:
    return f"{100 * accuracy:.2f}" + ("" if spread is None else f" ± {100 * spread:.2f}")


def _cell(point: Mapping[str, float], name: str) -> str:
    if name not in score_names(point):
        return f"{point[name]:.0f}" if name == "train_samples" else str(point[name])
    spread = point.get(f"{name}_std")
    return f"{point[name]:.4g}" + ("" if spread is None else f" ± {spread:.2g}")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write_json(path: Path, content: Mapping) -> None:
    """Writes a JSON file, and the folder that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """
    Reads a JSON file that a run has left.

    Raises:
        UserError: There is no such file, or another one of this name.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{path}: there is no such file; the folder has to be that of a finished run.") from None
    except ValueError as error:
        raise UserError(f"{path}: the file cannot be read ({error}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected an object, as runs write it.")
    return content
