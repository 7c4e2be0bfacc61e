"""By how much of its own history a page is judged, found out host by host by predicting what crawls are about to find.

With few crawls a page's own rate is mostly noise, and mass events make pages of one host look different that are not.
So a page's likelihood is raised to a power between 0, the rate that all pages of its host share, and 1, its own history
in full. Each power predicts every crawl, and the better ones have more weight in the power that a host's pages go by. A
host starts from what other hosts have shown (docs/method.md, Estimation).
"""

import numpy as np
from numpy.typing import NDArray

from crawld.learning.new_intervals import OWN_SHARES
from crawld.row_index import grown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEMORY = 10.0  # crawls per page of the host after which a prediction counts 1/e
LEAD, LEAD_A_PAGE = 15.0, 0.3  # of the common rate at first, in ln: at most, and for each page of the host
ALIKE = 2.0  # hosts whose votes that lead outweighs
LEAST_SHARE, MOST_SHARE = 0.02, 0.98  # below, a host's pages go by one rate; from there on by all of their histories
NEWS = 0.05  # pages are told of a share that has moved by so much


class OwnHistoryShares:
    """Scores by host and share, and the share that each host's pages go by."""

    def __init__(self) -> None:
        self._score = np.zeros((0, len(OWN_SHARES)))
        self._vote = np.zeros((0, len(OWN_SHARES)))  # by host: how likely each share is the best
        self._told = np.zeros(0)  # by host: the share that its pages go by; nan where as other hosts'
        self._votes = np.zeros(len(OWN_SHARES))

    def shares(self, hosts: Ints) -> Floats:
        """By how much of their own history pages of these hosts are judged; new hosts as others have shown."""
        found = np.full(
            len(hosts), self._expected(np.zeros((1, len(OWN_SHARES))), np.full(1, np.inf), self._votes)[1][0]
        )
        there = np.flatnonzero(hosts < len(self._told))
        told = self._told[hosts[there]]
        found[there] = np.where(np.isnan(told), found[there], told)
        return found

    def judge(self, hosts: Ints, pages: Ints, scores: Floats) -> Ints:
        """Take in how well each share predicted some crawls, (crawls, shares); the hosts that go by another now.

        `pages` counts those of each crawl's host.
        """
        unique, place, counts = np.unique(hosts, return_inverse=True, return_counts=True)
        hosts_known = int(unique.max(initial=-1)) + 1
        self._score, self._vote = grown(self._score, hosts_known, 0.0), grown(self._vote, hosts_known, 0.0)
        self._told = grown(self._told, hosts_known, np.nan)
        size = np.ones(len(unique))
        size[place] = pages
        self._score[unique] *= np.exp(-counts / (MEMORY * size))[:, None]
        np.add.at(self._score, hosts, scores - scores[:, :1])
        mass, share = self._expected(
            self._score[unique], size, self._votes - self._vote[unique]
        )  # no host hears itself
        vote = mass * (_lead(size) / LEAD)[:, None]  # a host of few pages has shown little
        self._votes += (vote - self._vote[unique]).sum(axis=0)
        self._vote[unique] = vote
        moved = np.abs(share - self.shares(unique)) > NEWS
        self._told[unique] = np.where(moved, share, self.shares(unique))
        return np.asarray(unique[moved])

    def _expected(self, score: Floats, size: Floats, votes: Floats) -> tuple[Floats, Floats]:
        """How likely each share is the best, by host, given the votes of others, and the mean of the shares."""
        first = np.exp(-_lead(size)[:, None] * (OWN_SHARES > 0))
        first = ALIKE * first / first.sum(axis=1, keepdims=True) + np.maximum(votes, 0.0)
        mass = np.exp(score - score.max(axis=1, keepdims=True)) * first
        mass /= mass.sum(axis=1, keepdims=True)
        return mass, mass @ OWN_SHARES


def _lead(size: Floats) -> Floats:
    return np.minimum(LEAD_A_PAGE * size, LEAD)
