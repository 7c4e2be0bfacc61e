"""Makes a history file out of a git repository of a published site: pages, changes of their main text, sitemap signals.

1. A page is a file of a wanted suffix; its birth is the commit that first has it, its death the one that deletes it.
   A renamed file stays the same page.
2. A change is a commit after which crawld's own digest of the file's main text is another.
3. A signal is a commit after which the lastmod of the page in a sitemap of the repository is another.

The arrays are those that `crawld.research.recorded` reads; times are when the commits were made, in the order of
the first parents.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from crawld.model.errors import InputError
from crawld.read.listing import EntryKind, UnreadableError
from crawld.read.page.digest import read_body
from crawld.read.sitemap import read_sitemap


@dataclass(frozen=True)
class GitLimits:
    """Numbers that bound and tune this module."""

    max_commits: int = 200_000
    max_blob: int = 5_000_000
    """Bytes of a file that are read; of a larger one only its name in git is known."""
    max_field: int = 65_536
    """Bytes of a path or a line that git gives."""
    max_complaint: int = 300
    max_pages: int = 50_000
    max_sitemaps: int = 200
    max_words: int = 20_000
    """Words of a page that are compared."""
    regular_modes: tuple[str, ...] = ("100644", "100755")
    """Modes of files; links and submodules have others."""
    suffixes: tuple[str, ...] = (".html", ".htm")
    """Of the files that are pages unless others are named."""
    no_value: int = -1
    """Stands for a lastmod that is missing or cannot be used."""


LIMITS = GitLimits()


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
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}")
        self._git = shutil.which("git")
        if self._git is None:
            raise InputError("git is not installed: install it to read repositories")
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
            "rev-list", "--first-parent", "--timestamp", f"--max-count={LIMITS.max_commits + 1}", "--end-of-options",
            self.branch, "--",
        )  # fmt: skip
        lines = [line.split() for line in _lines(listed)]
        if listed.wait() or not lines:
            raise InputError(f"{self.folder} has no branch {self.branch!r} with a commit")
        if len(lines) > LIMITS.max_commits:
            raise InputError(f"{self.folder} has more than {LIMITS.max_commits} commits: ask for a later --since")
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
        for entry in _fields(listed):
            about, path = entry.split("\t", 1)
            mode, _, blob = about.split(" ")
            if mode in LIMITS.regular_modes:
                yield FileChange(path, blob)
        self._check(listed)

    def changes(self, commits: Sequence[Commit]) -> Iterator[tuple[int, FileChange]]:
        """Yields the changes of each commit as (index, file); the first is compared with nothing."""
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
            for entry in fields:
                if not entry.startswith(":"):
                    at = number[entry.strip()]
                    continue
                _, mode, _, blob, status = entry[1:].split(" ")
                before_path = next(fields)
                path = next(fields) if status[0] in "RC" else before_path
                renamed = before_path if status[0] == "R" else None
                if status[0] == "D" or mode not in LIMITS.regular_modes:
                    yield at, FileChange(before_path, None)
                else:
                    yield at, FileChange(path, blob, renamed)
            self._check(compared)

    def read(self, blob: str) -> bytes | None:
        """The content of a file; None where it is too large."""
        kind, _, size = self._asked(self._sizes, blob).partition(" ")
        if kind != "blob" or int(size) > LIMITS.max_blob:
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
        answer = _stream(process).readline(LIMITS.max_field).decode("utf-8", "replace").strip()
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
            raise InputError(done.stderr.decode("utf-8", "replace").strip()[: LIMITS.max_complaint] or "git failed")
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
    """Cuts git's output at its zero bytes; a field that never ends is an error."""
    rest = b""
    while piece := _stream(process).read1(LIMITS.max_field):  # type: ignore[attr-defined]  # a pipe is buffered
        *whole, rest = (rest + piece).split(b"\0")
        for entry in whole:
            yield entry.decode("utf-8", "replace")
        if len(rest) > LIMITS.max_field:
            raise InputError("git named a path that never ends")


Words = NDArray[np.uint64]


@dataclass(slots=True)
class _Page:
    """One page as the walk through the history has it now."""

    path: str
    birth: float
    birth_bytes: int
    text: bytes
    words: Words
    blob: str
    size: int
    death: float = 0.0
    changes: list[tuple[float, int, int]] = field(default_factory=list)  # when, bytes after, words differing
    raw: list[float] = field(default_factory=list)
    signals: list[tuple[float, int]] = field(default_factory=list)
    listed: float = 0.0
    lastmod0: int = LIMITS.no_value
    lastmod: str | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """Counts of what was imported."""

    commits: int
    days: float
    pages: int
    alive: int
    changes: int
    raw_changes: int
    signals: int
    sitemaps: int
    unreadable_sitemaps: int
    large_files: int
    left_out_pages: int

    def as_dict(self) -> dict[str, float]:
        """Every number by its name."""
        return asdict(self)


class GitHistory:
    """One walk through a repository's commits, oldest first."""

    def __init__(self, repository: GitRepository, under: str = "", suffixes: Sequence[str] = LIMITS.suffixes) -> None:
        self._repository = repository
        self._under = f"{under.strip('/')}/" if under.strip("/") else ""
        self._suffixes = tuple(suffix.lower() for suffix in suffixes)
        self._pages: list[_Page] = []
        self._by_path: dict[str, int] = {}
        self._dead: dict[str, int] = {}
        self._lists: dict[str, dict[str, str]] = {}  # by sitemap, the lastmod of each location
        self._commits: list[float] = []
        self._sitemap_times: list[float] = []
        self._unreadable = self._large = self._left_out = 0

    def walk(self, since: float | None, show: Callable[[int, int], None]) -> Imported:
        """Go through all commits, or those from `since` on; `show` is told how many of how many are done."""
        before, commits = self._repository.commits(since)
        first = before if before is not None else (commits[0] if commits else None)
        if first is None or not commits:
            raise InputError("no commit is as late as --since")
        start = Commit(first.name, first.at if since is None else max(first.at, since))
        self._take(start.at, list(self._repository.files(first)))
        walked = commits if before is None else [before, *commits]
        waiting: list[FileChange] = []
        at = 0
        for number, change in self._repository.changes(walked):
            if number != at:
                self._take(walked[at].at if at else start.at, waiting)
                waiting, at = [], number
                show(number, len(walked))
            waiting.append(change)
        self._take(walked[at].at if at else start.at, waiting)
        self._commits = [start.at, *(commit.at for commit in walked[1:])]
        show(len(walked), len(walked))
        if not self._pages:
            wanted = ", ".join(self._suffixes)
            raise InputError(f"no file under {self._under or 'the top'} ends in {wanted}: name others with --suffix")
        return self._found()

    def save(self, output: Path) -> None:
        """Write the history file."""
        try:
            with output.open("wb") as file:
                np.savez_compressed(file, **self.arrays())  # type: ignore[arg-type]  # numpy's own keywords are none
        except OSError as error:
            raise InputError(f"{output} cannot be written: {error}") from error

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The history as the arrays of a history file."""
        pages = self._pages
        changes, signals = [page.changes for page in pages], [page.signals for page in pages]
        flat = [one for of_page in changes for one in of_page]
        told = [one for of_page in signals for one in of_page]
        return {
            "kind": np.array("site"),
            "page_path": np.array([page.path for page in pages]),
            "birth": np.array([page.birth for page in pages]),
            "death": np.array([page.death for page in pages]),
            "birth_bytes": np.array([page.birth_bytes for page in pages], np.int64),
            "change_off": _offsets(changes),
            "change_t": np.array([at for at, _, _ in flat], float),
            "change_bytes": np.array([size for _, size, _ in flat], np.int64),
            "change_words": np.array([words for _, _, words in flat], np.int64),
            "raw_off": _offsets([page.raw for page in pages]),
            "raw_t": np.array([at for page in pages for at in page.raw], float),
            "signal_off": _offsets(signals),
            "signal_t": np.array([at for at, _ in told], float),
            "signal_lastmod": np.array([value for _, value in told], np.int64),
            "listed_t": np.array([page.listed for page in pages]),
            "lastmod0": np.array([page.lastmod0 for page in pages], np.int64),
            "commit_t": np.array(self._commits),
            "sitemap_t": np.array(self._sitemap_times, float),
        }

    def _found(self) -> Imported:
        return Imported(
            commits=len(self._commits),
            days=round((self._commits[-1] - self._commits[0]) / 86400.0, 2),
            pages=len(self._pages),
            alive=len(self._by_path),
            changes=sum(len(page.changes) for page in self._pages),
            raw_changes=sum(len(page.raw) for page in self._pages),
            signals=sum(len(page.signals) for page in self._pages),
            sitemaps=len(self._lists),
            unreadable_sitemaps=self._unreadable,
            large_files=self._large,
            left_out_pages=self._left_out,
        )

    def _take(self, at: float, changes: Sequence[FileChange]) -> None:
        """One commit: deletions and renames first, which free paths for other pages; sitemaps last."""
        sitemaps = []
        moved: list[tuple[int, FileChange]] = []
        for change in changes:
            if change.renamed_from is not None and (page := self._by_path.pop(change.renamed_from, None)) is not None:
                moved.append((page, change))
            elif change.blob is None and (page := self._by_path.pop(change.path, None)) is not None:
                self._pages[page].death = at
                self._dead[change.path] = page
        for page, change in moved:
            if self._is_page(change.path):
                self._pages[page].path = change.path
                self._by_path[change.path] = page
            else:
                self._pages[page].death = at
        for change in changes:
            if change.blob is None:
                self._lists.pop(change.path, None)
            elif self._is_page(change.path):
                self._see(at, change.path, change.blob)
            elif change.path.startswith(self._under) and re.search(
                r"sitemap[^/]*\.xml(\.gz)?\Z", change.path, re.IGNORECASE
            ):
                sitemaps.append(change)
        for change in sitemaps:
            self._read_sitemap(at, change)

    def _is_page(self, path: str) -> bool:
        return path.startswith(self._under) and path.lower().endswith(self._suffixes)

    def _see(self, at: float, path: str, blob: str) -> None:
        """A page was born, came back, or may have changed."""
        known = self._by_path.get(path)
        if known is None and (known := self._dead.pop(path, None)) is not None:
            self._by_path[path] = known
            self._pages[known].death = 0.0
        if known is None and len(self._pages) >= LIMITS.max_pages:
            self._left_out += 1
            return
        if known is not None and self._pages[known].blob == blob:
            return
        text, words, size = self._digested(path, blob, at)
        if known is None:
            self._by_path[path] = len(self._pages)
            self._pages.append(_Page(path, at, size, text, words, blob, size))
            return
        page = self._pages[known]
        page.raw.append(at)
        if page.text != text:
            page.changes.append((at, size, _differing(page.words, words)))
        page.text, page.words, page.blob, page.size = text, words, blob, size

    def _digested(self, path: str, blob: str, at: float) -> tuple[bytes, Words, int]:
        """The digest of a file's main text, its words, and its length; of what cannot be read, its name in git."""
        body = self._repository.read(blob)
        if body is None:
            self._large += 1
            return blob.encode(), np.empty(0, np.uint64), 0
        kinds = {".html": "text/html", ".htm": "text/html", ".xhtml": "application/xhtml+xml"}
        kind = kinds.get(PurePosixPath(path).suffix.lower(), "text/plain")
        reading = read_body(body, kind, at=at)
        words = " ".join(reading.texts).split(maxsplit=LIMITS.max_words)[: LIMITS.max_words]
        hashed = np.sort(np.array([hash(word) & 0xFFFFFFFFFFFFFFFF for word in words], np.uint64))
        text = reading.digest.text
        return (reading.digest.raw if text is None else text), hashed, sum(map(len, reading.texts))

    def _read_sitemap(self, at: float, change: FileChange) -> None:
        """Compare a sitemap with its last version: a moved lastmod is a signal of its page."""
        if change.path not in self._lists and len(self._lists) >= LIMITS.max_sitemaps:
            self._unreadable += 1
            return
        body = self._repository.read(change.blob or "")
        try:
            listing = read_sitemap(body or b"", f"https://site.invalid/{change.path}", at)
        except UnreadableError:  # as an empty one is, and one that is too large
            self._unreadable += 1
            return
        self._sitemap_times.append(at)
        old, new = self._lists.get(change.path, {}), {}
        for entry in listing.entries:
            if entry.kind is not EntryKind.PAGE:
                continue
            value = "" if entry.lastmod is None else entry.lastmod.raw
            new[entry.loc] = value
            if old.get(entry.loc) == value or (number := self._page_at(entry.loc)) is None:
                continue
            stated = LIMITS.no_value if entry.lastmod is None or entry.lastmod.at is None else int(entry.lastmod.at)
            self._list(self._pages[number], at, value, stated)
        self._lists[change.path] = new

    def _list(self, page: _Page, at: float, value: str, stated: int) -> None:
        if page.lastmod is None:
            page.listed, page.lastmod0 = at, stated
        elif page.lastmod != value:
            page.signals.append((at, stated))
        page.lastmod = value

    def _page_at(self, location: str) -> int | None:
        """The page that is published there: a project's pages may lie under its name, which is no folder here."""
        path = unquote(urlsplit(location).path).lstrip("/")
        for place in (path, path.partition("/")[2]):
            stem = f"{self._under}{place}"
            names = [stem, *(f"{stem}{suffix}" for suffix in self._suffixes if place and not place.endswith("/"))]
            names += [f"{stem.rstrip('/')}/index{suffix}".lstrip("/") for suffix in self._suffixes]
            for name in names:
                if (found := self._by_path.get(name)) is not None:
                    return found
        return None


def _offsets(lists: Sequence[Sequence[object]]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)


def _differing(before: Words, after: Words) -> int:
    """Words in one version and not in the other, counted as often as they differ."""
    words = np.concatenate([before, after])
    _, place = np.unique(words, return_inverse=True)
    signed = np.concatenate([np.ones(len(before)), -np.ones(len(after))])
    return int(np.abs(np.bincount(place, signed)).sum()) if len(words) else 0
