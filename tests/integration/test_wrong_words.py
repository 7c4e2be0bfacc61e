"""Words that no command expects: every argument and every option answers with a sentence, never with a traceback."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from crawld.cli import main
from tests.support.process import OURS

PAGE = "https://example.org/a"
WORDS = ("\udcff", "9" * 21, "/nowhere/x")
"""A byte that is not UTF-8, a number that no column holds, a file in a folder that is not there."""
SKIPPED = {"demo", "install-service", "lab", "mcp", "ray", "run", "simulate", "top"}
"""What would start something, or change the machine."""


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that ends by itself, with the words that call it."""
    context = click.Context(group)
    for name in sorted(set(group.list_commands(context)) - SKIPPED):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name), found


def calls(words: tuple[str, ...], command: click.Command) -> Iterator[list[str]]:
    """The command with a wrong word in each place."""
    places = sum(isinstance(one, click.Argument) for one in command.params)
    options = [one for one in command.params if isinstance(one, click.Option) and not one.is_flag]
    for wrong in WORDS:
        yield [*words, *[wrong] * max(places, 1)]
        for option in options:
            yield [*words, *[PAGE] * places, option.opts[-1], wrong]


@pytest.mark.parametrize(
    ("words", "command"), list(commands()), ids=lambda one: "-".join(one) if isinstance(one, tuple) else ""
)
def test_a_wrong_word_is_answered_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], command: click.Command
) -> None:
    """With a database that holds a page, and no daemon."""
    monkeypatch.chdir(tmp_path)
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    assert CliRunner().invoke(main, ["urls", "add", PAGE]).exit_code == 0
    for call in calls(words, command):
        ended = CliRunner().invoke(main, call, input="")
        assert ended.exception is None or isinstance(ended.exception, SystemExit), (call, ended.exception)
        assert ended.exit_code in {0, 1, 2}, call
