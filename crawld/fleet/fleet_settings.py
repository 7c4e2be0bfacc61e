"""One truth of settings in a fleet: what workers share is the database's, what is a machine's own is its file's."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from crawld.fleet.store.shared_settings import Revision, SharedSettings
from crawld.main.settings import Settings, changes
from crawld.model.errors import ConfigError, StoreError

log = logging.getLogger("crawld.fleet")

OWN = frozenset(
    {"bandwidth", "urls", "database", "user_agent", "credentials", "signing", "allow_private", "reading", "api", "log"}
)
"""Settings of one machine or process, and secrets; the rate is steered, the list is taken over by what it says."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings that a worker goes by, and of which revision of the fleet's they are; 0: there is none yet."""

    settings: Settings
    revision: int


def shared_document(settings: Settings) -> dict[str, Any]:
    """What all workers of a fleet go by, as it is stored."""
    return settings.model_dump(mode="json", exclude=set(OWN))


def with_shared(own: Settings, document: Mapping[str, Any]) -> Settings:
    """A machine's own settings together with those of its fleet; ConfigError where they cannot be used."""
    given = own.model_dump(mode="json", include=set(OWN)) | dict(document)
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
        raise ConfigError(f"settings of the fleet that this version of crawld cannot use: {places}") from None


def tell_difference(own: Settings, fleets: Settings, revision: int) -> list[str]:
    """Log which settings of this machine's file do not hold, because the fleet has others; their names."""
    if differing := list(changes(own, fleets)):
        log.warning(
            "the settings of this machine differ from the fleet's, which hold; `crawld fleet apply` changes them",
            extra={"settings": ", ".join(differing), "revision": revision},
        )
    return differing


def take_settings(own: Settings, worker: str) -> InForce:
    """What a worker that starts goes by: the fleet's settings, or its own where it is the first."""
    return asyncio.run(_take(own, worker))


async def _take(own: Settings, worker: str) -> InForce:
    async with SharedSettings(own.database) as shared:
        found = await shared.read()
        if found is None:
            found = await _first(shared, own, worker)
    if found is None:
        return InForce(own, 0)
    fleets = with_shared(own, found.document)
    tell_difference(own, fleets, found.number)
    return InForce(fleets, found.number)


async def _first(shared: SharedSettings, own: Settings, worker: str) -> Revision | None:
    """Make this worker's settings the fleet's; those of another where it was faster."""
    try:
        made = await shared.apply(shared_document(own), worker, after=0)
    except StoreError:
        return await shared.read()
    log.info("the settings of this worker are the fleet's from now on", extra={"revision": made.number})
    return made
