"""The versions that CI installs: every dependency has one, within the bounds that the package states."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.process import ROOT


def pinned() -> dict[str, Version]:
    """What `.ci/constraints.txt` says, by name."""
    lines = (ROOT / ".ci/constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def test_every_dependency_of_the_tests_is_pinned_within_its_bounds() -> None:
    """No release of somebody else's changes what CI runs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = pinned()
    for text in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate():
            assert found[canonicalize_name(wanted.name)] in wanted.specifier


def test_ci_runs_the_readmes_test_command_with_the_pinned_versions() -> None:
    """Nothing less than what README.md tells everybody to run."""
    (told,) = re.findall(r"^pip install -e '\.\[test\]' && pytest$", (ROOT / "README.md").read_text(), re.MULTILINE)
    script = (ROOT / ".ci/run").read_text()
    assert told.replace("pip install", "pip install --quiet") in script
    assert script.index("PIP_CONSTRAINT") < script.index("pip install")
