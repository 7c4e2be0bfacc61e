"""Two digests to a verdict: changed or not, by how much, back to an earlier version, or noise."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from crawld.content.digest import block_length
from crawld.content.rules import DEFAULT_RULE, DigestRule
from crawld.content.volatile import steady_blocks
from crawld.model.crawl import Digest, Memory

VERSIONS_SEEN = 16


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of a page since it was remembered. `magnitude` is None where only bytes could be compared."""

    changed: bool
    magnitude: float | None = None
    reverted: bool = False  # back to a version seen before
    left_out: int = 0  # volatile blocks that were not compared


UNCHANGED = Comparison(changed=False, magnitude=0.0)


def compare(memory: Memory, digest: Digest, rule: DigestRule = DEFAULT_RULE) -> Comparison:
    """Whether a page changed, by its rule.

    Where it did not, go on comparing with the digest remembered: small changes below `min_change` then add up.
    """
    known = memory.digest
    if digest.raw == known.raw:
        return UNCHANGED
    if rule.mode == "raw" or digest.text is None or known.text is None:
        return Comparison(changed=True, reverted=version_key(digest, memory.volatile) in memory.seen)
    if digest.text == known.text:
        return UNCHANGED
    before = steady_blocks(known.blocks, memory.volatile)
    after = steady_blocks(digest.blocks, memory.volatile)
    left_out = len(digest.blocks) - len(after)
    magnitude = share_changed(before, after)
    if before == after or magnitude < rule.min_change:
        return Comparison(changed=False, magnitude=magnitude, left_out=left_out)
    reverted = version_key(digest, memory.volatile) in memory.seen
    return Comparison(changed=True, magnitude=magnitude, reverted=reverted, left_out=left_out)


def share_changed(before: Sequence[int], after: Sequence[int]) -> float:
    """How much of the text differs, 0–1: one minus the Jaccard share of the blocks, each weighing its length.

    A mere change of order is 0.
    """
    old, new = Counter(before), Counter(after)
    either = sum(block_length(block) * count for block, count in (old | new).items())
    both = sum(block_length(block) * count for block, count in (old & new).items())
    return 1.0 - both / either if either else 0.0


def version_key(digest: Digest, volatile: Sequence[int]) -> bytes:
    """What tells a version apart from others: its steady blocks, its text, or its bytes."""
    if digest.text is None:
        return digest.raw
    if not volatile:
        return digest.text
    steady = steady_blocks(digest.blocks, volatile)
    return hashlib.blake2b(b"".join(block.to_bytes(8, "big") for block in steady), digest_size=16).digest()


def remember(memory: Memory, digest: Digest, comparison: Comparison, at: float) -> Memory:
    """What to remember after a further crawl: the new version where the page changed, the old one where not.

    What is volatile differs at every fetch. Where it was the same twice, it was a real change that came between the
    two fetches that taught us, and counts again.
    """
    if not comparison.changed:
        kept = replace(memory, fetched_at=at, streak=0)
        if not memory.volatile or digest.text is None:
            return kept
        if digest.text == memory.digest.text:
            return replace(kept, volatile=())
        return kept if comparison.magnitude else replace(kept, digest=digest)
    key = version_key(memory.digest, memory.volatile)
    seen = (key, *(other for other in memory.seen if other != key))[:VERSIONS_SEEN]
    return replace(memory, fetched_at=at, digest=digest, streak=memory.streak + 1, seen=seen)
