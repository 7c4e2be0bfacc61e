"""Figures of the code, measured by parsing it and by running it.

`python -m benchmarks.house [--json]` counts lines, files, constants and importers, and then runs a real daemon on two
pages, one of which changes, with a profile hook that notes every function of crawld that runs after the start has
settled. `--walk crawl|signal|webhook|overview` prints the files that one of them passes through, in order of first use;
`--parse` leaves the daemon out.
"""

import ast
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import aiohttp
from aiohttp import web

from benchmarks import argument_parser, show
from crawld.main.assembly import Assembly, Tempo
from crawld.main.settings import Settings

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "crawld"
SETTLED_VISITS = 4
"""Visits of each page after which a start has settled."""
TRACED_SECONDS = 12.0


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _importers() -> dict[str, set[str]]:
    """Modules of the package by module that imports them."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crawld"):
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    found[inner if inner in trees() else str(node.module)].add(name)
    return found


def _constants(tree: ast.Module) -> int:
    """Names in capitals that a module assigns at its top level."""
    count = 0
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            count += sum(isinstance(name, ast.Name) and name.id.isupper() for name in names)
    return count


def _collaborators(node: ast.ClassDef) -> int:
    """Arguments of a constructor."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return len(one.args.args) - 1 + len(one.args.kwonlyargs)
    return 0


def parse() -> dict[str, Any]:
    """The figures that follow from the text of the package and its documents."""
    sources = sorted(PACKAGE.rglob("*.py"))
    total = sum(map(_lines, sources))
    classes = [
        (node.name, node) for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    names = Counter(name for name, _ in classes if not name.startswith("_"))
    importers = _importers()
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return {
        "package_lines": total,
        "package_files": len(sources),
        "single_importer_modules": sum(
            len(importers[name]) == 1 for name in trees() if not (ROOT / Path(*name.split("."))).is_dir()
        ),
        "repeated_class_names": sorted(name for name, count in names.items() if count > 1),
        "constants_per_kloc": round(1000 * sum(map(_constants, trees().values())) / total, 1),
        "most_collaborators": max(_collaborators(node) for _, node in classes),
        "doc_words": sum(len(document.read_text(encoding="utf-8").split()) for document in documents),
    }


def fleet_in_run() -> int:
    """Counts the modules of the fleet that `crawld run` imports."""
    loads = "import crawld.cli.run; from crawld.main.assembly import Assembly"
    code = f"import json, sys; {loads}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return sum(bool(re.match(r"crawld\.(\w+\.)*fleet", name)) for name in json.loads(done.stdout))


@dataclass
class Trace:
    """Functions of crawld that ran while it was switched on, in order; `wanted` chooses the tasks that count."""

    wanted: Callable[[str], bool] | None = None
    on: bool = False
    seen: dict[CodeType, None] = field(default_factory=dict)

    def install(self) -> None:
        """Watch this thread and those that start from now on."""
        threading.setprofile(self._look)
        sys.setprofile(self._look)

    def remove(self) -> None:
        """Watch no longer."""
        threading.setprofile(None)
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        if not self.on or event != "call" or frame.f_code in self.seen:
            return
        if frame.f_code.co_filename.startswith(str(PACKAGE)) and self._counts():
            self.seen[frame.f_code] = None

    def _counts(self) -> bool:
        if self.wanted is None:
            return True
        try:
            task = asyncio.current_task()
        except RuntimeError:  # a thread without a loop
            return False
        return task is not None and self.wanted(getattr(task.get_coro(), "__qualname__", ""))

    def files(self) -> list[str]:
        """Files of the package in order of first use."""
        names = (str(Path(code.co_filename).relative_to(ROOT)) for code in self.seen)
        return list(dict.fromkeys(names))


class Site:
    """Two pages, one of which is edited at every fourth visit; a sitemap, and a receiver of webhooks."""

    def __init__(self) -> None:
        self.visits: Counter[str] = Counter()
        self.delivered = 0
        self.base = ""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["Site"]:
        """Listen on loopback."""
        application = web.Application()
        application.router.add_get("/robots.txt", self._missing)
        application.router.add_get("/sitemap.xml", self._sitemap)
        application.router.add_get("/{name}", self._page)
        application.router.add_post("/hook", self._hook)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _missing(self, _: web.Request) -> web.Response:
        return web.Response(status=404)

    async def _page(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.visits[name] += 1
        words = [
            "harbour",
            "council",
            "bridge",
            "market",
            "school",
            "river",
            "tunnel",
            "museum",
            "station",
            "garden",
            "theatre",
            "library",
        ]
        edition = self.visits[name] // 4 * 5  # other words, and the same ones to a second look: no noise
        said = (words[(edition + number * number) % len(words)] for number in range(8))
        told = f"The {' and the '.join(said)} are open." if name == "living" else "What was always said."
        return web.Response(text=f"<main><h1>{name}</h1><p>{told}</p></main>", content_type="text/html")

    async def _sitemap(self, _: web.Request) -> web.Response:
        self.visits["sitemap"] += 1
        stamp = f"2026-01-01T00:{self.visits['sitemap'] % 60:02}:00Z"
        listed = f"<url><loc>{self.base}/living</loc><lastmod>{stamp}</lastmod></url>"
        space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        return web.Response(text=f"<urlset {space}>{listed}</urlset>", content_type="application/xml")

    async def _hook(self, request: web.Request) -> web.Response:
        await request.read()
        self.delivered += 1
        return web.Response()


WALKS: dict[str, tuple[dict[str, Any], Callable[[str], bool] | None]] = {
    "crawl": ({}, None),
    "signal": ({"signals": {"feeds": "off", "share": 0.5}}, lambda name: "poll" in name.lower()),
    "webhook": ({"hooks": ...}, lambda name: name.startswith(("Dispatcher", "Webhook"))),
    "overview": ({"api": {"listen": "127.0.0.1:0"}}, lambda name: name.startswith("RequestHandler")),
}
"""By walk: the settings it needs, and which tasks count (all of them in a crawl)."""


async def walk(name: str) -> Trace:
    """Traces one crawl, poll, delivery or view in a real daemon with two pages."""
    more, wanted = WALKS[name]
    trace = Trace(wanted)
    trace.install()
    with tempfile.TemporaryDirectory() as folder:
        async with Site().serve() as site:
            if "hooks" in more:
                hook = {
                    "name": "own",
                    "webhook": f"{site.base}/hook",
                    "secret": "0" * 32,
                    "allow_private": ["127.0.0.0/8"],
                }
                more = {"hooks": [hook]}
            (Path(folder) / "urls.txt").write_text(f"{site.base}/living\n{site.base}/still\n")
            assembly = Assembly(Settings.model_validate(_settings(folder) | more), tempo=Tempo(poll=1.0))
            daemon = assembly.daemon()
            daemon.catch_signals = False
            running = asyncio.create_task(daemon.run())
            try:
                async with asyncio.timeout(120.0):
                    while min(site.visits["living"], site.visits["still"]) < SETTLED_VISITS:
                        await asyncio.sleep(0.1)
                trace.on = True
                await _cause(name, assembly, site)
                trace.on = False
            finally:
                trace.on = False
                daemon.stop()
                await running
                trace.remove()
    return trace


def _settings(folder: str) -> dict[str, Any]:
    return {
        "bandwidth": "2/s",
        "urls": f"{folder}/urls.txt",
        "database": f"sqlite:///{folder}/x.db",
        "allow_private": ["127.0.0.0/8"],
        "politeness": {"delay": 0},
        "min_interval": 0.5,
        "max_interval": 2.0,
        "signals": {"sitemaps": "off", "feeds": "off"},
        "api": {"listen": None},
    }


async def _cause(name: str, assembly: Assembly, site: Site) -> None:
    """Let happen what is to be traced."""
    if name == "crawl":
        await asyncio.sleep(TRACED_SECONDS)
        return
    if name == "overview":
        address = await assembly.listener.known()
        async with aiohttp.ClientSession() as session:
            token = {"Authorization": f"Bearer {assembly.settings.token_file().read_text().strip()}"}
            async with session.get(f"http://{address}/", headers=token) as answer:
                answer.raise_for_status()
        return
    polled, delivered = site.visits["sitemap"], site.delivered
    async with asyncio.timeout(120.0):
        while (site.visits["sitemap"] <= polled) if name == "signal" else (site.delivered <= delivered):
            await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)  # until what it brought is recorded


def main() -> None:
    """Print the figures, or one walk."""
    parser = argument_parser(__doc__)
    parser.add_argument("--parse", action="store_true", help="only what follows from the text")
    parser.add_argument("--walk", choices=sorted(WALKS), help="print the files of one walk")
    options = parser.parse_args()
    if options.walk is not None:
        files = asyncio.run(walk(options.walk)).files()
        print(json.dumps(files, indent=2) if options.json else "\n".join(files))
        return
    figures = parse() | {"fleet_in_run": fleet_in_run()}
    if not options.parse:
        for name in WALKS:
            trace = asyncio.run(walk(name))
            figures[f"{name}_files"] = len(trace.files())
            figures[f"{name}_functions"] = len(trace.seen)
    show(figures, as_json=options.json)


if __name__ == "__main__":
    main()
