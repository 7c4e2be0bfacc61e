"""Regular expressions from a settings file, matched in linear time.

Python's own engine backtracks: an innocent pattern and an unlucky page would stop the daemon for minutes, and no
timeout can interrupt it. RE2 cannot do that. It knows neither look-around nor back-references.
"""

from typing import Any

import re2

from crawld.model.errors import InputError

_QUIET = re2.Options()
_QUIET.log_errors = False


def compile_linear(text: str) -> Any:
    """The compiled pattern; InputError where it is not one."""
    try:
        return re2.compile(text, _QUIET)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise InputError(f"{text!r} is not a regular expression RE2 can match: {reason}") from None


def erase(patterns: tuple[Any, ...], text: str) -> str:
    """The text without what the patterns find."""
    for pattern in patterns:
        text = pattern.sub("", text)
    return text
