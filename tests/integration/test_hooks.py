"""Hooks of a real daemon: webhooks to a real receiver, commands that are run, notifications, and the commands."""

import asyncio
import json
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from crawld.hooks.transports import Command, Notification, message
from crawld.store.hooks import HookDelivery
from crawld.store.views import Change
from tests.support.daemon import rows, running, until
from tests.support.process import command, runs
from tests.support.receiver import SECRET, Receiver, hook
from tests.support.site import Site

DELIVERY = HookDelivery(5, '{"id": 5, "url": "https://example.org/a", "verdict": "changed"}')


async def test_a_webhook_is_told_of_what_fits_and_says_who_we_are(tmp_path: Path) -> None:
    """New, changed and gone, in order, signed; other pages and the crawl itself are not concerned."""
    async with Site() as site, Receiver() as receiver:
        urls = [site.url("/cue/1"), site.url("/cue/2")]
        hooks = [hook(receiver, pattern="*/cue/1")]
        async with running(tmp_path, urls, hooks=hooks):
            await until(lambda: len(receiver.taken) == 1 and len(site.visits("/cue/2")) >= 1)
            site.change("/cue/1")
            site.change("/cue/2")
            await until(lambda: len(receiver.taken) == 2)
    assert [(one["url"], one["verdict"]) for one in receiver.taken] == [(urls[0], "new"), (urls[0], "changed")]
    assert receiver.taken[0]["id"] < receiver.taken[1]["id"]
    told = {one.name.removeprefix("moved_") for one in fields(Change)} - {"text", "markdown"}  # only where included
    assert set(receiver.taken[0]) == told, "as /v1/changes tells it"
    headers = receiver.requests[0].headers
    assert headers["User-Agent"].startswith("crawld/")
    assert headers["X-Crawld-Delivery"] == str(receiver.taken[0]["id"])
    assert rows(tmp_path, "SELECT name, delivered, dropped, trouble FROM hooks") == [("receiver", 2, 0, None)]
    assert rows(tmp_path, "SELECT count(*) FROM deliveries") == [(0,)]


async def test_a_receiver_that_hangs_costs_the_crawl_nothing(tmp_path: Path) -> None:
    """Slots are used, pages are crawled and changes are recorded while nothing can be delivered."""
    async with Site() as site, Receiver() as receiver:
        receiver.delay = 60.0
        urls = [site.url(f"/poisson/{number}?rate=5") for number in range(20)]
        async with running(tmp_path, urls, hooks=[hook(receiver)], digest=[{"mode": "raw"}]) as daemon:
            await until(lambda: daemon.crawler.status.verdicts["changed"] >= 60)
            await daemon.store.flush()
            assert daemon.store.healthy
            assert receiver.taken == []
        assert rows(tmp_path, "SELECT count(*) FROM changes")[0][0] >= 60


async def test_a_command_gets_the_change_on_its_input_and_no_shell(tmp_path: Path) -> None:
    """Arguments are passed as they are, the environment holds no secrets, and status 0 means taken."""
    out = tmp_path / "out"
    said = "sys.stdin.read() + '|' + sys.argv[2] + '|' + ' '.join(os.environ)"
    script = f"import os, sys; open(sys.argv[1], 'w').write({said})"
    ran = Command([sys.executable, "-c", script, str(out), "$HOME; `id`"], 30.0, "x")
    assert await ran.send([DELIVERY]) is None
    given, argument, environment = out.read_text().split("|")
    assert json.loads(given)["id"] == 5
    assert argument == "$HOME; `id`"
    assert "CRAWLD_HOOK" in environment
    assert "CRAWLD_DATABASE" not in environment


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with status 3"),
        ([sys.executable, "-c", "import time; time.sleep(600)"], "took longer than 1 s and was killed"),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], "was ended by signal 9"),
        (["/no/such/program"], "cannot be run"),
    ],
)
async def test_a_command_that_fails_says_how(words: list[str], said: str) -> None:
    """And one that hangs is killed."""
    failed = await Command(words, 1.0).send([DELIVERY])
    assert failed is not None
    assert said in failed.detail


@pytest.mark.parametrize("ends", [True, False])
async def test_what_a_command_leaves_behind_is_killed(tmp_path: Path, ends: bool) -> None:
    """A process that it started ends with it, whether it ends by itself or by its time limit."""
    left = tmp_path / "left"
    script = (
        "import os, sys, time\n"
        "if not os.fork():\n"
        "    open(sys.argv[1] + '.new', 'w').write(str(os.getpid()))\n"
        "    os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "    time.sleep(600)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "time.sleep(float(sys.argv[2]))"
    )
    sent = asyncio.create_task(
        Command([sys.executable, "-c", script, str(left), "0" if ends else "600"], 600.0).send([DELIVERY])
    )
    if ends:
        assert await sent is None
    else:
        await until(left.exists)
        sent.cancel()
        await asyncio.gather(sent, return_exceptions=True)
    await until(lambda: not runs(int(left.read_text())))


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise imports it
async def test_notifications_go_out_by_apprise(tmp_path: Path) -> None:
    """One message tells of several changes; a receiver that fails is tried again, and its address is not shown."""
    pytest.importorskip("apprise", reason="the extra `notify` is not installed")
    many = [HookDelivery(at, f'{{"url": "https://example.org/{at}", "verdict": "gone"}}') for at in range(3)]
    async with Receiver() as receiver:
        sent = Notification(f"json://user:hunter2@127.0.0.1:{receiver.port}/", 20.0)
        failed = await sent.send(many)  # the receiver refuses what is not signed
        assert failed is not None
        assert "hunter2" not in failed.detail
        assert len(receiver.requests) == 1
        await sent.close()
    title, body = message([json.loads(one.document) for one in many])
    assert title == "crawld: 3 pages have changed"
    assert body.split("\n")[2] == "https://example.org/2 is gone"


async def test_hooks_can_be_listed_and_tried(tmp_path: Path) -> None:
    """`crawld hooks` shows what was delivered, without secrets; `crawld hooks test` sends one change at once."""
    file = tmp_path / "config.yaml"
    async with Site() as site, Receiver() as receiver:
        dead = hook(receiver, name="dead", webhook="http://127.0.0.1:1/x?token=abc", command=None)
        hooks = [hook(receiver), dead]
        async with running(tmp_path, [site.url("/cue/1")], hooks=hooks):
            await until(lambda: len(receiver.taken) == 1)
            await until(lambda: bool(rows(tmp_path, "SELECT 1 FROM hooks WHERE trouble IS NOT NULL")))
        file.write_text(yaml.safe_dump({"database": f"sqlite:///{tmp_path}/x.db", "hooks": hooks}))
        listed = await command("hooks", "--config", str(file), "--json", cwd=tmp_path)
        shown = await command("hooks", "--config", str(file), cwd=tmp_path)
        tried = await command("hooks", "test", "receiver", "--config", str(file), cwd=tmp_path)
        refused = await command("hooks", "test", "dead", "--config", str(file), cwd=tmp_path)
        unknown = await command("hooks", "test", "other", "--config", str(file), cwd=tmp_path)
    found = {row["hook"]: row for row in json.loads(listed.out)}
    assert (found["receiver"]["delivered"], found["receiver"]["waiting"]) == (1, 0)
    assert (found["dead"]["waiting"], found["dead"]["trouble"]) == (1, "connection refused")
    assert "receiver" in shown.out
    assert not {"abc", SECRET} & set(shown.out.split() + listed.out.split('"'))
    assert (tried.status, receiver.taken[-1].get("test")) == (0, True), tried.err
    assert refused.status == 1
    assert (unknown.status, "receiver, dead" in unknown.err) == (2, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"webhook": "http://127.0.0.1:1/", "secret": SECRET}, "add `allow_private: [127.0.0.1/32]` to the hook"),
        ({"webhook": "https://a.example/"}, "give a secret of at least 16 characters"),
        ({"webhook": "https://a.example/", "secret": "short"}, "the secret is too short"),
        ({"webhook": "https://a.example/", "secret_file": "/no/such"}, "/no/such: cannot be read"),
        ({"webhook": "https://a.example/", "secret_file": "x"}, "write the whole path"),
        ({"command": ["no-such-program-anywhere"]}, "no-such-program-anywhere is not in the PATH"),
        ({"command": "rm -r /tmp/x"}, "write the program and its arguments as a list"),
        ({"notify": "nonsense://hunter2@x"}, "Apprise cannot use this nonsense:// address"),
        ({"command": ["true"], "notify": "json://x"}, "write one of webhook, command and notify"),
        ({}, "write one of webhook, command and notify"),
    ],
)
async def test_what_is_wrong_with_a_hook_is_told_before_a_start(
    tmp_path: Path, given: dict[str, object], said: str
) -> None:
    """`crawld check-config` names the hook and what to write, and shows no secret."""
    if "notify" in given:
        pytest.importorskip("apprise", reason="the extra `notify` is not installed")
    file = tmp_path / "config.yaml"
    (tmp_path / "urls.txt").write_text("https://example.org/\n")
    file.write_text(yaml.safe_dump({"urls": "urls.txt", "hooks": [{"name": "mine"} | given]}))
    checked = await command("check-config", str(file), cwd=tmp_path)
    assert checked.status == 2
    assert said in checked.err
    assert "hunter2" not in checked.err
    assert SECRET not in checked.err
