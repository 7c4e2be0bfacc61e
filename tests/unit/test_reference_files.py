"""Sitemaps, feeds and dates as servers send them: each is read, or refused by name."""

import tracemalloc
from datetime import UTC, datetime

import pytest

from crawld.model.errors import ParseError
from crawld.read.dates import Unusable, read_date
from crawld.read.listing import EntryKind, FileForm
from crawld.read.sitemap import read_sitemap
from tests.support.reference_files import claimed_dates, further_dates, list_files, listed_urls

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
MOST_MEMORY = 64 * 2**20


def test_every_file_is_read_within_its_memory_or_refused_by_name() -> None:
    """All files parse as the form they are in, in far less than 64 MB, or say why not."""
    for file in list_files():
        tracemalloc.start()
        try:
            listing = read_sitemap(file.body, f"https://example.org/{file.path}", NOW)
        except ParseError as refusal:
            assert str(refusal)  # noqa: PT017 - a refusal says why
            assert file.form is None or file.refusable, file.about
            continue
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < MOST_MEMORY
        assert file.form is not None, file.about
        assert listing.form is FileForm(file.form), file.about
        found = sum(entry.kind is not EntryKind.ALTERNATE for entry in listing.entries)
        assert file.count is None or found == file.count, file.about


@pytest.mark.parametrize(("about", "urls"), listed_urls().items(), ids=[*listed_urls()])
def test_the_urls_of_a_file_are_those_it_lists(about: str, urls: list[str]) -> None:
    """Every URL comes out as it would be asked for, in the order of the file."""
    (file,) = (file for file in list_files() if file.about == about)
    listing = read_sitemap(file.body, f"https://example.org/{file.path}", NOW)
    assert [entry.loc for entry in listing.entries if entry.kind is not EntryKind.ALTERNATE] == urls


@pytest.mark.parametrize(("value", "claims"), claimed_dates())
def test_a_date_claims_its_moment_or_says_why_not(value: str, claims: str) -> None:
    """Every value of the table is read as the moment it claims, or named as what it is."""
    claim = read_date(value, NOW)
    if claims in {reason.value for reason in Unusable}:
        assert claim.reason == claims
    else:
        at = datetime.fromisoformat(claims)
        assert claim.at == (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        assert claim.usable


def test_no_value_met_in_public_files_is_merely_garbled() -> None:
    """Of those in the table and of further ones each is understood, or its fault is."""
    values = [value for value, _ in claimed_dates()] + further_dates()
    assert [value for value in values if read_date(value, NOW).reason is Unusable.GARBLED] == []
