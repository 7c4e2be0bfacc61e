"""How far each host's pages keep to the model, found out by predicting what crawls are about to find.

Values may be taken over posteriors whose shape is capped at 1 or left as it is, and ages may go by the host's clock or
by time itself. Each of the four scores gives every crawl a chance of finding the page unchanged; its score is the sum
of the logarithms of what it gave to that which happened, and the better score decides (docs/method.md, Estimation).
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEMORY = 10.0  # crawls per page of the host after which a prediction counts 1/e
HEAD_START = 3.0  # of the cap and of the clock, which do well on recorded histories
SUREST = 1e-6
CAUTIOUS, CLOCKED = 1, 2  # bits of a way's number
WAYS = 4


class PredictionScores:
    """Scores by host and way; a host nothing is known of is met with caution and by its clock."""

    def __init__(self) -> None:
        self._score = np.zeros((0, WAYS))

    def cautious(self, hosts: Ints) -> NDArray[np.bool_]:
        """Whose pages' values are taken over capped shapes: judged by the age that is gone by."""
        score, by_clock = self._of(hosts), self.clocked(hosts)
        capped = np.where(by_clock, score[:, CAUTIOUS | CLOCKED], score[:, CAUTIOUS])
        return np.asarray(capped + HEAD_START > np.where(by_clock, score[:, CLOCKED], score[:, 0]))

    def clocked(self, hosts: Ints) -> NDArray[np.bool_]:
        """Whose pages age by the host's clock: judged without the cap, whose tail hides its errors."""
        score = self._of(hosts)
        return np.asarray(score[:, CLOCKED] + HEAD_START > score[:, 0])

    def judge(self, hosts: Ints, pages: Ints, posterior: tuple[Floats, Floats], ages: tuple[Floats, Floats],
              changed: NDArray[np.bool_]) -> Ints:  # fmt: skip
        """Score what crawls found; the hosts whose pages are met with more or less caution from now on.

        `pages` counts those of each crawl's host, `posterior` is (shape, mean) of α as believed before the crawl,
        `ages` are by time and by clock.
        """
        unique, place, counts = np.unique(hosts, return_inverse=True, return_counts=True)
        new = int(unique.max(initial=-1)) + 1 - len(self._score)
        if new > 0:
            self._score = np.vstack([self._score, np.zeros((new, WAYS))])
        before = self.cautious(unique)
        size = np.ones(len(unique))
        size[place] = pages
        self._score[unique] *= np.exp(-counts / (MEMORY * size))[:, None]
        shape, mean = posterior
        for way in range(WAYS):
            spread = np.minimum(shape, 1.0) if way & CAUTIOUS else shape
            age = ages[1 if way & CLOCKED else 0]
            fresh = np.exp(-spread * np.log1p(mean * age / spread)).clip(SUREST, 1.0 - SUREST)
            self._score[unique, way] += np.bincount(place, np.log(np.where(changed, 1.0 - fresh, fresh)))
        moved: Ints = unique[self.cautious(unique) != before]
        return moved

    def _of(self, hosts: Ints) -> Floats:
        score = np.zeros((len(hosts), WAYS))
        there = hosts < len(self._score)
        score[there] = self._score[hosts[there]]
        return score
