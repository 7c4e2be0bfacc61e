"""Reads the history of a git repository that may be hostile: by plumbing commands, bounded, never over the network."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from crawld.model.errors import InputError

MAX_COMMITS = 200_000
MAX_BLOB = 5_000_000
"""Bytes of a file that are read; of a larger one only its name in git is known."""
MAX_FIELD = 65_536
"""Bytes of a path or a line that git gives."""
MAX_COMPLAINT = 300
REGULAR = ("100644", "100755")
"""Modes of files; links and submodules are none."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the published branch, and when it was made (UTC seconds)."""

    name: str
    at: float


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file after a commit: its path, the name of its content (None: deleted), and its former path if renamed."""

    path: str
    blob: str | None
    renamed_from: str | None = None


class GitRepository:
    """The first-parent history of one branch."""

    def __init__(self, folder: Path, branch: str = "HEAD") -> None:
        self.folder, self.branch = folder, branch
        self._git = shutil.which("git")
        if self._git is None:
            raise InputError("git is not installed: install it to read repositories")
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}")
        self._stack = ExitStack()
        try:
            self._output("rev-parse", "--git-dir")
        except InputError as error:
            raise InputError(f"{folder} is no git repository that can be read: {error}") from error

    def __enter__(self) -> Self:
        """Start the processes that read files."""
        self._sizes = self._running("cat-file", "--batch-check=%(objecttype) %(objectsize)")
        self._contents = self._running("cat-file", "--batch")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End them."""
        self._stack.close()

    def commits(self, since: float | None = None) -> tuple[Commit | None, list[Commit]]:
        """The last commit before `since`, and all from then on, oldest first; time never runs backwards in them."""
        listed = self._running(
            "rev-list", "--first-parent", "--timestamp", f"--max-count={MAX_COMMITS + 1}", "--end-of-options",
            self.branch, "--",
        )  # fmt: skip
        lines = [line.split() for line in _lines(listed)]
        if listed.wait() or not lines:
            raise InputError(f"{self.folder} has no branch {self.branch!r} with a commit")
        if len(lines) > MAX_COMMITS:
            raise InputError(f"{self.folder} has more than {MAX_COMMITS} commits: ask for a later --since")
        commits, latest = [], float("-inf")
        for at, name in reversed(lines):
            latest = max(latest, float(at))
            commits.append(Commit(name, latest))
        if since is None:
            return None, commits
        before = [commit for commit in commits if commit.at < since]
        return (before[-1] if before else None), commits[len(before) :]

    def files(self, commit: Commit) -> Iterator[FileChange]:
        """Every file at a commit."""
        listed = self._running("ls-tree", "-r", "-z", "--full-tree", commit.name)
        for field in _fields(listed):
            about, path = field.split("\t", 1)
            mode, _, blob = about.split(" ")
            if mode in REGULAR:
                yield FileChange(path, blob)
        self._check(listed)

    def changes(self, commits: Sequence[Commit]) -> Iterator[tuple[int, FileChange]]:
        """What each commit changed beside the one before, as (index, file); the first is compared with nothing."""
        with tempfile.TemporaryFile() as asked:
            for before, commit in pairwise(commits):
                asked.write(f"{commit.name} {before.name}\n".encode())
            asked.seek(0)
            compared = self._running(
                "diff-tree", "--stdin", "-r", "-z", "-M60%", "-l1000", "--no-ext-diff", "--no-textconv", "--raw",
                given=asked,
            )  # fmt: skip
            number = {commit.name: index for index, commit in enumerate(commits)}
            at, fields = 0, _fields(compared)
            for field in fields:
                if not field.startswith(":"):
                    at = number[field.strip()]
                    continue
                _, mode, _, blob, status = field[1:].split(" ")
                before_path = next(fields)
                path = next(fields) if status[0] in "RC" else before_path
                renamed = before_path if status[0] == "R" else None
                if status[0] == "D" or mode not in REGULAR:
                    yield at, FileChange(before_path, None)
                else:
                    yield at, FileChange(path, blob, renamed)
            self._check(compared)

    def read(self, blob: str) -> bytes | None:
        """The content of a file; None where it is too large."""
        kind, _, size = self._asked(self._sizes, blob).partition(" ")
        if kind != "blob" or int(size) > MAX_BLOB:
            return None
        length = int(self._asked(self._contents, blob).rsplit(" ", 1)[1])
        stream = _stream(self._contents)
        body = stream.read(length)
        stream.read(1)
        return body

    def _asked(self, process: subprocess.Popen[bytes], blob: str) -> str:
        assert process.stdin is not None, "it is asked through a pipe"  # noqa: S101 - for the type checker
        process.stdin.write(f"{blob}\n".encode())
        process.stdin.flush()
        answer = _stream(process).readline(MAX_FIELD).decode("utf-8", "replace").strip()
        if not answer or answer.endswith(" missing"):
            raise InputError(f"{self.folder} lacks the file {blob}: fetch the whole history (git fetch --unshallow)")
        return answer

    def _running(self, *words: str, given: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603 - git itself, with words of our own and a branch after --end-of-options
            self._command(*words),
            stdin=subprocess.PIPE if given is None else given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
        )
        self._stack.callback(_end, process)
        return process

    def _output(self, *words: str) -> str:
        done = subprocess.run(  # noqa: S603 - as above
            self._command(*words), capture_output=True, check=False, env=_environment(), timeout=60
        )
        if done.returncode:
            raise InputError(done.stderr.decode("utf-8", "replace").strip()[:MAX_COMPLAINT] or "git failed")
        return done.stdout.decode("utf-8", "replace").strip()

    def _command(self, *words: str) -> list[str]:
        # What a repository's own settings could have git run or load is overruled.
        safe = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.bigFileThreshold=16m", "core.quotePath=false")
        return [str(self._git), "-C", str(self.folder), *(word for one in safe for word in ("-c", one)), *words]

    def _check(self, process: subprocess.Popen[bytes]) -> None:
        if process.wait():
            raise InputError(f"git could not read the history of {self.folder}: try git fsck there")


def _environment() -> Mapping[str, str]:
    """The user's own, without what points git elsewhere; no protocol is allowed, so nothing is fetched."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return own | {
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "LC_ALL": "C",
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _stream(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None, "it answers through a pipe"  # noqa: S101 - for the type checker
    return process.stdout


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    for line in _stream(process):
        yield line.decode("utf-8", "replace")


def _fields(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """What git wrote, cut at its zero bytes; a field that never ends is an error."""
    rest = b""
    while piece := _stream(process).read1(MAX_FIELD):  # type: ignore[attr-defined]  # a pipe is buffered
        *whole, rest = (rest + piece).split(b"\0")
        for field in whole:
            yield field.decode("utf-8", "replace")
        if len(rest) > MAX_FIELD:
            raise InputError("git named a path that never ends")
