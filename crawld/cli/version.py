"""Version of this crawld, where it was installed from, and the revision of the database that it writes."""

import json
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

import crawld
from crawld.store.schema import latest_revision


def version_line() -> str:
    """As `crawld --version` prints it: `crawld 0.2.0 (checkout /src, commit 0123abc; database revision 0016)`."""
    return f"crawld {crawld.__version__} ({_origin()}; database revision {latest_revision()})"


def _origin() -> str:
    """Returns where the running code came from: a checkout, with its commit, or what was installed."""
    top = Path(crawld.__file__).resolve().parents[1]
    if (top / "pyproject.toml").is_file():
        commit = _commit(top)
        return f"checkout {top}" + (f", commit {commit}" if commit else "")
    try:
        told = metadata.distribution("crawld").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return f"copied to {top}"
    if told is None:
        return "wheel from a package index"  # pip writes the file for everything that was named directly
    given = json.loads(told)
    if commit := given.get("vcs_info", {}).get("commit_id"):
        return f"{given['url']}, commit {commit[:10]}"
    place = Path(unquote(urlsplit(given["url"]).path))
    return f"wheel {place.name}" if place.suffix == ".whl" else f"built from {place}"


def _commit(top: Path) -> str | None:
    """The commit that a checkout is at, read from git's own files; None where there are none."""
    try:
        folder = top / ".git"
        if folder.is_file():  # of a worktree
            folder = top / folder.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (folder / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head[:10]
        shared = folder / "commondir"
        common = folder / shared.read_text(encoding="utf-8").strip() if shared.is_file() else folder
        name = head.removeprefix("ref: ")
        if (common / name).is_file():
            return (common / name).read_text(encoding="utf-8").strip()[:10]
        packed = (common / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((line.split()[0][:10] for line in packed if line.endswith(f" {name}")), None)
    except OSError:
        return None
