"""Secrets planted in `credentials`: who receives them, and whether anything that crawld writes holds one.

    python -m benchmarks.leaks [--json] [--seconds 60] [--keep FOLDER]

A real daemon crawls five hosts of a hostile web, one for each kind of credential and a foreign one: pages that repeat
every header in their text, ETag or redirect, redirects that leave the origin and come back, answers that break off,
401s with the token in their realm, and logins. Meanwhile secrets are replaced and reloaded, bad files are refused, and
every view, route, command and export is asked. The daemon ends by SIGABRT, as a crash would end it.

Then every secret of the run is looked for as it is, as base64, escaped and in hexadecimal: in all files of the folder,
in every value of every table (unpacked), in the log, and in all answers. `leaks` names the places; there must be none.
`strangers` are requests that brought a secret where it does not belong. `sent` counts those that brought one home, and
`seen` how often the search found a word that is surely stored, without which finding nothing would mean nothing.
"""

import asyncio
import base64
import contextlib
import json
import secrets
import signal
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import yaml
from backports import zstd

from benchmarks import argument_parser
from tests.support.process import Running, command, daemon, free_port, settings
from tests.support.site import Site, Visit
from tests.support.walls import CLOUDFLARE

WORD = "unmistakable-words-of-a-page"
KINDS = ("bearer", "basic", "header", "cookie")
FOREIGN = len(KINDS) + 1
PATHS = ("echo", "plain", "etag", "away", "back", "repeat", "error", "cut", "realm", "wall", "login", "moved")
ROUTES = (
    "/", "/pages", "/hosts", "/changes", "/forecast", "/healthz", "/metrics", "/v1/pages", "/v1/hosts", "/v1/changes",
    "/v1/sources", "/v1/status", "/status", "/openapi.json", "/v1/openapi.json", "/v1/slots",
)  # fmt: skip
COMMANDS = (
    ("check-config", "config.yaml"), ("check-config", "config.yaml", "--json"), ("stats",), ("stats", "--json"),
    ("stats", "--pages"), ("host", "list", "--json"), ("export",), ("export", "--text"), ("export", "--format", "csv"),
    ("export", "--format", "warc", "--output", "copies.warc"), ("changes",), ("hooks",), ("urls", "list"),
)  # fmt: skip
SHORT = {1, 3, 7}


@dataclass
class Vault:
    """The secrets of a run: the one of each kind that is valid, and all there have been."""

    folder: Path
    now: dict[str, str] = field(default_factory=dict)
    ever: list[str] = field(default_factory=list)

    def renew(self, kind: str) -> None:
        """Write a new secret of a kind into its file."""
        self.now[kind] = secret = f"S3cret-{kind}-{secrets.token_hex(12)}"
        self.ever.append(secret)
        held = {"basic": f"robot:{secret}", "header": f"X-Api-Key: {secret}", "cookie": f"sid={secret}; lang=en"}
        file = self.folder / kind
        file.touch(0o600)
        file.write_text(held.get(kind, secret) + "\n")

    def sent(self, kind: str) -> tuple[str, str]:
        """The header, in lower case, that the secret of a kind is sent in, and its value."""
        secret = self.now[kind]
        packed = base64.b64encode(f"robot:{secret}".encode()).decode()
        return {
            "bearer": ("authorization", f"Bearer {secret}"),
            "basic": ("authorization", f"Basic {packed}"),
            "header": ("x-api-key", secret),
            "cookie": ("cookie", f"sid={secret}; lang=en"),
        }[kind]

    def needles(self) -> Mapping[bytes, str]:
        """Every spelling of every secret, with its kind."""
        found: dict[bytes, str] = {}
        for secret in self.ever:
            raw = secret.encode()
            packed = base64.b64encode(f"robot:{secret}".encode())
            for needle in (raw, base64.b64encode(raw)[:-4], packed[8:-4], quote(secret).encode(), raw.hex().encode()):
                found[needle] = secret.split("-")[1]
        return found


class Web:
    """The behaviours of the five hosts."""

    def __init__(self, site: Site, vault: Vault) -> None:
        self.site, self.vault = site, vault
        self.heard: dict[str, str] = {}  # by kind the secret that its host received last, and can repeat

    def kind_of(self, visit: Visit) -> str | None:
        """The kind of credentials that the host asked wants."""
        number = int(visit.seen.host.rpartition(":")[0].rpartition(".")[2])
        return KINDS[number - 1] if number <= len(KINDS) else None

    async def page(self, visit: Visit) -> None:
        """Answer as the last part of the path says; only who brings the secret gets a page."""
        name, kind = visit.seen.path.rpartition("/")[2], self.kind_of(visit)
        given = "".join(f"<p>{key}: {value}</p>" for key, value in visit.seen.headers.items())
        if kind is not None:
            header, value = self.vault.sent(kind)
            if value in visit.seen.headers.get(header, ""):
                self.heard[kind] = self.vault.now[kind]
            elif name not in {"realm", "login"} and value not in visit.seen.headers.get(header, ""):
                await visit.reply(f"<h1>401</h1>{given}", 401, {"WWW-Authenticate": "Bearer"})
                return
        token = self.heard.get(kind or "", "none")
        text = f"<h1>{WORD}</h1><p>Now {int(time.time()) // 3}</p>"
        if name in {"away", "back"}:
            await visit.reply(status=302, headers={"Location": self.site.url(f"/in/{name}", FOREIGN)})
        elif name == "moved":
            await visit.reply(status=301, headers={"Location": "/in/plain"})
        elif name == "repeat":
            await visit.reply(status=302, headers={"Location": self.site.url(f"/in/plain?t={token}", FOREIGN)})
        elif name == "error":
            await visit.reply(text + given, 500)
        elif name == "cut":
            await visit.reply(text, headers={"Content-Length": "999999", "X-Was": token})
            visit.keep = False
        elif name == "realm":
            await visit.reply(given, 401, {"WWW-Authenticate": f'Basic realm="{token}"'})
        elif name == "wall":
            await visit.reply(CLOUDFLARE + token, 403)
        elif name == "login":
            await visit.reply(status=302, headers={"Location": f"/in/sso/login?next={token}"})
        elif name == "etag":
            await visit.reply(text, headers={"ETag": f'"{token}"', "Content-Type": f"text/html; was={token}"})
        else:
            await visit.reply(text + (given if name == "echo" else ""))

    async def foreign(self, visit: Visit) -> None:
        """A host without credentials: sends some visitors back to where they came from."""
        if visit.seen.path.endswith("/back"):
            await visit.reply(status=302, headers={"Location": self.site.url("/in/echo", 1)})
        else:
            await visit.reply(f"<h1>{WORD}</h1>" + "".join(f"<p>{item}</p>" for item in visit.seen.headers.items()))

    async def answer(self, visit: Visit) -> None:
        """Answer for whichever host was asked."""
        await (self.foreign(visit) if self.kind_of(visit) is None else self.page(visit))


async def run(folder: Path, seconds: float, *, port: int, short: bool = False) -> dict[str, Any]:
    """Run the daemon for so long and return what was found; a `short` run asks few commands."""
    outside = folder / "secrets"
    inside = folder / "daemon"
    outside.mkdir(mode=0o700)
    inside.mkdir()
    vault = Vault(outside)
    for kind in KINDS:
        vault.renew(kind)
    said: dict[str, str] = {}
    async with Site(hosts=FOREIGN) as site:
        web = Web(site, vault)
        urls = [site.url(f"/in/{path}", host) for host in range(1, FOREIGN) for path in PATHS]
        site.pages |= {f"/in/{path}": web.answer for path in PATHS}
        site.pages |= {"/in/sso/login": web.answer}
        given = {
            "credentials": [
                {
                    "origin": site.url("", host),
                    "prefix": "/in/",
                    f"{kind}_file": str(outside / kind),
                    "allow_http": True,
                }
                for host, kind in enumerate(KINDS, 1)
            ],
            "bandwidth": "60/s",
            "api": {"listen": f"127.0.0.1:{port}"},
            "log": {"crawls": True, "level": "debug", "format": "json"},
            "signals": {"sitemaps": "off", "feeds": "off"},
        }
        file = settings(inside, urls, **given)
        async with daemon("--config", str(file), cwd=inside) as running:
            await running.until_logged(f'{urls[-1]}", "verdict"')
            ends, rounds = time.monotonic() + seconds, 0
            while rounds == 0 or time.monotonic() < ends:
                vault.renew(KINDS[rounds % len(KINDS)])
                api = f"http://127.0.0.1:{port}"
                await _ask(inside, file, api, urls, said, rounds, refuse=outside / "bearer", short=short)
                rounds += 1
            before = len(site.log)
            while len(site.log) < before + len(urls):  # the last secrets are sent and committed
                await asyncio.sleep(0.05)
            await _end(running, said)
        strangers = [line for line in site.log if _astray(line, vault, site)]
        home = sum(any(needle.decode() in str(line.headers) for needle in vault.needles()) for line in site.log)
    leaks, seen = search(inside, said, vault.needles())
    return {
        "seconds": seconds,
        "rounds": rounds,
        "requests": len(site.log),
        "secrets": len(vault.ever),
        "sent": home - len(strangers),
        "strangers": len(strangers),
        "answers": len(said),
        "seen": len(seen),
        "seen_in": sorted(set(seen)),
        "leaks": leaks,
    }


async def _ask(
    folder: Path, file: Path, api: str, urls: list[str], said: dict[str, str], number: int, *, refuse: Path, short: bool
) -> None:
    """Reload, once with a file that is refused, and keep all that every command and route says."""
    if number == 0:
        refuse.chmod(0o644)
        ended = await command("reload", "--config", str(file), cwd=folder)
        said["refused reload"] = ended.out + ended.err
        said["refused check"] = (await command("check-config", str(file), cwd=folder)).err
        refuse.chmod(0o600)
    asked: list[tuple[str, ...]] = [("reload", "--config", str(file))]
    asked += [("explain", url, "--config", str(file)) for url in urls[number % 7 :: 100 if short else 23]]
    asked += [
        (*words, "--config", str(file)) if words[0] != "check-config" else words
        for at, words in enumerate(COMMANDS)
        if (at in SHORT if short else number == 0 or at % 5 == number % 5)
    ]
    for words in asked:
        ended = await command(*words, cwd=folder)
        said[f"{number} crawld {' '.join(words)}"] = ended.out + ended.err
    token = (folder / "x.db.token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    wanted = [
        *ROUTES,
        *(f"{place}?url={quote(url, safe='')}" for url in urls[:: 5 if short else 1] for place in ("/page", "/copy")),
    ]
    async with aiohttp.ClientSession(headers=headers) as session:
        for route in wanted:
            async with session.get(api + route) as answer:
                said[f"{number} GET {route}"] = f"{answer.headers} {await answer.text()}"


async def _end(running: Running, said: dict[str, str]) -> None:
    await running.end(signal.SIGABRT)
    said["log"] = "\n".join(running.log)


def _astray(line: Any, vault: Vault, site: Site) -> bool:
    """Tells whether a request brought a secret to a host, or below a path, that it does not belong to."""
    number = int(line.host.rpartition(":")[0].rpartition(".")[2])
    own = KINDS[number - 1] if number <= len(KINDS) else None
    brought = f"{line.target} {dict(line.headers)}"
    kinds = {kind for needle, kind in vault.needles().items() if needle.decode() in brought}
    return bool(kinds - {own}) or (bool(kinds) and not line.path.startswith("/in/")) or site.port == 0


def search(folder: Path, said: Mapping[str, str], needles: Mapping[bytes, str]) -> tuple[list[str], list[str]]:
    """The places that hold a secret, and those that hold the word that is surely stored."""
    leaks: list[str] = []
    seen: list[str] = []
    for place, data in _everything(folder, said):
        leaks += [f"{place}: {kind}" for needle, kind in needles.items() if needle in data]
        if WORD.encode() in data:
            seen.append(place)
    return leaks, seen


def _everything(folder: Path, said: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(folder)), file.read_bytes()
    with contextlib.closing(sqlite3.connect(folder / "x.db")) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in db.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    yield table, _bytes(value)
    for place, text in said.items():
        yield place, text.encode()


def _bytes(value: object) -> bytes:
    raw = value if isinstance(value, bytes) else str(value).encode()
    try:
        return raw + zstd.decompress(raw)
    except zstd.ZstdError:
        return raw


def main() -> None:
    """Run and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--keep", type=Path, help="an empty folder to work in, which stays")
    parser.add_argument("--short", action="store_true", help="ask few commands")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() if given.keep is None else contextlib.nullcontext(given.keep) as made:
        found = asyncio.run(run(Path(made), given.seconds, port=free_port(), short=given.short))
    print(json.dumps(found, indent=2) if given.json else yaml.safe_dump(found, sort_keys=False))
    raise SystemExit(1 if found["leaks"] or found["strangers"] or not found["sent"] or not found["seen"] else 0)


if __name__ == "__main__":
    main()
