"""The documents tell the truth: settings, commands and links are all there."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from crawld.choose import policies
from crawld.cli import COMMANDS, main
from crawld.main.settings import POLICIES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]


def test_the_readme_shows_the_two_commands() -> None:
    """One command installs and runs the demo, one installs and passes the tests, each in a virtual environment."""
    blocks = re.findall(r"```\n(.*?)```", README, re.DOTALL)
    for second in ("pip install . && crawld demo", "pip install -c .ci/constraints.txt -e '.[test]' && pytest"):
        (block,) = [block.splitlines() for block in blocks if second in block]
        assert block[0].startswith("python3 -m venv .venv && . .venv/bin/activate")
        assert block[1:] == [second]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_is_in_the_readme(name: str) -> None:
    """`crawld NAME --help` works, and README says what the command is for."""
    done = CliRunner().invoke(main, [name, "--help"])
    assert done.exit_code == 0, done.output
    assert len(done.output.splitlines()) >= 4
    assert f"crawld {name}" in README or f'" {name}' in README


def test_help_lists_every_command() -> None:
    """`crawld --help` shows all of them with a sentence each."""
    shown = CliRunner().invoke(main, ["--help"]).output
    for name, sentence in COMMANDS.items():
        assert name in shown
        assert sentence.split(".")[0][:20] in shown


def test_settings_know_the_policies_there_are() -> None:
    """Every policy that can be set exists."""
    assert [policies.choose(name).name for name in POLICIES] == list(POLICIES)


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link in the documents names a file that is there."""
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def _anchors(document: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


def test_anchors_between_documents_lead_to_a_section() -> None:
    """Every `#section` of a relative link is a heading of the document it names."""
    for document in DOCUMENTS:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text(encoding="utf-8")):
            named = (document.parent / target) if target else document
            assert anchor in _anchors(named), f"{document.name}: {target}#{anchor}"


def test_every_decision_and_document_is_reachable() -> None:
    """README names every document under docs/."""
    for document in (ROOT / "docs").glob("*.md"):
        assert f"docs/{document.name}" in README, document.name


def test_the_tracked_files_speak_of_the_project_alone() -> None:
    """No machine paths and no host names of package registries."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed here")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    telltale = re.compile("/wo" + r"rk/|/ro" + "ot/|py" + r"pi\.org|npm" + "js")
    for name in listed.stdout.split():
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace") if (ROOT / name).is_file() else ""
        assert not telltale.search(text), name
