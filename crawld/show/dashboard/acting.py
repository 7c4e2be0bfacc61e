"""Forms of the dashboard: each is an action in the browser's name, which is logged and can be undone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawld.model.errors import InputError, TooCostlyError
from crawld.model.page import PagePart, check_importance
from crawld.model.units import is_number
from crawld.model.url import host_of, normalise_given
from crawld.read.url_list import BadLine, read_url_list
from crawld.show.dashboard.rendering import Sources, View, link


async def show(sources: Sources, query: Mapping[str, str]) -> View:
    """The parts of a page's latest copy with a box before each; `?find=` is the text of one that is ticked."""
    url = normalise_given(query.get("url", ""))
    version = await sources.reading.version(url)
    if version is None:
        raise InputError(f"no version of {url} is kept")
    try:
        parts: Sequence[PagePart] = await sources.texts.parts(version)
        sentence = "Its bytes are compared, or it has no text: there is nothing to choose."
    except TooCostlyError as error:
        parts, sentence = [], f"The copy cannot be read: {error}."
    context = {
        "url": url,
        "host": host_of(url),
        "parts_shown": parts,
        "chosen": _chosen(parts, " ".join(query.get("find", "").split())),
        "sentence": sentence,
    }
    return View("ignore.html", "Ignore a part", "/pages", sources.now(), context)


def _chosen(parts: Sequence[PagePart], text: str) -> str | None:
    """The selector of the innermost part that has this text."""
    known = min(len(text), 200)  # so much of a part is known (`crawld.read.page.blocks`)
    fitting = [part for part in parts if text and len(part.text) >= known and text.startswith(part.text)]
    return max(fitting, key=lambda part: part.depth).selector if fitting else None


Form = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Deed:
    """A deed to do, where the browser goes then, and lines of a list that cannot be used."""

    verb: str
    what: Mapping[str, Any]
    then: str
    bad: Sequence[BadLine] = field(default=())


def _one(form: Form, name: str) -> str:
    given = form.get(name, ())
    if len(given) != 1 or not given[0].strip():
        raise InputError(f"the form lacks {name}")
    return given[0].strip()


def _number(form: Form, name: str) -> int:
    given = _one(form, name)
    if not is_number(given):
        raise InputError(f"{given[:40]!r} is not a number")
    return int(given)


def back_of(form: Form, usual: str) -> str:
    """Returns the local path that the form came from; else the usual place."""
    given = next(iter(form.get("back", ())), "")
    ours = given.startswith("/") and not given.startswith("//") and given.isprintable() and "\\" not in given
    return given if ours else usual


def _page(form: Form) -> tuple[str, str]:
    url = normalise_given(_one(form, "url"))
    return url, back_of(form, link("/page", url=url))


def _add(form: Form) -> Deed:
    listed = read_url_list(_one(form, "urls").encode())
    if len(listed.wanted) > 5_000:
        raise InputError(
            f"{len(listed.wanted):,} pages are too many at once: `crawld urls import FILE` takes any number"
        )
    if not listed.wanted:
        raise InputError("no line can be used; " + "; ".join(map(str, listed.bad[:5])))
    wanted = [(page.url, page.importance) for page in listed.wanted]
    then = link("/page", url=wanted[0][0]) if len(wanted) == 1 else "/pages"
    return Deed("add", {"wanted": wanted}, then, listed.bad)


def _remove(form: Form) -> Deed:
    return Deed("remove", {"urls": [normalise_given(_one(form, "url"))], "keep_out": "keep_out" in form}, "/pages")


def _refresh(form: Form) -> Deed:
    url, then = _page(form)
    return Deed("refresh", {"urls": [url], "wait": 5.0}, then)  # the browser waits for so long


def _importance(form: Form) -> Deed:
    url, then = _page(form)
    given = _one(form, "importance")
    try:
        weight = check_importance(float(given))
    except ValueError:
        raise InputError(f"importance {given[:40]!r} is not a number") from None
    return Deed("add", {"wanted": [(url, weight)]}, then)


def _host(form: Form) -> Deed:
    host, paused = _one(form, "host"), _one(form, "paused") == "yes"
    return Deed("host", {"host": host, "blocked": paused}, back_of(form, "/hosts"))


def _ignore(form: Form) -> Deed:
    url, _ = _page(form)
    what = {"url": url, "selectors": list(form.get("selector", ())), "host": "host" in form.get("scope", ())}
    return Deed("ignore", what, link("/page", url=url))


def _compare(form: Form) -> Deed:
    return Deed("compare", {"marks": [_number(form, "mark")]}, back_of(form, "/pages"))


def _read(form: Form) -> Deed:
    return Deed("read", {"until": _number(form, "until")}, "/changes")


DEEDS: Mapping[str, Callable[[Form], Deed]] = {
    "add": _add,
    "remove": _remove,
    "refresh": _refresh,
    "importance": _importance,
    "host": _host,
    "ignore": _ignore,
    "compare": _compare,
    "read": _read,
}


async def act(sources: Sources, who: str, name: str, form: Form) -> View | str:
    """Do what a form asks for: where the browser goes then, or a view where lines of a list cannot be used."""
    actions = sources.control.actions
    if name == "undo":
        done = await actions.undo(who, _number(form, "action"))
        return _noticed(back_of(form, "/actions"), done.id)
    deed = DEEDS[name](form)
    done = await actions.act(who, deed.verb, deed.what)
    if not deed.bad:
        return _noticed(deed.then, done.id)
    context = {"sentence": f"{done.sentence}; other lines cannot be used:", "lines": list(map(str, deed.bad[:100]))}
    return View("message.html", "Pages were added", "/pages", sources.now(), context | {"hint": ""})


def _noticed(path: str, number: int) -> str:
    """The path with the number of the action that it tells of."""
    return f"{path}{'&' if '?' in path else '?'}action={number}"


async def show_log(sources: Sources, _: Mapping[str, str]) -> View:
    """Returns what was done to the crawl, and by whom, newest first."""
    return View("actions.html", "Log", "/actions", sources.now(), {"actions": await sources.control.actions.latest()})
