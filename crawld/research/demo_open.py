"""The demo in a browser: crawld goes on with the site and serves the dashboard until ctrl-C."""

import asyncio
import os
import signal
import time
import webbrowser
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from crawld.choose.policies import DEFAULT, choose
from crawld.cli.dashboard import own_listener
from crawld.cli.token import token_of
from crawld.main.settings import Settings
from crawld.model.errors import CrawldError
from crawld.research.lab_daemons import LabDaemons
from crawld.show.api.token import login_code


async def serve_until_interrupted(daemons: LabDaemons, name: str) -> None:
    """Let the daemon of that name go on where it stopped, say where its dashboard is, and wait for ctrl-C."""
    daemon = replace(daemons, listen="127.0.0.1:0").enter(name, choose(DEFAULT)).daemon
    running, interrupted, loop = asyncio.create_task(daemon.run()), asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    waiting = asyncio.create_task(_wait(daemons.database(name), interrupted))
    try:
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        daemon.stop()
        waiting.cancel()
        await running


async def _wait(database: Path, interrupted: asyncio.Event) -> None:
    """Tell the link once it works, open it where there is a display, and wait."""
    settings = Settings(database=f"sqlite:///{database}")
    while True:
        try:
            address = await asyncio.to_thread(own_listener, settings)
            break
        except CrawldError:  # not yet; where the daemon ends, so does this
            await asyncio.sleep(0.05)
    link = f"http://{address}/login?code={login_code(token_of(settings), time.time())}"
    told = Console(stderr=True)
    told.print("\nIn the browser until ctrl-C, while the site and crawld go on:\n")
    told.print(f"  {link}", highlight=False, soft_wrap=True)
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        await asyncio.to_thread(webbrowser.open, link)
    await interrupted.wait()
