"""What is wrong with a setting, in plain sentences with its place in the file."""

import re
from collections.abc import Sequence

from pydantic import BaseModel, ValidationError

from crawld.config.identity import CREDENTIAL_KINDS
from crawld.mistakes import NO_SUCH, Mistake, mistakes
from crawld.model.url import without_password

EXAMPLES = {
    "Politeness": "delay: 1s",
    "Fetching": "timeout: 60s",
    "Signals": "share: 0.25",
    "ReadingAnswers": "deadline: 5s",
    "Discover": "site: https://example.org/",
    "DigestRule": "pattern: example.org/blog/*",
    "Hook": "name: search-index",
    "Credential": "origin: https://wiki.example.org",
    "Signing": "agent: https://bot.example.org",
    "Retention": "days: 400",
    "Audit": "share: 0.01",
    "Api": "listen: 127.0.0.1:8642",
    "Log": "level: info",
}
"""One line of each section, as it is written below the section's name."""
SECRET = frozenset(
    {"secret", "notify", "origin", "credentials"}
    | {f"{kind}_{place}" for kind in CREDENTIAL_KINDS for place in ("file", "env")}
)
"""Settings whose value no message shows."""


def sentences(error: ValidationError, settings: type[BaseModel]) -> Sequence[str]:
    """Every mistake in a sentence of its own, beginning with the setting's place."""
    found: list[str] = []
    for mistake in mistakes(error, settings, EXAMPLES):
        place = f"{mistake.place}: " if mistake.place else ""
        found += [f"{place}{said}" for said in _with_given(mistake).split("\n")]
    return found


def _with_given(mistake: Mistake) -> str:
    """The sentence with the value that was given, where that is no secret and the sentence does not show it."""
    if mistake.kind == NO_SUCH:
        return mistake.sentence.replace("no such name", "no such setting", 1)
    message, given = mistake.sentence, mistake.given
    if mistake.kind == "int_parsing" and re.fullmatch(r"[0-9.]+e[0-9]+", str(given)):
        message += " (YAML reads 1e6 as text: write 1000000 or 1.0e+6)"
    if mistake.kind == "missing" or not mistake.place or mistake.name in SECRET:
        return message
    if mistake.name == "database" and isinstance(given, str):
        given = without_password(given)
    shown = repr(given)
    told = message.startswith(shown) or (isinstance(given, str) and shown in message)
    plain = isinstance(given, str | int | float | bool | None)
    return f"{message} (given: {shown})" if plain and not told else message
