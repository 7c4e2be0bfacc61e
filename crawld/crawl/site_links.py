"""Whole sites by their links: pages that others link to join, are visited within a share, and leave with their links.

The life of an address: a page that is new or changed is read for links (in a worker); those inside the site, in the
list's own spelling, that robots.txt allows and whose shape has room become pages. They wait outside the frontier until
the share of first visits has a slot for them; from then on they are pages like others. A page that links alone have
kept leaves when no page links to it any longer. All of this is in the store before the crawl that found it is.
"""

import asyncio
import heapq
import logging
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from crawld.choose.pacer import Share
from crawld.choose.scheduler import Scheduler
from crawld.crawl.admission import Admission, NotNow
from crawld.fetch.robots_cache import Allowed, Disallowed, NeedsFetch, RobotsCache
from crawld.model.crawl import Memory
from crawld.model.errors import TooCostlyError
from crawld.model.fetched import GONE_STATUSES, Fetched, Outcome, Trouble
from crawld.model.page import FROM_LINKS, Page, Wanted
from crawld.model.url import identity
from crawld.model.web import Clock, Workers
from crawld.pages.aliases import without_tracking
from crawld.pages.page_set import PageSet
from crawld.read.headers import media_type
from crawld.read.page.digest import block_length
from crawld.read.page.head import Head, told_in_header, told_in_meta
from crawld.read.page.links import UrlShape, read_links, shape_of
from crawld.store.links import LinkTarget, StoredLinks
from crawld.store.store import SqlStore

log = logging.getLogger("crawld.links")

MEDIA = ("image/", "video/", "audio/", "font/", "application/zip", "application/octet-stream", "application/x-")
"""What content types begin with that are no pages of text."""


@dataclass(frozen=True, slots=True)
class FollowedSite:
    """A site whose links are followed: the beginning of its URLs, and its limits."""

    prefix: str
    limit: int = 1_000
    depth: int = 10
    share: float = 0.1
    late_share: float = 0.1  # once the pages that a list or a sitemap names were visited


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Everything that bounds what a site can make us keep."""

    links_kept: int = 200  # of one page, besides those that found a page
    first_with_query: int = 8  # addresses of one shape, or steps in one, before their texts have proved anything
    first_in_path: int = 100  # the same where numbers in the path differ; at least a quarter of the site's limit
    forms_of_path: int = 20  # sets of parameters of one path
    growth: int = 2  # further addresses for each one whose text was new
    looks_at_names: int = 8  # visits after which parameters that change nothing have one address for each path
    new_share: float = 0.25  # of these visits, below which the parameters change nothing
    new_text: float = 0.5  # share of a text that must be new
    paths_remembered: int = 1_024
    blocks_remembered: int = 200  # of each path
    kinds: int = 200  # of waiting pages of a site that are told apart by what first visits to them brought
    promise: float = 0.02  # new pages for each first visit, from which on a kind is visited ahead of the share
    shapes_listed: int = 1_024
    unvisited: float = 0.02  # of a site's pages, listed ones that may never answer
    refused_seconds: float = 30 * 86400.0  # before a page that was refused is asked once more
    looked_at: int = 20  # pages in one slot
    read_at_once: int = 5  # copies that are read again in a second
    left_at_once: int = 1_000


LIMITS = LinkLimits()


class Shapes:
    """How many addresses of each shape a site may have: more where their texts prove to differ."""

    def __init__(self, limit: int) -> None:
        self._first_in_path = max(LIMITS.first_in_path, limit // 4)
        self._admitted: Counter[UrlShape] = Counter()
        self._new: Counter[UrlShape] = Counter()  # visits that showed a new text
        self._forms: Counter[str] = Counter()  # sets of parameters by path
        self._looks: Counter[str] = Counter()  # visits by the names of parameters, first ones of a path left out
        self._new_looks: Counter[str] = Counter()
        self._blocks: OrderedDict[str, set[int]] = OrderedDict()  # seen by path, of all its forms
        self._listed: set[UrlShape] = set()

    def listed(self, shape: UrlShape | None) -> None:
        """A list or a sitemap names an address of that shape: it is not made without end."""
        if shape is not None and len(self._listed) < LIMITS.shapes_listed:
            self._listed.add(shape)

    def is_find(self, shape: UrlShape | None, on: UrlShape | None, depth: int) -> bool:
        """Tells whether an address found on a page counts as a new page, rather than as one more step of a calendar.

        Parameters count where they have led to new texts.
        """
        proven = shape is None or not shape.names or 2 * self._new_looks[shape.names] > self._looks[shape.names]
        return proven and not self._is_step(shape, on, depth)

    def _is_step(self, shape: UrlShape | None, on: UrlShape | None, depth: int) -> bool:
        """Tells whether an address has the shape of the page that it is on, which no list or sitemap has.

        A page that a listed one links to may be the first of many; those behind it are steps.
        """
        return shape is not None and shape == on and depth > 1 and shape not in self._listed

    def admits(self, shape: UrlShape | None, on: UrlShape | None, depth: int) -> bool:
        """Tells whether a further address of that shape may join, found on a page of a shape and depth."""
        if shape is None:
            return True
        if shape.names and shape not in self._admitted and self._forms[shape.path] >= LIMITS.forms_of_path:
            return False
        few = shape.names or self._is_step(shape, on, depth)
        first = LIMITS.first_with_query if few else self._first_in_path
        looks = self._looks[shape.names]
        if shape.names and looks >= LIMITS.looks_at_names and self._new_looks[shape.names] < LIMITS.new_share * looks:
            first = 1
        return self._admitted[shape] < first + LIMITS.growth * self._new[shape]

    def joined(self, shape: UrlShape | None) -> None:
        """An address joined."""
        if shape is not None:
            self._forms[shape.path] += shape not in self._admitted
            self._admitted[shape] += 1

    def left(self, shape: UrlShape | None) -> None:
        """An address left; what its visit proved is kept."""
        if shape is not None and shape in self._admitted:
            self._admitted[shape] -= 1
            if not self._admitted[shape]:
                del self._admitted[shape]
                self._forms[shape.path] -= 1
                if not self._forms[shape.path]:
                    del self._forms[shape.path]

    def look(self, url: str, shape: UrlShape | None, blocks: Sequence[int]) -> bool | None:
        """Whether most of a text was not seen at other addresses of the path; None where there is none to compare."""
        path = url.partition("?")[0] if shape is None else shape.path
        seen = self._blocks.get(path)
        if seen is None:
            self._blocks[path] = set(blocks[: LIMITS.blocks_remembered])
            if len(self._blocks) > LIMITS.paths_remembered:
                self._blocks.popitem(last=False)
            return None
        self._blocks.move_to_end(path)
        whole = sum(map(block_length, blocks))
        new = sum(block_length(block) for block in blocks if block not in seen)
        room = LIMITS.blocks_remembered - len(seen)
        seen.update([block for block in blocks if block not in seen][: max(room, 0)])
        return new > LIMITS.new_text * whole if whole else False

    def visited(self, shape: UrlShape | None, *, novel: bool | None) -> bool:
        """Count what a first visit showed; whether further addresses of the shape may join because of it."""
        if shape is None or novel is None:
            return False
        self._looks[shape.names] += 1
        self._new_looks[shape.names] += novel
        self._new[shape] += novel
        return novel


@dataclass(slots=True)
class WaitingKind:
    """Pages of one folder and depth, or with the same parameters, that wait for a first visit; what visits brought."""

    names: str  # of their parameters
    nearer: "WaitingKind | None" = None  # pages of the same folder that are one link nearer
    waiting: list[tuple[int, int]] = field(default_factory=list)  # a heap of depths and pages
    begun: int = 0  # first visits
    brought: int = 0  # new pages

    @property
    def promising(self) -> bool:
        """Whether a further visit is likely to bring new pages; of a kind never visited, as one link nearer."""
        if not self.begun:
            return self.nearer is not None and self.nearer.promising
        return self.brought > 0 and self.brought >= LIMITS.promise * (self.begun + 1)

    def place(self) -> tuple[int, tuple[int, int]]:
        """Where its first page stands in the line of the site.

        1. Kinds that lead on.
        2. Kinds that nothing is known of, except combinations of parameters.
        3. Plain addresses.
        4. Those with parameters.
        """
        if self.promising:
            return 1, self.waiting[0]
        if not self.begun and "&" not in self.names:
            return 2, self.waiting[0]
        return (4 if self.names else 3), self.waiting[0]


@dataclass(slots=True)
class FollowingSite:
    """One followed site, with the pages that wait for a first visit."""

    given: FollowedSite
    shapes: Shapes
    share: Share
    kinds: dict[tuple[str, int], WaitingKind] = field(default_factory=dict)
    retries: list[tuple[float, int, int]] = field(default_factory=list)  # a heap by time; depth and page
    _first: WaitingKind | None = None
    _known: bool = True  # whether `_first` is still the first in line

    def kind(self, url: str, depth: int) -> WaitingKind:
        """The kind of a page."""
        shape = shape_of(url)
        path, names = (url, "") if shape is None else (shape.path, shape.names)
        place, depth = (f"{path}?{names}", 0) if names else (path.rstrip("/").rpartition("/")[0], depth)
        if (place, depth) not in self.kinds and len(self.kinds) >= LIMITS.kinds:
            place = "?" if names else ""
        if (kind := self.kinds.get((place, depth))) is None:
            kind = self.kinds[place, depth] = WaitingKind(names, self.kinds.get((place, depth - 1)))
        return kind

    def line_up(self, page: Page, depth: int) -> None:
        """Let a page wait for a slot, in its kind the nearest first, the oldest."""
        heapq.heappush(self.kind(page.url, depth).waiting, (depth, page.id))
        self._known = False

    def first(self) -> WaitingKind | None:
        """The kind whose first page is the next to be visited."""
        if not self._known:
            waiting = [kind for kind in self.kinds.values() if kind.waiting]
            self._first, self._known = min(waiting, key=WaitingKind.place, default=None), True
        return self._first

    def leave_line(self, kind: WaitingKind, *, begun: bool = False) -> None:
        """Take the first page of a kind out of the line."""
        heapq.heappop(kind.waiting)
        kind.begun += begun
        self._known = False

    def visited(self, url: str, depth: int, brought: int) -> None:
        """Count what a first visit brought."""
        self.kind(url, depth).brought += brought
        self._known = False


class SiteLinks:
    """Follows links. Nothing here is lost by a kill: what is in memory is read back from the store."""

    def __init__(
        self,
        sites: Sequence[FollowedSite],
        store: SqlStore,
        links: StoredLinks,
        page_set: PageSet,
        scheduler: Scheduler,
        robots: RobotsCache,
        workers: Workers,
    ) -> None:
        self._sites = {site.prefix: FollowingSite(site, Shapes(site.limit), Share(site.share)) for site in sites}
        self._store, self._links, self._page_set = store, links, page_set
        self._scheduler, self._robots, self._workers = scheduler, robots, workers
        self._share = Share(max((site.share for site in sites), default=0.0))
        self._shares = (self._share, *(site.share for site in self._sites.values()))
        self._scope = tuple(self._sites)
        self._first: dict[int, tuple[FollowingSite, int]] = {}  # pages never crawled with success: their site and depth
        self._waiting: Counter[str] = Counter()  # of those, by site
        self._deferred: dict[int, set[UrlShape | None]] = {}  # pages with links that wait for room; None: of the site
        self._due: deque[int] = deque()  # of those, pages to be read again
        self._forbidden: dict[int, str] = {}  # waiting pages that robots.txt forbids, to be refused
        self._order: deque[str] = deque(self._sites)
        self._turn = asyncio.Lock()

    def __bool__(self) -> bool:
        return bool(self._sites)

    def site_of(self, url: str) -> FollowingSite | None:
        """The followed site that a URL belongs to."""
        prefix = self._page_set.in_memory.site_of(url)
        return None if prefix is None else self._sites.get(prefix)

    # -- a start ----------------------------------------------------------------------------------------------------

    async def restore(self, now: float) -> None:
        """Take over what the store knows, and begin with the addresses of the sites themselves.

        Pages of sites that are no longer followed leave, unless a list or a file names them.
        """
        strange: list[int] = []
        leaving: list[str] = []
        for one in await self._links.site_pages():
            site = self.site_of(one.page.url)
            if site is None:
                strange.append(one.page.id)
                leaving += [one.page.url] if one.by_links and not one.retired else []
                continue
            if one.retired:
                continue
            shape = shape_of(one.page.url)
            site.shapes.joined(shape)
            if one.visited:
                site.shapes.visited(shape, novel=one.novel)
            if one.by_links and not one.visited:
                self._wait(site, one.page.id, one.depth, self._may_be_asked(one.page.id, one.attempted_at), now)
            if one.deferred:
                self._due.append(one.page.id)
        if strange:
            await self._page_set.retire(leaving, now=now)
            await self._links.forget(strange)
            log.info("links of a site are no longer followed", extra={"pages": len(leaving)})
        starts = [Wanted(prefix) for prefix in self._sites]
        await self._page_set.adopt(starts, origin=FROM_LINKS, now=now, complete=False)

    def _may_be_asked(self, page_id: int, attempted_at: float | None) -> float:
        pages = self._page_set.in_memory
        return -math.inf if attempted_at is None else pages.wait_after(page_id, pages.state(page_id), attempted_at)

    def _wait(self, site: FollowingSite, page_id: int, depth: int, not_before: float, now: float) -> None:
        """Let a page wait for its first visit, outside the frontier."""
        self._waiting[site.given.prefix] += page_id not in self._first
        self._first[page_id] = site, depth
        self._scheduler.postpone(page_id, math.inf, now)
        if not_before > now:
            heapq.heappush(site.retries, (not_before, depth, page_id))
        elif (page := self._page_set.in_memory.get(page_id)) is not None:
            site.line_up(page, depth)

    # -- slots ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """A slot came."""
        for site in self._sites.values():
            if site.given.late_share != site.given.share:
                pages, prefix = self._page_set.in_memory, site.given.prefix
                listed = pages.unvisited_in_site(prefix) - self._waiting[prefix]
                late = listed <= LIMITS.unvisited * pages.in_site(prefix)
                site.share.share = site.given.late_share if late else site.given.share
                self._share.share = max(site.share.share for site in self._sites.values())
        Share.tick(self._shares)

    def choose(
        self, now: float, admission: Admission, *, spare: bool = False
    ) -> tuple[Page, Allowed | NeedsFetch] | None:
        """The page to visit first, within the share or, where no other page wants the slot, beyond it.

        Kinds of pages that have led to new ones are visited ahead of the share, by no more slots than it has in a
        round of the site; the other pages wait until that is made up for.
        """
        if not self._first:
            return None
        for _ in range(len(self._order)):
            site = self._sites[self._order[0]]
            self._order.rotate(-1)
            ahead = not (spare or (self._share.ready and site.share.ready))
            if ahead and not site.share.lends(self._round(site)):
                continue
            if (found := self._choose(site, now, admission, ahead=ahead)) is not None:
                for share in (self._share, site.share):
                    share.spend_if_ready() if spare else share.spend()
                return found
        return None

    def _round(self, site: FollowingSite) -> float:
        """Slots of a site's share while each of its pages has one."""
        return site.given.share * self._page_set.in_memory.in_site(site.given.prefix)

    def _choose(
        self, site: FollowingSite, now: float, admission: Admission, *, ahead: bool
    ) -> tuple[Page, Allowed | NeedsFetch] | None:
        """The first page in line that may be asked; ahead of the share only one that is likely to lead on.

        1. It left meanwhile, or was crawled out of turn: it waits no longer.
        2. Its host may not be asked, or its robots.txt is being fetched: the other pages of the site wait with it.
        3. Its robots.txt is not known: the slot is spent on that.
        4. robots.txt forbids it: it is refused; where robots.txt is unavailable, it waits for that.
        5. Otherwise the slot is spent on it.
        """
        while site.retries and site.retries[0][0] <= now:
            _, depth, page_id = heapq.heappop(site.retries)
            if (page := self._page_set.in_memory.get(page_id)) is not None:
                site.line_up(page, depth)
        for _ in range(LIMITS.looked_at):
            if (kind := site.first()) is None or (ahead and not kind.promising):
                return None
            depth, page_id = kind.waiting[0]
            page = self._page_set.in_memory.get(page_id)
            if page is None or page_id not in self._first or self._scheduler.held(page_id):
                site.leave_line(kind)
                continue
            verdict = admission.decide(page.url, admission.gate.host(page.host), now)
            if isinstance(verdict, NotNow):
                return None
            if isinstance(verdict, NeedsFetch):
                return page, verdict
            site.leave_line(kind, begun=isinstance(verdict, Allowed))
            if isinstance(verdict, Allowed):
                return page, verdict
            if verdict.by_rule:
                self._forbidden[page_id] = "robots"
            else:
                heapq.heappush(site.retries, (verdict.until, depth, page_id))
        return None

    def given_back(self, page_id: int, wait: float, requests: int, now: float) -> None:
        """A page was given back after a visit: one that brought nothing waits for a slot of the share again.

        Requests beyond the first, such as redirects, count against the share as well.
        """
        first = self._first.get(page_id)
        if first is None:
            return
        site, depth = first
        for share in (self._share, site.share) if requests > 1 else ():
            share.spend(requests - 1)
        if page_id in self._scheduler and math.isnan(self._scheduler.last_success(page_id)):
            self._wait(site, page_id, depth, wait, now)
        else:
            self._wait_no_longer(page_id)

    def listed(self, page_ids: Sequence[int]) -> None:
        """These pages are listed now: they wait for no share any longer."""
        for page_id in page_ids:
            self._wait_no_longer(page_id)

    def _wait_no_longer(self, page_id: int) -> None:
        if (first := self._first.pop(page_id, None)) is not None:
            self._waiting[first[0].given.prefix] -= 1

    # -- visits -----------------------------------------------------------------------------------------------------

    async def refusal(self, page: Page, outcome: Outcome, head: Head | None) -> tuple[Trouble, str] | None:
        """Returns why a page that links alone lead to is not to be kept, from what it answered."""
        if not isinstance(outcome, Fetched) or self.site_of(page.url) is None:
            return None
        if outcome.status in GONE_STATUSES and page.id in self._first:
            return Trouble.STATUS, f"links lead to a page that is not there: HTTP {outcome.status}"
        kind = media_type(outcome.headers.get("content-type")) or ""
        if outcome.status < 300 and kind.startswith(MEDIA) and page.id in self._first:
            return Trouble.WRONG_TYPE, f"links lead to {kind}, which is no page"
        if "noindex" in self._told(outcome, head) and await self._only_by_links(page):
            return Trouble.NOINDEX, "it asks not to be indexed, and only links lead to it"
        return None

    def _told(self, outcome: Fetched, head: Head | None) -> frozenset[str]:
        in_head = frozenset[str]() if head is None else told_in_meta(head.robots, self._robots.token)
        return in_head | told_in_header(outcome.headers.get("x-robots-tag"), self._robots.token)

    async def _only_by_links(self, page: Page) -> bool:
        return (await self._store.origins([page.url])).get(page.url) == FROM_LINKS

    async def read(
        self, page: Page, outcome: Outcome, memory: Memory | None, seen: Memory | None, head: Head | None, now: float
    ) -> None:
        """Follow the links of a page that was visited, where its bytes are not those of before.

        `memory` is what was known before the visit, `seen` what is to be remembered of it.
        """
        site = self.site_of(page.url)
        if site is None or not isinstance(outcome, Fetched) or outcome.status >= 300:
            return
        first = self._first.get(page.id)
        novel = None if seen is None or first is None else await self._look(site, page, seen)
        if memory is not None and seen is None:
            return  # the very answer of last time
        if memory is not None and seen is not None and memory.digest.raw == seen.digest.raw:
            return
        if "nofollow" in self._told(outcome, head):
            targets: Sequence[str] = ()
        else:
            canonical = None if head is None else head.canonical
            targets = await self._targets(page, outcome.body, outcome.url, outcome.headers.get("content-type"))
            targets = targets if canonical is None else [*targets, canonical]
        brought = await self._offer(site, page, targets, now)
        if first is not None:
            site.visited(page.url, first[1], 0 if novel is False else brought)

    async def _look(self, site: FollowingSite, page: Page, seen: Memory) -> bool | None:
        """Learn from the first visit to a page whether addresses of its shape are worth following."""
        shape = shape_of(page.url)
        novel = site.shapes.look(page.url, shape, seen.digest.blocks)
        if site.shapes.visited(shape, novel=novel):
            self._let_in({shape})
        if novel is not None and shape is not None:
            await self._links.visited(page.id, novel=novel)
        return novel

    async def _targets(self, page: Page, body: bytes, url: str, content_type: str | None) -> Sequence[str]:
        try:
            found = await self._workers.run(page.host, read_links, body, url, content_type, self._scope)
        except TooCostlyError:
            return ()
        return found.targets

    async def _offer(self, site: FollowingSite, page: Page, targets: Iterable[str], now: float) -> int:
        """Let a page link to these addresses, those that are pages and those that may become some; count new pages.

        An address becomes a page where it is of the same site, robots.txt allows it, its page was not refused lately,
        the page is not too deep, its shape and its site have room.
        """
        async with self._turn:
            spelt = {name: url for name, url in map(_spelt, targets) if self.site_of(url) is site}
            spelt.pop(identity(page.url), None)
            known, depth = await self._links.look_up(list(spelt)), await self._links.depth_of(page.id)
            own = shape_of(page.url)
            if not depth:
                site.shapes.listed(own)
            linked: list[int] = []
            wanted: dict[str, str] = {}
            waits: set[UrlShape | None] = set()
            room = site.given.limit - self._page_set.in_memory.in_site(site.given.prefix)
            for name, url in spelt.items():
                target = known.get(name)
                if target is not None and not target.retired:
                    linked.append(target.page_id)
                elif depth < site.given.depth and self._may_join(target, url, now):
                    shape = shape_of(url)
                    if not site.shapes.admits(shape, own, depth):
                        waits.add(shape)
                    elif len(wanted) >= room:
                        waits.add(None)
                    else:
                        site.shapes.joined(shape)
                        wanted[name] = url
            found = await self._join(site, list(wanted.values()), depth + 1, now)
            if len(found) < len(wanted):  # a sitemap or a list has brought some of them meanwhile
                others = (await self._links.look_up(list(wanted))).values()
                linked += [one.page_id for one in others if not one.retired and one.page_id not in found]
            kept = [*linked[: LIMITS.links_kept], *found]
            await self._links.write(page.id, kept, dict.fromkeys(found, depth + 1), deferred=bool(waits))
            self._deferred.pop(page.id, None)
            if any(shape is not None and site.shapes.admits(shape, own, depth) for shape in waits):
                self._due.append(page.id)  # visits meanwhile have made room
            elif waits:
                self._deferred[page.id] = waits
            return min(len(found), sum(site.shapes.is_find(shape_of(url), own, depth) for url in wanted.values()))

    def _may_join(self, target: LinkTarget | None, url: str, now: float) -> bool:
        if target is not None and target.refused_at is not None and now < target.refused_at + LIMITS.refused_seconds:
            return False
        return not isinstance(self._robots.verdict(url, now), Disallowed)

    async def _join(self, site: FollowingSite, urls: Sequence[str], depth: int, now: float) -> list[int]:
        """Take addresses in as pages that wait for their first visit; their ids."""
        if not urls:
            return []
        wanted = [Wanted(url) for url in urls]
        joined = await self._page_set.adopt(wanted, origin=FROM_LINKS, now=now, complete=False, first_visit=math.inf)
        pages = [*joined.added, *joined.returned]
        for page in pages:
            if math.isnan(self._scheduler.last_success(page.id)):
                self._wait(site, page.id, depth, -math.inf, now)
        if pages:
            log.info("pages found by links", extra={"site": site.given.prefix, "pages": len(pages), "depth": depth})
        return [page.id for page in pages]

    def _let_in(self, shapes: set[UrlShape | None]) -> None:
        """Read pages again that have links of these shapes, or of any where the site has room again."""
        due = [source for source, waits in self._deferred.items() if waits & shapes]
        for source in due:
            del self._deferred[source]
        self._due.extend(due)

    async def refuse(self, page: Page, why: str, now: float) -> None:
        """Let a page leave that is not to be kept; links bring it back no sooner than after a month."""
        await self._links.refuse(page.id, why, now)
        if await self._only_by_links(page):
            await self._leave([page], now)

    # -- beside the slots -------------------------------------------------------------------------------------------

    async def run(self, clock: Clock, sweep_seconds: float) -> None:
        """Refuse what robots.txt forbids, read pages again whose links have room, let pages leave; until cancelled."""
        swept = clock.monotonic()
        while True:
            await asyncio.sleep(min(1.0, sweep_seconds))
            await self.step(clock.now())
            if clock.monotonic() - swept >= sweep_seconds:
                swept = clock.monotonic()
                await self.sweep(clock.now())

    async def step(self, now: float) -> None:
        """Do a little of what waits."""
        for page_id in list(self._forbidden):
            why = self._forbidden.pop(page_id)
            if (page := self._page_set.in_memory.get(page_id)) is not None:
                await self.refuse(page, why, now)
        for _ in range(min(LIMITS.read_at_once, len(self._due))):
            await self._read_again(self._due.popleft(), now)

    async def _read_again(self, page_id: int, now: float) -> None:
        """Read the copy of a page for links that had no room before."""
        page = self._page_set.in_memory.get(page_id)
        site = None if page is None else self.site_of(page.url)
        if page is None or site is None:
            return
        memory = await self._store.recall(page_id)
        if memory is None:  # links are written before their crawl is recorded
            if page_id not in self._due:
                self._due.append(page_id)
            return
        await self._store.flush()  # what is remembered may be queued
        body = await self._store.copy(page_id)
        if body is None:
            return  # no copy is kept: the next version of the page will be read
        targets = await self._targets(page, body, memory.answered or page.url, memory.content_type)
        await self._offer(site, page, targets if memory.canonical is None else [*targets, memory.canonical], now)

    async def sweep(self, now: float) -> None:
        """Let pages leave that only links had kept and that no page links to any longer."""
        async with self._turn:
            urls = await self._links.unlinked(LIMITS.left_at_once)
            if urls:
                find = self._page_set.aliases.find
                await self._leave([page for url in urls if (page := find(url)) is not None], now)
                log.info("pages left that nothing links to", extra={"pages": len(urls)})

    async def _leave(self, pages: Sequence[Page], now: float) -> None:
        for page in pages:
            self._wait_no_longer(page.id)
            self._deferred.pop(page.id, None)
            if (site := self.site_of(page.url)) is not None:
                site.shapes.left(shape_of(page.url))
        await self._page_set.retire([page.url for page in pages], now=now)
        self._let_in({None})


def _spelt(url: str) -> tuple[str, str]:
    """The identity of a linked page and the address to ask, both without parameters that track visitors."""
    bare = without_tracking(url)
    return bare, url if bare == identity(url) else bare
