"""What the daemon's learner and every replay of it decide by: histories in, beliefs out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawld.learn.grid_posterior import KAPPAS, Fit, trust_in
from crawld.learn.host_clock import HostClocks
from crawld.learn.host_priors import HostPriors, Magnitudes, SignalRates
from crawld.learn.mixture import JointEvents, Mixture
from crawld.learn.observations import SUREST, YEAR, NewIntervals, Observations, Prior, age_weights
from crawld.model.estimate import AgeCurve, Histories
from crawld.model.row_index import grown
from crawld.model.signal import SOURCES, SignalTrust, Source
from crawld.model.units import many


@dataclass(frozen=True)
class OnlineLearnerLimits:
    """Numbers that bound and tune this module."""

    foretold: int = (
        2  # of a page's intervals are predicted at first sight of many: enough for what comes in as it is crawled
    )
    recalled: int = 50  # and after a restart, when hosts are to be known again


LIMITS = OnlineLearnerLimits()


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BULK = SOURCES.index(Source.SITEMAP_BULK)
OWN_SHARES = (0.0, 0.1, 0.3, 1.0)  # powers of the likelihood of its own history that a page may be judged by


@dataclass(frozen=True, slots=True)
class Update:
    """What was learnt of some pages, as columns.

    The columns of `crawld.model.estimate`; κ and γ are (pages, sources). `again` are pages to fit anew because their
    host's prior or weights have moved.
    """

    shape: Floats
    rate: Floats
    kappa: Floats
    kappa_se: Floats
    gamma: Floats
    heard: Floats
    deaf_alpha: Floats
    deaf_shape: Floats
    again: Ints
    significance: Floats | None = None  # of a change of the page, over that of any change; None: not asked for


@dataclass(frozen=True, slots=True)
class Shift:
    """Pages that, by their host's clock, are as old as if the copy made at `last` had been made at `since`."""

    page_ids: Ints
    last: Floats
    since: Floats


@dataclass(frozen=True, slots=True)
class _Heard:
    """What one predictor that listens made of some pages."""

    pages: Ints  # places among those that are learnt
    fit: Fit
    common: Floats  # masses of α
    rows: Ints  # places among the new intervals
    fresh: Floats  # (rows, 2): by none and by all of their own history
    blind: Floats


class Ear:
    """A predictor that listens to some sources, on the hosts that have them."""

    def __init__(self, prior: Prior, sources: Sequence[int], needed: Sequence[int]) -> None:
        self.sources = list(sources)
        self.needed = list(needed)  # hosts without any of these have nothing for this ear that others do not hear
        self.priors = HostPriors(prior, len(self.sources))


class OnlineLearner:
    """Fits pages under their hosts' priors, and learns those and the hosts' clocks and weights as it goes."""

    own_prior = (1.0, 3e-7, 3e-7, 3e-7)  # of OWN_SHARES
    clock_prior = (0.05, 0.95)  # plain time, and the host's clock
    caution_prior = (0.05, 0.95)  # posteriors as they are, and with the spread of a shape of 1
    ear_prior = (0.4925, 0.01, 0.005, 0.32833, 0.16417)  # deaf, names, all, and the twins of both
    news = 0.1  # an age is told again when it has come to differ by that share
    few_rows, stages = 3, 8  # more new intervals a page are whole histories: clocks take them in stages
    few_pages = 5  # with fewer, a host's clock would only repeat what each page says of itself

    def __init__(self, prior: Prior, sources: int, *, half_life: float = YEAR, significance: bool = False) -> None:
        self._sources = sources
        self._magnitudes = Magnitudes() if significance else None
        named = [source for source in range(sources) if source != BULK]
        self.deaf = HostPriors(prior, 0)
        self.ears = [Ear(prior, named, named), Ear(prior, range(sources), [BULK] if sources > BULK else [])]
        self.clocks = HostClocks()
        self.rates = SignalRates(sources)
        self.own = Mixture(self.own_prior, graded=True)
        self.time = Mixture(self.clock_prior)
        self.caution = Mixture(self.caution_prior)
        self.hearing = Mixture(self.ear_prior)
        self._half_life = half_life
        self._number: dict[str, int] = {}
        self._seen = np.zeros((0, sources, 3), np.int64)  # by host: crawls after a signal, changes found, signals
        self._last = np.full(0, -np.inf)  # by row of the deaf: its last crawl that its host's clock was told of
        self._since = np.full(0, -np.inf)  # by row: when the frontier takes that copy to be from

    def reserve(self, pages: int, hosts: int) -> None:
        """Make room for so many at once: to grow needs twice the memory for a moment."""
        self.deaf.reserve(pages)
        self.clocks.reserve(hosts)

    def teach(self, histories: Histories, now: float, most_foretold: int = LIMITS.foretold) -> Update:
        """Beliefs about the pages from their histories; of their new intervals the latest are predicted."""
        ids, number = histories.page_ids, self.numbers(histories.hosts)
        page = np.repeat(np.arange(len(number)), np.diff(histories.offsets))
        new = np.flatnonzero((histories.at > self._told_of(ids)[page]) & (histories.tau > 0))
        foretold = new[histories.offsets[1:][page[new]] - new <= most_foretold]
        at_row = self.deaf.rows.find(ids)
        counts = np.zeros_like(histories.signal_counts)
        np.add.at(counts, page, histories.signals)
        counts = np.maximum(counts, histories.signal_counts)  # histories may reach less far back
        self.rates.count(at_row, number, np.nan_to_num(now - histories.first_success), counts)
        gamma = self.rates.of(at_row, number)
        rows = _HistoryRows(histories, page, foretold, age_weights(histories.at, now, self._half_life), gamma)
        end = histories.at[foretold]
        age = self._age(number[page[foretold]], end - histories.tau[foretold], end)
        old, news = rows.split(np.arange(len(ids)), [], age, OWN_SHARES)
        taught, before = self.deaf.sizes[number] > 0, self.deaf.prior(number).alpha
        fit, again = self.deaf.fit(ids, number, old, news)
        heard: list[_Heard | None] = [None] * len(self.ears)
        for which, ear in enumerate(self.ears):
            some = np.flatnonzero(self.rates.spoken(number)[:, ear.needed].any(axis=1))
            if len(some):
                late = some[taught[some]]
                begun = ear.priors.start(number[late], before[late])
                heard[which], more = self._listen(ear, rows, number, some, age)
                more = np.union1d(self.deaf.rows.find(more), self.deaf.rows_at(begun))  # hear all pages at once
                audible = self._audible(self.deaf.host_of(more)).any(axis=1)  # signals not heard change nothing
                again = np.union1d(again, self._page_ids(more[audible]))
        moved = self._tell_hosts(rows, number, new, fit, news, heard)
        if len(moved):
            again = np.union1d(again, self._page_ids(self.deaf.rows_at(moved)))
        return self._update(rows, number, fit, heard, again)

    def _listen(self, ear: Ear, rows: "_HistoryRows", number: Ints, some: Ints, age: Floats) -> tuple[_Heard, Ints]:
        old, news = rows.split(some, ear.sources, age, (0.0, 1.0))
        usual = rows.usual()[some][:, ear.sources]
        fit, again = ear.priors.fit(rows.histories.page_ids[some], number[some], old, news, usual)
        place = np.flatnonzero(np.isin(rows.page[rows.new], some))
        return _Heard(some, fit, ear.priors.common(number[some]).alpha, place, news.fresh, news.blind), again

    def _update(
        self, rows: "_HistoryRows", number: Ints, fit: Fit, heard: Sequence[_Heard | None], again: Ints
    ) -> Update:
        own, caution = self.own.weights(number), self.caution.weights(number)[:, 1]
        shape, rate = self.deaf.grid.gamma_of(
            _by_share(self.deaf.common(number).alpha, self.deaf.prior(number).alpha, fit.evidence.alpha, own), caution
        )
        weight = self.hearing.weights(number)
        pages, points = len(number), len(self.deaf.grid.alpha)
        alpha, kappa, total = np.zeros((pages, points)), np.zeros((pages, self._sources, len(KAPPAS))), np.zeros(pages)
        # Where no bulk ever came both ears are one.
        names_only = ~np.isin(np.arange(pages), [] if heard[1] is None else heard[1].pages)
        for which, (ear, found) in enumerate(zip(self.ears, heard, strict=True)):
            if found is None:
                continue
            some = found.pages
            believed = weight[some, 1 + which] + np.where(names_only[some] & (which == 0), weight[some, 2], 0.0)
            prior, evidence = ear.priors.prior(number[some]).alpha, found.fit.evidence.alpha
            alpha[some] += believed[:, None] * _by_share(found.common, prior, evidence, own[some])
            silent = np.tile(np.eye(1, len(KAPPAS)), (len(some), self._sources, 1))
            silent[:, ear.sources] = found.fit.found.kappa
            kappa[some] += believed[:, None, None] * silent
            total[some] += believed
        listening = total > 0
        kappa[~listening, :, 0] = alpha[~listening, 0] = 1.0
        heard_shape, heard_rate = self.deaf.grid.gamma_of(alpha / alpha.sum(axis=1, keepdims=True), caution)
        kappa /= kappa.sum(axis=2, keepdims=True)
        mean = kappa @ KAPPAS
        return Update(
            shape=np.where(listening, heard_shape, shape),
            rate=np.where(listening, heard_rate, rate),
            kappa=trust_in(kappa, rows.usual()),
            kappa_se=np.sqrt(np.maximum(kappa @ KAPPAS**2 - mean**2, 0.0)),
            gamma=np.where(listening[:, None], rows.gamma, 0.0),
            heard=np.where(listening, total, 1.0),
            deaf_alpha=shape / rate,
            deaf_shape=shape,
            again=again,
            significance=None if self._magnitudes is None else self._significance(self._magnitudes, rows, number),
        )

    def _significance(self, magnitudes: Magnitudes, rows: "_HistoryRows", number: Ints) -> Floats:
        """How much of its text a change of each page changes, over the mean of all changes seen; 1 where unknown."""
        at_row, told = self.deaf.rows.find(rows.histories.page_ids), rows.histories.magnitude
        if told is not None:
            known = np.flatnonzero(rows.histories.changed & ~np.isnan(told))
            sums = [np.bincount(rows.page[known], one, minlength=len(number)) for one in (None, told[known])]
            magnitudes.count(at_row, number, np.column_stack(sums))
        return magnitudes.significance(at_row, number)

    # -- what hosts are told ----------------------------------------------------------------------------------------

    def _tell_hosts(
        self, of: "_HistoryRows", number: Ints, new: Ints, fit: Fit, news: NewIntervals, heard: Sequence[_Heard | None]
    ) -> Ints:
        """Every interval once: a page's whole history at first sight, then what is new; hosts whose weights moved."""
        histories, page, foretold = of.histories, of.page, of.new
        ids, host = histories.page_ids, number[page]
        alpha = fit.found.alpha @ self.deaf.grid.alpha
        moved = [np.empty(0, np.int64)]
        stages = self.stages if len(new) > self.few_rows * len(ids) else 1
        for some in np.array_split(new[np.argsort(histories.at[new], kind="stable")], stages):  # in the order of time
            moved.append(self._judge_time(histories, news, np.intersect1d(some, foretold), foretold, host))
            rows = some[self.deaf.sizes[host[some]] >= self.few_pages]
            if len(rows):
                told = histories.at[rows], histories.tau[rows], alpha[page[rows]], histories.changed[rows]
                self.clocks.observe(host[rows], *told)
        if len(foretold):
            where, size = host[foretold], self.deaf.sizes[host[foretold]]
            share = self.own.weights(where) @ np.array(OWN_SHARES)
            by_share = news.log_chance(news.fresh.T).T
            moved.append(self.own.judge(where, size, by_share - by_share[:, :1]))
            if any(heard):
                moved.append(self._judge_ears(of, news, where, size, share, heard))
        at_row = self.deaf.rows.find(ids)
        latest = np.fmax(self._last[at_row], histories.first_success)
        np.maximum.at(latest, page[new], histories.at[new])
        self._since[at_row] = np.where(latest > self._last[at_row], latest, self._since[at_row])
        self._last[at_row] = latest
        return np.unique(np.concatenate(moved))

    def _judge_ears(
        self,
        of: "_HistoryRows",
        news: NewIntervals,
        host: Ints,
        size: Ints,
        share: Floats,
        heard: Sequence[_Heard | None],
    ) -> Ints:
        def mean(fresh: Floats, weight: Floats) -> Floats:
            return (1.0 - weight) * fresh[:, 0] + weight * fresh[:, -1]

        deaf = news.log_chance(mean(news.fresh, share))
        gain = np.zeros((len(host), 1 + 2 * len(self.ears)))
        for which, found in enumerate(heard):
            if which == 1:
                gain[:, 2], gain[:, 4] = gain[:, 1], gain[:, 3]  # where no bulk ever came both ears are one
            if found is None:
                continue
            for column, fresh in ((1 + which, found.fresh), (3 + which, found.blind)):
                chance = np.ones(len(host))
                chance[found.rows] = mean(fresh, share[found.rows])
                gain[found.rows, column] = (news.log_chance(chance) - deaf)[found.rows]
        signals, at = of.histories.signals[of.new], of.histories.at[of.new]
        told = np.flatnonzero(self.rates.spoken(host).any(axis=1))
        together = signals[:, BULK] > 0 if self._sources > BULK else np.zeros(len(host), bool)
        events = JointEvents(together[told], at[told], self._rounds(host[told], news.tau[told]))
        self._seen = grown(self._seen, int(host.max(initial=-1)) + 1, 0)
        after = signals > 0
        np.add.at(self._seen, host, np.stack([after, after & news.changed[:, None], signals], axis=2))
        hosts = np.unique(host[told])
        before = self._audible(hosts)
        self.hearing.judge(host[told], size[told], gain[told], events)
        return np.asarray(hosts[(self._audible(hosts) != before).any(axis=1)])

    def _audible(self, host: Ints) -> Floats:
        """By host, the weights of the ears; those of deaf and twins may move without a page's knowing."""
        return np.asarray(self.hearing.weights(host)[:, 1 : 1 + len(self.ears)])

    def _rounds(self, host: Ints, tau: Floats) -> Floats:
        """How long a round of each host takes: twice the mean age of its copies, and no less than an interval."""
        rows = self.deaf.rows_at(np.unique(host))
        last, number = self._last[rows], self.deaf.host_of(rows)
        known = last > -np.inf
        pages, until = np.bincount(number[known]), np.full(int(host.max(initial=-1)) + 1, -np.inf)
        np.maximum.at(until, number[known], last[known])
        since = np.bincount(number[known], until[number[known]] - last[known])
        longer = np.zeros(len(until))
        longer[: len(pages)] = 2.0 * since / np.maximum(pages, 1)
        return np.maximum(longer[host], tau)

    def _judge_time(self, histories: Histories, news: NewIntervals, rows: Ints, foretold: Ints, host: Ints) -> Ints:
        """Compare what was believed before these intervals with what they found: by clock, and with caution."""
        if not len(rows):
            return np.empty(0, np.int64)
        said, end, tau = np.searchsorted(foretold, rows), histories.at[rows], histories.tau[rows]
        size, changed = self.deaf.sizes[host[rows]], histories.changed[rows]
        shape, mean = news.shape[said], news.mean[said]
        clock = self._clocked(host[rows], end - tau, end)

        def chance(age: Floats, shape: Floats) -> Floats:
            fresh = np.exp(-shape * np.log1p(mean * age / shape)).clip(SUREST, 1.0 - SUREST)
            return np.asarray(np.log(np.where(changed, 1.0 - fresh, fresh)))

        plain = chance(tau, shape)
        share = self.time.weights(host[rows])[:, 1]
        moved = self.time.judge(host[rows], size, np.column_stack([np.zeros(len(rows)), chance(clock, shape) - plain]))
        age = share * clock + (1.0 - share) * tau
        gain = chance(age, np.minimum(shape, 1.0)) - chance(age, shape)
        return np.union1d(moved, self.caution.judge(host[rows], size, np.column_stack([np.zeros(len(rows)), gain])))

    def trust(self, hosts: Sequence[str]) -> list[SignalTrust]:
        """How far the sources of these hosts are heard, and by what evidence."""
        names = [*dict.fromkeys(hosts)]
        numbers = self.numbers(names)
        weights, found = self.hearing.weights(numbers), []
        for name, number, weight in zip(names, numbers.tolist(), weights, strict=True):
            if number >= len(self._seen):
                continue
            score = self.hearing.score(number)
            for source in range(self._sources):
                crawls, changes, signals = self._seen[number, source].tolist()
                if signals:
                    ear = 2 if source == BULK else 1
                    heard = float(weight[2] if source == BULK else weight[1] + weight[2])
                    why = _why(heard, crawls, changes)
                    found.append(SignalTrust(name, SOURCES[source], heard > 0, float(score[ear]), crawls, why, heard))
        return found

    # -- clocks -----------------------------------------------------------------------------------------------------

    def age(self, hosts: Sequence[str], last: Floats, now: float) -> Floats:
        """By how much each page has aged since `last`, by its host's clock as far as that is believed."""
        return self._age(self.numbers(hosts), last, np.full(len(last), now))

    def _age(self, number: Ints, last: Floats, until: Floats) -> Floats:
        weight = self.time.weights(number)[:, 1]
        return np.asarray(weight * self._clocked(number, last, until) + (1.0 - weight) * (until - last))

    def curves(self, hosts: Sequence[str], now: float) -> dict[str, AgeCurve | None]:
        """By which curve copies of each host's pages age; None where by plain time.

        Hosts without a clock are left out: after a restart they go on by the curve that was kept.
        """
        names = np.array([*dict.fromkeys(hosts)], object)
        number = self.numbers(names.tolist())
        runs = self._has_clock(number)
        names, number = names[runs], number[runs]
        weight = self.time.weights(number)[:, 1]
        clocked = weight > 0
        curves = self.clocks.curves(number[clocked], now, weight[clocked])
        return dict.fromkeys(names.tolist()) | dict(zip(names[clocked].tolist(), curves, strict=True))

    def _has_clock(self, number: Ints) -> Bools:
        return np.asarray((self.deaf.sizes[number] >= self.few_pages) & self.clocks.running(number))

    def _clocked(self, number: Ints, last: Floats, now: Floats) -> Floats:
        age = now - last
        told = self._has_clock(number)
        which = number[told]
        age[told] = self.clocks.reading(which, now[told]) - self.clocks.reading(which, last[told])
        return age

    def shift(self, hosts: Sequence[str], now: float) -> Shift:
        """The pages of these hosts whose age has come to differ from what was last told of them."""
        rows = self.deaf.rows_at(self.numbers(hosts))
        last, since = self._last[rows], self._since[rows]
        age = self._age(self.deaf.host_of(rows), last, np.full(len(last), now))
        other = np.abs(now - age - since) > self.news * np.maximum(age, now - since)
        self._since[rows[other]] = now - age[other]
        return Shift(self._page_ids(rows[other]), last[other], now - age[other])

    # -- pages and hosts --------------------------------------------------------------------------------------------

    @property
    def pages(self) -> int:
        """Number of pages fitted so far and not forgotten."""
        return int(self.deaf.sizes.sum())

    @property
    def taught(self) -> Floats:
        """What our hosts say of hosts in general, for the learners of other workers to `hear`."""
        return np.concatenate([self.deaf.taught, *(ear.priors.taught for ear in self.ears)])

    def hear(self, others: Floats) -> None:
        """Take over what the hosts of all other workers say: the sum of what each has `taught`."""
        for priors in (self.deaf, *(ear.priors for ear in self.ears)):
            width = len(priors.taught)
            priors.hear(others[:width])
            others = others[width:]

    def forget(self, page_ids: Ints) -> None:
        """Drop what is kept of pages that are ours no longer; what they have taught of their hosts stays."""
        found = self.deaf.rows.find(page_ids)
        known = np.unique(found[found >= 0])
        self.rates.forget(known, self.deaf.host_of(known))
        if self._magnitudes is not None:
            self._magnitudes.count(known, self.deaf.host_of(known), np.zeros((len(known), 2)))
        for ear in self.ears:
            ear.priors.forget(page_ids)
        rows = self.deaf.forget(page_ids)
        self._last[rows] = self._since[rows] = -np.inf

    def numbers(self, hosts: Sequence[str]) -> Ints:
        """Hosts by number."""
        for host in dict.fromkeys(hosts):
            self._number.setdefault(host, len(self._number))
        found = np.fromiter((self._number[host] for host in hosts), np.int64, len(hosts))
        self.deaf.make_room(found)
        return found

    def _told_of(self, page_ids: Ints) -> Floats:
        """By page, the last crawl that its host's clock was told of."""
        rows = self.deaf.rows.take(page_ids)
        size = self.deaf.rows.size
        self._last, self._since = grown(self._last, size, -np.inf), grown(self._since, size, -np.inf)
        return self._last[rows]

    def _page_ids(self, rows: Ints) -> Ints:
        return self.deaf.rows.page_id[rows]


@dataclass(frozen=True, slots=True)
class _HistoryRows:
    """Intervals of several pages, of which some are new."""

    histories: Histories
    page: Ints
    new: Ints
    weights: Floats
    gamma: Floats

    def split(
        self, pages: Ints, sources: Sequence[int], age: Floats, shares: tuple[float, ...]
    ) -> tuple[Observations, NewIntervals]:
        """Of some pages, with the signals of some sources: what was seen before, and the intervals to be predicted."""
        seen = self.histories
        place = np.full(len(seen.page_ids), -1)
        place[pages] = np.arange(len(pages))
        old = place[self.page] >= 0
        old[self.new] = False
        count = np.bincount(place[self.page[old]], minlength=len(pages))
        told = seen.tau[old], seen.signals[old][:, sources], seen.changed[old], self.weights[old]
        kept = place[self.page[self.new]] >= 0
        new = self.new[kept]
        signals, gamma = seen.signals[new][:, sources].astype(float), self.gamma[self.page[new]][:, sources]
        columns = place[self.page[new]], seen.tau[new], age[kept], signals, gamma, seen.changed[new], self.weights[new]
        return Observations.gather(np.r_[0, np.cumsum(count)], *told), NewIntervals(*columns, shares)

    def usual(self) -> Floats:
        """By page and source, how many signals come between two crawls, where any do; 1 at least."""
        usual = np.ones(self.histories.signal_counts.shape)
        for source, counts in enumerate(self.histories.signals.T):
            signals = np.bincount(self.page, counts, minlength=len(usual))
            usual[:, source] = signals / np.maximum(np.bincount(self.page, counts > 0, minlength=len(usual)), 1.0)
        return np.asarray(np.maximum(usual, 1.0))


def _by_share(common: Floats, prior: Floats, evidence: Floats, own: Floats) -> Floats:
    """Masses of α averaged over how much of their own history pages are judged by."""
    said = np.where(evidence.max(axis=1, keepdims=True) > 0, evidence, 1.0)
    masses = own[:, :1] * common
    for column, share in enumerate(OWN_SHARES[1:], start=1):
        some = np.flatnonzero(own[:, column] > 0)
        part = prior[some] * (said[some] ** share if share < 1.0 else said[some])
        masses[some] += own[some, column, None] * part / part.sum(axis=1, keepdims=True)
    return masses


def _why(heard: float, crawls: int, changes: int) -> str:
    """How far a source is heard and by what evidence, in words."""
    if crawls == 0:
        return "no crawl has followed a signal yet"
    return f"{100 * heard:.0f} % weight; {many(changes, 'change')} in {many(crawls, 'crawl')} after a signal"
