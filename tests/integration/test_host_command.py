"""`crawld host`: lists and steers hosts, with a daemon and without one."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawld.cli import main
from crawld.cli.remote import ask_at
from crawld.model.errors import CrawldError, InputError
from crawld.model.host import host_name
from crawld.model.signal import Signal, SignalTrust, Source
from crawld.store.store import SqlStore
from tests.support.process import OURS, command, daemon, settings
from tests.support.site import Site


@pytest.fixture
def _pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of a daemon that is stopped, with pages on three hosts."""
    monkeypatch.chdir(tmp_path)
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    urls = ["https://example.org/a", "https://example.org/b", "https://www.example.net/", "http://10.0.0.1:8080/"]
    added = CliRunner().invoke(main, ["urls", "add", *urls])
    assert (added.exit_code, f"the change is in {Path.cwd() / 'crawld.db'}" in added.stderr) == (0, True)


def host(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, ["host", *arguments])


def listed() -> dict[str, dict[str, object]]:
    """`crawld host list` by host, in its order."""
    return {row["host"]: row for row in json.loads(host("list", "--json").stdout)}


@pytest.mark.usefixtures("_pages")
def test_a_stopped_daemon_is_steered_in_its_database() -> None:
    """Block, delay and their ends are kept; hosts that are steered come first."""
    assert list(listed()) == ["example.org", "10.0.0.1:8080", "www.example.net"]
    assert host("www.example.net", "block").stdout == "www.example.net: blocked\n"
    assert host("10.0.0.1:8080", "delay", "2min").stdout == "10.0.0.1:8080: not blocked, 120 s between requests\n"
    assert list(listed()) == ["www.example.net", "10.0.0.1:8080", "example.org"]
    assert (listed()["www.example.net"]["blocked"], listed()["10.0.0.1:8080"]["delay_seconds"]) == (True, 120.0)
    shown = host("list").stdout.splitlines()
    assert "blocked" in shown[0]
    assert "delay 2 min" in shown[1]
    assert "delay 2 min" in host("10.0.0.1:8080").stdout
    for end in (["www.example.net", "unblock"], ["10.0.0.1:8080", "delay", "default"]):
        assert json.loads(host(*end, "--json").stdout) | {"host": ""} == {
            "host": "", "blocked": False, "delay": None, "blocked_until": 0.0, "spacing_seconds": 1.0, "kept": True,
        }  # fmt: skip
    assert host("10.0.0.1:8080", "delay", "default").stdout == "10.0.0.1:8080: not blocked, 1 s between requests\n"
    assert list(listed()) == ["example.org", "10.0.0.1:8080", "www.example.net"]
    assert "… and 2 more" in host("list", "--limit", "1").stdout


@pytest.mark.usefixtures("_pages")
def test_which_signals_are_heard_is_told_in_words() -> None:
    """The host, its pages and the statistics say which sources are heard and why; --json has the same."""

    async def judge() -> None:
        store = SqlStore("sqlite:///crawld.db")
        await store.start()
        store.record_signals([Signal(1, source, 1e9) for source in (Source.SITEMAP, Source.SITEMAP_BULK, Source.FEED)])
        why = {Source.SITEMAP: "it foresaw 9 of 12 changes", Source.SITEMAP_BULK: "every build stamps every page"}
        trust = [SignalTrust("example.org", s, s is Source.SITEMAP, 4.0, 12, text) for s, text in why.items()]
        await store.save_signal_trust(trust)
        await store.close()

    asyncio.run(judge())
    told = host("example.org").stdout.splitlines()
    assert "  feed, 1 signal, not judged yet" in told
    assert "  sitemap, 1 signal, heard: it foresaw 9 of 12 changes" in told
    assert "  sitemap_bulk, 1 signal, not heard: every build stamps every page" in told
    heard = {one["source"]: one["heard"] for one in json.loads(host("example.org", "--json").stdout)["signals"]}
    assert heard == {"feed": None, "sitemap": True, "sitemap_bulk": False}
    page = CliRunner().invoke(main, ["explain", "https://example.org/a"]).stdout
    assert [line.split(maxsplit=1)[1] for line in page.splitlines() if line.startswith("heard")] == [
        "sitemap: it foresaw 9 of 12 changes"
    ]
    assert "sitemap_bulk: every build stamps every page" in page
    assert "every build stamps every page" in CliRunner().invoke(main, ["stats", "--signals"]).stdout


@pytest.mark.usefixtures("_pages")
@pytest.mark.parametrize("name", ["EXAMPLE.org", "https://Example.ORG/somewhere", "example.org:443", "example.org:80"])
def test_a_host_is_found_however_it_is_written(name: str) -> None:
    """Upper case, a URL and the usual port all mean the same host."""
    assert host(name, "block").exit_code == 0
    assert [row["host"] for row in listed().values() if row["blocked"]] == ["example.org"]
    assert len(listed()) == 3


@pytest.mark.usefixtures("_pages")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("example.net", "www.example.net"),
        ("exmple.org", "example.org"),
        ("10.0.0.1", "mean 10.0.0.1:8080?"),
        ("nowhere.invalid", "host list"),
    ],
)
def test_an_unknown_host_is_refused(name: str, said: str) -> None:
    """Status 1, the host that may be meant, and nothing is written."""
    for arguments in ([name, "block"], [name, "delay", "5s"], [name]):
        done = host(*arguments)
        assert done.exit_code == 1
        assert f"{name}: no page is on this host" in done.stderr
        assert said in done.stderr
    assert len(listed()) == 3


@pytest.mark.usefixtures("_pages")
@pytest.mark.parametrize(
    "arguments", [["example.org", "delay"], ["example.org", "block", "5s"], ["list", "delay"], ["list", "block"]]
)
def test_incomplete_words_are_answered_with_examples(arguments: list[str]) -> None:
    """Status 2 and the ways to write it."""
    done = host(*arguments)
    assert (done.exit_code, "crawld host HOST delay 10s" in done.stderr) == (2, True)


@pytest.mark.usefixtures("_pages")
@pytest.mark.parametrize("arguments", [["urls", "add", "foo"], ["urls", "remove", "foo"], ["explain", "foo"]])
def test_a_bad_url_is_named_as_it_was_given(arguments: list[str]) -> None:
    """Without a line number or an importance that nobody wrote."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "'foo': no http:// or https:// in front\n" in done.stderr
    assert "line 1" not in done.stderr


@pytest.mark.usefixtures("_pages")
def test_get_says_why_there_is_no_copy() -> None:
    """A page that was never fetched differs from one that nobody listed."""
    said = [CliRunner().invoke(main, ["get", f"https://example.org/{path}"]).stderr for path in ("a", "absent")]
    assert "no copy of https://example.org/a: it has not been fetched yet" in said[0]
    assert "https://example.org/absent is not known here" in said[1]


@pytest.mark.usefixtures("_pages")
def test_two_tables_at_once() -> None:
    """`stats --hosts --pages` shows both; as JSON they are parts of one object."""
    done = CliRunner().invoke(main, ["stats", "--hosts", "--pages"])
    assert done.exit_code == 0
    assert "Hosts" in done.stdout
    assert "Pages" in done.stdout
    both = json.loads(CliRunner().invoke(main, ["stats", "--pages", "--hosts", "--json"]).stdout)
    assert {name: len(rows) for name, rows in both.items()} == {"pages": 4, "hosts": 3}


@pytest.mark.parametrize("text", ["", "a b", "https://", "user@example.org"])
def test_what_is_no_host_is_refused(text: str) -> None:
    """A sentence says why."""
    with pytest.raises(InputError):
        host_name(text)


async def test_a_running_daemon_is_steered_at_once(tmp_path: Path) -> None:
    """It refuses unknown hosts too, drops a delay, and the database shows what was said."""
    async with Site() as site:
        file = settings(tmp_path, [site.url("/ok/1")], bandwidth="5/s")
        given = ["--config", str(file)]
        async with daemon(*given, cwd=tmp_path) as running:
            await running.until_logged("verdict=new")
            done = await command("host", site.url("/x"), "delay", "7s", *given, "--json", cwd=tmp_path)
            assert json.loads(done.out)["delay"] == 7.0
            shown = json.loads((await command("host", "list", *given, "--json", cwd=tmp_path)).out)
            assert [(row["host"], row["delay_seconds"]) for row in shown] == [(site.host(), 7.0)]
            done = await command("host", site.host(), "delay", "none", *given, "--json", cwd=tmp_path)
            assert json.loads(done.out)["delay"] is None
            unknown = await command("host", "nowhere.invalid", "block", *given, cwd=tmp_path)
            assert unknown.status == 1
            with pytest.raises(CrawldError, match=r"nowhere\.invalid: no page is on this host"):
                await asyncio.to_thread(
                    ask_at, tmp_path / "x.db.sock", "PUT", "/hosts/Nowhere.invalid", {"blocked": True}
                )
