"""Who we say we are."""

import socket

import pytest

from crawld.fetch.http import check_user_agent, product_token, user_agent
from crawld.main.checks import user_agent as agent_of
from crawld.main.settings import Settings
from crawld.model.errors import InputError


@pytest.mark.parametrize(
    "text",
    ["crawld/1.0 (+https://example.org/bot)", "my-bot (ops@example.org)", "Mozilla/5.0 (compatible; x; +http://a.b/c)"],
)
def test_sensible(text: str) -> None:
    """A name and a way to reach somebody are enough."""
    assert check_user_agent(f" {text} ") == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("crawld/1.0", "contact"),
        ("crawld/1.0 (me)", "contact"),
        ("(+https://example.org)", "begin"),
        ("crawld/1.0 (+https://example.org)\r\nX: y", "printable"),
        ("crawld/1.0 (+https://exämple.org)", "ASCII"),
        ("crawld " + "x" * 300 + " a@b.cd", "characters"),
    ],
)
def test_not_sensible(text: str, words: str) -> None:
    """What no operator could make sense of is refused in a sentence that says what is missing."""
    with pytest.raises(InputError, match=words):
        check_user_agent(text)


def test_from_a_contact() -> None:
    """A contact alone makes a user agent, and its name is what robots.txt is asked for."""
    agent = user_agent("https://example.org/bot")
    assert agent.endswith("(+https://example.org/bot)")
    assert product_token(agent) == "crawld"


def test_the_name_of_the_machine_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user agent by default names the machine, and reading the settings again does not ask for it again."""
    names = iter(["one.example", "two.example", "three.example"])
    monkeypatch.setattr(socket, "getfqdn", lambda: next(names))
    assert len({agent_of(Settings()) for _ in range(3)}) == 1
