"""Histories made out of git repositories, read from the PoliteCrawling set, and replayed by `crawld lab compare`."""

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from crawld.research import git as git_history
from crawld.research.git import GitHistory, GitRepository
from crawld.research.lab import command
from crawld.research.recorded import polite_crawling_world, recorded_world

DAY = 86400
START = 1_700_006_400  # a midnight
SITEMAP = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'


class Site:
    """A git repository whose commits are days apart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.day = 0
        if shutil.which("git") is None:
            pytest.skip("git is not installed here")
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        """Run git as a committer of a fixed time."""
        at = f"{START + self.day * DAY} +0000"
        who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@localhost", "GIT_COMMITTER_NAME": "a"}
        when = {"GIT_COMMITTER_EMAIL": "a@localhost", "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        done = subprocess.run(
            ["git", "-C", str(self.folder), *words],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | who | when,
        )
        return done.stdout.strip()

    def publish(self, files: dict[str, str | None]) -> None:
        """One commit on the next day: texts by path, None to delete."""
        for path, text in files.items():
            place = self.folder / path
            if text is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", f"day {self.day}")
        self.day += 1

    def history(self, **how: object) -> tuple[git_history.Imported, dict[str, np.ndarray]]:
        """Walk through it."""
        with GitRepository(self.folder) as repository:
            walked = GitHistory(repository)
            found = walked.walk(None, lambda done, total: None)
        return found, dict(walked.arrays())


def page(text: str, footer: str = "imprint") -> str:
    """A page whose main text is this."""
    words = f"{text} and some more words, so that there is a main text to be found"
    return f"<html><body><nav>menu {footer}</nav><main><p>{words}</p></main><footer>{footer}</footer></body></html>"


def listed(lastmods: dict[str, str]) -> str:
    """A sitemap with these lastmods by path."""
    return SITEMAP.format(
        "".join(f"<url><loc>https://example.org/{p}</loc><lastmod>{at}</lastmod></url>" for p, at in lastmods.items())
    )


def run(*words: str) -> Result:
    """The command line, as it would be typed."""
    return CliRunner().invoke(command, [*words])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Four days: a page that changes, one whose footer alone changes, one that is renamed, one that is deleted."""
    site = Site(tmp_path / "site")
    files = {"index.html": page("home"), "a/index.html": page("alpha"), "b.html": page("beta"), "c.html": page("gamma")}
    days = {"": "2023-11-01", "a/": "2023-11-01", "b.html": "2023-11-01"}
    site.publish({**files, "notes.txt": "no page", "sitemap.xml": listed(days)})
    site.publish({"a/index.html": page("alpha two"), "sitemap.xml": listed(days | {"a/": "2023-11-15"})})
    site.publish({"index.html": page("home", footer="built today"), "b.html": None, "moved.html": page("beta")})
    site.publish({"c.html": None, "sitemap.xml": listed(days | {"a/": "2023-11-15", "": "2023-11-17"})})
    return site


def test_a_history_has_the_pages_changes_and_signals_of_the_commits(site: Site) -> None:
    """A change is of the main text alone; a renamed page stays one; a deleted one dies; a moved lastmod is a signal."""
    found, arrays = site.history()
    paths = arrays["page_path"].tolist()
    assert sorted(paths) == ["a/index.html", "c.html", "index.html", "moved.html"]
    changed = {
        path: arrays["change_t"][arrays["change_off"][i] : arrays["change_off"][i + 1]].tolist()
        for i, path in enumerate(paths)
    }
    assert changed == {"a/index.html": [START + DAY], "c.html": [], "index.html": [], "moved.html": []}
    assert arrays["change_words"].tolist() == [1]
    deaths = dict(zip(paths, arrays["death"].tolist(), strict=True))
    assert deaths == {"a/index.html": 0, "c.html": START + 3 * DAY, "index.html": 0, "moved.html": 0}
    told = {
        path: arrays["signal_t"][arrays["signal_off"][i] : arrays["signal_off"][i + 1]].tolist()
        for i, path in enumerate(paths)
    }
    assert told == {"a/index.html": [START + DAY], "c.html": [], "index.html": [START + 3 * DAY], "moved.html": []}
    assert (found.commits, found.pages, found.alive, found.raw_changes) == (4, 4, 3, 2)


def test_an_imported_history_can_be_replayed(site: Site, tmp_path: Path) -> None:
    """`import-git` writes what `compare --history` reads; both summaries are JSON."""
    output = tmp_path / "site.npz"
    made = run("import-git", str(site.folder), "--output", str(output), "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["changes"] == 1
    world = recorded_world(output)
    assert (len(world.changes), len(world.signal_times), world.horizon) == (1, 2, 3.0)
    words = ("--policies", "greedy-ncis,uniform,mirrorsync,known", "--budget", "10", "--json")
    compared = run("compare", "--history", str(output), *words)
    assert compared.exit_code == 0, compared.output
    report = json.loads(compared.stdout)
    assert [row["crawler"] for row in report["crawlers"]] == ["greedy-ncis", "uniform", "mirrorsync", "known"]
    assert all(0.5 < row["freshness"] <= 1.0 for row in report["crawlers"])
    assert report["crawls"] == 10


def test_only_what_was_published_since_a_day_is_taken(site: Site, tmp_path: Path) -> None:
    """Pages that were there before are born on that day, and their earlier changes are not told."""
    output = tmp_path / "late.npz"
    made = run("import-git", str(site.folder), "--output", str(output), "--since", "2023-11-17", "--json")
    assert made.exit_code == 0, made.output
    summary = json.loads(made.stdout)
    assert (summary["pages"], summary["changes"]) == (4, 0)


def test_files_of_other_kinds_are_pages_where_they_are_asked_for(site: Site, tmp_path: Path) -> None:
    """--suffix names what is published, and without any such file the error says so."""
    made = run("import-git", str(site.folder), "--output", str(tmp_path / "n.npz"), "--suffix", ".txt", "--json")
    assert json.loads(made.stdout)["pages"] == 1
    none = run("import-git", str(site.folder), "--output", str(tmp_path / "n.npz"), "--suffix", ".rst")
    assert none.exit_code != 0
    assert "--suffix" in str(none.exception or none.output)


def test_a_repository_cannot_have_commands_run_or_files_fetched(site: Site, tmp_path: Path) -> None:
    """Hooks, monitors, external diffs and remotes in its settings stay unused; a huge file is not read."""
    trap, mark = tmp_path / "trap.sh", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {mark}\n")
    trap.chmod(0o755)
    site.publish({"c.html": page("x" * 6_000_000)})
    for setting in ("core.fsmonitor", "diff.external", "core.pager", "core.sshCommand", "diff.html.textconv"):
        site.git("config", setting, str(trap))
    found, _ = site.history()
    assert found.large_files == 1
    assert not mark.exists()


def test_pages_beyond_the_limit_are_left_out_and_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository of any size gives a history of bounded size."""
    monkeypatch.setattr(git_history, "LIMITS", dataclasses.replace(git_history.LIMITS, max_pages=2))
    found, arrays = site.history()
    assert len(arrays["birth"]) == 2
    assert found.left_out_pages >= 2


@pytest.mark.parametrize("words", [("import-git", "nowhere"), ("compare", "--history", "nowhere.npz")])
def test_what_is_not_there_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    """A wrong path is an error that names it."""
    failed = run(*words[:-1], str(tmp_path / words[-1]))
    assert failed.exit_code != 0
    assert "nowhere" in str(failed.exception or failed.output)


def polite(folder: Path) -> Path:
    """Made-up files in the form of the PoliteCrawling set: two hosts of three pages."""
    folder.mkdir()
    urls = [(f"http://h{n // 3}.example/{n}", n, n // 3) for n in range(6)]
    rows = {
        "url_urlid_hostid.tsv": ["\t".join(map(str, row)) for row in urls],
        "host_hostid_isconstrained.tsv": ["h0.example\t0\t1", "h1.example\t1\t0"],
        "urlid_imp.tsv": [f"{n}\t{n + 1}" for n in range(6)],
        "urlid_offset_history.tsv": [f"{n}\t{n}\t[[1.0, 1], [2.0, 0], [4.0, {n % 2}]]" for n in range(5)],
        "urlid_chrate_compl_obs_hist.tsv": ["1\t0.5", "5\t0.2"],
    }
    for name, lines in rows.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def test_the_polite_crawling_set_is_read_as_a_world(tmp_path: Path) -> None:
    """Changes lie in the intervals that found them, hosts are kept, reliable sitemaps tell every change."""
    world = polite_crawling_world(polite(tmp_path / "set"), 100)
    assert world.population.pages == 6
    assert np.unique(world.host_of, return_counts=True)[1].tolist() == [3, 3]
    counts = np.diff(world.change_offsets).tolist()
    assert counts[:5] == [1, 2, 1, 2, 1]
    for number in range(5):
        first = world.changes_by_page[number][0]
        assert number <= first <= number + 1.0
        assert world.died[number] == number + 7.0
    assert np.argsort(world.population.mu).tolist() == list(range(6))
    told = np.bincount(world.signal_pages, minlength=6).tolist()
    assert told == [0, 2, 0, 0, 0, counts[5]]


def test_policies_are_compared_on_the_polite_crawling_set(tmp_path: Path) -> None:
    """The folder is known by its files; a file that is missing or has other columns is named."""
    folder = polite(tmp_path / "set")
    compared = run("compare", "--history", str(folder), "--policies", "uniform,explore-then-commit", "--json")
    assert compared.exit_code == 0, compared.output
    assert json.loads(compared.stdout)["hosts"] == 2
    (folder / "urlid_imp.tsv").write_text("no columns\n")
    assert "urlid_imp" in str(run("compare", "--history", str(folder)).exception)
    (folder / "urlid_imp.tsv").unlink()
    assert "urlid_imp" in str(run("compare", "--history", str(folder)).exception)


def test_options_of_daemons_do_not_go_with_a_history(tmp_path: Path) -> None:
    """What would be ignored is an error, on both sides."""
    folder = str(polite(tmp_path / "set"))
    assert "--seconds" in str(run("compare", "--history", folder, "--seconds", "10").exception)
    assert "--history" in str(run("compare", "--budget", "1").exception)
    assert "nobody" in str(run("compare", "--history", folder, "--policies", "nobody").exception)
