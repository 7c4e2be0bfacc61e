"""Which answers turn a crawler away, and which only speak of it."""

import pytest

from crawld.model.fetched import Trouble
from crawld.read.walls import LIMITS as WALLS_LIMITS
from crawld.read.walls import is_login, turned_away
from tests.support.walls import BLOCKED, BY_HEADER, CLOUDFLARE, DENIED, NO_WALLS, UNAVAILABLE, WALLS, plain


@pytest.mark.parametrize("status", [403, 503, 200, 429])
@pytest.mark.parametrize("network", WALLS)
def test_challenge_pages_are_named(network: str, status: int) -> None:
    """The challenge page of each network is a bot wall that names the network, with whatever status it comes."""
    body, headers = WALLS[network]
    found = turned_away(status, plain(headers), body.encode())
    assert found == (Trouble.BOT_WALL, f"challenge of {network} (status {status})")


@pytest.mark.parametrize("status", [403, 503, 200])
@pytest.mark.parametrize(("network", "body"), [("Akamai", DENIED), ("Cloudflare", BLOCKED)])
def test_refusals_of_networks_are_named(network: str, body: str, status: int) -> None:
    """The page that a network refuses with is its wall too, known by its title and words."""
    assert turned_away(status, {}, body.encode()) == (Trouble.BOT_WALL, f"challenge of {network} (status {status})")


@pytest.mark.parametrize("status", [403, 503, 200])
@pytest.mark.parametrize(
    ("network", "english", "here"),
    [
        ("Akamai", DENIED, ("Access Denied", "Zugriff verweigert")),
        ("Akamai", DENIED, ("Access Denied", "アクセスが拒否されました")),
        ("Cloudflare", BLOCKED.replace("Attention Required! | Cloudflare", "example.org"), ("Sorry, you", "Vous")),
        ("Cloudflare", CLOUDFLARE, ("Just a moment...", "Nur einen Moment…")),
        ("HUMAN", WALLS["HUMAN"][0], ("Access to this page has been denied", "El acceso ha sido denegado")),
    ],
)
def test_walls_speak_other_languages(network: str, english: str, here: tuple[str, str], status: int) -> None:
    """The same page in the reader's language is the same wall."""
    body = english.replace(*here).encode()
    assert turned_away(status, {}, body) == (Trouble.BOT_WALL, f"challenge of {network} (status {status})")


def test_a_networks_error_page_is_an_error() -> None:
    """A site that is down behind a network is down, though the network signs the page."""
    assert turned_away(503, {"server": "AkamaiGHost"}, UNAVAILABLE.encode()) is None


@pytest.mark.parametrize("network", BY_HEADER)
def test_headers_alone_name_a_wall(network: str) -> None:
    """A header that only a challenge has is enough, also with a body that nobody knows."""
    assert turned_away(202, plain(BY_HEADER[network]), b"") == (
        Trouble.BOT_WALL,
        f"challenge of {network} (status 202)",
    )


@pytest.mark.parametrize("name", NO_WALLS)
def test_pages_about_walls_are_pages(name: str) -> None:
    """An article on walls, a short entry that quotes their marks and a page with a demonstration are no walls."""
    headers = {"Server": "cloudflare", "CF-RAY": "8f0-FRA", "X-CDN": "Imperva", "X-DataDome": "protected"}
    assert turned_away(200, plain(headers), NO_WALLS[name].encode()) is None


@pytest.mark.parametrize(
    ("status", "headers", "body", "trouble", "detail"),
    [
        (401, {"WWW-Authenticate": 'Basic realm="x"'}, "", Trouble.LOGIN_REQUIRED, "status 401, asks for Basic"),
        (402, {"crawler-price": "USD 0.01"}, "", Trouble.PAYMENT_REQUIRED, "status 402, asks for USD 0.01"),
        (403, {"Server": "nginx"}, "<h1>403 Forbidden</h1>", Trouble.FORBIDDEN, "status 403"),
        (451, {}, "", Trouble.GEO_BLOCKED, "status 451"),
        (
            403,
            {},
            '<span class="cf-error-code">1009</span>',
            Trouble.GEO_BLOCKED,
            "refused in this country (status 403)",
        ),
        (403, {}, '<span class="cf-error-code">1020</span>', Trouble.BOT_WALL, "challenge of Cloudflare (status 403)"),
    ],
)
def test_refusals_have_their_names(
    status: int, headers: dict[str, str], body: str, trouble: Trouble, detail: str
) -> None:
    """Statuses that turn us away are told apart, and a network's own refusal from the site's."""
    assert turned_away(status, plain(headers), body.encode()) == (trouble, detail)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_other_statuses_are_no_refusal(status: int) -> None:
    """An error of the server and a rate limit are not called a wall."""
    assert turned_away(status, {"server": "cloudflare"}, b"<h1>error</h1>") is None


def test_a_long_page_is_no_wall() -> None:
    """A page longer than any challenge is a page, and hostile markup does not make looking at it slow."""
    assert turned_away(200, {}, CLOUDFLARE.encode() + b" " * WALLS_LIMITS.max_wall) is None
    for piece in (b"<script ", b"<", b"<!--", b"<title>"):
        hostile = b"_cf_chl_opt" + piece * (110_000 // len(piece))
        turned_away(200, {}, hostile)


@pytest.mark.parametrize(
    ("url", "login"),
    [
        ("https://example.org/login?next=%2Fpage", True),
        ("https://example.org/users/sign_in", True),
        ("https://blog.example.org/wp-login.php?redirect_to=x", True),
        ("https://login.example.org/oauth2/authorize?client_id=1", True),
        ("https://example.org/realms/x/protocol/openid-connect/auth?state=1", True),
        ("https://example.org/docs/saml", False),
        ("https://example.org/articles/login-pages-considered", False),
        ("https://auth.example.org/", False),
        ("https://example.org/blog/sso-explained", False),
    ],
)
def test_login_pages_are_known_by_their_address(url: str, login: bool) -> None:
    """An address for logging in is known by a whole part of its path, or by its host; an article on logins is not."""
    assert is_login(url) is login
