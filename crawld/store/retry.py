"""Trying again where the trouble may pass, and saying it in a sentence where it does not."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError

from crawld.store.engine import in_a_sentence, is_passing

log = logging.getLogger(__name__)

T = TypeVar("T")
LONGEST_RETRY_SECONDS = 60.0
SLOWEST_RETRY_SECONDS = 5.0


async def keep_trying(attempt: Callable[[], Awaitable[T]], shown: str) -> T:
    """What the attempt returns in the end; StoreError where it cannot succeed or took too long.

    An attempt is one transaction or only reads, so nothing of a failed one is left.
    """
    waited, delay = 0.0, 0.05
    while True:
        try:
            return await attempt()
        except (SQLAlchemyError, OSError) as error:
            if not is_passing(error) or waited >= LONGEST_RETRY_SECONDS:
                raise in_a_sentence(error, shown) from error
            log.warning("the store does not answer, retrying: %s", getattr(error, "orig", None) or error)
        await asyncio.sleep(delay)
        waited, delay = waited + delay, min(2 * delay, SLOWEST_RETRY_SECONDS)
