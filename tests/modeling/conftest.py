from __future__ import annotations

import pytest

from msattn.modeling import attention_call


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of some rows only, the last of them not full."""
    monkeypatch.setattr(attention_call, "block_size", lambda device: 50)
