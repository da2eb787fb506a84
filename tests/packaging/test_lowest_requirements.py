from __future__ import annotations

import pytest
from lowest_requirements import lowest_requirements


def test_every_dependency_has_a_lowest_version():
    lowest = lowest_requirements()
    assert "transformers==5.5" in lowest
    assert len({requirement.split("==")[0] for requirement in lowest}) == len(lowest)


def test_a_dependency_without_a_lower_bound_is_refused(tmp_path):
    (tmp_path / "setup.cfg").write_text("[options]\ninstall_requires =\n    numpy>=2.0\n    scipy<2\n")
    with pytest.raises(ValueError, match=r"setup\.cfg: scipy<2 must start with its lowest version"):
        lowest_requirements(tmp_path / "setup.cfg")
