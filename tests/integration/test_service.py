"""The service: its unit passes systemd's own checks, and the daemon tells the service manager how it is."""

import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from crawld.cli import install_service, main
from crawld.cli.install_service import SERVICE, private_resolvers
from crawld.model.errors import CrawldError
from tests.support.process import ROOT, command, daemon, settings
from tests.support.service_manager import UNIT, manager
from tests.support.site import Site

UNITS = {
    name: (ROOT / "systemd" / name).read_text(encoding="utf-8") for name in ("crawld.service", "crawld-worker@.service")
}
MOST_EXPOSURE = 1.5


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze, or skip where there is none."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed here")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(params=UNITS)
def unit_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Each unit with a command that exists, as `crawld install-service` writes it."""
    file = tmp_path / str(request.param)
    file.write_text(UNITS[request.param].replace("/usr/local/bin/crawld", sys.executable), encoding="utf-8")
    return file


def test_systemd_finds_nothing_wrong_with_the_unit(unit_file: Path) -> None:
    """`systemd-analyze verify` is silent; its exit status alone would pass unknown names."""
    done = analyze("verify", str(unit_file))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_is_hardly_exposed(unit_file: Path) -> None:
    """`systemd-analyze security` rates the service at 1.5 or better."""
    done = analyze("security", "--offline=yes", "--no-pager", str(unit_file))
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= MOST_EXPOSURE


@pytest.mark.parametrize("name", UNITS)
def test_every_directive_of_the_service_has_its_reason(name: str) -> None:
    """Above each line of [Service] stands a comment."""
    lines = UNITS[name].split("[Service]\n")[1].split("[Install]")[0].splitlines()
    directives = [at for at, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    assert len(directives) > 40
    without = [lines[at] for at in directives if not (at and re.match(r"# \S.{5}", lines[at - 1]))]
    assert without == []


def test_a_worker_is_confined_as_the_daemon_is() -> None:
    """The two units differ in names, places and how they are started and stopped, in nothing else."""
    own = ("Description", "Exec", "StateDirectory=", "RuntimeDirectory=", "WorkingDirectory", "TimeoutStopSec")
    daemon_unit, worker_unit = (
        [line for line in unit.splitlines() if line and not line.startswith(("#", *own))] for unit in UNITS.values()
    )
    assert worker_unit == daemon_unit


async def test_the_workers_of_a_machine_share_its_memory(tmp_path: Path) -> None:
    """`crawld install-service --workers 3 --allow ADDRESS` writes the template, and says which instances to start."""
    given = ("install-service", "--workers", "3", "--allow", "10.0.0.5", "--install", "--root", str(tmp_path))
    done = await command(*given, cwd=tmp_path)
    assert done.status == 0, done.err
    assert "enable --now crawld-worker@1 crawld-worker@2 crawld-worker@3" in done.out
    unit = (tmp_path / "etc/systemd/system/crawld-worker@.service").read_text(encoding="utf-8")
    assert re.search(r"^MemoryMax=25%$", unit, re.MULTILINE)
    assert re.search(r"^IPAddressAllow=localhost .*10\.0\.0\.5/32$", unit, re.MULTILINE)
    assert re.search(
        r"^ExecStart=\S+/crawld fleet run --config /etc/crawld/config.yaml --name %H-%i$", unit, re.MULTILINE
    )
    assert (tmp_path / "etc/crawld/config.yaml").exists()
    refused = await command("install-service", "--workers", "3", "--allow", "10.0.0.x", cwd=tmp_path)
    assert "10.0.0.x" in refused.err


async def test_the_unit_is_printed_for_this_installation(tmp_path: Path) -> None:
    """`crawld install-service` names the command of this installation and changes nothing."""
    done = await command("install-service", cwd=tmp_path)
    assert done.status == 0, done.err
    (start,) = re.findall(r"^ExecStart=(\S+) run --config /etc/crawld/config.yaml$", done.out, re.MULTILINE)
    assert Path(start).is_absolute()
    assert Path(start).name == "crawld"
    allowed = " ".join(["IPAddressAllow=localhost", *private_resolvers(SERVICE.resolv_conf)])
    assert done.out == UNIT.replace("/usr/local/bin/crawld", start).replace("IPAddressAllow=localhost", allowed)
    assert list(tmp_path.iterdir()) == []


def test_resolvers_that_the_unit_would_keep_out_are_let_in(tmp_path: Path) -> None:
    """Name servers on private addresses are found; public ones and those of this machine need nothing."""
    file = tmp_path / "resolv.conf"
    file.write_text(
        "# by hand\nnameserver 127.0.0.53\nnameserver 192.168.1.1\nnameserver 9.9.9.9\nnameserver fe80::1%eth0\n"
    )
    assert private_resolvers(file) == ["192.168.1.1", "fe80::1"]
    assert private_resolvers(tmp_path / "missing") == []


def test_the_unit_bounds_memory_tasks_and_addresses() -> None:
    """Private networks are kept out, this machine is let in, and processes may limit themselves."""
    found = dict(line.split("=", 1) for line in UNIT.splitlines() if "=" in line and not line.startswith("#"))
    assert found["MemoryMax"] == "75%"
    assert int(found["TasksMax"]) >= 128
    assert {"10.0.0.0/8", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7"} <= set(found["IPAddressDeny"].split())
    assert found["IPAddressAllow"] == "localhost"
    filters = re.findall(r"^SystemCallFilter=(.*)$", UNIT, re.MULTILINE)
    assert filters.index("~@privileged @resources") < filters.index("setrlimit prlimit64 setpriority nice")


async def test_installing_keeps_the_settings_that_are_there(tmp_path: Path) -> None:
    """The unit and an example of the settings are written; settings of one's own survive a second installation."""
    given = ("install-service", "--install", "--root", str(tmp_path))
    done = await command(*given, cwd=tmp_path)
    assert done.status == 0, done.err
    unit, config = tmp_path / "etc/systemd/system/crawld.service", tmp_path / "etc/crawld/config.yaml"
    assert str(unit) in done.out
    shipped = (ROOT / "config.yaml").read_text(encoding="utf-8")
    absolute = shipped.replace("\ndatabase: sqlite:///crawld.db\n", "\ndatabase: sqlite:////var/lib/crawld/crawld.db\n")
    assert config.read_text(encoding="utf-8") == absolute != shipped
    assert (config.stat().st_mode & 0o777, config.parent.stat().st_mode & 0o777) == (0o640, 0o750)
    assert "\nu crawld - " in (tmp_path / "etc/sysusers.d/crawld.conf").read_text()
    config.write_text("bandwidth: 7/s\n")
    unit.write_text("an older unit\n")
    assert (await command(*given, cwd=tmp_path)).status == 0
    assert config.read_text() == "bandwidth: 7/s\n"
    assert "[Service]" in unit.read_text()


async def test_settings_that_are_kept_with_a_relative_path_are_told(tmp_path: Path) -> None:
    """A database that lies elsewhere for every directory a command is given in is named, with what to write."""
    config = tmp_path / "etc/crawld/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("urls: u.txt\ndatabase: sqlite:///old.db  # as before\n")
    done = await command("install-service", "--install", "--root", str(tmp_path), cwd=tmp_path)
    assert done.status == 0, done.err
    assert "write database: sqlite:////var/lib/crawld/old.db" in done.err


def test_a_unit_that_works_is_not_replaced_by_one_that_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment in a home directory, which ProtectHome hides, is refused, and so it is on this machine."""
    monkeypatch.setattr(install_service, "SERVICE", SERVICE._replace(homes=(Path(sys.prefix),)))
    unit = tmp_path / "etc/systemd/system/crawld.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("ExecStart=/opt/crawld/bin/crawld run --config /etc/crawld/config.yaml\n")
    done = CliRunner().invoke(main, ["install-service", "--install", "--root", str(tmp_path)])
    assert done.exit_code == 2
    assert f"{unit} starts /opt/crawld/bin/crawld and was kept" in done.output
    assert "ProtectHome" in done.output
    assert unit.read_text().startswith("ExecStart=/opt/crawld/bin/crawld")
    with pytest.raises(CrawldError, match="nothing was installed"):
        install_service.check_replaceable(unit, sys.prefix, Path("/"))


async def test_an_installation_without_the_right_to_says_what_to_do(tmp_path: Path) -> None:
    """Where files cannot be written, a sentence names the first of them and the way."""
    (tmp_path / "etc").write_text("a file where a directory should be")
    done = await command("install-service", "--install", "--root", str(tmp_path), cwd=tmp_path)
    assert done.status == 2
    assert str(tmp_path / "etc") in done.err
    assert "sudo" in done.err


async def test_the_service_manager_hears_everything(tmp_path: Path) -> None:
    """READY with a status, WATCHDOG while it lives, RELOADING and READY again on SIGHUP, STOPPING at the end."""
    async with Site() as site, manager(tmp_path) as told:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="5/s")
        watched = told.environment | {"WATCHDOG_USEC": "600000"}
        async with daemon("--config", str(file), cwd=tmp_path, env=watched) as running:
            await told.until_told("READY=1")
            with socket.socket(socket.AF_UNIX) as asking:
                asking.connect(str(tmp_path / "x.db.sock"))  # who is told that it is ready is answered
            assert re.fullmatch(r"STATUS=1 pages at 5/s, .*fresh.*", await told.until_told("STATUS="))
            await told.until_told("WATCHDOG=1", times=3)
            running.process.send_signal(signal.SIGHUP)
            await told.until_told("RELOADING=1")
            assert re.fullmatch(r"MONOTONIC_USEC=\d+", await told.until_told("MONOTONIC_USEC="))
            await told.until_told("READY=1", times=2)
            assert await running.end() == 0
        await told.until_told("STOPPING=1")
        heard = [line for line in told.lines if line in {"READY=1", "RELOADING=1", "STOPPING=1"}]
        assert heard == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]


async def test_without_a_watchdog_none_is_fed(tmp_path: Path) -> None:
    """WATCHDOG_USEC that is meant for another process is no business of ours."""
    async with Site() as site, manager(tmp_path) as told:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="5/s")
        elsewhere = told.environment | {"WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}
        async with daemon("--config", str(file), cwd=tmp_path, env=elsewhere) as running:
            await running.until_logged("verdict=unchanged")
            assert await running.end() == 0
        await told.until_told("STOPPING=1")
        assert "WATCHDOG=1" not in told.lines


async def test_the_environment_stands_between_the_file_and_the_command_line(tmp_path: Path) -> None:
    """CRAWLD_CONFIG, CRAWLD_DATABASE, CRAWLD_URLS and CRAWLD_BANDWIDTH do what the options do, which win over them."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="1/s")
        (tmp_path / "others.txt").write_text(site.url("/ok/2") + "\n")
        given = {"CRAWLD_CONFIG": str(file), "CRAWLD_DATABASE": "sqlite:///env.db"}
        run = given | {"CRAWLD_URLS": "others.txt", "CRAWLD_BANDWIDTH": "6/s"}
        async with daemon(cwd=tmp_path, env=run) as running:
            await running.until_logged("verdict=new")
            assert (await command("bandwidth", cwd=tmp_path, env=given)).out == "6/s\n"
            assert (await command("bandwidth", "8/s", cwd=tmp_path, env=given)).status == 0
            assert (await command("urls", "list", cwd=tmp_path, env=given)).out == site.url("/ok/2") + "\n"
            assert await running.end() == 0
        async with daemon("--urls", "urls.txt", cwd=tmp_path, env=run) as running:
            # What was steered outlives a restart with the same environment.
            assert "bandwidth=8/s" in await running.until_logged("ready")
            assert (await command("urls", "list", cwd=tmp_path, env=given)).out == site.url("/ok/1") + "\n"
    assert not (tmp_path / "x.db").exists()
