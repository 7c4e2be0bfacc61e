"""Asking a running daemon over its control socket."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import click

from crawld.config import load
from crawld.errors import CrawldError

CONFIG = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    envvar="CRAWLD_CONFIG",
    help="The daemon's settings (YAML).",
)
DATABASE = click.option(
    "--database", metavar="URL", envvar="CRAWLD_DATABASE", help="The daemon's database, which tells its socket."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")


class NotRunningError(CrawldError):
    """No daemon answers."""


def ask(
    config_file: Path | None, database: str | None, method: str, path: str, body: dict[str, object] | None = None
) -> dict[str, Any]:
    """One question to the daemon of these settings, or NotRunningError; a refusal is raised in its own words."""
    return ask_at(load(config_file, {"database": database}).control_socket(), method, path, body)


def ask_at(
    socket: Path, method: str, path: str, body: dict[str, object] | None = None, *, seconds: float = 300.0
) -> dict[str, Any]:
    """The same of the daemon at a socket, which may take so long to answer."""
    return asyncio.run(_ask(socket, method, path, body, seconds))


async def _ask(socket: Path, method: str, path: str, body: dict[str, object] | None, seconds: float) -> dict[str, Any]:
    connector = aiohttp.UnixConnector(path=str(socket))
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.request(method, f"http://crawld{path}", json=body) as response,
        ):
            answer = json.loads(await response.text())
    except (aiohttp.ClientConnectionError, OSError):
        raise NotRunningError(f"no daemon answers at {socket}. Is it running, with this database?") from None
    if response.status >= 400:
        raise CrawldError(str(answer.get("error", answer)))
    return answer  # type: ignore[no-any-return]


def quoted(text: str) -> str:
    """Text as a part of a path or query."""
    return quote(text, safe="")
