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
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from itertools import repeat
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

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


class ShapeForm(Enum):
    """Ways in which the values of a type cross."""

    SAME = "as they are"
    RECORD = "a fixed number of parts, each of its own shape"
    LIST = "any number of items of one shape"
    MAP = "any number of keys and values"
    UNION = "None, or a value of one of several types with the number of its type"
    CHOICE = "one of a few values, by its plain form"
    COLUMN = "an array of numbers, as its bytes"


@dataclass(frozen=True, slots=True)
class Shape:
    """Converts values of one type to plain data, and back."""

    form: ShapeForm
    kind: Any = None
    """The type, or what makes a value of its parts; the values of a choice; the dtype of a column; None: any type."""
    parts: tuple["Shape", ...] = ()
    names: tuple[str, ...] = ()
    """The attributes that are the parts of a record; none where it is a tuple."""
    kinds: tuple[Any, ...] = ()
    """The types of a union."""
    optional: bool = False
    leaf: type | None = None
    """The type of values that cross as they are."""

    def plain(self, value: Any) -> Plain:
        """The value as plain data."""
        form, parts = self.form, self.parts
        if form is ShapeForm.SAME:
            return value
        if form is ShapeForm.RECORD:
            split = tuple(map(getattr, repeat(value), self.names)) if self.names else value
            if len(split) != len(parts):
                raise ValueError(f"{len(split)} parts where there are {len(parts)}")
            plain = []
            for part, one in zip(parts, split):
                plain.append(one if part.form is ShapeForm.SAME else part.plain(one))
            return plain
        if form is ShapeForm.LIST:
            if parts[0].form is ShapeForm.SAME:
                return value if isinstance(value, list | tuple) else list(value)
            return list(map(parts[0].plain, value))
        if form is ShapeForm.CHOICE:
            return value.value if isinstance(value, Enum) else value
        if form is ShapeForm.MAP:
            return dict(zip(map(parts[0].plain, value), map(parts[1].plain, value.values())))
        if form is ShapeForm.COLUMN:
            return np.ascontiguousarray(value, dtype=self.kind).tobytes()
        if value is None and self.optional:
            return None
        if len(parts) == 1:
            return parts[0].plain(value)
        at = list(map(isinstance, repeat(value), self.kinds)).index(True)
        return [at, parts[at].plain(value)]

    def value(self, data: Plain) -> Any:
        """The value that plain data stands for; ShapeError where the data has another shape."""
        form, parts, kind = self.form, self.parts, self.kind
        if form is ShapeForm.RECORD and type(data) is list and len(data) == len(parts):
            values = []
            for part, one in zip(parts, data):
                values.append(one if type(one) is part.leaf else part.value(one))
            try:
                return kind(*values) if kind else tuple(values)
            except (ValueError, TypeError, ArithmeticError) as error:
                raise ShapeError(str(error)) from None
        elif form is ShapeForm.SAME:
            if type(data) is kind or kind is None:
                return data
            if kind is float and type(data) is int:
                return float(data)
        elif form is ShapeForm.LIST and type(data) is list:
            item = parts[0]
            alike = item.leaf is not None and set(map(type, data)) <= {item.leaf}
            return kind(data if alike else map(item.value, data))
        elif form is ShapeForm.MAP and type(data) is dict:
            return dict(zip(map(parts[0].value, data), map(parts[1].value, data.values())))
        elif form is ShapeForm.UNION:
            if data is None and self.optional:
                return None
            if len(parts) == 1:
                return parts[0].value(data)
            if type(data) is list and len(data) == 2 and type(data[0]) is int and 0 <= data[0] < len(parts):
                return parts[data[0]].value(data[1])
        elif form is ShapeForm.CHOICE and isinstance(data, str | int | bytes | None) and data in kind:
            return kind[data]
        elif form is ShapeForm.COLUMN and type(data) is bytes and len(data) % kind.itemsize == 0:
            if kind.kind == "b":  # bytes that are neither 0 nor 1 are no truth values
                return np.frombuffer(data, dtype=np.uint8) != 0
            return np.frombuffer(data, dtype=kind).copy()
        raise ShapeError(f"{type(data).__name__} where {getattr(kind, '__name__', form.value)} belongs")


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

_COLLECTIONS: dict[Any, Callable[[Any], Any]] = {
    tuple: tuple, Sequence: tuple, list: list, set: set, frozenset: frozenset, Set: frozenset,
}  # fmt: skip
"""What a list becomes, by the type that is asked for."""


@lru_cache(None)
def shape_of(hint: Any) -> Shape:
    """The shape of a type; TypeError for one whose values cannot be sent."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in {bool, int, str, bytes, float, None, type(None)}:
        leaf = type(None) if hint is None else hint
        return Shape(ShapeForm.SAME, leaf, leaf=leaf)
    if hint is Any or hint is object:
        return Shape(ShapeForm.SAME)
    if origin is Annotated:
        return shape_of(inner[0])
    if origin in {Union, types.UnionType}:
        kinds = tuple(one for one in inner if one is not type(None))
        parts, origins = map(shape_of, kinds), tuple(get_origin(one) or one for one in kinds)
        return Shape(ShapeForm.UNION, parts=tuple(parts), kinds=origins, optional=len(kinds) < len(inner))
    if origin is Literal:
        return Shape(ShapeForm.CHOICE, {value: value for value in inner})
    if origin is np.ndarray:
        return Shape(ShapeForm.COLUMN, np.dtype(get_args(inner[1])[0]))
    if origin is tuple and inner[-1] is not Ellipsis:
        return Shape(ShapeForm.RECORD, parts=tuple(map(shape_of, inner)))
    if origin in _COLLECTIONS:
        return Shape(ShapeForm.LIST, _COLLECTIONS[origin], (shape_of(inner[0]),))
    if origin in {dict, Mapping}:
        return Shape(ShapeForm.MAP, parts=tuple(map(shape_of, inner)))
    if isinstance(hint, type):
        return _of_class(hint)
    raise TypeError(f"{hint} has no shape")


def _of_class(kind: type) -> Shape:
    if issubclass(kind, Enum):
        return Shape(ShapeForm.CHOICE, {member.value: member for member in kind})
    if kind is range:
        return Shape(ShapeForm.RECORD, range, (shape_of(int),) * 3, ("start", "stop", "step"))
    hints = get_type_hints(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return Shape(ShapeForm.RECORD, kind, tuple(shape_of(hints[name]) for name in kind._fields))
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} has no shape")
    sent = tuple(field.name for field in fields(kind) if field.init)
    make = kind if len(sent) == len(fields(kind)) else lru_cache(LIMITS.rules_kept)(kind)
    return Shape(ShapeForm.RECORD, make, tuple(shape_of(hints[name]) for name in sent), sent)


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


def packed_task(
    work: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[bytes, bytes], Shape]:
    """A task as it is sent, and the shape of its result. Its head and the rest are not joined: a body may be large."""
    shapes = signature_of(work)
    if len(given) > len(shapes.given):
        raise TypeError(f"{shapes.name} takes {len(shapes.given)} arguments")
    plain = list(map(Shape.plain, shapes.given, given))
    more = dict(zip(named, map(Shape.plain, map(shapes.named.__getitem__, named), named.values())))
    data = pack([shapes.name, plain, more])
    return (HEAD.pack(MessageKind.TASK, 0, len(data)), data), shapes.result


def receive_task(sock: socket.socket) -> tuple[Signature, Callable[[], Any]]:
    """Wait for the next task; its signature, and the call to make."""
    _, _, length = HEAD.unpack(_exactly(sock, HEAD.size))
    name, given, named = unpack(_exactly(sock, length))
    module, _, attribute = name.partition(":")
    function = getattr(sys.modules.get(module), attribute, None)  # nothing is imported for it
    if not isinstance(function, types.FunctionType):
        raise ShapeError(f"there is no function {name[:200]!r} here")
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


@dataclass(slots=True)
class AnswerReader:
    """Puts one answer together from the bytes that arrive."""

    shape: Shape
    _heard: bytearray = field(default_factory=bytearray)

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
        said = memoryview(heard)[HEAD.size :]
        if kind == MessageKind.BYTES and self.shape.leaf is bytes:
            return Done(bytes(said), grown)
        if kind == MessageKind.DONE and self.shape.leaf is not bytes:
            return Done(self.shape.value(unpack(said)), grown)
        if kind == MessageKind.RAISED:
            name, text, trace = _RAISED.value(unpack(said))
            return Raised(_error(name, text[: LIMITS.max_text]), trace[: LIMITS.max_text], grown)
        if kind == MessageKind.MEMORY and not said:
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
