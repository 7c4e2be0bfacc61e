"""Mistakes in settings and API requests, in crawld's own words instead of pydantic's."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class MistakesLimits:
    """Numbers that bound and tune this module."""

    max_bound: float = 1e12
    """A larger bound is there for the machine's sake and is not told."""
    close_enough: float = 0.6
    """Likeness of two names, from 0 to 1, from which on one may be meant by the other."""


LIMITS = MistakesLimits()


NO_SUCH = "extra_forbidden"
_WHOLE = frozenset({"int_type", "int_parsing", "int_from_float", "int_parsing_size"})
_SENTENCES = {
    "missing": "this must be given",
    "string_type": "write a text",
    "string_unicode": "write a text in UTF-8",
    "list_type": "write a list, as [first, second]",
    "tuple_type": "write a list, as [first, second]",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "invalid_key": "write names as text",
    "none_required": "write null",
}
UNNAMED = "this value cannot be used here"
"""By pydantic's name of the mistake."""
_LENGTHS = {
    "string_too_short": ("min_length", "write at least {}", "character"),
    "string_too_long": ("max_length", "write at most {}", "character"),
    "too_short": ("min_length", "write at least {} in the list", "entry"),
    "too_long": ("max_length", "write at most {} in the list", "entry"),
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """One value that was refused: where it is, by which kind of mistake, and what to write instead."""

    place: str  # as section.name or list[0].name; empty for the whole
    kind: str  # pydantic's name of the mistake
    sentence: str
    given: Any

    @property
    def name(self) -> str:
        """The last part of the place."""
        return self.place.rpartition(".")[2]


def mistakes(error: ValidationError, model: type[BaseModel], examples: Mapping[str, str]) -> Sequence[Mistake]:
    """Every mistake once; what may be written instead is joined where there are alternatives.

    `examples` gives one line of a section by the name of its class, as it is written below the section's name.
    """
    found: dict[str, Mistake] = {}
    for one in error.errors(include_url=False):
        if _of_another_kind(one):
            continue
        place, field, section = _walk(model, one["loc"], one["type"])
        name = str(one["loc"][-1]) if one["loc"] else ""
        said = _sentence(one, field, examples)
        if one["type"] == NO_SUCH:
            said = _did_you_mean(name, section, model)
        before = found.get(place)
        if before is not None and before.sentence != said:
            said = f"{before.sentence}, or {said.removeprefix('write ')}"
        found[place] = Mistake(place, one["type"], said, one.get("input"))
    return list(found.values())


def _of_another_kind(mistake: Any) -> bool:
    """Tells whether a list was compared with words that may stand in its place: the list's mistakes are named."""
    tag = mistake["loc"][-1] if mistake["loc"] else None
    return isinstance(mistake.get("input"), list) and isinstance(tag, str) and tag.startswith("literal[")


def _walk(model: type[BaseModel], loc: Sequence[int | str], kind: str) -> tuple[str, FieldInfo | None, type[BaseModel]]:
    """The place as people write it, its field, and the section that it is in.

    Parts of the path that are no fields name which of several alternatives was tried, and are left out.
    """
    place, field, section = "", None, model
    for number, part in enumerate(loc):
        if isinstance(part, int):
            place += f"[{part}]"
            continue
        fields = {one.alias or name: one for name, one in section.model_fields.items()}
        if part in fields:
            field = fields[part]
            place += f".{part}"
            section = _section(field.annotation) or section
        elif kind in {NO_SUCH, "invalid_key"} and number == len(loc) - 1:
            field = None
            place += f".{part}"
    return place.lstrip("."), field, section


def _section(annotation: Any) -> type[BaseModel] | None:
    """The model within an annotation, as in a list of it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _section(part)) is not None), None)


def _did_you_mean(name: str, section: type[BaseModel], model: type[BaseModel]) -> str:
    """The name that may be meant: in the same section, or elsewhere."""
    here = [field.alias or name for name, field in section.model_fields.items()]
    meant = close_to(name, here) or close_to(name, _paths(model))
    if meant:
        return f"no such name: did you mean {' or '.join(meant)}?"
    return f"no such name; there are: {', '.join(here)}"


def close_to(name: str, known: Sequence[str]) -> list[str]:
    """Those of the known names that a misspelt one may mean, the closest first; a path is known by its last part."""
    by_end = {one.rpartition(".")[2]: one for one in reversed(known)}
    written = name.strip().lower().replace("-", "_")
    return [by_end[end] for end in get_close_matches(written, by_end, n=2, cutoff=LIMITS.close_enough)[:1]]


def _paths(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every name there is, as section.name."""
    found: list[str] = []
    for name, field in model.model_fields.items():
        section = _section(field.annotation)
        found.append(prefix + name)
        if section is not None:
            found += _paths(section, f"{prefix}{name}.")
    return found


def _sentence(mistake: Any, field: FieldInfo | None, examples: Mapping[str, str]) -> str:
    kind, facts = mistake["type"], mistake.get("ctx", {})
    if kind == "value_error":
        return str(facts["error"])
    if kind in _WHOLE | {
        "float_type",
        "float_parsing",
        "finite_number",
        "greater_than_equal",
        "greater_than",
        "less_than_equal",
        "less_than",
    }:
        return _number(kind, facts, field)
    if kind in _LENGTHS:
        fact, said, what = _LENGTHS[kind]
        count = facts[fact]
        return said.format(f"{count} {what if count == 1 else what.replace('entry', 'entrie') + 's'}")
    if kind in {"literal_error", "enum"}:
        words = facts["expected"].replace(" or ", ", ").replace("'", "")
        meant = close_to(str(mistake.get("input")), words.split(", "))
        hint = f"; did you mean {meant[0]}?" if meant else ""
        return f"write one of: {words}{hint}" if ", " in words else f"write {words}"
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        example = examples.get(str(facts.get("class_name")))
        return (
            f"write its settings below it, as `{example}`" if example else "write an object with its names and values"
        )
    return _SENTENCES.get(kind, UNNAMED)


def _number(kind: str, facts: Mapping[str, Any], field: FieldInfo | None) -> str:
    """A number within the bounds that its field has."""
    bounds = {} if field is None else _bounds([*field.metadata, *get_args(field.annotation)])
    bounds |= {name: facts[name] for name in ("ge", "gt", "le", "lt") if name in facts}
    bounds = {name: value for name, value in bounds.items() if math.fabs(value) < LIMITS.max_bound}
    whole = kind in _WHOLE or (field is not None and not _has(field.annotation, float))
    what = "a whole number" if whole else "a number"
    low, above, high, below = (bounds.get(name) for name in ("ge", "gt", "le", "lt"))
    if low is not None and high is not None:
        return f"write {what} from {low:g} to {high:g}"
    said = [f", {low:g} or more"] if low is not None else [f" above {above:g}"] if above is not None else []
    said += [f" up to {high:g}"] if high is not None else [f" below {below:g}"] if below is not None else []
    return f"write {what}{' and'.join(said)}"


def _has(annotation: Any, kind: type) -> bool:
    """Tells whether the annotation allows values of the type."""
    return annotation is kind or any(_has(part, kind) for part in get_args(annotation))


def _bounds(parts: Sequence[Any]) -> dict[str, Any]:
    """The bounds among the parts of an annotation, also within alternatives."""
    found: dict[str, Any] = {}
    for part in parts:
        found |= {name: getattr(part, name) for name in ("ge", "gt", "le", "lt") if hasattr(part, name)}
        found |= _bounds([*getattr(part, "metadata", ()), *get_args(part), *getattr(part, "__metadata__", ())])
    return {name: value for name, value in found.items() if value is not None}
