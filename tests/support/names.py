"""A real name server on loopback whose answers a test decides, and may change between two questions."""

import asyncio
import ipaddress
import struct
from dataclasses import dataclass, field
from types import TracebackType

from aiohttp.resolver import AsyncResolver

_A, _AAAA = 1, 28
_NO_SUCH_NAME = 3


@dataclass
class NameServer(asyncio.DatagramProtocol):
    """Answers A and AAAA questions from `addresses`; a name it does not have does not exist."""

    addresses: dict[str, list[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    async def __aenter__(self) -> "NameServer":
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self.port = self._transport.get_extra_info("sockname")[1]
        self.resolver = AsyncResolver(nameservers=[f"127.0.0.1:{self.port}"], timeout=60.0, tries=1)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.resolver.close()
        self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer one question."""
        name, end = _name(data)
        wanted, _ = struct.unpack_from(">HH", data, end)
        self.asked.append(name)
        found = [ipaddress.ip_address(text) for text in self.addresses.get(name, [])]
        fitting = [one.packed for one in found if wanted == (_A if one.version == 4 else _AAAA)]
        flags = 0x8180 | (0 if found else _NO_SUCH_NAME)
        answer = data[:2] + struct.pack(">HHHHH", flags, 1, len(fitting), 0, 0) + data[12 : end + 4]
        for packed in fitting:
            answer += struct.pack(">HHHIH", 0xC00C, wanted, 1, 0, len(packed)) + packed
        self._transport.sendto(answer, addr)


def _name(data: bytes) -> tuple[str, int]:
    """The name in a question, and where it ends."""
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode("ascii").lower())
        at += 1 + data[at]
    return ".".join(labels), at + 1
