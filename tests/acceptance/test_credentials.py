"""Credentials in a real daemon: who gets them, what a reload does, and that nothing that is written holds one."""

from pathlib import Path

from tests.support.benchmark_command import figures_of
from tests.support.daemon import rows, running, until
from tests.support.site import Site, Visit

TOKEN = "right-token-0123"


async def test_nothing_that_is_written_holds_a_secret(tmp_path: Path) -> None:
    """After redirects, errors, reloads and a crash no file, row, log line or answer has a secret, nor any stranger."""
    found = await figures_of("leaks", "--seconds", "0", "--short", "--keep", str(tmp_path))
    assert (found["leaks"], found["strangers"]) == ([], 0)
    assert found["sent"] > 100
    assert found["seen"] > 10
    assert "bodies" in found["seen_in"]  # the search sees what is packed


async def test_a_reload_takes_new_credentials_over(tmp_path: Path) -> None:
    """Pages that asked for a login are crawled as soon as the file is mended, also with their host in back-off."""

    async def private(visit: Visit) -> None:
        right = visit.seen.headers.get("authorization") == f"Bearer {TOKEN}"
        await visit.reply("<p>Private words.</p>", 200 if right else 401)

    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("wrong-token-0123")
    async with Site() as site:
        site.pages |= {f"/private/{number}": private for number in range(15)}
        urls = [site.url(f"/private/{number}") for number in range(15)]
        given = {"origin": site.url(""), "bearer_file": str(file), "allow_http": True}
        async with running(tmp_path, urls, credentials=[given], politeness={"delay": 0, "per_host": 1}) as daemon:
            gate = daemon.crawler.gate
            await until(lambda: gate.backs_off(gate.host(site.host())))
            file.chmod(0o644)
            refused = await daemon.reload(False)
            assert "others may use this file" in str(refused.refused)
            file.chmod(0o600)
            file.write_text(TOKEN)
            assert (await daemon.reload(False)).applied == ["credentials"]
            await until(lambda: daemon.crawler.status.verdicts["new"] == 15)
            assert not daemon.crawler.pages.turned_away()
    assert rows(tmp_path, "SELECT DISTINCT trouble FROM crawls WHERE verdict = 'failed'") == [("login_required",)]
