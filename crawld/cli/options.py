"""Option types that more than one command takes."""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from crawld.model.errors import InputError
from crawld.model.units import parse_rate


class Commands(click.Group):
    """Answers a misspelt command with the one that may be meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with."""
        given = args[0]
        if not given.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, given) is None:
            from crawld.model.mistakes import close_to

            names = self.list_commands(ctx)
            meant = close_to(given, [name.replace("-", "_") for name in names])
            hint = f"Did you mean {meant[0].replace('_', '-')!r}?" if meant else f"There are: {', '.join(names)}."
            ctx.fail(f"No such command {given!r}. {hint}")
        return super().resolve_command(ctx, args)


class LazyGroup(Commands):
    """Knows its commands by name, sentence and place: a module whose `command` it is, or `module:name`."""

    def __init__(self, *args: Any, sentences: Mapping[str, str], modules: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sentences, self._modules = sentences, modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Every command, in the order a newcomer meets them."""
        return list(self._sentences)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """The command of that name, or None."""
        if cmd_name not in self._sentences:
            return None
        module, _, name = self._modules[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name or "command")
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """The list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._sentences.items()))


def settings_file(sentence: str, **more: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option that names the file of settings."""
    kind = click.Path(path_type=Path, readable=False)
    return click.option("--config", "config_file", type=kind, envvar="CRAWLD_CONFIG", help=sentence, **more)


ALLOW_PRIVATE = click.option(
    "--allow-private", metavar="NETWORK", multiple=True, help="A private network that may be asked; repeatable."
)


def rate(given: str) -> float:
    """`2/s`, `90/min` or `5000/day`, in requests per second; else an error that names the option."""
    try:
        return parse_rate(given)
    except InputError as error:
        raise click.BadParameter(str(error)) from None
