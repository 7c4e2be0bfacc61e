"""Importance learnt from requests: Gamma-Poisson, with the list's weight as prior (docs/method.md, "Importance")."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DAY = 86400.0
PRIOR_DAYS = 1.0
"""How many days of requests the list's weight is worth."""
HALF_LIFE_DAYS = 7.0
"""After so many days a request, and the day it came in, count half."""
MOVED = 0.1
"""How far, relatively, importance has to move before pages are weighed anew."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Requests seen of each page and the days they were watched for, both faded with age, as columns."""

    requests: Floats
    days: Floats


def fade(evidence: Evidence, seconds: Floats) -> Evidence:
    """The same evidence so much older, with nobody watching meanwhile."""
    left = np.exp2(-seconds / DAY / HALF_LIFE_DAYS)
    return Evidence(evidence.requests * left, evidence.days * left)


def watch(evidence: Evidence, seconds: Floats, requests: Floats) -> Evidence:
    """The evidence after further seconds in which so many requests came; the days themselves fade as they pass."""
    old = fade(evidence, seconds)
    spread = HALF_LIFE_DAYS / np.log(2)
    return Evidence(old.requests + requests, old.days - spread * np.expm1(-seconds / DAY / spread))


def posterior_mean(weight: Floats, evidence: Evidence) -> Floats:
    """Requests a day to be expected of each page; its list's weight before anything was seen."""
    return np.asarray((weight * PRIOR_DAYS + evidence.requests) / (PRIOR_DAYS + evidence.days), dtype=np.float64)


def moved(old: Floats, new: Floats) -> Bools:
    """Where importance has moved far enough to weigh the page anew."""
    return np.asarray(np.abs(new - old) > MOVED * old, dtype=np.bool_)
