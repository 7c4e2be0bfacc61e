"""Body to Digest: its bytes, its visible text and the blocks of that text, all hashed.

A block's number holds 55 bits of hash above 8 bits that tell its length (in eighths of a doubling), so that two
digests alone say how much of the text changed; numbers stay below 2^63, which every database can keep.
"""

import hashlib
import math
from collections.abc import Sequence

from crawld.content.markup import is_html, visible_blocks
from crawld.content.rules import DEFAULT_RULE, DigestRule
from crawld.model.crawl import Digest

MOST_BLOCKS = 1024
"""A text of more blocks is kept as groups of neighbours, so that what is remembered of a page is bounded."""


def digest(
    body: bytes, content_type: str | None = None, rule: DigestRule = DEFAULT_RULE, known: Digest | None = None
) -> Digest:
    """What a body was. The text is None where only the bytes can be compared.

    Most bodies are the very bytes seen before: where they are those of the `known` digest, it is the answer.
    """
    raw = hashlib.blake2b(body, digest_size=16).digest()
    if known is not None and raw == known.raw:
        return known
    if rule.mode == "raw" or not is_html(body, content_type):
        return Digest(raw)
    blocks = visible_blocks(body, content_type, rule)
    if blocks is None:
        return Digest(raw)
    text = hashlib.blake2b("\n".join(blocks).encode("utf-8", "replace"), digest_size=16).digest()
    return Digest(raw, text, tuple(block_number(block) for block in grouped(blocks)))


def block_number(text: str) -> int:
    """A block as one number: its hash, and the class of its length."""
    data = text.encode("utf-8", "replace")
    hashed = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") >> 9
    length = len(data)
    return hashed << 8 | (_LENGTH_CLASSES[length] if length < len(_LENGTH_CLASSES) else _length_class(length))


def _length_class(length: int) -> int:
    return min(255, round(8 * math.log2(1 + length)))


_LENGTH_CLASSES = bytes(map(_length_class, range(4096)))


def block_length(number: int) -> float:
    """About how many bytes the block had, within 5 %."""
    return math.exp2((number & 0xFF) / 8) - 1.0


def grouped(blocks: Sequence[str]) -> Sequence[str]:
    """At most about MOST_BLOCKS blocks: neighbours joined up to blocks that their own content marks as an end.

    Ends chosen by content stay where they are when text is put in before them; groups of a fixed size would not.
    """
    if len(blocks) <= MOST_BLOCKS:
        return blocks
    every = 2 ** math.ceil(math.log2(2 * len(blocks) / MOST_BLOCKS))
    groups: list[str] = []
    group: list[str] = []
    for block in blocks:
        group.append(block)
        if (block_number(block) >> 8) % every == 0:
            groups.append("\n".join(group))
            group = []
    return [*groups, "\n".join(group)] if group else groups
