"""The architecture, the types and the style are linted as part of the suite."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["-m", "ruff", "check", "."], id="ruff check"),
        pytest.param(["-m", "ruff", "format", "--check", "."], id="ruff format"),
        pytest.param(["-m", "mypy"], id="mypy --strict"),
        pytest.param(
            ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"], id="import-linter"
        ),
    ],
)
def test_linters_are_clean(command: list[str]) -> None:
    """Every linter passes on the whole tree."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tests_import_neither_each_other_nor_benchmarks() -> None:
    """What several tests use is in `tests/support`; a benchmark is run as the command it is."""
    wrong = []
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            wrong += [
                (path.name, name)
                for name in names
                if name.split(".")[0] == "benchmarks"
                or (name.startswith("tests.") and name.rpartition(".")[2].startswith("test_"))
            ]
    assert wrong == []
