"""A search index kept by `crawld.client`: `python index_consumer.py ADDRESS TOKEN DATABASE`.

Documents, their versions and the cursor are in one SQLite file; each change and its cursor are one transaction. Where
documents are not as many as were noted with the cursor, the index has drifted and is reconciled. Every text that would
be embedded is noted, with its version and whether the index held that very version.
"""

import asyncio
import sqlite3
import sys

from crawld.client import Client, Pace


def open_index(file: str) -> sqlite3.Connection:
    """The index, made where it is not there yet."""
    index = sqlite3.connect(file, isolation_level=None)
    index.execute("CREATE TABLE IF NOT EXISTS documents (url TEXT PRIMARY KEY, version INTEGER, text TEXT)")
    index.execute("CREATE TABLE IF NOT EXISTS cursor (at INTEGER, documents INTEGER)")
    index.execute("CREATE TABLE IF NOT EXISTS embedded (url TEXT, version INTEGER, held BOOLEAN)")
    return index


async def main(address: str, token: str, file: str) -> None:
    """Follow until killed."""
    index = open_index(file)
    known = dict(index.execute("SELECT url, version FROM documents").fetchall())
    kept = index.execute("SELECT at, documents FROM cursor").fetchone()
    cursor = kept[0] if kept is not None and kept[1] == len(known) else None
    pace = Pace(poll_seconds=2.0, retry_seconds=(0.05, 0.2))
    async with Client(address, token, pace=pace) as client:
        async for change in client.follow(cursor, include="markdown", known=known):
            index.execute("BEGIN")
            if change.deletes:
                index.execute("DELETE FROM documents WHERE url = ?", [change.url])
            else:
                row = [change.url, change.version, change.markdown]
                held = "SELECT ?, ?, EXISTS (SELECT 1 FROM documents WHERE url = ? AND version = ?)"
                index.execute(f"INSERT INTO embedded {held}", [*row[:2], *row[:2]])
                index.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", row)
            if change.cursor is not None:
                index.execute("DELETE FROM cursor")
                index.execute("INSERT INTO cursor SELECT ?, count(*) FROM documents", [change.cursor])
            index.execute("COMMIT")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
