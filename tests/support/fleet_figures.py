"""What the log of the site and the database say about a drill of the fleet: pure functions from lists to figures."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.support.fleet_log import CRASH, LOST_PROCESSES, Asked, Fault, Owned, Owners, Recorded

CLOCKS = 0.05  # seconds by which a moment of the site may differ from one of the database
BEFORE = 10.0  # seconds before a kill in which what has no record was lost by it
AFTERMATH = 6.0  # seconds after a fault in which shards that it cost are claimed: a lease and a beat
LONGEST_CRAWL = 5.0  # seconds between a crawl's begin and what the site notes of it, at most


def worst_window_excess(earliest: Sequence[float], noted: Sequence[float], rate: float, workers: int) -> float:
    """The most requests above rate·w + workers that surely came within one window of w ≥ 1 s; below 0 is room left.

    Request i came between earliest[i] and noted[i], both ascending. Of all pairs i ≤ j the largest
    (j − i + 1) − rate·max(1, noted[j] − earliest[i]) − workers, in one pass: windows longer than a second by a running
    maximum over their first request, windows of exactly a second by a second pointer.
    """
    worst = longest = float("-inf")
    near = 0  # the first request that came less than a second before
    for j, end in enumerate(noted):
        while end - earliest[near] >= 1.0:
            longest = max(longest, rate * earliest[near] - near)
            near += 1
        worst = max(worst, j + 1 - rate * end + longest, j - near + 1 - rate)
    return worst - workers


def old_owner_requests(asked: Iterable[Asked], owners: Owners) -> int:
    """Requests for a page by an old owner after a newer one's first; a worker that never held the shard counts too."""
    found = 0
    newest: dict[str, int] = {}
    for one in sorted(asked, key=lambda one: one.at):
        epoch = owners.epoch_of(one.shard, one.worker, one.at + CLOCKS)
        found += epoch is None or epoch < newest.get(one.url, 0)
        newest[one.url] = max(newest.get(one.url, 0), epoch or 0)
    return found


def match(asked: Iterable[Asked], recorded: Iterable[Recorded]) -> tuple[list[tuple[Asked, Recorded]], list[Asked]]:
    """Requests with their records, and requests without one."""
    records: dict[str, list[Recorded]] = defaultdict(list)
    for row in sorted(recorded, key=lambda row: row.at, reverse=True):
        records[row.url].append(row)  # the earliest is last
    pairs, without = [], []
    for one in sorted(asked, key=lambda one: one.at):
        left = records[one.url]
        while left and left[-1].at < one.at - LONGEST_CRAWL:
            left.pop()  # of a request that never reached the site
        if left and left[-1].at <= one.at + CLOCKS:
            pairs.append((one, left.pop()))
        else:
            without.append(one)
    return pairs, without


def stale_commits(pairs: Iterable[tuple[Asked, Recorded]], owners: Owners) -> int:
    """Crawls that were committed when their shard had already a newer epoch than the one they were made under."""
    found = 0
    for one, row in pairs:
        now = owners.at(one.shard, row.committed)
        found += now is None or owners.epoch_of(one.shard, one.worker, one.at + CLOCKS) != now.epoch
    return found


@dataclass(frozen=True, slots=True)
class Loss:
    """What one kill cost: how many requests have no record, and how long before the kill the first of them came.

    A kill shortly after another fault of the worker, or of PostgreSQL, is not alone: records may have waited since.
    """

    records: int
    seconds: float
    alone: bool


def losses_by_kill(without: Sequence[Asked], faults: Sequence[Fault]) -> list[Loss]:
    """The losses of each kill: what the worker had asked for shortly before, without a record."""
    found = []
    for fault in faults:
        if fault.kind == "kill":
            start, end = fault.began - BEFORE, fault.began + CLOCKS
            lost = [one.at for one in without if one.worker == fault.worker and start <= one.at <= end]
            others = [other for other in faults if other is not fault and other.worker in {fault.worker, ""}]
            alone = not any(other.began < fault.began and other.ended > start for other in others)
            found.append(Loss(len(lost), fault.began - min(lost, default=fault.began), alone))
    return found


def takeovers(faults: Sequence[Fault], owners: Owners, asked: Sequence[Asked], most: float = 120.0) -> list[float]:
    """From each fault that cost a worker its shards until all have new owners and one of those asks for a page of them.

    A fault during which another one begins on somebody else, or PostgreSQL is away, says nothing about takeovers.
    """
    found = []
    for fault in faults:
        if fault.kind not in LOST_PROCESSES:
            continue
        over = _over(fault, faults, most)
        claims = _claims(fault, owners, over)
        if claims is None:
            end = over
        elif claims:
            news = {(claim.shard, claim.worker): claim.at for claim in claims}
            first = (one.at for one in asked if one.at >= news.get((one.shard, one.worker), float("inf")))
            end = max(*news.values(), min(first, default=fault.began + most))
        else:
            continue
        if not any(_disturbs(other, fault, end) for other in faults):
            found.append(end - fault.began)
    return found


def _over(fault: Fault, faults: Iterable[Fault], most: float) -> float:
    """Until when what happens to the worker's shards is the work of this fault."""
    others = (other.began for other in faults if other.worker == fault.worker and other.began > fault.began)
    return min(fault.began + most if fault.kind == "kill" else fault.ended + AFTERMATH, *others, float("inf"))


def _claims(fault: Fault, owners: Owners, over: float) -> list[Owned] | None:
    """Who claimed the shards that the fault cost a worker; None where nobody claimed a shard of a killed one in time.

    A shard that was given back properly, or claimed again under its old epoch, was not lost.
    """
    found = []
    for shard in owners.shards():
        held = owners.at(shard, fault.began)
        if held is None or held.worker != fault.worker:
            continue
        following = owners.next_after(shard, fault.began)
        if following is not None and following.at < over:
            if following.epoch > held.epoch:
                found.append(following)
        elif fault.kind == "kill":
            return None
    return found


def _disturbs(other: Fault, fault: Fault, end: float) -> bool:
    if other is fault or other.ended < fault.began or other.began > end:
        return False
    return other.kind == CRASH or other.worker != fault.worker


def silences(faults: Iterable[Fault], noted: Sequence[float]) -> list[float]:
    """For each crash of PostgreSQL, how much longer than its downtime the whole fleet was silent."""
    found = []
    for fault in faults:
        if fault.kind == CRASH:
            around = [at for at in noted if fault.began - 5.0 <= at <= fault.ended + 60.0]
            gaps = [
                after - before for before, after in pairwise(around) if before <= fault.ended and after >= fault.began
            ]
            found.append(max(gaps, default=60.0) - (fault.ended - fault.began))
    return found


def hook_silence(
    committed: Mapping[int, float], told: Mapping[int, float], asked: Sequence[float], began: float, ended: float
) -> float:
    """The longest time between deliveries while a committed change waited for its own and the fleet was not silent.

    `committed` and `told` are times by number of change, of first deliveries. A fleet that asks nothing for more than a
    second is silent: PostgreSQL is away, or a worker is taken over, and then hooks are too.
    """
    quiet = [(before, after) for before, after in pairwise([began, *asked, ended]) if after - before > 1.0]
    waiting = sorted((at, number) for number, at in committed.items() if at < ended)
    longest, first = 0.0, 0
    for before, after in pairwise(sorted({began, ended, *(at for at in told.values() if began < at < ended)})):
        while first < len(waiting) and told.get(waiting[first][1], math.inf) <= before:
            first += 1
        if first < len(waiting) and (since := max(before, waiting[first][0])) < after:
            silent = sum(max(0.0, min(after, end) - max(since, start)) for start, end in quiet)
            longest = max(longest, after - since - silent)
    return longest
