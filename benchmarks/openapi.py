"""Checks the API against its description: `python -m benchmarks.openapi [--examples N] [--json]`.

A real daemon crawls a site that keeps changing while schemathesis (the extra `benchmark`) sends requests made from
`/v1/openapi.json`, right and wrong ones; then again, for what asks for a page, with the URL of one that is there.
Nothing may answer 5xx, nor with a status, type or body that is not described. The stream of events never ends and is
left out.
"""

import asyncio
import shutil
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from benchmarks import argument_parser, show
from crawld.show.api.access import make_token
from tests.support.process import daemon, settings
from tests.support.site import Site

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
PAGES = 10


async def keep_changing(site: Site) -> None:
    """Let pages change, so that clients that wait for changes are answered."""
    for number in range(1_000_000):
        site.change(f"/cue/{number % PAGES}")
        await asyncio.sleep(0.2)


async def run(examples: int) -> dict[str, object]:
    """Runs schemathesis against a daemon; returns its exit status and the errors that the daemon logged."""
    tool = shutil.which("schemathesis") or str(Path(sys.executable).with_name("schemathesis"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        token = make_token(folder / "x.db.token")
        async with Site() as site:
            urls = [site.url(f"/cue/{number}") for number in range(PAGES)]
            port = _free_port()
            file = settings(folder, urls, bandwidth="20/s", api={"listen": f"127.0.0.1:{port}"})
            async with daemon("--config", str(file), cwd=folder) as running:
                await running.until_logged("ready")
                changing = asyncio.create_task(keep_changing(site))
                (folder / "schemathesis.toml").write_text(f'[parameters]\nurl = "{urls[0]}"\n')
                words = [tool, "run", f"http://127.0.0.1:{port}/v1/openapi.json"]
                words += ["--header", f"Authorization: Bearer {token}", "--checks", CHECKS]
                words += ["--exclude-path", "/v1/events", "--max-examples", str(examples), "--seed", "1"]
                words += ["--request-timeout", "70", "--no-color"]
                status = await _run(words, folder.parent)  # where no file tells of the URL
                status |= await _run([*words, "--include-path-regex", "copy|diff|page|versions|changes"], folder)
                changing.cancel()
                with suppress(asyncio.CancelledError):
                    await changing
                faults = [line for line in running.log if "ERROR" in line or "Traceback" in line]
                return {"schemathesis_status": status, "daemon_errors": faults[:20]}


async def _run(words: list[str], folder: Path) -> int:
    return await (await asyncio.create_subprocess_exec(*words, cwd=folder, stdout=sys.stderr)).wait()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def main() -> None:
    """Run it."""
    parser = argument_parser(__doc__)
    parser.add_argument("--examples", type=int, default=30)
    options = parser.parse_args()
    found = asyncio.run(run(options.examples))
    show(found, as_json=options.json)
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
