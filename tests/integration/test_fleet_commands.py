"""The commands of a fleet and those that steer and read it, on a real PostgreSQL."""

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from crawld.cli import main

Command = Callable[..., Result]


@pytest.fixture
def crawld(postgres_url: str) -> Command:
    """Runs a command on a database of its own."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, [*words, "--database", postgres_url])

    return run


def test_init_makes_a_fleet_once(crawld: Command) -> None:
    """It says what it made; a second time changes nothing, and another number of shards is refused in a sentence."""
    made = crawld("fleet", "init", "--shards", "8", "--bandwidth", "20/s")
    assert made.exit_code == 0, made.output
    assert made.output.startswith("made a fleet of 8 shards at 20/s")
    assert crawld("fleet", "init", "--shards", "8").output == "it is a fleet of 8 shards already: nothing changed\n"
    assert json.loads(crawld("fleet", "init", "--shards", "8", "--json").output) == {"made": False, "shards": 8}
    refused = crawld("fleet", "init")
    assert refused.exit_code == 2
    assert "has 8 shards, and their number is fixed" in refused.output


def test_a_fleet_needs_postgresql() -> None:
    """A file cannot be shared by workers."""
    refused = CliRunner().invoke(main, ["fleet", "init", "--database", "sqlite:////tmp/crawld.db"])
    assert refused.exit_code == 2
    assert "a fleet needs PostgreSQL" in refused.output
