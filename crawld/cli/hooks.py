"""`crawld hooks`: who is told of changes, what waits for them, and a way to try one."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from crawld.cli.options import Commands
from crawld.cli.remote import AS_JSON, CONFIG, CommandTarget, targeted
from crawld.cli.tables import moment, name, number, print_rows, word
from crawld.main.settings import Settings, load
from crawld.model.errors import InputError, StoreError

COLUMNS = (
    name("hook"),
    word("kind", 60),
    word("target", 40),
    word("pattern", 30),
    number("waiting", 95),
    number("delivered", 80),
    number("dropped", 90),
    moment("delivered_at", 50),
    word("trouble", 85),
)
NOTHING: dict[str, Any] = {
    "waiting": 0, "waiting_since": None, "delivered": 0, "dropped": 0, "delivered_at": None, "trouble": None,
    "trouble_since": None,
}  # fmt: skip


@click.group(name="hooks", cls=Commands, invoke_without_command=True)
@targeted
@AS_JSON
@click.pass_context
def command(context: click.Context, target: CommandTarget, as_json: bool) -> None:
    """Show the hooks of the settings: what waits for each, what was delivered and dropped, and what is wrong.

    The figures are those of the database, whether the daemon runs or not. `crawld hooks test NAME` tries a hook.
    """
    context.obj = target.config_file
    if context.invoked_subcommand is not None:
        return
    settings = target.load()
    rows = _rows(settings, target)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif not rows:
        click.echo("there are no hooks: see `hooks` in config.yaml and docs/hooks.md")
    else:
        print_rows("hooks", rows, COLUMNS)


def _rows(settings: Settings, target: CommandTarget) -> list[dict[str, Any]]:
    try:
        kept = target.read(lambda reader: reader.hooks())
    except StoreError as error:
        if settings.hooks:
            click.echo(f"warning: {error}", err=True)
        kept = {}
    about = [
        {"hook": hook.name, "kind": hook.kind, "target": hook.target, "pattern": hook.pattern, "queue": hook.queue}
        for hook in settings.hooks
    ]
    return [row | NOTHING | kept.get(str(row["hook"]), {}) for row in about]


@command.command()
@click.argument("hook", metavar="NAME")
@click.option("--url", default="https://example.org/", show_default=True, help="The page that has changed.")
@CONFIG
@click.pass_context
def test(context: click.Context, hook: str, url: str, config_file: Path | None) -> None:
    """Tell one hook of a change that did not happen, and say what came of it; nothing is queued or tried again.

    The change is marked with `"test": true` and has the number 0. The status is 1 where it was not taken.
    """
    settings = load(config_file or context.obj)
    given = next((one for one in settings.hooks if one.name == hook), None)
    if given is None:
        known = ", ".join(one.name for one in settings.hooks) or "none"
        raise InputError(f"there is no hook named {hook}. Hooks of these settings: {known}")
    from crawld.main.checks import check_hook, make_hook, user_agent
    from crawld.model.clock import SystemClock
    from crawld.model.crawl import ChangeVerdict
    from crawld.store.hooks import HookDelivery
    from crawld.store.views import Change

    check_hook(given, settings)
    change = Change(0, 0, url, time.time(), ChangeVerdict.CHANGED, None, None, None)
    document = json.dumps(change.document() | {"test": True})

    async def sent() -> str | None:
        transport = make_hook(given, settings, SystemClock(), user_agent(settings)).transport
        try:
            failed = await transport.send([HookDelivery(0, document)])
        finally:
            await transport.close()
        return None if failed is None else failed.detail

    if (trouble := asyncio.run(sent())) is not None:
        click.echo(f"crawld: {hook} was not told: {trouble}", err=True)
        sys.exit(1)
    click.echo(f"{hook} was told: {given.target} took the change")
