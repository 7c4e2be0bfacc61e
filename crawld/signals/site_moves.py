"""How many lastmods of a site moved together, counted over all its files that were polled within minutes.

One deploy of a site may show in many small sitemaps, each with an entry or two: looked at one by one they would pass
for pages edited by hand.
"""

from dataclasses import dataclass, field

from crawld.model.signal import SITEMAPS, Source, sitemap_source

TOGETHER_SECONDS = 300.0
"""Moves of two files of one site within this time are taken for one event."""
MOST_SITES = 10_000
"""Sites whose latest moves are remembered; beyond it the older half is forgotten."""


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a file moved in one poll, and how many entries all files of its site list."""

    moved: int
    listed: int  # entries that could have moved
    site_lists: int


@dataclass(slots=True)
class _Moves:
    """The latest moves of one site: by file, the latest last, when they were seen and how many entries moved."""

    by_file: dict[str, tuple[float, int]] = field(default_factory=dict)
    total: int = 0

    def note(self, file: str, moved: int, now: float) -> None:
        """Take in a file's moves in place of its earlier ones; forget those of long ago."""
        self.forget(file)
        while self.by_file:
            oldest, (seen, _) = next(iter(self.by_file.items()))
            if now - seen <= TOGETHER_SECONDS:
                break
            self.forget(oldest)
        self.by_file[file] = (now, moved)
        self.total += moved

    def forget(self, file: str) -> None:
        """Leave a file's moves out."""
        self.total -= self.by_file.pop(file, (0.0, 0))[1]


class SiteMoves:
    """The latest moves of every site."""

    def __init__(self) -> None:
        self._sites: dict[str, _Moves] = {}

    def expect(self, site: str, file: str, now: float) -> None:
        """An index says that a file has changed: at least one of its entries has moved."""
        self._note(site, file, 1, now)

    def source(self, site: str, file: str, share: Share, now: float) -> Source:
        """The source of a poll's signals: by the share that moved in the file, or in the site's files together."""
        if not share.moved:
            if site in self._sites:
                self._sites[site].forget(file)
            return Source.SITEMAP
        together = self._note(site, file, share.moved, now)
        in_file = sitemap_source(share.moved, share.listed)
        in_site = sitemap_source(together, max(share.site_lists, together))
        return max(in_file, in_site, key=SITEMAPS.index)

    def _note(self, site: str, file: str, moved: int, now: float) -> int:
        moves = self._sites.pop(site, None) or _Moves()
        moves.note(file, moved, now)
        self._sites[site] = moves  # the latest last
        if len(self._sites) > MOST_SITES:
            self._sites = dict(list(self._sites.items())[MOST_SITES // 2 :])
        return moves.total
