"""`crawld install-service`: the systemd unit of the daemon, or that of the workers of a fleet, printed or installed."""

import grp
import ipaddress
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

import crawld
from crawld.model.errors import CrawldError


class ServiceFacts(NamedTuple):
    """Places and lines of the units and settings that are shipped."""

    command: str = "/usr/local/bin/crawld"
    allowed: str = "IPAddressAllow=localhost"
    resolv_conf: Path = Path("/etc/resolv.conf")
    settings: Mapping[str, str] = {"database: sqlite:///crawld.db": "database: sqlite:////var/lib/crawld/crawld.db"}
    """Lines of config.yaml that a service has otherwise: its commands are given in any directory."""
    relative_database: re.Pattern[str] = re.compile(
        r"^database:\s*[\"']?sqlite:///(?!/)(\S+?)[\"']?\s*(#.*)?$", re.MULTILINE
    )
    user: str = "crawld"
    memory: int = 75  # percent of the machine's, for all of crawld's processes
    homes: tuple[Path, ...] = (Path("/home"), Path("/root"), Path("/run/user"))


SERVICE = ServiceFacts()

NEXT_STEPS = """installed {unit}

  1. say what to crawl in /etc/crawld/config.yaml: set `urls: urls.txt` and write /etc/crawld/urls.txt, one URL a line,
     or name a site under `discover:`. Without either the service does not start.
  2. {command} check-config /etc/crawld/config.yaml
  3. systemctl daemon-reload && systemctl enable --now crawld
  4. systemctl status crawld; journalctl -fu crawld
  5. sudo -u crawld {command} stats; to do without sudo: usermod -aG crawld USER, and log in again"""
WORKERS_NEXT_STEPS = """installed {unit}

  1. say what to crawl and where in /etc/crawld/config.yaml, the same on every machine: `urls:` and
     `database: postgresql://…`, or CRAWLD_DATABASE=postgresql://… in /etc/crawld/environment (mode 600)
  2. once for the whole fleet: {command} fleet init --database postgresql://… --bandwidth 100/s
  3. systemctl daemon-reload && systemctl enable --now {instances}
  4. systemctl status 'crawld-worker@*'; journalctl -fu 'crawld-worker@*'
  5. sudo -u crawld {command} fleet status"""
SYSUSERS = """# The user of crawld's service; members of its group may read the database and steer the daemon.
u crawld - "crawld" /var/lib/crawld
"""
AT_HOME = """{program} or its Python is in a home directory, where the service is not let in (ProtectHome).
Install crawld elsewhere first and install the service from there:

  python3 -m venv /opt/crawld && /opt/crawld/bin/pip install . && /opt/crawld/bin/crawld install-service --install"""


def private_resolvers(file: Path) -> list[str]:
    """The name servers of a resolv.conf that the unit's IPAddressDeny would keep out; none where there is no file."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found: list[str] = []
    for words in map(str.split, lines):
        if len(words) > 1 and words[0] == "nameserver":
            try:
                address = ipaddress.ip_address(words[1].partition("%")[0])
            except ValueError:
                continue
            if not address.is_global and not address.is_loopback:
                found.append(str(address))
    return list(dict.fromkeys(found))


def shipped(name: str) -> str:
    """A file that is shipped with the package: inside it when installed, at the project's top when not."""
    package = Path(crawld.__file__).parent
    for place in (package / name, package.parent / name):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise CrawldError(f"{name} is missing from this installation; install crawld again")


def _network(given: str) -> str:
    """An address or network as systemd takes it, in its usual form; else an error that names the option."""
    try:
        return str(ipaddress.ip_network(given))
    except ValueError:
        sentence = f"{given!r} is no address or network such as 10.0.0.5 or 192.168.1.0/24"
        raise click.BadParameter(sentence) from None


@click.command()
@click.option("--install", is_flag=True, help="Write the unit and an example of the settings instead of printing.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    help="The unit of a fleet's workers instead, N of them on this machine.",
)
@click.option(
    "--allow",
    type=_network,
    metavar="ADDRESS",
    multiple=True,
    help="Let the service reach this private address or network too, such as that of PostgreSQL; repeatable.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/"),
    show_default=True,
    help="Install below this.",
)
def command(install: bool, workers: int | None, allow: tuple[str, ...], root: Path) -> None:
    """Print the systemd unit for this installation of crawld, or install it with --install (as root)."""
    beside = Path(sys.executable).with_name("crawld")
    found = str(beside) if beside.is_file() else shutil.which("crawld") or str(beside)
    name = "crawld.service" if workers is None else "crawld-worker@.service"
    unit = shipped(f"systemd/{name}").replace(SERVICE.command, found)
    unit = unit.replace(SERVICE.allowed, " ".join([SERVICE.allowed, *private_resolvers(SERVICE.resolv_conf), *allow]))
    unit = unit.replace(f"MemoryMax={SERVICE.memory}%", f"MemoryMax={max(1, SERVICE.memory // (workers or 1))}%")
    hidden = _at_home(Path(found)) or _at_home(Path(sys.base_prefix))
    if not install:
        if hidden:
            click.echo(f"careful: {AT_HOME.format(program=found)}", err=True)
        click.echo(unit, nl=False)
        return
    place = root / "etc/systemd/system" / name
    if hidden:
        check_replaceable(place, found, root)
        click.echo(f"careful: {AT_HOME.format(program=found)}", err=True)
    _write(place, unit, root, found)
    if workers is None:
        click.echo(NEXT_STEPS.format(unit=place, command=found))
    else:
        instances = " ".join(f"crawld-worker@{number + 1}" for number in range(workers))
        click.echo(WORKERS_NEXT_STEPS.format(unit=place, command=found, instances=instances))


def check_replaceable(place: Path, program: str, root: Path) -> None:
    """CrawldError where a unit that cannot start would go where it matters.

    1. On this machine: systemd would try it for ever.
    2. Below another root: over a unit that names a program outside of home directories, which may well work.
    """
    refusal = AT_HOME.format(program=program)
    if root.resolve() == Path("/"):
        raise CrawldError(f"nothing was installed: {refusal}")
    named = re.search(r"^ExecStart=(\S+)", place.read_text(encoding="utf-8"), re.MULTILINE) if place.is_file() else None
    if named and named[1] != program and not _at_home(Path(named[1])):
        raise CrawldError(f"{place} starts {named[1]} and was kept: {refusal}")


def _write(place: Path, unit: str, root: Path, program: str) -> None:
    """Write the unit, the user that it runs as, and settings where there are none."""
    settings, users = root / "etc/crawld/config.yaml", root / "etc/sysusers.d/crawld.conf"
    try:
        for file in (place, settings, users):
            file.parent.mkdir(parents=True, exist_ok=True)
        users.write_text(SYSUSERS, encoding="utf-8")
        if root.resolve() == Path("/"):
            _make_user()
        place.write_text(unit, encoding="utf-8")
        if settings.exists():
            _advise(settings)
        else:
            _write_settings(settings)
        _close_to_others(settings)
    except OSError as error:
        how = f"sudo {program} install-service --install"
        raise CrawldError(f"{error.filename}: {error.strerror}. Installing needs root: {how}") from None


def _make_user() -> None:
    """Make the user and the group of the service, where they are missing."""
    for words in (
        ["systemd-sysusers", "crawld.conf"],
        ["useradd", "--system", "--user-group", "--no-create-home", SERVICE.user],
    ):
        try:
            grp.getgrnam(SERVICE.user), pwd.getpwnam(SERVICE.user)
        except KeyError:
            if (tool := shutil.which(words[0])) is not None:
                subprocess.run([tool, *words[1:]], check=False)  # noqa: S603 - the system's own tool, no foreign words
        else:
            return
    try:
        pwd.getpwnam(SERVICE.user)
    except KeyError:
        raise CrawldError(
            f"the user {SERVICE.user} could not be made: useradd --system --user-group {SERVICE.user}"
        ) from None


def _write_settings(file: Path) -> None:
    text = shipped("config.yaml")
    for shown, wanted in SERVICE.settings.items():
        text = re.sub(rf"^{re.escape(shown)}$", wanted, text, flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")


def _advise(file: Path) -> None:
    """Say where kept settings hold a path that means another file in every directory."""
    if found := SERVICE.relative_database.search(file.read_text(encoding="utf-8", errors="replace")):
        click.echo(
            f"careful: `{found[0].strip()}` in {file} is kept and starts at the directory a command is given in; write "
            f"database: sqlite:////var/lib/crawld/{found[1]}",
            err=True,
        )


def _close_to_others(settings: Path) -> None:
    """Lets only the service's group read the settings: they may hold a password."""
    try:
        group = grp.getgrnam(SERVICE.user).gr_gid
    except KeyError:
        group = -1  # below another root, whose users are not ours
    for path, mode in ((settings.parent, 0o750), (settings, 0o640)):
        if os.geteuid() == 0:
            os.chown(path, -1, group)
        path.chmod(mode)


def _at_home(path: Path) -> bool:
    """Tells whether ProtectHome of the unit hides the path."""
    return any(path.resolve().is_relative_to(home) for home in SERVICE.homes)
