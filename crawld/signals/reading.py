"""A poll's answer as columns: everything that takes long, none of it dependent on what we know."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crawld.content.feed import links_of_header
from crawld.content.listing import Entry, Form, Kind, Listing, UnreadableError
from crawld.content.sitemap import read_sitemap
from crawld.model.fetched import GONE_STATUSES, Fetched, FetchFailed, Outcome
from crawld.model.url import host_of
from crawld.signals.baseline import Stamps, stamp_of
from crawld.signals.matching import Keys, keys_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Child:
    """A sitemap that an index lists."""

    url: str
    stamp: int


@dataclass(frozen=True, slots=True)
class Listed:
    """The pages a file lists, as columns in the order of their keys, each key once; nan: no usable claim."""

    keys: Keys
    stamps: Stamps
    at: Floats
    until: Floats
    urls: Sequence[str]
    foreign: int = 0  # entries of hosts that the file may not speak for


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer brought: a listing, nothing new (`unchanged`), or `trouble` in words."""

    form: Form | None = None
    listed: Listed | None = None
    children: Sequence[Child] = field(default=())
    complete: bool = False
    unchanged: bool = False
    gone: bool = False
    trouble: str | None = None
    hubs: Sequence[str] = field(default=())
    topic: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    size: int = 0


def read_answer(url: str, hosts: frozenset[str] | None, outcome: Outcome, now: float) -> Reading:
    """Read a poll's answer. `hosts` are those the file may speak for (None: any). Pure, and may run off the loop."""
    if isinstance(outcome, FetchFailed):
        return Reading(trouble=f"{outcome.trouble}: {outcome.detail}".removesuffix(": "))
    if not isinstance(outcome, Fetched):
        return Reading(trouble="redirected")
    if outcome.status == 304:
        return Reading(unchanged=True)
    if outcome.status in GONE_STATUSES:
        return Reading(gone=True, trouble=f"status {outcome.status}")
    try:
        listing = read_sitemap(outcome.body, url, now)
    except UnreadableError as error:
        return Reading(trouble=str(error), size=len(outcome.body))
    hubs, topic = links_of_header(outcome.headers.get("link", ""), url)
    children = [e for e in listing.entries if e.kind is Kind.SITEMAP]
    return Reading(
        form=listing.form,
        listed=_columns(listing, hosts),
        children=[Child(entry.loc, stamp_of(entry.lastmod)) for entry in children],
        complete=listing.complete,
        hubs=hubs or listing.hubs,
        topic=topic or listing.topic,
        etag=outcome.headers.get("etag"),
        last_modified=outcome.headers.get("last-modified"),
        size=len(outcome.body),
    )


def site_of(host: str) -> str:
    """The name two hosts share that may speak for each other: with or without `www.`, on any port."""
    name = host if host.startswith("[") else host.partition(":")[0]
    return name.removeprefix("www.")


def _columns(listing: Listing, hosts: frozenset[str] | None) -> Listed:
    pages: Sequence[Entry] = [entry for entry in listing.entries if entry.kind is not Kind.SITEMAP]
    total = len(pages)
    if hosts is not None:
        sites = {site_of(host) for host in hosts}
        pages = [entry for entry in pages if site_of(_host(entry.loc)) in sites]
    keys = keys_of(entry.loc for entry in pages)
    stamps = np.array([stamp_of(entry.lastmod) for entry in pages], dtype=np.int64)
    usable = [entry.lastmod if entry.lastmod and entry.lastmod.usable else None for entry in pages]
    at = np.array([claim.at if claim else np.nan for claim in usable], dtype=np.float64)
    until = np.array([claim.until if claim else np.nan for claim in usable], dtype=np.float64)
    order = np.lexsort((stamps, keys))  # of several entries of one page, the latest stamp
    last = np.ones(len(order), dtype=bool)
    last[:-1] = keys[order][:-1] != keys[order][1:]
    order = order[last]
    urls = [pages[i].loc for i in order.tolist()]
    return Listed(keys[order], stamps[order], at[order], until[order], urls, total - len(pages))


def _host(url: str) -> str:
    """The host of a target."""
    authority = url.partition("://")[2].partition("/")[0].partition("?")[0]
    return authority or host_of(url)
