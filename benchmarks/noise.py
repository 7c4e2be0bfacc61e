"""Noise and edits on pages made here: how often noise passes for a change, and how many edits are seen beside it.

`python -m benchmarks.noise [--json] [--seeds N]` visits a page of each kind 80 times, an hour apart, through the code
that the daemon runs at a visit: reading, judging, remembering, and a second look seconds later where it asks for one.
Only the network is left out. Visits 21 to 80 count; every fifth of them finds an edit, of five kinds in turn. The kinds
of `noise_sites` follow: sites of several pages, noise that ends, titles, code, and what is no HTML. The kinds under
`real` are no noise: at every visit they differ as real pages do, and must go on counting.
"""

import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from benchmarks import argument_parser
from benchmarks.noise_sites import SITES, measure_site
from crawld.crawl.judge import is_pair, judge, learn_from_pair, read, wants_second_look
from crawld.model.crawl import Memory, Verdict
from crawld.model.fetched import Fetched
from crawld.read.page.rules import DigestRule


@dataclass(frozen=True)
class NoiseLimits:
    """Numbers of this benchmark."""

    visits: int = 80
    early: int = 20
    edit_every: int = 5
    hour: float = 3_600.0
    began: float = 1_750_000_000.0
    max_false: float = 0.02
    min_seen: float = 0.95


LIMITS = NoiseLimits()
RULE = DigestRule()
UNBOUND = frozenset({"noise that ends, edits that stay 1 visits"})  # at every visit another: noise and edits look alike
VOCABULARY = (
    "river", "stone", "light", "garden", "market", "winter", "paper", "engine", "harbour", "music", "number",
    "silver", "morning", "valley", "bridge", "letter", "window", "forest", "island", "summer", "coffee", "planet",
    "doctor", "writer", "camera", "singer", "mirror", "button", "pocket", "signal", "carpet", "wooden",
)  # fmt: skip
PLACES = ("the harbour", "an old mill", "every village", "our valley", "the north", "two islands", "a quiet town")


@dataclass(slots=True)
class Fetch:
    """A rendering of a page: the time, the visit, and this fetch's random numbers."""

    at: float
    visit: int
    draw: random.Random


@dataclass(slots=True)
class Page:
    """A page with some noise in it, and everything about it that an edit may touch."""

    noise: Callable[["Page", Fetch], list[str]]  # the blocks that hold the noise
    label: list[str] = field(default_factory=lambda: ["Seen", "from", "here"])
    price: str = "€ 12.50"
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    loose: bool = False  # where a list may have any length, a block put in at its end is one more of it

    def render(self, fetch: Fetch) -> bytes:
        """The page as one fetch gets it."""
        blocks = [*self.body[:4], *self.before, *self.noise(self, fetch), *self.after, *self.body[4:]]
        inner = "".join(f"<p>{block}</p>" for block in blocks)
        return f"<!doctype html><title>A page</title><h1>A page about harbours</h1>{inner}".encode()


def sentence(rng: random.Random, words: int) -> str:
    """Some words in a row."""
    return " ".join(rng.choice(VOCABULARY) for _ in range(words)).capitalize()


def beside(text: Callable[[Fetch], str]) -> Callable[[Page, Fetch], list[str]]:
    """One block: steady words and a price around the noise."""
    return lambda page, fetch: [f"{' '.join(page.label)} {text(fetch)} for {page.price} only"]


def listed(items: Callable[[Fetch], list[str]]) -> Callable[[Page, Fetch], list[str]]:
    """A heading with steady words and a price, and the noise as a list below it."""
    return lambda page, fetch: [f"{' '.join(page.label)} for {page.price} only", *items(fetch)]


def moment(fetch: Fetch, spelling: str) -> str:
    """The time of a fetch, spelt so."""
    return datetime.fromtimestamp(fetch.at, UTC).strftime(spelling)


def age(seconds: float) -> str:
    """A time ago, as sites say it."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def pool(size: int, words: Sequence[int]) -> list[str]:
    """Titles to draw from, always the same ones."""
    rng = random.Random(size)
    return [f"{sentence(rng, rng.choice(words))} of {rng.choice(PLACES)}" for _ in range(size)]


def story(fetch: Fetch, number: int) -> str:
    """A headline with its age and the comments it has got: every visit finds one more."""
    title = sentence(random.Random(number), 6)
    return (
        f"{title}, {age(fetch.at - LIMITS.began - LIMITS.hour * number + 700)}, {3 * (fetch.visit - number)} comments"
    )


LINKS, QUOTES, ADS = pool(200, (2, 3, 4, 5)), pool(25, (6, 7, 8, 9, 10)), pool(60, (5,))
ITEMS = pool(10, (2, 3, 4))

NOISE: dict[str, Callable[[Page, Fetch], list[str]]] = {
    "relative time": beside(lambda fetch: f"Posted {age(fetch.at - LIMITS.began + 5_000)}"),
    "relative time out of step": beside(lambda fetch: f"Posted {fetch.visit % 23 + 1} hours ago"),
    "counter": beside(lambda fetch: f"Views: {900 + 7 * fetch.visit}"),
    "counter with thousands": beside(lambda fetch: f"{99_000 + 131 * fetch.visit:,} downloads"),
    "slow counter": beside(lambda fetch: f"{fetch.visit // 2} comments"),
    "users online": beside(lambda fetch: f"{fetch.draw.randrange(20, 60)} users online"),
    "plain number": beside(lambda fetch: f"Load {fetch.visit * 7 % 97}.{fetch.visit % 10}"),
    "clock": beside(lambda fetch: f"It is {moment(fetch, '%H:%M:%S')}"),
    "clock out of step": beside(lambda fetch: f"It is {fetch.visit % 24:02}:{fetch.visit * 7 % 60:02}"),
    "date of the day": beside(lambda fetch: f"Today, {moment(fetch, '%A %d %B %Y')}"),
    "date out of step": beside(
        lambda fetch: datetime.fromtimestamp(9e8 + 86_400 * fetch.visit, UTC).strftime("%A, %B %d, %Y")
    ),
    "day 12": beside(lambda fetch: f"Day {12 + int(fetch.at - LIMITS.began) // 86_400}"),
    "countdown": beside(lambda fetch: f"Ends in {200 - fetch.visit} days {fetch.at % 60:.0f} seconds"),
    "visible token": beside(lambda fetch: f"Form {fetch.draw.getrandbits(64):016x}"),
    "related links": listed(lambda fetch: fetch.draw.sample(LINKS, 10)),
    "related links of any number": listed(lambda fetch: fetch.draw.sample(LINKS, fetch.draw.randrange(7, 12))),
    "related products with prices": listed(
        lambda fetch: [f"{name} € {len(name)}.{fetch.draw.randrange(10, 99)}" for name in fetch.draw.sample(LINKS, 4)]
    ),
    "counter with an icon": beside(lambda fetch: f"👁 {900 + 7 * fetch.visit}"),
    "ages without ago": listed(lambda fetch: [f"{item} · {fetch.visit + at}h" for at, item in enumerate(ITEMS[:5])]),
    "address of the reader": beside(lambda fetch: f"from 10.{fetch.visit % 31}.{fetch.draw.randrange(99)}.7"),
    "button of two texts": beside(lambda fetch: fetch.draw.choice(("Buy now", "Add to cart"))),
    "rotating quote": beside(lambda fetch: f"Said {fetch.draw.choice(QUOTES)}"),
    "quote of a few": beside(lambda fetch: f"Said {fetch.draw.choice(QUOTES[:4])}"),
    "advertisement": listed(lambda fetch: [fetch.draw.choice(ADS)]),
    "shuffled list": listed(lambda fetch: fetch.draw.sample(ITEMS, len(ITEMS))),
    "mixed": listed(
        lambda fetch: [
            f"{age(fetch.at - LIMITS.began + 90)}, {1_000 + 3 * fetch.visit:,} views",
            fetch.draw.choice(ADS),
            f"Served in {fetch.draw.randrange(10, 99)} ms at {moment(fetch, '%H:%M')}",
        ]
    ),
}
REAL: dict[str, Callable[[Page, Fetch], list[str]]] = {
    "headlines": listed(lambda fetch: random.Random(fetch.visit).sample(LINKS, 5)),
    "price": beside(lambda fetch: f"now € {10 + fetch.visit % 9}.{fetch.visit % 90 + 10}"),
    "version": beside(lambda fetch: f"This is version {fetch.visit}"),
    "news with ages": listed(
        lambda fetch: [story(fetch, number) for number in range(fetch.visit, fetch.visit - 9, -1)]
    ),
    "new order": listed(lambda fetch: random.Random(fetch.visit).sample(ITEMS, len(ITEMS))),
    "article": listed(lambda fetch: [sentence(random.Random(fetch.visit), 40)]),
    "change between two fetches": listed(lambda fetch: [sentence(random.Random(int(fetch.at / LIMITS.hour * 2)), 30)]),
}


def edit(page: Page, kind: int, number: int) -> None:
    """Edit a page in one of five ways, never to what it was before."""
    if kind == 0:
        page.label[number % len(page.label)] = f"seen{number}"
    elif kind == 1:
        page.label.insert(1, f"also{number}")
    elif kind == 2:
        (page.before if page.loose or number % 2 else page.after).append(f"Put in, number {number} of them")
    elif kind == 3:
        (page.before or page.after or page.body).pop()
    else:
        page.price = f"€ {number}.99"


@dataclass(slots=True)
class Visitor:
    """Visits one page as the daemon does, without a network."""

    page: Page
    draw: random.Random
    late_second: float = 0.0  # seconds by which a host's Crawl-delay holds up the second look
    memory: Memory | None = None
    last: float = LIMITS.began
    fetches: int = 0

    def fetch(self, at: float, visit: int) -> Fetched:
        """Render the page once."""
        self.fetches += 1
        return Fetched("http://x/", 200, self.page.render(Fetch(at, visit, self.draw)), {"content-type": "text/html"})

    def visit(self, number: int) -> bool:
        """Visit the page; whether it counted as changed."""
        at = LIMITS.began + LIMITS.hour * number + self.draw.uniform(0, 600)
        outcome = self.fetch(at, number)
        reading = read(outcome, self.memory, RULE, at)
        judgement = judge(1, at, outcome, self.memory, RULE, reading)
        if self.memory is not None and wants_second_look(judgement):
            second_at = at + 1.0 + self.late_second
            second = read(self.fetch(second_at, number), None, RULE, second_at)
            if is_pair(second_at - at, at - self.last):
                judgement = learn_from_pair(judgement, reading, second)
        if judgement.memory is not None:
            self.memory = judgement.memory
        self.last = at
        return judgement.verdict is Verdict.CHANGED


def page_with(noise: Callable[[Page, Fetch], list[str]], seed: int) -> Page:
    """A page of a dozen paragraphs."""
    rng = random.Random(seed)
    loose = noise is NOISE["related links of any number"]
    return Page(noise, body=[sentence(rng, rng.randrange(8, 40)) + "." for _ in range(16)], loose=loose)


def measure_noise(kind: str, seeds: int) -> dict[str, object]:
    """False changes and edits seen among late visits, and fetches per visit."""
    false = quiet = seen = edits = fetches = 0
    for seed in range(seeds):
        visitor = Visitor(page_with(NOISE[kind], seed), random.Random(seed))
        for number in range(LIMITS.visits):
            edited = number >= LIMITS.early and number % LIMITS.edit_every == 0
            if edited:
                edit(visitor.page, number // LIMITS.edit_every % 5, number)
            changed = visitor.visit(number)
            if number >= LIMITS.early and edited:
                seen, edits = seen + changed, edits + 1
            elif number >= LIMITS.early:
                false, quiet = false + changed, quiet + 1
        fetches += visitor.fetches
    return {
        "kind": kind,
        "false_share": false / quiet,
        "edits_seen_share": seen / edits,
        "fetches_per_visit": fetches / (seeds * LIMITS.visits),
    }


def measure_real(kind: str, seeds: int) -> dict[str, object]:
    """Measures the share of changes seen of a page that changes at every visit."""
    seen = fetches = 0
    for seed in range(seeds):
        late = 1_800.0 if kind == "change between two fetches" else 0.0
        visitor = Visitor(page_with(REAL[kind], seed), random.Random(seed), late)
        visitor.visit(0)
        seen += sum(visitor.visit(number) for number in range(1, LIMITS.visits))
        fetches += visitor.fetches
    return {
        "kind": kind,
        "changes_seen_share": seen / (seeds * (LIMITS.visits - 1)),
        "fetches_per_visit": fetches / (seeds * LIMITS.visits),
    }


def reached(figures: dict[str, list[dict[str, object]]]) -> bool:
    """Tells whether every figure is what it should be."""
    noise = all(
        float(str(row["false_share"])) <= LIMITS.max_false
        and float(str(row["edits_seen_share"])) >= (1.0 if "inside main" in str(row["kind"]) else LIMITS.min_seen)
        for row in figures["noise"]
        if row["kind"] not in UNBOUND
    )
    return noise and all(float(str(row["changes_seen_share"])) >= LIMITS.min_seen for row in figures["real"])


def show(rows: Sequence[dict[str, object]], title: str) -> None:
    """Print rows as a table."""
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="left" if name == "kind" else "right")
    for row in rows:
        table.add_row(*(value if isinstance(value, str) else f"{value:.3f}" for value in row.values()))
    Console().print(table)


def main() -> None:
    """Print the figures; exit status 1 where one is not reached."""
    parser = argument_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    figures = {
        "noise": [
            *(measure_noise(kind, options.seeds) for kind in NOISE),
            *(measure_site(kind, options.seeds) for kind in SITES),
        ],
        "real": [measure_real(kind, options.seeds) for kind in REAL],
    }
    if options.json:
        print(json.dumps(figures))
    else:
        show(figures["noise"], "Noise, visits 21 to 80")
        show(figures["real"], "Real changes at every visit")
    sys.exit(0 if reached(figures) else 1)


if __name__ == "__main__":
    main()
