"""The pages the daemon holds in memory: a cache of the store with what deciding needs at once."""

from collections.abc import Iterable, Iterator

from crawld.model.page import Page, PageState

FIRST_WAIT = 600.0
LONGEST_WAIT = 7 * 86400.0
GONE_WAIT = 3600.0
DISTRUST_304 = 30 * 86400.0


class Pages:
    """Pages by id, with their state and how often each failed in a row."""

    def __init__(self) -> None:
        self._pages: dict[int, Page] = {}
        self._states: dict[int, PageState] = {}
        self._failures: dict[int, int] = {}
        self._distrusted: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def __getitem__(self, page_id: int) -> Page:
        return self._pages[page_id]

    def __iter__(self) -> Iterator[Page]:
        return iter(self._pages.values())

    def get(self, page_id: int) -> Page | None:
        """The page, or None if it was retired."""
        return self._pages.get(page_id)

    def put(self, page: Page, state: PageState = PageState.WAITING, failures: int = 0) -> None:
        """Take a page in, or over its new importance."""
        self._pages[page.id] = page
        self._states.setdefault(page.id, state)
        if failures:
            self._failures[page.id] = failures

    def drop(self, page_ids: Iterable[int]) -> None:
        """Forget pages that were retired."""
        for page_id in page_ids:
            self._pages.pop(page_id, None)
            self._states.pop(page_id, None)
            self._failures.pop(page_id, None)

    def change_state(self, page_id: int, state: PageState) -> bool:
        """Note where a page stands; whether that is news."""
        news = self._states.get(page_id) is not state
        self._states[page_id] = state
        return news

    def after(self, page_id: int, state: PageState, at: float, *, spared: bool = False) -> float:
        """Note how a crawl ended; the time before which the page is not asked again.

        A page that fails on its own account waits twice as long each time; trouble of the whole host (`spared`) is
        the host gate's business. A page that is gone is asked again now and then.
        """
        self.change_state(page_id, state)
        if state is PageState.LIVE or spared:
            if state is PageState.LIVE:
                self._failures.pop(page_id, None)
            return -float("inf")
        count = self._failures.get(page_id, 0)
        self._failures[page_id] = count + 1
        first = GONE_WAIT if state is PageState.GONE else FIRST_WAIT
        return at + min(first * 2.0**count, LONGEST_WAIT)

    def distrust_304(self, host: str, now: float) -> None:
        """The host answered 304 for a page that had changed: ask it without conditions for a time."""
        self._distrusted[host] = now + DISTRUST_304

    def distrusts_304(self, host: str, now: float) -> bool:
        """Whether the host lost our trust in its 304s."""
        return self._distrusted.get(host, 0.0) > now
