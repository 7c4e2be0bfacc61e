"""Body to Digest: its bytes, its visible text and the blocks of that text, all hashed.

A block's number holds 55 bits of hash above 8 bits that tell its length (in eighths of a doubling), so that two
digests alone say how much of the text changed; numbers stay below 2^63, which every database can keep.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from zlib import crc32

from crawld.model.crawl import Digest, Place
from crawld.read.change.moments import LIMITS as MOMENTS_LIMITS
from crawld.read.change.moments import counted_blocks, timed_blocks
from crawld.read.change.words import Hunk
from crawld.read.page.documents import document_blocks
from crawld.read.page.head import Head
from crawld.read.page.markup import PageText, is_html, page_text
from crawld.read.page.rules import DEFAULT_RULE, DigestRule


@dataclass(frozen=True)
class DigestLimits:
    """Numbers that bound and tune this module."""

    max_blocks: int = 1024
    """A text of more blocks is kept as groups of neighbours, so that what is remembered of a page is bounded."""
    max_title_words: int = 40
    max_untimed: int = 64
    """Blocks that look as if they named a time and name none; a page with more of them is compared word by word."""


LIMITS = DigestLimits()


@dataclass(frozen=True, slots=True)
class Walked:
    """Findings in the places of the page, whatever the frame of its host says."""

    found: tuple[tuple[Place, range], ...]
    """The places found again, each with where it lies now."""
    explained: tuple[tuple[range, range], ...]
    """Those whose difference is explained, in the old and in the new version."""
    differences: tuple[Hunk, ...]
    """What differs outside of these."""
    places: tuple[Place, ...] | None = None
    """Memory of the page's places where none of the differences is the frame's, if that was made already."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Stands for the texts of a page, which can be large."""

    letters: tuple[int, ...]
    """Lengths of the blocks' texts."""
    count: int
    """About how many words the page has."""
    words: Mapping[int, tuple[int, ...]]
    """The words of those blocks that comparing takes apart, by index."""
    walked: Walked | None = None
    """None where there was nothing to compare with."""


_TITLE_WORDS = re.compile(r"[\w.]*\w|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Reading:
    """A body that was read: its digest, and the texts of the digest's blocks (none where the digest was known).

    What was read in another process comes without texts, `prepared` for the comparison.
    """

    digest: Digest
    texts: Sequence[str] = ()
    prepared: Prepared | None = None
    head: Head | None = None
    """Facts of the page's head; None where it was not read."""


def digest(
    body: bytes,
    content_type: str | None = None,
    rule: DigestRule = DEFAULT_RULE,
    known: Digest | None = None,
    at: float = 0.0,
) -> Digest:
    """Returns what a body fetched at that time was. The text is None where only the bytes can be compared."""
    return read_body(body, content_type, rule, known, at).digest


def read_body(
    body: bytes,
    content_type: str | None = None,
    rule: DigestRule = DEFAULT_RULE,
    known: Digest | None = None,
    at: float = 0.0,
    raw: bytes | None = None,
) -> Reading:
    """The digest of a body with the texts it was made of; `raw` is the hash of its bytes, where that is known.

    Most bodies are the very bytes seen before: where they are those of the `known` digest, it is the answer.
    """
    raw, scheme = raw or raw_hash(body), rule.scheme
    if known is not None and (raw, scheme) == (known.raw, known.scheme):
        return Reading(known)
    page = compared_text(body, content_type, rule)
    if page is None:
        return Reading(Digest(raw, scheme=scheme))
    blocks, texts = page.blocks, page.blocks
    if len(blocks) > LIMITS.max_blocks:
        texts = grouped(blocks)
    hashed = hashlib.blake2b(digest_size=16)  # of all blocks, each on a line, without a copy of them all
    for start in range(0, len(blocks), LIMITS.max_blocks):
        lines = "\n".join(blocks[start : start + LIMITS.max_blocks])
        hashed.update((f"\n{lines}" if start else lines).encode("utf-8", "replace"))
    numbers = tuple(map(block_number, texts))
    words = _TITLE_WORDS.findall(blocks[0])[: LIMITS.max_title_words] if page.titled else ()
    title = tuple(crc32(word.encode("utf-8", "replace")) for word in words) if words else ()
    return Reading(Digest(raw, hashed.digest(), numbers, _times(texts, at), scheme, title, page.in_main), texts)


def read_bytes(body: bytes, rule: DigestRule) -> Reading:
    """The reading of a body of which only the bytes are compared."""
    return Reading(Digest(raw_hash(body), scheme=rule.scheme))


def compared_text(body: bytes, content_type: str | None, rule: DigestRule) -> PageText | None:
    """The text of a body that a rule compares; None where that is its bytes."""
    if rule.mode == "raw":
        return None
    if is_html(body, content_type):
        return page_text(body, content_type, rule)
    blocks = document_blocks(body, content_type, rule)
    return PageText(blocks) if blocks else None


def raw_hash(body: bytes) -> bytes:
    """The hash by which the bytes of a copy are known again."""
    return hashlib.blake2b(body, digest_size=16).digest()


def _times(texts: Sequence[str], at: float) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    """Every block that names times: where it is, its number without them, and the moments."""
    found: list[tuple[int, int, tuple[int, ...]]] = []
    moments, untimed = 0, 0
    for index, timed in chain(timed_blocks(texts, at), counted_blocks(texts)):
        if timed is not None:
            found.append((index, block_number(timed[0]), timed[1]))
            moments += len(timed[1])
        else:
            untimed += 1
        if moments > MOMENTS_LIMITS.max_moments or untimed > LIMITS.max_untimed:
            return ()
    return tuple(found)


def block_number(text: str) -> int:
    """A block as one number: its hash, and the class of its length."""
    data = text.encode("utf-8", "replace")
    hashed = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") >> 9
    length = len(data)
    return hashed << 8 | (_LENGTH_CLASSES[length] if length < len(_LENGTH_CLASSES) else _length_class(length))


def _length_class(length: int) -> int:
    return min(255, round(8 * math.log2(1 + length)))


_LENGTH_CLASSES = bytes(map(_length_class, range(4096)))
_LENGTHS = tuple(math.exp2(length / 8) - 1.0 for length in range(256))


def block_length(number: int) -> float:
    """About how many bytes the block had, within 5 %."""
    return _LENGTHS[number & 0xFF]


def grouped(blocks: list[str]) -> list[str]:
    """At most `max_blocks` blocks: neighbours joined up to blocks that their own content marks as an end.

    Ends chosen by content stay where they are when text is put in before them; groups of a fixed size would not, and
    are made only where too many blocks are alike and mark ends.
    """
    every = 2 ** math.ceil(math.log2(2 * len(blocks) / LIMITS.max_blocks))
    groups: list[str] = []
    group: list[str] = []
    for block in blocks:
        group.append(block)
        if (block_number(block) >> 8) % every == 0:
            groups.append("\n".join(group))
            group = []
    groups += ["\n".join(group)] if group else []
    if len(groups) <= LIMITS.max_blocks:
        return groups
    size = math.ceil(len(groups) / LIMITS.max_blocks)
    return ["\n".join(groups[at : at + size]) for at in range(0, len(groups), size)]
