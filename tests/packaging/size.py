"""
Counts the size of the project: `python tests/packaging/size.py [ROOT]` prints Markdown tables.

A line of code is a line that is not blank, not a comment and not part of a docstring.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path

SCRIPTS = ("run_re.py", "run_glue.py", "run_tagging.py", "run_parsing.py", "run_ranking.py")
WHEEL = ("configuration", "modeling", "plugin")
OTHERS = ("papers", "benchmarks", "model_cards", "tests")
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(path: Path) -> set[int]:
    """The numbers of the lines of code."""
    source = path.read_text(encoding="utf-8")
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))
            and ast.get_docstring(node, clean=False) is not None
        ):
            docstrings.update(_lines(node.body[0]))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstrings


def longest_function(paths: Iterable[Path]) -> tuple[int, str]:
    """Its lines of code, and its file and name."""
    longest = (0, "")
    for path in paths:
        code = code_lines(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, FUNCTIONS):
                longest = max(longest, (len(code.intersection(_lines(node))), f"{path.name}: {node.name}"))
    return longest


def public_names(init: Path) -> list[str]:
    """`__all__` of a package, without importing it."""
    for node in ast.parse(init.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [element.value for element in ast.walk(node.value) if isinstance(element, ast.Constant)]
    return []


def flags(script: Path) -> int:
    """The flags in `--help` that are neither those of TrainingArguments nor the `--no_` form of another flag."""
    from transformers import TrainingArguments

    command = [sys.executable, script.name, "--help"]
    text = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=True).stdout
    named = {name.replace("-", "_") for name in re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.MULTILINE)}
    own = named - {field.name for field in dataclasses.fields(TrainingArguments)} - {"help"}
    return len([name for name in own if not (name.startswith("no_") and name.removeprefix("no_") in named)])


def words(paths: Iterable[Path]) -> int:
    """The words of Markdown files: what holds a letter or a digit, not the bars of tables."""
    return sum(any(map(str.isalnum, word)) for path in paths for word in path.read_text(encoding="utf-8").split())


def _lines(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _python(folder: Path, deep: bool = True) -> list[Path]:
    return sorted(folder.rglob("*.py") if deep else folder.glob("*.py"))


def _table(head: tuple[str, ...], rows: list[tuple]) -> None:
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else cell for cell in row)} |")
    print()


def main(root: Path) -> None:
    scripts = [root / name for name in SCRIPTS]
    command = root / "msattn_command.py"
    wheel = [path for folder in WHEEL for path in _python(root / folder)] + [command, *scripts]
    rooms = {
        "run_*.py": scripts,
        command.name: [command],
        "configuration": _python(root / "configuration"),
        "modeling": _python(root / "modeling"),
    }
    rooms["plugin/*.py"] = _python(root / "plugin", deep=False)
    rooms |= {f"plugin/{path.name}": _python(path) for path in sorted((root / "plugin").iterdir()) if _python(path)}
    rooms["the wheel"] = wheel
    rooms |= {name: _python(root / name) for name in OTHERS}
    counts = [(name, len(paths), sum(len(code_lines(path)) for path in paths)) for name, paths in rooms.items()]
    _table(("room", "files", "code lines"), counts)

    _table(
        ("script", "code lines", "flags besides TrainingArguments"),
        [(path.name, len(code_lines(path)), flags(path)) for path in scripts],
    )

    inits = [root / "plugin" / "__init__.py", *sorted((root / "plugin").glob("*/__init__.py"))]
    names = {(init.parent.name, name) for init in inits for name in public_names(init)}
    length, function = longest_function(wheel)
    documents = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("papers/**/*.md")]
    files = len(_python(root / "plugin")) + len(_python(root / "modeling"))
    rows: list[tuple] = [
        ("files in plugin and modeling", files),
        ("public names of msattn", len(public_names(inits[0]))),
        ("public names of msattn and its rooms, different ones", len({name for _, name in names})),
        (f"code lines of the longest function ({function})", length),
        ("words of README, docs and papers", words(documents)),
    ]
    _table(("", "number"), rows)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
