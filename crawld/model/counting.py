"""Counted things in words: `1 page`, `3 pages`."""


def many(count: int, what: str, plural: str | None = None) -> str:
    """So many of something, with the plural where it is not one; the plural adds an s unless it is given."""
    return f"{count} {what if count == 1 else plural or f'{what}s'}"


def in_a_row(count: int) -> str:
    """`once`, `3 times in a row`."""
    return "once" if count == 1 else f"{count} times in a row"
