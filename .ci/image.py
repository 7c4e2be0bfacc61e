"""Executes the lines of the Dockerfile in this root file system, one by one, as a builder and an engine would."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ENVIRONMENT = {"PATH": os.environ["PATH"]} | {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}


def instructions(file: Path) -> list[tuple[str, str]]:
    """The instructions, joined over continued lines, without comments."""
    text = file.read_text().replace("\\\n", " ")
    return [tuple(line.split(" ", 1)) for line in text.splitlines() if line and not line.startswith("#")]  # type: ignore[misc]


def expanded(value: str) -> str:
    """A value with the variables of the image in it."""
    for name, known in ENVIRONMENT.items():
        value = value.replace(f"${name}", known)
    return value


def main() -> None:
    """Build, start with a list of one page on loopback, wait until it is healthy, and stop."""
    user, folder, health, start = None, "/", [], {}
    for word, rest in instructions(Path("Dockerfile")):
        print(f"{word} {rest}", flush=True)
        if word == "COPY":
            *sources, target = (one for one in shlex.split(rest) if not one.startswith("--"))
            if not rest.startswith("--from"):  # all stages share this file system
                shutil.copytree(sources[0], target)
        elif word == "RUN":
            subprocess.run(["/bin/sh", "-c", rest], check=True, env=ENVIRONMENT, cwd=folder)
        elif word == "ENV":
            ENVIRONMENT.update(
                (name, expanded(value)) for name, _, value in (one.partition("=") for one in shlex.split(rest))
            )
        elif word == "USER":
            user = tuple(map(int, rest.split(":")))
        elif word == "WORKDIR":
            folder = rest
        elif word in {"ENTRYPOINT", "CMD"}:
            start[word] = json.loads(rest)
        elif word == "HEALTHCHECK":
            health = json.loads(rest.partition("CMD ")[2])
    assert user is not None
    assert 0 not in user, "the image runs as root"
    Path("/etc/crawld").mkdir()
    Path("/etc/crawld/config.yaml").write_text(
        "urls: urls.txt\nallow_private: [127.0.0.0/8]\napi: {listen: '0.0.0.0:8642'}\n"
    )
    Path("/etc/crawld/urls.txt").write_text("http://127.0.0.1:8642/healthz\n")
    own = {"env": ENVIRONMENT, "cwd": folder, "user": user[0], "group": user[1], "extra_groups": []}
    words = [*start["ENTRYPOINT"], *start["CMD"]]
    words[0] = shutil.which(words[0], path=ENVIRONMENT["PATH"]) or words[0]
    health[0] = shutil.which(health[0], path=ENVIRONMENT["PATH"]) or health[0]
    daemon = subprocess.Popen(words, **own)
    try:
        while subprocess.run(health, **own, check=False, stderr=subprocess.DEVNULL).returncode:
            assert daemon.poll() is None, f"the daemon ended with {daemon.returncode}"
            time.sleep(1)
        print("healthy", flush=True)
        subprocess.run([words[0], "stats"], check=True, **own)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait() == 0
    finally:
        daemon.kill()
    print(sorted(one.name for one in Path("/data").iterdir()))


sys.exit(main())
