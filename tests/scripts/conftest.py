from __future__ import annotations

import pytest

from msattn.data.demo import DemoPaths, write_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> DemoPaths:
    return write_demo(tmp_path_factory.mktemp("demo"))
