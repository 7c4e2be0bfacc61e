"""Texts that may hold a password, as they may be shown."""

import re

_USER_INFO = re.compile(r"^([\w+.-]*:?/*)([^:/@]*):(.*)@", re.DOTALL)
_NAMED = re.compile(r"((?:password|passwd|pwd|sslpassword|passphrase|token|secret)=)[^&\s]*", re.IGNORECASE)


def without_password(url: str) -> str:
    """A database's URL, however badly it is written, with *** in place of what may be a password.

    Everything between the user and the last @ counts as one: a password may hold any character.
    """
    return _NAMED.sub(r"\1***", _USER_INFO.sub(r"\1\2:***@", url))
