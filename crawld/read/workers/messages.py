"""Plain data of known shapes: all that crosses between the daemon and a worker.

A shape is made from a type annotation. Both ends make the shapes of a task from the signature of its function, so that
a message holds numbers, texts, bytes, lists and maps alone, and never says what is to be made of them. What does not
have the shape that was asked for is a ShapeError. docs/decisions/workers.md says why it is not pickle.
"""

import inspect
import socket
import struct
import sys
import types
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import msgpack
import numpy as np

from crawld.model.errors import CrawldError


@dataclass(frozen=True)
class MessagesLimits:
    """Numbers that bound and tune this module."""

    max_items: int = 500_000
    """Items of one list or map."""
    max_big_bytes: int = 64
    """Bytes of a number that does not fit into 64 bits."""
    rules_kept: int = 256
    """Values with derived parts, such as compiled rules, that are remembered by what they were made from."""
    big: int = 1
    max_text: int = 10_000
    """Characters of an error and of its trace."""
    max_bytes: int = 64 << 20
    max_plain: int = 32 << 20
    """Of an answer that is bytes, and of any other; honest ones have a few megabytes at most."""


LIMITS = MessagesLimits()


Plain = Any
"""Values that msgpack can hold."""


class ShapeError(ValueError):
    """Data that does not have the shape that was asked for."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Converts values of one type to plain data, and back."""

    plain: Callable[[Any], Plain]
    value: Callable[[Plain], Any]  # ShapeError where the data has another shape
    leaf: type | None = None  # the type of both, where they are the same


@dataclass(frozen=True, slots=True)
class Signature:
    """The shapes of what a function takes and returns."""

    name: str  # module:function
    given: tuple[Shape, ...]
    named: Mapping[str, Shape]
    result: Shape


@lru_cache(LIMITS.rules_kept)
def signature_of(function: Callable[..., Any]) -> Signature:
    """The shapes of a function at the top level of a module, by its annotations."""
    hints = get_type_hints(function)
    names = list(inspect.signature(function).parameters)
    shapes = {name: shape_of(hints[name]) for name in names}
    name = f"{function.__module__}:{function.__qualname__}"
    return Signature(name, tuple(shapes.values()), shapes, shape_of(hints["return"]))


def function_named(name: str) -> Callable[..., Any]:
    """The function that a task names; nothing is imported for it."""
    module, _, function = name.partition(":")
    found = getattr(sys.modules.get(module), function, None)
    if not isinstance(found, types.FunctionType):
        raise ShapeError(f"there is no function {name[:200]!r} here")
    return found


def pack(data: Plain) -> bytes:
    """Plain data as bytes."""
    packed: bytes = msgpack.packb(data, default=_unusual, unicode_errors="surrogatepass")
    return packed


def unpack(data: bytes | bytearray | memoryview) -> Plain:
    """Bytes as plain data; ShapeError where they are not that."""
    try:
        return msgpack.unpackb(
            data,
            ext_hook=_big,
            strict_map_key=False,
            unicode_errors="surrogatepass",
            max_array_len=LIMITS.max_items,
            max_map_len=LIMITS.max_items,
        )
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise ShapeError(f"no plain data: {error}") from None


def _unusual(value: Any) -> Plain:
    """A number of numpy's, or one beyond 64 bits."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, int):
        return msgpack.ExtType(LIMITS.big, value.to_bytes(LIMITS.max_big_bytes, "big", signed=True))
    raise TypeError(f"{type(value).__name__} is no plain data")


def _big(code: int, data: bytes) -> int:
    if code != LIMITS.big or len(data) != LIMITS.max_big_bytes:
        raise ShapeError("unknown extension")
    return int.from_bytes(data, "big", signed=True)


# -- shapes of types ----------------------------------------------------------------------------------------------


@lru_cache(None)
def shape_of(hint: Any) -> Shape:
    """The shape of a type; TypeError for one whose values cannot be sent."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _LEAVES:
        return _LEAVES[hint]
    if hint is Any or hint is object:
        return _SAME
    if origin is Annotated:
        return shape_of(inner[0])
    if origin in {Union, types.UnionType}:
        return _union(inner)
    if origin is Literal:
        return _one_of({value: value for value in inner})
    if origin is np.ndarray:
        return _array(np.dtype(get_args(inner[1])[0]))
    if origin is tuple and inner[-1] is not Ellipsis:
        return _record(tuple(map(shape_of, inner)), lambda *parts: parts, tuple)
    if origin in _COLLECTIONS:
        return _collection(shape_of(inner[0]), _COLLECTIONS[origin])
    if origin in {dict, Mapping}:
        return _map(shape_of(inner[0]), shape_of(inner[1]))
    if isinstance(hint, type):
        return _of_class(hint)
    raise TypeError(f"{hint} has no shape")


def _wrong(wanted: object, data: Plain) -> NoReturn:
    raise ShapeError(f"{type(data).__name__} where {wanted} belongs")


def _same(value: Any) -> Any:
    return value


def _leaf(kind: type) -> Shape:
    def value(data: Plain) -> Any:
        return data if type(data) is kind else _wrong(kind.__name__, data)

    return Shape(_same, value, kind)


def _real(data: Plain) -> float:
    return float(data) if type(data) is float or type(data) is int else _wrong("float", data)


_SAME = Shape(_same, _same)
_LEAVES: dict[Any, Shape] = {kind: _leaf(kind) for kind in (bool, int, str, bytes, type(None))}
_LEAVES |= {None: _LEAVES[type(None)], float: Shape(_same, _real)}
_COLLECTIONS: dict[Any, Callable[[Any], Any]] = {
    tuple: tuple, Sequence: tuple, list: list, set: set, frozenset: frozenset, Set: frozenset,
}  # fmt: skip


def _collection(item: Shape, made: Callable[[Any], Any]) -> Shape:
    """Any number of items of one shape; a sequence comes back as a tuple."""

    def plain(value: Any) -> Plain:
        if item.leaf is not None:
            return value if isinstance(value, list | tuple) else list(value)
        return [item.plain(one) for one in value]

    def value(data: Plain) -> Any:
        if type(data) is not list:
            _wrong("a list", data)
        if item.leaf is None:
            return made(map(item.value, data))
        if not set(map(type, data)) <= {item.leaf}:
            _wrong(f"a list of {item.leaf.__name__}", data)
        return made(data)

    return Shape(plain, value)


def _map(key: Shape, item: Shape) -> Shape:
    def plain(value: Mapping[Any, Any]) -> Plain:
        return {key.plain(name): item.plain(one) for name, one in value.items()}

    def value(data: Plain) -> Any:
        if type(data) is not dict:
            _wrong("a map", data)
        return {key.value(name): item.value(one) for name, one in data.items()}

    return Shape(plain, value)


def _record(parts: tuple[Shape, ...], make: Callable[..., Any], split: Callable[[Any], Sequence[Any]]) -> Shape:
    """A fixed number of parts, each of its own shape; what `make` refuses has another shape."""
    count = len(parts)
    to_plain, to_value = tuple(part.plain for part in parts), tuple(part.value for part in parts)

    def plain(value: Any) -> Plain:
        return [part(one) for part, one in zip(to_plain, split(value), strict=True)]

    def value(data: Plain) -> Any:
        if type(data) is not list or len(data) != count:
            _wrong(f"a list of {count}", data)
        given = [part(one) for part, one in zip(to_value, data)]
        try:
            return make(*given)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise ShapeError(str(error)) from None

    return Shape(plain, value)


def _one_of(values: Mapping[Any, Any]) -> Shape:
    """One of a few values, each by its plain form."""

    def value(data: Plain) -> Any:
        found = values.get(data, values) if isinstance(data, str | int | bytes | None) else values
        return _wrong(f"one of {list(values)}", data) if found is values else found

    return Shape(lambda one: one.value if isinstance(one, Enum) else one, value)


def _union(hints: tuple[Any, ...]) -> Shape:
    """A value of one of several types: None as it is, the others with the number of their type."""
    others = [hint for hint in hints if hint is not type(None)]
    shapes = [shape_of(hint) for hint in others]
    kinds = [get_origin(hint) or hint for hint in others]
    optional = len(others) < len(hints)
    if len(others) == 1:
        only = shapes[0]
        return Shape(
            lambda one: None if one is None else only.plain(one),
            lambda data: None if data is None else only.value(data),
        )

    def plain(value: Any) -> Plain:
        if value is None and optional:
            return None
        exact = next((at for at, kind in enumerate(kinds) if type(value) is kind), None)
        at = exact if exact is not None else next(at for at, kind in enumerate(kinds) if isinstance(value, kind))
        return [at, shapes[at].plain(value)]

    def value(data: Plain) -> Any:
        if data is None and optional:
            return None
        if type(data) is not list or len(data) != 2 or type(data[0]) is not int or not 0 <= data[0] < len(shapes):
            _wrong("one of several types", data)
        return shapes[data[0]].value(data[1])

    return Shape(plain, value)


def _array(dtype: np.dtype[Any]) -> Shape:
    """A column of numbers, as its bytes."""

    def plain(value: Any) -> bytes:
        data: bytes = np.ascontiguousarray(value, dtype=dtype).tobytes()
        return data

    def value(data: Plain) -> Any:
        if type(data) is not bytes or len(data) % dtype.itemsize:
            _wrong(f"a column of {dtype}", data)
        if dtype.kind == "b":  # bytes that are neither 0 nor 1 are no truth values
            return np.frombuffer(data, dtype=np.uint8) != 0
        return np.frombuffer(data, dtype=dtype).copy()

    return Shape(plain, value)


def _of_class(kind: type) -> Shape:
    if issubclass(kind, Enum):
        return _one_of({member.value: member for member in kind})
    if kind is range:
        whole = (_LEAVES[int],) * 3
        return _record(whole, range, lambda value: (value.start, value.stop, value.step))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return _record(tuple(shape_of(hints[name]) for name in kind._fields), kind, tuple)
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} has no shape")
    hints, sent = get_type_hints(kind), [field.name for field in fields(kind) if field.init]
    derived = len(sent) < len(fields(kind))
    make = lru_cache(LIMITS.rules_kept)(kind) if derived else kind
    shapes = tuple(shape_of(hints[name]) for name in sent)
    return _record(shapes, make, lambda value: [getattr(value, name) for name in sent])


HEAD = struct.Struct("!cQQ")  # kind, bytes by which the worker has grown, length
_RAISED = shape_of(tuple[str, str, str])


class MessageKind(bytes, Enum):
    """The first byte of a message between the pool and its workers; a length and so many bytes follow."""

    TASK = b"T"
    DONE = b"D"
    BYTES = b"B"
    RAISED = b"R"
    MEMORY = b"M"


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
    return HEAD.pack(MessageKind.TASK, 0, len(data)), data


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
    kind, grown, data = MessageKind.MEMORY, 0, b""
    if isinstance(answer, Done):
        kind, grown = (MessageKind.BYTES if shape.leaf is bytes else MessageKind.DONE), answer.grown
        data = (
            answer.result
            if isinstance(answer.result, bytes) and kind == MessageKind.BYTES
            else pack(shape.plain(answer.result))
        )
    elif isinstance(answer, Raised):
        kind, grown, error = MessageKind.RAISED, answer.grown, type(answer.error)
        texts = (
            f"{error.__module__}:{error.__qualname__}",
            str(answer.error)[: LIMITS.max_text],
            answer.trace[-LIMITS.max_text :],
        )
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
        if length > (LIMITS.max_bytes if kind == MessageKind.BYTES else LIMITS.max_plain):
            raise ShapeError(f"an answer of {length} bytes")
        if len(heard) > HEAD.size + length:
            raise ShapeError("bytes beyond the length announced")
        if len(heard) < HEAD.size + length:
            return None
        return self._answer(kind, grown, memoryview(heard)[HEAD.size :])

    def _answer(self, kind: bytes, grown: int, data: memoryview) -> Answer:
        if kind == MessageKind.BYTES and self._shape.leaf is bytes:
            return Done(bytes(data), grown)
        if kind == MessageKind.DONE and self._shape.leaf is not bytes:
            return Done(self._shape.value(unpack(data)), grown)
        if kind == MessageKind.RAISED:
            name, text, trace = _RAISED.value(unpack(data))
            return Raised(_error(name, text[: LIMITS.max_text]), trace[: LIMITS.max_text], grown)
        if kind == MessageKind.MEMORY and not data:
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
