"""The settings of one hook: whom to tell of which changes."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from crawld.main.values import Count, Duration, Network, Rate, Texts, Url

Kind = Literal["webhook", "command", "notify"]
Verdict = Literal["new", "changed", "gone", "back", "moved", "usage", "removed"]
KINDS: tuple[Kind, ...] = ("webhook", "command", "notify")
SHORTEST_SECRET = 16
MOST_WAITING = 100_000
RATES = {"webhook": 10.0, "command": 2.0, "notify": 1 / 60}
SECONDS = {"webhook": 10.0, "command": 60.0, "notify": 60.0}
AT_ONCE = {"webhook": 4, "command": 2, "notify": 1}
"""By kind, what holds where the settings say nothing: sendings per second, seconds for one, and how many at once."""


def _name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", value):
        raise ValueError(f"{value!r} is not a name: write up to 40 of a-z, 0-9, - and _, as search-index")
    return value


def _whole_path(value: str) -> str:
    if not value.startswith(("/", "~")):
        raise ValueError(f"write the whole path, as /etc/crawld/{value}")
    return value


def _arguments(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("write the program and its arguments as a list, as [/usr/local/bin/reindex, --quick]")  # noqa: TRY004 - pydantic collects ValueErrors
    return value


class Hook(BaseModel):
    """Whom to tell of changes: a webhook, a command or a notification, of the pages whose URL the pattern matches."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(_name)]
    pattern: str = "*"
    verdicts: Annotated[list[Verdict], Texts, Field(min_length=1)] = ["changed", "gone", "back", "moved"]
    use: Literal["search", "ai-input", "ai-train"] | None = None
    webhook: Url | None = None
    secret: str | None = Field(default=None, repr=False)
    secret_file: Annotated[str, AfterValidator(_whole_path)] | None = None
    allow_private: Annotated[list[Network], Texts] = []
    command: Annotated[list[str], BeforeValidator(_arguments), Field(min_length=1)] | None = None
    notify: str | None = Field(default=None, repr=False)
    rate: Rate | None = None
    timeout: Duration | None = None
    concurrency: Annotated[int, Field(ge=1, le=16)] | None = None
    queue: Annotated[Count, Field(le=MOST_WAITING)] = 10_000
    keep: Duration = 7 * 86400.0

    @property
    def kind(self) -> Kind:
        """How the hook is told."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def sendings_per_second(self) -> float:
        """How often something may be sent."""
        return RATES[self.kind] if self.rate is None else self.rate

    @property
    def seconds(self) -> float:
        """How long one sending may take."""
        return SECONDS[self.kind] if self.timeout is None else self.timeout

    @property
    def at_once(self) -> int:
        """How many sendings may be under way."""
        return AT_ONCE[self.kind] if self.concurrency is None else self.concurrency

    @property
    def target(self) -> str:
        """Who is told, without what may be a secret: addresses of services often hold one in their path."""
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
    def _fits_together(self) -> "Hook":
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"{self.name}: write one of webhook, command and notify, and no more than one")
        if given != ["webhook"] and (self.secret or self.secret_file or self.allow_private):
            raise ValueError(f"{self.name}: secret, secret_file and allow_private belong to a webhook")
        if given == ["webhook"] and (self.secret is None) == (self.secret_file is None):
            raise ValueError(
                f"{self.name}: give a secret of at least {SHORTEST_SECRET} characters, or a secret_file that holds it: "
                "`openssl rand -hex 32` makes one"
            )
        if self.secret is not None and len(self.secret) < SHORTEST_SECRET:
            raise ValueError(f"{self.name}: the secret is too short: `openssl rand -hex 32` makes one")
        if self.sendings_per_second <= 0 or self.seconds <= 0:
            raise ValueError(f"{self.name}: rate and timeout must be above 0; remove the hook to turn it off")
        return self


def check_names(hooks: list[Hook]) -> list[Hook]:
    """Hooks whose names differ: what waits for a hook is kept by its name."""
    seen: set[str] = set()
    for hook in hooks:
        if hook.name in seen:
            raise ValueError(f"two hooks are named {hook.name}: what waits is kept by name, so each needs its own")
        seen.add(hook.name)
    return hooks


Hooks = Annotated[list[Hook], AfterValidator(check_names)]
