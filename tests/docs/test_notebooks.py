"""Runs the notebooks as Jupyter does, on small data: a cell with other parameters follows the one that has the tag."""

from __future__ import annotations

import os
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


def run(name: str, parameters: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything that the notebook has shown."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    (number,) = cells_with(notebook, "parameters")
    notebook.cells.insert(number + 1, nbformat.v4.new_code_cell(parameters))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(str(output.get("text") or output.get("data")) for output in outputs)


@pytest.mark.parametrize("path", [*NOTEBOOKS.glob("*.ipynb")], ids=lambda path: path.stem)
def test_no_outputs_are_committed(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
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
