"""The command line: one verb a file."""

import click

from crawld import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="crawld %(version)s")
def main() -> None:
    """Keep a local copy of a list of web pages fresh within a fixed request rate."""
