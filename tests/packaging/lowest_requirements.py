"""Prints the lowest version of every dependency that setup.cfg allows, as requirements for pip."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

SETUP_CFG = Path(__file__).parents[2] / "setup.cfg"


def lowest_requirements() -> list[str]:
    """
    What a package and its extras require, each lower bound as the version, such as `"torch==2.13"`.

    The extras `dev`, `docs` and `integrations` are left out: the package imports nothing of them. So is `all`, which
    names other extras.

    Raises:
        ValueError: a requirement has no lower bound.
    """
    parser = ConfigParser()
    parser.read(SETUP_CFG, encoding="utf-8")
    lowest = []
    extras = dict(parser["options.extras_require"])
    for name in ("all", "dev", "docs", "integrations"):
        extras.pop(name, None)
    for requirement in " ".join([parser["options"]["install_requires"], *extras.values()]).split():
        match = re.match(r"([\w.-]+)>=([\w.]+)", requirement)
        if match is None:
            raise ValueError(f"{SETUP_CFG}: {requirement} must start with its lowest version, as in numpy>=2.0.")
        lowest.append("==".join(match.groups()))
    return [*dict.fromkeys(lowest)]


if __name__ == "__main__":
    print(*lowest_requirements(), sep="\n")
