"""Sitemaps and feeds made to cost their reader much: small to send, dear to read."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime

URLSET = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
MEGABYTE = 2**20
MOST = 49 * MEGABYTE  # a file that stays below the limit of its unpacked bytes


def honest_sitemap(entries: int = 50_000, alternates: int = 2, images: int = 1) -> bytes:
    """A large, honest sitemap with pictures and languages."""
    rows = []
    for i in range(entries):
        day = datetime.fromtimestamp(1_700_000_000 + 977 * i, UTC).isoformat()
        links = "".join(
            f'<xhtml:link rel="alternate" hreflang="l{k}" href="https://a.org/l{k}/shop/article-{i}.html"/>'
            for k in range(alternates)
        )
        pictures = "".join(
            f"<image:image><image:loc>https://a.org/images/{i}-{k}.jpg</image:loc></image:image>" for k in range(images)
        )
        loc = f"<loc>https://a.org/shop/article-{i}.html</loc>"
        rows.append(f"<url>{loc}<lastmod>{day}</lastmod>{links}{pictures}</url>\n")
    head = (
        '<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
        'xmlns:xhtml="http://www.w3.org/1999/xhtml" '
        'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">'
    )
    return (head + "".join(rows) + "</urlset>").encode()


def entry(i: int, inside: str = "") -> str:
    """One honest entry."""
    return f"<url><loc>https://a.org/{i}</loc>{inside}</url>"


def repeated(piece: str | bytes, size: int = MOST) -> bytes:
    """The piece, over and over."""
    data = piece.encode() if isinstance(piece, str) else piece
    return data * (size // len(data))


def wrapped(inside: bytes, head: str = URLSET, tail: str = "</urlset>") -> bytes:
    """A document around what is inside."""
    return head.encode() + inside + tail.encode()


def idn_hosts() -> bytes:
    """50,000 addresses, each of a host of its own whose letters carry accents that must be sorted."""
    accents = "\u0301\u0323" * 100
    return wrapped("".join(f"<url><loc>https://a{i}{accents}.example/</loc></url>" for i in range(50_000)).encode())


def long_hosts() -> bytes:
    """Hosts of thousands of letters that no name can have."""
    name = "a" + "\u0301\u0323" * 3_500
    return wrapped("".join(f"<url><loc>https://{i}{name}/</loc></url>" for i in range(3_000)).encode())


def many_names() -> bytes:
    """Every element has a name of its own."""
    rows = (f"<e{i}x/>" + (entry(i) if i % 5_000 == 0 else "") for i in range(3_000_000))
    return wrapped("".join(rows).encode())


def many_namespaces() -> bytes:
    """Thousands of namespaces in scope, and elements in each."""
    declared = " ".join(f'xmlns:n{i}="urn:{i}"' for i in range(9_000))
    inside = "".join(f"<url><loc>https://a.org/{i}</loc><n{i % 9_000}:x/></url>" for i in range(100_000))
    return wrapped(inside.encode(), f"<urlset {declared}>")


def base_chains() -> bytes:
    """Relative addresses below chains of `xml:base`."""
    folder = "/".join("abcdefgh" for _ in range(50))
    outer = "".join(f'<d xml:base="{folder}/../{i}/">' for i in range(100))
    rows = "".join(f'<url xml:base="{folder}/{i}/"><loc xml:base="../{folder}/">{i}</loc></url>' for i in range(50_000))
    return wrapped(f'<urlset xml:base="/{folder}/">{rows}{outer}'.encode(), "", "")


def links_in_items() -> bytes:
    """One item that holds links for ever."""
    return wrapped(repeated("<link/>"), "<rss><channel><item>", "</item></channel></rss>")


def nested_items() -> bytes:
    """Items in an item, which holds them all."""
    return wrapped(repeated("<item/>"), "<rss><channel><item>", "</item></channel></rss>")


def dates_in_items() -> bytes:
    """Items with dates that take long to refuse."""
    tags = ("updated", "modified", "pubDate", "published", "issued", "date", "created")
    date = "aaa 1 " * 20
    rows = "".join(
        f"<item><link>/{i}</link>{''.join(f'<{tag}>{i} {date}</{tag}>' for tag in tags)}</item>" for i in range(45_000)
    )
    return wrapped(rows.encode(), "<rss><channel>", "</channel></rss>")


def dates_in_urls() -> bytes:
    """Entries with hundreds of lastmods that say nothing."""
    many = "".join(f"<lastmod>{'aaa 1 ' * 4}{k}</lastmod>" for k in range(200))
    return wrapped("".join(entry(i, many) for i in range(4_800)).encode())


def garbage_links() -> bytes:
    """Alternates that are no addresses, each another."""
    links = "".join(f'<link href="https://[{k}/"/>' for k in range(3_000))
    return wrapped(repeated(entry(1, links), 40 * MEGABYTE))


def different_links() -> bytes:
    """Alternates that are addresses, each another, each spelt awkwardly."""
    rows = []
    for i in range(150):
        links = "".join(f'<link href="HTTPS://A.org/ä {i} {k}"/>' for k in range(4_000))
        rows.append(entry(i, links))
    return wrapped("".join(rows).encode())


def growing_addresses() -> bytes:
    """Addresses that grow threefold when they are encoded."""
    return wrapped("".join(f"<url><loc>https://a.org/{i}{'é' * 480}</loc></url>" for i in range(48_000)).encode())


def empty_members() -> bytes:
    """Gzip members that unpack to nothing."""
    return repeated(gzip.compress(b""), 1 * MEGABYTE)


def padding_after_a_member() -> bytes:
    """A small gzip member and megabytes of zeros behind it."""
    return gzip.compress(wrapped(entry(1).encode())) + bytes(40 * MEGABYTE)


def padding_in_the_second_layer() -> bytes:
    """A gzip file in a gzip file, with padding behind it that unpacks to many times what a file may have."""
    inner = gzip.compress(wrapped(entry(1).encode()))
    return gzip.compress(inner + bytes(200 * MEGABYTE))


def xml_flood(piece: str) -> Callable[[], bytes]:
    """A file of one piece over and over, within its root element, packed."""
    return lambda: gzip.compress(wrapped(repeated(piece)), 6)


def entry_flood(piece: str, times: int) -> Callable[[], bytes]:
    """Entries that each hold the piece so many times, packed."""
    return lambda: gzip.compress(wrapped(repeated(entry(1, piece * times))), 6)


def broken_flood(piece: str, times: int) -> Callable[[], bytes]:
    """The same, but not well-formed at its end."""
    return lambda: gzip.compress(wrapped(repeated(entry(1, piece * times))) + b"</x>", 6)


def attributes_in_a_tag() -> bytes:
    """Tags of thousands of attributes."""
    attributes = " ".join(f"a{k}=''" for k in range(9_000))
    return gzip.compress(wrapped(repeated(entry(1, f"<x {attributes}/>"))))


def broken_attributes() -> bytes:
    """The same attribute thousands of times in a tag, which is a fault that readers mend."""
    attributes = "a='' " * 9_000
    return gzip.compress(wrapped(repeated(entry(1, f"<x {attributes}/>"), 20 * MEGABYTE)))


def json_of(piece: str) -> Callable[[], bytes]:
    """A JSON Feed of megabytes of small values."""
    return lambda: b'{"items": [' + repeated(piece, 3_900_000) + b"0]}"


def json_wide() -> bytes:
    """A JSON Feed of the widest characters."""
    return json.dumps({"items": ["😀" * 3_900_000]}, ensure_ascii=False).encode()


def siblings_of_parents() -> bytes:
    """Entries whose parents pile up beside them."""
    row = f"<x>{'<a/>' * 9_000}{entry(1)}</x>"
    return gzip.compress(wrapped(repeated(row)))


def text_of(line: str) -> Callable[[], bytes]:
    """A plain text list of one good line and a flood of others."""
    return lambda: gzip.compress(b"https://a.org/1\n" + repeated(line))


HOSTILE: dict[str, Callable[[], bytes]] = {
    "idn hosts": idn_hosts,
    "long hosts": long_hosts,
    "many names": many_names,
    "many namespaces": many_namespaces,
    "base chains": base_chains,
    "links in one item": links_in_items,
    "items in one item": nested_items,
    "dates in items": dates_in_items,
    "dates in urls": dates_in_urls,
    "garbage alternates": garbage_links,
    "different alternates": different_links,
    "growing addresses": growing_addresses,
    "empty gzip members": empty_members,
    "padding after a member": padding_after_a_member,
    "padding in the second layer": padding_in_the_second_layer,
    "comments": xml_flood("<!---->"),
    "comments in entries": entry_flood("<!---->", 900),
    "blanks": xml_flood(" "),
    "processing instructions": entry_flood("<?a?>", 900),
    "cdata": entry_flood("<title><![CDATA[]]></title>", 400),
    "pictures": entry_flood("<image><loc>x</loc></image>", 900),
    "small entries": xml_flood("<url/>"),
    "broken ampersands": broken_flood("&", 90_000),
    "broken entries": broken_flood("<a/>", 900),
    "broken pictures": broken_flood("<image><loc>x</loc></image>", 5),
    "control characters": broken_flood("a\x01", 90_000),
    "deep nesting": lambda: gzip.compress(wrapped(repeated("<a>"))),
    "attributes in a tag": attributes_in_a_tag,
    "one attribute often": broken_attributes,
    "huge attribute": lambda: gzip.compress(wrapped(entry(1, f'<x a="{"y" * 48_000_000}"/>').encode())),
    "doctype without end": lambda: gzip.compress(b"<!DOCTYPE urlset [" + repeated('<!ENTITY a "b">')),
    "many doctypes": lambda: repeated("<!DOCTYPE a>", MEGABYTE) + wrapped(entry(1).encode()),
    "json of lists": json_of("[],"),
    "json of objects": json_of('{"":0},'),
    "json of strings": json_of('"äb",'),
    "json of wide characters": json_wide,
    "blank lines": text_of("\n"),
    "garbage lines": text_of("x\n"),
    "garbage addresses": text_of("https://[\n"),
    "siblings of parents": siblings_of_parents,
    "urls in utf-16": lambda: gzip.compress(wrapped(repeated("<url/>", MOST // 2)).decode().encode("utf-16")),
}
