"""What pages say reaches a terminal as text: no command passes an escape, a control or a hidden turn of the line."""

import asyncio
import json
import logging
import os
import pty
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from crawld.cli.terminal import shown
from crawld.model.logs import JsonLines, TextLines
from crawld.model.units import printable
from tests.support.behaviours import answer
from tests.support.daemon import running, until
from tests.support.process import ENVIRONMENT, ROOT
from tests.support.site import Site
from tests.support.warm import TEMPLATE

NASTY = (
    "\x1b]0;owned\x07"  # a window's title (OSC)
    "\x1b]52;c;b3duZWQ=\x07"  # the clipboard
    "\x1b[2J\x1b[31m\x1b[8mhidden\x1b[0m"  # erases, colours and conceals (CSI)
    "\x9b31m\x9downed\x9c\x90q\x9c"  # the same in one byte each (C1)
    "\x1bP$q\x1b\\\x1b(0\x1bc"  # a device's strings, other letters, a reset
    "safe\u202egnp.exe\u2066\u200b\ufeff"  # turned around, and unseen
    "\r\x08\x0b\x0c"
)
ACTING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|.)", re.DOTALL)
OWN = re.compile(r"\[(?:(?:0|1|2|3|4|7|9|22|23|24|29|3[0-7]|39|9[0-7]);?)*m|\[\?(?:25|1049)[hl]|\[[0-9]*[AK]|\[H")


async def on_terminal(*words: str) -> str:
    """Run a command on a terminal of its own; all that it wrote there."""
    ours, theirs = pty.openpty()
    environment = ENVIRONMENT | {"TERM": "xterm-256color", "COLUMNS": "200", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    process = await TEMPLATE.start(words, ROOT, environment, terminal=theirs)
    os.close(theirs)
    said = await asyncio.to_thread(_read, ours)
    await process.wait()
    return said.decode("utf-8", "replace").replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """Everything until the other end is closed."""
    said = b""
    try:
        while data := os.read(terminal, 65536):
            said += data
    except OSError:  # how Linux says that the other end is closed
        pass
    finally:
        os.close(terminal)
    return said


def check(said: str) -> None:
    """Nothing of what was said acts, but for what the command line uses itself."""
    assert not ACTING.search(said), repr(said)
    for found in SEQUENCE.finditer(said):
        assert OWN.fullmatch(found[1]), repr(said[max(found.start() - 40, 0) : found.end() + 40])
    assert "\x1b[8m" not in said
    assert "\x1b[2J" not in said


async def test_no_command_passes_on_what_a_page_does_to_terminals(tmp_path: Path) -> None:
    """Every command that shows pages, hosts or troubles is run on a terminal with a page that attacks it."""
    body = f"<html><head><title>{NASTY}</title></head><body><p>first {NASTY}</p></body></html>"
    async with Site() as site:
        site.pages["/ok/1"] = answer(body)
        url, database = site.url("/ok/1"), f"sqlite:///{tmp_path}/x.db"
        async with running(tmp_path, [url], keep_bodies="changes") as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            site.pages["/ok/1"] = answer(body.replace("first", f"second {NASTY} and more of it"))
            await until(lambda: daemon.crawler.status.verdicts["changed"] >= 1)
            top = await on_terminal("top", "--once", "--database", database)
        check(top)
        with sqlite3.connect(tmp_path / "x.db") as db:
            db.execute("UPDATE crawls SET detail = ?, trouble = 'protocol', verdict = 'failed'", (NASTY,))
        commands = [
            ("get", url),
            ("get", url, "--text"),
            ("get", url, "--markdown"),
            ("get", url, "--compared"),
            ("diff", url),
            ("diff", url, "--unified"),
            ("diff", url, "--json"),
            ("explain", url),
            ("explain", url, "--json"),
            ("changes",),
            ("changes", "--json"),
            ("stats",),
            ("stats", "--pages"),
            ("stats", "--hosts"),
            ("host", "list"),
            ("urls", "list"),
            ("export", "--text"),
            ("export", "--format", "csv"),
            ("forecast",),
            ("hooks",),
            ("get", f"{url}{NASTY}"),
        ]
        said = await asyncio.gather(*(on_terminal(*words, "--database", database) for words in commands))
        for one in said:
            check(one)
        told = dict(zip(commands, said, strict=True))
        assert "second" in told["get", url]
        assert "\\u001b]0;owned" in told["get", url]
        assert "\\u202e" in told["diff", url]
        piped = subprocess.run(
            [sys.executable, "-m", "crawld", "get", url, "--database", database],
            capture_output=True,
            env=ENVIRONMENT,
            cwd=ROOT,
            check=True,
        )
        assert NASTY.encode() in piped.stdout


@pytest.mark.parametrize("lines", [TextLines(), JsonLines()])
def test_log_lines_are_text(lines: TextLines | JsonLines) -> None:
    """What others wrote stands in a log line without effect, whatever its format."""
    record = logging.makeLogRecord({"msg": "crawl", "detail": NASTY, "url": "http://a/"})
    said = lines.format(record)
    assert not ACTING.search(said)
    assert "\x1b" not in said
    assert "\\u001b" in said


def test_own_colours_pass_and_nothing_else() -> None:
    """Colours, cursor movements and bars of the command line stay as they are; others are written out."""
    for own in ("\x1b[31mred\x1b[0m", "\x1b[38;5;8mgrey\x1b[0m", "\x1b[2K\x1b[1A", "\x1b[?25l", "\r\x1b[?25l 3 %"):
        assert shown(own) == own
    for other in ("\x1b[8m", "\x1b[1;8m", "\x1b]0;x\x07", "\x1bc", "\x9b31m", "\x1b[6n", "a\rb", "\u202e"):
        assert shown(other) == printable(other)


def test_written_out_text_means_the_same_in_json() -> None:
    """JSON with characters written out is the same document."""
    document = {"text": NASTY + "\U000e0041 ü 漢 \U0001f600"}
    assert json.loads(printable(json.dumps(document, ensure_ascii=False))) == document
