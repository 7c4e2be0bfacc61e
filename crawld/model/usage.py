"""Uses that a page allows: the statements of its site, each with where it was made, and what follows from them.

A use is denied where any statement denies it, allowed where one allows it and none denies it, and open where nothing is
said (docs/usage.md).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache


@dataclass(frozen=True)
class UsageLimits:
    """Numbers that bound and tune this module."""

    max_statements: int = 20
    max_characters: int = 500


LIMITS = UsageLimits()


class PageUse(StrEnum):
    """Use that consumers make of a page."""

    SEARCH = "search"  # show it in search results
    AI_INPUT = "ai-input"  # give it to a model as input: answers, summaries, retrieval
    AI_TRAIN = "ai-train"  # train or tune a model with it


class SaidIn(StrEnum):
    """Place in which a site makes a statement of a page."""

    ROBOTS_SIGNAL = "robots.txt Content-Signal"
    ROBOTS_USAGE = "robots.txt Content-Usage"
    ROBOTS_LICENSE = "robots.txt License"
    SIGNAL = "Content-Signal header"
    USAGE = "Content-Usage header"
    ROBOTS_TAG = "X-Robots-Tag header"
    LINK = "Link header"
    META = "meta robots"
    LINK_ELEMENT = "link element"

    @property
    def in_headers(self) -> bool:
        """Tells whether it stands in the headers of the page's answer."""
        return self in {SaidIn.SIGNAL, SaidIn.USAGE, SaidIn.ROBOTS_TAG, SaidIn.LINK}

    @property
    def in_head(self) -> bool:
        """Tells whether it stands in the head of the page's markup."""
        return self in {SaidIn.META, SaidIn.LINK_ELEMENT}

    @property
    def is_license(self) -> bool:
        """Tells whether it names a licence."""
        return self in {SaidIn.ROBOTS_LICENSE, SaidIn.LINK, SaidIn.LINK_ELEMENT}


Statement = tuple[SaidIn, str]
"""Where something is said, and what."""
CATEGORIES: Mapping[str, Sequence[PageUse]] = {
    "search": (PageUse.SEARCH,),
    "ai-input": (PageUse.AI_INPUT,),
    "ai-train": (PageUse.AI_TRAIN,),
    "train-ai": (PageUse.AI_TRAIN,),
    "train-genai": (PageUse.AI_TRAIN,),
    "ai": (PageUse.AI_INPUT, PageUse.AI_TRAIN),
    "ai-use": (PageUse.AI_INPUT,),
    "bots": tuple(PageUse),
    "all": tuple(PageUse),
}
"""Categories of Content-Signal and Content-Usage by what they say of; others are passed on and decide nothing."""
DENIALS: Mapping[str, Sequence[PageUse]] = {
    "noindex": (PageUse.SEARCH,),
    "nosnippet": (PageUse.AI_INPUT,),
    "noai": (PageUse.AI_INPUT, PageUse.AI_TRAIN),
    "noml": (PageUse.AI_TRAIN,),
}
"""Uses that robots' directives deny."""
YES, NO = frozenset({"yes", "y", "?1", "1", "true"}), frozenset({"no", "n", "?0", "0", "false"})


@dataclass(frozen=True, slots=True)
class Usage:
    """Uses that a page allows. None: nothing is said."""

    search: bool | None = None
    ai_input: bool | None = None
    ai_train: bool | None = None
    noarchive: bool = False
    nosnippet: bool = False
    license: str | None = None  # in RSL
    said: Sequence[tuple[str, str]] = field(default=())  # where, and what

    def allows(self, use: PageUse) -> bool:
        """Tells whether nothing denies the use."""
        return self._of(use) is not False

    @property
    def denied(self) -> tuple[PageUse, ...]:
        """The uses that are denied."""
        return tuple(use for use in PageUse if not self.allows(use))

    @property
    def terms(self) -> tuple[object, ...]:
        """Everything that consumers go by, whatever its wording."""
        return self.search, self.ai_input, self.ai_train, self.noarchive, self.nosnippet, self.license

    def _of(self, use: PageUse) -> bool | None:
        return {PageUse.SEARCH: self.search, PageUse.AI_INPUT: self.ai_input, PageUse.AI_TRAIN: self.ai_train}[use]

    def document(self) -> dict[str, object]:
        """The same in JSON."""
        words = {True: "yes", False: "no", None: None}
        return {
            **{use.value: words[self._of(use)] for use in PageUse},
            "noarchive": self.noarchive,
            "nosnippet": self.nosnippet,
            "license": self.license,
            "said": [{"where": where, "text": text} for where, text in self.said],
        }

    @property
    def header(self) -> str:
        """The same in the words of Content-Signal; empty where nothing is said."""
        said = ((use.value, self._of(use)) for use in PageUse)
        return ", ".join(f"{name}={'yes' if allowed else 'no'}" for name, allowed in said if allowed is not None)


NOTHING_SAID = Usage()


@lru_cache(1024)
def usage_of(said: tuple[Statement, ...]) -> Usage:
    """Returns what follows from the statements."""
    if not said:
        return NOTHING_SAID
    votes: dict[PageUse, bool] = {}
    directives: set[str] = set()
    for place, text in said:
        if place in {SaidIn.META, SaidIn.ROBOTS_TAG}:
            directives |= {word.strip() for word in text.split(",")}
        elif not place.is_license:
            for use, allowed in _preferences(text):
                votes[use] = allowed and votes.get(use, True)
    for word in directives:
        votes |= dict.fromkeys(DENIALS.get(word, ()), False)
    return Usage(
        search=votes.get(PageUse.SEARCH),
        ai_input=votes.get(PageUse.AI_INPUT),
        ai_train=votes.get(PageUse.AI_TRAIN),
        noarchive=bool(directives & {"noarchive", "nocache"}),
        nosnippet="nosnippet" in directives,
        license=next((text for place, text in said if place.is_license), None),
        said=tuple((place.value, text) for place, text in said),
    )


def _preferences(text: str) -> Iterable[tuple[PageUse, bool]]:
    """Yields the pairs of a list of `name=value`, however parted; of a name that comes twice the last counts."""
    found: dict[PageUse, bool] = {}
    for name, word in re.findall(r'([a-z-]+)\s*=\s*"?(\??[a-z0-9]+)', text.lower())[:50]:
        if word in YES | NO:
            found |= dict.fromkeys(CATEGORIES.get(name, ()), word in YES)
    return found.items()
