"""Sites whose noise and edits the benchmark of noise measures: several pages of one template, and what is no HTML.

A kind is a function that yields visits: which page, how it is rendered, and whether an edit has just been made.
Layouts, languages, orders and texts are drawn from a seed.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from crawld.crawl.host_frames import learn_visit
from crawld.crawl.judge import is_pair, judge, learn_from_pair, read, wants_second_look
from crawld.model.crawl import Memory, Verdict
from crawld.model.fetched import Fetched
from crawld.read.change.frame import LIMITS as FRAME_LIMITS
from crawld.read.change.frame import HostFrame
from crawld.read.page.rules import DigestRule

RULE = DigestRule()
HOUR = 3_600.0
BEGAN = 1_750_000_000.0
LANGUAGES = (
    "river stone light garden market winter paper engine harbour music silver morning valley bridge letter window oak",
    "fluss stein licht garten markt winter papier maschine hafen musik silber morgen tal brücke brief fenster wald",
    "rivière pierre lumière jardin marché hiver papier moteur port musique argent matin vallée pont lettre forêt",
    "река камень свет сад рынок зима бумага мотор гавань музыка серебро утро долина мост письмо окно лес остров",
)
LAYOUTS = ("main", "article", "plain", "wiki", "forum")
MENUS = (
    ("Home", "Guide", "Reference", "Community", "Blog"),
    ("Start", "Themen", "Archiv", "Hilfe", "Anmelden", "Forum"),
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A rendering of a page: the time, the visit, and this fetch's random numbers."""

    at: float
    visit: int
    draw: random.Random


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit to one page of a site. `late` ones count; `edited`: whether it should be found changed."""

    page: int
    render: Callable[[Moment], str | bytes]
    edited: bool = False
    late: bool = True
    url: str = ""
    content_type: str = "text/html"


def fixed(page: str) -> Callable[[Moment], str]:
    """A page that is the same at every fetch."""
    return lambda _: page


@dataclass(slots=True)
class Texts:
    """Words, sentences and pages of one site, in its language and layout."""

    rng: random.Random
    layout: str = ""
    words: list[str] = field(default_factory=list)
    menu: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.words = self.rng.choice(LANGUAGES).split()
        self.layout = self.layout or self.rng.choice(LAYOUTS)
        self.menu = self.rng.choice(MENUS)

    def sentence(self, count: int = 0, draw: random.Random | None = None) -> str:
        """Some words in a row, which hardly ever come again."""
        draw = draw or self.rng
        words = [draw.choice(self.words) for _ in range(count or draw.randrange(8, 25))]
        return " ".join(
            [*words, f"x{draw.getrandbits(20):05x}"[: draw.randrange(2, 7)].rstrip("0123456789")]
        ).capitalize()

    def paragraphs(self, count: int) -> list[str]:
        """Paragraphs of a page's own."""
        return [f"{self.sentence()}." for _ in range(count)]

    def page(
        self, title: str, blocks: list[str], *, heading: str = "", site: str = "", menu: tuple[str, ...] = ()
    ) -> str:
        """A page in the site's layout."""
        entries = "".join(f"<li><a href='/{n}'>{name}</a></li>" for n, name in enumerate(menu or self.menu))
        inner = "".join(block if block.startswith("<") else f"<p>{block}</p>" for block in blocks)
        heading = heading or title
        head = f"<!doctype html><html><head><title>{title}{site}</title></head><body>"
        if self.layout == "main":
            body = f"<nav><ul>{entries}</ul></nav><main><h1>{heading}</h1>{inner}</main><footer><p>Imprint</p></footer>"
        elif self.layout == "article":
            body = (
                f"<div class=top><ul>{entries}</ul></div><article><h1>{heading}</h1>{inner}</article><div>Imprint</div>"
            )
        elif self.layout == "wiki":
            body = (
                f"<div id=content><h1>{heading}</h1><div>{inner}</div></div><div><ul>{entries}</ul></div><p>Imprint</p>"
            )
        elif self.layout == "forum":
            body = f"<ul>{entries}</ul><h1>{heading}</h1><table><tr><td>{inner}</td></tr></table><p>Imprint</p>"
        else:
            body = f"<ul>{entries}</ul><h1>{heading}</h1>{inner}<p>Imprint</p><p>Privacy</p>"
        return f"{head}{body}</body></html>"


@dataclass(slots=True)
class SiteVisitor:
    """Visits the pages of a site as the daemon does, without a network."""

    draw: random.Random
    frame: HostFrame | None
    memories: dict[int, Memory] = field(default_factory=dict)
    last: dict[int, float] = field(default_factory=dict)
    fetches: int = 0

    def visit(self, visit: Visit, number: int, at: float) -> bool:
        """Tells whether the page counted as changed."""
        url = visit.url or f"http://x/pages/{visit.page}"

        def fetch(when: float) -> Fetched:
            self.fetches += 1
            body = visit.render(Moment(when, number, self.draw))
            data = body if isinstance(body, bytes) else body.encode()
            return Fetched(url, 200, data, {"content-type": visit.content_type})

        memory, outcome = self.memories.get(visit.page), fetch(at)
        reading = read(outcome, memory, RULE, at)
        judgement = judge(visit.page, at, outcome, memory, RULE, reading, self.frame)
        if memory is not None and wants_second_look(judgement):
            second = fetch(at + 1.0)
            if is_pair(1.0, at - self.last[visit.page]):
                judgement = learn_from_pair(judgement, reading, read(second, None, RULE, at + 1.0))
        if self.frame is not None:
            learn_visit(self.frame, visit.page, memory, judgement, at, url)
        if judgement.memory is not None:
            self.memories[visit.page] = judgement.memory
        self.last[visit.page] = at
        return judgement.verdict is Verdict.CHANGED


# -- one page --------------------------------------------------------------------------------------------------------


def ended(stay: int) -> Callable[[random.Random], Iterator[Visit]]:
    """A box of noise that becomes text, edited every `stay` visits."""

    def visits(rng: random.Random) -> Iterator[Visit]:
        texts = Texts(rng)
        above, below, title = texts.paragraphs(5), texts.paragraphs(4), texts.sentence(2)
        shape, size = rng.randrange(3), rng.randrange(6, 20)

        def box(draw: random.Random) -> list[str]:
            if shape == 0:
                return [texts.sentence(size, draw)]
            if shape == 1:
                return [f"Said: {texts.sentence(size, draw)}", texts.sentence(4, draw)]
            return [f"<ul>{''.join(f'<li>{texts.sentence(3, draw)}</li>' for _ in range(4))}</ul>"]

        for number in range(20 + 12 * stay):
            if number < 20:
                yield Visit(0, lambda now: texts.page(title, [*above, *box(now.draw), *below]), late=False)
                continue
            since = number - 20
            live = box(random.Random(f"{title} {since // stay}"))
            page = texts.page(title, [*above, *live, *below])
            yield Visit(0, fixed(page), edited=since > 0 and since % stay == 0, late=since > 0)

    return visits


def front_page(rng: random.Random) -> Iterator[Visit]:
    """A clock, readers online and comments beside headlines, of which one is new every few visits."""
    texts = Texts(rng, rng.choice(("plain", "main", "article")))
    news = [texts.sentence(6) for _ in range(6)]
    every, zone = rng.randrange(2, 5), rng.randrange(24)
    for number in range(80):
        edited = number >= 20 and number % every == 0
        if edited:
            news = [texts.sentence(6), *news[:-1]] if number % 2 else [*news[:2], texts.sentence(6), *news[3:]]

        def render(now: Moment, shown: tuple[str, ...] = tuple(news)) -> str:
            clock = datetime.fromtimestamp(now.at + zone * HOUR, UTC).strftime("%H:%M")
            top = [f"It is {clock}", f"{now.draw.randrange(200, 900)} readers online"]
            lines = [f"<h2>{one}</h2><p>{3 + now.visit + len(one)} comments</p>" for one in shown]
            return texts.page("The Paper", [*top, *lines, f"{now.draw.randrange(20, 90)} users online now"])

        yield Visit(0, render, edited, number >= 20)


def two_variants(rng: random.Random) -> Iterator[Visit]:
    """A page of which a part is drawn from two or three variants of different length, edited beside it."""
    texts = Texts(rng)
    variants = [texts.paragraphs(count) for count in rng.sample(range(1, 6), rng.choice((2, 2, 3)))]
    above, below = texts.paragraphs(4), texts.paragraphs(4)
    for number in range(86):
        edited = number >= 20 and number % 10 == 0
        if edited:
            which = number // 10 % 4
            part = (above, below, above, below)[which]
            if which < 2:
                part[-1 if part is above else 0] = texts.sentence()
            else:
                part.insert(len(part) if part is above else 0, texts.sentence())

        def render(now: Moment, around: tuple[list[str], list[str]] = (list(above), list(below))) -> str:
            return texts.page("Offer", [*around[0], *now.draw.choice(variants), *around[1]])

        yield Visit(0, render, edited, number >= 20)


def code_spacing(rng: random.Random) -> Iterator[Visit]:
    """Code that is indented anew and gets white space at its line ends, with edits and spacing inside lines between."""
    texts = Texts(rng)
    above, below = texts.paragraphs(3), texts.paragraphs(3)
    lines = [("  " * rng.randrange(3)) + texts.sentence(4) for _ in range(8)]
    lines[0] = lines[0].strip()
    for number in range(80):
        edited = number >= 20 and number % 5 == 0
        if edited and number % 2:
            lines[3] = lines[3].replace(" ", "  ", 3) + f" {number}"
        elif edited:
            lines[rng.randrange(1, 8)] = f"  {texts.sentence(4)}"
        shift, unit, tail = " " * rng.choice((0, 0, 4, 8)), rng.choice((1, 2)), " " * rng.randrange(4)
        shown = [shift + " " * (unit * (len(one) - len(one.lstrip()))) + one.lstrip() + tail for one in lines]
        page = texts.page("Code", [*above, f"<pre><code>{chr(10).join(shown)}</code></pre>", *below])
        yield Visit(0, fixed(page), edited, number >= 20)


def box(what: str) -> Callable[[random.Random], Iterator[Visit]]:
    """A box of noise amid paragraphs that are edited, put in and taken out, those beside the box as often as others."""

    def visits(rng: random.Random) -> Iterator[Visit]:
        texts = Texts(rng)
        above, below = texts.paragraphs(rng.randrange(2, 5)), texts.paragraphs(rng.randrange(2, 5))
        pool = [texts.sentence(4) for _ in range(60)]

        def noise(now: Moment) -> list[str]:
            if what == "token":
                return [f"Form {now.draw.getrandbits(64):016x}"]
            if what == "banner":
                return ["We and our partners use cookies", "Accept all of them"] if now.draw.random() < 0.5 else []
            if what == "links":
                return ["You may also like", *now.draw.sample(pool, 4)]
            if what == "list":
                return ["You may also like", *now.draw.sample(pool, now.draw.randrange(2, 6)), "That is all"]
            return [f"{one} · {3 * now.visit + at} likes · {now.visit // 2} shares" for at, one in enumerate(pool)]

        for number in range(90):
            edited = number >= 30 and number % 4 == 0
            if edited:
                part = rng.choice((above, below))
                at, how = rng.randrange(len(part)), rng.randrange(4)
                if how == 0:
                    part.insert(at, f"{texts.sentence()}.")
                elif how == 1 and len(part) > 2:
                    part.pop(at)
                else:
                    part[at] = f"{texts.sentence()}." if how == 2 else f"{part[at][:-1]} more{number}."

            def render(now: Moment, around: tuple[list[str], list[str]] = (list(above), list(below))) -> str:
                return texts.page("Offer", [*around[0], *noise(now), *around[1]])

            yield Visit(0, render, edited, number >= 30)

    return visits


# -- several pages ---------------------------------------------------------------------------------------------------


def template(part: str) -> Callable[[random.Random], Iterator[Visit]]:
    """Forty pages of one template, each with the same kind of noise, of which some are edited now and then."""

    def visits(rng: random.Random) -> Iterator[Visit]:
        texts = Texts(rng)
        own = [texts.paragraphs(rng.randrange(4, 8)) for _ in range(40)]
        titles = [texts.sentence(3) for _ in own]
        first = [rng.randrange(20, 5_000) for _ in own]
        pool = [texts.sentence(4) for _ in range(120)]
        where = rng.choice(("top", "end"))

        def noise(now: Moment, page: int) -> list[str]:
            views = first[page] + 3 * now.visit // 40
            if part == "view counters":
                return [f"{views:,} views", "Share this"]
            if part == "counters in cells":
                return [f"<table><tr><td>Downloads</td><td>{views:,}</td></tr></table>", "Share this"]
            if part == "counters in a sentence":
                return [f"Written by Alice, read {views} times, {views // 9} comments"]
            return ["Related", *now.draw.sample(pool, 4), "Share this"]

        for turn in range(14):
            for page in rng.sample(range(40), 40):
                edited = turn > 1 and rng.random() < 0.1
                if edited:
                    own[page][rng.randrange(len(own[page]))] = f"{texts.sentence()}."

                def render(now: Moment, page: int = page, blocks: tuple[str, ...] = tuple(own[page])) -> str:
                    extra = noise(now, page)
                    body = [*extra, *blocks] if where == "top" else [*blocks, *extra]
                    return texts.page(titles[page], body)

                yield Visit(page, render, edited, turn > (0 if part == "view counters" else 2))

    return visits


def shared_edit(pages: int, *, main: bool, of: int = 20) -> Callable[[random.Random], Iterator[Visit]]:
    """Puts one status, notice or price into some of the pages: below the heading, or amid each page's own text."""

    def visits(rng: random.Random) -> Iterator[Visit]:
        texts = Texts(rng, "main" if main else rng.choice(("plain", "article", "wiki", "forum")))
        own = [texts.paragraphs(rng.randrange(4, 7)) for _ in range(of)]
        titles = [texts.sentence(3) for _ in own]
        status = ["In stock"] * of
        notes: list[list[str]] = [[] for _ in own]
        for turn in range(10):
            kind = turn % 3
            chosen = set(rng.sample(range(of), pages)) if turn >= 2 else set()
            value = texts.sentence(3)
            for page in rng.sample(range(of), of):
                if page in chosen and kind == 0:
                    status[page] = value
                elif page in chosen and kind == 1:
                    notes[page] = [f"Notice: {value}"]
                elif page in chosen:
                    notes[page] = [*notes[page], f"€ {turn}.99"]
                blocks = [
                    "Details",
                    f"<p>{status[page]}</p>",
                    "Add to cart",
                    *own[page][:2],
                    *notes[page],
                    *own[page][2:],
                ]
                shown = texts.page(titles[page], blocks)
                yield Visit(page, fixed(shown), page in chosen, turn >= 2)

    return visits


def menu_change(rng: random.Random) -> Iterator[Visit]:
    """A menu outside of main that changes on all of thirty pages at once, with edits of articles between."""
    texts = Texts(rng)
    own = [texts.paragraphs(rng.randrange(4, 8)) for _ in range(30)]
    titles = [texts.sentence(3) for _ in own]
    menu = list(texts.menu)
    for turn in range(14):
        if turn in {4, 7, 10}:
            menu.insert(rng.randrange(1, len(menu)), texts.sentence(1))
        for page in rng.sample(range(30), 30):
            edited = turn > 1 and rng.random() < 0.1
            if edited:
                own[page][rng.randrange(len(own[page]))] = f"{texts.sentence()}."
            shown = texts.page(titles[page], own[page], menu=tuple(menu))
            yield Visit(page, fixed(shown), edited, turn > 1)


def banner(*, main: bool) -> Callable[[random.Random], Iterator[Visit]]:
    """A banner below the headings and a version below the texts, which deploys change on all of forty pages at once.

    In a main element another version is a change of each page.
    """

    def visits(rng: random.Random) -> Iterator[Visit]:
        texts = Texts(rng, "main" if main else rng.choice(("plain", "article", "wiki", "forum")))
        own = [texts.paragraphs(rng.randrange(4, 8)) for _ in range(40)]
        titles = [texts.sentence(3) for _ in own]
        shown: list[str] = []
        version = 1
        for turn in range(14):
            if turn in {4, 10}:
                shown = [texts.sentence(5)] if turn == 4 else []
            version += turn == 7
            for page in rng.sample(range(40), 40):
                edited = turn > 1 and rng.random() < 0.1
                counts = edited or (main and turn == 7)
                if edited:
                    own[page][rng.randrange(len(own[page]))] = f"{texts.sentence()}."
                blocks = [*shown, "Contents", *own[page], "See also", f"Harbour {version}.0"]
                yield Visit(page, fixed(texts.page(titles[page], blocks)), counts, turn > 1)

    return visits


def new_theme(rng: random.Random) -> Iterator[Visit]:
    """Thirty pages that are served in another layout, with another menu, after each deploy."""
    texts = Texts(rng)
    own = [texts.paragraphs(rng.randrange(4, 8)) for _ in range(30)]
    titles = [texts.sentence(3) for _ in own]
    for turn in range(14):
        if turn in {4, 7, 10}:
            texts.layout = "main" if texts.layout != "main" else rng.choice(("plain", "article", "wiki"))
        for page in rng.sample(range(30), 30):
            edited = turn > 1 and rng.random() < 0.1
            if edited:
                own[page][rng.randrange(len(own[page]))] = f"{texts.sentence()}."
            yield Visit(page, fixed(texts.page(titles[page], own[page])), edited, turn > 1)


def copying(what: str) -> Callable[[random.Random], Iterator[Visit]]:
    """A wiki of which some pages copy what is new on another before it is visited."""

    def visits(rng: random.Random) -> Iterator[Visit]:
        texts = Texts(rng)
        own = [texts.paragraphs(rng.randrange(5, 8)) for _ in range(24)]
        titles = [texts.sentence(3) for _ in own]
        victim, *copies = rng.sample(range(24), 1 + rng.choice((2, 2, 3)))
        end, late = rng.random() < 0.5, rng.choice((0, 2, 12))
        for turn in range(24):
            edited = turn >= 4 and turn % 2 == 0
            if edited:
                new = f"{texts.sentence()}."
                at = len(own[victim]) if end else rng.randrange(1, len(own[victim]))
                own[victim].insert(at, new)
                for page in copies:
                    if what == "text":
                        own[page] = list(own[victim])
                        titles[page] = titles[victim]
                    else:
                        own[page].insert(len(own[page]) if end else 1, new)
            others = [page for page in range(24) if page not in {victim, *copies}]
            seen = rng.sample(others, len(others) // 2)
            for page in [*copies, *seen[:late], victim, *seen[late:]]:
                shown = texts.page(titles[page], own[page])
                mine = page == victim
                yield Visit(page, fixed(shown), edited and mine, mine and turn >= 4)

    return visits


def site_titles(rng: random.Random) -> Iterator[Visit]:
    """Titles that all hold the site's name and version, which a deploy raises; some titles are edited."""
    texts = Texts(rng)
    own = [texts.paragraphs(rng.randrange(4, 8)) for _ in range(30)]
    titles = [texts.sentence(3) for _ in own]
    join = rng.choice((" | ", " — ", " · ", " for ", " "))
    version = 1
    for turn in range(14):
        version += turn in {4, 7, 10}
        for page in rng.sample(range(30), 30):
            edited = turn > 1 and rng.random() < 0.1
            if edited:
                titles[page] = texts.sentence(3)
            site = f"{join}Harbour documentation {version}.{version + 1}"
            shown = texts.page(titles[page], own[page], heading="Reference", site=site)
            yield Visit(page, fixed(shown), edited, turn > 1)


# -- what is no HTML -------------------------------------------------------------------------------------------------


def _record(texts: Texts, number: int) -> dict[str, object]:
    return {
        "id": number,
        "name": texts.sentence(3),
        "tags": texts.words[:3],
        "price": 10 + number,
        "note": texts.sentence(5),
    }


def json_document(rng: random.Random) -> Iterator[Visit]:
    """JSON in any order of keys and spacing, with a time, a counter and a request's name in it."""
    texts = Texts(rng)
    records = [_record(texts, number) for number in range(12)]
    for number in range(80):
        edited = number >= 20 and number % 5 == 0
        if edited:
            key = ("name", "price", "note")[number // 5 % 3]
            records[rng.randrange(12)][key] = number if key == "price" else texts.sentence(4)

        def render(now: Moment, kept: str = json.dumps(records)) -> str:
            meta = {"generated": int(now.at), "request": f"{now.draw.getrandbits(64):016x}", "views": 90 + now.visit}
            data = {"meta": meta, "items": [_any_order(one, now.draw) for one in json.loads(kept)], "version": 1}
            return json.dumps(_any_order(data, now.draw), indent=now.draw.choice((None, 2)), ensure_ascii=False)

        yield Visit(0, render, edited, number >= 20, content_type="application/json")


def _any_order(data: Mapping[str, object], draw: random.Random) -> dict[str, object]:
    return {key: data[key] for key in draw.sample(sorted(data), len(data))}


def lines_of(kind: str, content_type: str) -> Callable[[random.Random], Iterator[Visit]]:
    """A text, Markdown, a feed, XML or HTML under another type, with a time and a token in it."""

    def visits(rng: random.Random) -> Iterator[Visit]:
        texts = Texts(rng)
        lines = [f"{texts.sentence()}." for _ in range(14)]
        for number in range(80):
            edited = number >= 20 and number % 5 == 0
            if edited:
                lines[rng.randrange(14)] = f"{texts.sentence()}."

            def render(now: Moment, shown: tuple[str, ...] = tuple(lines)) -> str:
                return DOCUMENTS[kind](now, shown)

            yield Visit(0, render, edited, number >= 20, content_type=content_type)

    return visits


def _spelt(now: Moment, spelling: str) -> str:
    return datetime.fromtimestamp(now.at, UTC).strftime(spelling)


def _plain(now: Moment, lines: tuple[str, ...]) -> str:
    end = " " * now.draw.randrange(3) + now.draw.choice(("\n", "\r\n"))
    token = f"Request {now.draw.getrandbits(48):012x}"
    return end.join((f"Generated at {_spelt(now, '%Y-%m-%d %H:%M:%S')}", *lines[:7], token, "", *lines[7:], ""))


def _markdown(now: Moment, lines: tuple[str, ...]) -> str:
    body = "\n\n".join(f"## Part {n}\n\n{line}" for n, line in enumerate(lines))
    return f"# Title\n\n{41 + now.visit} downloads\n\n{body}\n\n```\ncode {lines[0]}\n```\n"


def _feed(now: Moment, lines: tuple[str, ...]) -> str:
    items = "".join(f"<item><title>{line}</title><guid>{n}</guid></item>\n" for n, line in enumerate(lines))
    date = _spelt(now, "%a, %d %b %Y %H:%M:%S GMT")
    head = f"<title>News</title><lastBuildDate>{date}</lastBuildDate>"
    return f"<?xml version='1.0'?><rss version='2.0'><channel>{head}{items}</channel></rss>"


def _xml(now: Moment, lines: tuple[str, ...]) -> str:
    order = now.draw.choice(("a='1' b='2'", 'b="2"  a="1"'))
    items = "".join(f"<row {order} n='{n}'>{line}</row>{now.draw.choice(('', ' '))}" for n, line in enumerate(lines))
    return f"<?xml version='1.0'?><data><token>{now.draw.getrandbits(64):016x}</token><!-- {now.at} -->{items}</data>"


def _html(now: Moment, lines: tuple[str, ...]) -> str:
    inner = "".join(f"<p class=c{now.draw.getrandbits(20)}>{line}</p>" for line in lines)
    return f"<!doctype html><html><body><script>{now.at}</script>{inner}<p>{now.visit + 9} views</p></body></html>"


DOCUMENTS: dict[str, Callable[[Moment, tuple[str, ...]], str]] = {
    "text": _plain, "markdown": _markdown, "feed": _feed, "xml": _xml, "html": _html,
}  # fmt: skip
SITES: dict[str, Callable[[random.Random], Iterator[Visit]]] = {
    **{f"noise that ends, edits that stay {stay} visits": ended(stay) for stay in range(1, 13)},
    "edits beside noise every few visits": front_page,
    "edits beside a token": box("token"),
    "edits beside a cookie banner that comes and goes": box("banner"),
    "edits beside random links": box("links"),
    "edits beside a list of any length": box("list"),
    "edits amid counters in every paragraph": box("counters"),
    "40 pages of one template, view counters": template("view counters"),
    "40 pages of one template, counters in a sentence": template("counters in a sentence"),
    "40 pages of one template, counters in cells": template("counters in cells"),
    "40 pages of one template, random links": template("random links"),
    **{f"shared edit of {count} of 20 pages inside main": shared_edit(count, main=True) for count in (2, 5, 10, 20)},
    **{f"shared edit of {count} of 20 pages without main": shared_edit(count, main=False) for count in (2, 5, 10, 20)},
    "shared edit of 25 of 40 pages inside main": shared_edit(25, main=True, of=40),
    "menu of 30 pages": menu_change,
    "banner on all of 40 pages inside their main": banner(main=True),
    "banner on all of 40 pages without main": banner(main=False),
    "new theme of 30 pages": new_theme,
    "neighbours that copy a paragraph": copying("paragraph"),
    "neighbours that copy the whole text": copying("text"),
    "A/B variants of different length": two_variants,
    "titles with the name and version of the site": site_titles,
    "spacing in code": code_spacing,
    "JSON": json_document,
    "text": lines_of("text", "text/plain; charset=utf-8"),
    "Markdown": lines_of("markdown", "text/markdown"),
    "feed": lines_of("feed", "application/rss+xml"),
    "XML": lines_of("xml", "application/xml"),
    "HTML served as text/plain": lines_of("html", "text/plain"),
}


def measure_site(kind: str, seeds: int) -> dict[str, object]:
    """False changes and edits seen among the visits of a kind that count, and fetches per visit."""
    false = quiet = seen = edits = fetches = count = 0
    for seed in range(seeds):
        visits = list(SITES[kind](random.Random(f"{kind} {seed}")))
        pages = len({visit.page for visit in visits})
        visitor = SiteVisitor(random.Random(seed), HostFrame("x") if pages >= FRAME_LIMITS.min_pages else None)
        for number, visit in enumerate(visits):
            at = BEGAN + HOUR * number / pages + visitor.draw.uniform(0, 600 / pages)
            changed = visitor.visit(visit, number, at)
            if visit.late and visit.edited:
                seen, edits = seen + changed, edits + 1
            elif visit.late:
                false, quiet = false + changed, quiet + 1
        fetches, count = fetches + visitor.fetches, count + len(visits)
    return {
        "kind": kind,
        "false_share": false / max(quiet, 1),
        "edits_seen_share": seen / max(edits, 1),
        "fetches_per_visit": fetches / count,
    }
