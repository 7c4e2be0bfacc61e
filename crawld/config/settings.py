"""The settings: every name, type and default in one place.

`config.yaml` at the top of the project shows the same names at the same defaults, with a comment each; a test keeps
the two equal.
"""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from crawld.config.errors import sentences
from crawld.config.hooks import Hooks
from crawld.config.identity import CredentialList, Signing
from crawld.config.values import (
    MOST_MEGABYTES,
    Count,
    Duration,
    KeepBodies,
    Network,
    Pattern,
    Rate,
    Share,
    SourceFiles,
    Texts,
    Url,
    database_url,
    host_name,
    listen_address,
    megabytes,
    read_duration,
)
from crawld.config.yaml_file import read_yaml
from crawld.errors import ConfigError
from crawld.model.units import many, spell_duration
from crawld.model.url import without_password

POLICIES = (
    "greedy-ncis", "greedy", "greedy-cis", "greedy-cis-plus", "greedy-ncis-1", "greedy-ncis-2", "greedy-harmonic",
    "greedy-age", "lds", "freshness-optimal", "lambdacrawl", "lambdacrawl-approximate", "binary-lambdacrawl", "uniform",
    "proportional", "on-demand",
)  # fmt: skip

LONGEST_SOCKET = 100
MAX_PER_HOST, MAX_BODY, MAX_DEADLINE, MAX_DAYS = 1_000, 2**30, 3_600.0, 36_500.0
"""Requests to a host at once; bytes of a body, which is held in memory; seconds to read one; days of history."""
STANDARD_INPUT = "-"


class _Section(BaseModel):
    """A group of settings: unknown names are errors, values cannot change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Politeness(_Section):
    """How one host is asked."""

    delay: Duration = 1.0
    max_delay: Duration = 60.0
    per_host: Annotated[Count, Field(le=MAX_PER_HOST)] = 1


class Fetching(_Section):
    """How one request is made."""

    connect_timeout: Duration = 10.0
    first_byte_timeout: Duration = 20.0
    timeout: Duration = 60.0
    max_bytes: Annotated[Count, Field(le=MAX_BODY)] = 10_000_000
    unconditional_share: Share = 0.02


class ReadingAnswers(_Section):
    """What reading one answer may cost, in a process of its own."""

    deadline: Annotated[Duration, Field(gt=0, le=MAX_DEADLINE)] = 5.0
    memory_mb: Annotated[int, Field(le=MOST_MEGABYTES), AfterValidator(megabytes)] = 128


class Signals(_Section):
    """Where hints of change come from and what they may cost."""

    share: Share = 0.25
    delay: Duration = 0.0
    sitemaps: SourceFiles = "auto"
    feeds: SourceFiles = "auto"


class Discover(_Section):
    """A site whose sitemaps, feeds and, if wanted, links may add pages."""

    site: Url
    limit: Count = 1000
    links: bool = False
    depth: Count = 10
    share: Share = 0.1


class DigestRule(_Section):
    """What counts as a change on the pages whose URL the pattern matches."""

    pattern: str = "*"
    mode: Literal["main", "text", "raw"] = "main"
    only: str | None = None
    ignore: Annotated[list[str], Texts] = []
    ignore_text: Annotated[list[Pattern], Texts] = []
    min_change: Share = 0.0


class Retention(_Section):
    """How much history is kept."""

    days: Annotated[float, Field(gt=0, le=MAX_DAYS)] = 400
    crawls_per_page: Count = 300
    crawls: Count = 20_000_000
    signals: Count = 5_000_000
    changes: Count = 5_000_000
    bodies_per_page: Count = 20
    version_bytes: Count = 2_000_000_000


class Audit(_Section):
    """Measuring freshness by random draws."""

    share: Share = 0.01


class ReadThrough(_Section):
    """Fetching pages at the moment they are read."""

    share: Share = 0.5


class Api(_Section):
    """How the running daemon is reached."""

    socket: str | None = None
    listen: Annotated[str, BeforeValidator(listen_address)] | None = "127.0.0.1:8642"
    public_url: Url | None = None
    hosts: Annotated[list[Annotated[str, AfterValidator(host_name)]], Texts] = []
    token_file: str | None = None
    open_reading: bool = False


class Log(_Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    crawls: bool = False


class Settings(_Section):
    """Every setting of crawld at its default."""

    bandwidth: Rate = 1.0
    urls: str | None = None
    max_removed: Share = 0.1
    importance: Literal["list", "requests"] = "list"
    significance: bool = False
    database: Annotated[str, AfterValidator(database_url)] = "sqlite:///crawld.db"
    user_agent: str | None = None
    policy: Literal[POLICIES] = "greedy-ncis"  # type: ignore[valid-type]  # the names are listed once, above
    allow_private: Annotated[list[Network], Texts] = []
    politeness: Politeness = Politeness()
    min_interval: Duration = 60.0
    max_interval: Duration = 30 * 86400.0
    fetch: Fetching = Fetching()
    reading: ReadingAnswers = ReadingAnswers()
    signals: Signals = Signals()
    discover: list[Discover] = []
    digest: list[DigestRule] = []
    hooks: Hooks = []
    credentials: CredentialList = []
    signing: Signing = Signing()
    duplicates: Literal["merge", "keep"] = "merge"
    keep_bodies: KeepBodies = "changes"
    noarchive: Literal["latest", "ignore"] = "latest"
    keep_text: bool = True
    search: bool = False
    retention: Retention = Retention()
    audit: Audit = Audit()
    read_through: ReadThrough = ReadThrough()
    api: Api = Api()
    log: Log = Log()

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, given: Any) -> Any:
        """Take a section or list with nothing below its name for its defaults."""
        if not isinstance(given, dict):
            return given
        grouped = {name for name, field in cls.model_fields.items() if isinstance(field.default, BaseModel | list)}
        return {name: value for name, value in given.items() if value is not None or name not in grouped}

    @model_validator(mode="after")
    def _fit_together(self) -> "Settings":
        """Refuse settings that are good one by one and make no sense together."""
        bad = []
        if self.importance == "requests" and self.api.listen is None:
            bad.append("importance: requests counts what is asked of api.listen: set that, as 127.0.0.1:8642")
        if self.search and (self.keep_bodies == "none" or not self.keep_text):
            bad.append("search: needs the texts of copies: set keep_text to true, and keep_bodies to changes or latest")
        if self.max_interval < self.min_interval:
            given = f"{spell_duration(self.max_interval)} is less than min_interval {spell_duration(self.min_interval)}"
            bad.append(f"max_interval: {given}")
        if self.signals.share + self.audit.share > 1:
            shares = f"{self.signals.share:g} and {self.audit.share:g}"
            bad.append(f"signals.share, audit.share: {shares} are more than 1 together, which leaves no page a slot")
        if bad:
            raise ValueError("\n".join(bad))
        return self

    def control_socket(self) -> Path:
        """Where the running daemon of these settings is asked: beside its SQLite file, or in the runtime directory.

        Unix sockets have short paths, and a daemon started by hand has no runtime directory: both get a name in the
        temporary directory that follows from the database.
        """
        if self.api.socket is not None:
            return Path(self.api.socket)
        if self.database.startswith("sqlite:///"):
            path = Path(self.database.removeprefix("sqlite:///") + ".sock").absolute()
            place = str(path)
            if len(place.encode()) <= LONGEST_SOCKET:
                return path
        else:
            place = without_password(self.database)
            runtime = Path(os.environ.get("RUNTIME_DIRECTORY", "/run/crawld"))
            if os.access(runtime, os.W_OK | os.X_OK):
                return runtime / "crawld.sock"
        return Path(tempfile.gettempdir()) / f"crawld-{os.getuid()}-{_name_of(place)}.sock"

    def token_file(self) -> Path:
        """Where the listener's token is kept."""
        return self._beside("token") if self.api.token_file is None else _absolute(self.api.token_file)

    def key_file(self) -> Path:
        """Where the keys are kept that requests are signed with."""
        return self._beside("keys") if self.signing.key_file is None else _absolute(self.signing.key_file)

    def _beside(self, kind: str) -> Path:
        """A file of the daemon's own: beside the SQLite file, or in the service's state directory.

        A daemon on PostgreSQL that was started by hand has none: its file is in its user's own state directory, by a
        name that follows from the database.
        """
        if self.database.startswith("sqlite:///"):
            return _absolute(self.database.removeprefix("sqlite:///") + f".{kind}")
        state = Path(os.environ.get("STATE_DIRECTORY", "/var/lib/crawld").partition(":")[0])
        if os.access(state, os.W_OK | os.X_OK):
            return state / f"crawld.{kind}"
        own = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
        return own / f"crawld-{_name_of(without_password(self.database))}.{kind}"

    def listener_hosts(self) -> frozenset[str]:
        """Names under which `api.listen` answers besides its addresses: those set, and that of `public_url`."""
        public = urlsplit(self.api.public_url).hostname if self.api.public_url else None
        return frozenset(self.api.hosts) | ({host_name(public)} if public else set())


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()


def _name_of(place: str) -> str:
    return hashlib.blake2b(place.encode(), digest_size=8).hexdigest()


def load(path: Path | None, overrides: dict[str, Any] | None = None) -> Settings:
    """Settings from a YAML file, then from the command line, which wins; every error at once with its path.

    A relative `urls` belongs to whoever names it: the file's directory, or the working directory for the command line.
    """
    given: Any = {}
    if path is not None:
        path = path.absolute()
        given = read_yaml(path)
        _place_list(given, path.parent if path.is_file() else Path.cwd())  # a pipe has no directory of its own
    overrides = {name: value for name, value in (overrides or {}).items() if value is not None}
    _place_list(overrides, Path.cwd())
    try:
        return Settings.model_validate(given | overrides)
    except ValidationError as error:
        where = f"{path}: " if path else ""
        lines = [f"\n  {said}" for said in sentences(error, Settings)]
        raise ConfigError(f"{where}{many(len(lines), 'setting')} cannot be used:{''.join(lines)}") from None


def _place_list(given: dict[str, Any], directory: Path) -> None:
    """Make the path of the URL list absolute."""
    urls = given.get("urls")
    if isinstance(urls, str) and urls != STANDARD_INPUT:
        try:
            given["urls"] = str(directory / Path(urls).expanduser())
        except RuntimeError as error:  # ~nobody
            raise ConfigError(f"urls: {urls!r}: {error}") from None


def changes(old: Settings, new: Settings) -> dict[str, Any]:
    """The settings in which `new` differs from `old`, as `section.name`, with their new values."""
    found: dict[str, Any] = {}
    for name in Settings.model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(after, BaseModel):
            pairs = {
                f"{name}.{part}": (getattr(before, part), getattr(after, part)) for part in type(after).model_fields
            }
        else:
            pairs = {name: (before, after)}
        found |= {place: value for place, (was, value) in pairs.items() if was != value}
    return found


def _durations() -> frozenset[str]:
    found = set()
    for name, field in Settings.model_fields.items():
        parts = type(field.default).model_fields if isinstance(field.default, BaseModel) else {"": field}
        for part, inner in parts.items():
            if any(isinstance(one, BeforeValidator) and one.func is read_duration for one in inner.metadata):
                found.add(f"{name}.{part}".rstrip("."))
    return frozenset(found)


DURATIONS = _durations()
"""The settings that are durations, as `changes` names them."""
