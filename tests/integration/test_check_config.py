"""`crawld check-config` answers for `crawld run` without starting anything."""

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawld.cli import main
from tests.support.process import OURS, settings


@pytest.fixture(autouse=True)
def _work_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory of its own, and nothing in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in OURS:
        monkeypatch.delenv(name, raising=False)


def check(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, ["check-config", *arguments])


def test_good_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OK, how many pages the list has, what differs from the defaults, and the bad lines as warnings."""
    file = settings(tmp_path, ["http://127.0.0.1:9/a", "ftp://x/"], bandwidth="90/min")
    done = check(str(file))
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, f"OK: {file}, 1 page in the URL list")
    assert "  bandwidth: 1.5/s" in done.stdout
    assert "line 2" in done.stderr
    monkeypatch.setenv("CRAWLD_CONFIG", str(file))
    monkeypatch.setenv("CRAWLD_BANDWIDTH", "7/s")
    found = json.loads(check("--json").stdout)
    assert (found["ok"], found["pages"], found["errors"], len(found["warnings"])) == (True, 1, [], 1)
    assert (found["settings"]["urls"], found["settings"]["bandwidth"]) == (str(tmp_path / "urls.txt"), "7/s")
    assert not (tmp_path / "x.db").exists()


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    """The database is named without it."""
    file = settings(tmp_path, ["http://127.0.0.1:9/a"], database="postgresql://me:hush@db/one")
    done = check(str(file))
    assert "postgresql://me:***@db/one" in done.stdout
    assert "hush" not in done.output


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bandwith": "2/s"}, "bandwith: no such setting"),
        ({"urls": "absent.txt"}, "absent.txt: there is no such file"),
        ({"urls": "."}, "this is a directory"),
        ({"urls": None}, "nothing to crawl"),
        ({"urls": "config.yaml"}, "no usable line"),
        ({"user_agent": "nobody"}, "names no contact"),
        ({"digest": [{"ignore": ["p["]}]}, "digest[0]: rule '*': 'p[' is not a CSS selector"),
        (
            {"digest": [{"mode": "raw", "only": "p"}]},
            "digest[0]: rule '*': selectors and texts to ignore need mode main or text",
        ),
        ({"digest": [{"ignore_text": ["a(?!b)"]}]}, "is not a regular expression RE2 can match"),
        ({"policy": "best", "digest": [{"ignore": ["p["]}]}, "digest[0]: rule '*': 'p[' is not a CSS selector"),
        ({"api": {"socket": "away/x.sock"}}, "away does not exist"),
        ({"api": {"socket": "."}}, "api.socket .: this is a directory"),
        ({"api": {"socket": "x" * 120}}, "at most 80 bytes"),
        ({"api": {"listen": "203.0.113.1:8080"}}, "api.listen 203.0.113.1:8080: Cannot assign"),
        ({"min_interval": "2h", "max_interval": "90min"}, "max_interval: 1.5h is less than min_interval 2h"),
        (
            {"signals": {"share": 0.6}, "audit": {"share": 0.5}, "max_interval": 1},
            "audit.share: 0.6 and 0.5 are more than 1 together",
        ),
        ({"database": "sqlite:///away/x.db"}, "away of the database does not exist"),
    ],
)
def test_bad_settings(tmp_path: Path, more: dict[str, object], said: str) -> None:
    """What would keep the daemon from starting is named, with status 2."""
    file = settings(tmp_path, ["http://127.0.0.1:9/a"], **more)
    done = check(str(file))
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    as_json = check("--json", str(file))
    assert as_json.exit_code == 2
    assert said in " ".join(json.loads(as_json.stdout)["errors"])


def test_a_missing_file_is_named() -> None:
    """There is nothing to check."""
    done = check("absent.yaml")
    assert (done.exit_code, "absent.yaml: cannot be read" in done.stderr) == (2, True)


def test_a_port_in_use_is_a_warning(tmp_path: Path) -> None:
    """The daemon of these settings may be running; durations are shown as they are written."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        file = settings(tmp_path, ["http://127.0.0.1:9/a"], api={"listen": listen}, max_interval=1_814_400)
        done = check(str(file))
    assert done.exit_code == 0
    assert f"warning: api.listen {listen}: in use now" in done.stderr
    assert "  max_interval: 3w" in done.stdout


def test_a_site_to_discover_is_enough(tmp_path: Path) -> None:
    """Settings without a list are good where pages can be found."""
    file = settings(tmp_path, [], urls=None, discover=[{"site": "https://example.org/"}])
    assert check(str(file)).exit_code == 0
