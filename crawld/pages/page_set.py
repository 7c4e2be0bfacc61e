"""The set of pages: brings the store, the pages in memory and the scheduler to the same list."""

import asyncio
import ctypes
import gc
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np

from crawld.choose.freshness import SKEW
from crawld.choose.host_gate import HostGate
from crawld.choose.scheduler import Arrivals, Scheduler
from crawld.model.estimate import Floats, Ints
from crawld.model.host import HostState
from crawld.model.page import FROM_MOVE, MAX_IMPORTANCE, Page, PageState, Wanted
from crawld.model.units import LIMITS as UNITS_LIMITS
from crawld.model.units import format_duration
from crawld.pages.aliases import Aliases, Index
from crawld.pages.pages import Pages
from crawld.store.pages import Adoption, MayRetire, always
from crawld.store.restoring import StoredPages
from crawld.store.store import SqlStore


@dataclass(frozen=True)
class PageSetLimits:
    """Numbers that bound and tune this module."""

    indexed_at_once: int = 1000
    index_pause: float = 0.01
    many_lines: int = 10_000
    taken_at_once: int = 1_000
    """Pages that are taken in or forgotten in one turn of the loop: some 10 ms."""
    young_objects: int = 10_000
    """New objects between two looks of the garbage collector; at Python's own 700 they take a tenth of a busy
    daemon."""
    mapped_bytes: int = 1 << 20
    """Size from which glibc maps a block by itself and unmaps it once free; left alone, it raises this to 32 MB."""
    heaps: int = 2
    """Heaps that the threads share; glibc's own eight for each core each keep what was freed within them."""


LIMITS = PageSetLimits()


def bound_waste() -> None:
    """Have freed memory given back to the system, and the garbage collector run seldom.

    Columns of a million pages are copied now and then, in several threads; without this a third of the daemon's memory
    were holes that such copies left.
    """
    gc.set_threshold(LIMITS.young_objects)
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(-3, LIMITS.mapped_bytes)  # M_MMAP_THRESHOLD of glibc's malloc.h
        tune(-8, LIMITS.heaps)  # M_ARENA_MAX


def give_back() -> None:
    """Give back what is free within the heap; only glibc keeps it, so elsewhere there is nothing to do.

    A start reads a million rows: what they took, twice what stays, would count as the daemon's for as long as it runs.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


log = logging.getLogger("crawld")


class PageSet:
    """Takes pages in and out; the store first, memory after, so that a crash in between loses nothing."""

    def __init__(
        self,
        store: SqlStore,
        pages: Pages,
        scheduler: Scheduler,
        gate: HostGate,
        index: Index,
        aliases: Aliases | None = None,
        on_listed: Callable[[Sequence[int]], None] = lambda _: None,
    ) -> None:
        """`on_listed` is told of pages that links alone had kept before they were listed."""
        self._index = index
        self.aliases = aliases or Aliases(pages, scheduler, index)
        self._unindexed: Ints = np.zeros(0, dtype=np.int64)  # ids of pages
        self.store, self.in_memory, self.scheduler = store, pages, scheduler
        self._gate, self._on_listed = gate, on_listed
        self.on_restored: Callable[[int, int], None] = lambda *_: None  # told how many pages are back, of how many
        self.keeps: Callable[[int], bool] = lambda _: True  # whether a page, by its id, is one to keep in memory

    def pages(self) -> Sequence[Page]:
        """Every page that is kept fresh."""
        return list(self.in_memory)

    async def restore(self, now: float) -> int:
        """Take in everything the store knows; how many pages that are.

        Where the clock was set back meanwhile, crawls are from the future: their pages wait as if crawled now, and the
        age of their copies is unknown.
        """
        bound_waste()
        gc.freeze()  # what stays is left out of later collections, which would stop the loop to look through it
        count = await self._restore(now)
        gc.freeze()
        for _ in self.scheduler.look_over(now):
            await asyncio.sleep(0)
        await asyncio.to_thread(give_back)
        return count

    async def _restore(self, now: float) -> int:
        aliases: dict[int, int] = {}
        count, newest = 0, -math.inf
        expected = await self.store.count_pages()
        self.scheduler.reserve(expected + expected // 32)  # and for some more: to grow copies everything
        async with aclosing(self.store.restoring()) as parts:
            async for stored in parts:
                self._put_back(stored, now)
                aliases |= {page: of for page, of in zip(stored.ids.tolist(), stored.alias_of, strict=True) if of}
                newest = max(newest, float(np.fmax.reduce(stored.last_attempt, initial=-math.inf)))
                count += len(stored.ids)
                self.on_restored(count, max(count, expected))
        for at, state in enumerate(await self.store.hosts()):  # after those of pages: of others the gate keeps a few
            self._gate.restore(_usable(state))
            if at % LIMITS.taken_at_once == 0:
                await asyncio.sleep(0)
        self._put_aliases(aliases)
        for host, curve in (await self.store.age_curves()).items():
            self.scheduler.set_age_curve(self._gate.host_of_pages(host), curve)
        self._unindexed = self.scheduler.ids()
        _check_clock(newest, now)
        return count

    def _put_back(self, stored: StoredPages, now: float) -> None:
        """Take pages in as the store knows them."""
        bad = ~((stored.importance > 0) & (stored.importance <= MAX_IMPORTANCE))
        if bad.any():
            log.warning(
                "importances kept from earlier cannot be used: 1 holds instead", extra={"pages": int(bad.sum())}
            )
            stored.importance[bad] = 1.0
        hosts = {name: self._gate.host_of_pages(name) for name in set(stored.hosts)}
        for start in range(0, len(stored.ids), LIMITS.taken_at_once):
            some = slice(start, start + LIMITS.taken_at_once)
            weights = stored.importance[some].tolist()
            columns = zip(stored.ids[some].tolist(), stored.urls[some], stored.hosts[some], weights, strict=True)
            pages = [Page(*fields) for fields in columns]
            self.in_memory.put_all(pages, stored.states[some], stored.failures[some].tolist())
        self.in_memory.restore_turned_away(stored.turned_away)
        indices = np.array([hosts[name] for name in stored.hosts], dtype=np.int64)
        self._gate.remember_answers(np.unique(indices[~np.isnan(stored.last_success)]))
        last, waits = np.minimum(stored.last_success, now), self._waits(stored, now)
        self.scheduler.add(replace(arrivals_of(stored, indices, waits), last=last, copied=stored.last_success))

    def _put_aliases(self, aliases: Mapping[int, int]) -> None:
        """Let pages that are here stand for others again; the page of one that is to do so no longer may be gone."""
        for page_id, of in aliases.items():
            if page_id in self.scheduler:
                self.aliases.put(page_id, of)
                if self.aliases.doubted(page_id):
                    self.aliases.doubt(page_id)

    def _waits(self, stored: StoredPages, now: float) -> Floats:
        """Returns when each page may be asked again: a restart forgives no failing page its back-off."""
        attempts = np.minimum(stored.last_attempt, now).tolist()
        return np.array(
            [
                -math.inf if math.isnan(at) else self.in_memory.wait_after(page_id, state, at)
                for page_id, state, at in zip(stored.ids.tolist(), stored.states, attempts, strict=True)
            ]
        )

    async def load(self, stored: StoredPages, now: float, wanted: Callable[[int], bool] = lambda _: True) -> None:
        """Take in pages as the store knows them, some at a time; those that are here already stay as they are.

        Whether a page is wanted is asked at the very moment at which it would be taken in.
        """
        for start in range(0, len(stored.ids), LIMITS.taken_at_once):
            some = stored.part(slice(start, start + LIMITS.taken_at_once))
            new = [page_id not in self.scheduler and wanted(page_id) for page_id in some.ids.tolist()]
            if not all(new):
                some = some.part(np.array(new))
            for name in dict.fromkeys(some.hosts):
                self._gate.host_of_pages(name)
            self._put_back(some, now)
            self._index.put([self.in_memory[page_id] for page_id in some.ids.tolist()])
            self.aliases.more_listed()
            await asyncio.sleep(0)
        self._put_aliases({page: of for page, of in zip(stored.ids.tolist(), stored.alias_of, strict=True) if of})

    def hosts_of(self, page_ids: Sequence[int]) -> set[str]:
        """The hosts of those of these pages that are here."""
        return {page.host for page_id in page_ids if (page := self.in_memory.get(page_id)) is not None}

    async def drop_idle(self, page_ids: Sequence[int]) -> list[int]:
        """Forget those of these pages that are not out being crawled, some at a time; the others."""
        left: list[int] = []
        for start in range(0, len(page_ids), LIMITS.taken_at_once):
            some = [page_id for page_id in page_ids[start : start + LIMITS.taken_at_once] if page_id in self.scheduler]
            held = [page_id for page_id in some if self.scheduler.held(page_id)]
            self._drop(set(some).difference(held), retired=False)
            left += held
            await asyncio.sleep(0)
        return left

    @property
    def indexed(self) -> bool:
        """Tells whether signals can find every page that was restored."""
        return not len(self._unindexed)

    async def index(self) -> None:
        """Let signals find the restored pages, a few at a time, so that a million of them delay no slot."""
        while len(self._unindexed):
            some = self._unindexed[-LIMITS.indexed_at_once :].tolist()
            self._index.put([page for page_id in some if (page := self.in_memory.get(page_id)) is not None])
            self.aliases.more_listed()
            self._unindexed = self._unindexed[: -LIMITS.indexed_at_once]
            await asyncio.sleep(LIMITS.index_pause)
        await asyncio.to_thread(give_back)

    async def adopt(
        self,
        wanted: Sequence[Wanted],
        *,
        origin: str,
        now: float,
        complete: bool = True,
        kept: Ints | None = None,
        may_retire: MayRetire = always,
        progress: Callable[[int], None] = lambda _: None,
        first_visit: float = -math.inf,
    ) -> Adoption:
        """Take over a URL list while running; `progress` is told after how many lines.

        `kept` are pages that the list names as they are. New pages are not picked before the time of `first_visit`.
        """
        parts: list[Adoption] = []
        lines = 0
        parts_of = self.store.adopting(
            wanted, origin=origin, now=now, complete=complete, kept=kept, may_retire=may_retire
        )
        async with aclosing(parts_of) as adopting:
            async for part in adopting:
                await self._follow(part, now, first_visit)
                parts.append(part)
                lines += part.lines
                progress(lines)
        await self.retire_left(now)
        if lines >= LIMITS.many_lines:
            gc.freeze()  # or a collection would stop the loop for as long as it takes to look through them all
        return Adoption.of(parts)

    async def _follow(self, adoption: Adoption, now: float, first_visit: float) -> None:
        """Bring memory to what the store has done; pages that were here before come back with what is known of them."""
        returned = [page for page in adoption.returned if page.id not in self.scheduler and self.keeps(page.id)]
        if returned:
            await self.load(await self.store.restore([page.id for page in returned]), now, self.keeps)
        self._take_in([page for page in adoption.added if self.keeps(page.id)], first_visit)
        self._change(adoption.reweighted, adoption.respelt)
        self._on_listed(adoption.listed)
        for page_id in adoption.listed:
            self.scheduler.lift(page_id, -math.inf)
        self._drop([page.id for page in adoption.retired])

    def _change(self, reweighted: Sequence[Page], respelt: Sequence[Page] = ()) -> None:
        """Take over another importance or spelling of pages that are here."""
        known = [page for page in (*reweighted, *respelt) if page.id in self.scheduler]
        self.in_memory.put_all(known, [PageState.WAITING] * len(known), [0] * len(known))
        here = [page for page in reweighted if page.id in self.scheduler]
        self.scheduler.reweight([page.id for page in here], np.array([page.importance for page in here]))

    async def renew(self, page_ids: Sequence[int], now: float) -> None:
        """Bring memory to what the store says of these pages: they came, went, or weigh otherwise."""
        stored = await self.store.restore(page_ids)
        here = [page_id for page_id in page_ids if page_id in self.scheduler]
        self._drop(set(here).difference(stored.ids.tolist()))
        columns = zip(stored.ids.tolist(), stored.urls, stored.hosts, stored.importance.tolist(), strict=True)
        self._change([Page(*fields) for fields in columns if fields[0] in self.scheduler])
        await self.load(stored, now, self.keeps)
        await self.retire_left(now)

    async def retire(self, urls: Sequence[str], *, now: float, keep_out: bool = False) -> Sequence[str]:
        """Retires these pages, whatever listed them; returns the URLs of those that were here."""
        gone = await self.store.retire(urls, now=now, keep_out=keep_out)
        self._drop([page.id for page in gone])
        await self.retire_left(now)
        return [page.url for page in gone]

    async def retire_left(self, now: float) -> None:
        """Retire pages that were kept only because others had moved there, once none of those is left."""
        while left := [page_id for page_id in self.aliases.left if not self.scheduler.aliases_of(page_id)]:
            self.aliases.left.clear()
            self._drop([page.id for page in await self.store.retire_moved(left, now=now)])
        self.aliases.left.clear()

    async def settle_at(self, url: str, importance: float, now: float) -> Page | None:
        """The page of a URL that another page moved to, taken in where it is not listed; None where it is not ours."""
        added = await self.adopt([Wanted(url, importance)], origin=FROM_MOVE, now=now, complete=False)
        for page in (*added.added, *added.returned):
            log.info("page moved", extra={"url": page.url})
        return self.aliases.find(url)

    def _drop(self, page_ids: Iterable[int], *, retired: bool = True) -> None:
        """Forget pages: retired ones, or those that another worker holds now."""
        here = [page_id for page_id in page_ids if page_id in self.scheduler]
        self.aliases.drop(here, retired=retired)
        self.scheduler.retire(here)
        self.in_memory.drop(here)
        self._index.drop(here)

    def _take_in(self, pages: Sequence[Page], first_visit: float) -> None:
        new = [page for page in pages if page.id not in self.scheduler]
        self.in_memory.put_all(new, [PageState.WAITING] * len(new), [0] * len(new))
        self._index.put(new)
        self.aliases.more_listed()
        self.scheduler.add(
            Arrivals(
                ids=np.array([page.id for page in new], dtype=np.int64),
                hosts=np.array([self._gate.host_of_pages(page.host) for page in new], dtype=np.int64),
                importance=np.array([page.importance for page in new]),
                last=np.full(len(new), np.nan),
                not_before=np.full(len(new), first_visit),
            )
        )


def arrivals_of(stored: StoredPages, hosts: Ints, not_before: Floats) -> Arrivals:
    """Returns pages as the store knows them for a scheduler in which their hosts have these indices."""
    with np.errstate(invalid="ignore"):
        alpha = stored.shape / stored.rate
    return Arrivals(
        ids=stored.ids,
        hosts=hosts,
        importance=stored.importance,
        last=stored.last_success,
        signals=stored.signals,
        alpha=alpha,
        shape=stored.shape,
        kappa=stored.kappa,
        gamma=stored.gamma,
        mixed=stored.mixed,
        not_before=not_before,
        gone=stored.gone,
    )


def _check_clock(newest: float, now: float) -> None:
    """Warn where the newest crawl is from the future: the clock was set back."""
    if newest > now + SKEW:
        log.warning(
            "the clock was set back: the newest crawl in the database is from the future; "
            "the age of such copies is unknown until their pages are crawled again",
            extra={"ahead": format_duration(newest - now)},
        )


def _usable(state: HostState) -> HostState:
    """Returns what is kept of a host, without an impossible delay."""
    if state.delay is None or 0 <= state.delay <= UNITS_LIMITS.max_seconds:
        return state
    log.warning("the delay kept of a host cannot be used", extra={"host": state.name, "delay": state.delay})
    return replace(state, delay=None)
