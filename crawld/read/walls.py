"""Answers that turn a crawler away instead of bringing a page: walls of delivery networks, logins, payment, the law.

A wall is recognised by what its network documents or always sends: a header that nothing else sends, or parts of the
markup of its challenge page. Beside a 4xx the markup, or the words of a refusal, are enough. Beside a 5xx words count
under the title of a refusal alone: networks put their name on errors of the site, too. Beside a 200 the page must also
have little text of its own, so that an article about walls, which quotes their marks, stays an article; scripts that a
network puts into every page are no marks.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import re2

from crawld.model.fetched import Trouble


@dataclass(frozen=True)
class WallsLimits:
    """Numbers that bound and tune this module."""

    max_wall: int = 120_000
    """Bytes of a page that may be a wall: challenge pages are some hundred to some ten thousand bytes long."""
    max_wall_text: int = 900
    """Letters that a reader of a wall sees at most; short articles have more, the longest challenge pages less."""
    max_refusal_text: int = 600
    """The same of a refusal that is known by its title and words, and by no markup."""


LIMITS = WallsLimits()


LOGIN_WORDS = frozenset(
    {"login", "log-in", "log_in", "logon", "signin", "sign-in", "sign_in", "wp-login.php", "login.php", "login.aspx",
     "login.jsp", "login.html", "login.action", "signin.html"}
)  # fmt: skip
"""Parts of a path that a page for logging in has,"""
SSO_WORDS = frozenset({"saml", "saml2", "sso", "openid", "openid-connect", "authenticate", "authorize"})
"""and those that have others too, where no query follows."""
LOGIN_HOSTS = ("login.", "signin.", "sso.", "auth.", "accounts.", "idp.")


@dataclass(frozen=True, slots=True)
class _Network:
    """The marks of one network: a decisive header, markup of challenges, and words of refusals.

    `refusal` are words that count beside a 4xx, or below the title of a refusal; `header` is a name and what its value
    begins with.
    """

    name: str
    header: tuple[tuple[str, str], ...]
    challenge: bytes
    refusal: bytes = b""


NETWORKS = (
    _Network(
        "Cloudflare",
        (("cf-mitigated", "challenge"), ("cf-mitigated", "block")),
        rb"_cf_chl_opt|cdn-cgi/challenge-platform/h/[a-z]/orchestrate|cf-browser-verification|__cf_chl_|cf_captcha_kind"
        rb"|jschl[_-]answer|jschl_vc",
        rb"<title>Just a moment\.\.\.|<title>Attention Required! \| Cloudflare|Sorry, you have been blocked"
        rb"|cf-error-code\">10(?:0[678]|1[0-35]|20)<",
    ),
    _Network(
        "Akamai",
        (("akamai-bot-challenge", ""),),
        rb"[?&]bm-verify=|_sec/cp_challenge|_sec/verify\?provider=|sec-if-cpt-container|sec-cpt-if",
        rb"errors(?:\.|&#46;)edgesuite(?:\.|&#46;)net|Reference(?: |&#32;)(?:#|&#35;)[0-9a-f]+(?:\.|&#46;)[0-9a-f]+",
    ),
    _Network(
        "AWS WAF",
        (("x-amzn-waf-action", "challenge"), ("x-amzn-waf-action", "captcha")),
        rb"window\.gokuProps|awsWafCookieDomainList|\.captcha-sdk\.awswaf\.com|AwsWafIntegration\.(?:checkForceRefresh|saveReferrer)",
        rb"\.token\.awswaf\.com",
    ),
    _Network(
        "DataDome",
        (("x-dd-b", ""),),
        rb"captcha-delivery\.com/|var dd ?= ?\{'rt'|var dd=\{\"rt\"",
        rb"datadome",
    ),
    _Network(
        "Imperva",
        (),
        rb"_Incapsula_Resource\?(?:SWUDNSAI|CWUDNSAI|SWCGHOEL)|Incapsula incident ID|incident_id=[0-9]+-[0-9]+",
        rb"Pardon Our Interruption|_Incapsula_Resource",
    ),
    _Network(
        "HUMAN",
        (("x-px-captcha", ""), ("x-px-block", "")),
        rb"id=[\"']?px-captcha|captcha\.px-c(?:dn|loud)\.net|window\._pxBlockScript|_pxBlockedUrl|px-block-form",
        rb"Access to this page has been denied|_pxAppId|perimeterx\.net",
    ),
    _Network(
        "Fastly",
        (("x-sigsci-action", "challenge"),),
        rb"/_fs-ch-[A-Za-z0-9]+/|<title>Client Challenge</title>",
    ),
    _Network(
        "Vercel",
        (("x-vercel-mitigated", "challenge"), ("x-vercel-mitigated", "deny")),
        rb"vercel/security/(?:request-challenge|static/challenge)|<title>Vercel Security Checkpoint",
    ),
    _Network(
        "Kasada",
        (("x-kpsdk-r", ""),),
        rb"/ips\.js\?(?:[^\"'> ]*&)?x-kpsdk-|KPSDK\.scriptStart|KPSDK={}",
        rb"kpsdk",
    ),
    _Network(
        "Sucuri",
        (("x-sucuri-block", ""),),
        rb"sucuri_cloudproxy_js|sucuri\.net/privacy-policy\?waf",
        rb"Sucuri WebSite Firewall|Sucuri Website Firewall",
    ),
    _Network(
        "Anubis",
        (),
        rb"/\.within\.website/x/(?:cmd/anubis|xess)|id=[\"']?anubis_(?:challenge|version)",
    ),
    _Network("DDoS-Guard", (), rb"/\.well-known/ddos-guard/|<title>DDoS-Guard</title>"),
    _Network("Azure", (("x-azure-jschallenge", ""),), rb"azwaf_jsclearance|/azwaf/jschallenge"),
)  # fmt: skip
_QUIET = re2.Options()
_QUIET.log_errors = False
_HEADERS = {name: network for network in NETWORKS for name, _ in network.header}
_CHALLENGE = re2.compile(b"|".join(network.challenge for network in NETWORKS), _QUIET)
_CHALLENGES = {network.name: re2.compile(network.challenge, _QUIET) for network in NETWORKS}
_REFUSALS = {
    network.name: re2.compile(b"|".join(filter(None, (network.challenge, network.refusal))), _QUIET)
    for network in NETWORKS
}
_GEO = re2.compile(rb"(?i)cf-error-code\">1009<|country or region[^<]{0,40}(?:banned|blocked)", _QUIET)
# Neither goes back: an element that never ends is taken to the end.
_UNSEEN = re.compile(
    rb"<(?:!--(?:[^-]++|-(?!->))*+(?:-->)?+|(?:script|style|template|title)\b(?:[^<]++|<(?!/(?:script|style|template|title)\b))*+"
    rb"|[^<>]*+>?+)",
    re.IGNORECASE,
)
_MARKUP = re.compile(rb"<(?:(?:title|script)\b(?:[^<]++|<(?!/(?:title|script)\b))*+|[^<>]*+>?+)", re.IGNORECASE)
_DENIAL_TITLE = (
    rb"(?i:<title>\s*(?:access denied|attention required!|just a moment\.\.\.|pardon our interruption"
    rb"|access to this page has been denied|request unsuccessful|human verification|sucuri website firewall))"
)
_DENIAL = re2.compile(_DENIAL_TITLE, _QUIET)
_SUSPECT = re2.compile(b"|".join([*(network.challenge for network in NETWORKS), _DENIAL_TITLE]), _QUIET)
"""Either of them: ordinary pages are read once."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,30}")


def turned_away(status: int, headers: Mapping[str, str], body: bytes) -> tuple[Trouble, str] | None:
    """The trouble of an answer that turns us away and a few words on it; None where it does not.

    `headers` are by lower-case name.
    """
    if 400 <= status < 500 and _GEO.search(body):
        return Trouble.GEO_BLOCKED, f"refused in this country (status {status})"
    if (network := _wall(status, headers, body)) is not None:
        return Trouble.BOT_WALL, f"challenge of {network} (status {status})"
    if status == 401:
        scheme = _SCHEME.match(headers.get("www-authenticate", ""))
        return Trouble.LOGIN_REQUIRED, "status 401" + (f", asks for {scheme[0]}" if scheme else "")
    if status == 402:
        price = headers.get("crawler-price", "")[:60]
        return Trouble.PAYMENT_REQUIRED, "status 402" + (f", asks for {price}" if price.isprintable() and price else "")
    if status == 403:
        return Trouble.FORBIDDEN, "status 403"
    if status == 451:
        return Trouble.GEO_BLOCKED, "status 451"
    return None


def _wall(status: int, headers: Mapping[str, str], body: bytes) -> str | None:
    """The network whose wall an answer is."""
    for name in _HEADERS.keys() & headers.keys():
        for header, begin in _HEADERS[name].header:
            if header == name and headers[name].strip().lower().startswith(begin):
                return _HEADERS[name].name
    if 400 <= status < 500:
        if headers.get("x-datadome") and headers.get("server", "").lower() == "datadome":
            return "DataDome"
        return _named(_REFUSALS, body)
    if len(body) > LIMITS.max_wall:
        return None
    if _SUSPECT.search(body) is None:
        return None
    if _CHALLENGE.search(body) is not None:
        markup = b"\n".join(found[0] for found in _MARKUP.finditer(body)) + _incident(body)
        found = _named(_CHALLENGES, markup)
        if found is not None and (status >= 500 or len(_visible(body)) <= LIMITS.max_wall_text):
            return found
    if _DENIAL.search(body) is not None and len(_visible(body)) <= LIMITS.max_refusal_text:
        return _named(_REFUSALS, body)
    return None


def _named(marks: Mapping[str, Any], text: bytes) -> str | None:
    return next((name for name, mark in marks.items() if mark.search(text)), None)


def _incident(body: bytes) -> bytes:
    """The one mark that its network shows to readers."""
    return b"Incapsula incident ID" if b"_Incapsula_Resource" in body and b"Incapsula incident ID" in body else b""


def _visible(body: bytes) -> bytes:
    """The text that a reader sees, roughly."""
    return b" ".join(_UNSEEN.sub(b" ", body).split())


def is_login(url: str) -> bool:
    """Whether an address is one for logging in, by its path or host."""
    parts = urlsplit(url)
    words = parts.path.lower().split("/")
    if not LOGIN_WORDS.isdisjoint(words) or any(word.endswith("-login") for word in words):
        return True
    host = (parts.hostname or "").lower()
    return parts.query != "" and (host.startswith(LOGIN_HOSTS) or not SSO_WORDS.isdisjoint(words))
