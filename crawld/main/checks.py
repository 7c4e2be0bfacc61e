"""Checks of settings before a daemon is built from them."""

import ipaddress
import os
import resource
import shutil
import socket
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlsplit

from crawld import __version__
from crawld.choose import policies
from crawld.choose.host_gate import HostLimits
from crawld.choose.page_table import Intervals
from crawld.crawl.loop import LIMITS
from crawld.fetch.credentials import Credentials, OriginCredential, make_credential, read_secret_file
from crawld.fetch.guard import AddressGuard
from crawld.fetch.http import check_user_agent
from crawld.fetch.signing import Signer, read_keys
from crawld.fetch.webhook import Webhook
from crawld.hooks.dispatcher import Hook
from crawld.hooks.queue import HookPace
from crawld.hooks.transports import Command, Notification, check_address
from crawld.main.settings import LIMITS as SETTINGS_LIMITS
from crawld.main.settings import Credential, Settings
from crawld.main.settings import HookSection as HookSettings
from crawld.model.clock import SystemClock
from crawld.model.errors import ConfigError, CrawldError, InputError
from crawld.model.logs import configure
from crawld.model.units import many
from crawld.model.url import UrlPattern
from crawld.model.web import Clock
from crawld.read.page.rules import DigestRule
from crawld.show.forecasts import Terms
from crawld.store.address import parse_address
from crawld.store.hooks import Transport


def terms_of(settings: Settings) -> Terms:
    """Returns what the settings say."""
    policy, limits = policies.choose(settings.policy), settings.politeness
    return Terms(
        valuation=None if policy.valuation is None else policy.valuation(),
        limits=HostLimits(limits.delay, limits.max_delay, limits.per_host),
        intervals=Intervals(longest=settings.max_interval, shortest=settings.min_interval),
        poll_share=settings.signals.share * LIMITS.exploring,
    )


_FROM_ENVIRONMENT: dict[str, str] = {}
"""Values of environment variables that were read: a reload finds them here, and no child process inherits them."""


def make_credentials(settings: Settings) -> Credentials:
    """Every credential of the settings, read anew; ConfigError that names each that cannot be used."""
    made: list[OriginCredential] = []
    bad: list[str] = []
    for given in settings.credentials:
        name, value = given.place
        try:
            made.append(make_credential(given.origin, given.prefix, given.kind, _signing_secret(given)))
        except InputError as error:
            about = "" if name.endswith("_file") and str(error).startswith("/") else f"{value}: "
            bad.append(f"  credentials for {given.origin}: {name} {about}{error}")
    if bad:
        raise ConfigError(f"{many(len(bad), 'credential')} cannot be used:\n" + "\n".join(bad))
    if made:
        _forbid_core_dumps()
    return Credentials(made)


def make_signer(settings: Settings) -> Signer | None:
    """Makes the signer of requests; None where they are not signed, ConfigError where its keys are unusable."""
    given = settings.signing
    if given.agent is None:
        return None
    try:
        keys = read_keys(settings.key_file())
        signer = Signer(keys, given.agent, given.seconds, dictionary=given.form == "dictionary")
    except (InputError, ConfigError) as error:
        raise ConfigError(f"signing: {error}") from None
    _forbid_core_dumps()
    return signer


def _signing_secret(given: Credential) -> str:
    name, value = given.place
    if name.endswith("_file"):
        return read_secret_file(Path(value).expanduser())
    held = os.environ.pop(value, None)
    if held is not None:
        _FROM_ENVIRONMENT[value] = held
    if not _FROM_ENVIRONMENT.get(value):
        raise InputError("this environment variable is not set")
    return _FROM_ENVIRONMENT[value]


def _forbid_core_dumps() -> None:
    """Let a crash leave no image of the memory, which holds the secrets."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


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
        pace=HookPace(rate=given.sendings_per_second, concurrency=given.at_once),
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
    _transport(given, settings, SystemClock(), user_agent(settings))


def _check_address(url: str, guard: AddressGuard) -> None:
    """Refuse an address that the guard would: a name is looked up when something is sent."""
    host = urlsplit(url).hostname or ""
    if host in {"localhost", "localhost.localdomain", "ip6-localhost"}:
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
    if len(secret) < SETTINGS_LIMITS.min_secret:
        raise InputError(f"secret_file {place}: its secret is too short: `openssl rand -hex 32` makes one")
    return secret


def _transport(given: HookSettings, settings: Settings, clock: Clock, agent: str) -> Transport:
    """The transport of a hook; InputError where it cannot be used as it is."""
    if given.webhook is not None:
        secret = _secret(given)
        # What pages may be crawled from, and the networks that are open to this hook alone.
        guard = AddressGuard([*settings.allow_private, *given.allow_private])
        _check_address(given.webhook, guard)
        return Webhook(given.webhook, secret, user_agent=agent, guard=guard, clock=clock, seconds=given.seconds)
    if given.command is not None:
        _check_program(given.command[0])
        return Command(given.command, given.seconds, given.name)
    check_address(str(given.notify))
    return Notification(str(given.notify), given.seconds)


def user_agent(settings: Settings) -> str:
    """Returns who we say we are: as set, or our name with the webmaster of this machine as contact."""
    return settings.user_agent or f"crawld/{__version__} (+mailto:webmaster@{_own_name()})"


@cache
def _own_name() -> str:
    """The name of this machine, looked up once: that may take seconds, and a reload must not stop the crawl."""
    return socket.getfqdn() or "localhost"


def digest_rules(settings: Settings) -> Sequence[DigestRule]:
    """The rules for what counts as a change; ConfigError that names every one that cannot be used."""
    rules, bad = [], []
    for at, rule in enumerate(settings.digest):
        try:
            rules.append(DigestRule(**rule.model_dump()))
        except InputError as error:
            bad.append(f"  digest[{at}]: {error}")
    if bad:
        raise ConfigError(f"{many(len(bad), 'setting')} cannot be used:\n" + "\n".join(bad))
    return rules


def check(settings: Settings) -> Sequence[CrawldError]:
    """Everything that would keep a daemon from being built from these settings."""
    questions: list[Callable[[], object]] = [
        partial(digest_rules, settings),
        lambda: check_user_agent(user_agent(settings)),
        lambda: parse_address(settings.database),
        partial(check_hooks, settings),
        partial(make_credentials, settings),
        partial(make_signer, settings),
    ]
    found: list[CrawldError] = []
    for question in questions:
        try:
            question()
        except CrawldError as error:
            found.append(error)
    return found


def set_up_logging(settings: Settings) -> None:
    """Log lines as the settings ask for them."""
    given = settings.log
    configure(given.level, given.format, crawls=given.crawls, in_journal="JOURNAL_STREAM" in os.environ)
