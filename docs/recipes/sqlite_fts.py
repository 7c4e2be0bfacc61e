"""A search index of your own in SQLite.

FTS5 is part of Python's SQLite: no service, one file. (`search: true` keeps such an index in crawld itself; this one
is yours, with your columns.) The versions that the index holds are compared with the copies, so it is right after a
crash, a restored backup or a year of standing still; pages that did not change are not touched.

To stay in step, follow the changes from where the comparison ended:

    with BlockingClient() as client:
        db = open_index("docs.db")
        for change in client.follow(sync(client, db), include="text"):
            apply(db, change)

`BlockingClient()` takes the daemon's address and token from `CRAWLD_URL` and `CRAWLD_TOKEN` (docs/client.md).
"""

import sqlite3

from crawld.client import BlockingClient, DocumentChange


def open_index(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    columns = "url UNINDEXED, version UNINDEXED, title, body"
    db.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS docs USING fts5({columns})")
    return db


def apply(db: sqlite3.Connection, change: DocumentChange) -> None:
    with db:
        db.execute("DELETE FROM docs WHERE url = ?", (change.url,))
        if not change.deletes:
            row = (change.url, change.version, change.title or "", change.text or "")
            db.execute("INSERT INTO docs VALUES (?, ?, ?, ?)", row)


def sync(client: BlockingClient, db: sqlite3.Connection) -> int | None:
    known = dict(db.execute("SELECT url, version FROM docs"))
    run = client.reconcile(known, include="text")
    for change in run:
        apply(db, change)
    return run.cursor


def search(db: sqlite3.Connection, words: str) -> list[tuple[str, str]]:
    query = "SELECT url, snippet(docs, 3, '[', ']', '…', 12) FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT 10"
    return db.execute(query, (words,)).fetchall()
