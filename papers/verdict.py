"""
A verdict for every claim: reads `papers/*/claims.yaml` and the recorded scores, writes `papers/README.md` and a plot.

    title: Multi-scale fusion          # of the family; Holm corrects for its claims
    claims:
      semeval:                         # a name; with that of the folder the anchor in the README
        where: Table 1
        says: BERT-MS 88.9, BERT-Entity 88.3
        here: SemEval-2010 Task 8, F1: the best variant against entity starts
        a: [recorded/semeval.csv.gz, multiscale]       # kept by papers/repeat.py; or a row of another table
        b: [recorded/semeval.csv.gz, entity-start]
        metric: macro-F1               # papers/scores.py; "by seed" for a table without answers to each example
        margin: 0                      # A beats B by more than this
        same: 0.6                      # a smaller difference is none
        rates: tuned                   # how they were chosen: tuned (A and B alike), or why that is not so
        use: the layer for relations   # where it holds; otherwise take what `else` names

In a table without answers, `columns` hold the score of each seed, or "mean ± deviation" of `seeds` seeds; `examples`
are those of the test data, which bound their error (times `factor`, where a score spreads more than a share).
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from forest import draw
from intervals import LEVEL, Difference, example_bound, holm, of_examples, of_seeds
from scores import read_scores, score

from msattn.plots.style import markdown_table

ROOT = Path(__file__).parent
START, END = "<!-- begin of the verdicts: make verdicts writes them -->\n", "<!-- end of the verdicts -->\n"
HOLDS, FAILS, SAME, UNKNOWN = "HOLDS", "FAILS", "NO DIFFERENCE", "CANNOT TELL"


class Verdict(NamedTuple):
    """A claim, the scores of both settings, their difference if it has an interval, and what follows."""

    name: str
    family: str
    claim: dict[str, Any]
    scores: tuple[float, float]
    difference: Difference | None
    word: str
    reason: str

    @property
    def lead(self) -> float:
        """The difference, of common seeds."""
        return self.difference.mean if self.difference else self.scores[0] - self.scores[1]

    @property
    def interval(self) -> str:
        """The difference and its interval."""
        if self.difference is None:
            return signed(self.lead)
        half = self.difference.half_width()
        return f"{signed(self.lead)} [{signed(self.lead - half)}, {signed(self.lead + half)}]"


def signed(value: float) -> str:
    """With a sign and one digit."""
    text = f"{value:+.1f}"
    return text.replace("-", "−") if float(text) else "0.0"


def numbers(cell: str) -> tuple[list[float], float | None]:
    """The scores of a cell and their deviation: "84.3", "84.3, 84.9", "84.3 ± 0.2", "80.1 ± 0.2 / 75.6 ± 0.2"."""
    first = cell.split(" / ")[0].split(" (")[0].replace("−", "-")
    values = [float(number) for number in re.findall(r"-?\d+\.?\d*", first)]
    return ([values[0]], values[1]) if "±" in first else (values, None)


def recorded(folder: Path, claim: dict[str, Any], side: str) -> tuple[list[float], float | None]:
    """The scores of a setting by seed, or their mean and deviation, from a table."""
    file, row = claim[side]
    with open(folder / file, encoding="utf-8", newline="") as opened:
        header, *rows = csv.reader(opened)
    start = row if isinstance(row, list) else [row]
    cells = next(cells for cells in rows if cells[: len(start)] == start)
    wanted = claim.get(f"columns_{side}", claim.get("columns"))
    found = [numbers(cells[header.index(str(name))]) for name in wanted if cells[header.index(str(name))]]
    return [value for values, _ in found for value in values], found[0][1]


def by_seed(folder: Path, claim: dict[str, Any]) -> tuple[tuple[float, float], Difference | None]:
    """Both scores and the difference, from tables of scores by seed."""
    (a, spread_a), (b, spread_b) = (recorded(folder, claim, side) for side in "ab")
    common = min(len(a), len(b))
    differences = np.subtract(a[:common], b[:common])
    scores = float(np.mean(a[:common])), float(np.mean(b[:common]))
    bound = example_bound(scores, claim["examples"]) * claim.get("factor", 1)
    if spread_a is not None and spread_b is not None:
        error = float(np.hypot(spread_a, spread_b)) / claim["seeds"] ** 0.5
        return scores, Difference(scores[0] - scores[1], claim["seeds"], error, bound)
    return scores, of_seeds(differences.tolist(), bound) if common > 1 else None


def by_example(folder: Path, claim: dict[str, Any]) -> tuple[tuple[float, float], Difference | None]:
    """Both scores and the difference, from the answers to each example in common seeds."""
    a, b = (answers(folder / claim[side][0], claim[side][1]) for side in "ab")
    seeds = [seed for seed in a if seed in b]
    if any(a[seed][0] != b[seed][0] for seed in seeds):
        raise ValueError(f"{claim['short']}: A and B have other examples")
    found = [[score(claim["metric"], *side[seed]) for side in (a, b)] for seed in seeds]
    scores = tuple(float(np.mean([pair[place][0] for pair in found])) for place in (0, 1))
    if len(seeds) < 2:
        return scores, None
    return scores, of_examples(np.array([one[1] - other[1] for one, other in found]))


def answers(path: Path, setting: str) -> dict[str, tuple[list[str], list[str]]]:
    """True and given answers by seed. A pattern, such as "small/*" or "*", joins the settings, such as domains."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for name, (gold, given) in read_scores(path).items():
        place, _, seed = name.rpartition("/")
        if fnmatch(place, setting):
            before = found.get(seed, ([], []))
            found[seed] = before[0] + gold, before[1] + given
    return found


def verdicts(root: Path) -> list[Verdict]:
    """Those of all families, in the order of the files and the claims."""
    found = []
    for path in sorted(root.glob("*/claims.yaml")):
        family = yaml.safe_load(path.read_text(encoding="utf-8"))
        found += judged(path.parent, family["title"], family["claims"])
    return found


def judged(folder: Path, family: str, claims: dict[str, dict[str, Any]]) -> list[Verdict]:
    """The verdicts of a family. Only claims that could hold enter Holm's correction."""
    read = {n: (by_seed if c["metric"] == "by seed" else by_example)(folder, c) for n, c in claims.items()}
    reasons = {name: why_not(claim, read[name][1]) for name, claim in claims.items()}
    able = [name for name in claims if not reasons[name]]
    tests = holm([read[name][1].p_value(claims[name].get("margin", 0)) for name in able])
    equal = holm([read[name][1].p_equivalence(claims[name]["same"]) for name in able])
    words = {name: word(claims[name], read[name][1], *ps) for name, *ps in zip(able, tests, equal, strict=True)}
    for name, p in zip(able, tests, strict=True):
        difference = read[name][1]
        if words[name] == UNKNOWN and abs(difference.mean - claims[name].get("margin", 0)) > difference.half_width():
            reasons[name] = f"p = {p:.2g} after Holm"
    return [
        Verdict(f"{folder.name}-{name}", family, claim, *read[name], words.get(name, UNKNOWN), reasons[name])
        for name, claim in claims.items()
    ]


def why_not(claim: dict[str, Any], difference: Difference | None) -> str:
    """Why runs cannot decide a claim, whatever they show; empty if they can."""
    if difference is None:
        return "one seed"
    return "" if claim["rates"] == "tuned" else claim["rates"]


def word(claim: dict[str, Any], difference: Difference, test: float, equal: float) -> str:
    """The verdict from the corrected p-values of the test and of the two one-sided tests."""
    if test < LEVEL:
        return HOLDS if difference.mean > claim.get("margin", 0) else FAILS
    return SAME if equal < LEVEL else UNKNOWN


def advice(found: Sequence[Verdict]) -> str:
    """What to take: A where it holds, and what is simpler for the rest."""
    uses = dict.fromkeys(one.claim["use"] for one in found if one.word == HOLDS)
    simpler = dict.fromkeys(one.claim["else"] for one in found if one.word != HOLDS)
    parts = [f"**Use** {'; '.join(uses)}."] if uses else []
    parts += [f"**{'Elsewhere, use' if uses else 'Use'} the simpler**: {', '.join(simpler)}."] if simpler else []
    return " ".join(parts)


def table(found: list[Verdict]) -> str:
    """The tables of the README, one for each family."""
    parts = []
    for family, group in groupby(found, lambda one: one.family):
        own, rows, last = [*group], [], ""
        for one in own:
            claim, last = last, f"{one.claim['where']}: {one.claim['says']}"
            rows.append(
                [
                    f'<a id="{one.name}"></a>{"the same" if claim == last else last}',
                    one.claim["here"],
                    one.interval,
                    one.difference.seeds if one.difference else 1,
                    f"{one.difference.detects():.1f}" if one.difference else "",
                    f"**{one.word}**" + (f": {one.reason}" if one.reason and one.difference else ""),
                ]
            )
        header = ["the paper", "here", "A − B [95 %]", "seeds", "detects", "verdict"]
        title = f"### [{family}]({own[0].name.partition('-')[0]}/README.md)"
        parts.append(f"{title}\n\n{markdown_table(header, rows)}\n\n{advice(own)}\n")
    return "\n".join(parts)


def write_readme(path: Path, found: list[Verdict]) -> None:
    """Replaces what is between both marks."""
    text = path.read_text(encoding="utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    path.write_text(f"{before}{START}\n{table(found)}\n{END}{after}", encoding="utf-8")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the papers")
    args = parser.parse_args(argv)
    found = verdicts(args.root)
    write_readme(args.root / "README.md", found)
    draw(args.root / "verdicts.svg", found)


if __name__ == "__main__":
    main()
