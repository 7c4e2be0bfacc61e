"""The spellings under which a URL and the patterns of a robots.txt are compared: RFC 9309 section 2.2.2.

Everything here is linear in the text, and asked for every URL: tables instead of a callback for each character.
"""

import re

_PLAIN = re.compile(r"[A-Za-z0-9_.~/?&=-]*")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.~/?&=%-]")
_PATH = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://[^/?#]*)?([^#]*)")
_HEX = "0123456789ABCDEFabcdef"
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_KEPT = _UNRESERVED | frozenset("/?&=%")
_ESCAPED = tuple(f"%{octet:02X}" for octet in range(256))
_SAFE = {code: _ESCAPED[code] for code in range(128) if chr(code) not in _KEPT}
_SAFE_PATTERN = {code: escape for code, escape in _SAFE.items() if chr(code) != "*"}
_RESPELT = {  # by the two digits of an escape
    high + low: chr(int(high + low, 16)) if chr(int(high + low, 16)) in _UNRESERVED else f"%{high}{low}".upper()
    for high in _HEX
    for low in _HEX
}


def path_of(url: str) -> str:
    """Path and query of a URL, without its fragment."""
    match = _PATH.match(url)
    path = match[1] if match else ""
    return path if path.startswith("/") else f"/{path}"


def weight_of(pattern: str) -> int:
    """How long a pattern is, for the rule that the longest decides: an escape counts as what it stands for."""
    return len(_decoded(pattern, stray="%"))


def forms_of(text: str, *, pattern: bool = False) -> tuple[str, ...]:
    """The spellings of a path or pattern under which it is compared, all ASCII: one, rarely two.

    Reserved characters are escaped, but for those that divide a URL: an escaped slash is no slash. In a query they
    divide nothing, and `?to=https://a` is `?to=https%3A%2F%2Fa`, so a query with an escaped slash has both spellings.
    """
    if _PLAIN.fullmatch(text):
        return (text,)
    text = _decoded(text, stray="%25")
    if _UNSAFE.search(text):
        text = text.translate(_SAFE_PATTERN if pattern else _SAFE)
    path, mark, query = text.partition("?")
    return (text, f"{path}?{query.replace('%2F', '/')}") if mark and "%2F" in query else (text,)


def _decoded(text: str, *, stray: str) -> str:
    """The text with octets beyond ASCII escaped, and escapes of unreserved characters decoded.

    A `stray` percent sign, one that begins no escape, is spelt as given.
    """
    if not text.isascii():
        text = _BEYOND_ASCII.sub(_escaped, text)
    if "%" not in text:
        return text
    head, *rest = text.split("%")
    respelt, parts = _RESPELT, [head]
    for part in rest:
        spelt = respelt.get(part[:2])
        parts.append(stray + part if spelt is None else spelt + part[2:])
    return "".join(parts)


def _escaped(run: re.Match[str]) -> str:
    """Every octet as an escape; those that were not UTF-8 came as lone surrogates, and other halves are `?`."""
    try:
        raw = run[0].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        octets = (
            one.encode("utf-8", "surrogateescape" if "\udc80" <= one <= "\udcff" else "replace") for one in run[0]
        )
        raw = b"".join(octets)
    return "".join([_ESCAPED[octet] for octet in raw])
