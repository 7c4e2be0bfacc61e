"""What is sent for a page and what identifies it are two things: adds pages.identity, and brings old URLs up to date.

Release 0.1.0 stored one respelling for both. A row whose URL is spelt as its target, and is its own identity, stays as
it is; nearly all are.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from crawld.model.errors import InputError
from crawld.model.url import host_of, identity, normalise

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

AT_ONCE, ASKED_AT_ONCE = 10_000, 500
NOT_NULL = sa.text("identity IS NOT NULL")

pages = sa.table(
    "pages", *map(sa.column, ("id", "url", "identity", "host_id", "state", "retired_at", "added_at", "last_attempt"))
)
hosts = sa.table("hosts", sa.column("id"), sa.column("name"))
settings = sa.table("settings", sa.column("name"))

_THE_PAGE = pages.c.id == sa.bindparam("b_id", type_=sa.BigInteger)
RESPELL = sa.update(pages).where(_THE_PAGE).values(
    url=sa.bindparam("b_url", type_=sa.Text), identity=sa.bindparam("b_identity", type_=sa.Text)
)  # fmt: skip
RETIRE = sa.update(pages).where(_THE_PAGE).values(
    state="retired", retired_at=sa.func.coalesce(pages.c.retired_at, pages.c.last_attempt, pages.c.added_at)
)  # fmt: skip


def upgrade() -> None:
    op.add_column("pages", sa.Column("identity", sa.Text(), nullable=True))
    op.create_index(
        "ix_pages_identity", "pages", ["identity"], unique=True, sqlite_where=NOT_NULL, postgresql_where=NOT_NULL
    )
    connection = op.get_bind()
    for rows in _slices(connection):
        _bring_up(connection, rows)
    # The list of before was stored respelt: it is taken over once more, as it was written.
    connection.execute(sa.delete(settings).where(settings.c.name == "list taken over"))


def downgrade() -> None:
    op.drop_index("ix_pages_identity", "pages")
    op.drop_column("pages", "identity")


def _slices(connection: sa.Connection) -> Iterator[Sequence[Any]]:
    last = 0
    query = sa.select(pages.c.id, pages.c.url).where(pages.c.id > sa.bindparam("last", type_=sa.BigInteger))
    while rows := connection.execute(query.order_by(pages.c.id).limit(AT_ONCE), {"last": last}).all():
        last = rows[-1].id
        yield rows


def _bring_up(connection: sa.Connection, rows: Sequence[Any]) -> None:
    """Store targets and identities; retire pages without a target, and those whose identity another page has."""
    changed: dict[str, dict[str, Any]] = {}  # by identity
    retired: list[int] = []
    hosts_before: dict[int, str] = {}
    for page_id, url in rows:
        try:
            target = normalise(url)
        except InputError:
            retired.append(page_id)
            continue
        name = identity(target)
        if name == url:
            continue
        if name in changed:
            retired.append(page_id)
            continue
        changed[name] = {"b_id": page_id, "b_url": target, "b_identity": None if name == target else name}
        hosts_before[page_id] = url.split("/", 3)[2]
    retired += [changed.pop(name)["b_id"] for name in _taken(connection, changed)]
    if retired:
        connection.execute(RETIRE, [{"b_id": page_id} for page_id in retired])
    if changed:
        connection.execute(RESPELL, list(changed.values()))
    for page in changed.values():
        if (host := host_of(page["b_url"])) != hosts_before[page["b_id"]]:
            moved = sa.update(pages).where(pages.c.id == page["b_id"])
            connection.execute(moved.values(host_id=_host_id(connection, host)))


def _taken(connection: sa.Connection, changed: dict[str, dict[str, Any]]) -> set[str]:
    """The identities, of those to be given, that another page has or whose target is another page's URL."""
    wanted = {page["b_url"]: name for name, page in changed.items()} | {name: name for name in changed}
    texts, taken = list(wanted), set()
    for start in range(0, len(texts), ASKED_AT_ONCE):
        some = texts[start : start + ASKED_AT_ONCE]
        known = sa.select(pages.c.id, pages.c.url, pages.c.identity)
        for row in connection.execute(known.where(sa.or_(pages.c.url.in_(some), pages.c.identity.in_(some)))):
            names = {wanted[text] for text in (row.url, row.identity) if text in wanted}
            taken |= {name for name in names if changed[name]["b_id"] != row.id}
    return taken


def _host_id(connection: sa.Connection, name: str) -> int:
    found = connection.scalar(sa.select(hosts.c.id).where(hosts.c.name == name))
    if found is not None:
        return int(found)
    new = int(connection.scalar(sa.select(sa.func.coalesce(sa.func.max(hosts.c.id), 0) + 1)) or 1)
    connection.execute(sa.insert(hosts).values(id=new, name=name))
    return new
