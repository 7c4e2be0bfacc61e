"""Gates: a source of signals is heard once it has foretold crawls better, over several rounds of the host's pages."""

import numpy as np

from crawld.learning.signal_gates import SignalGates

DAY = 86400.0
HOST = 7


def told(gates: SignalGates, days: list[int], gain: float, pages: int = 20) -> list[int]:
    """Every page crawled once on each day, eight days after the time before; hosts that listen otherwise."""
    moved: list[int] = []
    for day in days:
        end = np.full(pages, day * DAY)
        rows = np.column_stack([np.full(pages, gain), np.zeros(pages)])
        signals = np.tile(np.array([[1, 0]], np.int64), (pages, 1))
        changed = np.arange(pages) % 2 == 0
        moved += gates.judge(np.full(pages, HOST), end, np.full(pages, 8 * DAY), rows, signals, changed).tolist()
    return moved


def test_at_first_nobody_is_heard() -> None:
    """A host without evidence listens to no source, and takes no room."""
    gates = SignalGates(2)
    assert not gates.heard(np.array([HOST, 0])).any()
    assert gates.evidence(HOST) == []


def test_one_event_has_one_vote() -> None:
    """However many pages one event hit, and however well it was foretold, it does not open the gate."""
    gates = SignalGates(2)
    assert told(gates, [8], 5.0, pages=500) == []
    assert not gates.heard(np.array([HOST])).any()


def test_a_source_that_foretells_better_again_and_again_is_heard() -> None:
    """Several rounds of the pages that all speak for it open the gate, of that source alone."""
    gates = SignalGates(2)
    assert HOST in told(gates, list(range(8, 88, 8)), 0.2)
    assert gates.heard(np.array([HOST])).tolist() == [[True, False]]
    (evidence,) = gates.evidence(HOST)
    assert (evidence.source, evidence.heard, evidence.crawls, evidence.changes) == (0, True, 200, 100)


def test_signals_that_came_alone_are_witnesses_of_their_own() -> None:
    """One visit of pages that were each announced alone opens the gate of that source, and of no other."""
    gates = SignalGates(2, lone=[0])
    assert HOST in told(gates, [8], 0.2, pages=20)
    assert gates.heard(np.array([HOST])).tolist() == [[True, False]]


def test_few_lone_signals_are_too_few() -> None:
    """Three crawls that speak for a source may be luck, however clearly they do."""
    gates = SignalGates(2, lone=[0])
    assert told(gates, [8], 2.0, pages=3) == []


def test_a_source_that_turns_bad_is_not_heard_any_more() -> None:
    """Rounds that speak against it close the gate again."""
    gates = SignalGates(2)
    told(gates, list(range(8, 88, 8)), 0.2)
    assert HOST in told(gates, list(range(88, 300, 8)), -0.2)
    assert not gates.heard(np.array([HOST])).any()


def test_the_order_in_which_pages_are_read_does_not_matter() -> None:
    """After a restart pages come one by one with their whole histories: the same gates follow."""
    days = np.arange(8.0, 80.0, 8.0) * DAY
    gain = np.random.default_rng(1).normal(0.1, 0.1, (10, len(days)))
    one, other = SignalGates(1), SignalGates(1)
    hosts, tau = np.full(10, HOST), np.full(10, 8 * DAY)
    signals, changed = np.ones((10, 1), np.int64), np.ones(10, bool)
    for column, day in enumerate(days):
        one.judge(hosts, np.full(10, day), tau, gain[:, column : column + 1], signals, changed)
    for row in range(10):
        own, once = np.full(len(days), HOST), np.ones((len(days), 1), np.int64)
        other.judge(own, days, np.full(len(days), 8 * DAY), gain[row][:, None], once, np.ones(len(days), bool))
    assert one.heard(hosts[:1]).tolist() == other.heard(hosts[:1]).tolist()
    (live,), (read,) = one.evidence(HOST), other.evidence(HOST)
    assert abs(live.score - read.score) < 1e-3
    assert abs(live.error - read.error) < 1e-3
