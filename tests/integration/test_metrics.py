"""`/metrics` of a real daemon: what it says, to whom, and that Prometheus's own tool accepts it."""

import re
import shutil
import subprocess
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.daemon import bearer, rows, running, scrape, until
from tests.support.process import free_port
from tests.support.receiver import Receiver, hook
from tests.support.site import Site

WANTED = {
    "crawld_slots_served", "crawld_slots_idle", "crawld_slots_skipped", "crawld_requests", "crawld_crawls",
    "crawld_bandwidth_per_second", "crawld_request_rate_per_second", "crawld_freshness_predicted_ratio",
    "crawld_freshness_measured_ratio", "crawld_calibration_gap_ratio", "crawld_level", "crawld_pages",
    "crawld_pages_active", "crawld_requests_in_flight", "crawld_learner_lag_seconds", "crawld_writer_lag_seconds",
    "crawld_hook_waiting_changes", "crawld_hook_changes", "crawld_store_size_bytes", "crawld_signals",
    "crawld_hosts_blocked", "crawld_pages_overdue", "crawld_disk_free_bytes",
    "crawld_event_loop_lag_seconds", "crawld_healthy",
}  # fmt: skip


async def test_the_figures_are_those_of_the_daemon(tmp_path: Path) -> None:
    """Every family is there, counters agree with the site's own log, and promtool finds nothing to say."""
    async with Site() as site, Receiver() as receiver:
        paths = ["/cue/1", "/cue/2", "/absent"]
        async with running(tmp_path, [site.url(path) for path in paths], hooks=[hook(receiver)]) as daemon:
            await until(lambda: len(receiver.taken) >= 3 and daemon.crawler.status.verdicts["unchanged"] >= 5)
            daemon.crawler.change_bandwidth(0.0)
            await until(lambda: daemon.crawler.status.in_flight == 0)
            await until(lambda: rows(tmp_path, "SELECT delivered FROM hooks") == [(3,)])
            text = await scrape(tmp_path)
        visits = len(site.visits())
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) >= WANTED
    assert sum(sample.value for sample in families["crawld_requests"].samples) == visits
    told = {sample.labels["fate"]: sample.value for sample in families["crawld_hook_changes"].samples}
    assert told == {"delivered": 3, "dropped": 0}
    assert families["crawld_pages"].samples[0].value == 3
    assert families["crawld_store_size_bytes"].samples[0].value > 0
    assert families["crawld_disk_free_bytes"].samples[0].value > 0
    lag = families["crawld_event_loop_lag_seconds"].samples
    buckets = [sample for sample in lag if sample.name.endswith("_bucket")]
    assert [one.value for one in buckets] == sorted(one.value for one in buckets)
    if (tool := shutil.which("promtool")) is not None:
        checked = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(("open_reading", "status"), [(False, 401), (True, 200)])
async def test_the_listener_asks_for_the_token(tmp_path: Path, open_reading: bool, status: int) -> None:
    """As for everything that is read: Bearer, or nothing on loopback where reading is open."""
    port = free_port()
    api = {"listen": f"127.0.0.1:{port}", "open_reading": open_reading}
    url = f"http://127.0.0.1:{port}/metrics"
    async with Site() as site, running(tmp_path, [site.url("/ok/1")], api=api), aiohttp.ClientSession() as session:
        await until(lambda: bool(site.visits("/ok/1")))
        async with session.get(url) as answer:
            assert answer.status == status
        async with session.get(url, headers=bearer(tmp_path)) as answer:
            assert answer.status == 200
            assert re.search(r"^crawld_pages 1\.0$", await answer.text(), re.MULTILINE)
