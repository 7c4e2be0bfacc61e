"""What waits to be committed: crawls before signals, and each page's items in their order."""

from crawld.model.crawl import Crawl, Verdict
from crawld.model.page import PageState
from crawld.model.signal import Signal, Source
from crawld.store.batch import Item, Record
from crawld.store.commit_queue import LIMITS as COMMIT_QUEUE_LIMITS
from crawld.store.commit_queue import CommitQueue


def crawl(page: int, at: float = 0.0) -> Record:
    """A crawl of a page."""
    return Record(Crawl(page, at, Verdict.UNCHANGED), PageState.LIVE, body=b"12345")


def signal(page: int, at: float = 0.0) -> Signal:
    """A signal for a page."""
    return Signal(page, Source.SITEMAP, at)


def items(queue: CommitQueue) -> list[Item]:
    """The next batch, settled at once."""
    taken = queue.take()
    queue.settle(taken)
    return [queued.item for queued in taken]


def test_a_flood_of_signals_does_not_delay_crawls() -> None:
    """A crawl that comes after fifty thousand signals is in the next batch, which stays small."""
    queue = CommitQueue()
    for page in range(50_000):
        queue.put(signal(page))
    queue.put(crawl(60_000))
    batch = items(queue)
    assert batch[0] == crawl(60_000)
    assert len(batch) <= 1 + COMMIT_QUEUE_LIMITS.signals_at_once


def test_signals_are_committed_in_the_end() -> None:
    """Without crawls batches are of signals alone, until none is left."""
    queue = CommitQueue()
    for page in range(2_000):
        queue.put(signal(page))
    batches = []
    while queue:
        batches.append(items(queue))
    assert sum(map(len, batches)) == 2_000
    assert max(map(len, batches)) <= COMMIT_QUEUE_LIMITS.max_batch
    assert (len(queue), queue.signals, queue.bytes) == (0, 0, 0)


def test_what_concerns_one_page_keeps_its_order() -> None:
    """A crawl takes the signals along that came before it, and none that came after."""
    queue = CommitQueue()
    before, between, after = signal(1, 1.0), crawl(1, 2.0), signal(1, 3.0)
    for item in (before, between, after):
        queue.put(item)
    assert items(queue) == [before, between, after]
    queue.put(signal(2, 1.0))
    queue.put(crawl(1, 4.0))
    queue.put(crawl(2, 5.0))
    assert items(queue) == [crawl(1, 4.0), signal(2, 1.0), crawl(2, 5.0)]


def test_items_that_were_put_back_come_first() -> None:
    """A batch that could not be committed is taken again, whole and in order, and counts all the while."""
    queue = CommitQueue()
    for at in range(3):
        queue.put(crawl(at, float(at)))
    taken = queue.take()
    assert (len(queue), queue.bytes, bool(queue)) == (3, 15, False)
    queue.put(crawl(9))
    queue.put_back(taken)
    assert items(queue) == [crawl(0, 0.0), crawl(1, 1.0), crawl(2, 2.0), crawl(9)]


def test_waiting_for_an_item_waits_for_all_before_it() -> None:
    """The queue holds a number for as long as an item with it or a smaller one is not settled."""
    queue = CommitQueue()
    queue.put(signal(1))
    queue.put(crawl(2))
    mark = queue.last
    taken = queue.take()
    queue.settle([queued for queued in taken if isinstance(queued.item, Record)])
    assert queue.holds(mark)
    queue.settle([queued for queued in taken if isinstance(queued.item, Signal)])
    queue.put(crawl(3))
    assert not queue.holds(mark)
