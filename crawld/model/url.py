"""URLs: what is sent for one (its target), which spellings mean the same page (its identity), and who is asked.

The target is what a browser would send: the WHATWG serialisation, without the fragment. See docs/decisions/urls.md.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from string import ascii_letters, digits
from typing import NamedTuple

from ada_url import join_url, normalize_url

from crawld.model.errors import InputError

MAX_URL = 8_000


class UrlSyntax(NamedTuple):
    """Bounds and patterns of what people write as a URL."""

    max_name: int = 253
    max_label: int = 63
    """Characters of a host and of a part of it, as DNS sets them."""
    max_authority: int = 1_000
    """Characters of a host as it is written, escapes included: encoding a name takes time that grows by its square."""
    control: re.Pattern[str] = re.compile(r"[\x00-\x1f\x7f]")
    breaks: re.Pattern[str] = re.compile(r"[\t\r\n]+")
    no_host: re.Pattern[str] = re.compile(r"https?:[/\\]{2,}([/\\?#]|$)", re.IGNORECASE)
    scheme: re.Pattern[str] = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
    host_and_port: re.Pattern[str] = re.compile(r"(\[.*\]|.*?)(?::([^:\]]*))?", re.DOTALL)
    authority: re.Pattern[str] = re.compile(r"(https?)://([^/]*)/")
    written_authority: re.Pattern[str] = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:[/\\]*|[/\\]{2,})([^/\\?#]*)")
    plain: re.Pattern[str] = re.compile(
        r"(https?://[a-z0-9.:-]+)(?:/(?:[\w%~!$&'()*+,;=:@-][\w%~!$&'()*+,;=:@.-]*)?)+(?:\?[\w%~!$&()*+,;=:@./?-]*)?",
        re.ASCII,
    )
    """Most URLs are spelt as their target already: the parser leaves these characters as they are where no segment
    begins with a dot. Whether an origin is spelt as the parser spells it is asked once for all URLs of a site."""
    escaped_dot: re.Pattern[str] = re.compile("%2[eE]")
    """A segment may consist of them."""
    plain_origin: re.Pattern[str] = re.compile(r"(?=.{1,70}$)https?://(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)*[a-z]+")
    """No label that is encoded, none that could be part of an address, and too short for a label that is too long."""
    user_info: re.Pattern[str] = re.compile(r"^([\w+.-]*:?/*)([^:/@]*):(.*)@", re.DOTALL)
    secret: re.Pattern[str] = re.compile(
        r"((?:password|passwd|pwd|sslpassword|passphrase|token|secret)=)[^&\s]*", re.IGNORECASE
    )


SYNTAX = UrlSyntax()

# RFC 3986 says that an unreserved character equals its escape and that the case of hex digits means nothing (6.2.2).
# What it does not allow in a URL at all can only mean its escape.
_NOT_ALLOWED = '"<>\\^`{|}'
_SUSPECT = re.compile(f"[%{re.escape(_NOT_ALLOWED)}]")
_SPELT_TWICE = re.compile(f"%[0-9A-Fa-f]{{2}}|[{re.escape(_NOT_ALLOWED)}]")
_ONE_SPELLING = {character: f"%{ord(character):02X}" for character in _NOT_ALLOWED} | {
    f"%{high}{low}": chr(code)
    if chr(code := int(high + low, 16)) in f"{ascii_letters}{digits}-._~"
    else f"%{high}{low}".upper()
    for high in "0123456789abcdefABCDEF"
    for low in "0123456789abcdefABCDEF"
}


def normalise(text: str) -> str:
    """The target of an absolute URL as a person writes it; InputError says why there is none.

    Parsing changes what every browser changes (case and encoding of the host, default port, dot segments, characters
    that cannot be sent as they are). Escapes, and everything else, stay as they were given.
    """
    return _target(text.strip(), "")


def normalise_given(text: str) -> str:
    """The same of a URL that a person or program gave by itself: what is wrong with it begins with the URL."""
    try:
        return normalise(text)
    except InputError as error:
        raise InputError(f"{_shown(text)}: {error}") from None


def resolve(link: str, base: str) -> str:
    """The target of a link found in the file or answer at `base`; line breaks inside the link say nothing."""
    return _target(SYNTAX.breaks.sub("", link).strip(), base)


def identity(url: str) -> str:
    """Returns what all spellings of one page have in common, given a target: it is a target of the same page too."""
    if _SUSPECT.search(url) is None:
        return url
    path = url.index("/", len("https://"))
    return url[:path] + _SPELT_TWICE.sub(lambda found: _ONE_SPELLING[found[0]], url[path:])


def host_of_target(target: str) -> str:
    """The host of a URL that is a target already: no parsing, however the name is encoded."""
    return target.split("/", 3)[2]


def host_of(url: str) -> str:
    """The host that is asked for a URL: its name, with the port where it is not the scheme's own."""
    return origin_of(url).partition("//")[2]


def origin_of(url: str) -> str:
    """Scheme and authority of a URL: where its robots.txt is. Origins are remembered, not URLs, which can be long."""
    end = url.find("/", len("https://"), 310)  # what is longer is parsed, and not remembered
    if end > 0 and _is_origin(url[:end]):
        return url[:end]
    scheme, _, host, _ = normalise(url).split("/", 3)
    return f"{scheme}//{host}"


def _target(text: str, base: str) -> str:
    if len(text) > MAX_URL:
        raise InputError(f"URL of {len(text):,} characters (at most {MAX_URL:,})")
    plain = SYNTAX.plain.fullmatch(text)
    if plain and not ("%2" in text and SYNTAX.escaped_dot.search(text)) and _is_origin(plain[1]):
        return text
    return _parsed(text, base)


@lru_cache(maxsize=10_000)
def _is_origin(text: str) -> bool:
    """Tells whether scheme, host and port are spelt as the parser spells them."""
    if SYNTAX.plain_origin.fullmatch(text):
        return True
    try:
        return _parsed(text, "") == f"{text}/"
    except InputError:
        return False


def _parsed(text: str, base: str) -> str:
    """The target by way of the WHATWG parser, within our own limits."""
    if SYNTAX.control.search(text):
        raise InputError("URL with a control character inside")
    if SYNTAX.no_host.match(text):  # browsers would take the first segment of the path for a host
        raise InputError("URL without a host")
    written = SYNTAX.written_authority.match(text)
    if written and len(written[1]) > SYNTAX.max_authority:
        raise InputError(f"host {_shown(written[1])} cannot be a name: it has {len(written[1]):,} characters")
    try:
        parsed = join_url(base, text) if base else normalize_url(text)
    except ValueError:
        raise InputError(_reason(text)) from None
    target = parsed.partition("#")[0]
    found = SYNTAX.authority.match(target)
    if found is None:
        raise InputError(f"scheme {parsed.partition(':')[0]!r}: only http and https are crawled")
    _check_authority(found[2])
    if len(target) > MAX_URL:
        raise InputError(f"URL of {len(target):,} characters when encoded (at most {MAX_URL:,})")
    return target


def _check_authority(authority: str) -> None:
    """InputError for what is a URL, but not one that we ask."""
    if "@" in authority:
        raise InputError("URL with a user name or password inside")
    if authority.endswith(":0"):
        raise InputError("URL with an impossible port")
    if authority.startswith("["):
        return
    name = authority.partition(":")[0].removesuffix(".")
    if len(name) > SYNTAX.max_name or not all(0 < len(label) <= SYNTAX.max_label for label in name.split(".")):
        limits = f"at most {SYNTAX.max_name} characters, in parts of 1 to {SYNTAX.max_label}"
        raise InputError(f"host {_shown(authority)} cannot be a name: a name has {limits}")


def _reason(text: str) -> str:
    """Finds why the parser refuses a URL, which it does not say."""
    scheme = SYNTAX.scheme.match(text)
    if scheme is None:
        return "no http:// or https:// in front"
    if scheme[1].lower() not in {"http", "https"}:
        return f"scheme {scheme[1]!r}: only http and https are crawled"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "URL with half a character inside"
    authority = re.split(r"[/\\?#]", text[scheme.end() :].lstrip("/\\"), maxsplit=1)[0].rpartition("@")[2]
    host, port = SYNTAX.host_and_port.fullmatch(authority).groups()  # type: ignore[union-attr]  # it matches any text
    if not host:
        return "URL without a host"
    if port and not (re.fullmatch(r"0*[0-9]{1,5}", port) and int(port[-5:]) < 65536):
        return f"URL with an impossible port: {_shown(port)}"
    return f"host {_shown(host)} is neither a name nor an address"


def _shown(part: str) -> str:
    return repr(part if len(part) <= 80 else f"{part[:77]}...")


def without_password(url: str) -> str:
    """A database's URL, however badly it is written, with *** in place of what may be a password.

    Everything between the user and the last @ counts as one: a password may hold any character.
    """
    return SYNTAX.secret.sub(r"\1***", SYNTAX.user_info.sub(r"\1\2:***@", url))


@dataclass(frozen=True)
class UrlPattern:
    """A URL in which `*` stands for anything, as an operator writes it; without `://` it fits both schemes."""

    text: str = "*"

    @cached_property
    def _parts(self) -> list[str]:
        return self.text.split("*")

    def fits(self, url: str) -> bool:
        """Tells whether the URL is one of those that the pattern means."""
        if "://" not in self.text and not self.text.startswith("*"):
            url = url.partition("://")[2]
        first, *rest = self._parts
        if not rest:
            return url == first
        *middle, last = rest
        if not url.startswith(first) or not url.endswith(last) or len(url) < len(first) + len(last):
            return False
        at, end = len(first), len(url) - len(last)
        for part in middle:
            at = url.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True
