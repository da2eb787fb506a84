from __future__ import annotations

import gc
import gzip
import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch

from tests.light_site import link_packages

# No test asks the Hub: where it cannot be reached, each of its retries takes seconds.
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_itemcollected(item):
    # As docs/installing.md says. Whatever else fails on the lowest torch is a fault.
    if torch.__version__ < "2.13" and re.search("compile|exported|test_export$", item.name):
        item.add_marker(pytest.mark.skip(reason="compiling and exporting is tested with torch 2.13"))


def pytest_collection_finish():
    """
    Keeps what the tests have imported out of all later collections of garbage. Accelerate starts one after each
    training, which would take most of a second each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    """
    Forgets what earlier tests have compiled: torch counts it against a limit, and lets go of it only when the models
    are collected, which may be late.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


@pytest.fixture(scope="session")
def light_site(tmp_path_factory):
    """A folder of packages without msattn, and without what only training needs."""
    return link_packages(tmp_path_factory.mktemp("light") / "site", "torch", "transformers")


@pytest.fixture
def write(tmp_path):
    """Writes a file: bytes, a text, or rows as JSON lines; gzipped if its name says so."""

    def write(content: str | bytes | list, name: str = "data.txt") -> Path:
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return tmp_path / name

    return write
