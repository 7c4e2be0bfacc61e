"""The parts of one daemon, built from settings and handed to each other."""

import asyncio
import codecs
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from crawld.choose import policies
from crawld.choose.host_gate import HostGate
from crawld.choose.pacer import Pacer, Slots, SlotShares
from crawld.choose.scheduler import Scheduler
from crawld.crawl.admission import Admission, Door
from crawld.crawl.learner import EstimateFanOut, Learner
from crawld.crawl.loop import Crawler
from crawld.crawl.polls import Discoverer, Polls
from crawld.crawl.pushes import Others, Pushes
from crawld.crawl.reads import FreshReads, Reads
from crawld.crawl.sender import Sender
from crawld.crawl.site_links import FollowedSite, SiteLinks
from crawld.fetch.http import HttpFetcher, Timeouts
from crawld.fetch.robots_cache import RobotsCache
from crawld.fetch.signing import DIRECTORY_PATH
from crawld.hooks.dispatcher import Dispatcher
from crawld.learn.observations import Prior, first_guess
from crawld.main.checks import make_credentials, make_hooks, make_signer, terms_of, user_agent
from crawld.main.reload import ReloadableList, Reloader
from crawld.main.settings import Settings
from crawld.main.supervisor import Daemon, Service
from crawld.model.clock import SystemClock
from crawld.model.crawl import AUDITS_KEPT
from crawld.model.errors import ConfigError
from crawld.model.fetched import Trouble
from crawld.model.url import identity
from crawld.pages.aliases import Aliases
from crawld.pages.demand import Demand
from crawld.pages.documents import DocumentKeeper, StoredTexts
from crawld.pages.list_file import ListFile, ListWatch, read_once
from crawld.pages.page_set import PageSet
from crawld.pages.pages import Pages
from crawld.pages.status import FreshnessNow, LivePageView
from crawld.read.workers.pool import WorkerPool
from crawld.read.workers.worker import Limits
from crawld.show.actions import Control, Reload
from crawld.show.api.access import Access, make_token
from crawld.show.api.app import ControlServer
from crawld.show.api.endpoints import EndpointParts as ApiParts
from crawld.show.api.listener import Listener
from crawld.show.api.public import PublicServer, public_app, serve_directory
from crawld.show.control import Steering
from crawld.show.dashboard.rendering import Sources
from crawld.show.dashboard.site import Dashboard
from crawld.show.forecasts import Forecasts
from crawld.show.metrics import DaemonMetrics, LoopLag
from crawld.signals.poll_signals import Known, PageIndex
from crawld.signals.polled_sources import Discovery, PolledSources, PollResult, PollSettings
from crawld.signals.push_inbox import PushInbox
from crawld.signals.websub import Subscriptions
from crawld.store.read_model import SqlReadModel
from crawld.store.retention import Retention
from crawld.store.store import SqlStore
from crawld.store.views import Copies

log = logging.getLogger("crawld")

for _codec in ("idna", "punycode", "ascii", "latin-1", "utf-8-sig"):
    codecs.lookup(_codec)  # imported at first use otherwise, which fails when files have run out

READERS = (
    "crawld.fetch.body",
    "crawld.read.page.blocks",
    "crawld.read.page.links",
    "crawld.read.page.document",
    "crawld.read.page.documents",
    "crawld.read.robots",
    "crawld.crawl.judge",
    "crawld.crawl.readings",
    "crawld.signals.pings",
    "crawld.signals.reading",
)
"""Modules whose functions run in workers."""


@dataclass(frozen=True, slots=True)
class Tempo:
    """Seconds between rounds of the daemon's side tasks: a demo has no minutes to wait."""

    learn: float = 1.0
    tick: float = 60.0
    demand: float = 60.0
    poll: float = 15.0
    """The least time between two polls of one sitemap or feed."""


class Assembly:
    """The parts of one daemon, made from settings."""

    store_type: type[SqlStore] = SqlStore
    list_type: type[ListFile] = ListFile
    commit_seconds = 0.1
    """Between commits: with the commit itself, a finished crawl is safe within the 200 ms that are promised."""
    holds_all = True
    """True where every page is held in memory."""

    def __init__(
        self,
        settings: Settings,
        *,
        tempo: Tempo | None = None,
        insist_on_bandwidth: bool = False,
        retire: bool = False,
    ) -> None:
        """With `retire` the first list may retire however many pages."""
        self.settings = settings
        self.reloader = Reloader(settings)
        self._tempo = tempo or Tempo()
        self.hubs: Subscriptions | None = None
        self._insist = insist_on_bandwidth
        self.clock = self._make_clock()
        self._rng = random.Random()  # noqa: S311 - jitter and audits are no secrets
        terms = terms_of(settings)
        self.pages = Pages(site.site for site in settings.discover)
        self.robots = RobotsCache(user_agent(settings), pages_on=self.pages.on_host, hosts=self.pages.count_hosts)
        self.gate = HostGate(terms.limits, self._rng, self.robots.crawl_delay_of)
        policy = policies.choose(settings.policy)
        chooser = policy.chooser(bandwidth=settings.bandwidth, gate=self.gate, intervals=terms.intervals)
        self.scheduler = Scheduler(chooser)
        self.store = self._make_store()
        self.polled_sources = PolledSources(
            PageIndex(), self.scheduler.last_success, self._poll_settings(), self.pages.on_host, self.scheduler.gone
        )
        self.workers = WorkerPool(READERS, Limits(settings.reading.deadline, settings.reading.memory_mb << 20))
        self._follow: list[Callable[[PollResult], Awaitable[None]]] = []
        self.polls = Polls(
            self.polled_sources,
            self.store,
            self.scheduler,
            self.clock,
            self.workers,
            self._follow,
            lambda: self.page_set.indexed,
        )
        index, merges = self.polled_sources.pages, settings.duplicates == "merge"
        aliases = Aliases(self.pages, self.scheduler, index, merges=merges, same_host=not self.holds_all)
        self.page_set = PageSet(self.store, self.pages, self.scheduler, self.gate, index, aliases, self._listed)
        self.links = self._make_links()
        self.fetcher = self._make_fetcher()
        pacer, door = self._make_pacer()
        admission = Admission(self.gate, self.robots, self.pages, self.scheduler, pacer, self.clock, door)
        sender = Sender(self.fetcher, admission, self.store, self.workers, self.polls)
        shares = SlotShares(
            settings.signals.share,
            settings.audit.share,
            settings.read_through.share,
            settings.fetch.unconditional_share,
        )
        self.crawler = Crawler(self.page_set, sender, self.reloader.rules, self._rng, shares, self.links or None)
        live = LivePageView(self.scheduler, self.gate, whole=self.holds_all)
        self.read_model = SqlReadModel(settings.database, self.clock, live=live, damage=self.store.damage)
        hooks = make_hooks(settings, self.clock, user_agent(settings))
        self.dispatcher = Dispatcher(self.store.hooks, hooks, self.clock, self._rng, self._may_send_hooks)
        self.demand = Demand(self.read_model, self.pages, self.scheduler, self.store, self.clock, self._tempo.demand)
        self.copies: Copies = self.demand if settings.importance == "requests" else self.read_model
        self.reads = Reads(
            self.crawler,
            by_requests=settings.importance == "requests",
            in_reads=policy.in_reads and policy.plan is None,
        )
        self._learner: Learner | None = None
        self._daemon: Daemon | None = None
        self.listener = Listener()
        self._lag = LoopLag(self.clock)
        self.list = self.list_type(
            lambda: (self.reloader.settings.urls, self.reloader.settings.max_removed),
            self._reading_list,
            self.page_set,
            self.clock,
            self.crawler.status,
            retire=retire,
        )
        self.watch = ListWatch(self._list_file, self.list.load_changed)
        self.freshness = FreshnessNow(self.scheduler, self.clock)
        self.metrics = DaemonMetrics(
            self.crawler,
            self.read_model,
            self._lag,
            self.freshness,
            signals=lambda: dict(self.polls.counts),
            hooks=self.dispatcher.standings,
            learner_lag=self._learner_lag,
        )
        forecasts = Forecasts(
            self.scheduler, self.gate, self.crawler.status, self.clock, terms.valuation, self.freshness
        )
        parts = self.crawler, self.page_set, forecasts, self.reloader.rules, self.dispatcher.standings
        self.steering = Steering(*parts, self._reload_daemon)

    def _make_clock(self) -> SystemClock:
        return SystemClock()

    def _may_send_hooks(self) -> bool:
        """Tells whether no other process may be telling the hooks."""
        return True

    def _make_store(self) -> SqlStore:
        return self.store_type(
            self.settings.database,
            keep_bodies=self.settings.keep_bodies,
            obey_noarchive=self.settings.noarchive == "latest",
            commit_interval=self.commit_seconds,
            retention=Retention(**self.settings.retention.model_dump()),
            clock=self.clock,
        )

    def _make_pacer(self) -> tuple[Slots, Door | None]:
        """Returns when slots come, and what requests pass on their way out where that is more than slots ask for."""
        return Pacer(self.settings.bandwidth, self.clock.monotonic()), None

    def _make_fetcher(self) -> HttpFetcher:
        settings, fetching = self.settings, self.settings.fetch
        fetcher = HttpFetcher(
            self.clock,
            user_agent(settings),
            allow_private=settings.allow_private,
            timeouts=Timeouts(fetching.connect_timeout, fetching.first_byte_timeout, fetching.timeout),
            max_bytes=fetching.max_bytes,
            workers=self.workers,
        )
        fetcher.credentials, fetcher.signer = make_credentials(settings), make_signer(settings)
        return fetcher

    def _listed(self, page_ids: Sequence[int]) -> None:
        self.links.listed(page_ids)

    def _make_links(self) -> SiteLinks:
        """Follows the links of sites; without a list first visits that nothing limits may take half of the slots."""
        alone = self.settings.urls is None
        sites = [
            FollowedSite(
                identity(site.site),
                site.limit,
                site.depth,
                site.share,
                max(site.share, 0.5) if alone and "share" not in site.model_fields_set else site.share,
            )
            for site in self.settings.discover
            if site.links
        ]
        parts = self.store, self.store.links, self.page_set, self.scheduler, self.robots, self.workers
        return SiteLinks(sites, *parts)

    def _poll_settings(self) -> PollSettings:
        given, sites = self.settings.signals, [site.site for site in self.settings.discover]
        return PollSettings(
            others=not self.holds_all,
            find_sitemaps=given.sitemaps == "auto",
            find_feeds=given.feeds == "auto",
            given_sitemaps=given.sitemaps if isinstance(given.sitemaps, list) else (),
            given_feeds=given.feeds if isinstance(given.feeds, list) else (),
            delay=given.delay,
            discovery=Discovery(tuple(map(identity, sites))) if sites else None,
            sites=sites,
            first_wait=4 * self._tempo.poll,
            shortest_wait=self._tempo.poll,
        )

    def daemon(self, read_settings: Callable[[], Settings] | None = None) -> Daemon:
        """The daemon; `read_settings` is what a reload reads, where there is a file to read."""
        daemon = self._make_daemon(
            store=self.store,
            fetcher=self.fetcher,
            scheduler=self.scheduler,
            crawler=self.crawler,
            freshness=self.freshness,
            page_set=self.page_set,
            clock=self.clock,
            workers=self.workers,
            prepare=self._prepare,
            control=self._control_server(),
            services=[*self._services(), *self._public()],
            read_again=partial(self._reload, read_settings),
            tick_seconds=self._tempo.tick,
            listening=self.listener.known,
        )
        self._daemon = daemon
        return daemon

    async def _reload_daemon(self, retire: bool) -> Reload:
        if self._daemon is None:
            return Reload(refused="there is nothing to reload")
        return await self._daemon.reload(retire)

    def _make_daemon(self, **parts: Any) -> Daemon:
        return Daemon(**parts)

    def _control_server(self) -> Service | None:
        """Returns what answers commands while pages are restored."""
        parts = self.api_parts()
        status = self.crawler.status
        return ControlServer(parts, self.settings.control_socket(), self.listener, lambda: status.starting).run

    def _services(self) -> list[Service]:
        """Returns what runs beside the crawler."""
        services = [self._learn, self._index, self.read_model.run, *self._documents()]
        if self.links:
            services.append(partial(self.links.run, self.clock, self._tempo.tick))
        return [*services, self.list.run, self.watch.run, self.dispatcher.run, self._lag.run, self.freshness.run]

    def _documents(self) -> list[Service]:
        """Returns what keeps the texts of copies, where that is wanted; a worker of a fleet makes them when asked."""
        settings = self.settings
        if not self.holds_all or not settings.keep_text or settings.keep_bodies == "none":
            return []
        frames, events, rules = self.crawler.frames, self.store.changes, self.reloader.rules
        return [DocumentKeeper(self.store, self.workers, events, rules, frames.shared, search=settings.search).run]

    async def _reload(self, read_settings: Callable[[], Settings] | None, retire: bool) -> Reload:
        before, url_list = self.reloader.settings, self._reloaded_list()
        result = await self.reloader.reload(read_settings, url_list, self.crawler, self.steering, retire=retire)
        new = self.reloader.settings
        if result.refused is None and (new.hooks != before.hooks or any(hook.secret_file for hook in new.hooks)):
            self.dispatcher.change_hooks(make_hooks(new, self.clock, user_agent(new)))
        return result if result.refused is not None else self._change_identity(new, result)

    def _change_identity(self, new: Settings, result: Reload) -> Reload:
        """Send and sign with what the files hold now; new credentials have pages that asked for a login asked again."""
        try:
            credentials, self.fetcher.signer = make_credentials(new), make_signer(new)
        except ConfigError as error:  # changed since they were checked
            return Reload(refused=str(error))
        if credentials == self.fetcher.credentials:
            return result
        credentials.retire(self.fetcher.credentials)
        self.fetcher.credentials = credentials
        waiting = self.pages.turned_away_by(Trouble.LOGIN_REQUIRED)
        for host in {self.pages[page_id].host for page_id in waiting}:
            if (state := self.crawler.admission.end_backoff(host)) is not None:
                self.store.record_host(state)
        for page_id in waiting:
            self.pages.forgive(page_id)
            self.scheduler.lift(page_id, self.clock.now() - self.settings.min_interval)
        applied = result.applied if "credentials" in result.applied else [*result.applied, "credentials"]
        return replace(result, applied=applied)

    def _reloaded_list(self) -> ReloadableList:
        """The list that a reload takes over."""
        return self.list

    def _public(self) -> list[Service]:
        """Returns what serves other programs, where `api.listen` is set; and what follows from polls."""
        api, sites = self.settings.api, self.settings.discover
        if api.listen is not None and api.public_url is not None:
            self.hubs = Subscriptions(
                self.polled_sources, f"{api.public_url.rstrip('/')}/websub", secrets.token_hex, self.store.record_poll
            )
        known = Known(self.polled_sources.pages, self.scheduler.last_success, self.settings.signals.delay)
        pushes = Pushes(PushInbox(known), self.polls, self.clock, self.workers, self.hubs, self._others())
        if pushes.hubs is not None or pushes.others is not None:
            self._follow.append(pushes.follow)
        if sites:
            limits = {identity(site.site): site.limit for site in sites}
            self._follow.append(Discoverer(self.page_set, self.pages, self.clock, limits).follow)
        if api.listen is None:
            self.listener.closed()
            return []
        server = PublicServer(partial(self._public_app, pushes), api.listen, self.listener)
        return [server.run, *([self.demand.run] if self.copies is self.demand else [])]

    def _others(self) -> Others | None:
        """Returns what holds pages and feeds that are not here; None in a single daemon."""
        return None

    def _public_app(self, pushes: Pushes, *outer: Middleware) -> web.Application:
        api = self.settings.api
        token = make_token(self.settings.token_file())
        access = Access(token, self.settings.listener_hosts(), api.open_reading, api.public_url)
        parts = self.api_parts()
        app = public_app(pushes, parts, access, self.listener, *outer)
        app.router.add_get(DIRECTORY_PATH, partial(serve_directory, self._key_directory))
        sources = Sources(self.control, self.read_model, parts.texts, self.clock.now, access.feed_key)
        app.add_routes(Dashboard(sources).routes())
        return app

    def _key_directory(self, authority: str) -> tuple[str, Mapping[str, str]] | None:
        """The keys that requests are signed with, for sites that verify them; None where none are."""
        signer = self.fetcher.signer
        return None if signer is None else signer.serve_directory(authority, self.clock.now())

    def api_parts(self) -> ApiParts:
        """Makes what the API and the control socket answer from."""
        texts = StoredTexts(self.workers, self.reloader.rules)
        return ApiParts(
            self.read_model,
            self.control,
            self.copies,
            self.fresh,
            texts,
            self.store.changes,
            self.clock,
            self.metrics,
        )

    @property
    def fresh(self) -> FreshReads:
        """Returns what fetches pages as they are read."""
        return self.reads

    @property
    def control(self) -> Control:
        """Returns what the API and the dashboard steer and ask."""
        return self.steering

    def _learner_lag(self) -> float | None:
        return None if self._learner is None else self.clock.monotonic() - self._learner.caught_up_at

    async def _index(self) -> None:
        await self.page_set.index()
        await asyncio.Event().wait()  # a service that ends would end the daemon

    async def _learn(self) -> None:
        """Learn from a first guess that lets everything compete: a page changes once a round of all pages.

        A round is not shorter than the time between two visits to a page.
        """
        await self.list.begun()
        all_pages = max(len(self.scheduler), 1) / max(self.settings.bandwidth, 1e-9)
        guess = first_guess(all_pages, self.settings.min_interval)
        sink = EstimateFanOut(self.scheduler, self.polls, self.pages, self.gate)
        self._learner = self._learner_of(sink, guess)
        self._learner.reserve(len(self.scheduler), self.pages.count_hosts())
        await self._learner.run()

    def _learner_of(self, sink: EstimateFanOut, guess: Prior) -> Learner:
        weighed = self.settings.significance
        return Learner(self.store, sink, self.clock, interval=self._tempo.learn, prior=guess, significance=weighed)

    async def _prepare(self) -> None:
        self.robots.restore(await self.store.robots())
        if dropped := self.polled_sources.restore(await self.store.sources()):
            log.warning("dropped sitemaps and feeds beyond the limits", extra={"files": len(dropped)})
            await self.store.forget_sources(dropped)
        for fresh in await self.store.audits(AUDITS_KEPT):
            self.crawler.audits.record(fresh=fresh)
        for poll in self.polled_sources.watch_given(self.clock.now()):
            self.store.record_poll(poll)
        await self.steering.restore(self.settings.bandwidth, insist=self._insist)
        await self.store.forget_weights()
        if self.copies is self.demand:
            await self.demand.restore()
        if self.settings.api.listen is not None:
            make_token(self.settings.token_file())  # before anyone is told that we are ready
        await self.links.restore(self.clock.now())
        await self.list.begin()

    def _reading_list(self) -> None:
        self.watch.loading()

    def _list_file(self) -> Path | None:
        """The file to watch, where there is one that can be read again."""
        urls = self.reloader.settings.urls
        return None if urls is None or read_once(urls) else Path(urls)


def build(
    settings: Settings,
    *,
    tempo: Tempo | None = None,
    insist_on_bandwidth: bool = False,
    retire: bool = False,
    read_settings: Callable[[], Settings] | None = None,
) -> Daemon:
    """A daemon, ready to run; with `retire` its first list may retire however many pages."""
    assembly = Assembly(settings, tempo=tempo, insist_on_bandwidth=insist_on_bandwidth, retire=retire)
    return assembly.daemon(read_settings)
