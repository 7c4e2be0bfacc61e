"""`crawld check-config`: whether a daemon could start with these settings."""

import errno
import ipaddress
import json
import os
import socket
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from crawld.cli.run import check_pages
from crawld.main.settings import DURATIONS, STANDARD_INPUT, Settings, changes, load, read_yaml
from crawld.main.settings import LIMITS as SETTINGS_LIMITS
from crawld.model.errors import CrawldError, InputError
from crawld.model.units import format_rate, many, spell_duration
from crawld.model.url import without_password

MAX_BAD_LINES = 10
"""Bad lines of a URL list that are shown."""
ENVIRONMENT = {"urls": "CRAWLD_URLS", "bandwidth": "CRAWLD_BANDWIDTH", "database": "CRAWLD_DATABASE"}


@dataclass(slots=True)
class Findings:
    """Findings about the settings."""

    file: str | None
    settings: dict[str, Any] = field(default_factory=dict)  # those that differ from the defaults
    pages: int | None = None  # in the URL list
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, readable=False), required=False)
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def command(file: Path | None, as_json: bool) -> None:
    """Check settings without starting anything: FILE, or the one that CRAWLD_CONFIG names.

    Looks at every setting, at the URL list and at the place of the database, with the environment counted in as `crawld
    run` does. Shows what differs from the defaults. The status is 2 where `crawld run` would not start.
    """
    named = os.environ.get("CRAWLD_CONFIG")
    config_file = file or (Path(named) if named else None)
    findings = _examine(config_file)
    if as_json:
        click.echo(json.dumps({"ok": not findings.errors} | asdict(findings), indent=2))
    else:
        _print(findings)
    sys.exit(2 if findings.errors else 0)


def _examine(config_file: Path | None) -> Findings:
    findings = Findings(None if config_file is None else str(config_file.absolute()))
    given = {name: os.environ.get(variable) or None for name, variable in ENVIRONMENT.items()}
    try:
        settings = load(config_file, given)
    except CrawldError as error:
        findings.errors += [str(error), *_rule_errors(config_file)]
        return findings
    findings.settings = {name: _plain(name, value) for name, value in changes(Settings(), settings).items()}
    from crawld.main.checks import check
    from crawld.store.address import check_place, parse_address

    findings.errors += [str(error) for error in check(settings)]
    _examine_list(settings, config_file, findings)
    try:
        place = parse_address(settings.database).file
        if place is not None:
            check_place(place)
    except CrawldError as error:
        if str(error) not in findings.errors:
            findings.errors.append(str(error))
    _examine_api(settings, findings)
    if settings.bandwidth == 0:
        findings.warnings.append("bandwidth: 0 sends nothing")
    return findings


def _rule_errors(config_file: Path | None) -> list[str]:
    """Returns what is wrong with the rules of a file in which other settings are wrong too."""
    from crawld.main.checks import digest_rules

    try:
        rules = load(None, {"digest": read_yaml(config_file).get("digest") if config_file else None})
    except CrawldError:
        return []  # named already
    try:
        digest_rules(rules)
    except CrawldError as error:
        return [str(error)]
    return []


def _examine_api(settings: Settings, findings: Findings) -> None:
    """Checks that the control socket can be made and `api.listen` is free; a running daemon may have them already."""
    if settings.api.socket is not None:
        place = settings.control_socket().absolute()
        said = None
        if not place.parent.is_dir():
            said = f"the directory {place.parent} does not exist"
        elif not os.access(place.parent, os.W_OK | os.X_OK):
            said = f"the directory {place.parent} is not writable"
        elif place.is_dir():
            said = "this is a directory"
        elif len(os.fsencode(place.name)) > SETTINGS_LIMITS.max_socket_name:
            said = f"a name of at most {SETTINGS_LIMITS.max_socket_name} bytes can be a socket"
        if said:
            findings.errors.append(f"api.socket {settings.api.socket}: {said}")
    if settings.api.listen is not None:
        host, _, port = settings.api.listen.rpartition(":")
        try:
            address = ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return  # a name is looked up at the start
        with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((str(address), int(port)))
            except OSError as error:
                busy = error.errno == errno.EADDRINUSE
                said = "in use now, by a running crawld or by another program" if busy else str(error.strerror)
                (findings.warnings if busy else findings.errors).append(f"api.listen {settings.api.listen}: {said}")


def _examine_list(settings: Settings, config_file: Path | None, findings: Findings) -> None:
    """Read the list as a start would; what can be read only once is left to that."""
    from crawld.pages.list_file import no_usable_line, read_list, read_once

    try:
        check_pages(settings, config_file)
        if settings.urls is None or settings.urls == STANDARD_INPUT or read_once(settings.urls):
            return
        listed = read_list(settings.urls)
    except InputError as error:
        findings.errors.append(str(error))
        return
    findings.pages = len(listed.wanted)
    if not listed.wanted:
        findings.errors.append(str(no_usable_line(settings.urls, listed)))
    findings.warnings += [f"{settings.urls}: {bad}" for bad in listed.bad[:MAX_BAD_LINES]]
    if (more := len(listed.bad) - MAX_BAD_LINES) > 0:
        findings.warnings.append(f"{settings.urls}: {many(more, 'more line', 'more lines')} cannot be used")
    if listed.duplicates:
        findings.warnings.append(f"{settings.urls}: {many(listed.duplicates, 'duplicate')}")


def _plain(name: str, value: Any) -> Any:
    """A value as JSON can hold it and a person would write it; a password is not shown."""
    if name == "bandwidth":
        return format_rate(value)
    if name in DURATIONS:
        return spell_duration(value)
    if name == "database":
        from crawld.store.address import parse_address

        try:
            address = parse_address(value)
        except CrawldError:
            return without_password(value)
        return f"sqlite:///{address.file}" if address.file else address.redacted_url
    if name == "hooks":
        return [hook.shown() for hook in value]
    if isinstance(value, list):
        return [item.model_dump() if isinstance(item, BaseModel) else item for item in value]
    return value


def _print(findings: Findings) -> None:
    shown = findings.file or "no settings file: the defaults"
    for error in findings.errors:
        click.echo(f"crawld: {error}", err=True)
    for warning in findings.warnings:
        click.echo(f"warning: {warning}", err=True)
    if findings.errors:
        return
    pages = "" if findings.pages is None else f", {many(findings.pages, 'page')} in the URL list"
    click.echo(f"OK: {shown}{pages}")
    for name, value in findings.settings.items():
        click.echo(f"  {name}: {value if isinstance(value, str) else json.dumps(value)}")
