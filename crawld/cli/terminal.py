"""The one way to a terminal: what commands print passes here, and no page can make it more than text.

Commands print what others wrote: texts, titles, errors, content types. Where standard output or error is a terminal it
is replaced while a command runs: bytes are shown as text, characters that act or hide are written out, and of escape
sequences only those pass that the command line itself uses for colours, bars and the live screen. In a pipe everything
stays as it is. Foreign text that is coloured by us, or stands in a table, is made `printable` before that.
"""

import codecs
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from crawld.model.units import printable

_OWN = re.compile(
    r"(\x1b\[[0-9;]*m"  # colours
    r"|\x1b\[[0-9]*[ABCDGJK]|\x1b\[[0-9;]*H|\x1b\[\?(?:25|1049)[hl]"  # the cursor, erasing, the live screen
    r"|^\r|\r(?=\x1b|\n))"  # bars begin a line anew
)
_WIDE_COLOUR = re.compile(r"[34]8;(?:5;[0-9]+|2;[0-9]+;[0-9]+;[0-9]+)")


def shown(text: str) -> str:
    """Returns what a terminal is sent for a text of the command line."""
    return "".join(part if at % 2 and _is_plain(part) else printable(part) for at, part in enumerate(_OWN.split(text)))


def _is_plain(sequence: str) -> bool:
    """Tells whether a sequence conceals nothing, which 8 among its numbers would."""
    return not sequence.endswith("m") or "8" not in _WIDE_COLOUR.sub("", sequence[2:-1]).split(";")


class _Bytes(io.BufferedIOBase):
    """The stream on which a terminal takes bytes: none of them are a command's own, so all are shown as text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        """Part of io.BufferedIOBase."""
        return True

    def write(self, data: Any) -> int:
        """Show the bytes as text."""
        self._stream.write(printable(self._decoder.decode(bytes(data))))
        return len(data)

    def flush(self) -> None:
        """Part of io.BufferedIOBase."""
        self._stream.flush()


class _Terminal:
    """A text stream that leads to a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.buffer = _Bytes(stream)

    def write(self, text: str) -> int:
        """Print a text."""
        self._stream.write(shown(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Print several."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Let what is printed meanwhile reach terminals as text only."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _Terminal(one)) if one.isatty() else one for one in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
