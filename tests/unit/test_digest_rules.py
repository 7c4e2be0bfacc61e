"""Rules by URL, and settings that would hang or mislead."""

import pytest
from lxml import html as lxml_html
from lxml.cssselect import CSSSelector

from crawld.model.errors import InputError
from crawld.read.page.rules import DEFAULT_RULE, DigestRule, Selector, compile_linear, erase, rule_for


@pytest.mark.parametrize(
    ("pattern", "url", "fits"),
    [
        ("*", "https://example.org/a", True),
        ("https://example.org/*", "https://example.org/a?b", True),
        ("https://example.org/*", "http://example.org/a", False),
        ("example.org/*", "http://example.org/a", True),
        ("example.org/*", "https://example.org/a", True),
        ("example.org/*", "https://www.example.org/a", False),
        ("*.example.org/*", "https://www.example.org/a", True),
        ("https://example.org/a", "https://example.org/a/b", False),
        ("example.org/*/x/*.html", "https://example.org/a/x/b.html", True),
        ("example.org/*/x/*.html", "https://example.org/a/y/b.html", False),
        ("example.org/a*a", "https://example.org/a", False),
        ("example.org/?q=[1]*", "https://example.org/?q=[1]2", True),
    ],
)
def test_patterns(pattern: str, url: str, fits: bool) -> None:
    """Only the star is special, and without a scheme both schemes fit."""
    assert DigestRule(pattern).fits(url) is fits


def test_the_first_rule_that_fits() -> None:
    """Rules are tried in order; without one, visible text counts."""
    rules = [DigestRule("example.org/raw/*", mode="raw"), DigestRule("example.org/*", min_change=0.5)]
    assert rule_for(rules, "https://example.org/raw/x") is rules[0]
    assert rule_for(rules, "https://example.org/x") is rules[1]
    assert rule_for(rules, "https://example.com/") is DEFAULT_RULE


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"only": "div["}, "not a CSS selector"),
        ({"ignore": ["a:nonsense"]}, "not a CSS selector"),
        ({"ignore_text": ["("]}, "not a regular expression"),
        ({"ignore_text": [r"(.)\1"]}, "not a regular expression"),
        ({"ignore_text": ["(?<!a)b"]}, "not a regular expression"),
        ({"ignore_text": ["a{1,999999}"]}, "not a regular expression"),
        ({"min_change": 1.5}, "between 0 and 1"),
        ({"mode": "raw", "only": "main"}, "need mode main or text"),
    ],
)
def test_bad_rules(settings: dict[str, object], words: str) -> None:
    """What cannot be used, or could hang, is refused when it is read."""
    with pytest.raises(InputError, match=words):
        DigestRule("x", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [r"\d+ views", r"\d{1,2}:\d\d", "(?:am|pm)", r"Updated .* ago", "[a-f0-9]{32}"])
def test_good_patterns(text: str) -> None:
    """What such rules are for can be written."""
    assert compile_linear(text).pattern == text


@pytest.mark.parametrize("text", ["(a+)+b", "(a|aa)+b", "a*a*a*a*b", r"(\w+\s?)*$"])
def test_no_pattern_hangs(text: str) -> None:
    """Patterns that would keep a backtracking engine busy for years are matched in one pass."""
    assert erase((compile_linear(text),), "a" * 50_000 + "!").endswith("!")


SAMPLE = lxml_html.document_fromstring(
    """<div id=a class=x><p id=p1>1</p><p id=p2 class=x>2</p>
    <ul id=u><li id=l1>a<b id=b1></b></li><li id=l2>b</li></ul></div>
    <div id=c><div id=d><p id=p3>3<i id=i1></i></p></div><p id=p4>4</p><span id=s1></span></div><span id=s2></span>"""
)


@pytest.mark.parametrize(
    "css",
    ["div p", "div > p", "div div p", "div > div > p", "p + p", "p ~ ul", "p ~ span", "div + span", "div ~ span",
     "#a li b", ".x .x", ".x > .x", "div.x > ul li:first-child", "li:last-child", "i:only-child", "li:nth-child(2)",
     "p:not(.x)",
     "div:first-child p", "div > p + p", "p + p ~ ul li", "ul > li b", "div > div p i", "p, b, i", "[id^=p]",
     "body > div p", "div p + ul b", "span:nth-of-type(1)", "ul:has(b)", "*"],
)  # fmt: skip
def test_selectors_mean_what_css_says(css: str) -> None:
    """Our way of looking for elements finds what the usual translation finds."""
    usual = CSSSelector(css, translator="html")(SAMPLE)
    assert set(Selector(css).find(SAMPLE)) == set(usual)
