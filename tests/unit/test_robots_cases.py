"""robots.txt by a table of cases: what Google's parser and RFC 9309 say, written for agents of our own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawld.read.robots import LIMITS as ROBOTS_LIMITS
from crawld.read.robots import RuleMatcher, parse_robots, read_robots

SITE = "https://example.org"
CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "robots_cases.json").read_text("utf-8"))


def allows(body: bytes, agent: str, path: str) -> bool:
    """Whether a robots.txt lets an agent ask for a path."""
    rules = read_robots(body, f"{SITE}/robots.txt", agent).rules
    return rules is None or RuleMatcher(rules).allows(SITE + path)


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_cases(case: dict[str, Any]) -> None:
    """Every row allows and forbids exactly the paths it names."""
    encoding = "latin-1" if case.get("octets") else case.get("encoding", "utf-8")
    body = "\n".join(case["robots"]).encode(encoding)
    verdicts = {path: allows(body, case["agent"], path) for path in case["allowed"] + case["forbidden"]}
    assert verdicts == dict.fromkeys(case["allowed"], True) | dict.fromkeys(case["forbidden"], False)


def test_the_table_has_enough_rows() -> None:
    """The table asks about at least as many paths as Google's own tests."""
    assert sum(len(case["allowed"]) + len(case["forbidden"]) for case in CASES) >= 145


def test_a_line_counts_up_to_its_limit() -> None:
    """A line longer than 16,663 characters is cut there, and what is left of its rule counts."""
    long = "/x/" + "a" * (ROBOTS_LIMITS.max_line - len("disallow: /x/") - 1)
    body = f"user-agent: walker\ndisallow: {long}/tail\n".encode()
    assert allows(body, "walker", "/other")
    assert not allows(body, "walker", f"{long}/another")
    body = f"user-agent: walker\ndisallow: /\nallow: {long}bcd/tail\n".encode()
    assert allows(body, "walker", f"{long}bcd/tail")
    assert not allows(body, "walker", "/x/")


def test_half_a_rule_at_the_limit_of_the_file_does_not_count() -> None:
    """A file cut in the middle of a line is read up to the line before."""
    head = b"user-agent: walker\ndisallow: /a\n"
    body = head + b"#" * (ROBOTS_LIMITS.max_robots - len(head) - 12) + b"\n" + b"disallow: /private\n"
    assert body[: ROBOTS_LIMITS.max_robots].endswith(b"disallow: /")
    assert not allows(body, "walker", "/a")
    assert allows(body, "walker", "/b")
    assert allows(body[: ROBOTS_LIMITS.max_robots], "walker", "/b")


def test_other_groups_are_not_kept() -> None:
    """Of a file with many groups only the rules for us are kept."""
    body = b"".join(b"user-agent: bot%c\ndisallow: /%d\n" % (97 + n % 26, n) for n in range(2_000))
    kept, alone = (
        read_robots(one + b"user-agent: walker\ndisallow: /a", f"{SITE}/robots.txt", "walker") for one in (body, b"")
    )
    assert kept == alone


def test_delay_of_our_group() -> None:
    """A Crawl-delay is for the agents named above it in its group, and the longest one counts."""
    text = "user-agent: strider\ncrawl-delay: 9\nuser-agent: walker\ncrawl-delay: 2\ncrawl-delay: .5\ndisallow: /a"
    found = [parse_robots(text, f"{SITE}/robots.txt", agent).crawl_delay for agent in ("strider", "walker", "hiker")]
    assert found == [9.0, 2.0, None]


PATTERNS = st.text("/ab*$", max_size=6).map(lambda tail: "/" + tail)


@given(st.lists(st.tuples(st.booleans(), PATTERNS), max_size=8), st.text("/ab", max_size=8))
def test_the_longest_match_decides(rules: list[tuple[bool, str]], tail: str) -> None:
    """The verdict is that of the longest pattern that matches as a regular expression, and allow wins a tie."""
    path, matched = f"/{tail}", []
    for allow, pattern in rules:
        inner, anchor = (pattern[:-1], "$") if pattern.endswith("$") else (pattern, "")
        if re.match(re.escape(inner).replace(r"\*", ".*") + anchor, path):
            matched.append((len(pattern), allow))
    text = "\n".join(["user-agent: walker", *(f"{'allow' if allow else 'disallow'}: {p}" for allow, p in rules)])
    assert allows(text.encode(), "walker", path) is max(matched, default=(0, True))[1]
