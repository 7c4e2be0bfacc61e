"""Actions of people and programs on a crawl: in whose name, and how they are undone.

Each verb is done by the daemon's `Control`, told in a sentence, written to the log and kept with the action that
undoes it: so undoing is doing, and is logged like everything else.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from crawld.model.errors import InputError
from crawld.model.host import HostState
from crawld.model.page import BY_HAND, Mark, Wanted
from crawld.model.units import format_rate, many
from crawld.model.url import host_of
from crawld.model.web import Clock
from crawld.pages.list_file import ListNews
from crawld.read.page.rules import DigestRules, Selector, rule_for
from crawld.show.report import Explanation, ForecastReport, Status
from crawld.store.pages import Adoption, Listed
from crawld.store.settings import Action


@dataclass(frozen=True, slots=True)
class Reload:
    """Result of reading the settings and the URL list again."""

    applied: Sequence[str] = ()  # settings that took effect
    waiting: Sequence[str] = ()  # settings that wait for a restart
    refused: str | None = None  # why everything stayed as it was
    listed: "ListNews | None" = None  # what the list did; None where there is none

    @property
    def sentence(self) -> str:
        """The same for people."""
        if self.refused is not None:
            return f"kept the old settings: {self.refused}"
        applied = ", ".join(self.applied) or "nothing changed"
        parts = [f"took over the settings: {applied}"]
        if self.waiting:
            parts.append(f"after a restart: {', '.join(self.waiting)}")
        if self.listed is not None:
            parts.append(f"list: {self.listed.sentence}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Steered:
    """A host after it was steered."""

    state: HostState
    spacing: float  # seconds between two requests
    kept: bool  # whether it is in the database; otherwise it is written once the store can write


@dataclass(frozen=True, slots=True)
class Refreshed:
    """Result of asking for a page now.

    `state` is crawled, waiting (it is asked as soon as its host may be), refused (robots.txt forbids it), or unknown
    (it is not on the list); `sentence` says so to people.
    """

    url: str
    state: str
    sentence: str
    verdict: str | None = None
    at: float | None = None  # when the request left
    status: int | None = None
    trouble: str | None = None


@dataclass(frozen=True)
class ActionsLimits:
    """Numbers that bound and tune this module."""

    max_marks: int = 1_000
    max_selector: int = 500


LIMITS = ActionsLimits()


log = logging.getLogger("crawld.actions")

MARKS, READ_UNTIL, BANDWIDTH, PAUSED = "marks", "changes_read", "bandwidth", "paused"
"""The names under which marks, the newest change that was seen, and what was steered are kept."""
What = Mapping[str, Any]
Undo = Mapping[str, Any] | None
Done = tuple[str, Any, Undo]
"""The sentence that tells what was done, what came of it, and what undoes it."""


class ActionStore(Protocol):
    """Store of actions, a daemon's or a fleet's."""

    @property
    def healthy(self) -> bool:
        """Tells whether the store can write now."""

    async def setting(self, name: str) -> str | None:
        """A setting changed while running and kept over a restart."""

    async def change_setting(self, name: str, value: str | None, *, now: float) -> None:
        """Keep a setting (None forgets it) and note the change."""

    async def readmit(self, urls: Sequence[str]) -> Sequence[str]:
        """Keep these pages out no longer; the URLs of those that were."""

    async def origins(self, urls: Sequence[str]) -> Mapping[str, str]:
        """Lists who named these pages, by URL."""

    async def listed(self, urls: Sequence[str]) -> Sequence[Listed]:
        """The pages of these URLs that are not retired."""

    async def add_action(self, action: Action) -> int:
        """Keep what an operator did; its number."""

    async def actions(self, limit: int, number: int | None = None) -> Sequence[Action]:
        """The latest actions, newest first; with a number that one alone."""

    async def mark_undone(self, number: int, at: float) -> bool:
        """Note that an action was undone; False where it was already, or is not kept."""


class Control(ABC):
    """Everything an operator can ask of a running daemon or fleet; changes in a person's name go through `actions`."""

    def __init__(self, store: ActionStore, clock: Clock, rules: DigestRules) -> None:
        self._store: ActionStore = store
        self._clock, self._rules = clock, rules
        self.actions = Actions(self, store, clock)

    @abstractmethod
    async def status(self) -> Status:
        """Returns what the daemon is doing now."""

    @abstractmethod
    async def forecast(self, rates: Sequence[float]) -> ForecastReport:
        """Returns what the bandwidth set and these rates buy in the long run, by what is believed of the pages now."""

    @abstractmethod
    def healthy(self) -> bool:
        """Tells whether slots are served and the store takes what is recorded."""

    async def change_bandwidth(self, rate: float) -> None:
        """Let so many requests a second leave from the next slot on; kept over a restart."""
        await self._store.change_setting(BANDWIDTH, repr(rate), now=self._clock.now())

    async def pause(self, *, paused: bool) -> None:
        """Pauses or resumes crawling; kept over a restart."""
        await self._store.change_setting(PAUSED, "yes" if paused else None, now=self._clock.now())

    @abstractmethod
    async def steer_host(
        self, name: str, *, blocked: bool | None = None, delay: float | None = None, drop_delay: bool = False
    ) -> Steered:
        """Block or unblock a known host, give it a delay of its own or drop that; kept over a restart."""

    @abstractmethod
    async def add_pages(self, wanted: Sequence[Wanted], *, origin: str = BY_HAND) -> Adoption:
        """Take further pages in beside the list."""

    @abstractmethod
    async def remove_pages(self, urls: Sequence[str], *, keep_out: bool = False) -> Sequence[str]:
        """Retire pages; the URLs of those that were here. With `keep_out` no list and no sitemap brings them back."""

    async def readmit_pages(self, urls: Sequence[str]) -> Sequence[str]:
        """Keep these pages out no longer; the URLs of those that were."""
        return await self._store.readmit(urls)

    async def origins(self, urls: Sequence[str]) -> Mapping[str, str]:
        """Lists who named these pages, by URL: removed ones come back from there, unless they are kept out."""
        return await self._store.origins(urls)

    @abstractmethod
    async def refresh(self, urls: Sequence[str], *, wait: float = 0.0) -> Sequence[Refreshed]:
        """Ask for pages before all others, at the next slots that their hosts and robots.txt allow.

        Those who ask for a page meanwhile share one request. The answer comes when all pages are crawled, or after
        so many seconds.
        """

    async def marks(self) -> Sequence[Mark]:
        """The parts of pages that operators have marked as not to be compared."""
        return parse_marks(await self._store.setting(MARKS))

    async def change_marks(self, marks: Sequence[Mark]) -> None:
        """Compare pages without these parts, from the next crawl on; kept over a restart."""
        await self._store.change_setting(MARKS, format_marks(marks), now=self._clock.now())

    def rule_of(self, url: str) -> Mapping[str, Any]:
        """Returns what of a page counts as a change: the rule of the settings, without what is marked."""
        rule = rule_for(self._rules.rules, url)
        names = ("pattern", "mode", "only", "ignore", "ignore_text", "min_change")
        found = {name: getattr(rule, name) for name in names}
        return found | {"ignore": list(rule.ignore), "ignore_text": list(rule.ignore_text)}

    @abstractmethod
    async def explain(self, page_id: int) -> Explanation | None:
        """Returns what is held of a page and why it is not crawled just now; None if it is not here."""

    @abstractmethod
    async def reload(self, *, retire: bool = False) -> Reload:
        """Read the settings and the URL list again; with `retire` however many pages the list no longer names go."""


class Actions:
    """Does, logs, keeps and undoes everything that people and programs do to a crawl."""

    def __init__(self, control: Control, store: ActionStore, clock: Clock) -> None:
        self._control, self._store, self._clock = control, store, clock
        self._verbs: Mapping[str, Callable[[What], Awaitable[Done]]] = {
            "add": self._add,
            "remove": self._remove,
            "refresh": self._refresh,
            "host": self._host,
            "bandwidth": self._bandwidth,
            "pause": self._pause,
            "resume": self._resume,
            "ignore": self._ignore,
            "compare": self._compare,
            "read": self._read,
        }

    async def act(self, who: str, verb: str, what: What) -> Action:
        """Does something in an actor's name; InputError where it cannot be done.

        | verb | what | result |
        |---|---|---|
        | add | wanted: [[url, importance], …], origin (by hand unless given) | Adoption |
        | remove | urls | the URLs of pages that were here |
        | refresh | urls, wait (seconds) | a Refreshed for each |
        | host | host, and any of blocked, delay, drop_delay | Steered |
        | bandwidth | rate | None |
        | pause, resume | | None |
        | ignore | url, selectors, host (whether on all pages of the host) | the Marks made |
        | compare | marks (numbers) | None: these parts are compared again |
        | read | until (a change) | None: changes up to it were seen |
        """
        if verb not in self._verbs:
            raise InputError(f"{verb!r} is not something that can be done")
        sentence, result, undo = await self._verbs[verb](what)
        undo = undo if what.get("undoable", True) else None
        log.info("action", extra={"who": who, "verb": verb, "what": sentence})
        action = Action(0, self._clock.now(), who, verb, sentence, undo, result=result)
        if not self._store.healthy:  # the action has taken effect; to wait for the store would make it look refused
            log.warning("action not kept: the store cannot write now", extra={"verb": verb})
            return replace(action, undo=None)
        return replace(action, id=await self._store.add_action(action))

    async def undo(self, who: str, number: int) -> Action:
        """Undo an action; InputError where it is unknown, cannot be undone or was undone already."""
        action = await self.get(number)
        if action is None or action.undo is None:
            raise InputError("this cannot be undone")
        if not action.undoable or not await self._store.mark_undone(number, self._clock.now()):
            raise InputError("this was undone already")
        return await self.act(who, action.undo["verb"], action.undo["what"])

    async def latest(self, limit: int = 100) -> Sequence[Action]:
        """The latest actions, newest first."""
        return await self._store.actions(limit)

    async def get(self, number: int) -> Action | None:
        """One action."""
        return next(iter(await self._store.actions(1, number)), None)

    async def read_until(self) -> int:
        """The newest change that the operator has marked as read, 0 before the first mark."""
        return int(await self._store.setting(READ_UNTIL) or 0)

    async def _add(self, what: What) -> Done:
        """Add pages, or give known ones another importance; undone, each is not here, or weighs what it did."""
        if what.get("remove"):
            await self._control.remove_pages(what["remove"])
        wanted = [Wanted(url, importance) for url, importance in what["wanted"]]
        if what.get("readmit"):
            await self._control.readmit_pages([page.url for page in wanted])
        before = await self._store.listed([page.url for page in wanted])
        adoption = await self._control.add_pages(wanted, origin=what.get("origin", BY_HAND))
        new = [page.url for page in (*adoption.added, *adoption.returned)]
        reweighted = {page.id for page in adoption.reweighted}
        old = [(one.url, one.importance) for one in before if one.id in reweighted]
        told = [f"removed {_named(what['remove'])}"] if what.get("remove") else []
        told += [f"added {_named(new)}"] if new else []
        if old:
            told.append(f"set the importance of {_named([url for url, _ in old])} to {_weights(adoption.reweighted)}")
        undo: Undo = {"verb": "add", "what": {"wanted": old, "remove": new}} if old else None
        if new and not old:
            undo = {"verb": "remove", "what": {"urls": new}}
        return "; ".join(told) or f"changed nothing of {_named([page.url for page in wanted])}", adoption, undo

    async def _remove(self, what: What) -> Done:
        before = await self._store.listed(what["urls"])
        keep_out = bool(what.get("keep_out", False))
        removed = list(await self._control.remove_pages(what["urls"], keep_out=keep_out))
        gone = [one for one in before if one.url in set(removed)]
        wanted = [(one.url, one.importance) for one in gone]
        origins = {one.origin for one in gone}
        origin = origins.pop() if len(origins) == 1 else BY_HAND
        back = {"wanted": wanted, "origin": origin} | ({"readmit": True} if keep_out else {})
        undo = {"verb": "add", "what": back} if wanted else None
        told = f"removed {_named(removed)}" if removed else "removed nothing"
        return f"{told}, and kept out" if keep_out else told, removed, undo

    async def _refresh(self, what: What) -> Done:
        found = list(await self._control.refresh(what["urls"], wait=float(what.get("wait", 0.0))))
        told = f": {found[0].sentence}" if len(found) == 1 else f": {_summed(found)}"
        return f"asked for {_named([one.url for one in found])}{told}", found, None

    async def _host(self, what: What) -> Done:
        host, asked = what["host"], {name: what[name] for name in ("blocked", "delay", "drop_delay") if name in what}
        steered = await self._control.steer_host(host, **asked)
        undo = None
        if what.get("blocked") is not None:
            undo = {"verb": "host", "what": {"host": host, "blocked": not what["blocked"]}}
            return f"{'paused' if what['blocked'] else 'resumed'} the host {host}", steered, undo
        return f"set the spacing of the host {host} to {steered.spacing:g} s", steered, undo

    async def _bandwidth(self, what: What) -> Done:
        before = (await self._control.status()).bandwidth
        await self._control.change_bandwidth(float(what["rate"]))
        undo = {"verb": "bandwidth", "what": {"rate": before}}
        return f"set the bandwidth to {format_rate(float(what['rate']))}", None, undo

    async def _pause(self, _: What) -> Done:
        await self._control.pause(paused=True)
        return "paused crawling", None, {"verb": "resume", "what": {}}

    async def _resume(self, _: What) -> Done:
        await self._control.pause(paused=False)
        return "resumed crawling", None, {"verb": "pause", "what": {}}

    async def _ignore(self, what: What) -> Done:
        """Leave parts of a page, or of all pages of its host, out of what is compared."""
        url, selectors = what["url"], list(dict.fromkeys(what["selectors"]))
        if not selectors:
            raise InputError("choose a part of the page first")
        if self._control.rule_of(url)["mode"] == "raw":
            raise InputError(f"the bytes of {url} are compared: a rule with `mode: main` or `text` can leave parts out")
        for selector in selectors:
            if len(selector) > LIMITS.max_selector:
                raise InputError(f"a selector of more than {LIMITS.max_selector} characters is too long")
            Selector(selector)
        kept = list(await self._control.marks())
        if len(kept) + len(selectors) > LIMITS.max_marks:
            raise InputError(f"{LIMITS.max_marks:,} parts are ignored already: write a `digest` rule instead")
        first, now = max((mark.id for mark in kept), default=0) + 1, self._clock.now()
        page = None if what.get("host") else url
        new = [Mark(first + at, page, host_of(url), one, now) for at, one in enumerate(selectors)]
        await self._control.change_marks([*kept, *new])
        where = f"all pages of {host_of(url)}" if page is None else url
        undo = {"verb": "compare", "what": {"marks": [mark.id for mark in new]}}
        return f"ignores {', '.join(selectors)} on {where}", new, undo

    async def _compare(self, what: What) -> Done:
        """Compare parts again that were ignored."""
        kept, chosen = list(await self._control.marks()), set(what["marks"])
        gone = [mark for mark in kept if mark.id in chosen]
        if not gone:
            raise InputError("these parts are compared already")
        await self._control.change_marks([mark for mark in kept if mark.id not in chosen])
        told = ", ".join(f"{mark.selector} on {mark.pattern}" for mark in gone)
        one = gone[0]
        alike = all((mark.url, mark.host) == (one.url, one.host) for mark in gone)
        again = {"url": one.url or f"https://{one.host}/", "selectors": [mark.selector for mark in gone]}
        undo = {"verb": "ignore", "what": again | {"host": one.url is None}} if alike else None
        return f"compares {told} again", None, undo

    async def _read(self, what: What) -> Done:
        before, until = await self.read_until(), int(what["until"])
        await self._store.change_setting(READ_UNTIL, str(until), now=self._clock.now())
        return f"marked changes up to {until} as read", None, {"verb": "read", "what": {"until": before}}


def parse_marks(kept: str | None) -> list[Mark]:
    """Marks as they are kept."""
    return [Mark(**one) for one in json.loads(kept or "[]")]


def format_marks(marks: Sequence[Mark]) -> str | None:
    """Marks as they are kept; None where there are none."""
    return json.dumps([asdict(mark) for mark in marks]) if marks else None


def _named(urls: Sequence[str]) -> str:
    """The URL, or how many pages there are and the first of them."""
    return urls[0] if len(urls) == 1 else f"{many(len(urls), 'page')} ({urls[0]} …)" if urls else "nothing"


def _weights(pages: Sequence[Any]) -> str:
    return ", ".join(f"{weight:g}" for weight in sorted({page.importance for page in pages})[:3])


def _summed(found: Sequence[Refreshed]) -> str:
    states = [one.state for one in found]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
