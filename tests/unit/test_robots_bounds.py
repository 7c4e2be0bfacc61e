"""What a robots.txt may cost: to read, to be asked about a URL, and to be kept."""

import pickle
import random
import re
import time
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial

import pytest

from crawld.model.errors import ParseError
from crawld.model.url import MAX_URL
from crawld.read import robots as robots_module
from crawld.read.robots import LIMITS as ROBOTS_LIMITS
from crawld.read.robots import Meter, RuleMatcher, read_robots
from tests.support.reference_files import robots_files

SITE = "https://example.org"
HEAD = b"User-agent: *\n"


def lines(size: int, line: Callable[[int], str], head: str = "User-agent: *\n") -> bytes:
    """A robots.txt of about so many bytes, line by line."""
    text, at = [head], 0
    length = len(head)
    while length < size:
        text.append(line(at))
        length += len(text[-1].encode())
        at += 1
    return "".join(text).encode()


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "agents by rules": lambda size: (
        lines(size // 2, "User-agent: a{}\n".format) + lines(size // 2, "Allow: /{}\n".format, "")
    ),
    "groups": lambda size: lines(size, "User-agent: *\nDisallow: /{}\n".format),
    "foreign groups": lambda size: lines(size, "User-agent: a{}\nDisallow: /\n".format),
    "tiny rules": lambda size: lines(size, "Allow:/{:x}\n".format),
    "whole patterns": lambda size: lines(size, "Allow:/{:x}$\n".format),
    "rules inside rules": lambda size: lines(size, lambda at: f"Allow:/{'a' * (at % 900)}{at // 900}\n"),
    "one long line": lambda size: HEAD + b"Disallow: /" + b"*a" * (size // 2),
    "long lines": lambda size: lines(size, lambda at: f"Disallow: /{at}{'ab*' * 5000}\n"),
    "wildcards": lambda size: lines(size, "Disallow: /*a*a*a*{:x}*b\n".format),
    "empty lines": lambda size: b"\n" * size,
    "short lines": lambda size: b"a\n" * (size // 2),
    "lines that begin like one": lambda size: b"user\n" * (size // 5),
    "blanks": lambda size: HEAD + b" " * size,
    "octets that are no text": lambda size: lines(size, lambda _: "Disallow: /é\n").decode().encode("latin-1"),
    "utf-16": lambda size: lines(size // 2, "Disallow: /?中文{}%2f\n".format).decode().encode("utf-16"),
    "escapes": lambda size: lines(size, lambda at: f"Disallow: /{'%41%zz%2f' * 11}{at}\n"),
    "index pages": lambda size: lines(size, lambda at: f"Allow: /{at}{'/index.htm' * 20}\n"),
    "sitemaps": lambda size: lines(size, "Sitemap: /{:x}\n".format),
    "sitemaps in other scripts": lambda size: lines(size, "Sitemap: http://中ü文中ü文{}.example/\n".format),
}


def cost(work: Callable[[], object]) -> float:
    """The least processor time of a few runs."""
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_is_linear(name: str) -> None:
    """Four times as much of any robots.txt costs no more than some eight times the time, and little memory."""
    small, large = HOSTILE[name](50_000), HOSTILE[name](200_000)
    few, many = (cost(partial(read_robots, body, f"{SITE}/robots.txt", "crawld")) for body in (small, large))
    assert many < 8 * few + 0.02, f"{few:.3f} s became {many:.3f} s"
    tracemalloc.start()
    reading = read_robots(large, f"{SITE}/robots.txt", "crawld")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * len(large)
    assert len(pickle.dumps(reading)) < len(large)  # what a worker has to send back


def test_only_so_many_sitemap_lines_are_even_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Normalising a URL can be slow: the lines looked at are bounded in number and in characters, good or bad."""
    tried: list[str] = []
    monkeypatch.setattr(robots_module, "locate", lambda line, _: tried.append(line))
    body = lines(ROBOTS_LIMITS.max_robots - 1000, "Sitemap: http://[{}\n".format)
    assert read_robots(body, f"{SITE}/robots.txt", "crawld").sitemaps == ()
    assert len(tried) == ROBOTS_LIMITS.max_sitemaps
    tried.clear()
    read_robots(lines(ROBOTS_LIMITS.max_robots - 20_000, lambda at: f"Sitemap: {at}{'x' * 10_000}\n"), SITE, "crawld")
    assert 0 < sum(map(len, tried)) <= ROBOTS_LIMITS.max_sitemap_characters


def matcher(body: bytes) -> RuleMatcher:
    """The rules of a robots.txt for everybody."""
    rules = read_robots(body, f"{SITE}/robots.txt", "crawld").rules
    assert rules is not None
    return RuleMatcher(rules)


LONG_PATHS = ["/" + "a" * 7900, "/" + ";" * 7900, "/?" + "%2f" * 2600, "/" + "ab" * 3950, "/?" + "a%2F" * 1900]


class CountedBytes(bytes):
    """A path that counts how often it is searched."""

    searches = 0

    def find(self, *given: object) -> int:
        """Search, and count it."""
        CountedBytes.searches += 1
        return super().find(*given)  # type: ignore[arg-type]


WILD = {
    "many": [f"Disallow: /*{at}*x" for at in range(ROBOTS_LIMITS.max_wildcards)],
    "pieces": [f"Disallow: /*{'a*' * 30}{at}q" for at in range(700)],
    "almost": [f"Disallow: /*{'a' * 30}b{'a' * 20}{at}a" for at in range(900)],
}


@pytest.mark.parametrize("name", WILD)
def test_a_verdict_takes_a_bounded_number_of_searches(name: str) -> None:
    """However many wildcards there are, a long URL is searched a few times, and forbidden where that is too few."""
    rules = matcher("\n".join(["User-agent: *", *WILD[name]]).encode())
    for path in LONG_PATHS:
        CountedBytes.searches = 0
        form = CountedBytes(path.encode())
        rules.weigh(form, meter_of(form))
        assert CountedBytes.searches <= ROBOTS_LIMITS.max_steps / (ROBOTS_LIMITS.steps_per_piece + len(form)) + 2
    assert not rules.allows(f"{SITE}/{'a' * 7900}")
    assert rules.allows(f"{SITE}/short")


def meter_of(path: bytes) -> Meter:
    """What counts the work on a path."""
    meter = Meter()
    meter.begin(path)
    return meter


def verdicts(rules: RuleMatcher, urls: list[str]) -> list[bool]:
    """What the rules say of each URL."""
    return [rules.allows(url) for url in urls]


def test_prefixes_are_found_without_looking_at_each() -> None:
    """Thirty times as many rules cost a verdict no more than some times as much."""
    few, many = (matcher(lines(size, "Disallow: /p/{:x}/\n".format)) for size in (10_000, 300_000))
    paths = [f"{SITE}/p/{at:x}/q" for at in range(0, 500, 7)]
    assert verdicts(many, paths) == [False] * len(paths)
    small, large = (cost(partial(verdicts, rules, paths)) for rules in (few, many))
    assert large < 6 * small + 0.005


def test_rules_inside_rules_are_found() -> None:
    """Of thousands of prefixes that begin with one another the longest that matches decides."""
    body = "\n".join(["User-agent: *", *(f"{'Allow' if n % 2 else 'Disallow'}: /{'a' * n}" for n in range(900))])
    rules = matcher(body.encode())
    assert [rules.allows(f"{SITE}/{'a' * n}b") for n in range(1, 899)] == [n % 2 == 1 for n in range(1, 899)]


@pytest.mark.parametrize(
    "body",
    [
        lines(60_000, "Disallow: /*{}*x\n".format),  # too many wildcards
        lines(100_000, lambda at: f"Disallow: /*{at}{'x' * 5000}\n"),  # too long ones
        lines(ROBOTS_LIMITS.max_robots - 1000, lambda at: f"Disallow: /é{'é' * 30}{at}\n"),  # too large when unpacked
    ],
    ids=["many", "long", "large"],
)
def test_rules_beyond_all_measure_forbid_everything(body: bytes) -> None:
    """Where our rules are too many or too large to be obeyed exactly, nothing may be asked but robots.txt."""
    rules = matcher(body)
    assert not rules.allows(f"{SITE}/")
    assert rules.allows(f"{SITE}/robots.txt")
    assert rules.size < 2_000


@pytest.mark.parametrize("line", ["Disallow: /{}\n", "Disallow: /*{0}*x{0}$\n"])
@pytest.mark.parametrize("count", [1, 30, 900])
def test_rules_know_their_weight(line: str, count: int) -> None:
    """The weight by which unpacked rules are bounded is not far below the memory they take."""
    packed = read_robots("".join(["User-agent: *\n", *map(line.format, range(count))]).encode(), SITE, "crawld").rules
    assert packed is not None
    tracemalloc.start()
    unpacked = [RuleMatcher(packed) for _ in range(10)]
    used = tracemalloc.get_traced_memory()[0] / len(unpacked)
    tracemalloc.stop()
    assert used / 1.5 < unpacked[0].size < 3 * used


def test_paths_beyond_all_measure_are_forbidden() -> None:
    """A URL of the longest size can be judged however it is spelt; a longer one is forbidden."""
    rules = matcher(b"User-agent: *\nDisallow: /b")
    assert rules.allows(f"{SITE}/" + ";" * (MAX_URL - 20))
    assert not rules.allows(f"{SITE}/" + "a" * ROBOTS_LIMITS.max_path)


@pytest.mark.parametrize("packed", [b"", b"junk", *(RuleMatcher.__name__.encode() * n for n in (1, 9))])
def test_damaged_rules_are_told(packed: bytes) -> None:
    """Rules that are not packed rules are an error of their own."""
    with pytest.raises(ParseError):
        RuleMatcher(packed)


def test_damaged_rules_never_crash() -> None:
    """Whatever a disk makes of packed rules, they are judged or refused, and never unpacked without end."""
    whole = read_robots(lines(2000, "Disallow: /{0}*a$\nAllow: /{0}\n".format), SITE, "crawld").rules
    assert whole is not None
    plain, rng = zlib.decompress(whole), random.Random(1)
    for _ in range(300):
        changed = bytearray(plain)
        for _ in range(3):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            RuleMatcher(zlib.compress(bytes(changed))).allows(f"{SITE}/12xa")
        except ParseError:
            continue
    with pytest.raises(ParseError):
        RuleMatcher(zlib.compress(bytes(2 * ROBOTS_LIMITS.max_unpacked)))


# -- real files -----------------------------------------------------------------------------------------------------


def plain_rules(body: bytes) -> list[tuple[bool, str]]:
    """The rules for everybody, read line by line; only of files in the plainest form."""
    rules, ours, rows = [], False, False
    for line in re.split(r"[\r\n]+", body.decode("ascii").replace("\t", " ")):
        key, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
        if key.lower() == "user-agent":
            ours = value == "*" if not rows else ours or value == "*"
            rows = True
        elif key.lower() in {"allow", "disallow"}:
            rows = False
            if ours and value:
                rules.append((key.lower() == "allow", value))
    return rules


def plainly_allows(rules: list[tuple[bool, str]], path: str) -> bool:
    """The longest pattern that matches decides, by regular expressions one after the other."""
    best = (0, True)
    for allow, pattern in rules:
        inner, end = (pattern[:-1], "$") if pattern.endswith("$") else (pattern, "")
        expression = ".*".join(map(re.escape, re.split(r"\*+", inner))) + end
        if (len(pattern), allow) > best and re.match(expression, path, re.DOTALL):
            best = (len(pattern), allow)
    return best[1]


PLAIN_FILE = re.compile(rb"[\t\r\n -~]*")
PLAIN_PATTERN = re.compile(r"[A-Za-z0-9_.~/?&=*$-]*")


def test_real_files_keep_every_verdict() -> None:
    """The rules of real files are obeyed exactly: verdicts are those of a matcher without bounds or tricks."""
    rng, compared = random.Random(7), 0
    for body in robots_files():
        if len(body) > 30_000 or not PLAIN_FILE.fullmatch(body) or b"index.htm" in body:
            continue  # the plain matcher is slow, reads plain files only, and knows no index pages
        rules = plain_rules(body)
        if not all(PLAIN_PATTERN.fullmatch(pattern) for _, pattern in rules) or b"user-agent: *" not in body.lower():
            continue
        packed = read_robots(body, f"{SITE}/robots.txt", "crawld").rules
        for _, pattern in rng.sample(rules, min(len(rules), 20)):
            inner = pattern.rstrip("$")
            for path in (inner.replace("*", ""), inner.replace("*", "x/y"), inner.replace("*", "z" * 900) + "more"):
                path = path if path.startswith("/") else f"/{path}"  # noqa: PLW2901 - as it is asked
                allowed = packed is None or RuleMatcher(packed).allows(SITE + path)
                assert allowed is plainly_allows(rules, path), (path[:100], body[:200])
                compared += 1
    assert compared > 250


def test_no_real_file_meets_a_bound() -> None:
    """Whoever a real file speaks to, its rules are kept whole, and a URL of a thousand characters can be judged."""
    for body in robots_files():
        agents = set(re.findall(rb"(?im)^user-agent:\s*([A-Za-z_-]+)", body))
        for agent in [b"crawld", *sorted(agents)[:5]]:
            rules = read_robots(body, f"{SITE}/robots.txt", agent.decode()).rules
            if rules is not None:
                read = RuleMatcher(rules)
                assert not read.forbidden
                form = b"/" + b"abcdefgh/-=?" * 83
                meter = meter_of(form)
                read.weigh(form, meter)
                assert not meter.over
