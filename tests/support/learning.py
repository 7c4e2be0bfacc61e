"""A store with a history of crawls and a sink for estimates: what a learner needs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from crawld.model.crawl import Verdict
from crawld.model.estimate import AgeCurve, Estimate, Floats
from crawld.store.store import SqlStore
from tests.support.store_builders import NOW, record, wanted

DAY = 86400.0


class RecordingSink:
    """Remembers the latest estimate of each page it was taught."""

    def __init__(self) -> None:
        self.believed: dict[int, Estimate] = {}
        self.since: dict[int, float] = {}
        self.curves: dict[str, AgeCurve | None] = {}
        self.significance: dict[int, float] = {}

    def learn(self, estimates: Sequence[Estimate]) -> None:
        """Take them over."""
        self.believed |= {estimate.page_id: estimate for estimate in estimates}

    def shift(self, page_ids: Sequence[int], last: Floats, since: Floats) -> None:
        """Take them over too."""
        self.since |= zip(page_ids, since.tolist())

    def set_age_curve(self, curves: Mapping[str, AgeCurve | None]) -> None:
        """And these."""
        self.curves = dict(curves)

    def signify(self, page_ids: Sequence[int], significance: Floats) -> None:
        """And this."""
        self.significance |= zip(page_ids, significance.tolist())


async def crawled(path: Path, changed: Mapping[int, Sequence[bool]]) -> SqlStore:
    """A store in which page i was crawled daily with those findings."""
    store = SqlStore(f"sqlite:///{path / 'crawld.db'}")
    await store.start()
    await store.adopt(wanted(*map(str, changed)), origin="list", now=NOW)
    for page, findings in changed.items():
        store.record(record(page, Verdict.NEW, at=NOW))
        for day, found in enumerate(findings, start=1):
            verdict = Verdict.CHANGED if found else Verdict.UNCHANGED
            store.record(record(page, verdict, at=NOW + day * DAY, tau=DAY))
    await store.flush()
    return store
