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
        rates: recorded/semeval_rates.csv  # the grid from which those of A and B were chosen alike; or that none were
        use: the layer for relations   # what to use where it holds
        else: entity starts            # and otherwise

In a table without answers, `columns` hold the score of each seed; `examples` are those of the test data, which bound
their error (times `factor`, where a score spreads more than a share).
"""

from __future__ import annotations

import argparse
import csv
from fnmatch import fnmatch
from functools import cache
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
    """A claim, the scores of both settings, their difference in common seeds, and what follows."""

    name: str
    family: str
    claim: dict[str, Any]
    scores: tuple[float, float]
    difference: Difference
    word: str
    reason: str

    @property
    def interval(self) -> str:
        """The difference and its interval."""
        mean, half = self.difference.mean, self.difference.half_width()
        return f"{signed(mean)} [{signed(mean - half)}, {signed(mean + half)}]"


def signed(value: float) -> str:
    """With a sign and one digit."""
    text = f"{value:+.1f}"
    return text.replace("-", "−") if float(text) else "0.0"


def by_seed(folder: Path, claim: dict[str, Any]) -> tuple[tuple[float, float], Difference]:
    """Both scores and the difference, from tables of scores by seed."""
    a, b = (recorded(folder, claim, side) for side in "ab")
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"{claim['short']}: A and B need two common seeds")
    scores = float(np.mean(a)), float(np.mean(b))
    bound = example_bound(scores, claim["examples"]) * claim.get("factor", 1)
    return scores, of_seeds(np.subtract(a, b).tolist(), bound)


def recorded(folder: Path, claim: dict[str, Any], side: str) -> list[float]:
    """The scores of a setting by seed, from the row of a table: a column a seed, or "84.3, 84.9" in one."""
    file, setting = claim[side]
    with open(folder / file, encoding="utf-8", newline="") as opened:
        row = next(row for row in csv.DictReader(opened) if setting in row.values())
    return [float(value) for column in claim["columns"] for value in row[column].split(", ")]


def by_example(folder: Path, claim: dict[str, Any]) -> tuple[tuple[float, float], Difference]:
    """Both scores and the difference, from the answers to each example in common seeds."""
    a, b = (answers(folder / claim[side][0], claim[side][1]) for side in "ab")
    seeds = [seed for seed in a if seed in b]
    if len(seeds) < 2:
        raise ValueError(f"{claim['short']}: A and B need two common seeds")
    if any(a[seed][0] != b[seed][0] for seed in seeds):
        raise ValueError(f"{claim['short']}: A and B have other examples")
    found = [[score(claim["metric"], *side[seed]) for side in (a, b)] for seed in seeds]
    scores = tuple(float(np.mean([pair[place][0] for pair in found])) for place in (0, 1))
    return scores, of_examples(np.array([one[1] - other[1] for one, other in found]))


kept = cache(read_scores)


def answers(path: Path, setting: str) -> dict[str, tuple[list[str], list[str]]]:
    """True and given answers by seed. A pattern, such as "small/*" or "*", joins the settings, such as domains."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for name, (gold, given) in kept(path).items():
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
    """The verdicts of a family, whose claims Holm's correction joins."""
    read = {n: (by_seed if c["metric"] == "by seed" else by_example)(folder, c) for n, c in claims.items()}
    tests = holm([read[name][1].p_value(claim.get("margin", 0)) for name, claim in claims.items()])
    # Of a claim with a margin, "no difference" is not asked.
    bounds = {n: read[n][1].p_equivalence(claim["same"]) for n, claim in claims.items() if not claim.get("margin")}
    equal = dict(zip(bounds, holm([*bounds.values()]), strict=True))
    found = []
    for (name, claim), test in zip(claims.items(), tests, strict=True):
        scores, difference = read[name]
        chosen = word(claim, difference, test, equal.get(name, 1.0))
        apart = abs(difference.mean - claim.get("margin", 0)) > difference.half_width()
        reason = f"p = {test:.2g} after Holm" if chosen == UNKNOWN and apart else ""
        found.append(Verdict(f"{folder.name}-{name}", family, claim, scores, difference, chosen, reason))
    return found


def word(claim: dict[str, Any], difference: Difference, test: float, equal: float) -> str:
    """The verdict from the corrected p-values of the test and of the two one-sided tests."""
    if test < LEVEL:
        return HOLDS if difference.mean > claim.get("margin", 0) else FAILS
    return SAME if equal < LEVEL else UNKNOWN


def table(found: list[Verdict]) -> str:
    """The tables of the README, one for each family."""
    parts = []
    for family, group in groupby(found, lambda one: one.family):
        own, rows, last = [*group], [], ""
        for one in own:
            claim, before, last = one.claim, last, f"{one.claim['where']}: {one.claim['says']}"
            rows.append(
                [
                    f'<a id="{one.name}"></a>{"the same" if before == last else last}',
                    claim["here"],
                    one.interval,
                    one.difference.seeds,
                    f"{one.difference.detects():.1f}",
                    f"**{one.word}**" + (f": {one.reason}" if one.reason else ""),
                    claim["use" if one.word == HOLDS else "else"],
                ]
            )
        header = ["the paper", "here", "A − B [95 %]", "seeds", "detects", "verdict", "use"]
        title = f"### [{family}]({own[0].name.partition('-')[0]}/README.md)"
        parts.append(f"{title}\n\n{markdown_table(header, rows)}\n")
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
