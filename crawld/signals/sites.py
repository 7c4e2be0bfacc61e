"""Which hosts belong together."""


def site_of(host: str) -> str:
    """The name two hosts share that may speak for each other: with or without `www.`, on any port."""
    name = host if host.startswith("[") else host.partition(":")[0]
    return name.removeprefix("www.")
