"""Contracts between drivers and doors, so that neither knows the other."""

from crawld.interfaces.control import Control, Copies, Copy, Gone, Inbox, Reload, Steered
from crawld.interfaces.signals import Delivery, Discoveries, Hubs, Pings, PollResult, SignalSources, Slices, at_once
from crawld.interfaces.store import (
    Adoption,
    Floats,
    FreshnessPoint,
    Histories,
    Ints,
    Poll,
    Record,
    SourceFile,
    Store,
    StoredDemand,
    StoredPages,
)
from crawld.interfaces.web import Allowed, Clock, Disallowed, Fetcher, NeedsFetch, Robots, RobotsFailure
from crawld.interfaces.workers import Workers

__all__ = [
    "Adoption",
    "Allowed",
    "Clock",
    "Control",
    "Copies",
    "Copy",
    "Delivery",
    "Disallowed",
    "Discoveries",
    "Fetcher",
    "Floats",
    "FreshnessPoint",
    "Gone",
    "Histories",
    "Hubs",
    "Inbox",
    "Ints",
    "NeedsFetch",
    "Pings",
    "Poll",
    "PollResult",
    "Record",
    "Reload",
    "Robots",
    "RobotsFailure",
    "SignalSources",
    "Slices",
    "SourceFile",
    "Steered",
    "Store",
    "StoredDemand",
    "StoredPages",
    "Workers",
    "at_once",
]
