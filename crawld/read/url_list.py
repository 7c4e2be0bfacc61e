"""A URL list as people write it: good lines are taken, each bad line is named with its number and reason."""

import codecs
import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from crawld.model.errors import InputError
from crawld.model.page import Wanted, check_importance
from crawld.model.url import identity, normalise


@dataclass(frozen=True)
class UrlListFormat:
    """The format of lists, and how much of one is looked at at once."""

    comment: str = "#"
    separators: str = ",;\t"
    """Between the columns of a CSV file; the first line that has one decides."""
    url_names: tuple[str, ...] = ("url", "uri", "link", "address", "href", "loc", "page")
    importance_names: tuple[str, ...] = ("importance", "weight", "priority")
    """Names of the two columns in headers, the surest first."""
    max_looked_at: int = 200
    """Lines by which a list is taken for CSV without a header."""
    block_bytes: int = 1 << 18
    """Bytes of a list that are compared at once: no other thread runs for some milliseconds."""


FORMAT = UrlListFormat()


class ListedPages:
    """Pages that a list named before: which line names each as it is kept, by hashes of 64 bits.

    Hashes are this process's own, so that a list cannot be made to hold two lines of one hash.
    """

    def __init__(self, ids: NDArray[np.int64], lines: NDArray[np.int64], identities: NDArray[np.int64]) -> None:
        order = np.argsort(lines)
        self.ids, self._lines, self._identities = ids[order], lines[order], identities[order]

    def __len__(self) -> int:
        return len(self.ids)

    @staticmethod
    def line(url: str, importance: float) -> int:
        """The hash of the line that names a page."""
        return hash((url if importance == 1 else f"{url} {repr(importance).removesuffix('.0')}").encode())

    @staticmethod
    def page(identity: str) -> int:
        """The hash by which pages are told apart."""
        return hash(identity.encode())

    def find(self, lines: Sequence[bytes]) -> NDArray[np.int64]:
        """For each line where in `ids` the page is that it names as it is kept, -1 where there is none."""
        asked = np.fromiter(map(hash, lines), np.int64, len(lines))
        at = np.minimum(np.searchsorted(self._lines, asked), len(self) - 1)
        return np.where(self._lines[at] == asked, at, -1)

    def identities(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The hashes of the identities of these pages, sorted."""
        return np.sort(self._identities[which])


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
    """The pages that a list asks for, its bad lines, and the number of lines that named a page again."""

    wanted: tuple[Wanted, ...]
    bad: tuple[BadLine, ...]
    duplicates: int
    form: str = "lines"  # how the list was read: lines, CSV, or CSV without a header
    kept: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Ids of pages that are listed already just as the list names them: they are not among those wanted."""

    @property
    def pages(self) -> int:
        """Number of pages that the list names."""
        return len(self.wanted) + len(self.kept)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of a CSV file that hold the URLs and, where there is one, their importance."""

    separator: str
    url: int
    importance: int | None
    min_cells: int = 1  # cells of a row that can be used
    form: str = "CSV"


def read_url_list(body: bytes) -> UrlList:
    """Read `URL [importance]` lines, or CSV: by a header that names its columns, else by what they hold.

    A page listed twice keeps its first spelling and its last importance. A byte-order mark is passed over.
    """
    bad: list[BadLine] = []
    numbered = enumerate(body.removeprefix(codecs.BOM_UTF8).splitlines(), start=1)
    lines = [(number, line) for number, line in _lines(numbered, bad) if not line.startswith(FORMAT.comment)]
    if lines and _is_single_header(lines[0][1]):
        del lines[0]
    header = _header(lines[0][1]) if lines else None
    columns = header or _columns([line for _, line in lines[: FORMAT.max_looked_at]])
    return _read(lines[1:] if header else lines, columns, bad)


def _is_single_header(line: str) -> bool:
    """Tells whether a line is the header of a list of a single column."""
    return line.strip('"').lower() in FORMAT.url_names


def read_changed_lines(body: bytes, listed: ListedPages) -> UrlList:
    """Read a list like `read_url_list`, but parse only the lines that do not name a listed page as it is kept."""
    plain = body.removeprefix(codecs.BOM_UTF8)
    numbered = _lines(enumerate(chain.from_iterable(_blocks(plain)), start=1), [])
    rows = list(islice((line for _, line in numbered if not line.startswith(FORMAT.comment)), FORMAT.max_looked_at))
    if not len(listed) or (rows and (_is_single_header(rows[0]) or _header(rows[0]))) or _columns(rows):
        return read_url_list(body)
    named = np.zeros(len(listed), dtype=np.bool_)
    others: list[tuple[int, bytes]] = []
    last = 0
    for some in _blocks(plain):
        at = listed.find(some)
        others += [(last + 1 + i, some[i]) for i in np.flatnonzero(at < 0).tolist()]
        last += len(some)
        named[at[at >= 0]] = True
    bad: list[BadLine] = []
    rest = ((number, line) for number, line in _lines(others, bad) if not line.startswith(FORMAT.comment))
    found = _read(rest, None, bad)
    pages = np.fromiter((listed.page(identity(one.url)) for one in found.wanted), np.int64, len(found.wanted))
    if np.isin(pages, listed.identities(named)).any():  # of several lines for one page the last one counts
        return read_url_list(body)
    kept = listed.ids[named]
    return replace(found, kept=kept, duplicates=found.duplicates + last - len(others) - len(kept))


def _blocks(body: bytes) -> Iterator[list[bytes]]:
    """The lines of a list, a few thousand at a time."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + FORMAT.block_bytes) + 1 or len(body)
        yield body[start:end].splitlines()
        start = end


def _read(lines: Iterable[tuple[int, str]], columns: _Columns | None, bad: list[BadLine]) -> UrlList:
    """Read the rows of a list; those that cannot be used join the bad ones."""
    weights: dict[str, float] = {}  # by identity
    spellings: dict[str, str] = {}  # of the pages whose target is not their identity
    taken = 0
    for number, line, url, importance in _rows(lines, columns, bad):
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
    form = "lines" if columns is None else columns.form
    return UrlList(pages, tuple(sorted(bad, key=lambda b: b.number)), taken - len(pages), form)


def _rows(
    lines: Iterable[tuple[int, str]], columns: _Columns | None, bad: list[BadLine]
) -> Iterator[tuple[int, str, str, str | None]]:
    for number, line in lines:
        if columns is not None:
            cells = _cells(line, columns.separator)
            if cells is None or len(cells) < columns.min_cells:
                bad.append(BadLine(number, "not a row with the columns of the header", line))
                continue
            at = columns.importance
            weight = cells[at] if at is not None and at < len(cells) else ""
            yield number, line, cells[columns.url], weight or None
            continue
        parts = line.split()
        if len(parts) > 2:
            bad.append(BadLine(number, "more than a URL and its importance", line))
            continue
        yield number, line, parts[0], parts[1] if len(parts) == 2 else None


def _lines(numbered: Iterable[tuple[int, bytes]], bad: list[BadLine]) -> Iterator[tuple[int, str]]:
    for number, raw in numbered:
        try:
            line = raw.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            bad.append(BadLine(number, f"not UTF-8 at byte {error.start + 1}", raw.decode("utf-8", "replace").strip()))
            continue
        if line:
            yield number, line


def _cells(line: str, separator: str) -> list[str] | None:
    """The cells of a row; None where its quotes do not match."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, strict=True))]
    except csv.Error:
        return None


def _header(line: str) -> _Columns | None:
    """The columns that a header names."""
    for separator in FORMAT.separators:
        names = [name.lower() for name in _cells(line, separator) or ()]
        url, importance = _place(names, FORMAT.url_names), _place(names, FORMAT.importance_names)
        if url is not None and len(names) > 1:
            return _Columns(separator, url, importance, 1 + max(url, importance or 0))
    return None


def _place(names: Sequence[str], known: Sequence[str]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def _columns(lines: Sequence[str]) -> _Columns | None:
    """The columns of a CSV file without a header; None where the lines are no rows.

    A URL may hold a comma itself, so a line counts as a row only where its other cells are numbers, empty, quoted, or
    texts with a space in them, which no URL has, or where another cell comes before the URL. More than half of the
    lines are such rows. Their URLs are in the column that begins with http, their importance is in the first column
    of numbers. A first line without a URL may be a header in words of its own: then no number is taken for importance.
    """
    titled = bool(lines) and "://" not in lines[0]
    lines = lines[1:] if titled else lines
    for separator in FORMAT.separators:
        rows = [cells for line in lines if (cells := _cells(line, separator)) and _is_row(line, cells)]
        if 2 * len(rows) <= len(lines):
            continue
        width = max(len(cells) for cells in rows)
        for url in range(width):
            if all(len(cells) > url and _is_url(cells[url]) for cells in rows):
                numbers = (
                    at
                    for at in range(width)
                    if at != url and all(_is_number(cells[at]) for cells in rows if at < len(cells) and cells[at])
                    and any(at < len(cells) and cells[at] for cells in rows)
                )  # fmt: skip
                importance = None if titled else next(numbers, None)
                return _Columns(separator, url, importance, url + 1, "CSV without a header")
    return None


def _is_row(line: str, cells: Sequence[str]) -> bool:
    urls = [cell for cell in cells if _is_url(cell)]
    others = [cell for cell in cells if not _is_url(cell)]
    if len(cells) < 2 or not urls or any(" " in url for url in urls):
        return False
    return (
        line.startswith('"') or not _is_url(line) or all(not cell or _is_number(cell) or " " in cell for cell in others)
    )


def _is_url(cell: str) -> bool:
    return cell.lower().startswith(("http://", "https://"))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _importance(text: str | None) -> float:
    if text is None:
        return 1.0
    try:
        weight = float(text)
    except ValueError:
        raise InputError(f"importance {text!r} is not a number") from None
    return check_importance(weight)
