"""What is wrong with a setting, in plain sentences with its place in the file."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from crawld.model.url import without_password

EXAMPLES = {
    "Politeness": "delay: 1s",
    "Fetching": "timeout: 60s",
    "Signals": "share: 0.05",
    "ReadingAnswers": "deadline: 5s",
    "Discover": "site: https://example.org/",
    "DigestRule": "pattern: example.org/blog/*",
    "Hook": "name: search-index",
    "Retention": "days: 400",
    "Audit": "share: 0.01",
    "Api": "listen: 127.0.0.1:8642",
    "Log": "level: info",
}
"""One line of each section, as it is written below the section's name."""
SECRET = frozenset({"secret", "notify"})
"""Settings whose value no message shows."""
WHOLE_NUMBER, POSITIVE = "write a whole number, 1 or more", "write a number above 0"
SENTENCES = {
    "extra_forbidden": "no such setting",
    "missing": "this setting must be given",
    "string_type": "write a text",
    "list_type": "write a list, as [first, second]",
    "int_type": WHOLE_NUMBER,
    "int_parsing": WHOLE_NUMBER,
    "int_from_float": WHOLE_NUMBER,
    "greater_than_equal": WHOLE_NUMBER,
    "float_type": POSITIVE,
    "float_parsing": POSITIVE,
    "greater_than": POSITIVE,
}
"""By pydantic's name of the mistake. Only counts have a least value, and only `retention.days` is a plain number."""


def sentences(error: ValidationError) -> Sequence[str]:
    """Every mistake in a sentence of its own, beginning with the setting's place."""
    found = []
    for mistake in error.errors(include_url=False):
        if _of_another_kind(mistake):
            continue
        found += [f"{_place(mistake['loc'])}{said}" for said in _sentence(mistake).split("\n")]
    return found


def _of_another_kind(mistake: Any) -> bool:
    """Whether a list was compared with the words that may stand in its place: the list's own mistakes are named."""
    tag = mistake["loc"][-1] if mistake["loc"] else None
    return isinstance(mistake.get("input"), list) and isinstance(tag, str) and tag.startswith("literal[")


def _place(loc: tuple[int | str, ...]) -> str:
    parts = [p for p in loc if not (isinstance(p, str) and (p.startswith(("literal[", "list[", "function-"))))]
    text = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts)
    return f"{text.lstrip('.')}: " if text else ""


def _sentence(mistake: Any) -> str:
    kind, given, facts = mistake["type"], mistake.get("input"), mistake.get("ctx", {})
    message = SENTENCES.get(kind) or str(mistake["msg"]).removeprefix("Value error, ")
    if kind in {"extra_forbidden", "missing"} or not mistake["loc"]:
        return message
    if kind == "model_type":
        message = f"write its settings below it, as `{EXAMPLES[facts['class_name']]}`"
    elif kind == "literal_error":
        message = f"write one of: {facts['expected'].replace(' or ', ', ')}".replace("'", "")
    elif kind == "int_parsing" and re.fullmatch(r"[0-9.]+e[0-9]+", str(given)):
        message += " (YAML reads 1e6 as text: write 1000000 or 1.0e+6)"
    if mistake["loc"][-1] in SECRET:
        return message
    if mistake["loc"][-1] == "database" and isinstance(given, str):
        given = without_password(given)
    shown = repr(given) if isinstance(given, str | int | float | bool | type(None)) else type(given).__name__
    return f"{message} (given: {shown})" if shown not in message else message
