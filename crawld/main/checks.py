"""What settings must fulfil before a daemon is built from them."""

import os
import socket
from collections.abc import Callable, Sequence
from functools import cache, partial

from crawld import __version__
from crawld.fetch.identity import check_user_agent
from crawld.main.hooks_of_wiring import check_hooks
from crawld.main.identity_of_wiring import make_credentials, make_signer
from crawld.main.settings import Settings
from crawld.model.errors import ConfigError, CrawldError, InputError
from crawld.model.logs import configure
from crawld.model.units import many
from crawld.read.page.rules import DigestRule
from crawld.store.address import parse_address


def user_agent(settings: Settings) -> str:
    """Who we say we are: as set, or our name with the webmaster of this machine as contact."""
    return settings.user_agent or f"crawld/{__version__} (+mailto:webmaster@{_own_name()})"


@cache
def _own_name() -> str:
    """The name of this machine, looked up once: that may take seconds, and a reload must not stop the crawl."""
    return socket.getfqdn() or "localhost"


def digest_rules(settings: Settings) -> Sequence[DigestRule]:
    """The rules for what counts as a change; ConfigError that names every one that cannot be used."""
    rules, bad = [], []
    for at, rule in enumerate(settings.digest):
        try:
            rules.append(DigestRule(**rule.model_dump()))
        except InputError as error:
            bad.append(f"  digest[{at}]: {error}")
    if bad:
        raise ConfigError(f"{many(len(bad), 'setting')} cannot be used:\n" + "\n".join(bad))
    return rules


def check(settings: Settings) -> Sequence[CrawldError]:
    """Everything that would keep a daemon from being built from these settings."""
    questions: list[Callable[[], object]] = [
        partial(digest_rules, settings),
        lambda: check_user_agent(user_agent(settings)),
        lambda: parse_address(settings.database),
        partial(check_hooks, settings),
        partial(make_credentials, settings),
        partial(make_signer, settings),
    ]
    found: list[CrawldError] = []
    for question in questions:
        try:
            question()
        except CrawldError as error:
            found.append(error)
    return found


def set_up_logging(settings: Settings) -> None:
    """Log lines as the settings ask for them."""
    given = settings.log
    configure(given.level, given.format, crawls=given.crawls, in_journal="JOURNAL_STREAM" in os.environ)
