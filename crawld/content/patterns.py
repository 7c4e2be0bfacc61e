"""Regular expressions from a settings file, kept from hanging the daemon.

Python's engine backtracks, and no timeout can stop it. So a repeat inside a repeat, as in `(a+)+`, is refused, as is
a repeated choice whose branches may begin alike; and a pattern only ever sees WINDOW characters at a time, which
keeps what is merely polynomial short.
"""

import re
from typing import Any

from crawld.errors import InputError

WINDOW = 1_000
_parser: Any = re._parser  # type: ignore[attr-defined]
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
_MANY = 16


def compile_safely(text: str) -> re.Pattern[str]:
    """The compiled pattern; InputError where it is wrong, matches nothing at all, or could hang."""
    try:
        pattern = re.compile(text)
        tree = _parser.parse(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"{text!r} is not a regular expression: {error}") from None
    if _nested(tree, inside=False):
        raise InputError(f"{text!r} repeats a repeat or a choice, which can take for ever: write it without nesting")
    return pattern


def _nested(node: Any, *, inside: bool) -> bool:
    """Whether a repeat or a choice stands inside an open repeat."""
    if isinstance(node, _parser.SubPattern):
        return any(_nested(item, inside=inside) for item in node)
    if isinstance(node, tuple) and len(node) == 2 and str(node[0]) in _REPEATS:
        _, most, body = node[1]
        many = int(most) > _MANY
        return (inside and many) or _nested(body, inside=inside or many)
    if isinstance(node, tuple) and len(node) == 2 and str(node[0]) == "BRANCH" and inside:
        return True
    if isinstance(node, tuple | list):
        return any(_nested(item, inside=inside) for item in node)
    return False


def erase(patterns: tuple[re.Pattern[str], ...], text: str) -> str:
    """The text without what the patterns find, window by window."""
    for pattern in patterns:
        text = "".join(pattern.sub("", text[at : at + WINDOW]) for at in range(0, len(text), WINDOW))
    return text
