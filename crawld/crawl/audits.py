"""Measured freshness: pages drawn at random by importance, crawled, and compared with what we held."""

import math
from collections import deque

from crawld.choose.pacer import Share
from crawld.model.crawl import AUDITS_KEPT

Z95 = 1.959963984540054


class Audits:
    """The latest audits and what they say. Each draw is by importance, so their plain mean is without bias."""

    def __init__(self, share: float = 0.0, *, window: int = AUDITS_KEPT) -> None:
        """`share` is the part of the slots that audits may take."""
        self.share = Share(share)
        self._fresh: deque[bool] = deque(maxlen=window)

    def __len__(self) -> int:
        return len(self._fresh)

    def record(self, *, fresh: bool) -> None:
        """Note whether the copy of a page that was drawn still equalled the page."""
        self._fresh.append(fresh)

    def measured(self) -> tuple[float, float, float] | None:
        """Mean freshness of the latest audits with its 95 % interval (Wilson); None without audits."""
        n = len(self._fresh)
        if n == 0:
            return None
        mean = sum(self._fresh) / n
        centre = (mean + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
        half = Z95 * math.sqrt(mean * (1 - mean) / n + Z95**2 / (4 * n * n)) / (1 + Z95**2 / n)
        return mean, max(0.0, centre - half), min(1.0, centre + half)
