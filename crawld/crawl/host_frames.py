"""The frames of hosts, at hand while the daemon runs: read when first needed, bounded, and kept up with every visit."""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass

from crawld.crawl.judge import Judgement
from crawld.model.crawl import Memory, Verdict
from crawld.model.fetched import Trouble
from crawld.model.host import FrameChange
from crawld.model.page import Page
from crawld.pages.pages import Pages
from crawld.read.change.frame import LIMITS as FRAME_LIMITS
from crawld.read.change.frame import HostFrame, newest_that_fit
from crawld.store.documents import PendingCopy
from crawld.store.store import SqlStore


@dataclass(frozen=True)
class HostFramesLimits:
    """Numbers that bound and tune this module."""

    max_blocks: int = 400_000
    """Blocks held of all hosts together, about 50 MB; a host dropped is read again from the store."""
    blocks_at_once: int = 4_096
    """Blocks that are taken into a frame in one go: about a millisecond."""


LIMITS = HostFramesLimits()


log = logging.getLogger("crawld.crawl")


class Frames:
    """Frames by host. A host of few pages has none."""

    def __init__(self, store: SqlStore, pages: Pages) -> None:
        self._store, self._pages = store, pages
        self._frames: OrderedDict[str, HostFrame] = OrderedDict()
        self._weights: dict[str, int] = {}  # of each frame when it was last looked at, and
        self._weight = 0  # of all together

    def at_hand(self, host: str) -> HostFrame | None:
        """The frame, where it was needed before."""
        return self._frames.get(host)

    async def read(self, host: str) -> HostFrame | None:
        """The frame, read from the store where it is not at hand; None for a host of few pages."""
        if self._pages.on_host(host) < FRAME_LIMITS.min_pages:
            return None
        frame = self._frames.get(host)
        if frame is not None:
            return frame
        made = await self._made(host)
        frame = self._frames.get(host)  # another visit may have been quicker
        if frame is None:
            frame = self._frames[host] = made
            self._weigh(host, frame)
        return frame

    async def _made(self, host: str) -> HostFrame:
        """A frame made from what the store has of the host's pages, a few pages at a time: others want the loop too."""
        frame, waiting = HostFrame(host), 0
        for page in newest_that_fit(await self._store.recent_pages(host, FRAME_LIMITS.max_pages)):
            frame.hold(*page)
            waiting += len(page.blocks)
            if waiting >= LIMITS.blocks_at_once:
                waiting = 0
                await asyncio.sleep(0)
        return frame

    async def shared(self, copy: PendingCopy) -> list[int]:
        """The numbers of the blocks of a page's latest version that are frame, where the frame is at hand."""
        frame = self._frames.get(copy.host)
        memory = None if frame is None else await self._store.recall(copy.page_id)
        if frame is None or memory is None or memory.digest.text is None:
            return []
        flags = frame.left_out(copy.page_id, memory.digest)
        return [block for block, left_out in zip(memory.digest.blocks, flags) if left_out]

    def forget(self, host: str) -> None:
        """Forget a host's frame; it is read again where it is needed."""
        if self._frames.pop(host, None) is not None:
            self._weight -= self._weights.pop(host)

    def visited(self, page: Page, memory: Memory | None, judgement: Judgement, at: float) -> None:
        """Take in what a visit saw, in the step that records it."""
        frame = self._frames.get(page.host)
        if frame is None:
            return
        self._frames.move_to_end(page.host)
        change = learn_visit(frame, page.id, memory, judgement, at, page.url)
        self._weigh(page.host, frame)
        self._bound()
        if change is None:
            return
        self._store.record_frame_change(change)
        if change.pages == (2 if change.kind == "frame" else 3):
            what = "frame changed" if change.kind == "frame" else "same edit on several pages"
            log.info(what, extra={"host": page.host, "lost": change.lost, "gained": change.gained})

    def _weigh(self, host: str, frame: HostFrame) -> None:
        self._weight += frame.weight - self._weights.get(host, 0)
        self._weights[host] = frame.weight

    def _bound(self) -> None:
        while self._weight > LIMITS.max_blocks and len(self._frames) > 1:
            host, _ = self._frames.popitem(last=False)
            self._weight -= self._weights.pop(host)


def learn_visit(
    frame: HostFrame, page_id: int, memory: Memory | None, judgement: Judgement, at: float, url: str = ""
) -> FrameChange | None:
    """Let a frame learn from a visit; the event of the site that it showed, where other pages did so too."""
    if judgement.verdict is Verdict.CHANGED:
        frame.settle(page_id)
    seen, before = judgement.seen, memory.digest if memory is not None else None
    if seen is None:
        return None
    if judgement.trouble == Trouble.ERROR_PAGE.value:
        if before is not None:
            frame.turned(page_id, before, seen, at)
        return None
    frame.see(page_id, before, seen, at, url)
    if judgement.memory is not None and (judgement.memory.varying or judgement.memory.places):
        frame.learn_noise(page_id, judgement.memory)
    if judgement.frame_presumed:
        frame.presume(page_id, judgement.frame_lost, judgement.frame_gained)
    if judgement.verdict is Verdict.CHANGED and before is not None:
        return frame.shared_edit(page_id, before, seen, at)
    if not judgement.frame_lost and not judgement.frame_gained:
        return None
    return frame.changed(page_id, judgement.frame_lost, judgement.frame_gained, at)
