"""The forecast of a daemon that does not run: its pages, hosts and settings as the database has them."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from crawld.main.settings import Settings
from crawld.main.terms import terms_of
from crawld.model.fetched import IDLE, SKIPPED
from crawld.model.host import HostState
from crawld.show.control import BANDWIDTH
from crawld.show.stored_scheduler import StoredScheduler
from crawld.store.report import Reader

MEASURED_SECONDS = 7 * 86400.0
"""How far back the share of pages in all requests is looked for."""


async def stopped_forecast(reader: Reader, settings: Settings, rates: Sequence[float]) -> dict[str, Any]:
    """What the bandwidth that was set last and these rates would buy."""
    now = time.time()
    stored, curves = await reader.stored_pages()
    hosts = [
        HostState(
            row["host"],
            blocked=row["blocked"],
            failures=row["successive_failures"],
            delay=row["delay_seconds"],
            crawl_delay=row["crawl_delay_seconds"],
        )
        for row in await reader.hosts()
    ]
    pages = StoredScheduler(terms_of(settings), stored, hosts, curves)
    spent: Counter[str] = Counter()
    for row in await reader.slot_history(since=now - MEASURED_SECONDS, bucket=MEASURED_SECONDS):
        spent[row["use"]] += 0 if row["use"] in (IDLE, SKIPPED) else row["slots"]
    kept = await reader.setting(BANDWIDTH)
    bandwidth = settings.bandwidth if kept is None else float(kept)
    return await asyncio.to_thread(pages.forecast, bandwidth, rates, spent, now)
