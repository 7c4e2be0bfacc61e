"""The misbehaving site in a process of its own, so that nothing but itself keeps it from noting when it was asked.

    python -m benchmarks.soak_site HOSTS [bombs]

Says its port, serves until its standard input ends, then tells as one line of JSON what was asked when (monotonic
seconds, which all processes of a machine share) by whom, and when the machine kept the site waiting.
"""

import argparse
import asyncio
import json
import sys
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.behaviours import bomb
from tests.support.process import ENVIRONMENT, ROOT
from tests.support.site import Site

BOMBS = ("gzip", "br", "zstd")


@dataclass(frozen=True)
class SoakSiteLimits:
    """Numbers of this benchmark."""

    megabytes: int = 200
    stall: float = 0.004  # seconds: shorter than a slot at the usual rate
    after: float = 0.02  # seconds after a stall in which what came meanwhile is noted


LIMITS = SoakSiteLimits()


async def serve(hosts: int, bombs: bool) -> None:
    """Serve until standard input ends."""
    for encoding in BOMBS if bombs else ():
        bomb(encoding, LIMITS.megabytes)  # made before anything is asked
    asked: list[tuple[float, str, str]] = []
    async with Site(hosts=hosts, stall=LIMITS.stall) as site:
        print(site.port, flush=True)
        end = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read))
        while not end.done():
            await asyncio.wait([end], timeout=1.0)
            asked += [
                (seen.monotonic, seen.host + seen.target, seen.headers.get("user-agent", "")) for seen in site.log
            ]
            site.log.clear()  # a log of objects would cost ever longer pauses of the garbage collector
        print(json.dumps({"asked": asked, "stalls": site.stalls}))


@dataclass(slots=True)
class SiteProcess:
    """The site from outside: where its pages are, and once it has ended what it saw."""

    site: Site  # not served here: it knows the addresses
    asked: list[tuple[float, str, str]] = field(default_factory=list)  # when, host with path, user agent
    stalls: list[tuple[float, float]] = field(default_factory=list)

    @property
    def times(self) -> list[float]:
        """Time at which each request was noted."""
        return [at for at, _, _ in self.asked]

    def earliest(self) -> list[float]:
        """Earliest time of each request; what came while the server stood still is noted just after."""
        return [self._earliest(noted) for noted in self.times]

    def _earliest(self, noted: float) -> float:
        place = bisect_left(self.stalls, noted - LIMITS.after, key=lambda stall: stall[1])
        return min(self.stalls[place][0] if place < len(self.stalls) else noted, noted - LIMITS.stall)


@asynccontextmanager
async def site_process(hosts: int, *, bombs: bool = False) -> AsyncIterator[SiteProcess]:
    """The site while the block runs; what it saw is there afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.soak_site",
        str(hosts),
        *(["bombs"] if bombs else []),
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 30,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        far = SiteProcess(Site(hosts=hosts, port=int(await process.stdout.readline())))
        yield far
        process.stdin.close()
        told = json.loads(await process.stdout.readline())
        far.asked = sorted((at, url, agent) for at, url, agent in told["asked"])
        far.stalls = [(start, end) for start, end in told["stalls"]]
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", type=int)
    parser.add_argument("bombs", nargs="?", choices=["bombs"], help="serve bombs, too")
    given = parser.parse_args()
    asyncio.run(serve(given.hosts, bombs=given.bombs is not None))
