"""The token that opens the listener: made once, kept in a file that only the daemon's own user can read.

A browser gets a code in its place, made from the token, that is good once and for some minutes: what stands in an
address or on a command line is seen by others.
"""

import hmac
import math
import os
import secrets
import stat
from pathlib import Path

from crawld.model.errors import StoreError

TOKEN_BYTES = 32
"""Random bytes of a new token: nobody guesses 256 bits."""
SHORTEST_TOKEN = 16
"""Characters that a token written by hand has at least; a shorter one is refused rather than trusted."""
LONGEST_TOKEN = 1024
"""Characters of a token file that are read: a file that is no token is not taken into memory."""


CODE_SECONDS = 600.0
"""For which a code is good: time enough to forward a port, or to carry the link to another machine."""


def login_code(token: str, now: float) -> str:
    """A code that lets one browser in."""
    claim = f"{now + CODE_SECONDS:.0f}.{secrets.token_hex(8)}"
    return f"{claim}.{_proof(token, claim)}"


def code_expiry(token: str, code: str) -> float:
    """Until when a code is good; minus infinity for what was not made from the token."""
    claim, _, proof = code.rpartition(".")
    until = claim.partition(".")[0]
    if not hmac.compare_digest(proof.encode("utf-8", "surrogateescape"), _proof(token, claim).encode()):
        return -math.inf
    return float(until)


def _proof(token: str, claim: str) -> str:
    text = f"a browser that may come in: {claim}".encode("utf-8", "surrogateescape")
    return hmac.new(token.encode(), text, "sha256").hexdigest()


def make_token(file: Path) -> str:
    """The token of the file, which is made with mode 0600 where there is none; StoreError where it cannot be used."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read_token(file)
    except OSError as error:
        raise _unusable(file, str(error.strerror)) from None
    token = secrets.token_urlsafe(TOKEN_BYTES)
    try:
        with open(descriptor, "w", encoding="ascii") as opened:
            opened.write(f"{token}\n")
    except OSError as error:
        file.unlink(missing_ok=True)  # an empty one would be met at every later start
        raise _unusable(file, str(error.strerror)) from None
    return token


def read_token(file: Path) -> str:
    """The token of the file; one of ours that others may read is closed to them first."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unusable(file, str(error.strerror)) from None
    with open(descriptor, encoding="ascii", errors="replace") as opened:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or (about.st_uid not in {0, os.geteuid()} and os.geteuid() != 0):
            raise _unusable(file, "it belongs to another user")
        if about.st_mode & 0o077 and about.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
        token = opened.read(LONGEST_TOKEN).strip()
    if len(token) < SHORTEST_TOKEN or not all("!" <= character <= "~" for character in token):
        raise _unusable(file, f"it holds no token of {SHORTEST_TOKEN} characters or more")
    return token


def _unusable(file: Path, why: str) -> StoreError:
    return StoreError(f"the token file {file} cannot be used: {why}. Remove it, or set `api.token_file`.")
