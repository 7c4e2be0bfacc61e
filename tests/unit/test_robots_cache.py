"""What is known of robots.txt, and for how long."""

import gc
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.choose.host_gate import Evidence, HostGate
from crawld.fetch import robots_cache
from crawld.fetch.robots_cache import DAY, STALE_KEPT, Allowed, Disallowed, NeedsFetch, RobotsCache
from crawld.fetch.robots_cache import LIMITS as ROBOTS_CACHE_LIMITS
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Redirected, RobotsReading, Scope, Trouble
from crawld.read.robots import RuleMatcher, read_robots

PAGE = "https://example.org/secret/page"
ROBOTS = "https://example.org/robots.txt"
NOW = 1_700_000_000.0
FORBIDS = "User-agent: *\nDisallow: /secret\nCrawl-delay: 3\nSitemap: /map.xml"


def file(text: str = FORBIDS, **headers: str) -> Fetched:
    """A robots.txt as it came."""
    return Fetched(ROBOTS, 200, text.encode(), {name.replace("_", "-"): value for name, value in headers.items()})


def status(code: int, wait: float | None = None) -> FetchFailed:
    """An answer with a status that brings no file."""
    return FetchFailed(ROBOTS, Trouble.STATUS, Scope.PAGE, f"status {code}", status=code, retry_after=wait)


def learnt(*outcomes: Outcome) -> RobotsCache:
    """A cache that met these outcomes, all at NOW."""
    cache = RobotsCache("crawld")
    for outcome in outcomes:
        cache.learn(ROBOTS, outcome, NOW)
    return cache


def test_our_group_is_found_by_our_name_alone() -> None:
    """A group for our name is ours, one for a word in our contact is not."""
    cache = RobotsCache("crawld/1.0 (+https://example.org/bot)")
    cache.learn(ROBOTS, file("User-agent: bot\nAllow: /\nUser-agent: crawld\nDisallow: /"), NOW)
    assert isinstance(cache.verdict(PAGE, NOW), Disallowed)
    cache.learn(ROBOTS, file("User-agent: example.org\nDisallow: /"), NOW)
    assert cache.verdict(PAGE, NOW) == Allowed()


def test_unknown_sites_need_a_fetch() -> None:
    """The first thing asked of a site is its robots.txt."""
    assert RobotsCache("crawld").verdict(PAGE, NOW) == NeedsFetch(ROBOTS)


def test_rules_are_obeyed_for_a_day() -> None:
    """A file is obeyed for a day, then asked for again."""
    cache = learnt(file())
    assert cache.verdict(PAGE, NOW) == Disallowed("forbidden by robots.txt", NOW + DAY)
    assert cache.verdict("https://example.org/open", NOW + DAY - 1) == Allowed()
    assert cache.verdict(PAGE, NOW + DAY) == NeedsFetch(ROBOTS)


def test_sites_differ_by_scheme_and_port() -> None:
    """A robots.txt speaks for its own origin alone."""
    cache = learnt(file())
    assert isinstance(cache.verdict("http://example.org/secret/page", NOW), NeedsFetch)
    assert isinstance(cache.verdict("https://example.org:8443/", NOW), NeedsFetch)


@pytest.mark.parametrize(("stated", "kept"), [("3600", 3600), ("1", ROBOTS_CACHE_LIMITS.min_kept), ("999999999", DAY)])
def test_cache_control_may_shorten(stated: str, kept: float) -> None:
    """Cache-Control may shorten the day, within reason, and never lengthens it."""
    cache = learnt(file(cache_control=f"max-age={stated}"))
    assert isinstance(cache.verdict(PAGE, NOW + kept - 1), Disallowed)
    assert isinstance(cache.verdict(PAGE, NOW + kept), NeedsFetch)


@pytest.mark.parametrize(
    "outcome",
    [
        Fetched(ROBOTS, 404),
        Fetched(ROBOTS, 410),
        status(400),
        status(401),
        status(403),
        FetchFailed(ROBOTS, Trouble.TOO_MANY_REDIRECTS, Scope.PAGE),
        FetchFailed(ROBOTS, Trouble.BAD_REDIRECT, Scope.PAGE, status=302),
        Redirected(ROBOTS, 302, "https://example.org/elsewhere"),
    ],
)
def test_no_file_means_no_rules(outcome: Outcome) -> None:
    """A site without a robots.txt forbids nothing, also after it had one."""
    for cache in (learnt(outcome), learnt(file(), outcome)):
        assert cache.verdict(PAGE, NOW + DAY - 1) == Allowed()
        assert isinstance(cache.verdict(PAGE, NOW + DAY), NeedsFetch)


@pytest.mark.parametrize(
    "outcome",
    [
        status(500),
        status(503),
        status(429),
        FetchFailed(ROBOTS, Trouble.TOO_COSTLY, Scope.PAGE, "too slow", status=200),
        *(FetchFailed(ROBOTS, trouble, Scope.HOST) for trouble in (Trouble.TIMEOUT, Trouble.DNS, Trouble.PROTOCOL)),
    ],
)
def test_out_of_reach_forbids_everything(outcome: Outcome) -> None:
    """Where robots.txt cannot be had nothing may be asked, which is not a rule, and it is tried again soon."""
    verdict = learnt(outcome).verdict(PAGE, NOW)
    assert isinstance(verdict, Disallowed)
    assert (verdict.by_rule, verdict.until) == (False, NOW + ROBOTS_CACHE_LIMITS.first_wait)
    assert learnt(outcome).verdict(PAGE, NOW + ROBOTS_CACHE_LIMITS.first_wait) == NeedsFetch(ROBOTS)


def test_waits_grow_and_are_bounded() -> None:
    """Each failure doubles the wait, up to a bound; a Retry-After is waited for."""
    cache, waits = RobotsCache("crawld"), []
    for _ in range(12):
        cache.learn(ROBOTS, status(500), NOW)
        verdict = cache.verdict(PAGE, NOW)
        assert isinstance(verdict, Disallowed)
        waits.append(verdict.until - NOW)
    assert waits[:3] == [
        ROBOTS_CACHE_LIMITS.first_wait,
        2 * ROBOTS_CACHE_LIMITS.first_wait,
        4 * ROBOTS_CACHE_LIMITS.first_wait,
    ]
    assert waits[-1] == ROBOTS_CACHE_LIMITS.max_wait
    asked = learnt(status(503, wait=3600.0)).verdict(PAGE, NOW)
    assert isinstance(asked, Disallowed)
    assert asked.until == NOW + 3600.0


def test_an_outage_of_the_host_does_not_make_the_waits_grow() -> None:
    """While the whole host is down its gate says when to ask, and robots.txt is asked as soon as that allows."""
    cache = RobotsCache("crawld")
    for _ in range(12):
        cache.learn(ROBOTS, status(503), NOW, host_down=True)
        verdict = cache.verdict(PAGE, NOW)
        assert isinstance(verdict, Disallowed)
        assert verdict.until == NOW + ROBOTS_CACHE_LIMITS.first_wait


def test_a_copy_is_one_that_may_be_obeyed_in_an_outage() -> None:
    """A file read within thirty days is a copy; the knowledge that there is none, or nothing at all, is not."""
    assert learnt(file(), status(500)).has_copy(PAGE, NOW + STALE_KEPT - 1)
    assert not learnt(file()).has_copy(PAGE, NOW + STALE_KEPT)
    assert not learnt(Fetched(ROBOTS, 404)).has_copy(PAGE, NOW)
    assert not RobotsCache("crawld").has_copy(PAGE, NOW)


def test_an_old_copy_outlives_an_outage() -> None:
    """While robots.txt is out of reach its last copy is obeyed, but not for ever."""
    cache = learnt(file())
    later = NOW + DAY
    cache.learn(ROBOTS, status(500), later)
    assert cache.verdict("https://example.org/open", later) == Allowed()
    assert isinstance(cache.verdict(PAGE, later), Disallowed)
    much_later = NOW + STALE_KEPT
    cache.learn(ROBOTS, status(500), much_later)
    verdict = cache.verdict("https://example.org/open", much_later)
    assert isinstance(verdict, Disallowed)
    assert not verdict.by_rule


def test_success_forgets_failures() -> None:
    """A file after failures counts as if there had been none."""
    cache = learnt(status(500), status(500), file())
    assert cache.verdict("https://example.org/open", NOW) == Allowed()


def test_a_clock_set_back() -> None:
    """A wall clock set back by days does not keep a file for longer."""
    assert learnt(file()).verdict(PAGE, NOW - 10 * DAY) == NeedsFetch(ROBOTS)


OUTCOMES = st.sampled_from([file(), file(""), Fetched(ROBOTS, 404), status(500), status(403), status(429, 1e9)])


@given(st.lists(st.tuples(OUTCOMES, st.floats(0, 1e6))))
def test_a_verdict_is_never_older_than_its_bound(steps: Iterable[tuple[Outcome, float]]) -> None:
    """Whatever happened, no verdict holds for more than a day."""
    cache, now = RobotsCache("crawld"), NOW
    for outcome, later in steps:
        now += later
        cache.learn(ROBOTS, outcome, now)
        verdict = cache.verdict(PAGE, now)
        assert not isinstance(verdict, NeedsFetch)
        assert isinstance(verdict, Allowed) or now < verdict.until <= now + DAY


def test_sites_without_robots_txt_are_listed_until_a_fetch_succeeds() -> None:
    """A site that is closed because of it is named with the cause; one with a good copy is not closed."""
    cache = learnt(status(503), status(503))
    (found,) = cache.unavailable(NOW)
    assert (found.origin, found.reason, found.failures) == ("https://example.org", "status 503", 2)
    assert found.until == NOW + 2 * ROBOTS_CACHE_LIMITS.first_wait
    cache.learn(ROBOTS, file(), NOW)
    assert cache.unavailable(NOW) == []
    cache.learn(ROBOTS, status(503), NOW)
    assert cache.unavailable(NOW) == []
    assert len(cache.unavailable(NOW + STALE_KEPT)) == 1


# -- what is kept -----------------------------------------------------------------------------------------------------


def known(cache: RobotsCache, *names: str) -> list[str]:
    """Which of these hosts' robots.txt are known."""
    return [name for name in names if not isinstance(cache.verdict(f"https://{name}/", NOW), NeedsFetch)]


def learn(cache: RobotsCache, name: str, reading: RobotsReading | None = None) -> None:
    """Let a host's robots.txt be known."""
    cache.learn(f"https://{name}/robots.txt", file(), NOW, reading=reading)


def test_memory_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its bytes the cache forgets the sites asked for least recently; more hosts of ours have more room."""
    monkeypatch.setattr(robots_cache, "LIMITS", replace(robots_cache.LIMITS, least_bytes=2 * 700))
    for hosts, kept in ((0, ["a", "c"]), (2, ["a", "b", "c"])):
        cache = RobotsCache("crawld", hosts=lambda hosts=hosts: hosts)  # type: ignore[misc]
        learn(cache, "a")
        learn(cache, "b")
        cache.verdict("https://a/", NOW)
        learn(cache, "c")
        assert known(cache, "a", "b", "c") == kept


def test_one_large_file_takes_the_room_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is what sites weigh, not how many they are; the latest is kept whatever it weighs."""
    monkeypatch.setattr(robots_cache, "LIMITS", replace(robots_cache.LIMITS, least_bytes=10_000))
    cache, large = RobotsCache("crawld"), RobotsReading(None, (), bytes(20_000))
    for number in range(10):
        learn(cache, f"h{number}")
    learn(cache, "large", large)
    assert not known(cache, *(f"h{number}" for number in range(10)))
    cache.learn("https://large/robots.txt", Fetched(ROBOTS, 404), NOW)
    assert known(cache, "large") == ["large"]


def test_hosts_without_pages_cannot_drive_out_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that redirects lead to share a small room of their own, and go when their file is no longer fresh."""
    monkeypatch.setattr(robots_cache, "LIMITS", replace(robots_cache.LIMITS, foreign_bytes=5_000))
    cache = RobotsCache("crawld", pages_on=lambda host: int(host == "ours"))
    learn(cache, "ours")
    for number in range(100):
        learn(cache, f"h{number}")
    assert known(cache, "ours", "h0", "h99") == ["ours", "h99"]
    cache.forget_old(NOW + DAY - 1)
    assert known(cache, "h99") == ["h99"]
    cache.forget_old(NOW + DAY)
    assert known(cache, "ours", "h99") == ["ours"]


def test_rules_that_are_not_at_hand_are_unpacked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site whose unpacked rules were dropped is judged as before, and so few stay unpacked as there is room for."""
    unpacked: WeakSet[RuleMatcher] = WeakSet()

    class NotedMatcher(RuleMatcher):
        def __init__(self, packed: bytes) -> None:
            super().__init__(packed)
            unpacked.add(self)

    monkeypatch.setattr(robots_cache, "RuleMatcher", NotedMatcher)
    monkeypatch.setattr(robots_cache, "LIMITS", replace(robots_cache.LIMITS, unpacked_bytes=20_000))
    cache = RobotsCache("crawld")
    for number in range(100):
        learn(cache, f"s{number}")
    for _ in range(2):
        assert all(isinstance(cache.verdict(f"https://s{n}/secret/", NOW), Disallowed) for n in range(100))
        assert all(cache.verdict(f"https://s{n}/open", NOW) == Allowed() for n in range(100))
    assert 0 < len(unpacked) < 30


def test_a_host_costs_less_than_two_kilobytes() -> None:
    """The gate and the cache together keep a host with rules of the usual size in less than 2 KB."""
    hosts = 5_000
    lines = "".join(f"Disallow: /some/where/{number:x}/*?sort={number}\n" for number in range(40))
    reading = read_robots(f"User-agent: *\nCrawl-delay: 2\n{lines}".encode(), ROBOTS, "crawld")
    gate = HostGate()
    tracemalloc.start()
    cache = RobotsCache("crawld", hosts=lambda: hosts)
    for number in range(hosts):
        name = f"www.host-{number}.example.org"
        host = gate.host_of_pages(name)
        gate.acquire(host, NOW)
        gate.finish(host, NOW, Evidence(f"https://{name}/", NOW, well=True))
        own = RobotsReading(2.0, (), bytes(bytearray(reading.rules or b"")))  # each host has bytes of its own
        learn(cache, name, own)
        gate.set_crawl_delay(host, 2.0)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(known(cache, *(f"www.host-{number}.example.org" for number in range(hosts)))) == hosts
    assert used < 2_000 * hosts, f"{used / hosts:.0f} bytes a host"


def test_what_was_remembered_is_taken_over() -> None:
    """Rules, waits and failures survive a restart; what was for another agent, or is damaged, is asked for again."""
    cache = RobotsCache("crawld/1.0")
    state = cache.learn(ROBOTS, file(), NOW)
    failed = cache.learn("https://down/robots.txt", status(503), NOW)
    again = RobotsCache("crawld/2.0")
    again.restore([state, failed])
    assert (
        again.verdict(PAGE, NOW + 1) == cache.verdict(PAGE, NOW + 1) == Disallowed("forbidden by robots.txt", NOW + DAY)
    )
    assert again.verdict("https://example.org/open", NOW + 1) == Allowed()
    assert again.unavailable(NOW) == cache.unavailable(NOW)
    assert again.crawl_delay_of("example.org") == 3.0
    other, damaged = RobotsCache("walker/1.0"), RobotsCache("crawld/2.0")
    other.restore([state])
    damaged.restore([replace(state, rules=b"no rules")])
    for cache in (other, damaged):
        assert cache.verdict(PAGE, NOW + 1) == NeedsFetch(ROBOTS)
