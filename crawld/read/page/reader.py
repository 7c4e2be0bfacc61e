"""The part of a page that a reader came for, as a tree: what `document` writes as text and as Markdown.

It is another selection than the one that is compared for changes. There a menu that counts costs a request and a text
that is overlooked costs the copy; here both cost the reader, so menus, banners, teasers and comments go, and every
heading of the article stays. The steps:

1. take out what is not shown, and what tags, roles and names say is no content;
2. find the element that holds nearly all of the prose, and the siblings that go on with it;
3. take out lists of links around the prose, and what the host's pages share, but never a heading;
4. put the page's heading first where it stands outside.

Each step is given up where it would leave next to nothing. Time is linear in the size of the page.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from lxml import etree

from crawld.read.page.markup import PATTERNS, WORDS, hides, is_callout, outermost, parsed_page
from crawld.read.page.rules import DigestRule


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class ReaderWords(NamedTuple):
    """Tags, roles, ids, classes and texts that tell content from what stands around it."""

    unread: frozenset[str] = frozenset(WORDS.unseen) - {"rp"} | _words(
        "button select input textarea option dialog menu progress meter map svg link meta"
    )
    inline: frozenset[str] = _words(
        """
        a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark math nobr picture q rb
        rp rt ruby s samp small source span strike strong sub sup time tt u var wbr
        """
    )
    kept_whole: frozenset[str] = _words("html body main article pre code table tbody thead tr td th")
    frame_roles: frozenset[str] = _words(
        """
        navigation doc-toc menu menubar toolbar search banner contentinfo complementary dialog alertdialog tablist
        button
        """
    )
    noise: frozenset[str] = _words(
        """
        nav navbar navigation navbox subnav topnav sitenav menu submenu breadcrumb breadcrumbs crumbs sidebar
        sidebars aside rail footer masthead topbar toolbar cookie cookies consent gdpr newsletter subscribe
        subscription signup share sharing sharebar social socials addthis sharedaddy related recommended
        recommendations suggested trending popular promo promotion advert advertisement ad ads adsense sponsored
        sponsor banner outbrain taboola pagination pager paginator paging toc tocify skip skiplink screenreader
        popup modal overlay lightbox widget widgets editsection catlinks printfooter jumplink headerlink permalink
        hatnote noprint feedback rating ratings authorbox authorbio tagcloud tags taglist langlinks interlanguage
        copyright legal disqus login signin searchform searchbox dropdown backtotop tooltip prevnext byline dateline
        noscript announcement announcebar infolinks usermenu metabox mbox postmeta cta teasers upsell crosssell
        hero-nav statusbar clipboard
        """
    )
    """Words of ids and classes that stand on no content."""
    noise_names: frozenset[str] = _words(
        """
        hidden postprofile sr-only visually-hidden screen-reader-text post-meta entry-meta article-meta
        edit-page-link author-bio author-box about-author read-next more-stories you-may-also-like post-navigation
        post-nav nav-links next-prev page-actions site-header site-footer page-footer post-footer entry-footer
        article-footer rst-versions rst-footer-buttons wy-breadcrumbs theme-doc-footer mw-jump-link post-tags
        entry-tags tag-list user-info user-signature post-signature signature vote-cell post-menu back-to-top
        last-updated edit-this-page on-this-page table-of-contents theme-edit-this-page related-posts also-bought
        size-guide mw-indicators site-notice sitenotice siteSub contentSub jump-to-nav read-more readmore print-only
        theme-doc-toc-mobile in-this-section skip-to-content post-info meta-info quick-links
        """
    )
    states: frozenset[str] = _words("no has with is layout md lg sm xl js not without")
    """First words of names that name a state: `no-sidebar`, `has-toc`, `layout-sidebar`, utilities as `md:hidden`."""
    gutters: frozenset[str] = _words("linenos gutter lineno linenodiv line-numbers-rows rouge-gutter hljs-ln-n")
    """Line numbers beside code."""
    comments: frozenset[str] = _words(
        """
        comments commentlist comment-list comment-section comments-area respond disqus_thread comment-respond
        comment-thread comments-section comments-list comment-form post-comments
        """
    )
    content_names: frozenset[str] = _words(
        """
        mw-parser-output markdown-body entry-content post-content article-content article-body articlebody post-body
        story-body story-content theme-doc-markdown rst-content s-prose postbody td-content sl-markdown-content
        vp-doc content-body page-content body-text article__body article__content entry post-text main-content
        product-description messagebody
        """
    )
    """Names of elements that hold a text and nothing else: lists of links in them belong to it."""
    permalinks: frozenset[str] = frozenset(
        {"", "#", "¶", "§", "🔗", "\u200b", "permalink", "link", "anchor", "[edit]", "[link]"}
    )
    """Texts of links from a heading to itself."""
    word: re.Pattern[str] = re.compile(r"[A-Za-z]+?(?=[^A-Za-z]|[A-Z][a-z]|$)")
    sentence: re.Pattern[str] = re.compile(r"[.!?…](?:[\s\"'”’»)\]]|$)|[。！？．।؟။]")
    wide_letters: re.Pattern[str] = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
    """Of scripts that need a third of the letters for the same text, or set no spaces between words."""
    may_control: re.Pattern[bytes] = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|&#|\xef\xbf[\xbe\xbf]")


NAMES = ReaderWords()


@dataclass(frozen=True)
class ReaderLimits:
    """Bounds at which a step stops, or is given up."""

    min_characters: int = 25  # a selection with less text than this is none
    min_share: float = 0.02  # or with less than this share of what is seen
    prose: int = 60  # characters outside links from which on a block is prose
    holds: float = 0.65  # share of the prose that makes an element the one that holds it
    frame_share: float = 0.7  # of the prose: more of it is never taken out because of a name
    linked: float = 0.6  # share of a block's characters in links that makes it a list of links
    max_elements: int = 60_000  # a page with more is read as it is compared


LIMITS = ReaderLimits()


@dataclass(slots=True)
class _Weight:
    """Text that an element holds: characters, those in links, and those of prose."""

    own: int = 0  # in its own lines, outside links
    characters: int = 0
    linked: int = 0
    prose: float = 0.0
    links: int = 0

    def add(self, letters: int) -> None:
        """Count a piece of text of its own."""
        self.own += letters
        self.characters += letters


def _drop_controls(root: Any) -> None:
    """Take out the characters that the parser reads and refuses to write: no reader sees them."""
    for element in root.iter(etree.Element):
        if element.text and PATTERNS.unwritable.search(element.text):
            element.text = PATTERNS.unwritable.sub("", element.text)
        if element.tail and PATTERNS.unwritable.search(element.tail):
            element.tail = PATTERNS.unwritable.sub("", element.tail)
        for name, value in element.attrib.items():
            if PATTERNS.unwritable.search(value):
                element.set(name, PATTERNS.unwritable.sub("", value))


def main_tree(
    body: bytes, content_type: str | None, rule: DigestRule, is_frame: Callable[[str], bool] | None = None
) -> tuple[Any, Any] | None:
    """The whole parsed page and the element a reader came for, which is changed in place; None where it cannot be read.

    `is_frame` says of the text of a block whether many pages of the host have it.
    """
    root = parsed_page(body, content_type, rule)
    if root is None or sum(1 for _ in root.iter()) > LIMITS.max_elements:
        return None
    if NAMES.may_control.search(body):
        _drop_controls(root)
    page = next(root.iter("body"), root)
    chosen = rule._only.find(root) if rule._only is not None else []
    _drop_all(
        element
        for element in page.iter(*NAMES.unread)
        if element.get("shadowrootmode") is None or element.tag != "template"
    )
    beside_code = page.iter("td", "div", "span", "pre", "a")
    _drop_all(one for one in beside_code if not NAMES.gutters.isdisjoint((one.get("class") or "").split()))
    _drop_hidden(page)
    _drop_permalinks(page)
    if chosen:
        return root, _joined(element for element in chosen if element.getparent() is not None)
    heading = _page_heading(root, page)
    if rule.mode == "text":
        return root, page
    _drop_frame(page)
    weights = _weigh(page)
    main = _descended(_declared(page, weights), weights)
    kept = _with_siblings(main, weights, page)
    content = kept[0] if len(kept) == 1 else _joined(kept)
    explicit = [one for one in kept if _is_content(one)]
    weights = _weigh(content)
    _drop_links(content, weights, explicit=bool(explicit))
    if is_frame is not None:
        _drop_shared(content, is_frame)
    _drop_lone_headings(content)
    if heading is not None and text_of(heading) not in map(text_of, content.iter("h1", "h2", "h3")):
        content = _joined([content])
        content.insert(0, heading)
    return root, content


# -- step 1: what is no content, by what it says it is ------------------------------------------------------------


def drop(element: Any) -> None:
    """Take an element out of its tree; the text after it stays."""
    parent = element.getparent()
    if parent is None:
        return
    tail = element.tail
    if tail:
        before = element.getprevious()
        if before is not None:
            before.tail = f"{before.tail or ''} {tail}" if before.tail else tail
        else:
            parent.text = f"{parent.text or ''} {tail}" if parent.text else tail
    parent.remove(element)


def _drop_all(elements: Iterable[Any]) -> None:
    for element in list(elements):
        drop(element)


def _drop_hidden(page: Any) -> None:
    """Take out what is hidden, unless a script shows nearly all of the page later."""
    hidden = [element for element in page.iter() if element is not page and hides(element)]
    if not hidden:
        return
    hidden = outermost(hidden)
    whole, inside = _length(page), sum(map(_length, hidden))
    if whole - inside >= max(LIMITS.min_characters, LIMITS.min_share * whole) or inside < 10 * LIMITS.min_characters:
        _drop_all(hidden)


def _drop_permalinks(page: Any) -> None:
    """Take out the links to themselves that many themes put into headings; what they name becomes the heading's id."""
    for heading in page.iter(*WORDS.headings):
        for link in list(heading.iter("a")):
            text = text_of(link)
            alone = text and text == text_of(heading)
            if text.lower() in NAMES.permalinks and not alone and next(link.iter("img"), None) is None:
                name = link.get("id") or link.get("name") or (link.get("href") or "").partition("#")[2]
                if name and not heading.get("id"):
                    heading.set("id", name)
                drop(link)


def _drop_frame(page: Any) -> None:
    """Take out navigation, banners, asides and comments, by tag, role and name; never what holds much of the prose."""
    weights = _weigh(page)
    whole = weights[page]
    frame, comments = [], []
    for element in page.iter():
        kind = _kind(element)
        if kind == "comments":
            comments.append(element)
        elif kind == "frame":
            frame.append(element)
    leaving = outermost([one for one in frame if _may_go(weights[one], whole)])
    named = [one for one in leaving if _by_name(one)]
    others = sum(weights[one].prose for one in leaving if not _by_name(one))
    if whole.prose - others - sum(weights[one].prose for one in named) < min(2 * LIMITS.prose, 0.5 * whole.prose):
        leaving = [one for one in leaving if not _by_name(one)]
    for element in leaving:
        _keep_heading(element)
        drop(element)
    gone = sum(weights[one].prose for one in leaving)
    rest = whole.prose - gone - sum(weights[one].prose for one in outermost(comments))
    if comments and rest >= 2 * LIMITS.prose:
        _drop_all(comments)


def _may_go(weight: _Weight, whole: _Weight) -> bool:
    """Tells whether enough stays without a part."""
    return (
        weight.prose <= LIMITS.frame_share * whole.prose
        or weight.characters <= 0.5 * whole.characters
        or _mostly_links(weight)
    )


def _by_name(element: Any) -> bool:
    return element.tag not in {"nav", "search", "aside", "header", "footer"} and not element.get("role")


def _mostly_links(weight: _Weight) -> bool:
    return weight.links > 3 and weight.linked > LIMITS.linked * max(weight.characters, 1)


def _keep_heading(element: Any) -> None:
    """Move the first h1 of a header before it: it is the title of what follows."""
    if element.tag in {"header", "hgroup"} or "header" in (element.get("class") or ""):
        heading = next(element.iter("h1"), None)
        if (
            heading is not None
            and heading is not element
            and _length(heading)
            and next(heading.iter("a"), None) is None
        ):
            heading.tail = None
            element.addprevious(heading)


def _kind(element: Any) -> str | None:
    """`frame` or `comments` for an element that tag, role or name say is no content."""
    tag = element.tag
    if not isinstance(tag, str) or tag in NAMES.kept_whole or tag in WORDS.headings:
        return None
    role = (element.get("role") or "").strip().lower()
    names = element.get("class") or ""
    if tag == "p":
        return None
    if tag in {"nav", "search"}:
        return "frame"
    if tag == "aside":
        return None if is_callout(element) else "frame"
    if tag in {"header", "footer"}:
        of_page = not any(above.tag in {"article", "section", "main"} for above in element.iterancestors())
        return "frame" if role in NAMES.frame_roles or of_page or tag == "footer" else None
    if role in NAMES.frame_roles:
        return "frame"
    name = element.get("id") or ""
    if not names and not name:
        return None
    return _kind_of_names(names[:300], name[:100])


@lru_cache(8192)
def _kind_of_names(classes: str, name: str) -> str | None:
    names = [*classes.split(), *([name] if name else [])]
    lowered = {one.lower() for one in names}
    if lowered & NAMES.comments:
        return "comments"
    if lowered & NAMES.content_names or lowered & WORDS.callouts or any("admonition" in one for one in lowered):
        return None
    if lowered & NAMES.noise_names:
        return "frame"
    for one in names:
        words = [word.lower() for word in NAMES.word.findall(one)]
        if {"comment", "comments"} & set(words) and words[0] not in {"no", "has", "icon"}:
            return "comments"
        if not words or words[0] in NAMES.states:
            continue
        if (words[0] in NAMES.noise or words[-1] in NAMES.noise) and "content" not in words and "wrapper" not in words:
            return "frame"
    return None


# -- step 2: the element that holds the prose ----------------------------------------------------------------------


def _weigh(top: Any) -> dict[Any, _Weight]:
    """The weights of all elements below one."""
    elements = list(top.iter())
    weights = {element: _Weight() for element in elements}
    for element in elements:
        if not isinstance(element.tag, str):
            continue
        if element.text:
            weights[element].add(_letters(element.text))
        if element is not top and element.tail and (parent := element.getparent()) is not None:
            weights[parent].add(_letters(element.tail))
    for element in reversed(elements):
        weight = weights[element]
        tag = element.tag
        if tag == "a":
            weight.linked, weight.links = weight.characters, 1
        elif tag not in NAMES.inline:
            weight.prose += _prose(element, weight)
        parent = element.getparent()
        if element is not top and parent is not None:
            above = weights[parent]
            above.characters += weight.characters
            above.linked += weight.linked
            above.links += weight.links
            above.prose += weight.prose
            if tag in NAMES.inline:
                above.own += weight.characters - weight.linked
    return weights


def _prose(element: Any, weight: _Weight) -> float:
    """The prose of a block by itself: its own lines outside links, where they are a sentence or more."""
    if element.tag == "pre":
        return weight.characters * 0.7
    if weight.own < LIMITS.prose:
        return 0.1 * weight.own if element.tag in {"p", "li", "dd", "td"} else 0.0
    if not _has_sentence(element):  # a teaser, a caption, a row of words; or a script that sets no full stops
        return 0.2 * weight.own
    return float(weight.own) if element.tag in {"p", "li", "dd", "blockquote", "td"} else 0.8 * weight.own


def _has_sentence(element: Any) -> bool:
    """Tells whether a sentence ends in the element's own lines."""
    if element.text and NAMES.sentence.search(element.text):
        return True
    for below in element:
        if below.tail and NAMES.sentence.search(below.tail):
            return True
        if below.tag in NAMES.inline and below.tag != "a" and any(map(NAMES.sentence.search, below.itertext())):
            return True
    return False


def _letters(text: str) -> int:
    count = len(text) if text.isalnum() else len(" ".join(text.split()))
    if count and not text.isascii():
        count += 2 * len(NAMES.wide_letters.findall(text))
    return count


def _length(element: Any) -> int:
    return sum(len(text.strip()) for text in element.itertext())


def _declared(page: Any, weights: dict[Any, _Weight]) -> Any:
    """The part that the page says is its main one, where it holds much of the prose; else the whole page."""
    whole = weights[page].prose
    best, found = page, 0.0
    for element in page.iter():
        tag = element.tag
        if not isinstance(tag, str):
            continue
        if tag == "main" or element.get("role") == "main" or element.get("itemprop") == "articleBody":
            prose = weights[element].prose
            much = 0.5 * weights[page].characters  # of a list, which has no prose
            if prose >= found and (prose >= 0.3 * whole or weights[element].characters >= much):
                best, found = element, prose
    articles = [one for one in best.iter("article") if one is not best]
    if articles:
        heaviest = max(articles, key=lambda one: weights[one].prose)
        if weights[heaviest].prose >= 0.6 * weights[best].prose and weights[heaviest].prose >= 2 * LIMITS.prose:
            return heaviest
    return best


def _descended(element: Any, weights: dict[Any, _Weight]) -> Any:
    """The deepest element below that still holds nearly all of the prose."""
    while element.tag not in {"pre", "table", "ul", "ol", "dl", "p", "blockquote"} and not _is_content(element):
        whole = weights[element].prose
        heaviest = max((one for one in element if one in weights), key=lambda one: weights[one].prose, default=None)
        if (
            heaviest is None
            or heaviest.tag in NAMES.inline
            or heaviest.tag in {"p", "pre", "ul", "ol", "dl", "blockquote"}
        ):
            break
        if whole <= 0 or weights[heaviest].prose < LIMITS.holds * whole:
            break
        if _goes_on_beside(element, heaviest, weights):
            break
        element = heaviest
    return element


def _goes_on_beside(element: Any, heaviest: Any, weights: dict[Any, _Weight]) -> bool:
    """Tells whether siblings of the same kind as the heaviest child hold prose, too: they are parts of one text."""
    like = [weights[one] for one in element if one.tag == heaviest.tag and one.get("class") == heaviest.get("class")]
    if heaviest.tag == "section":
        return sum(1 for one in like if one.characters > 20 and not _mostly_links(one)) > 1
    return sum(1 for one in like if one.prose >= LIMITS.prose and one.prose >= 0.4 * one.characters) > 1


def _is_content(element: Any) -> bool:
    if element.get("itemprop") == "articleBody":
        return True
    names = {*(element.get("class") or "").lower().split(), (element.get("id") or "").lower()}
    return not names.isdisjoint(NAMES.content_names)


def _with_siblings(main: Any, weights: dict[Any, _Weight], page: Any) -> list[Any]:
    """The main element, with siblings at its side that are headings, prose or more of the same kind."""
    parent = main.getparent()
    if parent is None or main is page or main.tag in {"main", "article", "tr", "td", "tbody"}:
        return [main]
    if _is_content(main):
        before = main.getprevious()
        return [before, main] if before is not None and before.tag in WORDS.headings else [main]
    within = any(above.tag in {"main", "article"} for above in main.iterancestors())
    return [one for one in parent if one is main or (one in weights and _goes_along(one, main, weights, within=within))]


def _goes_along(one: Any, main: Any, weights: dict[Any, _Weight], *, within: bool) -> bool:
    """Tells whether a sibling of the main element continues its text; `within`: in a declared main part."""
    weight = weights[one]
    if one.tag in WORDS.headings:
        return True
    if weight.linked > 0.3 * max(weight.characters, 1):
        return False
    if one.tag in {"p", "pre", "blockquote"}:
        return weight.characters > 20
    like = one.tag == main.tag and one.get("class") == main.get("class")
    if like and one.tag == "section":
        return weight.characters > 20
    least = LIMITS.prose if within or like else max(LIMITS.prose, 0.25 * weights[main].prose)
    return weight.prose >= least and weight.prose >= 0.5 * weight.characters


def _joined(elements: Iterable[Any]) -> Any:
    """Elements that lie in none of the others, moved below one of their own."""
    apart = outermost(list(dict.fromkeys(elements)))
    if not apart:
        return etree.Element("div")
    parent, together = apart[0].getparent(), apart[0].makeelement("div")
    if parent is not None:
        parent.insert(parent.index(apart[0]), together)
    for one in apart:
        one.tail = None
        together.append(one)
    return together


# -- step 3: links around the prose, and what pages share -----------------------------------------------------------


def _drop_links(content: Any, weights: dict[Any, _Weight], *, explicit: bool) -> None:
    """Take out lists of links before and after the prose, and boxes and rows of links anywhere.

    Other lists amid the prose belong to it, and a page that is a list of links keeps them.
    """
    whole = weights[content]
    if whole.linked > 0.5 * max(whole.characters, 1) or whole.prose < 2 * LIMITS.prose:
        return
    elements = [one for one in content.iter() if one is not content and one in weights]
    order = {element: number for number, element in enumerate(elements)}
    prose = [
        order[one]
        for one in elements
        if one.tag not in NAMES.inline and _prose(one, weights[one]) >= 0.7 * LIMITS.prose
    ]
    first, last = (prose[0], prose[-1]) if prose else (0, len(elements))
    for element in elements:
        weight = weights[element]
        if (
            element.tag in NAMES.inline
            or element.tag in WORDS.headings
            or element.getparent() is None
            or not weight.links
        ):
            continue
        plain = weight.characters - weight.linked
        menu = element.tag == "td" and weight.links > 3 and plain < 20  # of a table that lays out the page
        if element.tag in {"li", "td", "tr", "th", "dt", "dd", "tbody"} and not menu:
            continue
        if weight.linked <= LIMITS.linked * max(weight.characters, 1) or plain > 2 * LIMITS.prose:
            continue
        edge = order[element] < first or order[element] > last
        if explicit:
            edge = edge and weight.links > 2 and element.tag in {"div", "section"} and plain < 20
        else:
            edge = edge and (weight.links > 1 or element.tag != "p")
        if edge or _is_row(element, weight) or _is_box(element, weight):
            drop(element)


def _is_row(element: Any, weight: _Weight) -> bool:
    """Tells whether a block is a row of short links and nothing else: reply, share, report."""
    if element.tag not in {"div", "p"} or weight.links < 2 or any(below.tag not in NAMES.inline for below in element):
        return False
    return weight.characters - weight.linked < 3 * weight.links and weight.linked < 15 * weight.links


def _is_box(element: Any, weight: _Weight) -> bool:
    """Tells whether a named block is a label and some links; parts of a text have an anchor or a heading."""
    if element.tag not in {"div", "section"} or not element.get("class") or element.get("id") or weight.links < 2:
        return False
    plain = weight.characters - weight.linked
    return plain < LIMITS.prose and next(element.iter("h1", "h2", "h3", "table", "pre"), None) is None


def _drop_shared(content: Any, is_frame: Callable[[str], bool]) -> None:
    """Take out blocks that many pages of the host have, at the edges of the text or where they are links."""
    blocks = [(one, text_of(one)) for one in content.iter() if _is_leaf(one)]
    blocks = [(one, text) for one, text in blocks if text]
    shared = [is_frame(text) for _, text in blocks]
    if all(shared):
        return
    own = [at for at, one in enumerate(shared) if not one]
    for at, (element, text) in enumerate(blocks):
        if not shared[at] or element.tag in WORDS.headings or _in_heading(element):
            continue
        linked = sum(len(text_of(link)) for link in element.iter("a"))
        if at < own[0] or at > own[-1] or linked > 0.5 * len(text):
            drop(element)


def _is_leaf(element: Any) -> bool:
    """Tells whether an element is a block of text: it has words of its own, and no blocks in it."""
    if not isinstance(element.tag, str) or element.tag in NAMES.inline:
        return False
    return not any(isinstance(below.tag, str) and below.tag not in NAMES.inline for below in element.iterdescendants())


def _in_heading(element: Any) -> bool:
    return any(above.tag in WORDS.headings for above in element.iterancestors())


def text_of(element: Any) -> str:
    """The text inside an element, with single spaces."""
    return " ".join("".join(element.itertext()).split())


def _drop_lone_headings(content: Any) -> None:
    """Take out headings at the end that nothing follows: they named what was taken out."""
    elements = [one for one in content.iter() if isinstance(one.tag, str)]
    for element in reversed(elements):
        if element.tag in WORDS.headings and element.tag != "h1":
            if element.getparent() is not None:
                drop(element)
        elif element.tag in NAMES.inline:
            if element.tag in {"img", "picture", "a"} and not _in_heading(element):
                return
        elif _has_words(element):
            return


def _has_words(element: Any) -> bool:
    texts = [element.text, *(below.tail for below in element)]
    if any(text and text.strip() for text in texts):
        return True
    return any(below.tag in NAMES.inline and text_of(below) for below in element)


# -- step 4: the heading of the page --------------------------------------------------------------------------------


def _page_heading(root: Any, page: Any) -> Any | None:
    """A copy of the heading of the page: the h1 that its title names, or the only one; None where there is none."""
    title = next(root.iter("title"), None)
    named = "" if title is None else text_of(title).casefold()
    headings = [
        (one, text_of(one).casefold()) for one in islice(page.iter("h1", "h2", "h3"), 100) if not _names_site(one)
    ]
    found = [(one, text) for one, text in headings if 0 < len(text) <= 300]
    first = [one for one, text in found if named.startswith(text) and len(text) > 3]
    first += [one for one, text in found if one.tag == "h1" and text in named]
    chosen = first[0] if first else None
    if chosen is None:
        alone = [one for one, _ in found if one.tag == "h1" and next(one.iter("a"), None) is None]
        chosen = alone[0] if len(alone) == 1 else None
    if chosen is None:
        return None
    heading = chosen.makeelement("h1", dict(chosen.attrib))
    heading.text = text_of(chosen)
    return heading


def _names_site(heading: Any) -> bool:
    """Tells whether a heading is the link to the front page that sites have at the top."""
    links = list(heading.iter("a"))
    inside = heading.getparent()
    links += [inside] if inside is not None and inside.tag == "a" else []
    return any(link.get("rel") == "home" or (link.get("href") or "/").rstrip("/") in {"", ".", ".."} for link in links)


# -- the text --------------------------------------------------------------------------------------------------------


def blocks_of(content: Any) -> list[str]:
    """The text of a tree, a block at a time: a paragraph, an item, a cell's row, a line of code."""
    blocks: list[str] = []
    line: list[str] = []

    def end() -> None:
        text = " ".join("".join(line).split())
        if text:
            blocks.append(text)
        line.clear()

    for text, breaks in _pieces(content):
        if breaks == "pre":
            end()
            blocks.extend(one.rstrip() for one in text.splitlines() if one.strip())
        else:
            if breaks:
                end()
            line.append(text)
    end()
    return blocks


def _pieces(content: Any) -> Iterator[tuple[str, str]]:
    """The text in order; each piece says whether a block ends before it, or that it is set as it is."""
    waiting: list[tuple[Any, str | None]] = [(content, None)]
    while waiting:
        element, closing = waiting.pop()
        tail = (element.tail or "") if element is not content else ""
        if closing is not None:
            yield tail, closing
        elif not isinstance(element.tag, str):
            yield tail, ""
        elif element.tag == "pre":
            yield "".join(element.itertext()), "pre"
            yield tail, "end"
        else:
            cell = element.tag in {"td", "th"} and _is_leaf(element)  # a row of plain cells is a line
            breaks = "" if cell or element.tag in NAMES.inline else "end"
            yield f"{' ' if cell else ''}{element.text or ''}", breaks
            waiting.append((element, breaks))
            waiting += [(child, None) for child in reversed(element)]


def is_shared_by(numbers: AbstractSet[int], number_of: Callable[[str], int]) -> Callable[[str], bool] | None:
    """Says of a block's text whether its number is among those that many pages of a host have."""
    return (lambda text: number_of(text) in numbers) if numbers else None
