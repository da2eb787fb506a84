"""Links between the documents, in README.md, docs/ and the notebooks. Those that lead out are not fetched."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATTERNS = ("*.md", "docs/**/*.md", "papers/**/*.md", "notebooks/*.ipynb")
DOCUMENTS = [path.relative_to(ROOT) for pattern in PATTERNS for path in ROOT.glob(pattern)]
# Files of papers/ that the site has (docs/site/pages.py).
ON_SITE = (".md", ".csv", ".gz", ".png", ".svg")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def text_of(path: Path) -> str:
    """The Markdown of a file, without its code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return CODE.sub("", text)


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them, and those that a table names."""
    found = set(re.findall(r'<a id="([^"]+)"></a>', text_of(path)))
    for heading in re.findall(r"^#+ (.+)$", text_of(path), flags=re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        found.add(next(name for n in range(99) if (name := anchor if n == 0 else f"{anchor}-{n}") not in found))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document):
    broken = []
    for link in re.findall(r"(?<!`)\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text_of(ROOT / document))):
        if re.match(r"https?://[\w.-]+\.\w+(/|$)", link):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / document.parent / name) if name else ROOT / document
        on_site = target.suffix in ON_SITE or not target.resolve().is_relative_to(ROOT / "papers")
        if not (target.is_file() and on_site) or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken
