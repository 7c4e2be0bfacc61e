"""The learner over a real store: what it believes, keeps and teaches, and that a restart loses nothing."""

import asyncio
import random
from pathlib import Path

import pytest

from crawld.crawl.learner import Learner
from crawld.model.crawl import Verdict
from crawld.model.signal import SOURCES
from crawld.store.store import SqlStore
from tests.support.hand_clock import HandClock
from tests.support.learning import DAY, RecordingSink, crawled
from tests.support.store_builders import NOW, record, rows


async def test_pages_with_news_are_fitted_kept_and_taught(tmp_path: Path) -> None:
    """After one round every page has an estimate, in the store and in the scheduler, and nothing is dirty."""
    store = await crawled(tmp_path, {1: [True] * 20, 2: [False] * 20, 3: []})
    sink = RecordingSink()
    learner = Learner(store, sink, HandClock(NOW + 21 * DAY))
    assert await learner.learn() == 3
    assert sink.believed[1].alpha > 5 * sink.believed[2].alpha
    assert (sink.believed[1].crawls, sink.believed[1].changes) == (20, 20)
    assert (sink.believed[3].crawls, sink.believed[3].changes) == (0, 0)
    stored = await store.restore()
    assert stored.shape.tolist() == pytest.approx([sink.believed[page].shape for page in (1, 2, 3)])
    assert stored.kappa[:, 0].tolist() == pytest.approx([sink.believed[page].kappa[0] for page in (1, 2, 3)])
    assert len(await store.dirty_pages(10)) == 0
    await store.close()


async def test_changes_are_weighed_by_their_share_of_the_text_where_asked_for(tmp_path: Path) -> None:
    """A page rewritten at each change counts more than one that is touched up, also after a restart."""
    store = await crawled(tmp_path, {1: [], 2: [], 3: [False]})
    for page, share in ((1, 0.9), (2, 0.01)):
        for day in range(1, 11):
            store.record(record(page, Verdict.CHANGED, at=NOW + day * DAY, tau=DAY, magnitude=share))
    await store.flush()
    plain, sink, recalled = RecordingSink(), RecordingSink(), RecordingSink()
    await Learner(store, plain, HandClock(NOW + 11 * DAY)).recall()
    await Learner(store, recalled, HandClock(NOW + 11 * DAY), significance=True).recall()
    await Learner(store, sink, HandClock(NOW + 11 * DAY), significance=True).learn()
    assert plain.significance == {}
    assert sink.significance[1] > 1.5 > sink.significance[3] > 0.5 > sink.significance[2]
    assert recalled.significance == pytest.approx(sink.significance)
    await store.close()


async def test_a_crawl_committed_while_learning_keeps_its_page_dirty(tmp_path: Path) -> None:
    """An estimate is as of the crawls it knows, so a later one is never overlooked."""
    store = await crawled(tmp_path, {1: [True, False]})
    clock = HandClock(NOW + 2 * DAY + 1.0)
    learner = Learner(store, RecordingSink(), clock)
    reading = store.histories

    async def interrupted(*args: object, **kwargs: object) -> object:
        histories = await reading(*args, **kwargs)  # type: ignore[arg-type]
        store.record(record(1, Verdict.CHANGED, at=clock.time + 0.5, tau=1.5))
        await store.flush()
        clock.time += 1.0
        return histories

    store.histories = interrupted  # type: ignore[assignment,method-assign]
    await learner.learn()
    assert (await store.dirty_pages(10)).tolist() == [1]
    await store.close()


async def test_a_restart_learns_what_was_left_and_nothing_twice(tmp_path: Path) -> None:
    """What was dirty when the process died is dirty for the next one; what was learnt is not."""
    store = await crawled(tmp_path, {1: [True], 2: [False]})
    await Learner(store, RecordingSink(), HandClock(NOW + DAY)).learn()
    store.record(record(2, Verdict.CHANGED, at=NOW + 2 * DAY, tau=DAY))
    await store.close()
    again = SqlStore(f"sqlite:///{tmp_path / 'crawld.db'}")
    await again.start()
    sink = RecordingSink()
    learner = Learner(again, sink, HandClock(NOW + 2 * DAY))
    await learner.learn()
    assert list(sink.believed) == [2]
    assert (sink.believed[2].crawls, sink.believed[2].changes) == (2, 1)
    await again.close()


async def test_siblings_are_fitted_again_when_their_host_turns_out_otherwise(tmp_path: Path) -> None:
    """A page without a history of its own comes to be believed like the rest of its host."""
    store = await crawled(tmp_path, {page: [True] * 10 for page in range(1, 41)} | {41: []})
    sink = RecordingSink()
    learner = Learner(store, sink, HandClock(NOW + 11 * DAY))
    await learner.learn()
    first = sink.believed[41].alpha
    while await learner.learn():
        pass
    assert sink.believed[41].alpha > 2 * first
    await store.close()


async def test_a_mass_change_makes_the_siblings_older(tmp_path: Path) -> None:
    """When pages of a host are found changed together, those not looked at since are taken to be older."""
    quiet = {page: [False] * 30 for page in range(1, 31)}
    store = await crawled(tmp_path, quiet)
    sink, clock = RecordingSink(), HandClock(NOW + 30 * DAY)
    learner = Learner(store, sink, clock)
    while await learner.learn():
        pass
    clock.time = NOW + 33 * DAY
    for page in range(1, 21):
        store.record(record(page, Verdict.CHANGED, at=clock.time, tau=3 * DAY))
    await store.flush()
    await learner.learn()
    assert sorted(sink.since) == list(range(21, 31))
    assert max(sink.since.values()) < NOW + 28.5 * DAY
    await store.close()


async def test_it_runs_until_cancelled_and_sleeps_between(tmp_path: Path) -> None:
    """The loop learns, sleeps its interval, and learns again."""
    store = await crawled(tmp_path, {1: [True]})
    sink, clock = RecordingSink(), HandClock(NOW + DAY)
    running = asyncio.create_task(Learner(store, sink, clock, interval=5.0).run())
    while clock.sleeps < 2:
        await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    assert 1 in sink.believed
    await store.close()


async def test_long_histories_are_learnt_in_pieces_without_a_pause(tmp_path: Path) -> None:
    """More observations than are read at once: every page is believed before the learner sleeps."""
    store = await crawled(tmp_path, {page: [True] * 190 for page in range(1, 121)})
    sink, clock = RecordingSink(), HandClock(NOW + 200 * DAY)
    running = asyncio.create_task(Learner(store, sink, clock).run())
    while not clock.sleeps:
        await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert sorted(sink.believed) == list(range(1, 121))
    await store.close()


async def test_pages_that_keep_to_their_rates_come_to_be_believed(tmp_path: Path) -> None:
    """Caution is taught at first; a host whose crawls were foretold by its pages' rates is freed of it, every page."""
    rng = random.Random(1)
    store = await crawled(tmp_path, {page: [rng.random() < 0.5 for _ in range(40)] for page in range(1, 31)})
    sink, clock = RecordingSink(), HandClock(NOW + 40 * DAY)
    learner = Learner(store, sink, clock)
    while await learner.learn():
        pass
    assert all(estimate.shape < 1.2 for estimate in sink.believed.values())
    for _ in range(5):
        clock.time += 6 * DAY
        for page in range(1, 31):
            verdict = Verdict.CHANGED if rng.random() > 0.5**6 else Verdict.UNCHANGED
            store.record(record(page, verdict, at=clock.time, tau=6 * DAY))
        await store.flush()
        while await learner.learn():
            pass
    assert all(estimate.shape > 5.0 for estimate in sink.believed.values())
    await store.close()


async def test_after_a_restart_the_same_beliefs_follow_from_the_stored_history(tmp_path: Path) -> None:
    """Clocks, heard signals and estimates are made again from what the database has."""
    rng = random.Random(2)
    store = await crawled(tmp_path, {page: [] for page in range(1, 31)})
    live, clock = RecordingSink(), HandClock(NOW)
    learner = Learner(store, live, clock)
    for day in range(1, 41):
        clock.time = NOW + day * DAY
        for page in range(1, 31):
            told = rng.random() < 0.3
            verdict = Verdict.CHANGED if told or day == 30 else Verdict.UNCHANGED
            signals = (int(told), *(0,) * (len(SOURCES) - 1))
            store.record(record(page, verdict, at=clock.time, tau=DAY, signals=signals))
        await store.flush()
        while await learner.learn():
            pass
    question = f"sqlite:///{tmp_path / 'crawld.db'}", "SELECT source, heard FROM signal_trust"
    heard = await rows(*question)
    assert [bool(one) for _, one in heard] == [True]
    sink = RecordingSink()
    again = Learner(store, sink, clock)
    await again.recall()
    while await again.learn():
        pass
    assert await rows(*question) == heard
    for page, estimate in sink.believed.items():
        assert estimate.kappa[0] == pytest.approx(live.believed[page].kappa[0], rel=0.2)
        assert estimate.alpha == pytest.approx(live.believed[page].alpha, rel=0.2)
    (host,) = live.curves
    assert (live.curves[host] is None) == (sink.curves[host] is None)
    await store.close()


async def test_pages_that_leave_are_forgotten_before_the_next_batch(tmp_path: Path) -> None:
    """A shard that another worker takes over leaves nothing behind; should it come back, it is learnt anew."""
    store, sink = await crawled(tmp_path, {1: [True, False], 2: [False, False]}), RecordingSink()
    try:
        learner = Learner(store, sink, HandClock(NOW + 10 * DAY))
        assert await learner.learn() == 2
        learner.forget([2])
        await learner.learn()
        assert learner.pages == 1
        await learner.recall()
        assert learner.pages == 2
    finally:
        await store.close()


async def test_a_learner_starts_from_what_others_have_taught(tmp_path: Path) -> None:
    """A worker's first pages are believed to be like the pages of other workers, until they show otherwise."""
    changing = {page: [True] * 10 for page in range(1, 9)}
    store = await crawled(tmp_path, changing)
    clock, alone, joined = HandClock(NOW + 20 * DAY), RecordingSink(), RecordingSink()
    other = Learner(store, alone, clock)
    await other.recall()
    for sink, hearing in ((alone, False), (joined, True)):
        place = tmp_path / str(hearing)
        place.mkdir()
        mine = await crawled(place, {1: [False]})
        learner = Learner(mine, sink, clock)
        if hearing:
            learner.hear(other.taught)
        await learner.learn()
        await mine.close()
    assert joined.believed[1].alpha > alone.believed[1].alpha
    await store.close()
