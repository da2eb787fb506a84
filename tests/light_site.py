"""Folders that hold some of the installed packages, for processes that shall find no others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

# Of these tests, and of the msattn that they test.
ROOT = Path(__file__).parents[1]
ROOTS = [ROOT, Path(find_spec("msattn").origin).parents[1]]


def distributions(*roots: str) -> list[metadata.Distribution]:
    """The distributions of that name, and those that they require."""
    names, found = list(roots), {}
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another platform
            continue
        if name not in found:
            found[name] = distribution
            needed = [line for line in distribution.requires or () if "extra ==" not in line]
            names += [re.match(r"[\w.-]+", line)[0] for line in needed]
    return [*found.values()]


def link_packages(site: Path, *roots: str) -> Path:
    """Fills a new folder with links to these packages and those that they require."""
    site.mkdir()
    for distribution in distributions(*roots):
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
    return site


def run_code(code: str, *arguments: str | Path, packages: list[Path] | None = None, **environment: str) -> str:
    """What `code` prints in a process of its own, with all packages or with those in these folders only."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    environment = {**inherited, "PYTHONPATH": os.pathsep.join(map(str, packages or ROOTS)), **environment}
    # -S: without the packages of the environment that runs the tests.
    command = [sys.executable, *(["-S"] if packages else []), "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
