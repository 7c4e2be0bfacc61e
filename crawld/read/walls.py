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
from typing import Any, ClassVar
from urllib.parse import urlsplit

from crawld.model.fetched import Trouble
from crawld.read.page.rules import compile_linear


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
        rb"|jschl[_-]answer|jschl_vc|data-translate=[\"']?block_headline",
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


class _Marks:
    """Patterns of walls and refusals: RE2 for the marks, and two that never go back for the markup around them."""

    networks: ClassVar[dict[str, _Network]] = {name: network for network in NETWORKS for name, _ in network.header}
    challenges: ClassVar[dict[str, Any]] = {network.name: compile_linear(network.challenge) for network in NETWORKS}
    refusals: ClassVar[dict[str, Any]] = {
        network.name: compile_linear(b"|".join(filter(None, (network.challenge, network.refusal))))
        for network in NETWORKS
    }
    denial_title = (
        rb"(?i:<title>\s*(?:access denied|attention required!|just a moment\.\.\.|pardon our interruption"
        rb"|access to this page has been denied|request unsuccessful|human verification|sucuri website firewall"
        + "|zugriff verweigert|accès refus|acceso denegado|accesso negato|acesso negado|toegang geweigerd"
        "|odmowa dostępu|доступ запрещ|アクセスが拒否|访问被拒绝|액세스가 거부".encode()
        + rb"))"
    )
    denial = compile_linear(denial_title)
    challenge = compile_linear(b"|".join(network.challenge for network in NETWORKS))
    suspect = compile_linear(b"|".join([*(network.challenge for network in NETWORKS), denial_title]))
    """Either of the two: ordinary pages are read once."""
    geo_block = compile_linear(rb"(?i)cf-error-code\">1009<|country or region[^<]{0,40}(?:banned|blocked)")
    unseen = re.compile(
        rb"<(?:!--(?:[^-]++|-(?!->))*+(?:-->)?+|(?:script|style|template|title)\b(?:[^<]++|<(?!/(?:script|style|template|title)\b))*+"
        rb"|[^<>]*+>?+)",
        re.IGNORECASE,
    )
    markup = re.compile(rb"<(?:(?:title|script)\b(?:[^<]++|<(?!/(?:title|script)\b))*+|[^<>]*+>?+)", re.IGNORECASE)


def turned_away(status: int, headers: Mapping[str, str], body: bytes) -> tuple[Trouble, str] | None:
    """The trouble of an answer that turns us away and a few words on it; None where it does not.

    `headers` are by lower-case name.
    """
    if 400 <= status < 500 and _Marks.geo_block.search(body):
        return Trouble.GEO_BLOCKED, f"refused in this country (status {status})"
    if (network := _wall(status, headers, body)) is not None:
        return Trouble.BOT_WALL, f"challenge of {network} (status {status})"
    if status == 401:
        scheme = re.match(r"[A-Za-z][A-Za-z0-9-]{0,30}", headers.get("www-authenticate", ""))
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
    for name in _Marks.networks.keys() & headers.keys():
        for header, begin in _Marks.networks[name].header:
            if header == name and headers[name].strip().lower().startswith(begin):
                return _Marks.networks[name].name
    if 400 <= status < 500:
        if headers.get("x-datadome") and headers.get("server", "").lower() == "datadome":
            return "DataDome"
        return _named(_Marks.refusals, body)
    if not body or len(body) > LIMITS.max_wall:
        return None
    if _Marks.suspect.search(body) is None:
        return None
    if _Marks.challenge.search(body) is not None:
        markup = b"\n".join(found[0] for found in _Marks.markup.finditer(body))
        incident = b"Incapsula incident ID"  # the one mark that its network shows to readers
        if b"_Incapsula_Resource" in body and incident in body:
            markup += incident
        found = _named(_Marks.challenges, markup)
        if found is not None and (status >= 500 or len(_visible(body)) <= LIMITS.max_wall_text):
            return found
    if _Marks.denial.search(body) is not None and len(_visible(body)) <= LIMITS.max_refusal_text:
        return _named(_Marks.refusals, body)
    return None


def _named(marks: Mapping[str, Any], text: bytes) -> str | None:
    return next((name for name, mark in marks.items() if mark.search(text)), None)


def _visible(body: bytes) -> bytes:
    """The text that a reader sees, roughly."""
    return b" ".join(_Marks.unseen.sub(b" ", body).split())


def is_login(url: str) -> bool:
    """Tells whether an address is one for logging in, by its path or host."""
    login = re.compile(
        r"log[-_]?in|logon|sign[-_]?in|wp-login\.php|login\.(?:php|aspx|jsp|html|action)|signin\.html|.*-login",
        re.DOTALL,
    )
    single_sign_on = {"saml", "saml2", "sso", "openid", "openid-connect", "authenticate", "authorize"}
    parts = urlsplit(url)
    words = parts.path.lower().split("/")
    if any(map(login.fullmatch, words)):
        return True
    hosts = ("login.", "signin.", "sso.", "auth.", "accounts.", "idp.")
    host = (parts.hostname or "").lower()  # other pages have such names too, but no query follows these
    return parts.query != "" and (host.startswith(hosts) or not single_sign_on.isdisjoint(words))
