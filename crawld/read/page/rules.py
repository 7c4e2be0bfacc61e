"""Rules for what counts as a change, chosen by URL."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal
from zlib import crc32

import re2
from cssselect import HTMLTranslator, SelectorError, parse
from lxml.etree import XPath, XPathError

from crawld.model.errors import InputError
from crawld.model.page import Mark
from crawld.model.url import UrlPattern, host_of, identity


def compile_linear(text: str | bytes) -> Any:
    """A regular expression that is matched in linear time; InputError where it is not one."""
    quiet = re2.Options()
    quiet.log_errors = False
    try:
        return re2.compile(text, quiet)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise InputError(f"{text!r} is not a regular expression RE2 can match: {reason}") from None


def erase(patterns: tuple[Any, ...], text: str) -> str:
    """The text without what the patterns find."""
    for pattern in patterns:
        text = pattern.sub("", text)
    return text


class _FromTheElement(HTMLTranslator):
    """Combinators as conditions on the last element of a selector."""

    def xpath_descendant_combinator(self, left: Any, right: Any) -> Any:
        """`left right`.

        Where `left` itself asks for nothing but ancestors, its nearest one decides: what is above a farther one is
        above the nearest as well. So a chain of descendants takes one walk up the tree, not one for each pair.
        """
        own, beyond, above = _parts(left)
        nearest = "[1]" if above else ""
        return _related(right, f"ancestor::{left.element}{own}{nearest}{beyond}", above=True)

    def xpath_child_combinator(self, left: Any, right: Any) -> Any:
        """`left > right`."""
        return _related(right, f"parent::{_whole(left)}")

    def xpath_direct_adjacent_combinator(self, left: Any, right: Any) -> Any:
        """`left + right`."""
        return _related(right, f"preceding-sibling::*[1]/self::{_whole(left)}")

    def xpath_indirect_adjacent_combinator(self, left: Any, right: Any) -> Any:
        """`left ~ right`."""
        return _related(right, f"count(preceding-sibling::{_whole(left)}[1]) > 0")

    def xpath_first_child_pseudo(self, xpath: Any) -> Any:
        """`:first-child` without counting."""
        return xpath.add_condition("not(preceding-sibling::*[1])")

    def xpath_last_child_pseudo(self, xpath: Any) -> Any:
        """`:last-child` without counting."""
        return xpath.add_condition("not(following-sibling::*[1])")

    def xpath_only_child_pseudo(self, xpath: Any) -> Any:
        """`:only-child` without counting."""
        return xpath.add_condition("not(preceding-sibling::*[1] or following-sibling::*[1])")


def _related(expression: Any, relation: str, *, above: bool = False) -> Any:
    """The expression with a condition on what is around it, which is remembered apart from what it is itself."""
    own = expression.condition
    expression.add_condition(relation)
    expression.around = (f"[{own}]" if own else "", f"[{relation}]", above)
    return expression


def _parts(expression: Any) -> tuple[str, str, bool]:
    """Conditions on an element itself and on those around it, and whether the latter are all above it."""
    parts: tuple[str, str, bool] | None = getattr(expression, "around", None)
    return parts or (f"[{expression.condition}]" if expression.condition else "", "", True)


def _whole(expression: Any) -> str:
    return f"{expression.element}[{expression.condition}]" if expression.condition else str(expression.element)


class Selector:
    """A compiled selector. Its alternatives are looked for one by one: joining what they find would take its square."""

    def __init__(self, text: str) -> None:
        translator = _FromTheElement()
        try:
            paths = [translator.selector_to_xpath(one) for one in parse(text)]
            self._finders = [XPath(path) for path in paths]
        except (SelectorError, XPathError) as error:
            raise InputError(f"{text!r} is not a CSS selector: {error}") from None
        self.counts_siblings = any("count(" in path for path in paths)
        """True where it looks at all siblings of each element, which takes the square of their number."""

    def find(self, root: Any) -> list[Any]:
        """The elements that fit, some perhaps twice where there are alternatives."""
        return [element for finder in self._finders for element in finder(root)]


Mode = Literal["main", "text", "raw"]


@dataclass(frozen=True)
class DigestRule:
    """The part of a page that counts: its main text, all of its visible text, or its bytes.

    `pattern` is a URL in which `*` stands for anything; without `://` it fits both schemes.
    `only` keeps what a CSS selector finds, in place of the main text (where it finds nothing, the rule is as if without
    it, so that a redesign does not freeze the page),
    `ignore` leaves elements out, `ignore_text` leaves out what regular expressions find inside a block of text,
    and changes smaller than `min_change` (0–1) do not count.
    """

    algorithm: ClassVar[int] = 4
    """Counts the ways in which a text was ever cut and numbered: digests of two ways cannot be compared."""
    pattern: str = "*"
    mode: Mode = "main"
    only: str | None = None
    ignore: Sequence[str] = ()
    ignore_text: Sequence[str] = ()
    min_change: float = 0.0
    _selectors: tuple[Selector, ...] = field(init=False, repr=False, compare=False)
    _only: Selector | None = field(init=False, repr=False, compare=False)
    _texts: tuple[Any, ...] = field(init=False, repr=False, compare=False)
    _fits: Callable[[str], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_change <= 1.0:
            raise InputError(f"rule {self.pattern!r}: min_change {self.min_change} is not between 0 and 1")
        if self.mode == "raw" and (self.only or self.ignore or self.ignore_text):
            raise InputError(f"rule {self.pattern!r}: selectors and texts to ignore need mode main or text")
        object.__setattr__(self, "_only", None if self.only is None else self._selector(self.only))
        object.__setattr__(self, "_selectors", tuple(self._selector(text) for text in self.ignore))
        object.__setattr__(self, "_fits", UrlPattern(self.pattern).fits)
        object.__setattr__(self, "_texts", tuple(compile_linear(text) for text in self.ignore_text))

    def _selector(self, text: str) -> Selector:
        try:
            return Selector(text)
        except InputError as error:
            raise InputError(f"rule {self.pattern!r}: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        """A rule travels to other processes by what was written, and is compiled there once."""
        fields = (self.pattern, self.mode, self.only, tuple(self.ignore), tuple(self.ignore_text), self.min_change)
        return _rule, fields

    @cached_property
    def selectors(self) -> tuple[Selector, ...]:
        """All selectors of the rule."""
        return self._selectors if self._only is None else (*self._selectors, self._only)

    @cached_property
    def scheme(self) -> int:
        """Number that makes digests comparable: how texts are cut and numbered, and what the rule leaves out."""
        key = repr((self.algorithm, self.mode, self.only, tuple(self.ignore), tuple(self.ignore_text)))
        return crc32(key.encode("utf-8", "replace")) | 1

    def fits(self, url: str) -> bool:
        """Tells whether the rule is for that URL."""
        return self._fits(url)


@lru_cache(256)
def _rule(*fields: Any) -> DigestRule:
    return DigestRule(*fields)


DEFAULT_RULE = DigestRule()


class DigestRules:
    """The rules in force: those of the settings, and what operators have marked on pages and hosts."""

    def __init__(self, rules: Sequence[DigestRule] = ()) -> None:
        self.rules = rules
        self.marks: Sequence[Mark] = ()
        self._by_page: dict[str, list[str]] = {}
        self._by_host: dict[str, list[str]] = {}

    def change_marks(self, marks: Sequence[Mark]) -> None:
        """Leave these parts out from now on."""
        self.marks = marks
        self._by_page, self._by_host = {}, {}
        for mark in marks:
            if mark.url is None:
                self._by_host.setdefault(mark.host, []).append(mark.selector)
            else:
                self._by_page.setdefault(identity(mark.url), []).append(mark.selector)

    def __call__(self, url: str) -> DigestRule:
        """The rule for a URL, with what is marked; where bytes are compared, nothing can be left out."""
        if not self.rules and not self.marks:
            return DEFAULT_RULE
        rule = rule_for(self.rules, url)
        if not self.marks or rule.mode == "raw":
            return rule
        marked = (*self._by_host.get(host_of(url), ()), *self._by_page.get(identity(url), ()))
        if not marked:
            return rule
        ignore = (*rule.ignore, *marked)
        return _rule(rule.pattern, rule.mode, rule.only, ignore, tuple(rule.ignore_text), rule.min_change)


def rule_for(rules: Sequence[DigestRule], url: str) -> DigestRule:
    """The first rule that fits a URL; the main text counts where none does."""
    return next((rule for rule in rules if rule.fits(url)), DEFAULT_RULE)
