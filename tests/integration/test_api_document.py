"""The examples of docs/api.md, run as they stand against a real daemon."""

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.daemon import running, until
from tests.support.process import ENVIRONMENT, ROOT, free_port
from tests.support.site import Site

DOCUMENT = (ROOT / "docs/api.md").read_text(encoding="utf-8")
EXAMPLES = [line for block in DOCUMENT.split("```")[1::2] if block.startswith("\n") for line in block.splitlines()[1:]]


async def run(line: str, folder: Path, environment: dict[str, str]) -> str:
    """What a line of shell prints; it has to succeed."""
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", line, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, f"{line}: {err.decode()}"
    return out.decode()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
async def test_every_example_works(tmp_path: Path) -> None:
    """Each prints an answer, and no mistake."""
    port, bin_folder = free_port(), tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "crawld").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m crawld "$@" --database sqlite:///x.db\n')
    (bin_folder / "crawld").chmod(0o755)
    async with Site() as site:
        page = site.url("/cue/1")
        api = {"listen": f"127.0.0.1:{port}"}
        async with running(tmp_path, [page], api=api) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["new"] == 1)
            site.change("/cue/1")
            await until(lambda: daemon.crawler.status.verdicts["changed"] == 1)
            await daemon.store.flush()
            found = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "PAGE": page, "HOST": site.host()}
            environment = ENVIRONMENT | found
            setting = [line for line in EXAMPLES if line.startswith("export ")]
            here = "; ".join(setting).replace("8642", str(port))
            for line in EXAMPLES:
                if line in setting:
                    continue
                said = await run(f"{here}; {line}".replace("crawld.db.sock", "x.db.sock"), tmp_path, environment)
                assert said.strip(), line
                assert '"error"' not in said, f"{line}: {said}"
                if "/v1/" in line and not re.search("/copy|unified|/events", line):
                    json.loads(said)
    assert len(EXAMPLES) > 20
