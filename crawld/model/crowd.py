"""With how many others a signal came: alone, with a few, or with a large part of its site."""

from enum import StrEnum

ALONE_SHARE = 0.01
"""A signal that came with this share of the listed pages at most came alone."""

FEW_SHARE = 0.05
"""And with at most this share, with a few; more is one event of the whole site: a build, a new template."""

FEW_PAGES = 3
"""So many pages are a few on the smallest site."""


class Crowd(StrEnum):
    """How many of a site's listed pages moved in the same poll; each kind is trusted by itself."""

    ALONE = "alone"
    FEW = "few"
    BULK = "bulk"


CROWDS = tuple(Crowd)
"""Every kind in a fixed order."""


def crowd_of(moved: int, listed: int) -> Crowd:
    """The kind of a signal that came with `moved` pages in all, itself included, out of `listed` ones."""
    if moved <= max(1.0, ALONE_SHARE * listed):
        return Crowd.ALONE
    return Crowd.FEW if moved <= max(FEW_PAGES, FEW_SHARE * listed) else Crowd.BULK
