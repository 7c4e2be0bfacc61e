"""Users of the daemon's files: its own user, and a group where their directory is shared with one."""

import grp
import os
import pwd
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawld.model.errors import AccessError


def shared_with_group(directory: Path) -> bool:
    """Tells whether a directory is shared with its group: the setgid bit says so, and gives new files that group."""
    mode = directory.stat().st_mode
    return bool(mode & stat.S_ISGID and mode & stat.S_IXGRP)


@contextmanager
def socket_path(path: Path) -> Iterator[str]:
    """A path that a Unix socket can be bound to and reached by: one of over 107 bytes goes by its folder (Linux)."""
    if len(os.fsencode(path)) <= 107 or not hasattr(os, "O_PATH"):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def access_refused(path: Path) -> AccessError:
    """Returns the error for a path that this user may not use: who may, and how to become one of them."""
    closed = _first_closed(path.absolute())
    about = closed.lstat()
    owner, group = _user(about.st_uid), _group(about.st_gid)
    program = _program()
    ways = [f"sudo -u {owner} {program} …" if about.st_uid else f"sudo {program} …"]
    who = f"its owner {owner}"
    enterable = closed.is_dir() and os.access(closed, os.X_OK)  # what is refused is to make a file there
    if about.st_gid and about.st_mode & (stat.S_IWGRP if enterable else stat.S_IRGRP | stat.S_IXGRP):
        who += f" and members of the group {group}"
        ways.append(f"sudo usermod -aG {group} {_user(os.geteuid())} and log in again")
    return AccessError(f"{path}: only {who} may use it, and you are {_user(os.geteuid())}: {', or '.join(ways)}")


def _first_closed(path: Path) -> Path:
    """The first directory on the way that may not be entered, or the path itself."""
    for directory in reversed(path.parents):
        if not os.access(directory, os.X_OK):
            return directory
    return path if os.path.lexists(path) else path.parent  # which does not let it be made


def _program() -> str:
    """Returns what sudo finds this program by: its path where it is in none of the usual directories."""
    started = Path(sys.argv[0])
    usual = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
    return str(started.absolute()) if started.name == "crawld" and str(started.parent) not in usual else "crawld"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a user that a service manager made for the moment
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
