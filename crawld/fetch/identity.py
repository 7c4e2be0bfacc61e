"""Who we say we are: one set of headers on every request, with a way to reach the operator."""

import re

from crawld import __version__
from crawld.model.errors import InputError

_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_PRODUCT = re.compile(rf"{_WORD}(?:/{_WORD})?(?:\s|$)")
_CONTACT = re.compile(r"https?://[^\s/]+\.[^\s]+|[^\s@()<>]+@[^\s@()<>]+")
ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def user_agent(contact: str) -> str:
    """The User-Agent for a contact (a URL or an e-mail address)."""
    return check_user_agent(f"crawld/{__version__} (+{contact.strip()})")


def check_user_agent(text: str) -> str:
    """The User-Agent as it will be sent; InputError where a server's operator could not tell who asks."""
    text = text.strip()
    if not text:
        raise InputError("the user agent is empty: write one like crawld/1.0 (+https://example.org/bot)")
    if len(text) > 256:
        raise InputError(f"the user agent has {len(text)} characters: at most 256 are polite")
    if not text.isascii() or not text.isprintable():
        raise InputError("the user agent has characters that cannot be sent in a header: use printable ASCII")
    if not _PRODUCT.match(text):
        raise InputError(f"the user agent {text!r} does not begin with a name, like crawld/1.0")
    if not _CONTACT.search(text):
        raise InputError(
            f"the user agent {text!r} names no contact: add a URL or an e-mail address, like (+https://example.org/bot)"
        )
    return text


def product_token(agent: str) -> str:
    """The name that robots.txt groups are matched against: `crawld` of `crawld/1.0 (+…)`."""
    return re.split(r"[/\s]", agent, maxsplit=1)[0]
