"""Marks in a parsed page what its attributes say: hidden text, white space that counts, the frame of the content.

The names of elements (`nav`, `main`, `pre` …) are marked by the style sheet in `markup`; here are roles, inline styles
and, where a page has no main part, a few ids and classes that are used for nothing but a frame. Names that also stand
on content (`menu`, `header` or `footer` as a class, `related`, `toc` inside an article) are not among them: a menu that
counts costs a request, an edit that is not seen costs the copy.
"""

import re
from functools import lru_cache
from itertools import islice
from typing import Any

from lxml import etree

from crawld.read.page.regions import CLOSE, OPEN

MOST_MARKED = 5_000
"""So many attributes of each name are looked at; the next element is taken as if it had none."""
MOST_NAMED = 100
"""So many elements are recognised by id or class; what is around them is looked at for each."""
MOST_HEADERS = 10
MOST_IN_HEADER = 300
"""Menus are looked for in the first headers of a page, in so many elements of each."""
LONGEST_STYLE = 2_000
LONGEST_CLASS = 200

KIND_OF_ROLE = {
    "main": "main", "article": "article", "navigation": "nav", "doc-toc": "nav", "menu": "menu", "menubar": "menu",
    "toolbar": "menu", "search": "search", "banner": "banner", "contentinfo": "contentinfo", "complementary": "aside",
}  # fmt: skip
KIND_OF_NAME = {
    **dict.fromkeys(
        ("breadcrumb", "breadcrumbs", "main-nav", "main-navigation", "mw-navigation", "navbar", "site-nav",
         "site-navigation", "topnav", "wy-nav-side"), "nav"),
    **dict.fromkeys(("site-header",), "banner"),
    **dict.fromkeys(("site-footer",), "contentinfo"),
    **dict.fromkeys(("sidebar", "sphinxsidebar", "widget-area"), "aside"),
}  # fmt: skip
"""Ids and classes that say what an element is."""
KIND_OF_ID = KIND_OF_NAME | {
    "header": "banner", "masthead": "banner", "footer": "contentinfo", "colophon": "contentinfo", "nav": "nav",
    "navigation": "nav", "mw-head": "nav", "mw-panel": "nav", "left-sidebar": "aside", "right-sidebar": "aside",
}  # fmt: skip
"""Ids, which a page gives to one element only, may be plainer."""
CALLOUTS = frozenset(
    {"admonition", "alert", "attention", "callout", "caution", "danger", "definition", "error", "example", "footnote",
     "footnote-list", "footnotes", "hint", "important", "info", "note", "notice", "pull-quote", "pullquote", "seealso",
     "starlight-aside", "success", "tip", "topic", "warning"}
)  # fmt: skip
"""Classes of an aside that is part of the text: a note, a warning, a quotation."""

_NAMED = ("div", "ul", "ol", "section", "form")
_MENUS = frozenset({"ul", "ol", "a", "button"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_HIDDEN, _STYLE, _ROLE = (etree.XPath(f"//*/@{name}") for name in ("hidden", "style", "role"))
_STYLES = etree.XPath("//*/@style", smart_strings=False)
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MATTERS = re.compile("none|hidden|collapse|pre|break-spaces", re.IGNORECASE)
_IN_ARTICLE = etree.XPath("boolean(ancestor::article)")
_OF_PAGE = etree.XPath(
    f"not({' or '.join(f'ancestor::{name}' for name in ('article', 'section', 'main', 'aside', 'nav'))})"
)


def mark(element: Any, kind: str) -> None:
    """Mark all that is inside an element as being of a kind."""
    element.text = OPEN[kind] + _writable(element.text)
    if len(element):
        last = element[-1]
        last.tail = _writable(last.tail) + CLOSE[kind]
    else:
        element.text += CLOSE[kind]


def _writable(text: str | None) -> str:
    """The text as the tree takes it: the parser lets characters through that must not be written back."""
    return _UNWRITABLE.sub("\ufffd", text) if text else ""


def mark_styles(root: Any) -> None:
    """Mark what is hidden by attribute or inline style, and where white space is kept by inline style.

    `html` and `body` are never hidden: pages that say so show themselves by a script. What is hidden until found
    (`hidden=until-found`) is like a closed `details`: a reader gets to it.
    """
    for value in islice(_HIDDEN(root), MOST_MARKED):
        if value.strip().lower() != "until-found":
            _mark_below_body(value.getparent(), "hidden")
    styles = dict.fromkeys(islice(_STYLES(root), MOST_MARKED))  # most are written many times
    kinds = {style: kind for style in styles if (kind := _kind_of_style(style))}
    if kinds:
        for value in islice(_STYLE(root), MOST_MARKED):
            if kind := kinds.get(value):
                _mark_below_body(value.getparent(), kind)


def hides(element: Any) -> bool:
    """Whether attributes or an inline style of an element hide it from readers."""
    if element.get("hidden", "until-found").strip().lower() != "until-found":
        return True
    style = element.get("style")
    return style is not None and _kind_of_style(style) == "hidden"


def _kind_of_style(style: str) -> str | None:
    if not _MATTERS.search(style, 0, LONGEST_STYLE):
        return None
    found = _declarations(style)
    if found.get("display") == "none" or found.get("visibility") in {"hidden", "collapse"}:
        return "hidden"
    if found.get("content-visibility") == "hidden":
        return "hidden"
    return "pre" if found.get("white-space") in {"pre", "pre-wrap", "break-spaces"} else None


def _mark_below_body(element: Any, kind: str) -> None:
    if element.tag not in {"html", "body"}:
        mark(element, kind)


def _declarations(style: str) -> dict[str, str]:
    """The properties an inline style sets; of two, the important one or else the later one holds."""
    found: dict[str, str] = {}
    important = set()
    for declaration in style[:LONGEST_STYLE].lower().split(";"):
        name, _, value = declaration.rpartition("*/")[2].partition(":")
        value, mark_, _ = value.partition("!")
        name = name.strip()
        if mark_:
            important.add(name)
        if mark_ or name not in important:
            found[name] = value.strip()
    return found


def mark_frame(root: Any) -> None:
    """Mark what roles, and in a page without a main part ids and classes, say of the frame around the content."""
    has_main = False
    headers: list[Any] = []
    for element in islice(root.iter("main", "header", "aside"), MOST_MARKED):
        has_main = has_main or element.tag == "main"
        if element.tag == "header" and len(headers) < MOST_HEADERS:
            headers.append(element)
        elif element.tag == "aside" and _is_callout(element):
            mark(element, "callout")
    banners = [header for header in headers if _OF_PAGE(header)][:1]  # the others are headers of posts
    for value in islice(_ROLE(root), MOST_MARKED):
        kind = next((KIND_OF_ROLE[role] for role in _words(value) if role in KIND_OF_ROLE), None)
        if kind is not None:
            element = value.getparent()
            has_main = has_main or kind == "main"
            mark(element, kind)
            if kind == "banner":
                banners.append(element)
    if not has_main:
        banners += _mark_named(root)
    for element in banners[:MOST_HEADERS]:
        if next(element.iter("h1"), None) is not None and _OF_PAGE(element):
            _mark_menus(element)


def _is_callout(aside: Any) -> bool:
    role = (aside.get("role") or "").strip().lower()
    return role == "note" or role.startswith("doc-") or not CALLOUTS.isdisjoint(_words(aside.get("class") or ""))


def _mark_named(root: Any) -> list[Any]:
    """Mark elements by id or class, outside of articles; returns the banners among them."""
    banners = []
    named = ((element, _kind_by_name(element)) for element in root.iter(*_NAMED))
    for element, kind in islice(((element, kind) for element, kind in named if kind is not None), MOST_NAMED):
        if not _IN_ARTICLE(element):
            mark(element, kind)
            if kind == "banner":
                banners.append(element)
    return banners


def _kind_by_name(element: Any) -> str | None:
    classes = element.get("class")
    kind = _kind_of_classes(classes[:LONGEST_CLASS]) if classes else None
    return kind or KIND_OF_ID.get(element.get("id"))


@lru_cache(4096)
def _kind_of_classes(classes: str) -> str | None:
    return next((KIND_OF_NAME[word] for word in _words(classes) if word in KIND_OF_NAME), None)


def _words(text: str) -> list[str]:
    return text[:LONGEST_STYLE].lower().split()


def _mark_menus(header: Any) -> None:
    """Mark lists and links in a header, all but those in headings: if it stays for the title in it, its menus don't."""
    waiting = [header]
    for _ in range(MOST_IN_HEADER):
        if not waiting:
            break
        for element in waiting.pop():
            if element.tag in _MENUS:
                mark(element, "menu")
            elif element.tag not in _HEADINGS:
                waiting.append(element)
