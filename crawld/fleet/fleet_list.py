"""The URL list of a fleet: one content for all machines, whichever worker reads it.

The database knows what the list says that is in force. A file is taken over where it says the same, or where it was the
fleet's list until it was edited here; an older copy on another machine changes nothing.
"""

import hashlib
import logging

from crawld.pages.list_file import ListFile

log = logging.getLogger("crawld.fleet")

FLEET_LIST = "list of the fleet"
"""The setting that holds the digest of the list in force, from before it is taken over."""


def list_digest(body: bytes) -> str:
    """What tells one list from another, in every version."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


class FleetList(ListFile):
    """Takes over only what is the fleet's list, or an edit of it on this machine."""

    _known: str | None = None
    """The digest of this machine's file when it was last the fleet's."""

    async def _accepts(self, source: str, body: bytes) -> bool:
        digest, fleets = list_digest(body), await self._store.setting(FLEET_LIST)
        if fleets not in {None, digest, self._known}:
            what = "is not the list that the fleet goes by: `crawld fleet apply --config FILE` makes it that"
            self._status.list_held_back = f"the URL list {source} of this machine {what}"
            log.warning("the URL list of this machine is not taken over", extra={"reason": self._status.list_held_back})
            return False
        if digest != fleets:
            await self._store.change_setting(FLEET_LIST, digest, now=self._clock.now())
        self._known, self._status.list_held_back = digest, None
        return True
