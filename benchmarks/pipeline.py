"""Speed of the whole pipeline: pick, fetch, digest, store, beside a bare aiohttp loop and beside Scrapy.

    python -m benchmarks.pipeline [--shape narrow|wide|first] [--rounds 5] [--seconds 4] [--pages N] [--hosts N]
        [--size 10000] [--clients NAME …] [--processes 0,1,2] [--json]

`narrow` is 1,000 pages on one host, `wide` 50,000 pages on 1,000 hosts, `first` the first visits of `narrow`; --pages
and --hosts make them smaller. The JSON has a key of that name with crawld's rate over the others' within the rounds,
and the processor time of a page: `loop_us_per_page` of the event loop's thread, `cpu_us_per_page` of all threads.

All of them crawl the same site in the same run, from processes of their own; the site runs in another process. They
take turns over several rounds, each round beginning with another of them: the figures are the medians of the rounds,
and a ratio is the median of the ratios within the rounds, so that what else the machine does falls on all alike. CPU is
that of the crawling process. Each has as many requests under way at once, and goes over all pages once before it is
measured. crawld is measured twice, on the loop that `crawld run` uses: as it is (it asks conditionally, and the site
answers 304 to what has not changed), and asking without conditions, as the others do; `crawld-signed` and
`crawld-unconditional-signed` also sign every request, and `signing_cpu` is what that adds to the processor time of a
page, within the rounds. The first pass, in which every page is new and is digested, compressed and stored, is reported
apart. Where other programs use the processors, `cpu_over_bare` (bare's processor time over crawld's) says more than a
rate. --processes measures `crawld run --processes N` in place of all that (`benchmarks.pipeline_processes`).
"""

import argparse
import asyncio
import importlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import argument_parser
from benchmarks.pipeline_site import address

SHAPES = {"narrow": (1_000, 1), "wide": (50_000, 1_000), "first": (1_000, 1)}
"""Pages and hosts by shape."""
AT_ONCE = 100
COSTS = ("loop_us_per_page", "cpu_us_per_page")
CLIENTS = ("bare", "crawld", "crawld-unconditional", "scrapy")
SIGNED = {"crawld-signed": "crawld", "crawld-unconditional-signed": "crawld-unconditional"}
"""Clients that sign, and what they are compared with."""


@contextmanager
def site(size: int, hosts: int) -> Iterator[int]:
    """The site in a process of its own; its port."""
    command = [sys.executable, "-m", "benchmarks.pipeline_site", str(size), str(hosts)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def urls(port: int, pages: int, hosts: int = 1) -> list[str]:
    """The pages, spread over the hosts."""
    return [f"http://{address(i % hosts)}:{port}/page/{i}" for i in range(pages)]


class Gauge:
    """Counts from a moment on: imports are no crawling."""

    def start(self, pages: int = 0) -> None:
        """Count from now on, when so many pages have been crawled."""
        self._cpu, self._wall, self._pages = time.process_time(), time.monotonic(), pages
        self._loop = time.thread_time()

    def stop(self, pages: int) -> dict[str, Any]:
        """Stops after so many pages."""
        cpu, wall = time.process_time() - self._cpu, time.monotonic() - self._wall
        loop, pages = time.thread_time() - self._loop, pages - self._pages
        costs = {"cpu_us_per_page": 1e6 * cpu / max(pages, 1), "loop_us_per_page": 1e6 * loop / max(pages, 1)}
        return {"pages": pages, "pages_per_second": pages / wall} | costs


async def bare(pages: list[str], seconds: float) -> dict[str, Any]:
    """A loop of GETs over one aiohttp session that reads each body and does nothing with it."""
    import aiohttp

    gauge, done, end = Gauge(), 0, math.inf
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work(first: int) -> None:
            nonlocal done, end
            number = first
            while time.monotonic() < end:
                async with session.get(pages[number % len(pages)]) as response:
                    await response.read()
                done += 1
                number += AT_ONCE
                if done == len(pages):
                    gauge.start(done)
                    end = time.monotonic() + seconds

        await asyncio.gather(*(work(i) for i in range(AT_ONCE)))
    return gauge.stop(done)


async def crawld(pages: list[str], seconds: float, *, conditional: bool, signed: bool = False) -> dict[str, Any]:
    """The daemon itself, with a bandwidth no machine reaches."""
    from crawld.fetch.signing import new_key, write_keys
    from crawld.main.assembly import build
    from crawld.main.settings import Settings

    hosts = len({page.split("/", 3)[2] for page in pages})
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "urls.txt").write_text("\n".join(pages))
        given = {
            "urls": f"{folder}/urls.txt",
            "database": f"sqlite:///{folder}/x.db",
            "bandwidth": "100000/s",
            "allow_private": ["127.0.0.0/8"],
            "politeness": {"delay": 0, "per_host": max(1, AT_ONCE // hosts)},
            "min_interval": 0,
            "fetch": {"unconditional_share": 0 if conditional else 1},
            "signals": {"sitemaps": "off", "feeds": "off"},
            "log": {"level": "warning"},
            "api": {"listen": None},
            "signing": {"agent": "https://bot.example.org" if signed else None},
        }
        if signed:
            write_keys(Path(folder) / "x.db.keys", [new_key(time.time())])
        daemon = build(Settings.model_validate(given))
        running, status, gauge = asyncio.create_task(daemon.run()), daemon.crawler.status, Gauge()
        while not status.requests:
            await asyncio.sleep(0.01)
        gauge.start()
        while status.verdicts["new"] < len(pages) and not running.done():
            await asyncio.sleep(0.01)
        first_pass = gauge.stop(status.verdicts.total())
        gauge.start(status.verdicts.total())
        await asyncio.sleep(seconds)
        figures = gauge.stop(status.verdicts.total()) | {"first_pass": first_pass}
        daemon.stop()
        await running
        assert not status.faults
        assert set(status.verdicts) <= {"new", "unchanged"}, status.verdicts
        return figures


def scrapy(pages: list[str], seconds: float) -> dict[str, Any]:
    """A spider over the same pages again and again, as its defaults have it but for robots, logs and concurrency."""
    library: Any = importlib.import_module("scrapy")  # from the extra `benchmark`; the other figures do without
    process: Any = importlib.import_module("scrapy.crawler").CrawlerProcess()

    seen, gauge, end = 0, Gauge(), math.inf

    class Pages(library.Spider):  # type: ignore[misc]  # whatever it is
        name = "pages"
        custom_settings = {  # noqa: RUF012 - Scrapy's own way
            "CONCURRENT_REQUESTS": AT_ONCE,
            "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
            "LOG_ENABLED": False,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
            "DOWNLOAD_DELAY": 0,
        }

        async def start(self) -> Any:
            """Every page once, then on and on."""
            for url in pages:
                yield library.Request(url, dont_filter=True)

        def parse(self, response: Any) -> Any:
            """Count it and ask again."""
            nonlocal seen, end
            seen += 1
            if seen == len(pages):
                gauge.start(seen)
                end = time.monotonic() + seconds
            if time.monotonic() < end:
                yield library.Request(response.url, dont_filter=True)

    process.crawl(Pages)
    process.start()
    return gauge.stop(seen)


def measure(client: str, port: int, pages: int, hosts: int, seconds: float) -> dict[str, Any]:
    """Run one client in this process: its rate and CPU."""
    listed = urls(port, pages, hosts)
    if client == "bare":
        return asyncio.run(bare(listed, seconds))
    if client == "scrapy":
        return scrapy(listed, seconds)
    from crawld.cli.run import loop_factory

    signed, plain = client in SIGNED, SIGNED.get(client, client)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(crawld(listed, seconds, conditional=plain == "crawld", signed=signed))


def run(client: str, port: int, pages: int, hosts: int, seconds: float) -> dict[str, Any]:
    """Run one client in a process of its own: its rate and CPU, or why there is none."""
    command = [sys.executable, "-m", "benchmarks.pipeline", "--client", client, "--port", str(port)]
    command += ["--pages", str(pages), "--hosts", str(hosts), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Measure all clients in this run and print them beside each other."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of each client in each round")
    parser.add_argument("--shape", choices=SHAPES, default="narrow")
    parser.add_argument("--pages", type=int, help="in place of the shape's")
    parser.add_argument("--hosts", type=int, help="in place of the shape's")
    parser.add_argument("--size", type=int, default=10_000, help="bytes of a page")
    parser.add_argument("--clients", nargs="+", choices=(*CLIENTS, *SIGNED), default=CLIENTS, metavar="NAME")
    parser.add_argument("--processes", metavar="N,…", help="measure so many processes of one `crawld run` instead")
    parser.add_argument("--client", choices=(*CLIENTS, *SIGNED), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    pages, hosts = given.pages or SHAPES[given.shape][0], given.hosts or SHAPES[given.shape][1]
    if given.client:
        print(json.dumps(measure(given.client, given.port, pages, hosts, given.seconds)))
        return
    if given.processes:
        from benchmarks.pipeline_processes import figures_of

        counts = [int(count) for count in given.processes.split(",")]
        print(json.dumps(figures_of(counts, given.rounds, given.seconds, pages, hosts, given.size), indent=2))
        return
    rounds: list[dict[str, Any]] = []
    clients = tuple(given.clients)
    with site(given.size, hosts) as port:
        for number in range(given.rounds):
            first = number % len(clients)
            turns = clients[first:] + clients[:first]
            rounds.append({client: run(client, port, pages, hosts, given.seconds) for client in turns})
    figures: dict[str, Any] = {"rounds": given.rounds, "seconds": given.seconds, "pages": pages}
    figures |= {"hosts": hosts, "size": given.size} | {
        client: _typical([one[client] for one in rounds]) for client in clients
    }
    figures |= _ratios(rounds) | _signing(rounds) | {given.shape: _by_shape(given.shape, rounds)}
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for client in clients:
        row = figures[client]
        print(f"{client:34} {row.get('missing') or _shown(row)}")
        if "first_pass" in row:
            print(f"{client + ', first pass':34} {_shown(row['first_pass'])}")
    for name, ratio in figures.items():
        if name.startswith(("rate_over", "cpu_over", "signing")):
            print(f"{name.replace('_', ' '):44} {ratio:8.3f}")


def _shown(row: dict[str, Any]) -> str:
    costs = f"{row['cpu_us_per_page']:8.0f} µs CPU a page, {row['loop_us_per_page']:.0f} of the loop"
    return f"{row['pages_per_second']:8.0f} pages/s {costs}"


def _typical(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure over the rounds, and every round's rate."""
    for row in rows:
        if "missing" in row:
            return row
    typical = {
        name: _typical([row[name] for row in rows])
        if name == "first_pass"
        else statistics.median(r[name] for r in rows)
        for name in rows[0]
    }
    return typical | {"every_pages_per_second": [row["pages_per_second"] for row in rows]}


def _signing(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """Share of processor time that signing adds to a page, as a median by client."""
    found = {}
    for client, plain in SIGNED.items():
        pairs = [(one[client], one[plain]) for one in rounds if client in one and plain in one]
        if pairs:
            shares = [a["cpu_us_per_page"] / b["cpu_us_per_page"] - 1 for a, b in pairs]
            found[f"signing_cpu_{plain}"] = statistics.median(shares)
            shares = [a["first_pass"]["cpu_us_per_page"] / b["first_pass"]["cpu_us_per_page"] - 1 for a, b in pairs]
            found[f"signing_cpu_first_pass_{plain}"] = statistics.median(shares)
    return found


def _by_shape(shape: str, rounds: list[dict[str, Any]]) -> dict[str, float]:
    """The figures of crawld in this shape: medians of the rounds; a client that is missing has no ratio."""
    rows = [one["crawld"]["first_pass"] if shape == "first" else one["crawld"] for one in rounds if "crawld" in one]
    found = {name: statistics.median(row[name] for row in rows) for name in COSTS} if rows else {}
    for other in ("bare", "scrapy"):
        if rows and all("missing" not in one.get(other, ["missing"]) for one in rounds):
            pairs = zip(rows, (one[other] for one in rounds), strict=True)
            each = (ours["pages_per_second"] / theirs["pages_per_second"] for ours, theirs in pairs)
            found[f"rate_over_{other}"] = statistics.median(each)
            costs = ((ours, one[other]) for ours, one in zip(rows, rounds, strict=True))
            shares = (theirs["cpu_us_per_page"] / ours["cpu_us_per_page"] for ours, theirs in costs)
            found[f"cpu_over_{other}"] = statistics.median(shares)
    return found


def _ratios(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """The medians of the ratios within each round."""
    ratios = {}
    for client, suffix in (("crawld", ""), ("crawld-unconditional", "_unconditional")):
        for other in ("bare", "scrapy"):
            if not any("missing" in one.get(name, ["missing"]) for one in rounds for name in (client, other)):
                each = (one[client]["pages_per_second"] / one[other]["pages_per_second"] for one in rounds)
                ratios[f"rate_over_{other}{suffix}"] = statistics.median(each)
                shares = (one[other]["cpu_us_per_page"] / one[client]["cpu_us_per_page"] for one in rounds)
                ratios[f"cpu_over_{other}{suffix}"] = statistics.median(shares)
    return ratios


if __name__ == "__main__":
    main()
