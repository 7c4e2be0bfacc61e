"""Checks that hooks are told of every change in order: a daemon that is killed, a receiver that fails half of the time.

    python -m benchmarks.deliveries [--kills 50] [--json]

Pages change by themselves; the daemon is killed at random moments and started again. At the end, once nothing waits any
more, what the receiver took is compared with the changes in the database.
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
from tests.support.receiver import Receiver, half_of_the_time, hook
from tests.support.site import Site


@dataclass(frozen=True)
class DeliveriesLimits:
    """Numbers of this benchmark."""

    pages: int = 30
    max_drain: float = 300.0  # seconds; how fast the machine is decides nothing


LIMITS = DeliveriesLimits()


async def run(kills: int, seed: int = 1) -> dict[str, Any]:
    """Kill and restart that often; the figures."""
    luck = random.Random(seed)
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        async with Site(hosts=5) as site, Receiver(half_of_the_time(seed)) as receiver:
            urls = [site.url(f"/poisson/{i}?rate=0.05", host=1 + i % 5) for i in range(LIMITS.pages)]
            given = {"bandwidth": "50/s", "min_interval": 0.1, "digest": [{"mode": "raw"}], "hooks": [hook(receiver)]}
            file = settings(place, urls, **given)
            for _ in range(kills):
                async with daemon("--config", str(file), cwd=place) as running:
                    await running.until_logged("ready")
                    await asyncio.sleep(luck.uniform(0.2, 2.0))
                    await running.end(signal.SIGKILL)
            async with daemon("--config", str(file), cwd=place) as running:
                await running.until_logged("ready")
                drained = await _drained(place / "x.db")
                status = await running.end()
            figures = {"kills": kills, "drained": drained, "last_status": status, "refused": receiver.refused}
            return figures | _compare(place / "x.db", receiver)


async def _drained(database: Path) -> bool:
    """Let pages change no more: wait until everything that is known was told."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as db:
        (last,) = db.execute("SELECT max(id) FROM changes").fetchone()
        until = time.monotonic() + LIMITS.max_drain
        while time.monotonic() < until:
            (cursor,) = db.execute("SELECT cursor FROM hooks").fetchone()
            (waiting,) = db.execute("SELECT count(*) FROM deliveries WHERE change <= ?", (last,)).fetchone()
            if cursor >= last and waiting == 0:
                return True
            await asyncio.sleep(0.1)
    return False


def _compare(database: Path, receiver: Receiver) -> dict[str, Any]:
    """Compares deliveries with changes; those that still waited at the end are left out."""
    with sqlite3.connect(database) as db:
        changes = dict(db.execute("SELECT changes.id, url FROM changes JOIN pages ON pages.id = page_id"))
        waiting = {change for (change,) in db.execute("SELECT change FROM deliveries")}
        (cursor, dropped) = db.execute("SELECT cursor, dropped FROM hooks").fetchone()
    told: dict[str, list[int]] = defaultdict(list)
    for one in receiver.taken:
        told[one["url"]].append(one["id"])
    every = {change for ids in told.values() for change in ids}
    expected = {change for change in changes if change <= cursor} - waiting
    return {
        "changes": len(expected),
        "told": len(receiver.taken),
        "told_more_than_once": len(receiver.taken) - len(every),
        "missing": len(expected - every),
        "never_happened": len(every - set(changes)),
        "out_of_order": sum(ids[at] < ids[at - 1] for ids in told.values() for at in range(1, len(ids))),
        "dropped": dropped,
    }


def main() -> None:
    """Run and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    show(asyncio.run(run(arguments.kills, arguments.seed)), as_json=arguments.json)


if __name__ == "__main__":
    main()
