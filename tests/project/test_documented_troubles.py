"""The table of troubles in the documentation is the list in the code."""

import re
from pathlib import Path

from crawld.model.fetched import Scope, Trouble

DOCUMENT = Path(__file__).parents[2] / "docs" / "fetching.md"


def test_every_trouble_is_documented() -> None:
    """Every trouble has one row, in the order of the code, with a scope."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", DOCUMENT.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == [trouble.value for trouble in Trouble]
    assert {scope for _, scope in rows} == {scope.value for scope in Scope}
