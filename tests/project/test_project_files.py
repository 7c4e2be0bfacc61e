"""What a newcomer meets first: the site of documents, the guide for contributors, the licence and the hooks."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def pages_of(entries: list[Any]) -> list[str]:
    """Every page of a navigation, in its order."""
    found: list[str] = []
    for entry in entries:
        target = next(iter(entry.values())) if isinstance(entry, dict) else entry
        found += pages_of(target) if isinstance(target, list) else [target]
    return found


def test_every_document_is_in_the_navigation() -> None:
    """`mkdocs.yml` names every page under docs/ once, and none that is not there."""
    named = pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    there = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(there)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """A link that leads nowhere, or a page outside the navigation, fails the build."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed here: pip install -e '.[docs]'")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "crawld" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_guides_name_files_that_are_there(name: str) -> None:
    """Every path and link in the guides leads to something, so that the lists of files to touch stay true."""
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:crawld|tests|docs|migrations)/[\w./-]*|\w+\.(?:md|toml|yml))`", text)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert paths or links
    assert [path for path in (*paths, *links) if not (ROOT / path).exists()] == []


def test_what_the_guide_tells_to_edit_has_those_names() -> None:
    """The names that the guide tells contributors to look for are in the files it sends them to."""
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    for path, name in (
        ("crawld/main/settings.py", "POLICIES"),
        ("crawld/model/signal.py", "Source"),
        ("crawld/model/fetched.py", "Trouble"),
        ("crawld/cli/__init__.py", "COMMANDS"),
        ("crawld/cli/__init__.py", "_ELSEWHERE"),
        ("crawld/show/actions.py", "Control"),
    ):
        assert f"`{path}`" in text
        assert f"`{name}`" in text
        assert re.search(rf"^(class )?{name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), name


def test_the_licence_is_the_one_that_the_package_states() -> None:
    """The metadata say MIT and LICENSE is its text; the package says that it has types."""
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"] == "MIT"
    text = (ROOT / "LICENSE").read_text()
    assert text.startswith("MIT License\n\nCopyright (c) ")
    assert "The crawld authors" in text
    assert (ROOT / "crawld" / "py.typed").exists()


def test_hooks_run_what_is_installed() -> None:
    """The hooks before a commit are local and run the linters that the suite runs."""
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    entries = " ".join(hook["entry"] for hook in repository["hooks"])
    for linter in ("ruff check", "ruff format", "mypy", "importlinter"):
        assert linter in entries
