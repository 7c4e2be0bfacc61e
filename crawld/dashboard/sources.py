"""What views are made from."""

from collections.abc import Callable

from crawld.dashboard.forecasts import Forecasts
from crawld.interfaces import Control
from crawld.interfaces.read_model import PageTexts, ReadModel


class Sources:
    """The daemon, what it has committed, the texts of copies, and the time."""

    def __init__(self, control: Control, reading: ReadModel, texts: PageTexts, now: Callable[[], float]) -> None:
        self.control, self.reading, self.texts, self.now = control, reading, texts, now
        self.forecasts = Forecasts(control, now)
