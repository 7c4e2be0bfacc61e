"""Log lines as text for people or JSON for machines: changes, troubles, and a summary a minute.

Each crawl and poll has a line of its own at debug; `log.crawls` in the settings brings those to info.
"""

import json
import logging
import sys
import time
from typing import TextIO

from crawld.model.units import printable

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _OWN and value is not None}


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record with its facts as JSON."""
        line = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        } | _facts(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable(json.dumps(line, default=str, ensure_ascii=False))


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00Z info crawl url=… verdict=changed`, without the time where the journal adds its own."""

    def __init__(self, *, with_time: bool = True) -> None:
        super().__init__()
        self._with_time = with_time

    def format(self, record: logging.LogRecord) -> str:
        """The record with its facts as name=value."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime(record.created)) if self._with_time else ""
        facts = "".join(f" {name}={_quoted(value)}" for name, value in _facts(record).items())
        line = f"{stamp}{record.levelname.lower()} {record.getMessage()}{facts}"
        return printable(f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line)


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in text for c in ' "\n\t') else text


_EACH = logging.getLogger("crawld.each")
"""Enabled for info where each crawl and poll is to have its line there."""


def level_of(*, news: bool) -> int:
    """The level of the line of one crawl or poll: info where it is news, or where every one is wanted."""
    return logging.INFO if news or 0 < _EACH.level <= logging.INFO else logging.DEBUG


class _OncePerMinute:
    """Says at most once a minute that memory has run out: every task meets it, and a traceback each tells no more."""

    def __init__(self) -> None:
        self._said_at: float | None = None

    def __call__(self) -> None:
        record = logging.LogRecord("crawld", logging.ERROR, __file__, 0, NO_MEMORY, None, None)
        if self._said_at is None or record.created > self._said_at + 60.0:
            self._said_at = record.created
            logging.getLogger("crawld").handle(record)


NO_MEMORY = (
    "out of memory: raise its limit (ulimit -v, MemoryMax), or give crawld fewer pages; what failed is tried again"
)
log_no_memory = _OncePerMinute()


class _Worker:
    """Names the worker in each line, where several log to one stream."""

    def __init__(self) -> None:
        self.name: str | None = None

    def __call__(self, record: logging.LogRecord) -> bool:
        if self.name is not None and not hasattr(record, "worker"):
            record.worker = self.name
        return True


logged_worker = _Worker()


def _tells_more_than_no_memory(record: logging.LogRecord) -> bool:
    """Tell in one sentence that memory has run out, where a library would add a traceback."""
    if record.exc_info and isinstance(record.exc_info[1], MemoryError):
        log_no_memory()
        return False
    return True


def configure(level: str, style: str, *, in_journal: bool, crawls: bool = False, stream: TextIO | None = None) -> None:
    """Send crawld's log lines to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines(with_time=not in_journal))
    handler.addFilter(logged_worker)
    logger = logging.getLogger("crawld")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
    # SQLAlchemy tells of connections that it could not put back; without a handler Python prints it past ours.
    library = logging.StreamHandler(stream or sys.stderr)
    library.setFormatter(handler.formatter)
    library.addFilter(_tells_more_than_no_memory)
    library.addFilter(logged_worker)
    logging.getLogger("sqlalchemy").handlers[:] = [library]
    _EACH.setLevel(logging.INFO if crawls else logging.WARNING)
