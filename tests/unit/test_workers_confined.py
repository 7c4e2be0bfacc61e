"""What a worker can do where a parser was made to run an attacker's code: answer, in the shape asked for."""

import asyncio
import ctypes
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from crawld.crawl.judge import digested_again, read_apart
from crawld.fetch.body import unpack_body
from crawld.main.assembly import READERS
from crawld.model.errors import InputError, TooCostlyError
from crawld.read.charset import decode
from crawld.read.page.blocks import difference
from crawld.read.page.document import read_document, read_documents
from crawld.read.page.rules import DigestRule
from crawld.read.robots import read_robots
from crawld.read.workers.confinement import Confinement
from crawld.read.workers.messages import (
    HEAD,
    LIMITS,
    AnswerReader,
    MessageKind,
    ShapeError,
    pack,
    shape_of,
    signature_of,
    unpack,
)
from crawld.read.workers.pool import WorkerPool
from crawld.read.workers.worker import Limits
from crawld.signals.pings import read_indexnow, read_signals
from crawld.signals.reading import read_answer
from tests.support.process import HANG_SECONDS, runs

MODULES = (*READERS, "tests.unit.test_workers_confined")
SECRET = "CRAWLD_DATABASE"
PTRACE_ATTACH = 16


def _refused(attempt: Callable[[], object]) -> str:
    """The reason why an attempt failed, or that it did not."""
    try:
        attempt()
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "done"


def open_file(path: str) -> str:
    """Read a file."""
    return _refused(lambda: os.open(path, os.O_RDONLY))


def create_file(path: str) -> str:
    """Write a file."""
    return _refused(lambda: os.open(path, os.O_WRONLY | os.O_CREAT))


def open_socket() -> str:
    """Ask the network."""
    return _refused(socket.socket)


def open_unix_socket() -> str:
    """Ask the control socket."""
    return _refused(lambda: socket.socket(socket.AF_UNIX))


def fork() -> str:
    """Leave a process behind."""
    return _refused(os.fork)


def execute() -> str:
    """Become another program."""
    return _refused(lambda: os.execv("/bin/true", ["true"]))


def spawn() -> str:
    """Start another program."""
    return _refused(lambda: subprocess.run(["/bin/true"], check=False))


def trace(process: int) -> str:
    """Take another process over."""
    libc = ctypes.CDLL(None, use_errno=True)

    def attach() -> None:
        if libc.ptrace(PTRACE_ATTACH, process, 0, 0):
            raise OSError(ctypes.get_errno(), "ptrace")

    return _refused(attach)


def kill(process: int) -> str:
    """End another process."""
    return _refused(lambda: os.kill(process, signal.SIGTERM))


def remember_secrets() -> list[str]:
    """The names of all variables."""
    return list(os.environ)


def say(data: bytes) -> str:
    """Send the daemon something else than an answer, on whatever leads there."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, data)
        except OSError:
            continue
    return "said"


def answer_lies() -> int:
    """Return something else than what it says."""
    return "no number"  # type: ignore[return-value]  # that is the point


def fail_oddly() -> None:
    """Fail in a way that only this process knows of."""
    raise OddError(1, "two")


def length(body: bytes) -> int:
    """How long a body is."""
    return len(body)


def read_as(body: bytes, content_type: str) -> str:
    """Decode a text."""
    return decode(body, content_type)


class OddError(Exception):
    """An exception that takes two arguments."""

    def __init__(self, one: int, two: str) -> None:
        super().__init__(f"{one}{two}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[WorkerPool]:
    """A pool with one worker for short tasks, for all tests: whatever one does to a worker, the next is served."""
    made = WorkerPool(MODULES, Limits(seconds=2.0, memory=64 << 20), short=1)
    yield made
    await made.close()


REFUSED = os.strerror(1)
SAME_LOOP = pytest.mark.asyncio(loop_scope="module")


ATTEMPTS: tuple[tuple[Callable[..., str], tuple[Any, ...]], ...] = (
    (open_file, ("/etc/passwd",)),
    (open_file, (f"/proc/{os.getpid()}/mem",)),
    (create_file, ("/tmp/crawld-was-here",)),
    (open_socket, ()),
    (open_unix_socket, ()),
    (fork, ()),
    (execute, ()),
    (spawn, ()),
    (trace, (os.getpid(),)),
    (kill, (os.getpid(),)),
    (kill, (0,)),
    (kill, (-1,)),
)


@SAME_LOOP
async def test_hostile_code_in_a_worker_is_refused(pool: WorkerPool) -> None:
    """Files, sockets, processes and other processes' memory are refused, and the worker goes on answering."""
    for attempt, given in ATTEMPTS:
        assert await pool.run("a", attempt, *given) == REFUSED, (attempt.__name__, given)
    assert await pool.run("a", length, b"xyz") == 3


@SAME_LOOP
async def test_the_pool_knows_what_confines_its_workers(pool: WorkerPool) -> None:
    """Both layers of this kernel are in use, and the pool says so."""
    await pool.run("a", length, b"")
    assert pool.confinement == Confinement(seccomp=True, landlock=True)


async def test_workers_see_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's environment, which may hold a password, is not the workers'."""
    monkeypatch.setenv(SECRET, "postgresql://crawld:secret@localhost/crawld")
    made = WorkerPool(MODULES, short=1)
    try:
        assert SECRET not in await made.run("a", remember_secrets)
    finally:
        await made.close()


@SAME_LOOP
async def test_a_worker_cannot_be_traced_or_dumped(pool: WorkerPool) -> None:
    """Its memory belongs to root for every other process of its user."""
    await pool.run("a", length, b"")
    template = next(
        int(line)
        for line in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        if b"crawld.read.workers.template" in Path(f"/proc/{line}/cmdline").read_bytes()
    )
    async with asyncio.timeout(HANG_SECONDS):
        while len(workers := Path(f"/proc/{template}/task/{template}/children").read_text().split()) != 1:
            await asyncio.sleep(0.01)  # one that a test before had ended is still listed
    (worker,) = workers
    status = Path(f"/proc/{worker}/status").read_text()
    assert "\nSeccomp:\t2\n" in status
    assert "\nNoNewPrivs:\t1\n" in status
    assert os.getpgid(int(worker)) == int(worker)
    assert Path(f"/proc/{worker}/environ").stat().st_uid == 0


def _answer(kind: bytes, data: bytes, length_said: int | None = None) -> bytes:
    return HEAD.pack(kind, 0, len(data) if length_said is None else length_said) + data


NO_ANSWERS = (
    b"nonsense that is long enough for a head",
    _answer(MessageKind.DONE, pack("said")) + b"and more",
    _answer(MessageKind.DONE, pack("said"), LIMITS.max_plain + 1),
    _answer(MessageKind.DONE, pack(7)),
    _answer(MessageKind.DONE, b"\xc1"),
    _answer(MessageKind.BYTES, b"said"),
    _answer(MessageKind.DONE, pickle.dumps("said")),
    _answer(b"R", pack(["builtins:SystemExit", 1, 2])),
)


@SAME_LOOP
async def test_what_is_no_answer_ends_the_worker(pool: WorkerPool) -> None:
    """Bytes beyond the length, of a wrong kind or shape, end the worker; its task fails, and the next is served."""
    for said in NO_ANSWERS:
        with pytest.raises(TooCostlyError, match="ended the worker process"):
            await pool.run("a", say, said)
        assert await pool.run("b", length, b"xyz") == 3


@SAME_LOOP
async def test_bytes_after_the_answer_end_the_worker(pool: WorkerPool) -> None:
    """A worker that speaks without a task is replaced."""
    reader = AnswerReader(shape_of(str))
    with pytest.raises(ShapeError, match="beyond the length"):
        reader.feed(_answer(MessageKind.DONE, pack("said")) + b"x")
    with pytest.raises(TooCostlyError):
        await pool.run("a", say, _answer(MessageKind.DONE, pack("first")) + _answer(MessageKind.DONE, pack("second")))
    assert await pool.run("b", length, b"xyz") == 3


@SAME_LOOP
async def test_a_lie_of_a_task_ends_its_worker(pool: WorkerPool) -> None:
    """A result that is not of the type that the task promises is not taken."""
    with pytest.raises(TooCostlyError, match="ended the worker process"):
        await pool.run("a", answer_lies)


@SAME_LOOP
async def test_an_error_that_only_the_worker_knows_becomes_a_plain_one(pool: WorkerPool) -> None:
    """Names of errors that are not crawld's own are told, and never looked up."""
    with pytest.raises(RuntimeError, match="OddError: 1two"):
        await pool.run("a", fail_oddly)


@SAME_LOOP
async def test_a_task_that_cannot_be_sent_fails_where_it_was_asked_for(pool: WorkerPool) -> None:
    """A value that has no shape fails its task alone."""
    with pytest.raises(TypeError):
        await pool.run("a", length, object())  # type: ignore[arg-type]  # that is the point
    assert await pool.run("a", length, b"x") == 1


@SAME_LOOP
async def test_every_codec_is_there_before_the_files_are_gone(pool: WorkerPool) -> None:
    """Texts in rare encodings are read in a worker, though it cannot load a codec."""
    for charset, text in (("euc-kr", "안녕"), ("iso-2022-jp", "日本"), ("gb18030", "中文"), ("koi8-u", "мир")):
        body = text.encode(charset)
        assert await pool.run("a", read_as, body, f"text/html; charset={charset}") == text


@pytest.mark.skipif(sys.platform != "linux", reason="process groups and their children are asked of /proc")
async def test_a_group_is_ended_as_a_whole(tmp_path: Path) -> None:
    """What a worker left behind on a kernel without seccomp is killed with it, before the pool is closed."""
    script = f"""
import os, socket, sys, time
from crawld.read.workers import template, worker
from crawld.read.workers.confinement import Confinement

def leave(sock, limits, confinement):
    if not os.fork():
        with open({str(tmp_path / "written")!r}, "w") as file:
            file.write(str(os.getpid()))
        os.rename({str(tmp_path / "written")!r}, {str(tmp_path / "child")!r})
        time.sleep(600)
    while not os.path.exists({str(tmp_path / "child")!r}):
        time.sleep(0.01)

template.work = leave
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
if not os.fork():
    ours.close()
    template.serve(theirs, worker.Limits(), Confinement())
    os._exit(0)
theirs.close()
one, other = socket.socketpair()
socket.send_fds(ours, [b"fork"], [other.fileno()])
assert ours.recv(64).startswith(b"forked")
assert ours.recv(64).startswith(b"ended")
ours.close()
os.wait()
"""
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], check=True, timeout=60)
    assert done.returncode == 0
    child = int((tmp_path / "child").read_text())
    for _ in range(200):
        if not runs(child):
            break
        await asyncio.sleep(0.05)
    assert not runs(child)


# -- shapes ---------------------------------------------------------------------------------------------------------


class Colour(StrEnum):
    """An enumeration."""

    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    """A named tuple."""

    one: int
    other: str | None


@dataclass(frozen=True, slots=True)
class Thing:
    """A bit of everything that tasks are given."""

    colour: Colour
    pairs: Sequence[Pair]
    spans: tuple[tuple[range, bool], ...]
    words: Mapping[int, tuple[int, ...]]
    column: NDArray[np.int64]
    hosts: frozenset[str] | None = None
    either: Pair | Colour | None = None


def test_values_come_back_as_they_went() -> None:
    """Every kind of value that tasks use survives the way, lone surrogates and large numbers too."""
    shape = shape_of(Thing)
    thing = Thing(
        Colour.BLUE,
        (Pair(2**70, None), Pair(-1, "\udcff")),
        ((range(1, 9, 2), True),),
        {3: (1, 2**63 - 1)},
        np.array([1, -2, 3]),
        frozenset({"a"}),
        Colour.RED,
    )
    back = shape.value(unpack(pack(shape.plain(thing))))
    assert (back.colour, back.pairs, back.spans, back.words) == (thing.colour, thing.pairs, thing.spans, thing.words)
    assert (back.hosts, back.either) == (thing.hosts, thing.either)
    assert back.column.tolist() == [1, -2, 3]


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (int, "1"),
        (int, True),
        (float, "1"),
        (bytes, "text"),
        (str | None, 1),
        (Colour, "green"),
        (Colour, ["red"]),
        (Pair, [1]),
        (Pair, {"one": 1}),
        (tuple[int, ...], [1, "2"]),
        (Mapping[int, str], {"1": "x"}),
        (Pair | Colour, [2, "red"]),
        (Pair | Colour, "red"),
        (NDArray[np.int64], b"1234567"),
        (range, [1, 2, 0]),
    ],
)
def test_data_of_another_shape_is_refused(hint: Any, data: Any) -> None:
    """What does not have the shape asked for is an error, whatever else it is."""
    with pytest.raises(ShapeError):
        shape_of(hint).value(unpack(pack(data)))


def test_a_rule_is_compiled_once() -> None:
    """A value with derived parts is made once from what was written."""
    shape = shape_of(DigestRule)
    plain = pack(shape.plain(DigestRule("*", ignore=(".ad",), ignore_text=("[0-9]+",))))
    assert shape.value(unpack(plain)) is shape.value(unpack(plain))


def test_what_a_rule_refuses_has_no_shape() -> None:
    """A value that its own class refuses is not made."""
    with pytest.raises((ShapeError, InputError)):
        shape_of(DigestRule).value(["*", "main", None, [], [], 7.0])


@pytest.mark.parametrize(
    "work",
    [
        read_apart,
        digested_again,
        read_answer,
        read_robots,
        read_signals,
        read_indexnow,
        read_document,
        read_documents,
        difference,
        unpack_body,
    ],
)
def test_every_task_has_a_signature(work: Callable[..., object]) -> None:
    """All that runs in workers takes and returns what has a shape, and its module is loaded there."""
    shapes = signature_of(work)
    assert work.__module__ in READERS
    assert shapes.name == f"{work.__module__}:{work.__qualname__}"


def test_heads_are_whole() -> None:
    """A head that is cut off is waited for."""
    reader, whole = AnswerReader(shape_of(str)), _answer(MessageKind.DONE, pack("said"))
    assert reader.feed(whole[: HEAD.size - 1]) is None
    assert reader.feed(whole[HEAD.size - 1 : -1]) is None
    assert reader.feed(whole[-1:]) is not None
    assert struct.calcsize("!cQQ") == HEAD.size
