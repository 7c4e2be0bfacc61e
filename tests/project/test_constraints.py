"""The versions that CI installs: every dependency has one, within the bounds that the package states."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.process import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEST_COMMAND = "pip install -c .ci/constraints.txt -e '.[test]' && pytest"


def pinned() -> dict[str, Version]:
    """What `.ci/constraints.txt` says, by name."""
    lines = (ROOT / ".ci/constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def test_every_dependency_of_the_tests_is_pinned_within_its_bounds() -> None:
    """No release of somebody else's changes what CI runs."""
    found = pinned()
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["test"], *extras["ray"]]:
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate():
            assert found[canonicalize_name(wanted.name)] in wanted.specifier


def test_linters_and_test_tools_have_exact_versions() -> None:
    """Whoever installs the extra `test` without the constraints gets the same linters."""
    for text in PROJECT["optional-dependencies"]["test"]:
        assert [one.operator for one in Requirement(text).specifier] == ["=="], text


def test_ci_runs_the_readmes_test_command_letter_by_letter() -> None:
    """The line that README and CONTRIBUTING print is the last line of `.ci/run`."""
    for name in ("README.md", "CONTRIBUTING.md"):
        assert re.findall(r"^.*&& pytest$", (ROOT / name).read_text(), re.MULTILINE) == [TEST_COMMAND]
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == TEST_COMMAND


def test_ci_starts_with_an_empty_home_and_temporary_directory() -> None:
    """Both are made afresh before anything is installed, so that no test needs what an earlier run left."""
    for name in ("run", "newest"):
        script = (ROOT / ".ci" / name).read_text()
        assert 0 < script.index("\nsource .ci/environment\n") < script.index("\npip install")
    assert "export HOME=$own/home TMPDIR=$own/tmp\n" in (ROOT / ".ci/environment").read_text()
