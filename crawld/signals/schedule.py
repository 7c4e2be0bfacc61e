"""Which file to poll next."""

import heapq
from collections.abc import Iterator, Sequence

from crawld.signals.files import File

MOST_FILES_PER_HOST = 2_000


class PollSchedule:
    """Files by the time of their next poll; one that is being polled is not due until it is planned again."""

    def __init__(self) -> None:
        self._files: dict[str, File] = {}
        self._per_host: dict[str, int] = {}
        self._heap: list[tuple[float, str]] = []
        self._under_way: set[str] = set()

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, url: str) -> bool:
        return url in self._files

    def __iter__(self) -> Iterator[File]:
        return iter(self._files.values())

    def get(self, url: str) -> File | None:
        """The file, None if it is not watched."""
        return self._files.get(url)

    def add(self, file: File) -> bool:
        """Watch a file; False where it is watched already or its host has too many."""
        if file.url in self._files or self._per_host.get(file.host, 0) >= MOST_FILES_PER_HOST:
            return False
        self._files[file.url] = file
        self._per_host[file.host] = self._per_host.get(file.host, 0) + 1
        self.plan(file)
        return True

    def remove(self, url: str) -> None:
        """Watch a file no longer."""
        file = self._files.pop(url, None)
        if file is not None:
            self._per_host[file.host] -= 1
            self._under_way.discard(url)

    def plan(self, file: File) -> None:
        """Take over the time of a file's next poll."""
        self._under_way.discard(file.url)
        heapq.heappush(self._heap, (file.next_poll, file.url))

    def begin(self, url: str) -> None:
        """A poll of the file is under way."""
        self._under_way.add(url)

    def due(self, now: float, most: int = 8) -> Sequence[File]:
        """Files to poll now, longest waiting first; several, since the first one's host may not be ready."""
        found: list[tuple[float, str]] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            at, url = heapq.heappop(self._heap)
            file = self._files.get(url)
            if file is not None and file.next_poll == at and url not in self._under_way and (at, url) not in found:
                found.append((at, url))
        for item in found:
            heapq.heappush(self._heap, item)
        return [self._files[url] for _, url in found]
