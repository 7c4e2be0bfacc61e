"""A consumer of changes as anybody would write it: `python changes_consumer.py ADDRESS TOKEN FILE`.

It appends each change to the file, a JSON object a line, and goes on from the last line when it starts again.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path


def last_number(file: Path) -> int:
    """The cursor: the number in the last whole line; what was written of another is cut off."""
    content = file.read_bytes() if file.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        with file.open("r+b") as opened:
            opened.truncate(len(whole))
    lines = whole.splitlines()
    return int(json.loads(lines[-1])["id"]) if lines else 0


def main(address: str, token: str, file: Path) -> None:
    """Consume until killed."""
    cursor = last_number(file)
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while True:
        url = f"{address}/v1/changes?after={cursor}&wait=30&limit=7"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        if found["missed"]:
            sys.exit("changes were missed")
        for change in found["changes"]:
            os.write(out, json.dumps(change).encode() + b"\n")
        cursor = found["cursor"]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
