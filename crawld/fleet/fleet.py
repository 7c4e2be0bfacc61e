"""`crawld fleet`: several workers on one PostgreSQL that are one crawler; one verb a file."""

import click

from crawld.cli.lazy_group import LazyGroup

COMMANDS = {
    "init": "Make a PostgreSQL database a fleet's, from a single daemon's or empty.",
    "apply": "Put settings and a URL list in force for every worker.",
    "run": "Run one worker.",
    "status": "Workers, shards, grants, and what is wrong.",
    "drain": "Move a worker's shards to the others.",
    "export": "Write a fleet's database out for a single daemon.",
    "ray": "Place workers on a Ray cluster, and keep them running.",
}


@click.group(
    name="fleet",
    cls=LazyGroup,
    sentences=COMMANDS,
    modules={name: f"{__name__}.{name}" for name in COMMANDS},
)
def command() -> None:
    """Run several workers, on as many machines as you like, as one crawler: one rate, one list, one control.

    `crawld fleet init` prepares the database once. Commands that steer and read (`crawld bandwidth`, `pause`, `host`,
    `urls`, `stats`, `explain`, `changes`, `forecast`) work from every machine that reaches it. See docs/fleet.md.
    """
