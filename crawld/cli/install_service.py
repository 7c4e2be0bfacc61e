"""`crawld install-service`: the systemd unit of the daemon, or that of the workers of a fleet, printed or installed."""

import ipaddress
import shutil
import sys
from pathlib import Path
from typing import Any

import click

import crawld
from crawld.errors import CrawldError

SHIPPED_COMMAND = "/usr/local/bin/crawld"
SHIPPED_ALLOWED = "IPAddressAllow=localhost"
RESOLV_CONF = Path("/etc/resolv.conf")
NEXT_STEPS = """installed {unit}

  1. say what to crawl in /etc/crawld/config.yaml: set `urls: urls.txt` and write /etc/crawld/urls.txt, one URL a line,
     or name a site under `discover:`. Without either the service does not start.
  2. cd /var/lib && {command} check-config /etc/crawld/config.yaml
  3. systemctl daemon-reload && systemctl enable --now crawld
  4. systemctl status crawld; journalctl -fu crawld
  5. cd /var/lib/crawld && {command} stats"""
WORKERS_NEXT_STEPS = """installed {unit}

  1. say what to crawl and where in /etc/crawld/config.yaml, the same on every machine: `urls:` and
     `database: postgresql://…`, or CRAWLD_DATABASE=postgresql://… in /etc/crawld/environment (mode 600)
  2. once for the whole fleet: {command} fleet init --database postgresql://… --bandwidth 100/s
  3. systemctl daemon-reload && systemctl enable --now {instances}
  4. systemctl status 'crawld-worker@*'; journalctl -fu 'crawld-worker@*'
  5. {command} fleet status --config /etc/crawld/config.yaml"""
SHIPPED_MEMORY = 75  # percent of the machine's, for all of crawld's processes
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))


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


class _Network(click.ParamType[str]):
    """An address or network, as systemd takes it."""

    name = "ADDRESS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The network in its usual form, or an error that names the option."""
        try:
            return str(ipaddress.ip_network(value))
        except ValueError:
            self.fail(f"{value!r} is no address or network such as 10.0.0.5 or 192.168.1.0/24", param, ctx)


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
    type=_Network(),
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
    found = shutil.which("crawld") or str(Path(sys.executable).with_name("crawld"))
    name = "crawld.service" if workers is None else "crawld-worker@.service"
    unit = shipped(f"systemd/{name}").replace(SHIPPED_COMMAND, found)
    unit = unit.replace(SHIPPED_ALLOWED, " ".join([SHIPPED_ALLOWED, *private_resolvers(RESOLV_CONF), *allow]))
    unit = unit.replace(f"MemoryMax={SHIPPED_MEMORY}%", f"MemoryMax={max(1, SHIPPED_MEMORY // (workers or 1))}%")
    if _at_home(Path(found)) or _at_home(Path(sys.base_prefix)):
        click.echo(
            f"careful: {found} or its Python is in a home directory, where the service is not let in. Install crawld "
            "elsewhere first, for example: python3 -m venv /opt/crawld && /opt/crawld/bin/pip install .",
            err=True,
        )
    if not install:
        click.echo(unit, nl=False)
        return
    place = root / "etc/systemd/system" / name
    _write(place, unit, root / "etc/crawld/config.yaml", found)
    if workers is None:
        click.echo(NEXT_STEPS.format(unit=place, command=found))
    else:
        instances = " ".join(f"crawld-worker@{number + 1}" for number in range(workers))
        click.echo(WORKERS_NEXT_STEPS.format(unit=place, command=found, instances=instances))


def _write(place: Path, unit: str, settings: Path, program: str) -> None:
    """Write the unit, and settings where there are none."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        settings.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(unit, encoding="utf-8")
        if not settings.exists():
            settings.write_text(shipped("config.yaml"), encoding="utf-8")
    except OSError as error:
        how = f"sudo {program} install-service --install"
        raise CrawldError(f"{error.filename}: {error.strerror}. Installing needs root: {how}") from None


def _at_home(path: Path) -> bool:
    """Whether ProtectHome of the unit hides the path."""
    return any(path.resolve().is_relative_to(home) for home in HOMES)
