from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest


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
