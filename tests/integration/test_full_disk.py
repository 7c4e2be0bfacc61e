"""A start on a full disk: a sentence that names the file and what to do, never a traceback."""

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.process import ENVIRONMENT


def start(folder: Path, database: Path, prepare: Callable[[], None] | None = None) -> tuple[int, str]:
    """Status and words of a daemon that is told to start."""
    (folder / "urls.txt").write_text("http://127.0.0.1:9/a\n")
    done = subprocess.run(
        [sys.executable, "-m", "crawld", "run", "--urls", "urls.txt", "--database", f"sqlite:///{database}"],
        cwd=folder, env=ENVIRONMENT, preexec_fn=prepare, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of so many kilobytes, where we may mount at all."""
    mounted: list[Path] = []

    def mount(kilobytes: int) -> Path:
        place = tmp_path / f"disk{kilobytes}"
        place.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
        done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"cannot mount a small file system here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("kilobytes", [4, 16, 32, 64])
def test_a_full_disk_is_named(tmp_path: Path, small_disk: Callable[[int], Path], kilobytes: int) -> None:
    """Wherever the space ends (lock, database, its log or its index), the sentence says that the disk is full."""
    disk = small_disk(kilobytes)
    if kilobytes == 4:
        (disk / "filler").write_bytes(b"x" * 4096)
    status, said = start(tmp_path, disk / "x.db")
    assert (status, said) == (2, f"crawld: the disk of the database {disk / 'x.db'} is full: free some space\n")


@pytest.mark.parametrize("most_bytes", [0, 1_000, 20_000, 60_000])
def test_files_that_cannot_grow_are_named(tmp_path: Path, most_bytes: int) -> None:
    """A limit on the size of files is told in a sentence as well, with status 2."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    status, said = start(tmp_path, tmp_path / "x.db", limit)
    assert status == 2, said
    assert str(tmp_path / "x.db") in said
    assert "Traceback" not in said
