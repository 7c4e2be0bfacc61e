"""Credentials of sites: read from files that only we may read, sent to their origin alone, and shown nowhere.

A secret lives in this module's objects and in the headers of the requests that it belongs to. It has no repr, and
what an answer repeats of it is taken out before anything else sees the answer.
"""

import base64
import html
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from crawld.model.errors import InputError
from crawld.model.fetched import Fetched, FetchFailed, Outcome, Purpose, Redirected, Request, Scope, Trouble
from crawld.model.url import origin_of


@dataclass(frozen=True)
class CredentialsLimits:
    """Numbers that bound and tune this module."""

    max_secret: int = 16_384
    min_redacted: int = 6
    """Characters of a secret that is taken out of answers: shorter ones are in every text."""
    max_retired: int = 200
    """Spellings of earlier secrets of an origin that are still taken out of its answers."""


LIMITS = CredentialsLimits()


REDACTED = "[credential]"
SENT_FOR = frozenset({Purpose.PAGE, Purpose.ROBOTS, Purpose.SITEMAP, Purpose.FEED})
"""Purposes that credentials are sent for; where the others go is chosen by strangers."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OUR_HEADERS = frozenset(
    {"host", "user-agent", "connection", "content-length", "transfer-encoding", "upgrade", "te", "expect", "signature",
     "signature-input", "signature-agent", "if-none-match", "if-modified-since", "accept-encoding"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OriginCredential:
    """What is sent to one origin below a prefix."""

    origin: str
    prefix: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)  # every spelling that an answer could repeat, the longest first

    def fits(self, url: str) -> bool:
        """Whether a normalised URL of the origin lies below the prefix."""
        path = url[len(self.origin) :].partition("?")[0] or "/"
        return path == self.prefix or path.startswith(self.prefix.rstrip("/") + "/")


class Credentials:
    """Every credential, by origin."""

    def __init__(self, given: Iterable[OriginCredential] = ()) -> None:
        self._by_origin: dict[str, list[OriginCredential]] = {}
        for one in sorted(given, key=lambda one: -len(one.prefix)):
            self._by_origin.setdefault(one.origin, []).append(one)
        self._retired: dict[str, tuple[str, ...]] = {}  # secrets of before, which an origin may repeat still
        self.known = bool(self._by_origin)  # whether there is anything to send or to take out of answers

    def retire(self, before: "Credentials") -> None:
        """Take over what was sent before: it is sent no longer, and still taken out of answers."""
        for origin in before._by_origin.keys() | before._retired.keys():
            old = dict.fromkeys((*before._secrets(origin), *before._retired.get(origin, ())))
            self._retired[origin] = tuple(old)[: LIMITS.max_retired]
            self.known = True

    def _secrets(self, origin: str) -> list[str]:
        return [secret for one in self._by_origin.get(origin, ()) for secret in one.secrets]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Credentials) and self._by_origin == other._by_origin

    __hash__ = None  # type: ignore[assignment]  # compared, never looked up

    def __bool__(self) -> bool:
        return bool(self._by_origin)

    def add_to(self, headers: MutableMapping[str, str], request: Request) -> None:
        """Add what belongs to the request's address, unless another origin led there."""
        if request.bare or request.purpose not in SENT_FOR:
            return
        found = self._by_origin.get(origin_of(request.url), ())
        fitting = next((one for one in found if one.fits(request.url)), None)
        if fitting is None:
            return
        for name, value in fitting.headers.items():
            both = name == "Cookie" and name in headers
            headers[name] = f"{value}; {headers[name]}" if both else value

    def redact(self, request: Request, outcome: Outcome) -> Outcome:
        """The outcome without what it repeats of its origin's secrets; a redirect that repeats one is not followed."""
        origin = origin_of(request.url)
        secrets = (*self._secrets(origin), *self._retired.get(origin, ()))
        if not secrets:
            return outcome
        if isinstance(outcome, Redirected):
            location = unquote_plus(outcome.location).lower(), unquote(outcome.location).lower()
            if not any(secret.lower() in one for secret in secrets for one in (*location, outcome.location.lower())):
                return outcome
            detail = "the target of the redirect repeats our credentials"
            return FetchFailed(outcome.url, Trouble.BAD_REDIRECT, Scope.PAGE, detail, outcome.status)
        if isinstance(outcome, FetchFailed):
            return outcome._replace(detail=_redacted(outcome.detail, secrets))
        return _redacted_answer(outcome, secrets)


def _redacted_answer(answer: Fetched, secrets: Iterable[str]) -> Fetched:
    body = answer.body
    wide = b"\x00" in body
    for secret in secrets:
        for charset in ("utf-8", "utf-16-le", "utf-16-be") if wide else ("utf-8",):
            if (raw := secret.encode(charset)) in body:
                body = body.replace(raw, REDACTED.encode(charset))
    headers = {name: _redacted(value, secrets) for name, value in answer.headers.items()}
    return answer._replace(body=body, headers=headers, raw=answer.raw if body is answer.body else None)


def _redacted(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def read_secret_file(path: Path) -> str:
    """What a file holds that only its owner and group may read; InputError that says how to make it so."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise InputError(f"{path}: this is not a file")
            if about.st_mode & stat.S_IRWXO:
                raise InputError(f"{path}: others may use this file: `chmod o= {path}` keeps them out")
            held = file.read(LIMITS.max_secret + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(held) > LIMITS.max_secret:
        raise InputError(f"{path}: more than {LIMITS.max_secret:,} bytes are no credentials")
    try:
        return held.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: this is not text") from None


def make_credential(origin: str, prefix: str, kind: str, text: str) -> OriginCredential:
    """A credential from what its file holds; InputError, which shows nothing of it, where that cannot be sent."""
    readers = {"bearer": _bearer, "basic": _basic, "header": _header, "cookie": _cookie}
    headers, secrets = readers[kind](text.strip("\r\n \t"))
    for value in headers.values():
        if not value.isascii() or not value.isprintable():
            raise InputError("it has characters that cannot be sent in a header")
    spellings = {spelt for secret in secrets for spelt in _spellings(secret)}
    return OriginCredential(origin, prefix, headers, tuple(sorted(spellings, key=lambda one: (-len(one), one))))


def _spellings(secret: str) -> set[str]:
    """A secret as it is, and as addresses, HTML and JSON write it."""
    if len(secret) < LIMITS.min_redacted:
        return set()
    in_url = {quote(secret, safe=""), quote_plus(secret), quote(secret)}
    lower = {re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), spelt) for spelt in in_url}
    in_html = html.escape(secret)
    in_json = json.dumps(secret)[1:-1]
    decimal = in_html.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    return {secret, *in_url, *lower, in_html, decimal, in_json, in_json.replace("/", "\\/")}


def _bearer(text: str) -> tuple[dict[str, str], list[str]]:
    if not re.fullmatch(r"[A-Za-z0-9._~+/=:-]+", text):
        raise InputError("it is not a token: write the token alone, without `Bearer` before it")
    return {"Authorization": f"Bearer {text}"}, [text]


def _basic(text: str) -> tuple[dict[str, str], list[str]]:
    user, colon, password = text.partition(":")
    if not user or not colon or "\n" in text:
        raise InputError("it is not a name and a password: write USER:PASSWORD on one line")
    packed = base64.b64encode(text.encode()).decode()
    return {"Authorization": f"Basic {packed}"}, [packed, password, text]


def _header(text: str) -> tuple[dict[str, str], list[str]]:
    headers: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not value or not _HEADER_NAME.fullmatch(name):
            raise InputError("it is not a header: write NAME: VALUE, one a line")
        if name.lower() in _OUR_HEADERS:
            raise InputError(f"the header {name} is crawld's own")
        headers["Cookie" if name.lower() == "cookie" else name] = value
    if not headers:
        raise InputError("it is empty")
    words = [word for value in headers.values() for word in value.split() if len(word) > LIMITS.min_redacted]
    return headers, [*headers.values(), *words]


def _cookie(text: str) -> tuple[dict[str, str], list[str]]:
    """A Cookie header, or a file of cookies as browsers and curl export it, one a line in seven columns."""
    pairs: list[tuple[str, str]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        columns = line.removeprefix("#HttpOnly_").split("\t")
        if len(columns) == 7:
            pairs.append((columns[5], columns[6]))
        elif not line.startswith("#"):
            for pair in line.removeprefix("Cookie:").split(";"):
                name, equals, value = (part.strip() for part in pair.partition("="))
                if not equals or not _HEADER_NAME.fullmatch(name):
                    raise InputError("it is not a cookie: write NAME=VALUE; NAME=VALUE")
                pairs.append((name, value))
    if not pairs:
        raise InputError("it is empty")
    header = "; ".join(f"{name}={value}" for name, value in pairs)
    return {"Cookie": header}, [header, *(value for _, value in pairs)]
