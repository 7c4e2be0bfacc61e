"""A poll's answer as columns: everything that takes long, none of it dependent on what we know. Runs in a worker."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from crawld.model.fetched import GONE_STATUSES, Fetched, FetchFailed, Outcome
from crawld.model.url import host_of, host_of_target, identity
from crawld.read.feed import links_of_header
from crawld.read.listing import Entry, EntryKind, Listing, UnreadableError
from crawld.read.sitemap import read_sitemap
from crawld.signals.poll_signals import ListedFile, ListingDifference, differ, keys_of, stamp_of


@dataclass(frozen=True)
class ReadingLimits:
    """Numbers that bound and tune this module."""

    max_children: int = 2_000
    """Sitemaps that are taken from one index; the latest where it lists more."""
    max_validator: int = 1_000
    """Characters of an ETag or Last-Modified that are kept: longer ones are left out."""


LIMITS = ReadingLimits()


def site_of(host: str) -> str:
    """The name two hosts share that may speak for each other: with or without `www.`, on any port."""
    name = host if host.startswith("[") else host.partition(":")[0]
    return name.removeprefix("www.")


@dataclass(frozen=True, slots=True)
class Polled:
    """Facts of the file that reading an answer needs: all of them can be sent to a worker."""

    url: str
    hosts: frozenset[str] | None  # which it may speak for; None: any
    baseline: bytes = b""  # what it listed before, packed
    scope: tuple[str, ...] = ()  # identities with which the URLs begin that discovery wants
    others: bool = False  # whether the URLs on other sites are told, for the process that holds those pages


@dataclass(frozen=True, slots=True)
class Child:
    """A sitemap that an index lists."""

    url: str
    stamp: int


@dataclass(frozen=True, slots=True)
class PollReading:
    """Content of an answer: a listing, nothing new (`unchanged`), or `trouble` in words."""

    is_feed: bool = False
    listed: ListedFile | None = None
    difference: ListingDifference | None = None
    children: Sequence[Child] = field(default=())
    complete: bool = False
    unchanged: bool = False
    gone: bool = False
    trouble: str | None = None
    answered_by: str | None = None  # the host, where another site answered than the file's: it speaks for itself alone
    hubs: Sequence[str] = field(default=())
    topic: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    size: int = 0


def read_answer(polled: Polled, outcome: Outcome, now: float) -> PollReading:
    """Read a poll's answer. Pure: it runs in a worker.

    A file speaks for the host that finally answered. Where a redirect led to another site, no site that may has
    named it: it speaks for itself alone, and its hubs are not asked.
    """
    if isinstance(outcome, FetchFailed):
        return PollReading(trouble=f"{outcome.trouble}: {outcome.detail}".removesuffix(": "))
    if not isinstance(outcome, Fetched):
        return PollReading(trouble="redirected")
    if outcome.status == 304:
        return PollReading(unchanged=True)
    if outcome.status in GONE_STATUSES:
        return PollReading(gone=True, trouble=f"status {outcome.status}")
    try:
        listing = read_sitemap(outcome.body, outcome.url, now)
    except UnreadableError as error:
        return PollReading(trouble=str(error), size=len(outcome.body))
    answered = host_of(outcome.url)
    stranger = None if site_of(answered) == site_of(host_of(polled.url)) else answered  # of another site
    own = site_of(host_of(polled.url)) if polled.others else None
    listed = _columns(listing, polled.hosts if stranger is None else frozenset({stranger}), polled.scope, own)
    hubs, topic = links_of_header(outcome.headers.get("link", ""), outcome.url)
    return PollReading(
        is_feed=listing.form.is_feed,
        listed=listed,
        difference=differ(polled.baseline, listed, feed=listing.form.is_feed, complete=listing.complete),
        children=_children(listing, outcome.url),
        complete=listing.complete,
        answered_by=stranger,
        hubs=(hubs or listing.hubs) if stranger is None else (),
        topic=topic or listing.topic,
        etag=_validator(outcome.headers.get("etag")),
        last_modified=_validator(outcome.headers.get("last-modified")),
        size=len(outcome.body),
    )


def _validator(value: str | None) -> str | None:
    return value if value is not None and len(value) <= LIMITS.max_validator else None


def _children(listing: Listing, url: str) -> Sequence[Child]:
    """The sitemaps that an index lists, the latest first."""
    children = {e.loc: stamp_of(e.lastmod) for e in listing.entries if e.kind is EntryKind.SITEMAP and e.loc != url}
    latest = sorted(children.items(), key=lambda item: -item[1])
    return [Child(loc, stamp) for loc, stamp in latest[: LIMITS.max_children]]


def _columns(listing: Listing, hosts: frozenset[str] | None, scope: tuple[str, ...], own: str | None) -> ListedFile:
    """The pages that a file may speak for; `own` is its site, where those on other sites are told by their URLs."""
    pages: Sequence[Entry] = [entry for entry in listing.entries if entry.kind is not EntryKind.SITEMAP]
    total = len(pages)
    if hosts is not None:
        sites = {site_of(host) for host in hosts}
        pages = [entry for entry in pages if site_of(host_of_target(entry.loc)) in sites]
    keys = keys_of(entry.loc for entry in pages)
    stamps = np.array([stamp_of(entry.lastmod) for entry in pages], dtype=np.int64)
    usable = [entry.lastmod if entry.lastmod and entry.lastmod.usable else None for entry in pages]
    at = np.array([claim.at if claim else np.nan for claim in usable], dtype=np.float64)
    until = np.array([claim.until if claim else np.nan for claim in usable], dtype=np.float64)
    order = np.lexsort((stamps, keys))  # of several entries of one page, the latest stamp
    last = np.ones(len(order), dtype=bool)
    last[:-1] = keys[order][:-1] != keys[order][1:]
    order = order[last]
    urls = [pages[i].loc for i in order.tolist()] if scope or own is not None else []
    wanted = [i for i, url in enumerate(urls) if identity(url).startswith(scope)] if scope else []
    others = [i for i, url in enumerate(urls) if site_of(host_of_target(url)) != own] if own is not None else []
    return ListedFile(
        keys[order],
        stamps[order],
        at[order],
        until[order],
        total - len(pages),
        np.array(wanted, dtype=np.int64),
        "\n".join(urls[i] for i in wanted),
        np.array(others, dtype=np.int64),
        "\n".join(urls[i] for i in others),
    )
