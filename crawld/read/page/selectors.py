"""CSS selectors that ask of each element whether it fits, instead of collecting what lies below every other.

The usual translation of `div i` collects the descendants of every `div` and throws out doubles: on nested markup that
takes minutes where asking each `i` for an ancestor takes milliseconds.
"""

from typing import Any

from cssselect import HTMLTranslator, SelectorError, parse
from lxml.etree import XPath, XPathError

from crawld.model.errors import InputError


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
    """What an element must be itself, what must be around it, and whether that is only ever above it."""
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
        """Whether it looks at all siblings of each element, which takes the square of their number."""

    def find(self, root: Any) -> list[Any]:
        """The elements that fit, some perhaps twice where there are alternatives."""
        return [element for finder in self._finders for element in finder(root)]
