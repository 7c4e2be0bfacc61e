"""Credentials: what their settings may say, where they are sent, and that they are shown nowhere."""

import os
from pathlib import Path
from typing import Any

import pytest

from crawld.fetch.credentials import Credentials, make_credential, read_secret_file
from crawld.main.checks import make_credentials
from crawld.main.settings import Settings, load
from crawld.model.errors import ConfigError, InputError
from crawld.model.fetched import Fetched, FetchFailed, Purpose, Redirected, Request, Scope, Trouble

ORIGIN, SECRET = "https://wiki.example.org", "t0ken-that-is-secret"


def held(kind: str = "bearer", text: str = SECRET, prefix: str = "/") -> Credentials:
    """One credential of the origin."""
    return Credentials([make_credential(ORIGIN, prefix, kind, text)])


def sent(credentials: Credentials, url: str, **more: Any) -> dict[str, str]:
    """The headers that go along with a request."""
    headers = dict(more.pop("headers", {}))
    credentials.add_to(headers, Request(url, "x", **more))
    return headers


@pytest.mark.parametrize(
    ("kind", "text", "headers"),
    [
        ("bearer", f"{SECRET}\n", {"Authorization": f"Bearer {SECRET}"}),
        ("basic", "robot:pass:word", {"Authorization": "Basic cm9ib3Q6cGFzczp3b3Jk"}),
        ("header", "X-Api-Key: k3y\nX-Team: red", {"X-Api-Key": "k3y", "X-Team": "red"}),
        ("cookie", "sid=1; lang=en", {"Cookie": "sid=1; lang=en"}),
        ("cookie", "# Netscape\n.example.org\tTRUE\t/\tTRUE\t0\tsid\t1\n", {"Cookie": "sid=1"}),
    ],
)
def test_each_kind_has_its_headers(kind: str, text: str, headers: dict[str, str]) -> None:
    """What a file holds is sent as its kind says, also cookies as browsers export them."""
    assert sent(held(kind, text), f"{ORIGIN}/a") == headers


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("bearer", "Bearer abc"),
        ("bearer", ""),
        ("basic", "nobody"),
        ("header", "no header"),
        ("header", "Host: elsewhere"),
        ("cookie", "nothing"),
        ("bearer", "a\r\nX-Injected: 1"),
        ("cookie", "a=b\x07c"),
    ],
)
def test_what_cannot_be_sent_is_refused_without_being_shown(kind: str, text: str) -> None:
    """A file that holds something else is refused in a sentence that shows nothing of it."""
    with pytest.raises(InputError) as refused:
        held(kind, text)
    words = [word for word in text.split() if len(word) > 8]
    assert not [word for word in words if word in str(refused.value)]


def test_only_the_origin_below_the_prefix_is_sent_to() -> None:
    """Another scheme, host, port, subdomain or path, and a chain that has left, get nothing."""
    below = held(prefix="/private/")
    assert sent(below, f"{ORIGIN}/private/a?b")
    for url in (
        f"{ORIGIN}/", f"{ORIGIN}/private", f"{ORIGIN}/privateer/a", f"{ORIGIN}/public?/private/",
        "http://wiki.example.org/private/a", "https://wiki.example.org:8443/private/a",
        "https://wiki.example.org.evil.net/private/a", "https://a.wiki.example.org/private/a",
    ):  # fmt: skip
        assert not sent(below, url), url
    assert not sent(below, f"{ORIGIN}/private/a", bare=True)
    assert not sent(below, f"{ORIGIN}/private/a", purpose=Purpose.PING)
    assert sent(held(), f"{ORIGIN}/robots.txt", purpose=Purpose.ROBOTS)


def test_the_longest_prefix_counts_and_cookies_are_joined() -> None:
    """Of two credentials for an address the closer one is sent; cookies of redirects stay beside those of the file."""
    near = make_credential(ORIGIN, "/a/", "cookie", "sid=near")
    both = Credentials([make_credential(ORIGIN, "/", "cookie", "sid=far"), near])
    assert sent(both, f"{ORIGIN}/a/b", headers={"Cookie": "seen=1"}) == {"Cookie": "sid=near; seen=1"}
    assert sent(both, f"{ORIGIN}/b") == {"Cookie": "sid=far"}


def test_what_an_answer_repeats_is_taken_out() -> None:
    """Bodies, headers and details lose the secret in every spelling, and a redirect that repeats it is trouble."""
    password = "p&ss/word-of-mine"
    credentials, asked = held("basic", f"robot:{password}"), Request(f"{ORIGIN}/a", "x")
    body = f"{password} p%26ss%2Fword-of-mine p&amp;ss/word-of-mine cm9ib3Q6cCZzcy93b3JkLW9mLW1pbmU=".encode()
    answer = credentials.redact(asked, Fetched(asked.url, 200, body, {"etag": f'"{password}"'}))
    assert isinstance(answer, Fetched)
    assert (answer.body, answer.headers) == (b" ".join([b"[credential]"] * 4), {"etag": '"[credential]"'})
    failed = FetchFailed(asked.url, Trouble.BAD_REDIRECT, Scope.PAGE, f"redirect to {password!r}")
    assert credentials.redact(asked, failed) == failed._replace(detail="redirect to '[credential]'")
    led = credentials.redact(asked, Redirected(asked.url, 302, "https://evil.net/?p=p%26ss%2Fword-of-mine"))
    assert isinstance(led, FetchFailed)
    assert "evil" not in led.detail
    renewed = held("basic", "robot:another-password")
    renewed.retire(credentials)
    assert renewed.redact(asked, answer) == answer
    assert password.encode() not in getattr(renewed.redact(asked, Fetched(asked.url, 200, body)), "body", b"")
    assert password not in repr(credentials) + repr(make_credential(ORIGIN, "/", "basic", f"robot:{password}"))


@pytest.mark.parametrize(
    "repeated",
    ["p&ss\\/w'rd-of-mine", "p%26ss%2fw%27rd-of-mine", "p&amp;ss/w&#39;rd-of-mine", "p&amp;ss/w&#x27;rd-of-mine"],
)
def test_a_secret_is_known_in_every_spelling(repeated: str) -> None:
    """JSON, addresses and HTML write it in their ways, pages in UTF-16 too, and hosts of redirects in lower case."""
    credentials, asked = held("basic", "Robot:p&ss/w'rd-of-mine"), Request(f"{ORIGIN}/a", "x")
    for charset in ("utf-8", "utf-16-le", "utf-16-be"):
        answer = credentials.redact(asked, Fetched(asked.url, 200, f"<p>{repeated}</p>".encode(charset)))
        assert isinstance(answer, Fetched)
        assert answer.body.decode(charset) == "<p>[credential]</p>"
    for location in (f"https://evil.net/?q={repeated}", f"https://{SECRET.upper()}.evil.net/"):
        both = Credentials(
            [make_credential(ORIGIN, "/", "basic", f"x:{word}") for word in (SECRET, "p&ss/w'rd-of-mine")]
        )
        assert isinstance(both.redact(asked, Redirected(asked.url, 302, location)), FetchFailed), location


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """Its owner and group may read it and nobody else; the sentence says what to type."""
    file = tmp_path / "token"
    file.write_text(SECRET)
    for mode in (0o644, 0o604, 0o602, 0o606):
        file.chmod(mode)
        with pytest.raises(InputError, match=f"chmod o= {file}"):
            read_secret_file(file)
    for mode in (0o600, 0o640, 0o400):
        file.chmod(mode)
        assert read_secret_file(file) == SECRET
    with pytest.raises(InputError, match="cannot be read"):
        read_secret_file(tmp_path / "absent")


def settings_of(**given: object) -> Settings:
    """Settings with one entry."""
    return load(None, {"credentials": [{"origin": ORIGIN} | given]})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"origin": ORIGIN}, "none is given"),
        ({"bearer_file": "/a", "basic_env": "B"}, "bearer_file and basic_env are given"),
        ({"bearer_file": SECRET}, "write the whole path"),
        ({"bearer_env": f"{SECRET}!"}, "name of an environment variable"),
        ({"origin": "http://wiki.example.org", "bearer_file": "/a"}, "allow_http: true"),
        ({"origin": f"https://me:{SECRET}@wiki.example.org", "bearer_file": "/a"}, "write scheme and host alone"),
        ({"origin": f"{ORIGIN}/wiki", "bearer_file": "/a"}, "a path belongs into `prefix`"),
        ({"prefix": SECRET, "bearer_file": "/a"}, "write the beginning of a path"),
        ({"bearer": SECRET, "bearer_file": "/a"}, "no such setting"),
        ({"bearer_file": "/a", "allow_http": SECRET}, "allow_http"),
    ],
)
def test_wrong_settings_are_refused_without_showing_a_secret(given: dict[str, object], said: str) -> None:
    """A mistake is named, and a secret that was written in its place is not."""
    with pytest.raises(ConfigError) as refused:
        settings_of(**given)
    assert said in str(refused.value)
    assert SECRET not in f"{refused.value} {refused.value!r}"


def test_secrets_of_the_environment_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable is read once and taken out of the environment; a reload still knows it, one that is unset is named."""
    monkeypatch.setenv("WIKI_TOKEN", SECRET)
    settings = settings_of(bearer_env="WIKI_TOKEN")
    first = make_credentials(settings)
    assert "WIKI_TOKEN" not in os.environ
    assert sent(first, f"{ORIGIN}/") == {"Authorization": f"Bearer {SECRET}"}
    assert make_credentials(settings) == first
    with pytest.raises(ConfigError, match="bearer_env ABSENT_TOKEN: this environment variable is not set"):
        make_credentials(settings_of(bearer_env="ABSENT_TOKEN"))
