"""What the daemon's learner and every replay of it decide by: histories in, beliefs out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crawld.learning.estimator import YEAR, Posterior, Prior, age_weights, signal_rates
from crawld.learning.host_clock import HostClocks
from crawld.learning.host_priors import HostPriors
from crawld.learning.likelihood import Observations
from crawld.learning.new_intervals import NewIntervals
from crawld.learning.own_history import LEAST_SHARE, MOST_SHARE, OwnHistoryShares
from crawld.learning.prediction_scores import PredictionScores
from crawld.learning.signal_gates import SignalGates
from crawld.model.age_curve import AgeCurve
from crawld.model.signal import SOURCES, SignalTrust, Source
from crawld.row_index import grown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEWS = 0.1  # an age is told again when it has come to differ by that share
FORETOLD = 2  # of a page's intervals are foretold at first sight of many: enough for what comes in as it is crawled
RECALLED = 50  # and after a restart, when hosts are to be known again
FEW_ROWS, STAGES = 3, 8  # more new intervals a page are whole histories: clocks take them in stages
LONE = (SOURCES.index(Source.SITEMAP),)  # sources whose signals come alone: each is an event of its own
FEW_PAGES = 5  # with fewer, a host's clock would only repeat what each page says of itself


class Histories(Protocol):
    """The observations of several pages, ragged, as `crawld.interfaces` has them."""

    @property
    def page_ids(self) -> Ints:
        """Whose they are."""

    @property
    def offsets(self) -> Ints:
        """Page i owns the rows offsets[i]:offsets[i+1], oldest first."""

    @property
    def at(self) -> Floats:
        """When each interval ended."""

    @property
    def tau(self) -> Floats:
        """How long it was."""

    @property
    def signals(self) -> Ints:
        """The signals in it, by source."""

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Whether it ended changed."""

    @property
    def hosts(self) -> Sequence[str]:
        """By page, who is asked."""

    @property
    def first_success(self) -> Floats:
        """By page, when watching began."""

    @property
    def signal_counts(self) -> Ints:
        """By page and source, all signals since then."""


@dataclass(frozen=True, slots=True)
class Update:
    """What was learnt of some pages, as columns.

    Values are to be taken over shapes of at most `most_shape`; `again` are pages to fit anew because their host's prior
    or way has changed.
    """

    posterior: Posterior
    gamma: Floats
    most_shape: Floats
    again: Ints


@dataclass(frozen=True, slots=True)
class Shift:
    """Pages that, by their host's clock, are as old as if the copy made at `last` had been made at `since`."""

    page_ids: Ints
    last: Floats
    since: Floats


class OnlineLearner:
    """Fits pages under their hosts' priors, and learns those and the hosts' clocks and scores as it goes."""

    def __init__(self, prior: Prior, sources: int, *, half_life: float = YEAR) -> None:
        self.host_priors = HostPriors(prior, sources)
        self.clocks = HostClocks()
        self.scores = PredictionScores()
        self.own = OwnHistoryShares()
        self.gates = SignalGates(sources, LONE[:sources])
        self._half_life = half_life
        self._last = np.full(0, -np.inf)  # by row of the host priors: its last crawl that its host's clock was told of
        self._since = np.full(0, -np.inf)  # by row: when the frontier takes that copy to be from

    def teach(self, histories: Histories, now: float, most_foretold: int = FORETOLD) -> Update:
        """Beliefs about the pages from their histories; of their new intervals the latest are foretold."""
        number = self.host_priors.numbers(histories.hosts)
        page = np.repeat(np.arange(len(number)), np.diff(histories.offsets))
        new = np.flatnonzero((histories.at > self._told_of(histories.page_ids)[page]) & (histories.tau > 0))
        foretold = new[histories.offsets[1:][page[new]] - new <= most_foretold]
        old, news = self._split(histories, page, foretold, now)
        heard = self.gates.heard(number)
        prior = self.host_priors.prior(histories.hosts)
        posterior, evidence, again = self.host_priors.fit(
            histories.page_ids, histories.hosts, old, heard, news, _usual(histories, page)
        )
        watched = np.nan_to_num(now - histories.first_success)
        gamma = signal_rates(histories.signal_counts, watched, self.host_priors.default)
        gamma[(histories.signal_counts == 0) | ~heard] = 0.0  # nothing to wait for
        moved = self._tell_hosts(histories, posterior, news, new, foretold)
        if len(moved):
            again = np.union1d(again, self._page_ids(self.host_priors.rows_at(moved)))
        cautious = self.scores.cautious(number)
        posterior = self._judged(posterior, prior.alpha, evidence.alpha, number)
        return Update(posterior, gamma, np.where(cautious, 1.0, np.inf), again)

    def _judged(self, posterior: Posterior, prior: Floats, evidence: Floats, number: Ints) -> Posterior:
        """The same with rates by as much of each page's own history as has proved to predict on its host."""
        share, shape, rate = self.own.shares(number), posterior.shape.copy(), posterior.rate.copy()
        alike, part = share < LEAST_SHARE, (share >= LEAST_SHARE) & (share < MOST_SHARE)
        shape[alike], rate[alike] = self.host_priors.common_rate(number[alike])
        shape[part], rate[part] = self.host_priors.grid.rates_by_share(prior[part], evidence[part], share[part])
        return replace(posterior, shape=shape, rate=rate)

    def _split(self, histories: Histories, page: Ints, new: Ints, now: float) -> tuple[Observations, NewIntervals]:
        """What was seen before, and the intervals to be foretold."""
        weights = age_weights(histories.at, now, self._half_life)
        old = np.ones(len(page), bool)
        old[new] = False
        count = np.bincount(page[old], minlength=len(histories.page_ids))
        seen = histories.tau[old], histories.signals[old], histories.changed[old], weights[old]
        host = self.host_priors.numbers(histories.hosts)[page[new]]
        tau, end = histories.tau[new], histories.at[new]
        age = np.where(self.scores.clocked(host), self._clocked(host, end - tau, end), tau)
        signals = histories.signals[new].astype(float)
        news = NewIntervals(page[new], tau, age, signals, histories.changed[new], weights[new])
        return Observations.gather(np.r_[0, np.cumsum(count)], *seen), news

    def trust(self, hosts: Sequence[str]) -> list[SignalTrust]:
        """Which sources of these hosts are heard, and by what evidence."""
        names = [*dict.fromkeys(hosts)]
        return [
            SignalTrust(name, SOURCES[one.source], one.heard, one.score, one.crawls, one.why)
            for name, number in zip(names, self.host_priors.numbers(names).tolist(), strict=True)
            for one in self.gates.evidence(number)
        ]

    def age(self, hosts: Sequence[str], last: Floats, now: float) -> Floats:
        """By how much each page has aged since `last`, by its host's clock."""
        number = self.host_priors.numbers(hosts)
        return np.where(self.scores.clocked(number), self._clocked(number, last, np.full(len(last), now)), now - last)

    def curves(self, hosts: Sequence[str], now: float) -> dict[str, AgeCurve | None]:
        """By which curve copies of each host's pages age; None where by plain time.

        Hosts without a clock are left out: after a restart they go on by the curve that was kept.
        """
        names = np.array([*dict.fromkeys(hosts)], object)
        number = self.host_priors.numbers(names.tolist())
        runs = self._has_clock(number)
        names, number = names[runs], number[runs]
        clocked = self.scores.clocked(number)
        curves = self.clocks.curves(number[clocked], now)
        return dict.fromkeys(names.tolist()) | dict(zip(names[clocked].tolist(), curves, strict=True))

    def _has_clock(self, number: Ints) -> NDArray[np.bool_]:
        return np.asarray((self.host_priors.sizes[number] >= FEW_PAGES) & self.clocks.running(number))

    def _clocked(self, number: Ints, last: Floats, now: Floats) -> Floats:
        age = now - last
        told = self._has_clock(number)
        which = number[told]
        age[told] = self.clocks.reading(which, now[told]) - self.clocks.reading(which, last[told])
        return age

    def shift(self, hosts: Sequence[str], now: float) -> Shift:
        """The pages of these hosts whose age has come to differ from what was last told of them."""
        rows = self.host_priors.rows_at(self.host_priors.numbers(hosts))
        last, since = self._last[rows], self._since[rows]
        number = self.host_priors.host_of(rows)
        age = self._clocked(number, last, np.full(len(last), now))
        age = np.where(self.scores.clocked(number), age, now - last)
        other = np.abs(now - age - since) > NEWS * np.maximum(age, now - since)
        self._since[rows[other]] = now - age[other]
        return Shift(self._page_ids(rows[other]), last[other], now - age[other])

    def _tell_hosts(
        self, histories: Histories, posterior: Posterior, news: NewIntervals, new: Ints, foretold: Ints
    ) -> Ints:
        """Every interval once: a page's whole history at first sight, then what is new; hosts met otherwise since."""
        ids = histories.page_ids
        page = np.repeat(np.arange(len(ids)), np.diff(histories.offsets))
        host = self.host_priors.numbers(histories.hosts)[page]
        moved = [np.empty(0, np.int64)]
        stages = STAGES if len(new) > FEW_ROWS * len(ids) else 1
        for some in np.array_split(new[np.argsort(histories.at[new], kind="stable")], stages):  # in the order of time
            moved.append(self._judge(histories, news, np.intersect1d(some, foretold), foretold, host))
            rows = some[self.host_priors.sizes[host[some]] >= FEW_PAGES]
            if len(rows):
                told = histories.at[rows], histories.tau[rows], posterior.alpha[page[rows]], histories.changed[rows]
                self.clocks.observe(host[rows], *told)
        if len(foretold):
            size, signals = self.host_priors.sizes[host[foretold]], histories.signals[foretold]
            moved.append(self.own.judge(host[foretold], size, news.by_share))
            told_of = histories.at[foretold], news.tau, news.gain, signals, news.changed
            moved.append(self.gates.judge(host[foretold], *told_of))
        at_row = self.host_priors.rows.find(ids)
        latest = np.fmax(self._last[at_row], histories.first_success)
        np.maximum.at(latest, page[new], histories.at[new])
        self._since[at_row] = np.where(latest > self._last[at_row], latest, self._since[at_row])
        self._last[at_row] = latest
        return np.unique(np.concatenate(moved))

    def _judge(self, histories: Histories, news: NewIntervals, rows: Ints, foretold: Ints, host: Ints) -> Ints:
        """Compare what was believed before these intervals with what they found, by time and by clock."""
        if not len(rows):
            return np.empty(0, np.int64)
        said, end, tau = np.searchsorted(foretold, rows), histories.at[rows], histories.tau[rows]
        ages = tau, self._clocked(host[rows], end - tau, end)
        believed = news.shape[said], news.mean[said]
        return self.scores.judge(
            host[rows], self.host_priors.sizes[host[rows]], believed, ages, histories.changed[rows]
        )

    def forget(self, page_ids: Ints) -> None:
        """Drop what is kept of pages that are ours no longer; what they have taught of their hosts stays."""
        rows = self.host_priors.forget(page_ids)
        self._last[rows] = self._since[rows] = -np.inf

    def _told_of(self, page_ids: Ints) -> Floats:
        """By page, the last crawl that its host's clock was told of."""
        rows = self.host_priors.rows.take(page_ids)
        size = self.host_priors.rows.size
        self._last, self._since = grown(self._last, size, -np.inf), grown(self._since, size, -np.inf)
        return self._last[rows]

    def _page_ids(self, rows: Ints) -> Ints:
        return self.host_priors.rows.page_id[rows]


def _usual(histories: Histories, page: Ints) -> Floats:
    """By page and source, how many signals come between two crawls, where any do; 1 at least."""
    usual = np.ones(histories.signal_counts.shape)
    for source, counts in enumerate(histories.signals.T):
        signals = np.bincount(page, counts, minlength=len(usual))
        usual[:, source] = signals / np.maximum(np.bincount(page, counts > 0, minlength=len(usual)), 1.0)
    return np.asarray(np.maximum(usual, 1.0))
