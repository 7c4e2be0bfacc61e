"""What views are made from."""

from collections.abc import Callable

from crawld.show.dashboard.forecasts import Forecasts
from crawld.store.control import Control
from crawld.store.views import PageTexts, ReadModel


class Sources:
    """The daemon, what it has committed, the texts of copies, the time, and what opens the feed of changes."""

    def __init__(
        self, control: Control, reading: ReadModel, texts: PageTexts, now: Callable[[], float], feed_key: str = ""
    ) -> None:
        self.control, self.reading, self.texts, self.now, self.feed_key = control, reading, texts, now, feed_key
        self.forecasts = Forecasts(control, now)
