"""What a world's sitemaps say at a moment: of each page, the lastmod that the last signal published."""

from datetime import UTC, datetime, timedelta

import numpy as np

from crawld.research.world import World

BEFORE = 30 * 86_400.0
"""Seconds before the site began that pages claim for their last change, until a signal says otherwise."""
FIRST_DAY = datetime(2100, 1, 1, tzinfo=UTC)
"""Where a sitemap knows days only: the world's first day. Its days pass in seconds, so no real date would do."""


class Lastmods:
    """The lastmods of every page; `began` is when the world's time began, in UTC seconds.

    A signal that claims a moment is written as that moment. One that claims a day is written as a date far ahead, which
    a crawler takes for no claim: it tells by changing, as a date within one day does. One that claims nothing is
    written as a text that is no date.
    """

    def __init__(self, world: World, began: float) -> None:
        self._began = began
        order = np.argsort(world.signal_pages, kind="stable")  # signals are in the order of their arrival
        pages = world.population.pages
        self._offsets = np.searchsorted(world.signal_pages[order], np.arange(pages + 1))
        self._listed = np.zeros(pages, bool) if world.listed is None else world.listed
        self._times = world.signal_times[order]
        claims = world.signal_times if world.signal_claims is None else world.signal_claims
        spans = np.zeros(len(claims)) if world.signal_spans is None else world.signal_spans
        self._claims, self._spans = claims[order], spans[order]

    def text(self, page: int, now: float) -> str | None:
        """The lastmod of a page at a moment of the world; None where the sitemap has none yet."""
        start, end = self._offsets[page], self._offsets[page + 1]
        published = int(np.searchsorted(self._times[start:end], now, side="right"))
        if not published:
            return self._moment(-BEFORE) if self._listed[page] else None
        row = start + published - 1
        claim, span = float(self._claims[row]), float(self._spans[row])
        if np.isnan(claim):
            return f"unknown ({published})"
        if span > 0:
            return f"{FIRST_DAY + timedelta(days=int(claim // span)):%Y-%m-%d}"
        return self._moment(claim)

    def _moment(self, seconds: float) -> str:
        return datetime.fromtimestamp(self._began + seconds, UTC).isoformat(timespec="milliseconds")
