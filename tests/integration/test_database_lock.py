"""One daemon a database, whatever name it goes by, and a lock that harms no other file."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawld.model.errors import StoreError
from crawld.store.store import SqlStore


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Path]:
    """A database that a store holds."""
    store = SqlStore(f"sqlite:///{tmp_path}/held.db")
    await store.start()
    yield tmp_path / "held.db"
    await store.close()


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
async def test_a_link_is_no_second_way_in(database: Path, tmp_path: Path, make: object) -> None:
    """A database that is in use is refused under every other name, with the process that holds it where it is known."""
    other = tmp_path / "folder"
    other.mkdir()
    link = other / "other.db"
    make(link, database)  # type: ignore[operator]  # both are methods that take the target
    with pytest.raises(StoreError, match="is in use by another crawld"):
        await SqlStore(f"sqlite:///{link}").start()


async def test_a_link_to_nothing_is_followed(tmp_path: Path) -> None:
    """A link to a database that is yet to be made leads to the same lock as the place itself."""
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real.db")
    store = SqlStore(f"sqlite:///{link}")
    await store.start()
    try:
        with pytest.raises(StoreError, match=rf"in use by another crawld \(process {os.getpid()}\)"):
            await SqlStore(f"sqlite:///{tmp_path}/real.db").start()
    finally:
        await store.close()


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
async def test_a_lock_that_is_a_link_empties_nothing(tmp_path: Path, make: object) -> None:
    """A FILE.lock that leads to another file is refused, and that file keeps its content and mode."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o644)
    make(tmp_path / "x.db.lock", victim)  # type: ignore[operator]  # both are methods that take the target
    with pytest.raises(StoreError, match=r"x\.db\.lock .*remove it"):
        await SqlStore(f"sqlite:///{tmp_path}/x.db").start()
    assert victim.read_text() == "precious"
    assert victim.stat().st_mode & 0o777 == 0o644


async def test_a_lock_that_is_a_pipe_does_not_stop_the_start(tmp_path: Path) -> None:
    """A FILE.lock that is no plain file is refused at once."""
    os.mkfifo(tmp_path / "x.db.lock")
    with pytest.raises(StoreError, match="not a regular file"):
        await SqlStore(f"sqlite:///{tmp_path}/x.db").start()
