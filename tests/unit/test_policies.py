"""Policies are found by name and run behind the same verbs."""

import numpy as np
import pytest

from crawld.choose import policies
from crawld.choose.allocation import Floats
from crawld.choose.host_gate import HostGate, HostLimits
from crawld.choose.page_table import Intervals
from crawld.choose.rate_chooser import RateChooser
from crawld.choose.valuation import Beliefs
from crawld.main.settings import POLICIES
from crawld.model.errors import InputError

UNBOUND = Intervals(longest=np.inf, shortest=0.0)


def world(pages: int, seed: int = 1) -> Beliefs:
    """Pages with known parameters, a fifth of them with every change announced and no false signal."""
    rng = np.random.default_rng(seed)
    mu, delta = rng.uniform(0.05, 1, pages), rng.uniform(0.05, 1, pages)
    perfect = np.arange(pages) % 5 == 0
    recall = np.where(perfect, 1.0, rng.uniform(0, 0.5, pages))
    false = np.where(perfect, 0.0, rng.uniform(0.1, 0.6, pages))
    gamma = recall * delta + false
    kappa = np.where(perfect, np.inf, -np.log(np.where(perfect, 1.0, false / gamma)))
    return Beliefs(mu, (1 - recall) * delta, np.full(pages, np.inf), kappa, gamma)


@pytest.mark.parametrize("name", policies.POLICIES)
def test_every_policy_runs_behind_the_same_verbs(name: str) -> None:
    """Pages added under any policy are picked, settled, noticed, learnt of, reweighted and retired."""
    beliefs = world(30)
    gate = HostGate(HostLimits(spacing=0.0))
    hosts = np.array([gate.host(f"h{i % 3}.example") for i in range(30)])
    chooser = policies.build(name, bandwidth=10.0, gate=gate, intervals=UNBOUND, rng=np.random.default_rng(2))
    rows = chooser.add(hosts, beliefs, np.zeros(30), np.zeros(30))
    picked: list[int] = []
    for slot in range(1, 200):
        now = slot / 10.0
        row = chooser.pick(now)
        if row is not None:
            assert chooser.pages.held(row)
            picked.append(row)
            chooser.settle(row, now)
        noticed = slot % 30
        chooser.notice(noticed, float(beliefs.kappa[noticed]))
    assert len(picked) >= 190
    chooser.learn(rows, world(30, seed=3), np.zeros(30))
    chooser.reweight(rows[:5], np.full(5, 2.0))
    chooser.retire(rows[5:])
    after = {chooser.pick(20.0 + slot) for slot in range(5)}
    assert after <= set(rows[:5].tolist()) | {None}
    assert after != {None}


@pytest.mark.parametrize("name", policies.POLICIES)
def test_with_no_page_at_all_nothing_is_picked_until_one_comes(name: str) -> None:
    """A daemon may begin with an empty list, know no host yet, and be given pages later."""
    gate = HostGate(HostLimits(spacing=0.0))
    chooser = policies.build(name, bandwidth=10.0, gate=gate, intervals=UNBOUND, rng=np.random.default_rng(2))
    assert [chooser.pick(slot / 10.0) for slot in range(30)] == [None] * 30
    rows = chooser.add(np.array([gate.host("a.example")]), world(1), np.full(1, np.nan), np.zeros(1))
    assert chooser.pick(4.0) == rows[0]


@pytest.mark.parametrize("name", [name for name, policy in policies.POLICIES.items() if policy.plan])
def test_policies_of_rates_visit_at_their_rates(name: str) -> None:
    """Over a long run each page in turn gets its allotted rate, and pages with perfect signals theirs upon these."""
    beliefs, bandwidth, end = world(50), 12.0, 400.0
    chooser = policies.build(name, bandwidth=bandwidth, intervals=UNBOUND, rng=np.random.default_rng(4))
    assert isinstance(chooser, RateChooser)
    rows = chooser.add(np.zeros(50, dtype=np.int64), beliefs, np.zeros(50), np.zeros(50))
    count = run(chooser, beliefs, bandwidth, end)
    rates = chooser.rates_of(rows)
    assert rates.sum() == pytest.approx(bandwidth, rel=1e-6)
    assert np.abs(count / end - rates).max() < 0.25 * rates.max()
    assert np.sum(np.abs(count / end - rates)) < 0.15 * bandwidth


def run(chooser: RateChooser, beliefs: Beliefs, bandwidth: float, end: float) -> Floats:
    """How often each page was crawled while signals came at their rates."""
    rng = np.random.default_rng(5)
    count, signals = np.zeros(50), np.zeros(50)
    for slot in range(1, int(end * bandwidth) + 1):
        now = slot / bandwidth
        for row in np.flatnonzero(rng.random(50) < beliefs.gamma / bandwidth).tolist():
            signals[row] += 1
            chooser.notice(row, float(beliefs.kappa[row] * signals[row]))
        picked = chooser.pick(now)
        if picked is not None:
            chooser.settle(picked, now)
            count[picked] += 1
            signals[picked] = 0
    return count


def test_announced_pages_are_those_with_good_signals() -> None:
    """Pages with precision above .7 and recall above .6 count as announced."""
    kappa = np.array([np.inf, 3.0, 1.0, np.inf, 0.0])
    gamma = np.array([1.0, 1.0, 1.0, 0.1, 1.0])
    alpha = np.array([0.0, 0.2, 0.1, 0.9, 0.0])
    beliefs = Beliefs(np.ones(5), alpha, np.full(5, np.inf), kappa, gamma)
    assert policies.announced(beliefs).tolist() == [True, True, False, False, False]


def test_the_settings_offer_the_policies_there_are() -> None:
    """Every name that the settings allow is a policy, the default first."""
    assert set(POLICIES) <= {*policies.POLICIES, policies.ON_DEMAND.name}
    assert POLICIES[0] == next(iter(policies.POLICIES)) == policies.DEFAULT


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """A policy that does not exist is an InputError that lists those that do."""
    with pytest.raises(InputError, match="greedy-ncis"):
        policies.choose("greedy-nics")
