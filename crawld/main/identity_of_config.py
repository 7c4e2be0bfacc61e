"""The settings of who we are to a site: credentials for it, and signatures."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from crawld.model.errors import InputError
from crawld.model.url import normalise, origin_of

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


def _prefix(value: str) -> str:
    if not value.startswith("/") or "?" in value or "#" in value:
        raise ValueError("write the beginning of a path, as /private/")
    return value


def _file(value: str) -> str:
    if not value.startswith(("/", "~")):
        raise ValueError("write the whole path of a file that holds it, as /etc/crawld/wiki.token")
    return value


def _variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", value):
        raise ValueError("write the name of an environment variable that holds it, as WIKI_TOKEN")
    return value


SecretFile = Annotated[str, AfterValidator(_file)]
SecretVariable = Annotated[str, AfterValidator(_variable)]


class Credential(BaseModel):
    """What is sent to one origin, or to the part of it below a prefix: named here, and kept in a file or variable."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    origin: Annotated[str, AfterValidator(_origin)]
    prefix: Annotated[str, AfterValidator(_prefix)] = "/"
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
        """How it is sent."""
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


def check_places(credentials: list[Credential]) -> list[Credential]:
    """Credentials of which each has a place of its own."""
    seen: set[tuple[str, str]] = set()
    for one in credentials:
        if (place := (one.origin, one.prefix)) in seen:
            raise ValueError(f"two credentials are for {one.origin} and the prefix {one.prefix}: only one can be sent")
        seen.add(place)
    return credentials


CredentialList = Annotated[list[Credential], AfterValidator(check_places)]


def _agent(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.path.strip("/"):
        raise ValueError("write the https origin where sites find the key directory, as https://bot.example.org")
    return origin_of(normalise(value))


class Signing(BaseModel):
    """Whether requests are signed (RFC 9421, Web Bot Auth), by which keys, and where sites find those."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: Annotated[str, AfterValidator(_agent)] | None = None
    key_file: Annotated[str, AfterValidator(_file)] | None = None
    seconds: Annotated[int, Field(ge=10, le=86_400)] = 60
    form: Literal["dictionary", "string"] = "dictionary"
