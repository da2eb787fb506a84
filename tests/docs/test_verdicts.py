"""What README, guides and the pages of papers say of a claim is what papers/README.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r'^\| <a id="([\w-]+)"></a>.*?\| ([+−0][^|]*?) \| (\d+) \|[^|]*\| \*\*([A-Z ]+)\*\*', re.MULTILINE)
TEXT = (ROOT / "papers/README.md").read_text(encoding="utf-8")
ROWS, VERDICTS = {}, {}
for row in ROW.finditer(TEXT):
    name, interval, seeds, word = row.groups()
    ROWS[name], VERDICTS[name] = row[0], (interval, seeds, word.lower())
FIGURE = re.compile(r"±|\d+\.\d+")
PATTERNS = ("README.md", "docs/*.md", "papers/*/README.md", "notebooks/*.ipynb")
PAGES = [path for pattern in PATTERNS for path in ROOT.glob(pattern)]
GUIDES = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
# A link to a verdict, and the text of the link.
LINK = re.compile(r"\[((?:[^][]|\[[^][]*\])+)\]\((?:\.\./)?(?:papers/|\.\./)?README\.md#([a-z_0-9]+-[\w-]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_contradicts_the_verdicts(page):
    for text, name in LINK.findall(page.read_text(encoding="utf-8")):
        if name not in VERDICTS:
            continue
        interval, seeds, word = VERDICTS[name]
        assert " ".join(text.split()) in (word, f"{interval}, {seeds} seeds, {word}"), f"{name}: {word}"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_no_guide_has_figures_of_its_own_beside_a_verdict(page):
    """They would outlive the runs: only figures of the verdict's row stand in its sentence."""
    for paragraph in re.split(r"\n\n|\n(?=[|-])", page.read_text(encoding="utf-8")):
        for sentence in re.split(r"(?<=[.:;|]) ", paragraph.replace("\n", " ")):
            rows = [ROWS[name] for _, name in LINK.findall(sentence) if name in ROWS]
            assert not rows or set(FIGURE.findall(LINK.sub("", sentence))) <= set(FIGURE.findall(" ".join(rows))), (
                sentence
            )


def test_each_method_of_the_readme_has_the_difference_of_a_verdict():
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("| measured effect |")[1].split("\n\n")[0]
    cells = [line.rsplit(" | ", 1)[1] for line in table.splitlines() if line.startswith("| **[")]
    assert len(cells) == 4
    for cell in cells:
        (text, name), *others = LINK.findall(cell)
        assert not others and text == "{}, {} seeds, {}".format(*VERDICTS[name])
        # One figure a cell: beside the link there is none but the paper's.
        assert set(FIGURE.findall(LINK.sub("", cell))) <= set(FIGURE.findall(ROWS[name]))


def test_every_row_is_read():
    assert len(VERDICTS) == TEXT.count('<a id="')
