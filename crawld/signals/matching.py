"""Which page a listed URL means, whatever its spelling, scheme or trailing slash.

The rules, in the order they are applied to a target: its identity counts, not its spelling; http and https are the
same; the ports 80 and 443 are left out; an empty query and one slash at the end of the path are left out; everything
else (path, case of the path, query) must be equal. A target has its host in lower case and no fragment.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from crawld.model.page import Page
from crawld.model.url import identity

Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]

MAX_LATECOMERS = 10_000
"""Pages that came, or left, since the sorted ones were merged last."""


def match_key(url: str) -> str:
    """Returns what the targets of one page have in common."""
    rest = identity(url).partition("://")[2]
    path, mark, query = rest.partition("?")
    authority, slash, path = path.partition("/")
    if authority.endswith((":80", ":443")):
        authority = authority.rpartition(":")[0]
    path = path.removesuffix("/")
    return f"{authority}{slash if path else ''}{path}{mark if query else ''}{query}"


def key_of(url: str) -> int:
    """The match key of a target as a number of 64 bits."""
    return int.from_bytes(blake2b(match_key(url).encode("utf-8", "replace"), digest_size=8).digest(), "little")


def keys_of(urls: Iterable[str]) -> Keys:
    """The match keys of many URLs."""
    return np.fromiter((key_of(url) for url in urls), dtype=np.uint64)


class PageIndex:
    """Page ids by match key, in 16 bytes a page. Several pages may share a key: each is found."""

    def __init__(self) -> None:
        self._keys: Keys = np.empty(0, dtype=np.uint64)
        self._ids: Ints = np.empty(0, dtype=np.int64)
        self._late_keys: list[int] = []
        self._late_ids: list[int] = []
        self._late: tuple[Keys, Ints] | None = None  # the same, sorted, once they were looked up
        self._dropped: set[int] = set()
        self._dropped_ids: Ints | None = None

    def __len__(self) -> int:
        return len(self._ids) + len(self._late_ids) - len(self._dropped)

    def put(self, pages: Sequence[Page]) -> None:
        """Take pages in that are not in yet."""
        if self._dropped.intersection(page.id for page in pages):
            self._settle()
        self._late_keys.extend(key_of(page.url) for page in pages)
        self._late_ids.extend(page.id for page in pages)
        self._late = None
        if len(self._late_ids) > MAX_LATECOMERS:
            self._settle()

    def drop(self, page_ids: Iterable[int]) -> None:
        """Forget pages that are in."""
        self._dropped.update(page_ids)
        self._dropped_ids = None
        if len(self._dropped) > MAX_LATECOMERS:
            self._settle()

    def find(self, keys: Keys) -> tuple[Ints, Ints]:
        """Positions in `keys` and the ids of the pages found there, one pair a page."""
        late_keys, late_ids = self._sorted_late()
        found = (_look_up(self._keys, self._ids, keys), _look_up(late_keys, late_ids, keys))
        positions = np.concatenate([positions for positions, _ in found])
        ids = np.concatenate([ids for _, ids in found])
        if self._dropped and len(ids):
            if self._dropped_ids is None:
                self._dropped_ids = np.sort(np.fromiter(self._dropped, dtype=np.int64))
            at = np.minimum(np.searchsorted(self._dropped_ids, ids), len(self._dropped_ids) - 1)
            kept = self._dropped_ids[at] != ids
            positions, ids = positions[kept], ids[kept]
        return positions, ids

    def alike(self, url: str) -> Sequence[int]:
        """The pages of a URL, whatever its spelling, scheme or slash at the end."""
        key, found = np.uint64(key_of(url)), list[int]()
        for keys, ids in ((self._keys, self._ids), self._sorted_late()):
            at = int(keys.searchsorted(key))
            while at < len(keys) and keys[at] == key:
                found.append(int(ids[at]))
                at += 1
        return [page_id for page_id in found if page_id not in self._dropped]

    def _sorted_late(self) -> tuple[Keys, Ints]:
        if self._late is None:
            keys = np.array(self._late_keys, dtype=np.uint64)
            order = np.argsort(keys, kind="stable")
            self._late = keys[order], np.array(self._late_ids, dtype=np.int64)[order]
        return self._late

    def _settle(self) -> None:
        """Merge the latecomers in and leave out who was dropped: no sorting of all that are in."""
        late_keys, late_ids = self._sorted_late()
        at = np.searchsorted(self._keys, late_keys, side="right")
        keys, ids = np.insert(self._keys, at, late_keys), np.insert(self._ids, at, late_ids)
        if self._dropped:
            kept = ~np.isin(ids, np.fromiter(self._dropped, dtype=np.int64))
            keys, ids = keys[kept], ids[kept]
        self._keys, self._ids = keys, ids
        self._late_keys, self._late_ids, self._late = [], [], None
        self._dropped, self._dropped_ids = set(), None


def _look_up(sorted_keys: Keys, ids: Ints, wanted: Keys) -> tuple[Ints, Ints]:
    left = np.searchsorted(sorted_keys, wanted, side="left")
    counts = np.searchsorted(sorted_keys, wanted, side="right") - left
    positions = np.repeat(np.arange(len(wanted), dtype=np.int64), counts)
    within = np.arange(len(positions), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return positions, ids[np.repeat(left, counts) + within]
