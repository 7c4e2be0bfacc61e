"""How pages are valued and hosts are asked, from settings."""

from crawld.config import Settings
from crawld.daemon.crawler import LIMITS
from crawld.daemon.stored_scheduler import Terms
from crawld.frontier.page_table import Intervals
from crawld.frontier.politeness import HostLimits
from crawld.policies import policies


def terms_of(settings: Settings) -> Terms:
    """What the settings say."""
    policy, limits = policies.choose(settings.policy), settings.politeness
    return Terms(
        valuation=None if policy.valuation is None else policy.valuation(),
        limits=HostLimits(limits.delay, limits.max_delay, limits.per_host),
        intervals=Intervals(longest=settings.max_interval, shortest=settings.min_interval),
        poll_share=settings.signals.share * LIMITS.exploring,
    )
