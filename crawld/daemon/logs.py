"""Log lines: one per crawl and per poll, as text for people or JSON for machines."""

import json
import logging
import sys
import time
from typing import TextIO

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
        return json.dumps(line, default=str, ensure_ascii=False)


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
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in text for c in ' "\n\t') else text


def configure(level: str, style: str, *, in_journal: bool, stream: TextIO | None = None) -> None:
    """Send crawld's log lines to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines(with_time=not in_journal))
    logger = logging.getLogger("crawld")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
