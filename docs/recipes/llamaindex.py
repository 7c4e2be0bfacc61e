"""LlamaIndex.

One document a page, with its address as its id. LlamaIndex cuts and embeds it, and forgets all of its parts when the
page is gone. The versions stand in the documents' metadata, so the index itself says what it holds.

Go on with `for change in client.follow(cursor, include="markdown"): apply(index, change)`, and persist the index's
storage context as usual. Pages that did not change are not embedded again.
"""

from llama_index.core import Document, VectorStoreIndex

from crawld.client import BlockingClient, DocumentChange


def known(index: VectorStoreIndex) -> dict[str, int]:
    return {url: about.metadata["version"] for url, about in index.ref_doc_info.items()}


def apply(index: VectorStoreIndex, change: DocumentChange) -> None:
    if change.url in index.ref_doc_info:
        index.delete_ref_doc(change.url, delete_from_docstore=True)
    if change.deletes or not change.markdown:
        return
    about = {"url": change.url, "title": change.title or "", "version": change.version}
    index.insert(
        Document(
            text=change.markdown,
            doc_id=change.url,
            metadata=about,
            excluded_embed_metadata_keys=["version"],
            excluded_llm_metadata_keys=["version"],
        )
    )


def sync(client: BlockingClient, index: VectorStoreIndex) -> int | None:
    run = client.reconcile(known(index), include="markdown")
    for change in run:
        apply(index, change)
    return run.cursor
