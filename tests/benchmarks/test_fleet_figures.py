"""The figures of `python -m benchmarks.fleet`, from small logs whose figures are known."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support import fleet_figures as figures
from tests.support.fleet_log import Asked, Fault, Owned, Owners, Recorded

PAGE = "http://a/1"


def owners(*history: tuple[float, int, str | None]) -> Owners:
    """Owners of shard 1: from when, under which epoch, who."""
    return Owners.of(Owned(at, 1, epoch, worker) for at, epoch, worker in history)


def asked(at: float, worker: str, url: str = PAGE) -> Asked:
    """A request for a page of shard 1."""
    return Asked(at, url, 1, worker)


@given(
    st.lists(st.tuples(st.floats(0, 6), st.floats(0, 0.5)), min_size=1, max_size=40),
    st.sampled_from([0.5, 2.0, 7.0]),
    st.integers(1, 4),
)
def test_the_worst_window_is_that_of_all_pairs(drawn: list[tuple[float, float]], rate: float, workers: int) -> None:
    """One pass finds what comparing every pair of requests finds."""
    noted = sorted(at for at, _ in drawn)
    earliest = sorted(at - late for at, late in drawn)
    pairs = [(i, j) for i in range(len(noted)) for j in range(i, len(noted))]
    worst = max(j - i + 1 - rate * max(1.0, noted[j] - earliest[i]) - workers for i, j in pairs)
    assert abs(figures.worst_window_excess(earliest, noted, rate, workers) - worst) < 1e-9


def test_an_even_rate_leaves_room_and_a_burst_does_not() -> None:
    """At R requests a second a window holds at most R·w + 1; a burst of ten more shows as such."""
    even = [i / 10 for i in range(300)]
    assert figures.worst_window_excess(even, even, 10.0, 3) <= 1 - 3 + 1e-9
    burst = sorted([*even, *([15.05] * 10)])
    assert 7.9 < figures.worst_window_excess(burst, burst, 10.0, 3) <= 8.1


def test_an_old_owner_is_known_by_the_newer_ones_first_request() -> None:
    """What an old owner asks before that is no harm; a worker that was given the shard again is no old owner."""
    history = owners((0, 1, "w1"), (10, 2, "w2"), (30, 2, None), (31, 3, "w1"))
    fine = [asked(5, "w1"), asked(10.2, "w1"), asked(11, "w2"), asked(35, "w1")]
    assert figures.old_owner_requests(fine, history) == 0
    assert figures.old_owner_requests([*fine, asked(12, "w1")], history) == 1
    assert figures.old_owner_requests([*fine, asked(12, "w3")], history) == 1
    assert figures.old_owner_requests([*fine, asked(12, "w1", "http://a/2")], history) == 0


def test_a_commit_under_an_old_epoch_is_stale() -> None:
    """The epoch at the commit must be the one at the request, also where the shard came back meanwhile."""
    history = owners((0, 1, "w1"), (10, 2, "w2"), (20, 3, "w1"))
    for committed, stale in ((9.9, 0), (10.1, 1), (21.0, 1)):
        assert figures.stale_commits([(asked(9, "w1"), Recorded(9, PAGE, committed))], history) == stale


def test_requests_without_a_record_are_lost_by_the_kill_that_followed() -> None:
    """Requests and records are matched one to one; only those of the killed worker shortly before count."""
    requests = [asked(at, "w1") for at in (1, 2, 3, 9.8, 9.9)] + [asked(9.95, "w2")]
    records = [Recorded(at - 0.01, PAGE, at + 0.1) for at in (1, 2, 3)]
    pairs, without = figures.match(requests, records)
    assert [one.at for one, _ in pairs] == [1, 2, 3]
    assert [one.at for one in without] == [9.8, 9.9, 9.95]
    (loss,) = figures.losses_by_kill(without, [Fault("kill", "w1", 10.0, 12.0)])
    assert (loss.records, round(loss.seconds, 3), loss.alone) == (2, 0.2, True)
    crash = Fault("crash", "", 7.0, 8.0)
    assert not figures.losses_by_kill(without, [crash, Fault("kill", "w1", 10.0, 12.0)])[0].alone


def test_a_takeover_ends_with_the_first_request_of_the_new_owner() -> None:
    """A fault that ends before the lease does costs nothing; one that another fault disturbs says nothing."""
    history = owners((0, 1, "w1"), (16, 2, "w2"))
    requests = [asked(9, "w1"), asked(17.5, "w2")]
    kill = Fault("kill", "w1", 10.0, 14.0)
    assert figures.takeovers([kill], history, requests) == [7.5]
    assert figures.takeovers([kill, Fault("crash", "", 12.0, 13.0)], history, requests) == []
    assert figures.takeovers([Fault("stop", "w2", 5.0, 6.0)], history, requests) == []
    assert figures.takeovers([Fault("stop", "w1", 1.0, 2.0)], history, requests) == []
    assert figures.takeovers([Fault("stop", "w1", 3.0, 12.0)], history, requests) == [14.5]
    given_back = owners((0, 1, "w1"), (11, 1, None), (12, 2, "w2"))
    assert figures.takeovers([Fault("stop", "w1", 10.0, 10.5)], given_back, requests) == []
    assert figures.takeovers([kill], owners((0, 1, "w1")), requests, most=60.0) == [60.0]
    assert figures.takeovers([kill, Fault("stop", "w2", 20.0, 21.0)], owners((0, 1, "w1")), requests) == []


def test_silence_counts_beyond_the_downtime() -> None:
    """The fleet's longest gap around a crash, less the time that PostgreSQL was away."""
    crash = Fault("crash", "", 10.0, 12.0)
    assert figures.silences([crash], [8.0, 9.0, 10.5, 14.0, 14.1, 16.5]) == [1.5]


def test_hooks_are_silent_only_while_a_change_waits_and_the_fleet_asks() -> None:
    """From the commit of the oldest change that is not told, without the time in which nothing was asked."""
    asked = [float(at) for at in range(31) if not 12 < at < 18]  # silent for six seconds
    committed, told = {1: 1.0, 2: 10.0, 3: 11.0, 4: 29.0}, {1: 1.5, 2: 20.0, 3: 20.5, 4: 29.5}
    assert figures.hook_silence(committed, told, asked, 0.0, 30.0) == 4.0
    assert figures.hook_silence(committed, told | {4: 40.0}, asked, 0.0, 30.0) == 4.0
    assert figures.hook_silence({5: 2.0}, {}, asked, 0.0, 30.0) == 22.0
