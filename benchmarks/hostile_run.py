"""One run of the benchmark of attacks: a daemon that knows the good pages is given the hostile ones, and watched."""

import asyncio
import json
import shutil
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from tests.support.attacks.attack import Door
from tests.support.attacks.figures import oldest_uncommitted, percentile
from tests.support.attacks.site import ATTACKS, GOOD_NETWORK, SiteProcess, good_urls, poisoned, site_process, web_of
from tests.support.attacks.watch import Watched, watcher
from tests.support.process import Running, ask_control, daemon, free_port, settings


@dataclass(frozen=True)
class HostileRunLimits:
    """Numbers of this benchmark."""

    pages_per_rate: int = 30
    hosts_per_rate: int = 2  # good pages and hosts for each request a second; fewer pages are learnt sooner
    min_interval: float = 5.0
    learning: int = 10  # times the rate while good pages are learnt: politeness is the limit then, also for sitemaps
    max_allowance: float = 0.25  # of the calm rate, for hostile pages
    settle: float = 4.0  # seconds after the start, in which robots.txt of the good hosts are asked for again
    calm: float = 5.0  # seconds before an attack in which good requests are counted
    drain: float = 2.0  # seconds after the run in which its last crawls may become visible
    end_within: float = 15.0
    bytes_at_once: int = 200_000
    urls_at_once: int = 2_000  # given to the control socket in one request


LIMITS = HostileRunLimits()


@dataclass(slots=True)
class Bench:
    """The good site and a database that knows it."""

    folder: Path
    rate: float
    good: SiteProcess
    pages_per_rate: int = LIMITS.pages_per_rate
    runs: int = 0

    @property
    def _good_urls(self) -> list[str]:
        return good_urls(
            self.good.ports[0], int(self.pages_per_rate * self.rate), int(LIMITS.hosts_per_rate * self.rate)
        )

    def _settings(self, folder: Path, rate: float, door: int) -> Path:
        return settings(
            folder,
            self._good_urls,
            bandwidth=f"{rate}/s",
            politeness={},  # the defaults
            min_interval=LIMITS.min_interval,
            api={"listen": f"127.0.0.1:{door}", "public_url": f"http://127.0.0.1:{door}"},  # its doors are open
            log={"level": "warning"},
        )

    async def learn_good_pages(self) -> None:
        """Let a daemon see every good page, and that no good host has a sitemap, at the pace that politeness allows."""
        self.folder.mkdir(exist_ok=True)
        file = self._settings(self.folder, LIMITS.learning * self.rate, free_port())
        unseen = {*self._good_urls, *(urljoin(url, "/sitemap.xml") for url in self._good_urls)}
        async with daemon("--config", str(file), cwd=self.folder) as running:
            async with asyncio.timeout(20 * self.pages_per_rate):
                while unseen:
                    await asyncio.sleep(1.0)
                    assert running.process.returncode is None, "\n".join(running.log)
                    unseen -= {url for _, url in await self.good.asked()}
            await running.end()

    async def measure(self, attacks: Sequence[str], seconds: float, most: int | None = None) -> dict[str, Any]:
        """Run these attacks at once, with so many pages of each at most; none: a calm run."""
        self.runs += 1
        place = self.folder / f"run{self.runs}"
        place.mkdir()
        shutil.copy(self.folder / "x.db", place / "x.db")
        door = Door(free_port(), place / "x.db.token")
        async with AsyncExitStack() as stack:
            hostile = await stack.enter_async_context(site_process("hostile", self._victim, *attacks))
            webs = {name: web_of(name, _two(hostile), self._victim) for name in attacks}
            urls = [url for name in attacks for url in ATTACKS[name].pages(webs[name])[:most]]
            file = self._settings(place, self.rate, door.port)
            running = await stack.enter_async_context(daemon("--config", str(file), cwd=place))
            await _until_open(place / "x.db.sock", running)
            await asyncio.sleep(LIMITS.settle)
            await self.good.asked()
            await asyncio.sleep(LIMITS.calm)
            calm = _of_good_pages(await self.good.asked())
            watching = await stack.enter_async_context(watcher(place / "x.db", running.process.pid))
            await self.good.asked()
            await hostile.asked()
            began = time.time()
            work = [asyncio.create_task(self._give(place / "x.db.sock", urls))]
            work += [asyncio.create_task(push(door)) for name in attacks if (push := ATTACKS[name].push)]
            await asyncio.wait([asyncio.create_task(running.process.wait())], timeout=seconds)
            ended = time.time()
            asked, hostile_asked = await self.good.asked(), await hostile.asked()
            slots = await _slots(place / "x.db.sock") if running.process.returncode is None else {}
            await asyncio.sleep(LIMITS.drain)
            watched = await watching.end()
            alive = running.process.returncode is None
            for task in work:
                task.cancel()
            for failed in await asyncio.gather(*work, return_exceptions=True):
                if isinstance(failed, Exception) and not isinstance(failed, OSError):  # a dead daemon takes nothing
                    raise failed
            status = await _end(running)
        measured = _figures(_of_good_pages(asked), watched, began, ended, seconds)
        measured["calm_per_second"] = round(len(calm) / LIMITS.calm, 2)
        measured["hostile_per_second"] = round(len(hostile_asked) / (ended - began), 1)
        measured["slots"] = slots
        measured["poisoned_signals"] = poisoned(place / "x.db")
        measured["internal_errors"] = sum("internal error" in line.lower() for line in running.log)
        measured["ended"] = (
            f"status {status}" if alive and status is not None else "killed" if alive else f"died {status}"
        )
        return measured

    @property
    def _victim(self) -> str:
        return f"127.{GOOD_NETWORK}.0.1:{self.good.ports[0]}"

    async def _give(self, control: Path, urls: Sequence[str]) -> None:
        """Raise the bandwidth by what the pages may fairly have, and add them."""
        allowance = min(len(urls) / LIMITS.min_interval, LIMITS.max_allowance * self.rate)
        await ask_control(control, "PUT", "/bandwidth", {"rate": f"{self.rate + allowance}/s"})
        while urls:
            count = min(max(1, LIMITS.bytes_at_once // max(map(len, urls))), LIMITS.urls_at_once)
            await ask_control(control, "POST", "/urls", {"urls": urls[:count]})
            urls = urls[count:]


@asynccontextmanager
async def bench(folder: Path, rate: float, pages_per_rate: int = LIMITS.pages_per_rate) -> AsyncIterator[Bench]:
    """The good site, and a database that knows it, while the block runs."""
    async with site_process("good") as good:
        made = Bench(folder, rate, good, pages_per_rate)
        await made.learn_good_pages()
        yield made


def _of_good_pages(asked: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """The requests for pages, without robots.txt and sitemaps."""
    return [(at, url) for at, url in asked if "/page/" in url]


def _figures(
    good: Sequence[tuple[float, str]], watched: Watched, began: float, ended: float, wanted: float
) -> dict[str, Any]:
    return {
        "good_per_second": round(len(good) / max(ended - began, wanted), 2),
        "answers_per_second": round(len(watched.waits) / max(ended - began, wanted), 1),
        "longest_silence_ms": round(1000 * max(watched.waits)),
        "silence_p99_ms": round(1000 * percentile(watched.waits, 0.99)),
        "oldest_uncommitted_ms": round(1000 * oldest_uncommitted(good, watched, ended + LIMITS.drain)),
        "memory_mb": round(watched.memory_mb, 1),
        "machine_stall_ms": round(1000 * watched.stall),
    }


def _two(site: SiteProcess) -> tuple[int, int]:
    port, silent = site.ports
    return port, silent


async def _until_open(control: Path, running: Running) -> None:
    async with asyncio.timeout(60.0):
        while not control.exists():
            assert running.process.returncode is None, "\n".join(running.log)
            await asyncio.sleep(0.05)


async def _slots(control: Path) -> dict[str, Any]:
    """Fates of the slots of the last minutes, by the daemon's own account; empty where it does not answer."""
    try:
        told = json.loads(await asyncio.wait_for(ask_control(control, "GET", "/status", {}), 5.0))
    except TimeoutError:
        return {}
    return {**told["slots"], "in_flight": told["in_flight"], "waiting": told["waiting"]}


async def _end(running: Running) -> int | None:
    """The exit status after SIGTERM, None where it did not end."""
    try:
        return await asyncio.wait_for(running.end(signal.SIGTERM), LIMITS.end_within)
    except TimeoutError:
        return None
