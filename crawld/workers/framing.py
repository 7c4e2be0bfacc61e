"""Messages between the pool and its workers: a length, and so many bytes of pickle."""

import pickle
import socket
import struct
from typing import Any

LENGTH = struct.Struct("!Q")


class GoneError(ConnectionError):
    """The other side has closed its end."""


def packed(message: object) -> tuple[bytes, bytes]:
    """A message as it is sent: its length, and the message. They are not joined, because a body may be large."""
    data = pickle.dumps(message, protocol=5)
    return LENGTH.pack(len(data)), data


def unpacked(data: bytes | bytearray | memoryview) -> Any:
    """The message that was packed, without its length."""
    return pickle.loads(data)  # noqa: S301 - both ends are this program


def send(sock: socket.socket, message: object) -> None:
    """Send a message over a blocking socket."""
    for part in packed(message):
        sock.sendall(part)


def receive(sock: socket.socket) -> Any:
    """Wait for the next message on a blocking socket."""
    length = LENGTH.unpack(_exactly(sock, LENGTH.size))[0]
    return unpacked(_exactly(sock, length))


def _exactly(sock: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    view, at = memoryview(data), 0
    while at < length:
        count = sock.recv_into(view[at:])
        if not count:
            raise GoneError
        at += count
    return data
