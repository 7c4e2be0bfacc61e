"""What a page's URL must look like, and who is asked for it."""

import re
from functools import lru_cache

from yarl import URL

from crawld.errors import InputError

LONGEST_URL = 8_000
DEFAULT_PORTS = {"http": 80, "https": 443}
_UNWANTED = re.compile(r"[\x00-\x20\x7f]")
# What most lists and sitemaps are made of is spelt as it should be, and need not be taken apart to see it.
_NAME, _SEGMENT = r"[a-z][a-z0-9]*(?:[.-][a-z0-9]+)*", r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*"
_PLAIN = re.compile(rf"https?://{_NAME}/(?:{_SEGMENT}/)*(?:{_SEGMENT})?(?:\?[A-Za-z0-9_.~=&-]+)?")


def normalise(text: str) -> str:
    """One spelling per page: scheme and host in lower case, no default port, no fragment, a path.

    The parser is the HTTP client's own, so what was checked here is what is asked for later.
    The query is never sorted or trimmed: servers may tell its spellings apart.
    """
    text = text.strip()
    if len(text) > LONGEST_URL:
        raise InputError(f"URL of {len(text):,} characters (at most {LONGEST_URL:,})")
    if _PLAIN.fullmatch(text):
        return text
    if _UNWANTED.search(text):
        raise InputError("URL with a space or a control character inside")
    return _taken_apart(text)


def _taken_apart(text: str) -> str:
    try:
        url = URL(text)
        host, port = url.host, url.port
    except ValueError as error:
        raise InputError(f"not a URL: {error}") from None
    if not url.scheme:
        raise InputError("no http:// or https:// in front")
    if url.scheme not in DEFAULT_PORTS:
        raise InputError(f"scheme {url.scheme!r}: only http and https are crawled")
    if not host or host == ".":
        raise InputError("URL without a host")
    if url.user is not None or url.password is not None:
        raise InputError("URL with a user name or password inside")
    if port is None or not 0 < port < 65536:
        raise InputError("URL with an impossible port")
    return f"{url.scheme}://{_authority(url)}{url.raw_path_qs or '/'}"


def _authority(url: URL) -> str:
    name = url.raw_host or ""
    if ":" in name:
        name = f"[{name}]"
    return name if url.port == DEFAULT_PORTS[url.scheme] else f"{name}:{url.port}"


@lru_cache(maxsize=50_000)
def host_of(url: str) -> str:
    """The host that is asked for a normalised URL: its name, with the port where it is not the scheme's own."""
    return _authority(URL(url))


@lru_cache(maxsize=50_000)
def origin_of(url: str) -> str:
    """Scheme and authority of a normalised URL: where its robots.txt lies."""
    parsed = URL(url)
    return f"{parsed.scheme}://{host_of(url)}"
