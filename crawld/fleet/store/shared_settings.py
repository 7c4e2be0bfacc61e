"""The settings of a whole fleet, by revision: the latest are in force for every worker."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from crawld.fleet.store import statements
from crawld.fleet.store.line import Line
from crawld.fleet.store.making import no_fleet
from crawld.model.errors import StoreError
from crawld.store.address import parse_address

READ_SECONDS = 10.0
"""A server that has not answered for so long counts as out of reach."""


@dataclass(frozen=True, slots=True)
class Revision:
    """Settings as they were applied at one time."""

    number: int
    at: float  # in the database's time
    by: str  # the worker or the machine that applied them
    document: Mapping[str, Any]


class SharedSettings:
    """Reads and applies the fleet's settings; use it as an async context."""

    def __init__(self, url: str) -> None:
        self._address = parse_address(url)
        self._line = Line(self._address, READ_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let the connection go."""
        await self._line.close()

    async def read(self) -> Revision | None:
        """The settings in force; None where none were applied yet. StoreError where the database is no fleet's."""
        present = await self._line.row(statements.PRESENT)
        if not (present and present["present"] and await self._line.row(statements.FLEET)):
            raise no_fleet(self._address.shown)
        if not present["settings"]:
            return None  # an older version's tables: the first worker of this one brings them up
        found = await self._line.row(statements.SETTINGS)
        if found is None:
            return None
        return Revision(found["revision"], found["at"], found["by"], json.loads(found["document"]))

    async def apply(self, document: Mapping[str, Any], by: str, *, after: int) -> Revision:
        """Put settings in force as the revision that follows `after`; StoreError where another one came first."""
        found = await self._line.row(statements.APPLY_SETTINGS, after, by, json.dumps(document, sort_keys=True))
        if found is None:
            raise StoreError("the settings of the fleet were changed meanwhile: look at the difference again")
        return Revision(found["revision"], found["at"], by, document)
