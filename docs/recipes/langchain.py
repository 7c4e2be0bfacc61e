"""LangChain.

Documents with their addresses, kept in step by LangChain's own indexing API: its record manager knows which parts a
page had, so parts that are gone leave the vector store. crawld says which pages differ, so the others are not even
read.

`client.follow(cursor, include="markdown", known=known)` goes on from there, and keeps `known` in step by itself.
"""

from collections.abc import Iterator, MutableMapping

from langchain_core.documents import Document
from langchain_core.indexing import RecordManager, index
from langchain_core.vectorstores import VectorStore

from crawld.client import BlockingClient, DocumentChange


def documents_of(change: DocumentChange) -> Iterator[Document]:
    """The parts of a page between its headings of the first two levels."""
    body = (change.markdown or "").split("---\n", 2)[-1]
    for part in body.replace("\n## ", "\n\0## ").replace("\n# ", "\n\0# ").split("\0"):
        if part.strip():
            about = {"source": change.url, "title": change.title, "version": change.version}
            yield Document(page_content=part.strip(), metadata=about)


def apply(change: DocumentChange, records: RecordManager, store: VectorStore) -> None:
    if change.deletes:
        keys = records.list_keys(group_ids=[change.url])
        if keys:
            store.delete(keys)
            records.delete_keys(keys)
        return
    index(
        list(documents_of(change)),
        records,
        store,
        cleanup="incremental",
        source_id_key="source",
        key_encoder="sha256",
    )


def sync(
    client: BlockingClient, records: RecordManager, store: VectorStore, known: MutableMapping[str, int | None]
) -> None:
    """`known` maps addresses to versions; keep it beside the store, as a JSON file or a table."""
    for change in client.reconcile(dict(known), include="markdown"):
        apply(change, records, store)
        if change.deletes:
            known.pop(change.url, None)
        else:
            known[change.url] = change.version
