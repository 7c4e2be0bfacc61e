"""Option types that more than one command takes."""

from typing import Any

import click

from crawld.model.errors import InputError
from crawld.model.units import parse_rate


class RateType(click.ParamType[float]):
    """`2/s`, `90/min` or `5000/day`, in requests per second."""

    name = "RATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The rate, or an error that names the option."""
        try:
            return parse_rate(value)
        except InputError as error:
            self.fail(str(error), param, ctx)


RATE = RateType()
