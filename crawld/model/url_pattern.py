"""A URL in which `*` stands for anything."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class UrlPattern:
    """Fits URLs as an operator writes them; without `://` it fits both schemes."""

    text: str = "*"

    @cached_property
    def _parts(self) -> list[str]:
        return self.text.split("*")

    def fits(self, url: str) -> bool:
        """Whether the URL is one of those that the pattern means."""
        if "://" not in self.text and not self.text.startswith("*"):
            url = url.partition("://")[2]
        first, *rest = self._parts
        if not rest:
            return url == first
        *middle, last = rest
        if not url.startswith(first) or not url.endswith(last) or len(url) < len(first) + len(last):
            return False
        at, end = len(first), len(url) - len(last)
        for part in middle:
            at = url.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True
