"""The demo in a browser: crawld goes on with the site and serves the dashboard until ctrl-C."""

import asyncio
import os
import signal
import socket
import webbrowser
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from rich.console import Console

from crawld.cli.trials.lab_daemons import LabDaemons
from crawld.policies.policies import DEFAULT, choose


async def serve_until_interrupted(daemons: LabDaemons, name: str) -> None:
    """Let the daemon of that name go on where it stopped, say where its dashboard is, and wait for ctrl-C."""
    port = _free_port()
    daemon = replace(daemons, listen=f"127.0.0.1:{port}").enter(name, choose(DEFAULT)).daemon
    running, interrupted, loop = asyncio.create_task(daemon.run()), asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    waiting = asyncio.create_task(_wait(daemons.database(name), port, interrupted))
    try:
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        daemon.stop()
        waiting.cancel()
        await running


async def _wait(database: Path, port: int, interrupted: asyncio.Event) -> None:
    """Tell the link once it works, open it where there is a display, and wait."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            break
    token = database.with_name(f"{database.name}.token").read_text(encoding="ascii").strip()
    link = f"http://127.0.0.1:{port}/login?token={quote(token, safe='')}"
    told = Console(stderr=True)
    told.print("\nIn the browser until ctrl-C, while the site and crawld go on:\n")
    told.print(f"  {link}", highlight=False, soft_wrap=True)
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        await asyncio.to_thread(webbrowser.open, link)
    await interrupted.wait()


def _free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
