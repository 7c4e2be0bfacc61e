"""How pages are valued and hosts are asked, from settings."""

from crawld.choose import policies
from crawld.choose.host_gate import HostLimits
from crawld.choose.page_table import Intervals
from crawld.crawl.loop import LIMITS
from crawld.main.settings import Settings
from crawld.show.stored_scheduler import Terms


def terms_of(settings: Settings) -> Terms:
    """What the settings say."""
    policy, limits = policies.choose(settings.policy), settings.politeness
    return Terms(
        valuation=None if policy.valuation is None else policy.valuation(),
        limits=HostLimits(limits.delay, limits.max_delay, limits.per_host),
        intervals=Intervals(longest=settings.max_interval, shortest=settings.min_interval),
        poll_share=settings.signals.share * LIMITS.exploring,
    )
