"""A benchmark run as people run it: a command that prints JSON."""

import asyncio
import json
import sys
from typing import Any

from tests.support.process import ENVIRONMENT, HANG_SECONDS, ROOT


async def figures_of(name: str, *options: str, status: int = 0) -> Any:
    """What `python -m benchmarks.NAME OPTIONS --json` prints, with the exit status that is expected of it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"benchmarks.{name}", *options, "--json",
        cwd=ROOT, env=ENVIRONMENT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await asyncio.wait_for(process.communicate(), HANG_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == status, err.decode() + out.decode()
    return json.loads(out)
