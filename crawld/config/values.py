"""The kinds of values that settings have: each is checked, and a wrong one is answered with what to write."""

import ipaddress
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import re2
from pydantic import AfterValidator, BeforeValidator, Field

from crawld.errors import InputError
from crawld.model.units import MAX_RATE, MAX_SECONDS, parse_duration, parse_rate
from crawld.model.url import normalise, without_password

LEAST_MEGABYTES, MOST_MEGABYTES = 32, 65_536
MAX_COUNT = 10**12
"""Of rows and bytes that are kept: more than any disk of today holds."""
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
    if not LEAST_MEGABYTES <= value <= MOST_MEGABYTES:
        raise ValueError(f"write a whole number from {LEAST_MEGABYTES} to {MOST_MEGABYTES}")
    return value


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


def listen_address(value: Any) -> Any:
    """An address to listen on, with its port."""
    match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\s]+):(\d{1,5})", str(value), re.IGNORECASE)
    if not match or int(match[2]) > 65535:
        raise ValueError(f"{value!r} is not an address with its port: write it like 127.0.0.1:8642")
    return value


Rate = Annotated[float, BeforeValidator(_rate), Field(le=MAX_RATE)]
Duration = Annotated[float, BeforeValidator(read_duration), Field(le=MAX_SECONDS)]
Share = Annotated[float, BeforeValidator(_share), Field(le=1)]
Network = Annotated[str, AfterValidator(_network)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Url = Annotated[str, AfterValidator(_url)]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
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
