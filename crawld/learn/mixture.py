"""Rival predictors, weighed host by host instead of chosen (docs/method.md, "The mixture").

Each predictor gives every crawl of a host a chance of what it then found. Its score S is the sum of its log chances
less those of the first predictor, older crawls fading; its weight is w ∝ π·e^S. Whatever is asked of the predictors is
then averaged by weight. π counts as a few hosts beside what other hosts have shown, so that a new host starts from what
hosts of this installation are like.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.model.row_index import grown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JointEvents:
    """Which crawls are no independent witnesses: those `together` within one `span` of time saw the same event."""

    together: NDArray[np.bool_]
    at: Floats
    span: Floats


class Mixture:
    """Scores and weights by host and predictor; the first predictor is what the others are measured against.

    With `graded` the prior holds for hosts of many pages, and smaller ones start the nearer to even odds.
    """

    memory = 10.0  # crawls per page of the host after which a prediction counts 1/e
    max_gain = 1.0  # of one crawl: one surprise may speak against a predictor, not for it
    max_event_gain = 2.0  # of all crawls that witness one event of their host
    prior_hosts = 2.0  # hosts that the prior counts as
    whole_vote = 50  # pages from which on a host counts as one; smaller ones have shown less
    fewest = 10  # pages that hosts of fewer are graded by: lists of many hosts with a page or two have no even odds
    silent = 0.02  # weights below are left out
    news = 0.05  # pages are told of weights that have moved by so much

    def __init__(self, prior: Sequence[float], *, graded: bool = False) -> None:
        self._log_prior = np.log(prior)
        self._graded = graded
        self._votes = np.zeros(len(prior))  # of all hosts
        self._score = self._vote = self._told = np.zeros((0, len(prior)))  # told: nan where as a new host
        self._begun = np.full(0, -np.inf)  # by host: when the latest event began,
        self._witnessed = np.zeros((0, len(prior)))  # and what crawls after it have added

    def weights(self, hosts: Ints) -> Floats:
        """By host, as its pages were last told: what each predictor counts, those that are silent not at all."""
        found = np.repeat(self._audible(self._weigh(np.zeros((1, len(self._votes))), np.full(1, np.inf), self._votes)),
                          len(hosts), axis=0)  # fmt: skip
        there = np.flatnonzero(hosts < len(self._told))
        told = self._told[hosts[there]]
        known = ~np.isnan(told[:, 0])
        found[there[known]] = told[known]
        return found

    def score(self, host: int) -> Floats:
        """How far each predictor of a host is ahead of the first."""
        return self._score[host].copy() if host < len(self._score) else np.zeros(len(self._votes))

    def judge(self, hosts: Ints, pages: Ints, gain: Floats, events: JointEvents | None = None) -> Ints:
        """Take in how far ahead of the first each predictor was on some crawls; the hosts whose weights moved.

        `pages` counts those of each crawl's host.
        """
        unique, place, counts = np.unique(hosts, return_inverse=True, return_counts=True)
        self._make_room(int(unique.max(initial=-1)) + 1)
        size = np.ones(len(unique))
        size[place] = pages
        self._score[unique] *= np.exp(-counts / (self.memory * size))[:, None]
        gain = np.minimum(gain, self.max_gain)
        if events is not None and events.together.any():
            self._witness(hosts, gain, events)
            hosts, gain = hosts[~events.together], gain[~events.together]
        np.add.at(self._score, hosts, gain)
        weight = self._weigh(self._score[unique], size, self._votes - self._vote[unique])  # no host hears itself
        vote = weight * np.minimum(size / self.whole_vote, 1.0)[:, None]
        self._votes += (vote - self._vote[unique]).sum(axis=0)
        self._vote[unique] = vote
        weight, before = self._audible(weight), self.weights(unique)
        moved = ((np.abs(weight - before) > self.news) | ((weight > 0) != (before > 0))).any(axis=1)
        self._told[unique] = np.where(moved[:, None], weight, before)
        return np.asarray(unique[moved])

    def _witness(self, hosts: Ints, gain: Floats, events: JointEvents) -> None:
        """Add what crawls say for predictors, event by event, and no more than one event may."""
        rows = np.flatnonzero(events.together)
        rows = rows[np.lexsort((events.at[rows], hosts[rows]))]
        for some in np.split(rows, np.flatnonzero(np.diff(hosts[rows])) + 1):
            host, first = int(hosts[some[0]]), 0
            while first < len(some):
                at, span = events.at[some[first:]], events.span[some[first:]]
                if at[0] > self._begun[host] + span[0]:
                    self._begun[host], self._witnessed[host] = at[0], 0.0
                count = max(1, int(np.argmax(np.r_[at > self._begun[host] + span, True])))
                before = self._witnessed[host]
                after = before + gain[some[first : first + count]].sum(axis=0)
                self._score[host] += np.minimum(after, self.max_event_gain) - np.minimum(before, self.max_event_gain)
                self._witnessed[host] = after
                first += count

    def _weigh(self, score: Floats, size: Floats, votes: Floats) -> Floats:
        share = np.clip(size, self.fewest, self.whole_vote) / self.whole_vote if self._graded else np.ones(len(size))
        prior = np.exp(share[:, None] * self._log_prior)
        prior = self.prior_hosts * prior / prior.sum(axis=1, keepdims=True) + np.maximum(votes, 0.0)
        weight = prior * np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def _make_room(self, hosts: int) -> None:
        self._score, self._vote = grown(self._score, hosts, 0.0), grown(self._vote, hosts, 0.0)
        self._told, self._begun = grown(self._told, hosts, np.nan), grown(self._begun, hosts, -np.inf)
        self._witnessed = grown(self._witnessed, hosts, 0.0)

    def _audible(self, weight: Floats) -> Floats:
        kept = np.where(weight > self.silent, weight, 0.0)
        return np.asarray(kept / kept.sum(axis=1, keepdims=True))
