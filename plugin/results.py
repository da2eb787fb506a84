"""Results of runs: means over seeds, tables, and studies."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from msattn.errors import UserError
from msattn.writing import write_whole

# Scores of the MTL-16 domains.
TEST_ACCURACY = ("test_accuracy", "test_accuracy_std")
ACCURACIES = ("eval_accuracy", "test_accuracy", "test_unseen_accuracy")


def summarize(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """
    Averages the metrics of several runs.

    Args:
        runs (`Sequence[Mapping[str, float]]`): The metrics of each run. Metrics that some runs lack are dropped.

    Returns:
        `dict[str, float]`: The means, and the sample standard deviations as `*_std` (0 for a single run).
    """
    summary = {}
    for name in runs[0]:
        values = [run[name] for run in runs if isinstance(run.get(name), (int, float))]
        if len(values) == len(runs):
            summary[name] = statistics.fmean(values)
            summary[f"{name}_std"] = statistics.stdev(values) if len(values) > 1 else 0.0
    return summary


def score_names(results: Mapping[str, float]) -> list[str]:
    """The names of the scores among metrics, without timings, counts and standard deviations."""
    return [
        name
        for name in results
        if name.startswith(("eval_", "dev_", "test_"))
        and not name.endswith(("_std", "_runtime", "_samples", "_per_second", "_model_preparation_time"))
        and name != "eval_epoch"
    ]


def common_score(scores: Sequence[Collection[str]], wanted: str | None = None) -> str:
    """
    Selects a score that all runs have.

    Args:
        scores (`Sequence[Collection[str]]`): The names of the scores of each run.
        wanted (`str`, *optional*): The score to select. Default: the first common one, preferably not a loss.

    Raises:
        UserError: The runs have no score in common, or some lack `wanted`.
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
    """
    A Markdown table of scores, with one row per seed, the mean and the standard deviation.

    Args:
        runs (`Mapping[int, Mapping[str, float]]`): The metrics by seed.
    """
    summary = summarize(list(runs.values()))
    names = score_names(summary)
    rows: list[Sequence[Any]] = [(seed, *(f"{run[name]:.4g}" for name in names)) for seed, run in runs.items()]
    rows.append(("mean", *(f"{summary[name]:.4g}" for name in names)))
    rows.append(("std", *(f"{summary[f'{name}_std']:.2g}" for name in names)))
    return markdown_table(("seed", *names), rows)


@dataclass
class Study:
    """
    The results of a study: an experiment at several values of a variable.

    Args:
        variable (`str`): The variable, `"train_fraction"`, `"guided_layer"` or `"guiding_dose"`.
        points (`list[dict[str, Any]]`, *optional*, defaults to `[]`):
            The value of the variable and the metrics of each point. Over several seeds, metrics are means, with their
            sample standard deviations as `*_std`.
    """

    variable: str
    points: list[dict[str, Any]] = field(default_factory=list)

    stem: ClassVar[str] = "study"
    # Prefixes of the sub-folders of points, which end in the value.
    folders: ClassVar[dict[str, str]] = {
        "train_fraction": "fraction-",
        "guided_layer": "layer-",
        "guiding_dose": "dose-",
    }

    @classmethod
    def from_folder(cls, folder: str | Path) -> Study:
        """
        Reads the results of a study from its folder.

        Args:
            folder (`str` or `Path`): The `--output_dir` of the study.

        Raises:
            UserError: The JSON file of the study is missing, cannot be read or does not hold a study.
        """
        path = Path(folder) / f"{cls.stem}.json"
        content = read_json(path)
        variable, points = content.get("variable"), content.get("points")
        if variable not in cls.folders or not points or not all(variable in point for point in points):
            raise UserError(f"{path}: the file does not hold a study.")
        return cls(variable, points)

    def after_epoch(self, folder: str | Path, epoch: int) -> Study:
        """
        The results after an epoch, from the logs of runs with `--eval_strategy epoch`.

        Args:
            folder (`str` or `Path`): The `--output_dir` of the study.
            epoch (`int`): The epoch, from 1.

        Raises:
            UserError: The log of a run is missing or has no scores for this epoch.
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
        """The name of the sub-folder of a point."""
        return f"{self.folders[self.variable]}{value}"

    def to_dict(self) -> dict[str, Any]:
        """The content of `study.json`."""
        return asdict(self)

    @property
    def scores(self) -> list[str]:
        """The names of the scores that every point has."""
        return [name for name in score_names(self.points[0]) if all(name in point for point in self.points)]

    def table(self) -> str:
        """A Markdown table with one row per point; over several seeds, mean ± standard deviation."""
        counts = ["train_samples"] if self.variable == "train_fraction" else []
        header = [self.variable, *counts, *self.scores]
        return markdown_table(header, [[_cell(point, name) for name in header] for point in self.points])


@dataclass
class DomainStudy(Study):
    """The results of an experiment in the domains of MTL-16."""

    variable: str = "domain"

    stem = "mtl16"
    folders = {"domain": ""}

    def average(self) -> dict[str, float]:
        """
        The mean accuracies over the domains, for each set that all domains have.

        Over several seeds, `*_std` is the standard deviation of the mean, with the domains as independent:
        sqrt(Σ std²) / domains. If a domain has no `test_unseen` accuracy, no test review occurs in its training data,
        and its `test` accuracy is used.
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
        """A Markdown table of accuracies in percent, with one row per domain and the average."""
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
    """
    Formats a Markdown table.

    Args:
        header (`Sequence[str]`): The column names.
        rows (`Sequence[Sequence[Any]]`): The cells of each row.
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write_json(path: Path, content: Mapping) -> None:
    """
    Writes a JSON file, and creates its folder if needed.

    Args:
        path (`Path`): The file to write.
        content (`Mapping`): The JSON object.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """
    Reads a JSON file of a finished run.

    Args:
        path (`Path`): The file.

    Raises:
        UserError: The file does not exist, is not JSON or does not hold an object.
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
