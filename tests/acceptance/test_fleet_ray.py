"""`crawld fleet ray` on a real Ray cluster of several nodes: workers come back, elsewhere if need be, end cleanly."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import ROOT, command, program, settings
from tests.support.site import Site

LIVE = """
SELECT name, count(fleet_shards.id) FROM fleet_workers JOIN fleet_shards ON fleet_shards.worker = fleet_workers.id
WHERE ended_at IS NULL AND expires > extract(epoch FROM clock_timestamp()) GROUP BY name
"""
SECONDS = 60.0
STARTS = 5


LONGEST_FOLDER = 37
"""Characters: Ray's sockets lie 70 below its folder, and the system takes 107 for the path of one."""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Everything that Ray writes, named by RAY_TMPDIR: no file of an earlier cluster is needed or found."""
    with tempfile.TemporaryDirectory(prefix="r-", dir=_short(Path(tempfile.gettempdir()))) as place:
        monkeypatch.setenv("RAY_TMPDIR", place)
        monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        yield Path(place)


def _short(folder: Path) -> Path:
    return folder if len(str(folder / "r-12345678")) <= LONGEST_FOLDER else Path("/tmp")


@pytest.fixture
def cluster(folder: Path) -> Iterator[Any]:
    """Three nodes with room for one worker each; none of their processes is left at the end."""
    utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed here: pip install -e '.[ray]'")
    ours = signal.getsignal(signal.SIGTERM)  # a node of Ray in this process sets its own
    made = utils.Cluster()
    try:
        for _ in range(3):
            _add_node(made, folder)
        yield made
        made.shutdown()
        _until_gone(folder)
    finally:
        signal.signal(signal.SIGTERM, ours)
        _kill(folder)


def _add_node(cluster: Any, folder: Path) -> None:
    """Start a node; Ray gives a node half a minute, which a busy machine may need more than once."""
    before = _processes_of(folder)
    for left in range(STARTS - 1, -1, -1):
        try:
            cluster.add_node(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False)
        except Exception as error:  # Ray raises nothing more exact
            if not left or "timed out" not in str(error):
                raise
            _kill(folder, but=before)
        else:
            return


def _processes_of(folder: Path) -> set[int]:
    """Processes that were started with the folder on their command line: Ray's nodes and their workers."""
    return {process for process, line in _command_lines().items() if str(folder).encode() in line}


def _until_gone(folder: Path) -> None:
    """Wait until Ray has ended all its processes."""
    for _ in range(int(SECONDS / 0.1)):
        if not _processes_of(folder):
            return
        time.sleep(0.1)
    raise AssertionError(f"Ray left processes behind: {_processes_of(folder)}")


def _kill(folder: Path, but: Set[int] = frozenset()) -> None:
    for process in _processes_of(folder) - but:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _command_lines() -> dict[int, bytes]:
    """The words that each process was started with."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            found[int(place.name)] = (place / "cmdline").read_bytes()
    return found


def worker_process(name: str) -> int | None:
    """The process of the worker of that name."""
    for process, line in _command_lines().items():
        if {b"fleet", b"run", name.encode()} <= set(line.split(b"\0")):
            return process
    return None


def node_of(cluster: Any, process: int) -> Any:
    """The node of the cluster that a process is on."""
    raylets = {node.all_processes["raylet"][0].process.pid: node for node in cluster.list_all_nodes()}
    while process not in raylets:
        text = Path(f"/proc/{process}/stat").read_text()
        process = int(text.rpartition(")")[2].split()[1])  # its parent
    return raylets[process]


async def another_process(name: str, former: int | None = None) -> int:
    """The process of a worker, once it has one that is not the former."""
    async with asyncio.timeout(SECONDS):
        while (found := worker_process(name)) in {None, former}:
            await asyncio.sleep(0.1)
    assert found is not None
    return found


async def until_held(url: str, names: set[str], shards: int) -> None:
    """Wait until these workers hold all shards, and no others any."""
    import asyncpg

    async with asyncio.timeout(SECONDS):
        while True:
            connection = await asyncpg.connect(url)
            try:
                held = dict(await connection.fetch(LIVE))
            finally:
                await connection.close()
            if set(held) == names and sum(held.values()) == shards * bool(names):
                return
            await asyncio.sleep(0.2)


async def test_workers_on_ray_come_back_and_end_cleanly(
    cluster: Any, folder: Path, postgres_url: str, tmp_path: Path
) -> None:
    """Workers outlive a killed command, are back after a kill, elsewhere if their node dies, and end cleanly."""
    async with Site(hosts=8) as site:
        urls = [site.url(f"/ok/{i}", host=1 + i % 8) for i in range(40)]
        file = settings(tmp_path, urls, database=postgres_url)
        made = await command(
            "fleet", "init", "--database", postgres_url, "--shards", "8", "--bandwidth", "20/s", cwd=tmp_path
        )
        assert made.status == 0, made.err
        words = ("fleet", "ray", "--workers", "2", "--address", cluster.address, "--config", str(file))
        ours = {"RAY_TMPDIR": str(folder)}
        names = {"ray-1", "ray-2"}
        async with program([sys.executable, "-m", "crawld", *words], cwd=tmp_path, env=ours) as running:
            await until_held(postgres_url, names, 8)
            before = {name: worker_process(name) for name in names}
            await running.end(signal.SIGKILL)
        async with program([sys.executable, "-m", "crawld", *words], cwd=tmp_path, env=ours) as running:
            await running.until_logged("placed")
            assert {name: worker_process(name) for name in names} == before
            await until_held(postgres_url, names, 8)
            first = await another_process("ray-1")
            os.kill(first, signal.SIGKILL)
            await another_process("ray-1", first)
            await until_held(postgres_url, names, 8)

            places = {name: await another_process(name) for name in sorted(names)}
            name, second = next((name, at) for name, at in places.items() if node_of(cluster, at) != cluster.head_node)
            node = node_of(cluster, second)
            await asyncio.to_thread(cluster.remove_node, node, allow_graceful=False)
            moved = await another_process(name, second)
            assert node_of(cluster, moved) != node
            await until_held(postgres_url, names, 8)

            assert await running.end() == 0, running.log
        assert (worker_process("ray-1"), worker_process("ray-2")) == (None, None)
        await until_held(postgres_url, set(), 8)


async def test_without_a_cluster_a_sentence_says_how_to_start_one(tmp_path: Path) -> None:
    """The address is named, and nothing is shown of what Ray raised."""
    pytest.importorskip("ray", reason="Ray is not installed here: pip install -e '.[ray]'")
    done = await command("fleet", "ray", "--workers", "1", "--address", "127.0.0.1:1", cwd=tmp_path)
    assert done.status == 2
    assert "127.0.0.1:1" in done.err
    assert "ray start --head" in done.err
    assert "Traceback" not in done.err


async def test_without_ray_a_sentence_says_how_to_install_it(tmp_path: Path) -> None:
    """Ray is an extra: whoever does without it is told how to get it, or what to do instead."""
    (tmp_path / "ray.py").write_text("raise ImportError('as where it is not installed')\n")
    without = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = await command("fleet", "ray", "--workers", "1", cwd=tmp_path, env=without)
    assert done.status == 2
    assert "pip install 'crawld[ray,postgres]'" in done.err
