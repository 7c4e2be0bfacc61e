"""The wheel on its own: installed without the checkout, with nothing but what its metadata ask for."""

import json
import os
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import crawld
from tests.support.process import ROOT


def run(*words: str | Path, cwd: Path) -> str:
    """What a command prints, without anything of ours in its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CRAWLD_"))}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wanted_by(requirements: list[str], extras: frozenset[str] = frozenset()) -> set[tuple[str, frozenset[str]]]:
    """Names with their extras of those requirements that hold on this machine."""
    found = map(Requirement, requirements)
    chosen = [{"extra": extra} for extra in extras or {""}]
    return {
        (canonicalize_name(one.name), frozenset(one.extras))
        for one in found
        if one.marker is None or any(one.marker.evaluate(extra) for extra in chosen)
    }


def closure(requirements: list[str]) -> set[str]:
    """Every package that these requirements lead to, as far as it is installed here."""
    waiting, seen = wanted_by(requirements), set[tuple[str, frozenset[str]]]()
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting |= wanted_by(metadata.requires(one[0]) or [], one[1]) - seen
    return {name for name, _ in seen}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and its declared dependencies alone."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("crawld-*.whl")
    venv.create(folder / "env", with_pip=True)
    made = folder / "env/bin/python"
    run(made, "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=folder)
    (packages,) = (folder / "env/lib").glob("python*/site-packages")
    (built,) = packages.glob("crawld-*.dist-info")
    for name in closure(metadata.PathDistribution(built).requires or []):
        for file in metadata.files(name) or []:
            top, source = file.parts[0], Path(str(metadata.distribution(name).locate_file(file.parts[0])))
            if top not in {"..", "__pycache__"} and not (packages / top).exists():
                (packages / top).symlink_to(source)
    return made


def test_the_wheel_holds_everything_that_the_demo_needs(python: Path, tmp_path: Path) -> None:
    """`crawld demo` runs with migrations, templates and settings from the wheel, away from the checkout."""
    program = python.with_name("crawld")
    assert "site-packages" in run(python, "-c", "import crawld; print(crawld.__file__)", cwd=tmp_path)
    report = json.loads(run(program, "demo", "--seconds", "5", "--pages", "8", "--json", cwd=tmp_path))
    assert report
    assert f"crawld {crawld.__version__} (wheel crawld-" in run(program, "--version", cwd=tmp_path)
    run(program, "install-service", "--install", "--root", tmp_path / "root", cwd=tmp_path)
    assert (tmp_path / "root/etc/crawld/config.yaml").is_file()
