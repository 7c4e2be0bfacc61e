"""Files as servers send them, from tables written for the project; and further ones, where a folder of them is named.

`CRAWLD_REFERENCE_DATA` names a folder with robots.jsonl.gz, sitemaps.jsonl.gz (one JSON object a line, its bytes in
`b64`) and lastmod_wild_values.csv. The same tests then read those as well.
"""

import base64
import csv
import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
FURTHER = os.environ.get("CRAWLD_REFERENCE_DATA")


@dataclass(frozen=True, slots=True)
class ListFile:
    """A sitemap or a feed: its form, None where it is to be refused, and how many URLs it lists, None for any."""

    about: str
    path: str
    body: bytes
    form: str | None
    count: int | None
    refusable: bool = False  # nobody knows whether it can be read


def robots_files() -> Iterator[bytes]:
    """Every robots.txt."""
    for row in _table("robots_files.json"):
        yield _encoded(row)
    yield from (base64.b64decode(row["b64"]) for row in _further("robots.jsonl.gz"))


def list_files() -> Iterator[ListFile]:
    """Every sitemap and feed."""
    for row in _table("sitemaps.json"):
        count = None if row["locs"] is None else len(row["locs"])
        yield ListFile(row["about"], row["path"], _encoded(row), row["form"], count)
    for row in _further("sitemaps.jsonl.gz"):
        rendered = row.get("n_loc") and "template, not rendered" not in row["features"]
        body, count = base64.b64decode(row["b64"]), row["n_loc"] if rendered else None
        yield ListFile(row["path"], row["path"], body, row["doc"], count, refusable=True)


def listed_urls() -> dict[str, list[str]]:
    """By what a file of the project's table is about, the URLs it lists."""
    return {row["about"]: row["locs"] for row in _table("sitemaps.json") if row["locs"] is not None and row["form"]}


def claimed_dates() -> list[tuple[str, str]]:
    """Values of dates with the moment they claim or the reason why they claim none."""
    with (DATA / "dates.csv").open(encoding="utf-8", newline="") as file:
        return [(row["value"], row["claims"]) for row in csv.DictReader(file)]


def further_dates() -> list[str]:
    """Values of dates that were met in public files."""
    path = None if FURTHER is None else Path(FURTHER) / "lastmod_wild_values.csv"
    if path is None:
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [row["value"] for row in csv.DictReader(file)]


def _table(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return rows


def _further(name: str) -> Iterator[dict[str, Any]]:
    if FURTHER is not None:
        with gzip.open(Path(FURTHER) / name, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _encoded(row: dict[str, Any]) -> bytes:
    """The bytes of a row's lines."""
    text, encoding = "\n".join(row["lines"]) + "\n", row["encoding"]
    if encoding == "gzip":
        return gzip.compress(text.encode())
    if encoding == "crlf-with-bom":
        return text.replace("\n", "\r\n").encode("utf-8-sig")
    return text.encode(encoding)
