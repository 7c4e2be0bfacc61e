"""A forecast for all pages from a part of them that is like the whole: each host in it with all its pages."""

from dataclasses import replace

from crawld.choose.forecast import Forecast, Point


class PartForecast:
    """Has the front of `Forecast`; `part` is the share of all pages that the forecast knows, above 0."""

    def __init__(self, forecast: Forecast, part: float) -> None:
        self._forecast, self._part = forecast, part
        self.pages = round(forecast.pages / part)
        self.page_share, self.sampled = forecast.page_share, forecast.sampled

    def at(self, bandwidth: float) -> Point:
        """What that many requests per second buy: the part has its share of them."""
        point = self._forecast.at(bandwidth * self._part)
        return replace(
            point,
            bandwidth=bandwidth,
            used=point.used / self._part,
            given_up=round(point.given_up / self._part),
        )
