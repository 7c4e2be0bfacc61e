"""What robots are told of one page: in `X-Robots-Tag` and in `<meta name="robots">`."""

from collections.abc import Iterable

WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
"""Directives whose value follows a colon: any other word before one is the name of a robot."""
ALL_ROBOTS = "robots"


def directives(words: str) -> Iterable[str]:
    """The directives of a list, in lower case; of those with a value only the name."""
    for part in words.split(",")[:100]:
        word = part.partition(":")[0].strip().lower()
        if word:
            yield word


def told_in_header(value: str | None, agent: str) -> frozenset[str]:
    """The directives of `X-Robots-Tag` for us: those for all robots and those after our name."""
    found: set[str] = set()
    ours = True
    for part in (value or "").split(",")[:100]:
        head, colon, rest = part.partition(":")
        word = head.strip().lower()
        if colon and word not in WITH_VALUE and " " not in word:
            ours = word == agent.lower()
            word = rest.partition(":")[0].strip().lower()
        if ours and word:
            found.add(word)
    return _spelt_out(found)


def told_in_meta(robots: Iterable[tuple[str, str]], agent: str) -> frozenset[str]:
    """The directives of `<meta>` elements for us: where some are for our name, those for all robots do not count."""
    by_name: dict[str, set[str]] = {}
    for name, words in robots:
        if name in {ALL_ROBOTS, agent.lower()}:
            by_name.setdefault(name, set()).update(directives(words))
    return _spelt_out(by_name.get(agent.lower()) or by_name.get(ALL_ROBOTS) or set())


def _spelt_out(found: set[str]) -> frozenset[str]:
    """The directives with what `none` stands for."""
    return frozenset(found | {"noindex", "nofollow"}) if "none" in found else frozenset(found)
