"""A hook of MkDocs: the pages that are not in docs/, and a list of the links that lead out of the site."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
INDEX = "README.md"
PAPERS = tuple(str(path.relative_to(ROOT)) for path in (ROOT / "papers").glob("**/README.md"))
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", *PAPERS)
PICTURES = ("papers/**/*.png", "papers/**/*.svg")
COPIED = ("CITATION.cff", "LICENSE", *PICTURES, "papers/**/*.csv", "papers/**/*.csv.gz", "benchmarks/recorded/*.csv")
FILES = tuple(str(path.relative_to(ROOT)) for pattern in COPIED for path in ROOT.glob(pattern))
# To a file: a path without its anchor.
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)[^)\s#]+")
# Browsers break lines behind each of its dashes.
FLAG = re.compile(r"(?<![\w-])--?\w[\w-]*")
external_links: set[str] = set()


def site_path(path: str) -> str:
    """Where a file of the repository is in the site."""
    return "index.md" if path == INDEX else re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/"))


def notebook_page(path: Path) -> str:
    """The text, the code and the outputs of a notebook, as Markdown."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts += [source] if cell["cell_type"] == "markdown" else [f"```python\n{source}\n```"]
        parts += map(shown, cell.get("outputs", ()))
    return "\n\n".join(parts)


def shown(output: dict[str, Any]) -> str:
    """An output of a cell: a picture, or else its text. The files that frames show are not there."""
    data = {kind: "".join(lines) for kind, lines in output.get("data", {"text/plain": output.get("text", "")}).items()}
    if "image/svg+xml" in data:
        picture = b64encode(data["image/svg+xml"].encode("utf-8")).decode("ascii")
        return f'<img alt="The picture that the cell draws" src="data:image/svg+xml;base64,{picture}">'
    return "" if "<iframe" in data.get("text/html", "") else f"```text\n{data['text/plain'].rstrip()}\n```"


def on_files(files: Files, config: MkDocsConfig) -> None:
    for name in (INDEX, *PAGES):
        files.append(File.generated(config, site_path(name), content=(ROOT / name).read_text("utf-8")))
    for name in FILES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for path in (ROOT / "model_cards").glob("[a-z]*.md"):
        files.append(File.generated(config, f"model_cards/{path.name}", content=path.read_text("utf-8")))
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path)))
        files.append(File.generated(config, f"notebooks/{path.name}", abs_src_path=str(path)))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turns links between files of the repository into links between pages of the site."""
    uri = page.file.src_uri
    here, notebook = dirname(uri) or ".", uri.startswith("notebooks/")
    outside = uri.startswith(("notebooks/", "model_cards/")) or uri in ("index.md", *PAGES)
    source = here if outside else f"docs/{here}"
    markdown = LINK.sub(lambda link: relpath(site_path(normpath(join(source, link[0]))), here), markdown)
    if notebook:
        markdown += f"\n\n[Download this notebook]({Path(uri).stem}.ipynb)\n"
    return markdown


def on_page_content(html: str, page: Page, **_: Any) -> str:
    external_links.update(f"{link} {page.file.src_uri}\n" for link in re.findall(r'href="(https?:[^"]+)"', html))
    return re.sub("<code>[^<]*</code>", lambda code: FLAG.sub(r'<span class="flag">\g<0></span>', code[0]), html)


def on_post_build(config: MkDocsConfig) -> None:
    Path(config.site_dir).with_name("external_links.txt").write_text("".join(sorted(external_links)), "utf-8")
