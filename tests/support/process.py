"""The real daemon as a real process, for tests that end it, kill it and steer it."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tests.support import warm

ROOT = Path(__file__).parents[2]
OURS = {"CRAWLD_CONFIG", "CRAWLD_URLS", "CRAWLD_BANDWIDTH", "CRAWLD_DATABASE", "COLUMNS"}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in OURS} | {
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
}

AFRESH = {"PYTHONNOUSERSITE": "1"}
"""With this in its environment a command is a Python of its own, and the processes below it are its own children."""
HANG_SECONDS = 300.0
"""After which something counts as hanging; how fast the machine is decides nothing."""


@dataclass(slots=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


async def command(*arguments: str, cwd: Path, given: bytes = b"", env: Mapping[str, str] | None = None) -> Ended:
    """Run `crawld ARGUMENTS` to its end, with `env` added to the environment."""
    words = [sys.executable, "-m", "crawld", *arguments]
    process = await _started(words, cwd=cwd, env=env or {}, given=given)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        return Ended(await process.wait(), out.decode(), err.decode())
    except asyncio.CancelledError:
        process.send_signal(signal.SIGKILL)
        raise


class Running:
    """A daemon under way; its log lines are collected."""

    def __init__(self, process: asyncio.subprocess.Process | warm.Started) -> None:
        self.process = process
        self.log: list[str] = []
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode().rstrip())

    async def until_logged(self, text: str, seconds: float = HANG_SECONDS) -> str:
        """The first log line that holds the text."""
        async with asyncio.timeout(seconds):
            while True:
                for line in self.log:
                    if text in line:
                        return line
                if self._reader.done():
                    raise AssertionError(f"ended without logging {text!r}:\n" + "\n".join(self.log))
                await asyncio.sleep(0.02)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        status = await self.process.wait()
        await self._reader
        return status


@asynccontextmanager
async def daemon(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> AsyncIterator[Running]:
    """`crawld run ARGUMENTS` while the block runs; killed at its end if it still lives."""
    async with program([sys.executable, "-m", "crawld", "run", *arguments], cwd=cwd, env=env) as running:
        yield running


def daemon_by_shell(script: str, cwd: Path) -> AbstractAsyncContextManager[Running]:
    """A daemon that a script of bash becomes; {} in it stands for Python."""
    return program(["bash", "-c", script.format(sys.executable)], cwd=cwd)


@asynccontextmanager
async def program(words: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> AsyncIterator[Running]:
    """A program that logs as the daemon does, while the block runs."""
    running = Running(await _started(words, cwd=cwd, env=env or {}, shown=True))
    try:
        yield running
    finally:
        await running.end(signal.SIGKILL)


async def _started(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], given: bytes = b"", shown: bool = False
) -> asyncio.subprocess.Process | warm.Started:
    """Start a program: `python -m crawld` from the template, anything else afresh.

    With `shown`, what it prints goes where the tests' own output goes.
    """
    whole = ENVIRONMENT | dict(env)
    decided = any(name.startswith(warm.DECIDE_AT_START) for name in env)
    if list(words[:3]) == [sys.executable, "-m", "crawld"] and not decided:
        return await warm.TEMPLATE.start(words[3:], cwd, whole, given, shown=shown)
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=cwd,
        env=whole,
        stdin=asyncio.subprocess.PIPE,
        stdout=None if shown else asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.close()
    return process


def settings(folder: Path, urls: Sequence[str], /, **more: object) -> Path:
    """A settings file for pages on loopback, polite enough for tests; returns its path."""
    import yaml

    (folder / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
    given: dict[str, object] = {
        "urls": "urls.txt",
        "database": "sqlite:///x.db",
        "allow_private": ["127.0.0.0/8"],
        "politeness": {"delay": 0, "per_host": 100},
        "min_interval": 0.5,
        "api": {"listen": None},  # several run at once
        "log": {"crawls": True},  # tests wait for single crawls
    }
    # Asking without conditions now and then is drawn by chance, and a change found so is checked by a request more.
    fetch = {"unconditional_share": 0, **cast("Mapping[str, object]", more.pop("fetch", {}))}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(given | more | {"fetch": fetch}))
    return file


def runs(pid: int) -> bool:
    """Whether a process still runs: one that has ended stays listed until its parent, or process 1, asks how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def ask_control(control: Path, method: str, path: str, given: dict[str, Any]) -> bytes:
    """Ask the control socket; the body of the answer."""
    body = json.dumps(given).encode()
    reader, writer = await asyncio.open_unix_connection(control)
    head = f"{method} {path} HTTP/1.1\r\nHost: crawld\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        writer.write(head.encode() + body)
        answer = await reader.read()
    finally:
        writer.close()
    assert b" 200 " in answer[:20], answer
    return answer.partition(b"\r\n\r\n")[2]
