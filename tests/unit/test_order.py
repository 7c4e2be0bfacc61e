"""Orders give every page its rate, each in its own way, and only from the generator they are handed."""

from collections.abc import Callable, Iterator
from itertools import islice, takewhile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawld.choose import order
from crawld.choose.allocation import Floats, VisitOrder, freshness

SEEDED: list[Callable[[Floats, np.random.Generator], Iterator[order.Visit]]] = [
    order.fixed_order,
    order.random_order,
    order.purely_random_order,
]


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-4, 1e4)), min_size=1, max_size=30))
@settings(max_examples=60)
def test_no_page_is_ever_more_than_one_visit_off(rates: list[float]) -> None:
    """After every slot, earliest deadline first has given each page its share of the slots to within one visit."""
    total = sum(rates)
    if total == 0:
        assert list(order.earliest_deadline_first(rates)) == []
        return
    share, count = np.array(rates) / total, np.zeros(len(rates))
    for slot, (at, page) in enumerate(islice(order.earliest_deadline_first(rates), 400), start=1):
        count[page] += 1
        assert at == pytest.approx(slot / total)
        assert np.max(np.abs(slot * share - count)) <= 1 + 1e-6


def test_one_heavy_page_among_many_light_ones() -> None:
    """Half of the slots for one page and the rest for five hundred: about every other slot is the heavy one's."""
    pages = [page for _, page in islice(order.earliest_deadline_first([500.0] + [1.0] * 500), 1000)]
    assert sorted(pages) == [0] * 500 + list(range(1, 501))
    assert max(np.diff(np.flatnonzero(np.array(pages) == 0))) <= 4  # two windows of two slots each


@pytest.mark.parametrize("sequence", SEEDED)
def test_rates_are_kept_and_times_rise(
    sequence: Callable[[Floats, np.random.Generator], Iterator[order.Visit]],
) -> None:
    """Over a long time every page is visited at its rate, in order of time, and a page of rate 0 never."""
    rates = np.array([3.0, 0.0, 1.0, 0.25])
    visits = list(takewhile(lambda visit: visit[0] < 2000, sequence(rates, np.random.default_rng(1))))
    times, pages = zip(*visits)
    assert np.all(np.diff(times) >= 0)
    assert np.bincount(pages, minlength=4) == pytest.approx(rates * 2000, rel=0.08)
    again = list(islice(sequence(rates, np.random.default_rng(1)), 50))
    assert again == visits[:50]
    assert list(sequence(np.zeros(3), np.random.default_rng(1))) == []


def test_fixed_order_has_even_intervals() -> None:
    """In fixed order one page's visits are all one interval apart."""
    times = [
        at for at, page in islice(order.fixed_order(np.array([0.5, 2.0]), np.random.default_rng(2)), 60) if page == 0
    ]
    assert np.diff(times) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("sequence", "kind"), list(zip(SEEDED, [VisitOrder.FIXED, VisitOrder.RANDOM, VisitOrder.PURELY_RANDOM]))
)
def test_orders_reach_the_freshness_of_their_formula(
    sequence: Callable[[Floats, np.random.Generator], Iterator[order.Visit]], kind: VisitOrder
) -> None:
    """Visits made in an order leave a page as fresh as Cho & Garcia-Molina's formula for that order says."""
    gaps = np.diff([at for at, _ in islice(sequence(np.array([1.0]), np.random.default_rng(3)), 40_000)])
    measured = float(np.sum(-np.expm1(-1.5 * gaps) / 1.5) / np.sum(gaps))
    assert measured == pytest.approx(float(freshness([1.5], [1.0], kind)[0]), abs=0.005)
