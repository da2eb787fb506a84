"""`papers/verdict.py`: verdicts of simulated runs, and the README that follows from the recorded scores."""

from __future__ import annotations

import csv
import re
import shutil

import numpy as np
import pytest
import verdict
import yaml
from scores import write_scores

RECORDED = verdict.ROOT / "verdicts.svg"
DRAWN = re.compile(r'>([^<\n]+)</text>|d="([^"]*)"[^>]*stroke-width: 1\.6')
README = f"before\n{verdict.START}old\n{verdict.END}after\n"
CLAIM = {
    "short": "claim",
    "where": "Table 1",
    "says": "A beats B",
    "here": "data",
    "a": ["runs.csv.gz", "a"],
    "b": ["runs.csv.gz", "b"],
    "metric": "accuracy",
    "same": 1,
    "rates": "none",
    "use": "it pays",
    "else": "B",
}


# Claims whose rates are from a grid of other settings, or from a table that names them in another way.
OTHER_NAMES = {
    "mtl16",
    "mtl16-lstm",
    "mtl16-one-scale",
    "best-tree",
    "best-tree-mpnet",
    "other-treebank",
    "other-treebank-back",
}


def simulated(folder, shares: dict[str, float], seeds: int = 5, examples: int = 2000) -> None:
    """Answers that are right with a probability; those of different settings to one example go together."""
    draw = np.random.default_rng(0)
    hard = draw.random(examples)
    runs = []
    for setting, share in shares.items():
        for seed in range(seeds):
            right = hard + 0.02 * draw.standard_normal(examples) < share
            runs.append((f"{setting}/seed-{seed}", "data", [("yes", "yes" if one else "no") for one in right]))
    write_scores(folder / "runs.csv.gz", runs)


def judge(folder, **changes) -> verdict.Verdict:
    return verdict.judged(folder, "family", {"claim": CLAIM | changes})[0]


@pytest.mark.parametrize(
    ("share", "changes", "word"),
    [
        (0.85, {}, verdict.HOLDS),
        (0.85, {"margin": 4.9}, verdict.UNKNOWN),
        (0.75, {}, verdict.FAILS),
        (0.80, {}, verdict.SAME),
        (0.80, {"same": 0.05}, verdict.UNKNOWN),
        (0.80, {"margin": 0.3}, verdict.UNKNOWN),
    ],
)
def test_words(tmp_path, share, changes, word):
    simulated(tmp_path, {"a": share, "b": 0.8})
    found = judge(tmp_path, **changes)
    assert (found.word, found.reason) == (word, "")
    assert found.difference.mean == pytest.approx(100 * (share - 0.8), abs=1)


def test_one_seed_is_refused(tmp_path):
    simulated(tmp_path, {"a": 0.9, "b": 0.8}, seeds=1)
    with pytest.raises(ValueError, match="claim: A and B need two common seeds"):
        judge(tmp_path)


def test_both_sides_of_a_claim_tried_the_same_rates():
    for path in sorted(verdict.ROOT.glob("*/claims.yaml")):
        for name, claim in yaml.safe_load(path.read_text(encoding="utf-8"))["claims"].items():
            if claim["rates"] in ("compared", "none"):
                continue
            with open(path.parent / claim["rates"], encoding="utf-8", newline="") as file:
                rows = [row.get("setting", "").partition("/") for row in csv.DictReader(file)]
            tried = [{point for setting, _, point in rows if setting == claim[side][1]} for side in "ab"]
            assert tried[0] == tried[1] and (name in OTHER_NAMES or tried[0]), name


def test_settings_are_pooled_by_a_pattern(tmp_path):
    simulated(tmp_path, {"a/books": 0.9, "a/music": 0.8, "b/books": 0.8, "b/music": 0.8})
    found = judge(tmp_path, a=["runs.csv.gz", "a/*"], b=["runs.csv.gz", "b/*"])
    assert found.scores == pytest.approx((85, 80), abs=1)
    with pytest.raises(ValueError, match="claim: A and B have other examples"):
        judge(tmp_path, a=["runs.csv.gz", "a/*"], b=["runs.csv.gz", "b/books"])


def test_a_family_is_corrected(tmp_path):
    # One p-value of some 0.03 among claims that show nothing.
    (tmp_path / "table.csv").write_text('setting,scores\na,"80.3, 80.1, 80.5, 79.9, 80.4"\nb,"80.0, 80, 80, 80, 80"\n')
    claim = CLAIM | {"a": ["table.csv", "a"], "b": ["table.csv", "b"], "columns": ["scores"], "metric": "by seed"}
    claim |= {"examples": 10**9, "same": 0.01}
    null = claim | {"a": ["table.csv", "b"], "same": 1e-6}
    words = [one.word for one in verdict.judged(tmp_path, "family", {"one": claim})]
    assert words == [verdict.UNKNOWN if judge(tmp_path, **claim).difference.p_value(0) > 0.05 else verdict.HOLDS]
    assert verdict.judged(tmp_path, "family", {"one": claim, **{str(n): null for n in range(20)}})[0].word == (
        verdict.UNKNOWN
    )


def test_claims_with_a_margin_do_not_correct_equivalence(tmp_path):
    simulated(tmp_path, {"a": 0.8, "b": 0.8})
    difference = judge(tmp_path).difference
    near = CLAIM | {"same": next(same for same in np.arange(0, 1, 0.001) if difference.p_equivalence(same) < 0.05)}
    leads = {str(number): near | {"margin": 1} for number in range(20)}
    assert verdict.judged(tmp_path, "family", {"one": near, **leads})[0].word == verdict.SAME


def test_the_readme_and_the_plot_follow_from_the_recorded_scores(tmp_path):
    papers = tmp_path / "papers"
    shutil.copytree(verdict.ROOT, papers, ignore=shutil.ignore_patterns("*.png", "*.py", "__pycache__"))
    before = (papers / "README.md").read_text(encoding="utf-8")
    verdict.main(["--root", str(papers)])
    assert (papers / "README.md").read_text(encoding="utf-8") == before, "make verdicts has to be called"
    # The recorded plot; other versions of matplotlib write other bytes around the texts and the intervals.
    drawn, known = (DRAWN.findall(path.read_text("utf-8")) for path in (papers / "verdicts.svg", RECORDED))
    assert drawn == known and len(drawn) > 100


def test_only_the_part_between_the_marks_is_written(tmp_path):
    (tmp_path / "family").mkdir()
    simulated(tmp_path / "family", {"a": 0.9, "b": 0.8})
    (tmp_path / "family" / "claims.yaml").write_text(yaml.safe_dump({"title": "Family", "claims": {"one": CLAIM}}))
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    verdict.main(["--root", str(tmp_path)])
    first = (tmp_path / "verdicts.svg").read_bytes()
    verdict.main(["--root", str(tmp_path)])
    assert (tmp_path / "verdicts.svg").read_bytes() == first
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "| **HOLDS** | it pays |\n" in text
    assert '<a id="family-one"></a>' in text and "old" not in text
