"""Names for what can go wrong between two sockets: every exception of the client becomes a trouble with a scope.

What never became a complete answer (no name, no connection, no handshake, no answer in time, a body broken off) may be
the host's trouble, which the gate decides by what else the host answers. What is wrong with a complete answer concerns
its page.
A forbidden address is the host's trouble, since every address of that host was refused.
"""

import asyncio
import errno
import ssl

import aiohttp
from aiohttp import http_exceptions

from crawld.fetch.guard import ForbiddenAddressError
from crawld.model.fetched import Scope, Trouble

FAULTS = (aiohttp.ClientError, http_exceptions.HttpProcessingError, OSError, TimeoutError, ValueError, EOFError)
"""Everything the client is known to raise for what a server, a name server or a URL does."""

Fault = tuple[Trouble, Scope, str]


def classify(error: BaseException, *, reused: bool = False) -> Fault:
    """The trouble, its scope, and a sentence for the operator.

    A server may close a kept connection at the very moment it is `reused`; that says nothing about the host.
    """
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return Trouble.TIMEOUT, Scope.HOST, _timeout(error)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Trouble.TLS, Scope.HOST, f"certificate not accepted: {_words(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Trouble.DNS, Scope.HOST, f"name not resolved: {_words(error.os_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _not_connected(error.os_error)
    if isinstance(error, aiohttp.ClientPayloadError | http_exceptions.PayloadEncodingError):
        return Trouble.PROTOCOL, Scope.HOST, f"body broken off: {_words(error)}"
    if reused and isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError):
        return Trouble.REFUSED, Scope.PAGE, "a kept connection was closed as it was used again"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return Trouble.REFUSED, Scope.HOST, "connection closed by the server before an answer"
    if isinstance(error, aiohttp.ClientResponseError | http_exceptions.HttpProcessingError):
        return Trouble.PROTOCOL, Scope.HOST, f"not an HTTP answer: {_words(error)}"
    if isinstance(error, ssl.SSLError):
        return Trouble.TLS, Scope.HOST, f"TLS failed: {_words(error)}"
    if isinstance(error, OSError):
        return _not_connected(error)
    return Trouble.PROTOCOL, Scope.PAGE, _words(error)


def _timeout(error: BaseException) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "no connection in time"
    if isinstance(error, aiohttp.SocketTimeoutError):
        return "no bytes in time"
    return "no complete answer in time"


def _not_connected(error: OSError) -> Fault:
    if isinstance(error, ForbiddenAddressError):
        detail = f"{error.address} is refused ({error.reason}); allow_private can name its network"
        return Trouble.FORBIDDEN_ADDRESS, Scope.HOST, detail
    if isinstance(error, ssl.SSLError):
        return Trouble.TLS, Scope.HOST, f"TLS failed: {_words(error)}"
    if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:  # our own limits
        return Trouble.REFUSED, Scope.PAGE, f"this machine is at its limit: {_words(error)}"
    if error.errno == errno.ECONNREFUSED:
        return Trouble.REFUSED, Scope.HOST, "connection refused"
    if error.errno in {errno.ECONNRESET, errno.EPIPE}:
        return Trouble.REFUSED, Scope.HOST, "connection reset by the server"
    if error.errno == errno.ETIMEDOUT:
        return Trouble.TIMEOUT, Scope.HOST, "no connection in time"
    return Trouble.REFUSED, Scope.HOST, f"not connected: {_words(error)}"


def printable(text: str) -> str:
    """Text that a server chose, safe for a log line and a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _words(error: BaseException) -> str:
    """The first line of an error's own text, short enough for a log line."""
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error) or type(error).__name__
    return printable(" ".join(str(text)[:1000].split())[:200])
