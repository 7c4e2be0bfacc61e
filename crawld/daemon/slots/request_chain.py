"""What one visit, poll or robots.txt fetch needs beyond its first request, and whom that is charged to."""

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum

from crawld.model.fetched import Validators

CREDIT_PER_CHAIN = 1.25
"""Further requests that each first request entitles a site to: a redirect every time, and now and then a robots.txt."""
MOST_CREDIT = 4.0
"""Further requests that a site may save up: two redirects to hosts with a robots.txt each."""
FIRST_CREDIT = 2.0
"""What a site has before its first request: a redirect to a host with a robots.txt."""
MOST_PAYERS = 50_000
"""Sites whose credit is remembered; the one longest unused is forgotten, which gives it its first credit again."""


class Cause(StrEnum):
    """Why a further request may not be sent."""

    HOST = "its host may not be asked now"
    SHARE = "its site has used up its share of further requests"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A further request that is not waited for; `at` is when to try again, inf where nobody can say."""

    cause: Cause
    at: float


@dataclass(slots=True)
class RequestChain:
    """One visit, poll or robots.txt fetch under way.

    `payer` is the host that it is charged to: that of the page, not of its redirects. `reserved` is the host that it
    has a turn at, because it was refused there before. `in_slot` says whether it began with a slot of the crawler's,
    `further` whether it is part of another chain. `validators` go to the address that they are of, wherever redirects
    lead through it; redirects to `known` are not followed. `moved_to` is where permanent redirects alone have led.
    `bare` is whether it has left its origin: no credentials go along from there on.
    """

    payer: str
    reserved: str | None = None
    in_slot: bool = True
    further: bool = False
    requests: int = 0
    refusal: Refusal | None = None
    validators: Validators | None = None
    known: str | None = None
    moved_to: str | None = None
    bare: bool = False


class Credits:
    """How many further requests each payer may send before other pages; who is not listed has its first credit."""

    def __init__(self) -> None:
        self._balance: OrderedDict[str, float] = OrderedDict()

    def earn(self, payer: str) -> None:
        """The payer has sent a first request."""
        balance = self._balance.get(payer)
        if balance is not None:
            self._balance[payer] = min(balance + CREDIT_PER_CHAIN, MOST_CREDIT)
            self._balance.move_to_end(payer)

    def spend(self, payer: str) -> bool:
        """Pay for a further request; False where the credit does not suffice."""
        balance = self._balance.get(payer, FIRST_CREDIT)
        if balance < 1.0:
            return False
        self._balance[payer] = balance - 1.0
        self._balance.move_to_end(payer)
        if len(self._balance) > MOST_PAYERS:
            self._balance.popitem(last=False)
        return True

    def refund(self, payer: str) -> None:
        """A further request that was paid for is not sent."""
        balance = self._balance.get(payer)
        if balance is not None:
            self._balance[payer] = min(balance + 1.0, MOST_CREDIT)


def site_of(host: str) -> str:
    """What a host has in common with its `www.` namesake: redirects between the two are within one site."""
    return host.removeprefix("www.")
