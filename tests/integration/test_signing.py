"""Signed requests as sites verify them: every hop for its own authority, by the directory that is served."""

import json
import stat
import time
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, algorithms

from crawld.cli import main
from crawld.fetch.signing import DIRECTORY_PATH, DIRECTORY_TAG, DIRECTORY_TYPE, Signer, new_key, read_keys
from crawld.model.errors import ConfigError
from tests.support.daemon import listening, running, until
from tests.support.process import free_port
from tests.support.site import Seen, Site
from tests.support.verifier import NotVerifiedError, keys_of, verify

AGENT = "https://bot.example.org"


def keys(folder: Path, *words: str) -> dict[str, object]:
    """What `crawld keys … --json` says of the keys beside the database in the folder."""
    given = ["keys", *words, "--database", f"sqlite:///{folder}/x.db", "--json"]
    done = CliRunner().invoke(main, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("form", ["dictionary", "string"])
async def test_every_request_is_signed_for_its_own_authority(tmp_path: Path, form: str) -> None:
    """robots.txt, a sitemap and each hop over three hosts verify by the served directory, and for no other host."""
    keys(tmp_path, "create")
    api = f"http://127.0.0.1:{(port := free_port())}"
    async with Site(hosts=3) as site, aiohttp.ClientSession() as session:
        last = site.url("/ok/end", 3)
        chain = site.url(f"/redirect/1?to={site.url(f'/redirect/2?to={last}', 2)}")
        sitemap = site.url("/sitemap.xml")
        site.robots[site.address()] = f"Sitemap: {sitemap}\n"
        given = {"agent": AGENT, "form": form}
        async with running(
            tmp_path, [chain], signing=given, signals={"share": 0.5}, api={"listen": f"127.0.0.1:{port}"}
        ) as daemon:
            await until(lambda: bool(site.visits("/ok/end") and site.visits("/sitemap.xml")) and listening(port))
            async with session.get(f"{api}{DIRECTORY_PATH}") as answer:
                directory, headers = await answer.text(), {key.lower(): text for key, text in answer.headers.items()}
                assert (answer.status, headers["content-type"]) == (200, DIRECTORY_TYPE)
            made = keys(tmp_path, "rotate", "--after", "0s")["made"]
            await daemon.reload(False)
            before = len(site.log)
            await until(lambda: len(site.log) > before + 3)
            async with session.get(f"{api}{DIRECTORY_PATH}") as answer:
                both, both_headers = await answer.text(), {key.lower(): text for key, text in answer.headers.items()}
        seen, now = list(site.log), time.time()
    known, after = keys_of(directory), keys_of(both)
    bound = {"tag": DIRECTORY_TAG, "wanted": ("@authority",)}
    assert [one.key_id for one in verify(headers, f"127.0.0.1:{port}", known, now, **bound)] == list(known)  # type: ignore[arg-type]
    assert len(verify(both_headers, f"127.0.0.1:{port}", after, now, **bound)) == 2  # type: ignore[arg-type]
    verified = [verify(one.headers, one.host, after, one.wall)[0] for one in seen]
    assert {one.host for one in seen} == {site.host(1), site.host(2), site.host(3)}
    assert {"/robots.txt", "/sitemap.xml", "/redirect/1", "/redirect/2", "/ok/end"} <= {one.path for one in seen}
    assert len({one.nonce for one in verified}) == len(verified)
    assert all(one.expires - one.created <= 65 for one in verified)
    assert verified[0].key_id in known
    assert verified[-1].key_id == made
    assert set(after) == {*known, made}
    for one in seen:
        assert AGENT in one.headers["signature-agent"]
        with pytest.raises(NotVerifiedError, match="something else"):
            verify(one.headers, "elsewhere.example.org", after, one.wall)
    _verify_by_library(seen[0], directory)


def _verify_by_library(seen: Seen, directory: str) -> None:
    """Verify one request by another's implementation of RFC 9421."""

    class Resolver(HTTPSignatureKeyResolver):
        def resolve_public_key(self, key_id: str) -> object:
            return keys_of(directory)[key_id]

    class Message:
        method, url, headers = seen.method, f"http://{seen.host}{seen.target}", dict(seen.headers)

    verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=Resolver())
    [found] = verifier.verify(Message(), max_age=None)
    assert "@authority" in str(found.covered_components)


async def test_without_an_agent_nothing_is_signed_and_no_directory_is_served(tmp_path: Path) -> None:
    """Requests carry no signature, and the directory's place says that there is none."""
    api = f"http://127.0.0.1:{(port := free_port())}"
    async with Site() as site, aiohttp.ClientSession() as session:
        async with running(tmp_path, [site.url("/ok/1")], api={"listen": f"127.0.0.1:{port}"}):
            await until(lambda: bool(site.visits("/ok/1")) and listening(port))
            async with session.get(f"{api}{DIRECTORY_PATH}") as answer:
                assert (answer.status, "signing.agent" in await answer.text()) == (404, True)
        assert not [name for one in site.log for name in one.headers if name.startswith("signature")]


def test_keys_are_made_listed_and_rotated(tmp_path: Path) -> None:
    """The file is for its owner alone; a rotation leaves two valid keys, of which the next signs after a while."""
    created = keys(tmp_path, "create")
    file = tmp_path / "x.db.keys"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [key["state"] for key in created["keys"]] == ["signing"]  # type: ignore[attr-defined]
    again = CliRunner().invoke(main, ["keys", "create", "--database", f"sqlite:///{tmp_path}/x.db"])
    assert (again.exit_code, "crawld keys rotate" in again.stderr) == (2, True)
    assert [key["state"] for key in keys(tmp_path, "rotate")["keys"]] == ["signing", "next"]  # type: ignore[attr-defined]
    assert [key["state"] for key in keys(tmp_path, "rotate", "--after", "0s")["keys"]][-1] == "signing"  # type: ignore[attr-defined]
    listed = keys(tmp_path, "list")
    assert keys(tmp_path, "directory")["keys"] == [key["public"] for key in listed["keys"]]  # type: ignore[attr-defined]
    private = json.loads(file.read_text())["keys"][0]["d"]
    assert private not in json.dumps([listed, keys(tmp_path, "directory")]) + repr(read_keys(file))
    written = CliRunner().invoke(
        main, ["keys", "directory", "--output", f"{tmp_path}/d.json", "--database", f"sqlite:///{tmp_path}/x.db"]
    )
    assert written.exit_code == 0
    assert len(keys_of((tmp_path / "d.json").read_text())) == 3


def test_a_signer_hands_over_by_itself() -> None:
    """At the time that a rotation set, the new key signs; the old one verifies until it ends."""
    old, new = new_key(0.0), new_key(0.0, signs_from=1000.0)
    signer = Signer([old, new], AGENT, 60)
    assert old.key_id in signer.headers("example.org", 999.0)["Signature-Input"]
    assert new.key_id in signer.headers("example.org", 1000.0)["Signature-Input"]


async def test_signing_without_keys_is_refused(tmp_path: Path) -> None:
    """A daemon that is to sign and has no key, or one that others may read, does not start, and says what to do."""
    for mode, said in ((None, "crawld keys create"), (0o640, "chmod 600")):
        if mode is not None:
            keys(tmp_path, "create")
            (tmp_path / "x.db.keys").chmod(mode)
        with pytest.raises(ConfigError, match=said):
            async with running(tmp_path, ["http://127.0.0.1:1/"], signing={"agent": AGENT}):
                pass
