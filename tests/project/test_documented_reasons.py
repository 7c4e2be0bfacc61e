"""docs/operation.md names every reason and every kind of trouble there is."""

import re
from pathlib import Path

from crawld.model.why import Why
from crawld.show import report

ROOT = Path(__file__).parents[2]


def test_every_reason_and_trouble_is_documented() -> None:
    """A word that a program may meet is in the tables."""
    text = (ROOT / "docs/operation.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\b[a-z_]+\b", "\n".join(line for line in text.splitlines() if line.startswith("|"))))
    source = Path(report.__file__).read_text(encoding="utf-8")
    of_slots = {Why.NO_PAGES, Why.TOO_MANY_IN_FLIGHT}
    assert {why.value for why in Why if why not in of_slots} <= words
    assert set(re.findall(r'TroubleReport\(\s*"([a-z_]+)"', source)) <= words
