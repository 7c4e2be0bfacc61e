"""The URL list over a real store: taken over once, in pieces, and never left half believed."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from crawld.choose import policies
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.scheduler import Scheduler
from crawld.model.clock import SystemClock
from crawld.model.errors import InputError
from crawld.model.page import BY_HAND, Wanted
from crawld.pages.list_file import TAKEN_OVER, ListFile
from crawld.pages.page_set import PageSet
from crawld.pages.pages import Pages
from crawld.pages.status import Counters
from crawld.signals.poll_signals import PageIndex
from crawld.store.store import SqlStore


class Started:
    """What a daemon has of its list, over the database of a folder."""

    def __init__(self, folder: Path, first_wait: float) -> None:
        self.file = folder / "urls.txt"
        self.reads = 0
        clock = SystemClock()
        gate = HostGate(HostLimits(0.0, 60.0, 1), random.Random(1))
        self.scheduler = Scheduler(policies.choose("greedy-ncis").chooser(bandwidth=10.0, gate=gate))
        self.store = SqlStore(f"sqlite:///{folder / 'x.db'}")
        self.page_set = PageSet(self.store, Pages(), self.scheduler, gate, PageIndex())
        self.status = Counters(0.0)
        self.list = ListFile(
            lambda: (str(self.file), 0.1),
            self._read,
            self.page_set,
            clock,
            self.status,
            first_wait=first_wait,
        )

    def _read(self) -> None:
        self.reads += 1

    def write(self, names: Iterable[object]) -> None:
        """List these pages."""
        self.file.write_text("".join(f"https://example.org/{name}\n" for name in names))


@asynccontextmanager
async def started(folder: Path, first_wait: float = 60.0) -> AsyncIterator[Started]:
    """A start with the database of the folder, and its end."""
    parts = Started(folder, first_wait)
    await parts.store.start()
    await parts.page_set.restore(0.0)
    try:
        yield parts
    finally:
        await parts.store.close()


async def test_a_restart_with_the_same_list_has_nothing_to_do(tmp_path: Path) -> None:
    """A page removed by hand stays away until the list has changed, or is read on request."""
    async with started(tmp_path) as first:
        first.write("abc")
        await first.list.begin()
        assert len(first.scheduler) == 3
        await first.page_set.retire(["https://example.org/a"], now=0.0)
    async with started(tmp_path) as second:
        await second.list.begin()
        await second.list.load_changed()
        assert (second.reads, len(second.scheduler)) == (2, 2)
        await second.list.load()
        assert len(second.scheduler) == 3
    async with started(tmp_path) as third:
        third.write("bcdef")
        await third.list.begin()
        assert {page.url[-1] for page in third.page_set.pages()} == set("bcdef")


async def test_a_long_list_is_taken_over_while_the_daemon_serves(tmp_path: Path) -> None:
    """The start does not wait for it; pages come in piece by piece, and those no longer listed leave."""
    async with started(tmp_path) as first:
        first.write(range(100))
        await first.list.begin()
    async with started(tmp_path, first_wait=0.0) as second:
        second.write(range(10, 10_010))
        await second.list.begin()
        sizes = [len(second.scheduler)]
        running = asyncio.create_task(second.list.run())
        begun = asyncio.create_task(second.list.begun())
        while not begun.done():
            await asyncio.sleep(0)
            if len(second.scheduler) != sizes[-1]:
                sizes.append(len(second.scheduler))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert sizes[0] == 100
        assert len(sizes) >= 5
        assert sizes[-1] == len(second.scheduler) == 10_000


async def test_a_list_that_was_cut_short_is_taken_over_again(tmp_path: Path) -> None:
    """Whoever dies halfway and is then given the list of before does not take that for what the database holds."""
    async with started(tmp_path) as first:
        first.write(range(10))
        await first.list.begin()
    async with started(tmp_path, first_wait=0.0) as second:
        second.write(range(20_000))
        await second.list.begin()
        running = asyncio.create_task(second.list.run())
        while len(second.scheduler) == 10:
            await asyncio.sleep(0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert await second.store.setting(TAKEN_OVER) is None
    async with started(tmp_path) as third:
        assert 10 < len(third.scheduler) < 20_000
        third.write(range(10))
        await third.list.begin()
        assert 10 < len(third.scheduler) < 20_000  # more go than may go at once
        await third.list.load(retire=True)
        assert len(third.scheduler) == 10


async def test_a_list_of_nothing_is_refused_also_where_the_start_did_not_wait(tmp_path: Path) -> None:
    """The daemon's loop ends with the sentence."""
    async with started(tmp_path, first_wait=0.0) as parts:
        parts.file.write_text("ftp://example.org/\n")
        with suppress(InputError):  # said at once where it was found out in time
            await parts.list.begin()
        with pytest.raises(InputError, match="1 bad"):
            await parts.list.run()


async def test_a_list_that_was_cut_short_empties_nothing(tmp_path: Path) -> None:
    """More than a tenth of the pages stays until told to go; a restart says so again, and a mended list ends it."""
    async with started(tmp_path) as first:
        first.write(range(100))
        await first.list.begin()
        assert first.status.list_held_back is None
        first.write([*range(50), "new"])
        await first.list.load_changed()
        assert len(first.scheduler) == 101
        assert "50 pages" in str(first.status.list_held_back)
        news = await first.list.load()
        assert news is not None
        assert (news.added, news.removed) == (1, 0)
        assert "crawld reload --yes" in news.sentence
    async with started(tmp_path) as again:
        await again.list.begin()
        assert len(again.scheduler) == 101
        assert "50 pages" in str(again.status.list_held_back)
        again.write([*range(100), "new"])
        await again.list.load_changed()
        assert again.status.list_held_back is None
        again.write([*range(50), "new"])
        told = await again.list.load(retire=True)
        assert told is not None
        assert told.sentence == "0 added, 50 removed"
        assert len(again.scheduler) == 51
        assert again.status.list_held_back is None


async def test_a_short_list_may_change_as_it_likes(tmp_path: Path) -> None:
    """Ten pages may go whatever share they are, and what the list did is told once."""
    async with started(tmp_path) as first:
        first.write(range(12))
        await first.list.begin()
        first.write([0, 1, "x", "y", "z"])
        await first.list.load_changed()
        news = await first.list.load()
        assert news is not None
        assert news.sentence == "3 added, 10 removed"
        assert len(first.scheduler) == 5
        news = await first.list.load()
        assert news is not None
        assert news.sentence == "nothing added or removed"


async def test_a_page_that_is_kept_out_stays_out(tmp_path: Path) -> None:
    """No list brings it back until it is readmitted; adding it by hand ends that, too."""
    url = "https://example.org/1"
    async with started(tmp_path) as first:
        first.write(range(3))
        await first.list.begin()
        assert await first.page_set.retire([url], now=1.0, keep_out=True) == [url]
        await first.list.load()
        assert len(first.scheduler) == 2
        assert await first.store.readmit([url, "https://example.org/2"]) == [url]
        await first.list.load()
        assert len(first.scheduler) == 3
        await first.page_set.retire([url], now=2.0, keep_out=True)
        await first.page_set.adopt([Wanted(url)], origin=BY_HAND, now=3.0, complete=False)
        assert len(first.scheduler) == 3
        assert await first.store.readmit([url]) == []
