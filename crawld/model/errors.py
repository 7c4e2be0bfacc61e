"""Errors that crawld raises on purpose: each sentence says what was wrong, where, and what to do."""


class CrawldError(Exception):
    """A mistake or a broken machine that a person has to know of; its text is shown as it is."""


class ConfigError(CrawldError):
    """The settings cannot be used; the text lists every error with its path."""


class AccessError(CrawldError):
    """The system lets this user not use a file of the daemon's; the text names who may."""


class InputError(CrawldError):
    """Something given by a person (a URL, a rate, a list) cannot be read."""


class StoreError(CrawldError):
    """The database cannot be used: newer than this program, in use, broken, or not reachable."""


class DamagedError(StoreError):
    """The database is damaged: nothing more is written to it, and another start would meet the same damage."""


class ClockError(StoreError):
    """The machine's clock differs too much from the database's; the worker stays out until it is set."""


class DutyLostError(CrawldError):
    """Another worker does for the fleet what this one was about to write; nothing of it was written."""


class ParseError(CrawldError):
    """A sitemap, feed or robots.txt that cannot be read; the text names the reason."""


class TooCostlyError(CrawldError):
    """Foreign bytes that took more time or memory to read than they may; the text says which limit was met."""


class UnsentError(CrawldError):
    """A request was given up before a byte of it left, because the right to send it had ended."""
