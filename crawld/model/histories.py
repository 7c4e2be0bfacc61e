"""What crawls of pages have found, as columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Histories:
    """The observations of several pages, ragged: page i owns rows offsets[i]:offsets[i+1], oldest first.

    Each row is one successful crawl after the first: the time and the signals (by source) since the one before,
    and whether the content had changed.
    """

    page_ids: Ints
    offsets: Ints
    at: Floats
    tau: Floats
    signals: Ints  # (rows, sources)
    changed: NDArray[np.bool_]
    hosts: Sequence[str]
    first_success: Floats  # by page: when watching began, for γ
    signal_counts: Ints  # (pages, sources): all counted signals since then
