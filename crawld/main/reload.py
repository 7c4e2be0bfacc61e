"""Settings that are read again while the daemon runs: all or nothing, and the answer names what took effect."""

from collections.abc import Callable
from typing import Protocol

from crawld.crawl.loop import Crawler
from crawld.main.checks import check, digest_rules, set_up_logging
from crawld.main.settings import Settings, changes
from crawld.model.errors import ConfigError, CrawldError
from crawld.pages.list_file import ListNews
from crawld.read.page.rules import DigestRules
from crawld.show.actions import Reload
from crawld.show.control import Steering

LIVE = frozenset(
    {
        "bandwidth",
        "urls",
        "max_removed",
        "digest",
        "hooks",
        "credentials",
        "signing.agent",
        "signing.key_file",
        "signing.seconds",
        "signing.form",
        "audit.share",
        "read_through.share",
        "signals.share",
        "log.level",
        "log.format",
        "log.crawls",
    }
)
"""Settings that take effect when they are read again; the others wait for a restart."""


class ReloadableList(Protocol):
    """A list that can be taken over again."""

    async def load(self, *, retire: bool = False) -> ListNews | None:
        """Take the list over as it is now; what it did since the last time, or None where there is no list."""


class Reloader:
    """Holds the settings in force, and applies new ones to the parts they concern."""

    def __init__(self, settings: Settings) -> None:
        self.settings = self._started_with = settings
        self.rules = DigestRules(digest_rules(settings))

    async def reload(
        self,
        read_settings: Callable[[], Settings] | None,
        url_list: ReloadableList,
        crawler: Crawler,
        steering: Steering,
        *,
        retire: bool = False,
    ) -> Reload:
        """Take over settings and list as they are now; bad ones change nothing, and the answer says why."""
        old = self.settings
        try:
            new = old if read_settings is None else read_settings()
            if bad := check(new):
                raise ConfigError("\n".join(str(error) for error in bad))
            self.settings = new
            listed = await url_list.load(retire=retire)
        except CrawldError as error:
            self.settings = old
            return Reload(refused=str(error))
        applied = [name for name in changes(old, new) if name in LIVE]
        self.rules.rules = digest_rules(new)
        crawler.change_shares(new.signals.share, new.audit.share, new.read_through.share)
        set_up_logging(new)
        if "bandwidth" in applied:
            await steering.change_bandwidth(new.bandwidth)
        waiting = [name for name in changes(self._started_with, new) if name not in LIVE]
        return Reload(applied, waiting, listed=listed)
