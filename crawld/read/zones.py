"""Time zones by the abbreviations that dates in feeds and headers carry.

Where several zones share an abbreviation, RFC 822 decides (CST, EST, MST, PST are American), else the one most feeds
mean: BST is British, IST Indian, AST Atlantic. What means different things equally often (AMT, SST, WST) is left out.
"""

from datetime import UTC, timedelta, timezone

EARLIEST, LATEST = timedelta(hours=-12), timedelta(hours=14)
"""Between these lie all zones of the world."""

_HOURS = {
    "UT": 0, "UTC": 0, "GMT": 0, "Z": 0, "WET": 0,
    "WEST": 1, "CET": 1, "MEZ": 1, "MET": 1, "BST": 1, "WAT": 1,
    "CEST": 2, "MESZ": 2, "MEST": 2, "EET": 2, "CAT": 2, "SAST": 2,
    "EEST": 3, "IDT": 3, "MSK": 3, "EAT": 3, "TRT": 3, "FET": 3,
    "IRST": 3.5, "MSD": 4, "GST": 4, "SAMT": 4, "GET": 4, "AZT": 4, "IRDT": 4.5, "AFT": 4.5,
    "PKT": 5, "UZT": 5, "YEKT": 5, "IST": 5.5, "NPT": 5.75, "OMST": 6, "MMT": 6.5,
    "ICT": 7, "WIB": 7, "NOVT": 7, "KRAT": 7,
    "HKT": 8, "SGT": 8, "MYT": 8, "PHT": 8, "AWST": 8, "WITA": 8, "IRKT": 8, "ULAT": 8,
    "JST": 9, "KST": 9, "WIT": 9, "YAKT": 9, "ACST": 9.5,
    "AEST": 10, "CHST": 10, "VLAT": 10, "ACDT": 10.5, "AEDT": 11, "MAGT": 11,
    "NZST": 12, "PETT": 12, "FJT": 12, "NZDT": 13,
    "CVT": -1, "NDT": -2.5, "BRT": -3, "ART": -3, "UYT": -3, "CLST": -3, "ADT": -3, "NST": -3.5,
    "AST": -4, "EDT": -4, "CLT": -4, "BOT": -4, "VET": -4,
    "EST": -5, "CDT": -5, "COT": -5, "PET": -5,
    "CST": -6, "MDT": -6, "MST": -7, "PDT": -7, "PST": -8, "AKDT": -8, "AKST": -9, "HDT": -9, "HST": -10,
}  # fmt: skip


def named_zone(name: str) -> timezone | None:
    """The zone of an abbreviation, in any case; None where it says nothing.

    A single letter is UTC: RFC 822 had the signs of the military zones wrong, so nobody means them (RFC 5322, 4.3).
    """
    if len(name) == 1:
        return UTC if name.isascii() and name.isalpha() else None
    hours = _HOURS.get(name.upper())
    return None if hours is None else timezone(timedelta(hours=hours))
