"""The command line: one verb a file. Commands are imported when they are called, so that help stays quick."""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import click

from crawld.cli.options import LazyGroup
from crawld.cli.terminal import guarded
from crawld.model.errors import CrawldError
from crawld.model.units import printable

NO_MEMORY = "there is not enough memory: raise its limit (ulimit -v, MemoryMax), or give it fewer pages"
NO_ROOM = ("can't start new thread", "failed to map segment", "annot allocate memory")
"""Messages of the interpreter and the loader."""
_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
TRY_AGAIN = 75  # EX_TEMPFAIL in sysexits.h
COMMANDS = {
    "run": "Run the daemon: keep the pages of a URL list fresh.",
    "check-config": "Check settings and URL list without starting anything.",
    "demo": "Watch crawld keep a living site fresh, offline, in a minute.",
    "top": "Watch the running daemon on a live screen.",
    "stats": "What is wrong, how fresh the copy is, and what was learnt.",
    "forecast": "How fresh the copy would be at other bandwidths.",
    "explain": "What is believed of a page, and why it is not crawled just now.",
    "get": "Print the copy of a page, with its age and freshness.",
    "search": "Find pages by the words of their text.",
    "mcp": "Serve the copies to agents, as tools of MCP.",
    "hooks": "Who is told of changes, and what waits for them; try one.",
    "changes": "Print changes by cursor, and follow them.",
    "diff": "Show what changed between two versions of a page.",
    "export": "Write pages and their copies: JSON lines, CSV, WARC.",
    "urls": "Add, remove, list and import pages.",
    "refresh": "Crawl pages now, before all others.",
    "bandwidth": "Show or change the running daemon's request rate.",
    "pause": "Pause the running daemon.",
    "resume": "Resume a paused daemon.",
    "host": "List hosts; block, unblock or slow down one.",
    "reload": "Have the running daemon read its settings and URL list again.",
    "dashboard": "Print the link to the dashboard, and open it in the browser.",
    "token": "Print the token that programs send to the listener.",
    "keys": "Make, list and rotate the keys that requests are signed with.",
    "fleet": "Run several workers on one PostgreSQL as one crawler.",
    "install-service": "Print or install the systemd unit of the daemon, or of a fleet's workers.",
    "lab": "Compare crawlers on a living site that knows the truth, offline.",
    "simulate": "Run the experiments of the papers with the daemon's own scheduler.",
}
_ELSEWHERE = {
    **{name: f"crawld.cli.steering:{name}" for name in ("pause", "resume", "bandwidth", "refresh", "reload")},
    "token": "crawld.cli.dashboard:token",
    "fleet": "crawld.fleet.commands",
    **{name: f"crawld.research.{name}" for name in ("demo", "lab", "simulate")},
}
"""Commands that share a module, and those of packages above this one; the others have a module here."""


class _Commands(LazyGroup):
    """Shows what crawld raises on purpose."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what crawld raises on purpose is shown as a sentence, with status 2."""
        with guarded():
            try:
                return super().invoke(ctx)
            except CrawldError as error:
                click.echo(f"crawld: {printable(str(error))}", err=True)
            except Exception as error:
                if _out_of_memory(error):
                    click.echo(f"crawld: {NO_MEMORY}", err=True)
                    sys.stdout.flush()
                    os._exit(TRY_AGAIN)  # threads that could not end must not keep it
                sentence = _given_sentence(error)
                if sentence is None:
                    raise
                click.echo(f"crawld: {printable(sentence)}", err=True)
            sys.exit(2)


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from crawld.cli.version import version_line

        click.echo(version_line())
        ctx.exit()


def _given_sentence(error: Exception) -> str | None:
    """Names what is wrong with a given file or word, or with the disk; None where the error is crawld's own."""
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:  # bytes of the command line
        return f"{error.object!r} is not UTF-8"
    if not isinstance(error, OSError) or error.strerror is None:
        return None
    if error.filename is None:
        return f"what is printed cannot be written: {error.strerror}" if error.errno in _CANNOT_WRITE else None
    path = Path(os.fsdecode(error.filename))
    if isinstance(error, PermissionError):
        from crawld.model.access import access_refused

        return str(access_refused(path))
    return f"{path}: {error.strerror}"


def _out_of_memory(error: BaseException | None) -> bool:
    """Tells whether memory ran out: allocations fail, and so do threads and libraries that find no room."""
    while error is not None:
        no_room = isinstance(error, RuntimeError | ImportError) and any(words in str(error) for words in NO_ROOM)
        if isinstance(error, MemoryError) or no_room or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        error = error.__cause__ or error.__context__
    return False


@click.group(
    cls=_Commands,
    sentences=COMMANDS,
    modules={name: _ELSEWHERE.get(name, f"crawld.cli.{name.replace('-', '_')}") for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it and exit."
)
def main() -> None:
    """Keep a local copy of a list of web pages fresh within a fixed request rate."""
    # Each further thread of OpenBLAS reserves memory, and the products here are small.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
