"""The operator's own numbers: each has a largest value, with which the daemon runs; a kept one is checked at start."""

import asyncio
import resource
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from crawld.main.settings import Settings, load
from crawld.model.errors import ConfigError, InputError
from crawld.model.page import MAX_IMPORTANCE, check_importance
from crawld.model.units import LIMITS as UNITS_LIMITS
from crawld.model.units import parse_duration, parse_rate
from tests.support.daemon import running, until
from tests.support.process import ENVIRONMENT, HANG_SECONDS, ROOT, command
from tests.support.site import Site

TOGETHER = {"signals.share": 0.5, "audit.share": 0.5}
"""Shares that make no sense together at their largest."""


def quantities(schema: dict[str, Any], part: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every number among the settings, with what its schema says of it."""
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    for choice in part.get("anyOf", ()):
        yield from quantities(schema, choice, place)
    if part.get("type") == "array":
        yield from quantities(schema, part.get("items", {}), f"{place}[]")
    elif part.get("type") in {"number", "integer"}:
        yield place, part
    for name, inner in part.get("properties", {}).items():
        yield from quantities(schema, inner, f"{place}.{name}".lstrip("."))


def largest() -> dict[str, float]:
    """The largest value of each setting."""
    schema = Settings.model_json_schema()
    return {place: float(part.get("maximum", part.get("le", "nan"))) for place, part in quantities(schema, schema)}


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Settings by section."""
    found: dict[str, Any] = {}
    for place, value in values.items():
        section, _, name = place.rpartition(".")
        (found.setdefault(section, {}) if section else found)[name] = value
    return found


def test_every_quantity_has_a_largest_value(tmp_path: Path) -> None:
    """One more, infinity and nan are refused with a sentence, by every number among the settings."""
    for place, most in largest().items():
        if "[]" in place:
            continue
        for value in (most * 2, float("inf"), float("nan"), 1e308):
            file = tmp_path / "config.yaml"
            file.write_text(yaml.safe_dump(nested({place: value})))
            with pytest.raises(ConfigError, match=place.replace(".", r"\.")):
                load(file)


@pytest.mark.parametrize(
    ("read", "most", "more"),
    [
        (parse_rate, UNITS_LIMITS.max_rate, 1e308),
        (parse_rate, f"{UNITS_LIMITS.max_rate:.0f}/s", f"{UNITS_LIMITS.max_rate + 1:.0f}/s"),
        (parse_duration, UNITS_LIMITS.max_seconds, 1e308),
        (parse_duration, "3650d", "3660d"),
        (check_importance, MAX_IMPORTANCE, 1e308),
    ],
)
def test_what_is_steered_has_a_largest_value(read: Any, most: Any, more: Any) -> None:
    """Rates, delays and importances are bounded wherever they are given."""
    assert read(most) > 0
    with pytest.raises(InputError):
        read(more)


async def test_the_daemon_runs_with_the_largest_values(tmp_path: Path) -> None:
    """With every setting at its largest a first request leaves, and the daemon stops as it should."""
    values = {place: most for place, most in largest().items() if "[]" not in place} | TOGETHER
    settings = nested(values)
    settings.pop("hooks", None)
    async with Site() as site, running(tmp_path, [site.url("/ok/1")], **settings) as daemon:
        await until(lambda: bool(site.visits()))  # robots.txt: the next is due after the longest delay
        assert daemon.crawler.status.bandwidth == UNITS_LIMITS.max_rate


async def test_the_daemon_serves_the_largest_rate(tmp_path: Path) -> None:
    """At the largest rate pages are crawled, the loop answers, and the rate can be lowered again."""
    async with Site() as site:
        urls = [site.url(f"/ok/{number}") for number in range(20)]
        async with running(tmp_path, urls, bandwidth=UNITS_LIMITS.max_rate) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 20)
            lowered = await command("bandwidth", "5/s", "--database", f"sqlite:///{tmp_path}/x.db", cwd=tmp_path)
            assert (lowered.status, lowered.out.strip()) == (0, "5/s")
            refused = await command("bandwidth", "1e308/s", "--database", f"sqlite:///{tmp_path}/x.db", cwd=tmp_path)
            assert refused.status == 2
            assert daemon.crawler.status.bandwidth == 5.0


async def test_what_was_kept_is_checked_at_a_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A rate, a delay or an importance of a database that nobody can mean is said, and the default holds."""
    async with Site() as site:
        url = site.url("/ok/1")
        async with running(tmp_path, [url]) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
        with sqlite3.connect(tmp_path / "x.db") as db:
            db.execute("INSERT INTO settings (name, value, changed_at) VALUES ('bandwidth', '1e308', 0)")
            db.execute("UPDATE hosts SET delay = 1e308")
            db.execute("UPDATE pages SET importance = 9e999")
        caplog.set_level("WARNING", "crawld")
        async with running(tmp_path, [url], bandwidth=7.0) as daemon:
            assert daemon.crawler.status.bandwidth == 7.0
            await until(lambda: daemon.crawler.status.verdicts["unchanged"] >= 1)
    with sqlite3.connect(tmp_path / "x.db") as db:
        assert not db.execute("SELECT value FROM settings WHERE name = 'bandwidth'").fetchall()


@pytest.mark.parametrize("megabytes", [200, 300])
async def test_too_little_memory_is_one_sentence(tmp_path: Path, megabytes: int) -> None:
    """Under a limit of memory that is too small the daemon says so in a sentence, without a traceback."""
    (tmp_path / "urls.txt").write_text("http://127.0.0.1:1/\n")
    words = [sys.executable, "-m", "crawld", "run", "--urls", "urls.txt", "--allow-private", "127.0.0.0/8"]
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=tmp_path,
        env=ENVIRONMENT | {"PYTHONPATH": str(ROOT)},
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20)),
    )
    assert process.stderr is not None
    said = ""
    async with asyncio.timeout(HANG_SECONDS):
        while (line := (await process.stderr.readline()).decode()) and " ready " not in line:
            said += line
    if " ready " in line:  # it was enough for this machine
        process.terminate()
    said += (await process.stderr.read()).decode()
    await process.wait()
    assert "Traceback" not in said
    if process.returncode:
        assert process.returncode == 75
        assert said.count("there is not enough memory") == 1
