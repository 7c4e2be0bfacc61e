"""The good site and the hostile one, each a process of its own: neither can slow down the other's answers.

    python -m tests.support.attacks.site good
    python -m tests.support.attacks.site hostile VICTIM ATTACK…

Both listen on every address of loopback, so that each can be thousands of hosts, say their ports, and tell at each line
on standard input which pages were asked for since the last one, as JSON: when (wall clock) and which.
"""

import asyncio
import contextlib
import json
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.attacks.attack import FIRST_NETWORK, Attack, Web
from tests.support.attacks.files import FILE_ATTACKS
from tests.support.attacks.pages import PAGE_ATTACKS
from tests.support.attacks.pushes import PUSH_ATTACKS
from tests.support.attacks.wire import WIRE_ATTACKS
from tests.support.behaviours import FILLER, not_found, ok, page
from tests.support.process import ENVIRONMENT, ROOT
from tests.support.site import Behaviour, Site, Visit

ATTACKS: Mapping[str, Attack] = {
    attack.name: attack for attack in (*FILE_ATTACKS, *PAGE_ATTACKS, *WIRE_ATTACKS, *PUSH_ATTACKS)
}
GOOD_NETWORK = 1
PARAGRAPHS = 140  # of 71 bytes: pages of some 10 KB
SILENT_BACKLOG = 64  # connections that the kernel takes although nobody serves them; the next ones wait


def on_loopback(backlog: int) -> socket.socket:
    """A listener on every address of loopback and on no other."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    opened.bind(("0.0.0.0", 0))
    opened.listen(backlog)
    return opened


class LoopbackSite(Site):
    """A site that answers on every address of loopback."""

    def _listen(self) -> list[socket.socket]:
        opened = on_loopback(1024)
        self.port = opened.getsockname()[1]
        return [opened]


class GoodSite(LoopbackSite):
    """Pages of some 10 KB: a third changes every 20 to 60 s, half have an ETag. One path is an open redirect."""

    def _behaviour(self, path: str, visit: Visit) -> Behaviour:
        if path.startswith("/page/"):
            return good_page
        return open_redirect if path == "/open" else not_found


async def good_page(visit: Visit) -> None:
    """A page that changes at times."""
    number = int(visit.seen.path.rpartition("/")[2])
    version = int(visit.seen.monotonic / (20 + number % 40)) if number % 3 == 0 else 0
    body = page(f"Page {number}", f"This is version {version}.", *[FILLER] * PARAGRAPHS)
    if number % 2:
        await visit.reply(body)
    else:
        await visit.reply_cached(body, f'"{version}"')


async def open_redirect(visit: Visit) -> None:
    """Redirects wherever one likes."""
    await visit.reply(status=302, headers={"Location": visit.query.get("to", "/")})


class HostileSite(LoopbackSite):
    """The attacks, each on its own network of loopback."""

    def __init__(self, victim: str, attacks: Sequence[str]) -> None:
        super().__init__()
        self.victim = victim
        self.attacks = attacks
        self.silent = on_loopback(SILENT_BACKLOG)
        self.answers: dict[int, Mapping[str, Behaviour]] = {}

    def prepare(self) -> None:
        """Make the answers before anything is asked; the port must be known."""
        for name in self.attacks:
            web = web_of(name, (self.port, self.silent.getsockname()[1]), self.victim)
            self.answers[web.network] = ATTACKS[name].answers(web)

    def _behaviour(self, path: str, visit: Visit) -> Behaviour:
        answers = self.answers.get(int(visit.seen.host.split(".")[1]), {})
        name = path.split("/")[1]
        return answers.get(name, ok if name == "p" else not_found)


def web_of(attack: str, ports: tuple[int, int], victim: str) -> Web:
    """The addresses of an attack; `ports` of the hostile site and of its silent listener."""
    return Web(FIRST_NETWORK + list(ATTACKS).index(attack), *ports, victim)


def good_urls(port: int, pages: int, hosts: int) -> list[str]:
    """The good pages, spread evenly over the hosts."""
    web = Web(GOOD_NETWORK, port, 0, "")
    return [web.url(f"/page/{number}", number % hosts) for number in range(pages)]


async def serve(site: LoopbackSite) -> None:
    """Serve until standard input ends."""
    async with site:
        ports = [site.port]
        if isinstance(site, HostileSite):
            site.prepare()
            ports.append(site.silent.getsockname()[1])
        print(json.dumps(ports), flush=True)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while await reader.readline():
            seen = [(one.wall, f"http://{one.host}{one.target}") for one in site.log]
            site.log.clear()
            print(json.dumps(seen), flush=True)


@dataclass(slots=True)
class SiteProcess:
    """One of the sites from outside."""

    process: asyncio.subprocess.Process
    ports: tuple[int, ...] = field(default=())

    async def asked(self) -> list[tuple[float, str]]:
        """When which URL was asked for, since this was asked last."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        return [(at, url) for at, url in json.loads(await self.process.stdout.readline())]


@asynccontextmanager
async def site_process(*words: str) -> AsyncIterator[SiteProcess]:
    """A site while the block runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.attacks.site", *words,
        cwd=ROOT, env=ENVIRONMENT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 30,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield SiteProcess(process, tuple(json.loads(await process.stdout.readline())))
    finally:
        process.kill()
        await process.wait()


def poisoned(database: Path) -> int:
    """Signals recorded for good pages, of which there are none."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        query = "SELECT count(*) FROM signals JOIN pages ON pages.id = page_id WHERE url LIKE ? AND NOT stale"
        (count,) = db.execute(query, (f"http://127.{GOOD_NETWORK}.%",)).fetchone()
        return int(count)


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    asyncio.run(serve(GoodSite() if kind == "good" else HostileSite(rest[0], rest[1:])))
