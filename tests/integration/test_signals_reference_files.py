"""The public sitemaps and feeds of the reference data: each is read, or refused by name."""

import base64
import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from crawld.content.lists.listing import Form
from crawld.content.lists.sitemap import read_sitemap
from crawld.errors import ParseError

FILES = Path(__file__).parents[3] / "shared" / "data" / "sitemaps.jsonl.gz"
NOW = 1_790_000_000.0
FORMS = {"urlset": Form.URLSET, "index": Form.INDEX, "rss": Form.RSS, "atom": Form.ATOM, "text": Form.TEXT}


def reference_files() -> list[dict[str, Any]]:
    """Every file of the reference data."""
    if not FILES.exists():
        pytest.skip("the reference data is not beside the project")
    with gzip.open(FILES, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_every_file_is_read_within_its_memory_or_refused_by_name() -> None:
    """All files parse as the form they are in, in far less than 64 MB, or say why not."""
    files = reference_files()
    assert len(files) > 100
    for file in files:
        body = base64.b64decode(file["b64"])
        tracemalloc.start()
        try:
            listing = read_sitemap(body, f"https://example.org/{file['path']}", NOW)
        except ParseError as refusal:
            assert str(refusal)  # noqa: PT017 - either way is right, as long as it is named
            continue
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 64 * 2**20
        assert listing.form is FORMS[file["doc"]], file["path"]
        if file.get("n_loc") and "template, not rendered" not in file["features"]:
            found = sum(entry.kind != "alternate" for entry in listing.entries)
            assert found == file["n_loc"], file["path"]
