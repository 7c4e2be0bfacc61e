"""Settings that are read again while the daemon runs: all or nothing, and the answer names what took effect."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from crawld.config import Settings, changes
from crawld.content.page.rules import rule_for
from crawld.daemon.control import Steering
from crawld.daemon.crawler import Crawler
from crawld.errors import ConfigError, CrawldError
from crawld.interfaces import Reload
from crawld.wiring.checks import check, digest_rules, set_up_logging

LIVE = frozenset({"bandwidth", "urls", "digest", "hooks", "audit.share", "signals.share", "log.level", "log.format"})
"""Settings that take effect when they are read again; the others wait for a restart."""


class UrlList(Protocol):
    """A list that can be taken over again."""

    async def load(self) -> None:
        """Take the list over as it is now."""


class Reloader:
    """Holds the settings in force, and applies new ones to the parts they concern."""

    def __init__(self, settings: Settings) -> None:
        self.settings = self._started_with = settings

    async def reload(
        self, read_settings: Callable[[], Settings] | None, url_list: UrlList, crawler: Crawler, steering: Steering
    ) -> Reload:
        """Take over settings and list as they are now; bad ones change nothing, and the answer says why."""
        old = self.settings
        try:
            new = old if read_settings is None else read_settings()
            if bad := check(new):
                raise ConfigError("\n".join(str(error) for error in bad))
            self.settings = new
            await url_list.load()
        except CrawldError as error:
            self.settings = old
            return Reload(refused=str(error))
        applied = [name for name in changes(old, new) if name in LIVE]
        crawler.change_rules(partial(rule_for, digest_rules(new)))
        crawler.poll_share.share, crawler.audit_share.share = new.signals.share, new.audit.share
        set_up_logging(new)
        if "bandwidth" in applied:
            await steering.change_bandwidth(new.bandwidth)
        return Reload(applied, [name for name in changes(self._started_with, new) if name not in LIVE])
