"""Other users of the machine: who may read the database and steer the daemon, and what the others are told."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from crawld.cli import main, remote
from crawld.main import settings as settings_of
from crawld.main.settings import Settings
from crawld.model.errors import ConfigError
from tests.support.process import ENVIRONMENT, Ended, daemon, settings
from tests.support.site import Site

OWNER = 54321
"""A user and a group of which this machine knows no more than the number."""
WITHOUT_PRIVILEGE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Root without the right to pass over modes is a user like any other, who can still read this Python."""
COMMANDS = (
    ("stats",), ("stats", "--json"), ("top", "--once"), ("bandwidth",), ("dashboard", "--no-open"), ("token",),
    ("forecast",), ("changes",), ("explain", "http://127.0.0.1/1"), ("get", "http://127.0.0.1/1"), ("export",),
    ("urls", "list"), ("host", "list"), ("pause",), ("reload",),
)  # fmt: skip

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root, with setpriv, can become another user"
)


async def as_another(words: tuple[str, ...], config: Path, *, groups: str = "--clear-groups") -> Ended:
    """`crawld WORDS` as a user who owns none of the daemon's files."""
    process = await asyncio.create_subprocess_exec(
        *(*WITHOUT_PRIVILEGE, groups, sys.executable, "-m", "crawld", *words, "--config", str(config)),
        cwd="/", env=ENVIRONMENT, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def _each(commands: Sequence[tuple[str, ...]], config: Path) -> list[Ended]:
    """Each command as another user, a few at a time."""
    few = asyncio.Semaphore(4)

    async def one(words: tuple[str, ...]) -> Ended:
        async with few:
            return await as_another(words, config)

    return await asyncio.gather(*map(one, commands))


def place_with(tmp_path: Path, site: Site, mode: int) -> tuple[Path, Path]:
    """A folder of another user for the database, and settings that everybody can read.

    The folder's path is short enough for a Unix socket, however deep the tests' own temporary directory is.
    """
    place = Path(tempfile.mkdtemp(prefix="state-"))
    os.chown(place, OWNER, OWNER)
    place.chmod(mode)
    return place, settings(
        tmp_path, [site.url("/ok/1")], database=f"sqlite:///{place}/x.db", api={"listen": "127.0.0.1:0"}
    )


@needs_root
async def test_another_user_is_told_who_may_ask_and_how(tmp_path: Path) -> None:
    """One sentence, never a traceback, and never that no daemon runs: it does."""
    async with Site() as site:
        _, config = place_with(tmp_path, site, 0o700)
        async with daemon("--config", str(config), cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            sentence = f"only its owner {OWNER} may use it, and you are root: sudo -u {OWNER} crawld …"
            for words, done in zip(COMMANDS, await _each(COMMANDS, config), strict=True):
                assert done.status == (1 if words == ("reload",) else 2), (words, done.out)  # 1: a refused reload
                assert len(done.err.splitlines()) == 1, (words, done.err)
                assert sentence in done.err, words
            assert await running.end() == 0


@needs_root
@pytest.mark.parametrize("words", [("export", "--output"), ("urls", "import"), ("stats",), ("keys", "create")])
async def test_a_file_of_another_user_is_refused_in_a_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Whether it is read or to be made, in a folder that may be entered but not written to."""
    place = Path(tempfile.mkdtemp(prefix="state-"))
    (secret := place / "secret").write_text("urls: null\n")
    made = place / "made" if words[0] == "export" else secret
    for path, mode in ((place, 0o711), (secret, 0o600)):
        os.chown(path, OWNER, OWNER)
        path.chmod(mode)
    config = settings(tmp_path, ["http://127.0.0.1/1"], signing={"key_file": str(place / "keys")})
    given = words if words[0] in {"keys", "stats"} else (*words, str(made))
    done = await as_another(given, secret if words == ("stats",) else config)
    assert (done.status, len(done.err.splitlines())) == (2, 1), done.err
    assert f"only its owner {OWNER} may use it, and you are root" in done.err


@needs_root
async def test_members_of_the_group_of_a_shared_directory_read_and_steer(tmp_path: Path) -> None:
    """A directory with the setgid bit gives its group the database and the socket, and keeps the token from it."""
    async with Site() as site:
        place, config = place_with(tmp_path, site, 0o2750)
        async with daemon("--config", str(config), cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            modes = {file.name: file.stat().st_mode & 0o777 for file in place.iterdir()}
            assert {modes["x.db"], modes["x.db-wal"], modes["x.db-shm"]} == {0o640}
            assert modes["x.db.sock"] == 0o660
            assert {file.stat().st_gid for file in place.iterdir()} == {OWNER}
            refused = await as_another(("bandwidth",), config)
            assert f"its owner {OWNER} and members of the group {OWNER}" in refused.err
            assert f"sudo usermod -aG {OWNER} root" in refused.err
            seen = await as_another(("stats", "--json"), config, groups=f"--groups={OWNER}")
            assert seen.status == 0, seen.err
            assert json.loads(seen.out)["daemon_state"]["state"] == "running"
            assert (await as_another(("bandwidth", "6/s"), config, groups=f"--groups={OWNER}")).status == 0
            assert await running.end() == 0


async def test_files_in_an_ordinary_directory_stay_private(tmp_path: Path) -> None:
    """Without the setgid bit nothing is for a group, however open the directory is."""
    async with Site() as site:
        tmp_path.chmod(0o775)
        async with daemon("--config", str(settings(tmp_path, [site.url("/ok/1")])), cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            assert {file.stat().st_mode & 0o077 for file in tmp_path.glob("x.db*")} == {0}
            assert await running.end() == 0


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of a service that is installed on this machine."""
    file = tmp_path / "etc/config.yaml"
    file.parent.mkdir()
    file.write_text(f"database: sqlite:///{tmp_path}/of-the-service.db\n")
    (tmp_path / "crawld.service").write_text(f"ExecStart=/opt/crawld/bin/crawld run --config {file}\n")
    monkeypatch.setattr(remote, "SERVICE_SETTINGS", file)
    monkeypatch.setattr(remote, "UNITS", tmp_path)
    monkeypatch.delenv("CRAWLD_DATABASE", raising=False)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return file


@pytest.mark.usefixtures("service")
def test_commands_without_settings_mean_the_service(tmp_path: Path) -> None:
    """Where nothing else says which daemon is meant, it is the one that is installed, from any directory."""
    asked = CliRunner().invoke(main, ["stats"])
    assert f"there is no database at {tmp_path}/of-the-service.db" in asked.output
    given = CliRunner().invoke(main, ["stats", "--database", "sqlite:///other.db"])
    assert "of-the-service" not in given.output
    Path("crawld.db").touch()
    assert "of-the-service" not in CliRunner().invoke(main, ["stats"]).output


def test_a_unit_that_runs_by_other_settings_is_no_service_of_these(service: Path) -> None:
    """Settings that no service runs by are not taken without being named."""
    (service.parents[1] / "crawld.service").write_text(
        "ExecStart=/opt/crawld/bin/crawld run --config /srv/other.yaml\n"
    )
    assert remote.service_settings() is None


def test_the_thread_that_asks_a_daemon_reads_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are checked by compiled code: a command that ends meanwhile, as where its own reading fails, would abort."""
    readers: list[threading.Thread] = []

    def load_written(*given: Any) -> Settings:
        readers.append(threading.current_thread())
        return settings_of.load_written(*given)

    monkeypatch.setattr(remote, "load_written", load_written)
    monkeypatch.setattr(remote, "load", lambda *given: load_written(*given).in_use())
    target = remote.CommandTarget(settings(tmp_path, ["http://127.0.0.1/1"]))
    asked = remote.Beside(target, "/v1/status")
    assert asked.answer().state == "not_running"
    assert set(readers) == {threading.current_thread()}


def test_nothing_is_asked_where_the_settings_are_refused(tmp_path: Path) -> None:
    """The sentence is that of the reader; no thread is left behind."""
    before = threading.active_count()
    with pytest.raises(ConfigError, match="nowhere"):
        remote.Beside(remote.CommandTarget(tmp_path / "nowhere.yaml"), "/v1/status")
    assert threading.active_count() == before
