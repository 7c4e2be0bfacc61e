"""The architecture, the types and the style are linted as part of the suite."""

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
