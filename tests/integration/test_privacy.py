"""Files, sockets and passwords: nobody else reads, serves or is shown them."""

import os
import socket
import sqlite3
import stat
from pathlib import Path

import pytest

from crawld.cli import remote
from crawld.main.settings import load
from crawld.model.errors import ConfigError, StoreError
from crawld.model.url import without_password
from crawld.show.api.access import make_token, read_token
from crawld.show.api.app import unix_socket
from crawld.store.address import parse_address
from crawld.store.store import SqlStore
from tests.support.process import command, daemon, settings
from tests.support.site import Site

NOBODY = 65534


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:s3cret@host/x",
        "postgresql:/me:s3cret@host/x",
        "postgresql//me:s3cret@host/x",
        "postgresql://me:s3/c@r:3cret@host:port/x",
        "postgres:me:s3cret@host",
        "nonsense://me:s3cret@",
        "postgresql:///x?user=me&password=s3cret",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    """However badly the URL of a database is written, what is said of it has no password in it."""
    said = [without_password(url)]
    for read in (lambda: load(None, {"database": url}), lambda: parse_address(url), lambda: SqlStore(url)):
        try:
            said.append(repr(getattr(read(), "shown", "")))
        except (ConfigError, StoreError) as error:
            said.append(f"{error!r} {error}")
    assert not [text for text in said if "cret" in text]


async def test_no_command_shows_a_password(tmp_path: Path) -> None:
    """Neither that of a URL that is refused, nor that of a database that does not answer."""
    said = ""
    for words, url in (
        (["check-config", "/dev/null"], "mysql://me:s3cret@host/x"),
        (["check-config", "/dev/null"], "postgresql://me:s3cret@127.0.0.1:1/x"),
        (["stats"], "postgresql://127.0.0.1:1/x?user=me&password=s3cret"),
    ):
        ended = await command(*words, cwd=tmp_path, env={"CRAWLD_DATABASE": url})
        said += ended.out + ended.err
    assert "***" in said
    assert "cret" not in said


def test_what_is_no_password_is_shown() -> None:
    """A reader still knows which database it is."""
    assert without_password("postgresql://me:pw@db.example:5432/x") == "postgresql://me:***@db.example:5432/x"
    assert without_password("sqlite:////var/lib/crawld/crawld.db") == "sqlite:////var/lib/crawld/crawld.db"


async def test_every_file_beside_the_database_is_ours_alone(tmp_path: Path) -> None:
    """Made by a daemon under a loose umask, database, log, lock, token and socket have mode 600."""
    old = os.umask(0o000)
    try:
        async with Site() as site:
            file = settings(tmp_path, [site.url("/ok/1")], api={"listen": "127.0.0.1:0"})
            async with daemon("--config", str(file), cwd=tmp_path) as running:
                await running.until_logged("verdict=new")
                modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("x.db*")}
    finally:
        os.umask(old)
    assert set(modes) == {"x.db", "x.db-wal", "x.db-shm", "x.db.lock", "x.db.token", "x.db.sock"}
    assert set(modes.values()) == {0o600}


async def test_an_older_database_is_closed_to_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A start takes from others the right to read, and says so."""
    file = tmp_path / "crawld.db"
    sqlite3.connect(file).close()
    file.chmod(0o644)
    caplog.set_level("INFO")
    store = SqlStore(f"sqlite:///{file}")
    await store.start()
    await store.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "others could read it" in caplog.text


@pytest.mark.parametrize("kind", ["file", "link", "foreign"])
def test_a_socket_that_is_not_ours_is_left_alone(tmp_path: Path, kind: str) -> None:
    """In a shared folder somebody may have been first: that is said, and nothing of theirs is removed."""
    path = tmp_path / "x.sock"
    if kind == "file":
        path.write_text("a letter")
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can make a file of somebody else's")
        unix_socket(path).close()
        os.lchown(path, NOBODY, NOBODY)
    with pytest.raises(StoreError, match="not a socket of this user"):
        unix_socket(path)
    assert path.is_symlink() or path.exists()


def test_a_socket_left_behind_is_replaced(tmp_path: Path) -> None:
    """Our own of an earlier run, which nobody serves any more."""
    unix_socket(tmp_path / "x.sock").close()
    unix_socket(tmp_path / "x.sock").close()


def test_a_command_does_not_talk_to_somebody_elses_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who serves is asked of the kernel before a word is sent."""
    place = tmp_path / "x.sock"
    monkeypatch.setattr(remote, "trusted_users", lambda _: {NOBODY})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        with pytest.raises(remote.ForeignSocketError, match=f"is served by user {os.getuid()}"):
            remote.ask_at(place, "GET", "/status")
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(100) == b""


def test_a_token_file_that_cannot_be_trusted_is_refused(tmp_path: Path) -> None:
    """One that is empty, too short or a link; one of ours that others may read is closed to them."""
    file = tmp_path / "token"
    for text in ("", "short", "with spaces in the middle"):
        file.write_text(text)
        with pytest.raises(StoreError, match="holds no token"):
            make_token(file)
    file.unlink()
    token = make_token(file)
    file.chmod(0o644)
    assert read_token(file) == token == make_token(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    link = tmp_path / "link"
    link.symlink_to(file)
    with pytest.raises(StoreError, match="cannot be used"):
        read_token(link)
