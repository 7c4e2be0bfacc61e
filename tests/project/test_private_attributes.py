"""Tests see what an object shows to the world: they read nothing private, and change nothing private."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.process import ROOT

PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_mapping"}
"""Documented methods of named tuples and of SQLAlchemy's rows, underscored lest they hide a field."""
EXEMPT = {
    ("tests/unit/test_documents.py", "writer._add_object"): "pypdf has no other way to put a stream into a PDF",
}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC


def private_reads(source: str) -> Iterator[tuple[int, str]]:
    """The lines that name something private of another object or module, however they get at it, and what that is."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("attr", "patch")):
            names = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            yield from ((node.lineno, name) for name in names if _is_private(name.rpartition(".")[2]))


def test_tests_read_nothing_private() -> None:
    """No test depends on how an object keeps what it knows, but where a reason stands beside the exemption."""
    found = {
        (path.relative_to(ROOT).as_posix(), what): line
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, what in private_reads(path.read_text(encoding="utf-8"))
    }
    wrong = [f"{path}:{line} reads {what}" for (path, what), line in found.items() if (path, what) not in EXEMPT]
    assert not wrong, "\n".join(wrong)
    assert set(EXEMPT) <= set(found), "an exemption that nothing needs is to go"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("x = store._memories", 1),
        ("x = self.store._memories.size", 1),
        ("from crawld.cli.remote import _trusted", 1),
        ("monkeypatch.setattr(remote, '_trusted', f)", 1),
        ("monkeypatch.setattr('crawld.cli.remote._trusted', f)", 1),
        ("x = getattr(store, '_memories')", 1),
        ("self._mine = cls._ours", 0),
        ("x = asked._replace(url='x'), Chooser.__iter__, setattr(x, 'public', 1)", 0),
    ],
)
def test_the_rule_sees_every_way_in(source: str, count: int) -> None:
    """Attributes, imports and names in strings are found; what is a test's own is not."""
    assert len(list(private_reads(source))) == count
