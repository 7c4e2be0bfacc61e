"""A URL list as people write it: good lines are taken, each bad line is named with its number and reason."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from crawld.errors import InputError
from crawld.model.page import Wanted, check_importance
from crawld.model.url import identity, normalise

COMMENT = "#"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was passed over, and why."""

    number: int
    reason: str
    text: str

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return f"line {self.number}: {self.reason}: {shown!r}"


@dataclass(frozen=True, slots=True)
class UrlList:
    """What a list asks for, what in it cannot be used, and how many lines named a page again."""

    wanted: tuple[Wanted, ...]
    bad: tuple[BadLine, ...]
    duplicates: int


def read_url_list(body: bytes) -> UrlList:
    """Read `URL [importance]` lines, or CSV when the first line is a header naming `url`.

    A page listed twice keeps its first spelling and its last importance. A byte-order mark is passed over.
    """
    weights: dict[str, float] = {}  # by identity
    spellings: dict[str, str] = {}  # of the pages whose target is not their identity
    bad: list[BadLine] = []
    taken = 0
    for number, line, url, importance in _rows(body, bad):
        try:
            target = normalise(url)
            weight = _importance(importance)
        except InputError as error:
            bad.append(BadLine(number, str(error), line))
            continue
        taken += 1
        page = identity(target)
        if page != target and page not in weights:
            spellings[page] = target
        weights[page] = weight
    pages = tuple(Wanted(spellings.get(page, page), weight) for page, weight in weights.items())
    return UrlList(pages, tuple(sorted(bad, key=lambda b: b.number)), taken - len(pages))


def _rows(body: bytes, bad: list[BadLine]) -> Iterator[tuple[int, str, str, str | None]]:
    lines = list(_lines(body, bad))
    header = _csv_header(lines[0][1]) if lines else None
    if header is not None:
        yield from _csv_rows(lines[1:], header, bad)
        return
    for number, line in lines:
        if line.startswith(COMMENT):
            continue
        parts = line.split()
        if len(parts) > 2:
            bad.append(BadLine(number, "more than a URL and its importance", line))
            continue
        yield number, line, parts[0], parts[1] if len(parts) == 2 else None


def _lines(body: bytes, bad: list[BadLine]) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(body.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        try:
            line = raw.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            bad.append(BadLine(number, f"not UTF-8 at byte {error.start + 1}", raw.decode("utf-8", "replace").strip()))
            continue
        if line:
            yield number, line


def _csv_header(line: str) -> dict[str, int] | None:
    names = [name.strip().lower() for name in next(csv.reader([line]))]
    if "url" not in names:
        return None
    return {name: names.index(name) for name in ("url", "importance") if name in names}


def _csv_rows(
    lines: Iterable[tuple[int, str]], header: dict[str, int], bad: list[BadLine]
) -> Iterator[tuple[int, str, str, str | None]]:
    for number, line in lines:
        if line.startswith(COMMENT):
            continue
        try:
            cells = next(csv.reader([line], strict=True))
            weight = cells[header["importance"]].strip() if "importance" in header else ""
            yield number, line, cells[header["url"]], weight or None
        except (csv.Error, IndexError):
            bad.append(BadLine(number, "not a row with the columns of the header", line))


def _importance(text: str | None) -> float:
    if text is None:
        return 1.0
    try:
        weight = float(text)
    except ValueError:
        raise InputError(f"importance {text!r} is not a number") from None
    return check_importance(weight)
