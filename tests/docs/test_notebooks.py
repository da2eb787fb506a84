"""Runs the notebooks as Jupyter does, on small data: a cell with other parameters follows the one that has the tag."""

from __future__ import annotations

import copy
import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from msattn.data.demo_corpus import write_demo

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
TREE = "1\tDogs\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tsleep\t_\t_\t_\t_\t0\troot\t_\t_\n3\t.\t_\t_\t_\t_\t2\tpunct\t_\t_\n\n"


def cells_with(notebook: nbformat.NotebookNode, tag: str) -> list[int]:
    return [number for number, cell in enumerate(notebook.cells) if tag in cell.metadata.get("tags", ())]


def texts(cell: nbformat.NotebookNode) -> list[str]:
    """What a cell shows, without what goes to stderr, such as progress."""
    outputs = [one for one in cell.get("outputs", ()) if one.get("name") != "stderr"]
    return [one["text"] if "text" in one else one["data"]["text/plain"] for one in outputs]


def shapes(cell: nbformat.NotebookNode) -> set[str]:
    """The kinds of the outputs of a cell and, of results, their first line without its digits and spaces."""
    found = set()
    for output in cell.get("outputs", ()):
        if "data" in output:
            head = re.sub(r"0x[0-9a-f]+|[\d.\s…-]|e-\d+", "", output["data"]["text/plain"].split("\n")[0])
            found |= {f"{sorted(output['data'])}: {head}"}
        elif output.get("name") == "stdout":
            found.add("stdout")
    return found


def run(name: str, parameters: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything that the notebook has shown, in the shapes of its stored outputs."""
    stored = nbformat.read(NOTEBOOKS / name, as_version=4)
    notebook = copy.deepcopy(stored)
    (number,) = cells_with(notebook, "parameters")
    notebook.cells.insert(number + 1, nbformat.v4.new_code_cell(parameters))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    options = {"timeout": 600, "skip_cells_with_tag": "skip-execution"}
    NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, **options).execute()
    del notebook.cells[number + 1]
    for old, new in zip(stored.cells, notebook.cells, strict=True):
        assert shapes(new) == shapes(old), old.source
    return "\n".join(text for cell in notebook.cells for text in texts(cell))


@pytest.mark.parametrize("path", [*NOTEBOOKS.glob("*.ipynb")], ids=lambda path: path.stem)
def test_outputs_are_stored_and_small(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    ran = [cell.execution_count for cell in code if cell.execution_count]
    assert ran == list(range(1, len(code) - len(cells_with(notebook, "skip-execution")) + 1))
    assert any(map(texts, code)) and path.stat().st_size < 60_000
    assert not re.search(r'"image/png"|/(tmp|home|root|work|Users)/', path.read_text(encoding="utf-8"))
    first = cells_with(notebook, "skip-execution")[0]
    assert notebook.cells[first].source.startswith("%pip install")


@pytest.mark.slow
def test_relations_from_your_own_csv(tmp_path, monkeypatch):
    parameters = 'encoder = "demo/encoder"; epochs = 1'
    shown = run("relations_from_your_own_csv.ipynb", parameters, tmp_path, monkeypatch)
    assert "micro_f1" in shown
    assert " errors" in shown
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (tmp_path / "outputs/relations/model.safetensors").is_file()


@pytest.mark.slow
def test_a_parser_from_200_sentences(tmp_path, monkeypatch):
    write_demo(tmp_path)
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.conllu").write_text(TREE * 8, encoding="utf-8")
    parameters = 'treebank = "{}.conllu"; encoder = "encoder"; sentences = 4; steps = 1'
    shown = run("a_parser_from_200_sentences.ipynb", parameters, tmp_path, monkeypatch)
    assert "'uas': " in shown
    assert "# text = Dogs don't sleep." in shown
    assert "3 of 6 sentences" in shown
    assert (tmp_path / "trees.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.slow
def test_what_heads_look_at(tmp_path, monkeypatch):
    shown = run("what_heads_look_at.ipynb", 'encoder = "demo/encoder"; epochs = 1', tmp_path, monkeypatch)
    assert "importance" in shown and "least important first" in shown
