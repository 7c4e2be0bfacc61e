"""`crawld fleet ray` on a real Ray cluster of several nodes: workers come back, elsewhere if need be, end cleanly."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process import ROOT, command, program, settings
from tests.site import Site

LIVE = """
SELECT name, count(fleet_shards.id) FROM fleet_workers JOIN fleet_shards ON fleet_shards.worker = fleet_workers.id
WHERE ended_at IS NULL AND expires > extract(epoch FROM clock_timestamp()) GROUP BY name
"""
SECONDS = 60.0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Three nodes with room for one worker each."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed here: pip install -e '.[ray]'")
    ours = signal.getsignal(signal.SIGTERM)  # a node of Ray in this process sets its own
    room: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}
    with tempfile.TemporaryDirectory(prefix="crawld-ray-", ignore_cleanup_errors=True) as place:
        head = {"temp_dir": place, "include_dashboard": False, **room}
        made = utils.Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(2):
                made.add_node(**room)
            yield made
        finally:
            made.shutdown()
            signal.signal(signal.SIGTERM, ours)


def worker_process(name: str) -> int | None:
    """The process of the worker of that name."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        if b"fleet" in words and b"run" in words and name.encode() in words:
            return int(folder.name)
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


async def test_workers_on_ray_come_back_and_end_cleanly(cluster: Any, postgres_url: str, tmp_path: Path) -> None:
    """A worker that is killed is back, one whose node dies is back on another, and SIGTERM gives all shards back."""
    async with Site(hosts=8) as site:
        urls = [site.url(f"/ok/{i}", host=1 + i % 8) for i in range(40)]
        file = settings(tmp_path, urls, database=postgres_url)
        made = await command(
            "fleet", "init", "--database", postgres_url, "--shards", "8", "--bandwidth", "20/s", cwd=tmp_path
        )
        assert made.status == 0, made.err
        words = ("fleet", "ray", "--workers", "2", "--address", cluster.address, "--config", str(file))
        async with program([sys.executable, "-m", "crawld", *words], cwd=tmp_path) as running:
            names = {"ray-1", "ray-2"}
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
