"""Whether a host's signals of one source are listened to, and why."""

from dataclasses import dataclass

from crawld.model.units import many


@dataclass(frozen=True, slots=True)
class SourceTrust:
    """What a host's crawls have said about one source of signals.

    `score` is how much better crawls were foretold by listening, as a sum of logarithms, older crawls fading; `error`
    is its standard error, with all crawls of one round of the host's pages counted as one. `crawls` found `changes`
    after `signals` of the source.
    """

    host: str
    source: int  # its place in the order of sources
    heard: bool
    score: float
    error: float
    crawls: int
    changes: int
    signals: int

    @property
    def why(self) -> str:
        """The reason in words."""
        seen = f"{many(self.changes, 'change')} in {many(self.crawls, 'crawl')} after a signal"
        ahead = f"{self.score:.1f}, give or take {self.error:.1f}"
        if self.heard:
            return f"heard: listening foretells crawls better (by {ahead}); {seen}"
        if self.crawls == 0:
            return "not heard: no crawl has followed a signal yet"
        if self.score <= 0:
            return f"not heard: listening foretells crawls no better ({self.score:+.1f}); {seen}"
        return f"not heard yet: ahead by {ahead}, which is too little; {seen}"
