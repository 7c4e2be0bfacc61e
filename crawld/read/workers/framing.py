"""Messages between the pool and its workers: a head that says their kind and length, and so many bytes.

A task names its function and holds what that is given. An answer is a result, an error, or that memory ran out. What
they hold is plain data (`shapes.py`), but for a result that is bytes, which is sent as it is.
"""

import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from crawld.model.errors import CrawldError
from crawld.read.workers.messages import (
    Shape,
    ShapeError,
    Signature,
    function_named,
    pack,
    shape_of,
    signature_of,
    unpack,
)

HEAD = struct.Struct("!cQQ")  # kind, bytes by which the worker has grown, length
TASK, DONE, BYTES, RAISED, MEMORY = b"T", b"D", b"B", b"R", b"M"
MAX_BYTES, MAX_PLAIN = 64 << 20, 32 << 20
"""Of an answer that is bytes, and of any other; honest ones have a few megabytes at most."""
MAX_TEXT = 10_000
"""Characters of an error and of its trace."""
_RAISED = shape_of(tuple[str, str, str])


class GoneError(ConnectionError):
    """The other side has closed its end."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task's result, and by how many bytes its worker has ever grown."""

    result: object
    grown: int


@dataclass(frozen=True, slots=True)
class Raised:
    """A task ended with an exception; `trace` says where, for the log."""

    error: Exception
    trace: str
    grown: int


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A task needed more memory than it may have; its worker ends."""


Answer = Done | Raised | OutOfMemory


def flattened(work: Callable[..., Any], given: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[Any]]:
    """The function behind a partial one, and all that it is given."""
    if not isinstance(work, partial):
        return work, given
    if work.keywords:
        raise TypeError("a task is given by position what was given beforehand")
    return flattened(work.func, (*work.args, *given))


def packed_task(work: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """A task as it is sent: its head, and the rest. They are not joined, because a body may be large."""
    shapes = signature_of(work)
    if len(given) > len(shapes.given):
        raise TypeError(f"{shapes.name} takes {len(shapes.given)} arguments")
    plain = [shape.plain(one) for shape, one in zip(shapes.given, given)]
    data = pack([shapes.name, plain, {name: shapes.named[name].plain(one) for name, one in named.items()}])
    return HEAD.pack(TASK, 0, len(data)), data


def receive_task(sock: socket.socket) -> tuple[Signature, Callable[[], Any]]:
    """Wait for the next task; its signature, and the call to make."""
    _, _, length = HEAD.unpack(_exactly(sock, HEAD.size))
    name, given, named = unpack(_exactly(sock, length))
    function = function_named(name)
    shapes = signature_of(function)
    values = [shape.value(one) for shape, one in zip(shapes.given, given)]
    return shapes, partial(function, *values, **{key: shapes.named[key].value(one) for key, one in named.items()})


def send_answer(sock: socket.socket, answer: Answer, shape: Shape) -> None:
    """Send what came of a task."""
    kind, grown, data = MEMORY, 0, b""
    if isinstance(answer, Done):
        kind, grown = (BYTES if shape.leaf is bytes else DONE), answer.grown
        data = answer.result if isinstance(answer.result, bytes) and kind == BYTES else pack(shape.plain(answer.result))
    elif isinstance(answer, Raised):
        kind, grown, error = RAISED, answer.grown, type(answer.error)
        texts = (f"{error.__module__}:{error.__qualname__}", str(answer.error)[:MAX_TEXT], answer.trace[-MAX_TEXT:])
        data = pack(_RAISED.plain(texts))
    sock.sendall(HEAD.pack(kind, grown, len(data)))
    sock.sendall(data)


class AnswerReader:
    """Puts one answer together from the bytes that arrive."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._heard = bytearray()

    def feed(self, data: bytes) -> Answer | None:
        """Take some bytes; the answer where it is complete. ShapeError where it is none that a task can have."""
        heard = self._heard
        heard += data
        if len(heard) < HEAD.size:
            return None
        kind, grown, length = HEAD.unpack_from(heard)
        if length > (MAX_BYTES if kind == BYTES else MAX_PLAIN):
            raise ShapeError(f"an answer of {length} bytes")
        if len(heard) > HEAD.size + length:
            raise ShapeError("bytes beyond the length announced")
        if len(heard) < HEAD.size + length:
            return None
        return self._answer(kind, grown, memoryview(heard)[HEAD.size :])

    def _answer(self, kind: bytes, grown: int, data: memoryview) -> Answer:
        if kind == BYTES and self._shape.leaf is bytes:
            return Done(bytes(data), grown)
        if kind == DONE and self._shape.leaf is not bytes:
            return Done(self._shape.value(unpack(data)), grown)
        if kind == RAISED:
            name, text, trace = _RAISED.value(unpack(data))
            return Raised(_error(name, text[:MAX_TEXT]), trace[:MAX_TEXT], grown)
        if kind == MEMORY and not data:
            return OutOfMemory()
        raise ShapeError("an answer of an unknown kind")


def _error(name: str, text: str) -> Exception:
    """One of crawld's own errors that says nothing but a sentence, by its name; any other becomes a RuntimeError."""
    kinds = [CrawldError]
    for kind in kinds:
        if f"{kind.__module__}:{kind.__qualname__}" == name and kind.__init__ is Exception.__init__:
            return kind(text)
        kinds += kind.__subclasses__()
    return RuntimeError(f"{name.rpartition(':')[2]}: {text}")


def _exactly(sock: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    view, at = memoryview(data), 0
    while at < length:
        count = sock.recv_into(view[at:])
        if not count:
            raise GoneError
        at += count
    return data
