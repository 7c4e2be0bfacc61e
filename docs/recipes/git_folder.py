"""A folder of Markdown files in git.

Every page is a file, every synchronisation a commit: `git log -p` is the history of what you read, and any tool that
reads Markdown reads it. The version of each page stands in `index.json`, so only what changed is written.

Run it from a timer. Each file begins with the page's title, address and language, and headings carry their anchors
(`## Set-up {#setup}`), so a passage can be cited by its address.
"""

import hashlib
import json
import re
import subprocess
from pathlib import Path

from crawld.client import BlockingClient


def file_of(url: str) -> str:
    """A name that people can read, with a few digits that tell alike ones apart."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", url.partition("://")[2]).strip("_")[:80]
    return f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}.md"


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def sync(client: BlockingClient, folder: Path) -> int:
    """Bring the folder up to date and commit; how many pages differed."""
    folder.mkdir(exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init")
    index = folder / "index.json"
    known = json.loads(index.read_text()) if index.exists() else {}
    count = 0
    for change in client.reconcile(dict(known), include="markdown"):
        file = folder / file_of(change.url)
        if change.deletes:
            file.unlink(missing_ok=True)
            known.pop(change.url, None)
        else:
            file.write_text(change.markdown or "", encoding="utf-8")
            known[change.url] = change.version
        count += 1
    if count:
        index.write_text(json.dumps(known, indent=1, sort_keys=True))
        git(folder, "add", "--all")
        git(folder, "commit", "-m", f"{count} pages differ")
    return count
