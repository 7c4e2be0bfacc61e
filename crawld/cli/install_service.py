"""`crawld install-service`: the systemd unit, printed or installed."""

import shutil
import sys
from pathlib import Path

import click

import crawld
from crawld.errors import CrawldError

SHIPPED_COMMAND = "/usr/local/bin/crawld"
NEXT_STEPS = """installed {unit}

  1. say what to crawl in /etc/crawld/config.yaml: set `urls: urls.txt` and write /etc/crawld/urls.txt, one URL a line,
     or name a site under `discover:`. Without either the service does not start.
  2. cd /var/lib && {command} check-config /etc/crawld/config.yaml
  3. systemctl daemon-reload && systemctl enable --now crawld
  4. systemctl status crawld; journalctl -fu crawld
  5. cd /var/lib/crawld && {command} stats"""
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))


def shipped(name: str) -> str:
    """A file that is shipped with the package: inside it when installed, at the project's top when not."""
    package = Path(crawld.__file__).parent
    for place in (package / name, package.parent / name):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise CrawldError(f"{name} is missing from this installation; install crawld again")


@click.command()
@click.option("--install", is_flag=True, help="Write the unit and an example of the settings instead of printing.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/"),
    show_default=True,
    help="Install below this.",
)
def command(install: bool, root: Path) -> None:
    """Print the systemd unit for this installation of crawld, or install it with --install (as root)."""
    found = shutil.which("crawld") or str(Path(sys.executable).with_name("crawld"))
    unit = shipped("systemd/crawld.service").replace(SHIPPED_COMMAND, found)
    if _at_home(Path(found)) or _at_home(Path(sys.base_prefix)):
        click.echo(
            f"careful: {found} or its Python is in a home directory, where the service is not let in. Install crawld "
            "elsewhere first, for example: python3 -m venv /opt/crawld && /opt/crawld/bin/pip install .",
            err=True,
        )
    if not install:
        click.echo(unit, nl=False)
        return
    place = root / "etc/systemd/system/crawld.service"
    settings = root / "etc/crawld/config.yaml"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        settings.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(unit, encoding="utf-8")
        if not settings.exists():
            settings.write_text(shipped("config.yaml"), encoding="utf-8")
    except OSError as error:
        how = f"sudo {found} install-service --install"
        raise CrawldError(f"{error.filename}: {error.strerror}. Installing needs root: {how}") from None
    click.echo(NEXT_STEPS.format(unit=place, command=found))


def _at_home(path: Path) -> bool:
    """Whether ProtectHome of the unit hides the path."""
    return any(path.resolve().is_relative_to(home) for home in HOMES)
