"""Hooks from settings: each with its transport, or with what is wrong with it."""

import ipaddress
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from crawld.fetch.guard import AddressGuard
from crawld.fetch.webhook import Webhook
from crawld.hooks.command import Command
from crawld.hooks.line import Hook
from crawld.hooks.queue import Pace
from crawld.hooks.transports import Notification, check_address
from crawld.main.hooks_of_config import SHORTEST_SECRET
from crawld.main.hooks_of_config import Hook as HookSettings
from crawld.main.settings import Settings
from crawld.model.errors import ConfigError, InputError
from crawld.model.units import many
from crawld.model.url_pattern import UrlPattern
from crawld.model.web import Clock
from crawld.store.hooks_of_interfaces import Transport

LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")


def make_hooks(settings: Settings, clock: Clock, agent: str) -> Sequence[Hook]:
    """Every hook of the settings; ConfigError that names each that cannot be used. `agent` is who we say we are."""
    check_hooks(settings)
    return [make_hook(one, settings, clock, agent) for one in settings.hooks]


def make_hook(given: HookSettings, settings: Settings, clock: Clock, agent: str) -> Hook:
    """One hook, ready to send."""
    return Hook(
        name=given.name,
        kind=given.kind,
        transport=_transport(given, settings, clock, agent),
        pattern=UrlPattern(given.pattern),
        verdicts=frozenset(given.verdicts),
        pace=Pace(rate=given.sendings_per_second, concurrency=given.at_once),
        most_waiting=given.queue,
        keep_seconds=given.keep,
        use=given.use,
    )


def check_hooks(settings: Settings) -> None:
    """ConfigError that names every hook that cannot be used."""
    bad = []
    for given in settings.hooks:
        try:
            check_hook(given, settings)
        except InputError as error:
            bad.append(f"  hook {given.name}: {error}")
    if bad:
        raise ConfigError(f"{many(len(bad), 'hook')} cannot be used:\n" + "\n".join(bad))


def check_hook(given: HookSettings, settings: Settings) -> None:
    """InputError where the hook cannot be used as it is."""
    if given.webhook is not None:
        _secret(given)
        _check_address(given.webhook, _guard(given, settings))
    elif given.command is not None:
        _check_program(given.command[0])
    elif given.notify is not None:
        check_address(given.notify)


def _check_address(url: str, guard: AddressGuard) -> None:
    """Refuse an address that the guard would: a name is looked up when something is sent."""
    host = urlsplit(url).hostname or ""
    if host in LOCAL_NAMES:
        host = "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    if (kind := guard.refusal(str(address))) is not None:
        network = f"{address}/{address.max_prefixlen}"
        raise InputError(f"its receiver {address} is not public ({kind}): add `allow_private: [{network}]` to the hook")


def _check_program(program: str) -> None:
    found = shutil.which(program)
    if found is None:
        what = "is no file that can be run" if os.sep in program else "is not in the PATH"
        raise InputError(f"command: {program} {what}")


def _secret(given: HookSettings) -> bytes:
    if given.secret is not None:
        return given.secret.encode()
    place = Path(str(given.secret_file)).expanduser()
    try:
        secret = place.read_bytes().strip()
    except OSError as error:
        raise InputError(f"secret_file {place}: cannot be read: {error.strerror}") from None
    if len(secret) < SHORTEST_SECRET:
        raise InputError(f"secret_file {place}: its secret is too short: `openssl rand -hex 32` makes one")
    return secret


def _guard(given: HookSettings, settings: Settings) -> AddressGuard:
    """What pages may be crawled from, and the networks that are open to this hook alone."""
    return AddressGuard([*settings.allow_private, *given.allow_private])


def _transport(given: HookSettings, settings: Settings, clock: Clock, agent: str) -> Transport:
    if given.webhook is not None:
        return Webhook(
            given.webhook,
            _secret(given),
            user_agent=agent,
            guard=_guard(given, settings),
            clock=clock,
            seconds=given.seconds,
        )
    if given.command is not None:
        return Command(given.command, given.seconds, given.name)
    return Notification(str(given.notify), given.seconds)
