"""A group whose commands are imported when they are called, so that help stays quick."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Knows its commands by name and sentence, and each one's module."""

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
        command = importlib.import_module(self._modules[cmd_name]).command
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """The list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._sentences.items()))
