"""Cost of kill -9: a daemon killed at random moments and started again, compared with the server's own log.

    python -m benchmarks.kills [--kills 200] [--json]

After each kill the database must be whole. At the end every crawl must have been seen by the server once, no page
may be missing, and of what the server saw only the last moments before a kill may be unrecorded. Time in which the
machine kept the server itself waiting does not count as such a moment; beside it stands the age with that time.
"""

import asyncio
import random
import signal
import sqlite3
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import argument_parser, show
from tests.support.process import daemon, settings
from tests.support.site import Site


@dataclass(frozen=True)
class KillsLimits:
    """Numbers of this benchmark."""

    pages: int = 200
    max_crawl: float = 1.0  # seconds in which a request to the site has surely ended and been committed
    clocks: float = 0.05  # seconds by which a request's moment may differ between the two sides


LIMITS = KillsLimits()


async def run(kills: int, seed: int = 1, folder: Path | None = None) -> dict[str, Any]:
    """Kill and restart that often; the figures."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as made:
        place = folder or Path(made)
        async with Site(hosts=5) as site:
            # Neither second looks, at text that varies, nor the check of a server's honesty after an unconditional
            # request, which audits are, is a crawl of its own: there are none here, and bytes are compared.
            urls = [site.url(f"/poisson/{i}?rate=0.02", host=1 + i % 5) for i in range(LIMITS.pages)]
            only_crawls = {"fetch": {"unconditional_share": 0}, "audit": {"share": 0}, "digest": [{"mode": "raw"}]}
            file = settings(place, urls, bandwidth="100/s", min_interval=0.1, **only_crawls)
            killed, broken = [], 0
            for _ in range(kills):
                async with daemon("--config", str(file), cwd=place) as running:
                    await running.until_logged("verdict=")
                    await asyncio.sleep(rng.uniform(0.05, 1.5))
                    killed.append(time.time())
                    await running.end(signal.SIGKILL)
                broken += not _whole(place / "x.db")
            async with daemon("--config", str(file), cwd=place) as running:
                await running.until_logged("verdict=")
                ended = await running.end()
            return _compare(site, place / "x.db", killed) | {"kills": kills, "broken": broken, "last_status": ended}


def _whole(database: Path) -> bool:
    with sqlite3.connect(database) as db:
        return bool(db.execute("PRAGMA integrity_check").fetchone() == ("ok",))


def _compare(site: Site, database: Path, killed: list[float]) -> dict[str, Any]:
    """Match crawls with what the server saw, page by page."""
    with sqlite3.connect(database) as db:
        pages = db.execute("SELECT count(*) FROM pages WHERE state != 'retired'").fetchone()[0]
        rows = db.execute("SELECT url, at FROM crawls JOIN pages ON pages.id = page_id ORDER BY at").fetchall()
    crawls: dict[str, list[float]] = defaultdict(list)
    for url, at in rows:
        crawls[url].append(at)
    twice, visits_all = 0, 0
    lost: list[tuple[float, float]] = []  # when it was seen, when the kill came
    for page in {seen.target: seen for seen in site.visits() if seen.path.startswith("/poisson/")}.values():
        url = f"http://{page.host}{page.target}"
        visits = sorted(seen.wall for seen in site.visits() if seen.target == page.target)
        visits_all += len(visits)
        recorded = crawls.pop(url, [])
        twice += max(0, len(recorded) - len(visits))
        for visit in visits:
            match = next((at for at in recorded if at - LIMITS.clocks <= visit <= at + 5.0), None)
            if match is not None:
                recorded.remove(match)
                continue
            # What was on its way when the kill came is noted a moment after it.
            lost.append(
                (visit, min((moment for moment in killed if moment >= visit - LIMITS.clocks), default=float("inf")))
            )
        twice += len(recorded)
    return {
        "pages": pages,
        "pages_expected": LIMITS.pages,
        "requests_seen": visits_all,
        "crawls_recorded": len(rows),
        "recorded_twice_or_never_seen": twice + sum(len(rest) for rest in crawls.values()),
        "lost": len(lost),
        "lost_before_a_recorded_one": sum(_overtaken(seen, kill, rows) for seen, kill in lost),
        "oldest_lost_seconds": max((kill - seen - _stood_still(site, seen, kill) for seen, kill in lost), default=0.0),
        "oldest_lost_seconds_with_stalls": max((kill - seen for seen, kill in lost), default=0.0),
        "longest_stall_of_the_server_seconds": max((end - start for start, end in site.stalls), default=0.0),
    }


def _overtaken(seen: float, kill: float, recorded: list[tuple[str, float]]) -> bool:
    """Tells whether a crawl that left well after a lost one was committed before the kill: out of order, that is."""
    return any(seen + LIMITS.max_crawl < at < kill for _, at in recorded)


def _stood_still(site: Site, start: float, end: float) -> float:
    """For how much of the time between two moments of the wall clock the machine kept the server waiting."""
    ahead = time.time() - time.monotonic()
    overlaps = (min(end, until + ahead) - max(start, since + ahead) for since, until in site.stalls)
    return sum(overlap for overlap in overlaps if overlap > 0)


def main() -> None:
    """Run and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    show(asyncio.run(run(arguments.kills, arguments.seed)), as_json=arguments.json)


if __name__ == "__main__":
    main()
