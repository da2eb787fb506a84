"""What a release says of itself, and the workflows that make it."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def setup_cfg() -> ConfigParser:
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == setup_cfg()["metadata"]["version"]


def test_the_changelog_starts_with_what_is_not_released():
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sections[0] == "Unreleased"


def test_all_names_every_extra_but_those_for_developers():
    extras = setup_cfg()["options.extras_require"]
    (requirement,) = extras["all"].split()
    assert set(re.fullmatch(r"msattn\[(.+)\]", requirement)[1].split(",")) == set(extras) - {
        "all",
        "dev",
        "docs",
        "oracles",
    }


def test_every_extra_that_a_message_names_exists():
    files = [file for folder in ("modeling", "plugin", "docs") for file in (ROOT / folder).rglob("*.[pm][yd]")]
    text = "".join(file.read_text(encoding="utf-8") for file in [*files, ROOT / "README.md"])
    named = {*re.findall(r"""\bextra\(["'](\w+)["']\)""", text)}
    named |= {
        name for names in re.findall(r"pip install ['\"](?:msattn|\.)\[([\w,]+)\]", text) for name in names.split(",")
    }
    assert len(named) > 5 and named <= set(setup_cfg()["options.extras_require"])


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets_of_the_makefile_on_supported_versions(workflow):
    content = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    classifiers = setup_cfg()["metadata"]["classifiers"]
    called = set()
    for job in content["jobs"].values():
        for step in job["steps"]:
            called |= set(re.findall(r"\bmake ([a-z-]+)", step.get("run", "")))
        for python in job.get("strategy", {}).get("matrix", {}).get("python", ()):
            assert f"Programming Language :: Python :: {python}\n" in f"{classifiers}\n"
    assert called and called <= targets
    # No job but those that publish may do more than read.
    assert content["permissions"] == {"contents": "read"}
    writers = {name for name, job in content["jobs"].items() if "permissions" in job}
    assert writers <= {"publish", "deploy"}


def test_three_workflows():
    assert [workflow.name for workflow in WORKFLOWS] == ["docs.yml", "release.yml", "tests.yml"]
