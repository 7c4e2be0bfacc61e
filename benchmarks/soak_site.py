"""The misbehaving site in a process of its own, so that nothing but itself keeps it from noting when it was asked.

    python -m benchmarks.soak_site HOSTS

Says its port, serves until its standard input ends, then tells as one line of JSON when each request came (monotonic
seconds, which all processes of a machine share) and when the machine kept the site waiting.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.behaviours import bomb
from tests.process import ENVIRONMENT, ROOT
from tests.site import Site

BOMBS = ("gzip", "br", "zstd")
MEGABYTES = 200
STALL = 0.004  # seconds: shorter than a slot at the usual rate


async def serve(hosts: int) -> None:
    """Serve until standard input ends."""
    for encoding in BOMBS:
        bomb(encoding, MEGABYTES)  # made before anything is asked
    times: list[float] = []
    async with Site(hosts=hosts, stall=STALL) as site:
        print(site.port, flush=True)
        end = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read))
        while not end.done():
            await asyncio.wait([end], timeout=1.0)
            times += [seen.monotonic for seen in site.log]
            site.log.clear()  # a log of objects would cost ever longer pauses of the garbage collector
        print(json.dumps({"times": times, "stalls": site.stalls}))


@dataclass(slots=True)
class SiteProcess:
    """The site from outside: where its pages are, and once it has ended what it saw."""

    site: Site  # not served here: it knows the addresses
    times: list[float] = field(default_factory=list)
    stalls: list[tuple[float, float]] = field(default_factory=list)


@asynccontextmanager
async def site_process(hosts: int) -> AsyncIterator[SiteProcess]:
    """The site while the block runs; what it saw is there afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.soak_site",
        str(hosts),
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
        far.times = sorted(told["times"])
        far.stalls = [(start, end) for start, end in told["stalls"]]
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
