"""What is sent for a URL, which spellings are one page, and what is no URL."""

import json
from pathlib import Path

import pytest
from ada_url import normalize_url
from hypothesis import assume, given
from hypothesis import strategies as st

from crawld.fetch.guard import AddressGuard
from crawld.model.errors import InputError
from crawld.model.url import MAX_URL, SYNTAX, host_of, identity, normalise, origin_of, resolve

CASES = json.loads((Path(__file__).parent.parent / "data" / "urls.json").read_text(encoding="utf-8"))
ANYTHING = st.text(st.characters(codec="utf-8"), max_size=40)
ODD = [*"/.?#aBé|'\"{}\\^`<>[]:@;,&=+~* %", "//", "..", "%2e", "%2E", "%2f", "%7e", "%zz", "%c3%A9", "%00", "%25"]
PIECES = st.lists(st.sampled_from(ODD), max_size=12).map("".join)


@pytest.mark.parametrize("case", CASES["asked"], ids=lambda case: repr(case[0]))
def test_what_is_sent_and_which_page_it_is(case: list[str]) -> None:
    """A URL is sent as it was given, changed only as browsers change it; spellings of one page share an identity."""
    target = normalise(case[0])
    assert target == (case[1] or case[0])
    assert identity(target) == (case[2] if len(case) > 2 else target)


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: repr(case[0]))
def test_what_is_no_page_is_refused(case: list[str]) -> None:
    """Anything that cannot be asked over HTTP is refused with a sentence that names what is wrong."""
    with pytest.raises(InputError) as refused:
        normalise(case[0])
    assert case[1] in str(refused.value)


@pytest.mark.parametrize("case", CASES["links"], ids=lambda case: repr(case[0]))
def test_links_are_resolved_as_browsers_do(case: list[str | None]) -> None:
    """A link counts from where it was found; one that leads to no page is refused."""
    link, base, target = str(case[0]), str(case[1]), case[2]
    try:
        found: str | None = resolve(link, base)
    except InputError:
        found = None
    assert found == target


@given(PIECES)
def test_the_short_way_and_the_parser_agree(rest: str) -> None:
    """Most URLs are recognised without being parsed; the parser would have said the same."""
    text = f"https://example.org/{rest}"
    target = normalise(text)
    assert target == normalize_url(text).partition("#")[0]
    assert normalise(target) == target


@given(st.from_regex(SYNTAX.plain, fullmatch=True))
def test_the_short_way_never_lets_through_what_the_parser_refuses(text: str) -> None:
    """A URL that looks plainly spelt is sent as the parser spells it, or refused."""
    try:
        target = normalise(text)
    except InputError:
        return
    assert target == normalize_url(text)


@given(PIECES)
def test_an_identity_is_a_url_of_its_own_page(rest: str) -> None:
    """Asking for an identity is asking for the same page: its target and identity are itself."""
    name = identity(normalise(f"https://example.org/{rest}"))
    assert normalise(name) == name
    assert identity(name) == name


@given(ANYTHING)
def test_any_text_has_a_target_or_a_reason(text: str) -> None:
    """Whatever the text, there is a target that stays as it is, or an error with a sentence."""
    for written in (text, f"http://{text}", f"http://{text}/", f"http://a.example/{text}"):
        try:
            target = normalise(written)
        except InputError:
            continue
        assert normalise(target) == target
        assert identity(identity(target)) == identity(target)
        assert origin_of(target) + "/" == normalise(origin_of(target))


@given(ANYTHING, ANYTHING)
def test_any_link_has_a_target_or_a_reason(link: str, path: str) -> None:
    """Whatever a file or a server names as a link, there is a target or an error."""
    base = normalise(f"https://example.org/{path.translate(dict.fromkeys((*range(32), 127)))}")
    try:
        target = resolve(link, base)
    except InputError:
        return
    assert normalise(target) == target


@pytest.mark.parametrize("half", ["http://example.org/\ud800", "http://\udcff/", "http://" + "9" * 5000 + "/"])
def test_text_that_cannot_be_encoded_is_refused(half: str) -> None:
    """Half a character, or a number without end, is refused like anything else."""
    with pytest.raises(InputError):
        normalise(half)
    with pytest.raises(InputError):
        normalise("http://example.org:" + "9" * 5000)


def test_a_url_that_grows_too_long_is_refused() -> None:
    """The limit holds for what is sent, not only for what was given."""
    with pytest.raises(InputError, match="encoded"):
        normalise("https://example.org/" + "é" * (MAX_URL // 2))


def test_host_and_origin_name_who_is_asked() -> None:
    """The port is part of the name only where it is not the scheme's own."""
    assert host_of("https://a.example/") == "a.example"
    assert host_of("http://a.example:8080/") == "a.example:8080"
    assert host_of("http://[::1]:81/") == "[::1]:81"
    assert origin_of("https://a.example:8443/x?y") == "https://a.example:8443"
    assert origin_of("https://a.example") == origin_of("https://a.example?y") == "https://a.example"


@pytest.mark.parametrize(
    "host",
    ["127.1", "2130706433", "0x7f.1", "0177.1", "127.0.0.1.", "１２７.１", "%31%32%37.1", "0", "10.258", "3232235777",
     "0xA9FEA9FE", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]"],
)  # fmt: skip
def test_shorthand_addresses_do_not_get_past_the_guard(host: str) -> None:
    """However an address of our own network is written, the guard is asked about the address itself."""
    asked = host_of(normalise(f"http://{host}/"))
    assert AddressGuard().refusal(asked.strip("[]")) not in {None, "unreadable"}


@given(st.integers(0, 2**32 - 1))
def test_a_number_as_host_is_the_address_it_stands_for(number: int) -> None:
    """The guard reads the same address in a number as in its dotted form."""
    assume(number > 0)
    dotted = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
    assert host_of(f"http://{number}/") == host_of(f"http://{number:#x}/") == dotted
