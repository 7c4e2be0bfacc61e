"""Pages that failed because their host is down: each waits its turn, and none waits on once the host is back."""

from dataclasses import dataclass, field

from crawld.scheduler import Scheduler


@dataclass(slots=True)
class Outages:
    """By host that is down, the pages that wait because of it and when each was asked."""

    scheduler: Scheduler
    _waiting: dict[str, dict[int, float]] = field(default_factory=dict)
    _host_of: dict[int, str] = field(default_factory=dict)  # the one host that a page waits for: the latest

    def turn(self, host: str, page_id: int, asked_at: float, wait: float, pages: int) -> float:
        """How many seconds a page waits that failed while its host is down and is asked again after `wait` seconds.

        Every other page of the host comes first: where this one is bad itself, another may find the host well.
        """
        self._forget(page_id)
        self._waiting.setdefault(host, {})[page_id] = asked_at
        self._host_of[page_id] = host
        return (max(pages, 1) - 0.5) * wait

    def end(self, host: str) -> None:
        """The host has answered: its pages wait no longer than the minimum interval."""
        for page_id, asked_at in self._waiting.pop(host, {}).items():
            del self._host_of[page_id]
            self.scheduler.lift(page_id, asked_at)

    def _forget(self, page_id: int) -> None:
        """Let a page wait no longer for the host it waited for: pages may lead to ever other hosts that are down."""
        host = self._host_of.pop(page_id, None)
        if host is not None:
            waiting = self._waiting[host]
            del waiting[page_id]
            if not waiting:
                del self._waiting[host]
