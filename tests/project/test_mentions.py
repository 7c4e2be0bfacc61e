"""Paths, modules and sections that code and documents mention are there."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import ROOT

CODE = [path for name in ("crawld", "tests", "benchmarks", "migrations") for path in (ROOT / name).rglob("*.py")]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
SCRIPTS = [path for path in (ROOT / ".ci").glob("[a-z]*") if path.is_file()]
OTHERS = [ROOT / "config.yaml", ROOT / "mkdocs.yml", ROOT / "pyproject.toml", *SCRIPTS]
FILES = [path.relative_to(ROOT).as_posix() for path in (*CODE, *DOCUMENTS)]
FILE = re.compile(r"(?<![\w./:@*{}-])((?:[\w.-]+/)*[\w-]+\.(?:py|md))\b(?!\.\w|\()")
PLACE = re.compile(r"(?<![\w./:-])((?:crawld|tests|docs|benchmarks|migrations|systemd)/(?!\d)[\w/.-]*\w)")
MODULE = re.compile(r"(?:`|python -m )((?:crawld|tests|benchmarks)(?:\.(?!db|service|token)[a-z_]+)+)(?=[`\s])")
SECTION = re.compile(r'(docs/[\w/-]+\.md)(?:, "([^"]+)")')


def prose(path: Path) -> str:
    """What a file tells its readers: all of a document, comments and docstrings of code, comments of settings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix == ".py":
        return "\n".join(_told(text))
    return "\n".join(line.partition("#")[2] for line in text.splitlines())


def _told(source: str) -> Iterator[str]:
    """Comments, and strings that stand alone in a statement: docstrings and the sentences below constants."""
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins):
            yield token.string
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            begins = token.type in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def in_one_line(text: str) -> str:
    """The text without its line breaks and the marks of comments."""
    return re.sub(r"\n\s*#?\s*", " ", text)


def is_there(name: str, mentioned_in: Path) -> bool:
    """Whether a path leads somewhere: from the root, from the file that mentions it, or as the end of a path."""
    if (ROOT / name).exists() or (mentioned_in.parent / name).exists():
        return True
    return any(file.endswith(f"/{name}") for file in FILES)


def is_module(name: str) -> bool:
    """Whether a dotted name is a module or package, or a word of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                text = file.read_text(encoding="utf-8")
                return all(re.search(rf"\b{part}\b", text) for part in parts[length:])
    return False


def sections_of(document: Path) -> set[str]:
    """The titles of a document's sections and bold leads."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    leads = re.findall(r"^(?:- |\d+\. )?\*\*([^*]+?)\.?\*\*", text, re.MULTILINE)
    return {title.strip() for title in (*headings, *leads)}


@pytest.mark.parametrize("folder", ["crawld", "tests", "benchmarks", "migrations", "docs", "."])
def test_paths_and_modules_that_are_mentioned_are_there(folder: str) -> None:
    """A file, folder or module that a comment, docstring or document names can be opened under that name."""
    of_folder = [path for path in (*CODE, *DOCUMENTS, *OTHERS) if _folder(path) == folder]
    assert of_folder
    lost = []
    for path in of_folder:
        text = prose(path)
        lost += [(path.name, name) for name in (*FILE.findall(text), *PLACE.findall(text)) if not is_there(name, path)]
        lost += [(path.name, name) for name in MODULE.findall(text) if not is_module(name)]
    assert lost == []


def _folder(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first if (ROOT / first).is_dir() and not first.startswith(".") else "."


def test_sections_that_are_mentioned_are_there() -> None:
    """A document that is named together with one of its sections has that section."""
    named = {
        (path.name, name, section)
        for path in (*CODE, *DOCUMENTS, *OTHERS)
        for name, section in SECTION.findall(in_one_line(prose(path)))
    }
    assert named
    known = {name: sections_of(ROOT / name) for _, name, _ in named}
    assert [one for one in sorted(named) if one[2] not in known[one[1]]] == []
