"""Which files are watched, and which to poll next."""

from collections.abc import Iterator, Sequence

from crawld.signals.files import File
from crawld.signals.planting import Budgets
from crawld.signals.poll_rotation import PollRotation


class PollSchedule:
    """Files by the time of their next poll; one that is being polled is not due until it is planned again."""

    def __init__(self) -> None:
        self.budgets = Budgets()
        self._files: dict[str, File] = {}
        self._children: dict[str, dict[str, None]] = {}  # of an index
        self._under_way: set[str] = set()
        self._exploring, self._preferred = PollRotation(self._planned), PollRotation(self._planned)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, url: str) -> bool:
        return url in self._files

    def __iter__(self) -> Iterator[File]:
        return iter(self._files.values())

    def get(self, url: str) -> File | None:
        """The file, None if it is not watched."""
        return self._files.get(url)

    def children(self, url: str) -> Sequence[File]:
        """The files that an index led to."""
        return [self._files[child] for child in self._children.get(url, ())]

    def add(self, file: File) -> bool:
        """Watch a file; False where it is watched already, or whoever planted it has planted enough."""
        if file.url in self._files or not self.budgets.has_room(file):
            return False
        self._files[file.url] = file
        self.budgets.add(file)
        self._exploring.join(file)
        self._preferred.join(file)
        if file.parent is not None:
            self._children.setdefault(file.parent, {})[file.url] = None
        self.plan(file)
        return True

    def remove(self, url: str) -> None:
        """Watch a file no longer."""
        file = self._files.pop(url, None)
        if file is None:
            return
        self.budgets.remove(file)
        self._exploring.leave(file)
        self._preferred.leave(file)
        self._under_way.discard(url)
        siblings = self._children.get(file.parent or "", {})
        siblings.pop(url, None)
        if not siblings:
            self._children.pop(file.parent or "", None)

    def plan(self, file: File) -> None:
        """Take over the time of a file's next poll."""
        self._under_way.discard(file.url)
        if file.url in self._files:
            (self._preferred if file.preferred else self._exploring).plan(file)

    def begin(self, url: str) -> None:
        """A poll of the file is under way."""
        self._under_way.add(url)

    def under_way(self, url: str) -> bool:
        """Whether the file is being polled."""
        return url in self._under_way

    def rest(self, url: str, until: float) -> None:
        """Offer no file of this one's host until then, as far as the same site planted it."""
        file = self._files.get(url)
        if file is not None:
            self._exploring.rest(file.planter, file.host, until)
            self._preferred.rest(file.planter, file.host, until)

    def due(self, now: float, *, explore: bool = True) -> Iterator[File]:
        """Files to poll now, preferred ones first, by turns of the sites that planted them; others to `explore`.

        Several, since a host may not be ready.
        """
        yield from self._preferred.due(now)
        if explore:
            yield from self._exploring.due(now)

    def _planned(self, at: float, url: str) -> File | None:
        """The file, where it is to be polled at that time and not under way."""
        file = self._files.get(url)
        return file if file is not None and file.next_poll == at and url not in self._under_way else None
