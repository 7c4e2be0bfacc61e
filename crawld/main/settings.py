"""The settings: every name, type and default in one place.

`config.yaml` at the top of the project shows the same names at the same defaults, with a comment each; a test keeps
the two equal.
"""

import hashlib
import ipaddress
import math
import os
import re
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import re2
import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from crawld.model.access import access_refused
from crawld.model.errors import ConfigError, InputError
from crawld.model.mistakes import NO_SUCH, Mistake, mistakes
from crawld.model.units import LIMITS as UNITS_LIMITS
from crawld.model.units import many, parse_duration, parse_rate, spell_duration
from crawld.model.url import normalise, origin_of, without_password


@dataclass(frozen=True)
class SettingsLimits:
    """Numbers that bound and tune this module."""

    min_megabytes: int = 32
    max_megabytes: int = 65_536
    min_secret: int = 16
    max_socket_name: int = 80


LIMITS = SettingsLimits()


class _Loader(yaml.SafeLoader):
    """YAML in which `off`, `no` and `1:30` are text, as they look, and a name stands once in a section.

    YAML 1.1 takes them for false, false and ninety.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a name that is given twice: the first value would be lost without a word."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<" and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


# Of what YAML 1.1 does not read as text only null keeps its meaning; the rest follows below.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


def read_yaml(path: Path) -> dict[str, Any]:
    """Returns what a settings file says, before it is checked; ConfigError where it is not YAML."""
    try:
        given = yaml.load(path.read_text(encoding="utf-8-sig"), _Loader)  # noqa: S506 - a SafeLoader
    except PermissionError:
        raise access_refused(path) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        hint = " (put quotes around a value that begins with *)" if "alias" in str(error) else ""
        said = str(error).replace('in "<unicode string>", ', "")
        raise ConfigError(f"{path}: not YAML: {said}{hint}") from None
    if given is None:
        return {}
    if not isinstance(given, dict):
        what = "a list" if isinstance(given, list) else "text (`crawld run FILE` takes a URL list)"
        raise ConfigError(f"{path}: settings are written as `name: value`, this is {what}")
    return {str(name): value for name, value in given.items()}


_QUIET = re2.Options()
_QUIET.log_errors = False


def _rate(value: object) -> object:
    return _read(parse_rate, value, "a rate like 2/s, 90/min or 5000/day")


def read_duration(value: object) -> object:
    """Seconds from a duration as people write it."""
    return _read(parse_duration, value, "a duration like 90s, 5min, 12h or 30d")


def _read(parse: Any, value: object, wanted: str) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"give {wanted}")  # noqa: TRY004 - pydantic collects ValueErrors with their paths
    try:
        return parse(value)
    except InputError as error:
        raise ValueError(str(error)) from None


def megabytes(value: int) -> int:
    """A number of megabytes within the bounds."""
    if not LIMITS.min_megabytes <= value <= LIMITS.max_megabytes:
        raise ValueError(f"write a whole number from {LIMITS.min_megabytes} to {LIMITS.max_megabytes}")
    return value


def _processes(value: object) -> object:
    return 0 if value == "auto" else value


def _share(value: object) -> float:
    try:
        share = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]  # TypeError is caught
    except (TypeError, ValueError, OverflowError):
        share = math.nan
    if not 0 <= share <= 1:
        raise ValueError("write a number from 0 to 1")
    return share


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value, strict=False))
    except ValueError:
        raise ValueError(f"{value!r} is not a network: write it like 127.0.0.0/8 or fd00::/8") from None


def database_url(value: str) -> str:
    """The URL of a database that crawld can use."""
    if not re.match(r"(sqlite:///.+|postgres(ql)?://.+)", value):
        shown = without_password(value)
        raise ValueError(f"{shown!r} is not a database: write sqlite:///FILE or postgresql://USER@HOST/NAME")
    return value


def host_name(value: str) -> str:
    """A name or address as it stands in a Host header, compared without case, port or last dot."""
    name = value.strip().strip("[]").lower().removesuffix(".")
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    if not re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", name):
        raise ValueError(f"{value!r} is not a host: write a name or an address without a port, as crawld.example.org")
    return name


def _pattern(value: str) -> str:
    """Check with RE2, which is what matches the pattern later: it knows other things than Python's engine."""
    try:
        re2.compile(value, _QUIET)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise ValueError(f"{value!r} is not a regular expression RE2 can match: {reason}") from None
    return value


def _word(off: str, choices: str, *known: str) -> Callable[[object], object]:
    """Read one of a few words in any case; false and `no` mean `off`, because other YAML readers take it for them."""

    def read(value: object) -> object:
        if isinstance(value, list):
            return value
        word = str(value).lower() if isinstance(value, str | bool) else None
        word = off if word in {"false", "no", "off"} else word
        if word not in known:
            raise ValueError(f"write {choices}")
        return word

    return read


def _one_or_many(value: object) -> object:
    """A single text where a list is meant is a list of one."""
    return [value] if isinstance(value, str) else value


def _files(value: object) -> object:
    return _one_or_many(value) if isinstance(value, str) and "://" in value else value


def _url(value: str) -> str:
    try:
        return normalise(value)
    except InputError as error:
        raise ValueError(f"{value!r}: {error}") from None


def _of_form(form: str, sentence: str) -> AfterValidator:
    """Checks that a text has a form; else the sentence, in which {0} stands for the text, says what to write."""

    def check(value: str) -> str:
        if not re.fullmatch(form, value, re.DOTALL):
            raise ValueError(sentence.format(value))
        return value

    return AfterValidator(check)


def _no_two(place: Callable[[Any], Any], sentence: str) -> AfterValidator:
    """Checks that entries of a list differ; the sentence says what two alike, of which {0} is one, would mean."""

    def check(given: list[Any]) -> list[Any]:
        seen = set()
        for one in given:
            if place(one) in seen:
                raise ValueError(sentence.format(one))
            seen.add(place(one))
        return given

    return AfterValidator(check)


def listen_address(value: Any) -> Any:
    """An address to listen on, with its port."""
    match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\s]+):(\d{1,5})", str(value), re.IGNORECASE)
    if not match or int(match[2]) > 65535:
        raise ValueError(f"{value!r} is not an address with its port: write it like 127.0.0.1:8642")
    return value


Rate = Annotated[float, BeforeValidator(_rate), Field(le=UNITS_LIMITS.max_rate)]
Duration = Annotated[float, BeforeValidator(read_duration), Field(le=UNITS_LIMITS.max_seconds)]
Share = Annotated[float, BeforeValidator(_share), Field(le=1)]
Network = Annotated[str, AfterValidator(_network)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Url = Annotated[str, AfterValidator(_url)]
Count = Annotated[int, Field(ge=1, le=10**12)]  # of rows and bytes: more than any disk of today holds
Processes = Annotated[int, BeforeValidator(_processes), Field(ge=0, le=64)]
SourceFiles = Annotated[
    Literal["auto", "off"] | list[Url],
    BeforeValidator(_word("off", "auto, off or a list of URLs", "auto", "off")),
    BeforeValidator(_files),  # runs first
]
KeepBodies = Annotated[
    Literal["latest", "changes", "none"],
    BeforeValidator(_word("none", "latest, changes or none", "latest", "changes", "none")),
]
Texts = BeforeValidator(_one_or_many)


Kind = Literal["webhook", "command", "notify"]
Verdict = Literal["new", "changed", "gone", "back", "moved", "usage", "removed"]


class HookDefaults(NamedTuple):
    """Values of a kind of hook where the settings say nothing."""

    rate: float  # sendings per second
    seconds: float  # for one
    at_once: int


HOOK_KINDS: Mapping[Kind, HookDefaults] = {
    "webhook": HookDefaults(10.0, 10.0, 4),
    "command": HookDefaults(2.0, 60.0, 2),
    "notify": HookDefaults(1 / 60, 60.0, 1),
}


def _arguments(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("write the program and its arguments as a list, as [/usr/local/bin/reindex, --quick]")  # noqa: TRY004 - pydantic collects ValueErrors
    return value


class _Section(BaseModel):
    """A group of settings: unknown names are errors, values cannot change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class HookSection(_Section):
    """A receiver of changes: a webhook, a command or a notification, of the pages whose URL the pattern matches."""

    name: Annotated[
        str,
        _of_form(
            "[a-z0-9][a-z0-9_-]{0,39}", "{0!r} is not a name: write up to 40 of a-z, 0-9, - and _, as search-index"
        ),
    ]
    pattern: str = "*"
    verdicts: Annotated[list[Verdict], Texts, Field(min_length=1)] = ["changed", "gone", "back", "moved"]
    use: Literal["search", "ai-input", "ai-train"] | None = None
    webhook: Url | None = None
    secret: str | None = Field(default=None, repr=False)
    secret_file: Annotated[str, _of_form("[/~].*", "write the whole path, as /etc/crawld/{0}")] | None = None
    allow_private: Annotated[list[Network], Texts] = []
    command: Annotated[list[str], BeforeValidator(_arguments), Field(min_length=1)] | None = None
    notify: str | None = Field(default=None, repr=False)
    rate: Rate | None = None
    timeout: Duration | None = None
    concurrency: Annotated[int, Field(ge=1, le=16)] | None = None
    queue: Annotated[Count, Field(le=100_000)] = 10_000
    keep: Duration = 7 * 86400.0

    @property
    def kind(self) -> Kind:
        """Returns how the hook is told."""
        return next(kind for kind in HOOK_KINDS if getattr(self, kind) is not None)

    @property
    def sendings_per_second(self) -> float:
        """Returns how often something may be sent."""
        return HOOK_KINDS[self.kind].rate if self.rate is None else self.rate

    @property
    def seconds(self) -> float:
        """Returns how long one sending may take."""
        return HOOK_KINDS[self.kind].seconds if self.timeout is None else self.timeout

    @property
    def at_once(self) -> int:
        """Returns how many sendings may be under way."""
        return HOOK_KINDS[self.kind].at_once if self.concurrency is None else self.concurrency

    @property
    def target(self) -> str:
        """Returns who is told, without what may be a secret: addresses of services often hold one in their path."""
        if self.webhook is not None:
            parts = urlsplit(self.webhook)
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" + ("/…" if parts.path.strip("/") else "/")
        if self.command is not None:
            return self.command[0]
        return f"{str(self.notify).partition('://')[0]}://…"

    def shown(self) -> dict[str, object]:
        """The settings that were given, without secrets."""
        given = {name: value for name, value in self.model_dump().items() if name in self.model_fields_set}
        return (
            given | ({"secret": "***"} if self.secret else {}) | ({self.kind: self.target} if not self.command else {})
        )

    @model_validator(mode="after")
    def _fits_together(self) -> "HookSection":
        given = [kind for kind in HOOK_KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"{self.name}: write one of webhook, command and notify, and no more than one")
        if given != ["webhook"] and (self.secret or self.secret_file or self.allow_private):
            raise ValueError(f"{self.name}: secret, secret_file and allow_private belong to a webhook")
        if given == ["webhook"] and (self.secret is None) == (self.secret_file is None):
            raise ValueError(
                f"{self.name}: give a secret of at least {LIMITS.min_secret} characters, or a secret_file with it: "
                "`openssl rand -hex 32` makes one"
            )
        if self.secret is not None and len(self.secret) < LIMITS.min_secret:
            raise ValueError(f"{self.name}: the secret is too short: `openssl rand -hex 32` makes one")
        if self.sendings_per_second <= 0 or self.seconds <= 0:
            raise ValueError(f"{self.name}: rate and timeout must be above 0; remove the hook to turn it off")
        return self


Hooks = Annotated[
    list[HookSection],
    _no_two(
        lambda hook: hook.name,
        "two hooks are named {0.name}: what waits is kept by name, so each needs its own",
    ),
]


CREDENTIAL_KINDS = ("bearer", "basic", "header", "cookie")


def _origin(value: str) -> str:
    """Scheme and host of a site; the value is shown in no message, for it may hold a password."""
    try:
        parts = urlsplit(value.strip())
        found = origin_of(normalise(value))
        extra = bool(parts.path.strip("/") or parts.query or parts.fragment)
    except (InputError, ValueError):
        found, extra = "", True
    if extra:
        raise ValueError("write scheme and host alone, as https://wiki.example.org; a path belongs into `prefix`")
    return found


SecretFile = Annotated[
    str, _of_form("[/~].*", "write the whole path of a file that holds it, as /etc/crawld/wiki.token")
]
SecretVariable = Annotated[
    str,
    _of_form("[A-Za-z_][A-Za-z0-9_]{0,99}", "write the name of an environment variable that holds it, as WIKI_TOKEN"),
]


class Credential(_Section):
    """A credential of one origin, or of the part of it below a prefix: named here, and kept in a file or variable."""

    model_config = ConfigDict(hide_input_in_errors=True)

    origin: Annotated[str, AfterValidator(_origin)]
    prefix: Annotated[str, _of_form("/[^?#]*", "write the beginning of a path, as /private/")] = "/"
    bearer_file: SecretFile | None = None
    basic_file: SecretFile | None = None
    header_file: SecretFile | None = None
    cookie_file: SecretFile | None = None
    bearer_env: SecretVariable | None = None
    basic_env: SecretVariable | None = None
    header_env: SecretVariable | None = None
    cookie_env: SecretVariable | None = None
    allow_http: bool = False

    @property
    def kind(self) -> Literal["bearer", "basic", "header", "cookie"]:
        """Returns how it is sent."""
        return self._given()[0].partition("_")[0]  # type: ignore[return-value]  # one of CREDENTIAL_KINDS

    @property
    def place(self) -> tuple[str, str]:
        """The setting that says where it is kept, and its value."""
        name = self._given()[0]
        return name, getattr(self, name)

    def _given(self) -> list[str]:
        names = [f"{kind}_{place}" for kind in CREDENTIAL_KINDS for place in ("file", "env")]
        return [name for name in names if getattr(self, name) is not None]

    @model_validator(mode="after")
    def _fits_together(self) -> "Credential":
        if len(given := self._given()) != 1:
            named = "none is given" if not given else f"{' and '.join(given)} are given"
            raise ValueError(
                f"{self.origin}: write one of bearer_file, basic_file, header_file, cookie_file, or one with _env; "
                f"{named}"
            )
        if self.origin.startswith("http:") and not self.allow_http:
            raise ValueError(
                f"{self.origin}: http would send the secret in the clear: write https, or `allow_http: true`"
            )
        return self


CredentialList = Annotated[
    list[Credential],
    _no_two(
        lambda one: (one.origin, one.prefix),
        "two credentials are for {0.origin} and the prefix {0.prefix}: only one can be sent",
    ),
]


def _agent(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.path.strip("/"):
        raise ValueError("write the https origin where sites find the key directory, as https://bot.example.org")
    return origin_of(normalise(value))


class Signing(_Section):
    """Signing of requests (RFC 9421, Web Bot Auth): by which keys, and where sites find those."""

    agent: Annotated[str, AfterValidator(_agent)] | None = None
    key_file: SecretFile | None = None
    seconds: Annotated[int, Field(ge=10, le=86_400)] = 60
    form: Literal["dictionary", "string"] = "dictionary"


EXAMPLES = {
    "Politeness": "delay: 1s",
    "Fetching": "timeout: 60s",
    "SignalsSection": "share: 0.25",
    "ReadingAnswers": "deadline: 5s",
    "Discover": "site: https://example.org/",
    "DigestSection": "pattern: example.org/blog/*",
    "HookSection": "name: search-index",
    "Credential": "origin: https://wiki.example.org",
    "Signing": "agent: https://bot.example.org",
    "RetentionSection": "days: 400",
    "Audit": "share: 0.01",
    "Api": "listen: 127.0.0.1:8642",
    "Log": "level: info",
}
"""One line of each section, as it is written below the section's name."""
SECRET = frozenset(
    {"secret", "notify", "origin", "credentials"}
    | {f"{kind}_{place}" for kind in CREDENTIAL_KINDS for place in ("file", "env")}
)
"""Settings whose value no message shows."""


def sentences(error: ValidationError, settings: type[BaseModel]) -> Sequence[str]:
    """Every mistake in a sentence of its own, beginning with the setting's place."""
    found: list[str] = []
    for mistake in mistakes(error, settings, EXAMPLES):
        place = f"{mistake.place}: " if mistake.place else ""
        found += [f"{place}{said}" for said in _with_given(mistake).split("\n")]
    return found


def _with_given(mistake: Mistake) -> str:
    """The sentence with the value that was given, where that is no secret and the sentence does not show it."""
    if mistake.kind == NO_SUCH:
        return mistake.sentence.replace("no such name", "no such setting", 1)
    message, given = mistake.sentence, mistake.given
    if mistake.kind == "int_parsing" and re.fullmatch(r"[0-9.]+e[0-9]+", str(given)):
        message += " (YAML reads 1e6 as text: write 1000000 or 1.0e+6)"
    misplaced = mistake.place.startswith("credentials")  # a secret is soon in the wrong line
    if mistake.kind == "missing" or not mistake.place or mistake.name in SECRET or misplaced:
        return message
    if mistake.name == "database" and isinstance(given, str):
        given = without_password(given)
    shown = repr(given)
    told = message.startswith(shown) or (isinstance(given, str) and shown in message)
    plain = isinstance(given, str | int | float | bool | None)
    return f"{message} (given: {shown})" if plain and not told else message


POLICIES = (
    "greedy-ncis", "greedy", "greedy-cis", "greedy-cis-plus", "greedy-ncis-1", "greedy-ncis-2", "greedy-harmonic",
    "greedy-age", "lds", "freshness-optimal", "lambdacrawl", "lambdacrawl-approximate", "binary-lambdacrawl", "uniform",
    "proportional", "on-demand",
)  # fmt: skip

STANDARD_INPUT = "-"


class Politeness(_Section):
    """Manners towards one host."""

    delay: Duration = 1.0
    max_delay: Duration = 60.0
    per_host: Annotated[Count, Field(le=1_000)] = 1


class Fetching(_Section):
    """Bounds of one request."""

    connect_timeout: Duration = 10.0
    first_byte_timeout: Duration = 20.0
    timeout: Duration = 60.0
    max_bytes: Annotated[Count, Field(le=2**30)] = 10_000_000  # held in memory
    unconditional_share: Share = 0.02


class ReadingAnswers(_Section):
    """Cost that reading one answer may have, in a process of its own."""

    deadline: Annotated[Duration, Field(gt=0, le=3_600.0)] = 5.0
    memory_mb: Annotated[int, Field(le=LIMITS.max_megabytes), AfterValidator(megabytes)] = 128


class SignalsSection(_Section):
    """Sources of hints of change, and what they may cost."""

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


class DigestSection(_Section):
    """Rule of what counts as a change on the pages whose URL the pattern matches."""

    pattern: str = "*"
    mode: Literal["main", "text", "raw"] = "main"
    only: str | None = None
    ignore: Annotated[list[str], Texts] = []
    ignore_text: Annotated[list[Pattern], Texts] = []
    min_change: Share = 0.0


class RetentionSection(_Section):
    """Extent of the history that is kept."""

    days: Annotated[float, Field(gt=0, le=36_500.0)] = 400
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
    """Addresses of the running daemon, and who may ask there."""

    socket: str | None = None
    listen: Annotated[str, BeforeValidator(listen_address)] | None = "127.0.0.1:8642"
    public_url: Url | None = None
    hosts: Annotated[list[Annotated[str, AfterValidator(host_name)]], Texts] = []
    token_file: str | None = None
    open_reading: bool = False


class Log(_Section):
    """Level and form of the log."""

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
    processes: Processes = 1
    user_agent: str | None = None
    policy: Literal[POLICIES] = "greedy-ncis"  # type: ignore[valid-type]  # the names are listed once, above
    allow_private: Annotated[list[Network], Texts] = []
    politeness: Politeness = Politeness()
    min_interval: Duration = 60.0
    max_interval: Duration = 30 * 86400.0
    fetch: Fetching = Fetching()
    reading: ReadingAnswers = ReadingAnswers()
    signals: SignalsSection = SignalsSection()
    discover: list[Discover] = []
    digest: list[DigestSection] = []
    hooks: Hooks = []
    credentials: CredentialList = []
    signing: Signing = Signing()
    duplicates: Literal["merge", "keep"] = "merge"
    keep_bodies: KeepBodies = "changes"
    noarchive: Literal["latest", "ignore"] = "latest"
    keep_text: bool = True
    search: bool = False
    retention: RetentionSection = RetentionSection()
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
        """Path of the daemon's control socket: beside its SQLite file, or in the runtime directory.

        A daemon on PostgreSQL that was started by hand has no runtime directory: its socket has a name in the
        temporary directory that follows from the database, as one beside a file of a very long name.
        """
        if self.api.socket is not None:
            return Path(self.api.socket)
        if self.database.startswith("sqlite:///"):
            path = Path(self.database.removeprefix("sqlite:///") + ".sock").absolute()
            place = str(path)
            if len(os.fsencode(path.name)) <= LIMITS.max_socket_name:
                return path
        else:
            place = without_password(self.database)
            runtime = Path(os.environ.get("RUNTIME_DIRECTORY", "/run/crawld"))
            if os.access(runtime, os.W_OK | os.X_OK):
                return runtime / "crawld.sock"
        return Path(tempfile.gettempdir()) / f"crawld-{os.getuid()}-{_name_of(place)}.sock"

    def token_file(self) -> Path:
        """Returns where the listener's token is kept."""
        return self._beside("token") if self.api.token_file is None else _absolute(self.api.token_file)

    def key_file(self) -> Path:
        """Returns where the keys are kept that requests are signed with."""
        return self._beside("keys") if self.signing.key_file is None else _absolute(self.signing.key_file)

    def server_folder(self) -> Path | None:
        """Returns where `crawld run --processes` keeps its own PostgreSQL; None where the database is one anyway."""
        return self._beside("postgres") if self.database.startswith("sqlite:///") else None

    def in_use(self) -> "Settings":
        """These settings with the database that is in use: the own PostgreSQL where the SQLite file was left for one.

        What lies beside the SQLite file stays there: control socket, token, keys.
        """
        folder = self.server_folder()
        address = None if folder is None else _read_if_there(folder / SERVER_ADDRESS)
        if not address:
            return self
        api = {"socket": str(self.control_socket()), "token_file": str(self.token_file())}
        parts = {"api": api, "signing": {"key_file": str(self.key_file())}}
        copied = {name: getattr(self, name).model_copy(update=update) for name, update in parts.items()}
        return self.model_copy(update={"database": address, **copied})

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


SERVER_ADDRESS = "address"
"""The file in the folder of crawld's own PostgreSQL that holds its URL, once everything is in there."""


def _read_if_there(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except PermissionError:
        raise access_refused(file) from None


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()


def _name_of(place: str) -> str:
    return hashlib.blake2b(place.encode(), digest_size=8).hexdigest()


def load(path: Path | None, overrides: dict[str, Any] | None = None) -> Settings:
    """Settings as they are written, with the database that is in use."""
    return load_written(path, overrides).in_use()


def load_written(path: Path | None, overrides: dict[str, Any] | None = None) -> Settings:
    """Settings from a YAML file, then from the command line, which wins; every error at once with its path.

    A relative `urls` starts where it is named: in the file's directory, or in the command line's working directory.
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
