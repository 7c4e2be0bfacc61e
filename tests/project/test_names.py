"""One class name, one thing."""

import ast
from collections import defaultdict

from tests.support.process import ROOT


def test_a_class_name_is_used_once() -> None:
    """No two classes of the package, at any depth of any module, have one name."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "crawld").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(places) > 100
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
