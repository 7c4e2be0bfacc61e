"""The learner keeps pages by row: ids of any size, and pages that leave make room."""

from dataclasses import replace

import numpy as np

from crawld.learn.grid_posterior import POINTS
from crawld.learn.host_priors import HostPriors
from crawld.learn.observations import Prior
from crawld.learn.online_learner import OnlineLearner, Update
from crawld.model.estimate import Histories
from crawld.model.shards import first_id
from crawld.model.signal import SOURCES

DAY = 86400.0
PAGES, CRAWLS = 40, 12


def histories_of(page_ids: list[int], hosts: list[str], seed: int = 0) -> Histories:
    """Pages crawled every day, some of which change often."""
    rng, rows = np.random.default_rng(seed), len(page_ids) * CRAWLS
    often = np.repeat(rng.random(len(page_ids)) < 0.5, CRAWLS)
    return Histories(
        page_ids=np.array(page_ids, dtype=np.int64),
        offsets=np.arange(0, rows + 1, CRAWLS),
        at=np.tile(DAY * np.arange(1, CRAWLS + 1), len(page_ids)),
        tau=np.full(rows, DAY),
        signals=np.zeros((rows, len(SOURCES)), dtype=np.int64),
        changed=rng.random(rows) < np.where(often, 0.9, 0.05),
        hosts=hosts,
        first_success=np.zeros(len(page_ids)),
        signal_counts=np.zeros((len(page_ids), len(SOURCES)), dtype=np.int64),
    )


def teach(learner: OnlineLearner, histories: Histories) -> Update:
    """One round, after all crawls."""
    return learner.teach(histories, DAY * (CRAWLS + 1))


def test_ids_of_a_late_shard_are_learnt_like_small_ones() -> None:
    """What is believed does not depend on how large ids are; nothing as long as the largest is made."""
    small, large = (OnlineLearner(Prior(), len(SOURCES)) for _ in range(2))
    ids = list(range(1, PAGES + 1))
    histories = histories_of(ids, ["a.test", "b.test"] * (PAGES // 2))
    here = replace(histories, page_ids=histories.page_ids + first_id(255))
    for _ in range(2):
        ours, theirs = teach(small, histories), teach(large, here)
        assert np.array_equal(ours.rate, theirs.rate)
        assert np.array_equal(ours.again + first_id(255), theirs.again)
    shift, far = small.shift(["a.test"], 30 * DAY), large.shift(["a.test"], 30 * DAY)
    assert np.array_equal(shift.page_ids + first_id(255), far.page_ids)
    assert large.deaf.rows.size == PAGES


def test_forgotten_pages_make_room_for_others() -> None:
    """A shard that leaves and one that comes take the same memory; the host of those that left has no pages."""
    learner = OnlineLearner(Prior(), len(SOURCES))
    first, second = (list(range(first_id(shard) + 1, first_id(shard) + PAGES + 1)) for shard in (3, 7))
    teach(learner, histories_of(first, ["a.test"] * PAGES))
    learner.forget(np.array(first))
    assert learner.deaf.sizes.tolist() == [0]
    assert len(learner.shift(["a.test"], 30 * DAY).page_ids) == 0
    fresh = OnlineLearner(Prior(), len(SOURCES))
    after, anew = (teach(one, histories_of(second, ["b.test"] * PAGES, seed=1)) for one in (learner, fresh))
    assert learner.deaf.rows.size == PAGES
    assert len(after.rate) == len(anew.rate) == PAGES
    learner.forget(np.array(first))  # pages that are not here any more
    assert learner.deaf.sizes.tolist() == [0, PAGES]


def test_workers_share_what_hosts_in_general_are_like() -> None:
    """A learner that hears what the hosts of another taught starts its own hosts from about the same prior."""
    hosts = [f"host{page // 2}.test" for page in range(PAGES)]
    learner = OnlineLearner(Prior(), len(SOURCES))
    other, hearing, deaf = learner.deaf, *(HostPriors(Prior(), 0) for _ in range(2))
    teach(learner, histories_of(list(range(1, PAGES + 1)), hosts))
    assert round(float(other.taught[:POINTS].sum()), 6) == PAGES // 2  # each host counts once
    hearing.hear(other.taught)
    right, heard, guessed = (one.prior(np.array([PAGES])).alpha for one in (other, hearing, deaf))
    assert np.abs(heard - right).sum() < 0.3 * np.abs(guessed - right).sum()
