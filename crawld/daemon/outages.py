"""Pages that failed because their host is down: each waits its turn, and none waits on once the host is back."""

from dataclasses import dataclass, field

from crawld.scheduler import Scheduler


@dataclass(slots=True)
class Outages:
    """By host that is down, the pages that wait because of it and when each was asked."""

    scheduler: Scheduler
    _waiting: dict[str, dict[int, float]] = field(default_factory=dict)

    def turn(self, host: str, page_id: int, asked_at: float, wait: float, pages: int) -> float:
        """How many seconds a page waits that failed while its host is down and is asked again after `wait` seconds.

        Every other page of the host comes first: where this one is bad itself, another may find the host well.
        """
        self._waiting.setdefault(host, {})[page_id] = asked_at
        return (max(pages, 1) - 0.5) * wait

    def end(self, host: str) -> None:
        """The host has answered: its pages wait no longer than the minimum interval."""
        for page_id, asked_at in self._waiting.pop(host, {}).items():
            self.scheduler.lift(page_id, asked_at)
