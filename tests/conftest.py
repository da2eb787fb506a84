from __future__ import annotations

import sys

import pytest
import torch


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    """
    Forgets what earlier tests have compiled: torch counts it against a limit, and lets go of it only when the models
    are collected, which may be late.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
