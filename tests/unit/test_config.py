"""Settings: every error at once, defaults as documented."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from crawld.main.settings import POLICIES, DigestSection, Discover, HookSection, Settings, changes, load
from crawld.model.errors import ConfigError
from crawld.model.mistakes import UNNAMED
from crawld.model.units import parse_duration, spell_duration
from tests.support.library_words import FOREIGN

ROOT = Path(__file__).parents[2]


def test_the_shipped_file_holds_the_defaults() -> None:
    """config.yaml at the top of the project equals the defaults, setting by setting."""
    assert load(ROOT / "config.yaml") == Settings()


def test_the_shipped_file_names_every_setting() -> None:
    """No setting is missing from config.yaml."""
    given = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    assert set(given) == set(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            assert set(given[name]) == set(section.model_fields), name


SHIPPED = (ROOT / "config.yaml").read_text(encoding="utf-8")
SHOWN = [
    *(f"bandwidth: {rate}" for rate in ("2/s", "90/min", "400/hour", "5000/day", "0")),
    "importance: list",
    "{importance: requests, api: {listen: 127.0.0.1:8080}}",
    "database: sqlite:////var/lib/crawld/crawld.db",
    "database: postgresql://USER:PASSWORD@HOST/NAME",
    "processes: auto",
    'user_agent: "examplebot/1.0 (+https://example.org/bot)"',
    "user_agent: examplebot/1.0 (+https://example.org/bot)",
    *(f"policy: {name}" for name in POLICIES),
    "allow_private: [127.0.0.0/8, 10.0.0.0/8]",
    "allow_private: 127.0.0.0/8",
    *(f"signals: {{{name}: {word}}}" for name in ("sitemaps", "feeds") for word in ("auto", "off")),
    "signals: {sitemaps: [https://example.org/map.xml], feeds: [https://example.org/feed]}",
    "discover: [{site: https://example.org/blog/, limit: 1000}]",
    *(f"digest: [{{mode: {mode}}}]" for mode in ("text", "raw")),
    *(f"keep_bodies: {word}" for word in ("latest", "changes", "none")),
    "api: {socket: null, listen: null, public_url: null}",
    "api: {listen: 127.0.0.1:8080, public_url: https://example.org/crawld}",
    *(f"log: {{level: {level}}}" for level in ("debug", "info", "warning", "error")),
    *(f"log: {{format: {word}}}" for word in ("text", "json")),
]


@pytest.mark.parametrize("text", SHOWN)
def test_every_value_shown_in_the_shipped_file_loads(tmp_path: Path, text: str) -> None:
    """What a comment in config.yaml names as an alternative can be written just so."""
    file = tmp_path / "c.yaml"
    file.write_text(text + "\n")
    loaded = load(file)
    for name, value in yaml.load(text, yaml.BaseLoader).items():
        if name in {"importance", "policy", "keep_bodies"}:
            assert getattr(loaded, name) == value
    for word in re.findall(r"[a-z][a-z-]+|[0-9]+/[a-z]+", text):
        if word not in {"var", "lib", "map", "xml", "feed"}:
            assert word in SHIPPED, f"config.yaml does not show {word}"


def test_the_examples_in_comments_of_the_shipped_file_load(tmp_path: Path) -> None:
    """The indented examples, with their comment signs taken away, are settings."""
    file = tmp_path / "c.yaml"
    examples = re.findall(r"As in\n((?:#   .*\n)+)(discover|digest|hooks): \[\]\n", SHIPPED)
    assert [name for _, name in examples] == ["discover", "digest", "hooks"]
    file.write_text("".join(f"{name}:\n{re.sub('(?m)^#', '', text)}" for text, name in examples))
    loaded = load(file)
    assert [site.site for site in loaded.discover] == ["https://example.org/blog/"]
    assert [rule.ignore for rule in loaded.digest] == [[".comments", "time"]]
    assert [(hook.name, hook.kind) for hook in loaded.hooks] == [
        ("search-index", "webhook"), ("archive", "command"), ("me", "notify")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place", "value"),
    [
        ("signals: {sitemaps: off}", "signals.sitemaps", "off"),
        ("signals: {feeds: Off}", "signals.feeds", "off"),
        ("signals: {feeds: false}", "signals.feeds", "off"),
        ("signals: {feeds: no}", "signals.feeds", "off"),
        ("signals: {feeds: https://example.org/feed}", "signals.feeds", ["https://example.org/feed"]),
        ("keep_bodies: no", "keep_bodies", "none"),
        ("keep_bodies: false", "keep_bodies", "none"),
        ("keep_bodies: None", "keep_bodies", "none"),
        ("retention: {days: 1e3}", "retention.days", 1000.0),
        ("digest: [{ignore_text: '\\pL+ views'}]", "digest", [DigestSection(ignore_text=["\\pL+ views"])]),
    ],
)
def test_words_that_yaml_reads_as_something_else(tmp_path: Path, text: str, place: str, value: object) -> None:
    """`off` and `no` are the words they look like, whoever wrote the file."""
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert changes(Settings(), load(file)) == {place: value}


def test_settings_made_of_plain_values_take_false_for_off() -> None:
    """A program that hands over what YAML 1.1 made of `off` is understood."""
    assert load(None, {"signals": {"sitemaps": False, "feeds": False}}).signals.feeds == "off"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("signals: {sitemaps: on}", "signals.sitemaps: write auto, off or a list of URLs (given: 'on')"),
        ("signals: {feeds: true}", "signals.feeds: write auto, off or a list of URLs (given: True)"),
        ("signals: {feeds: null}", "signals.feeds: write auto, off or a list of URLs (given: None)"),
        ("keep_bodies: yes", "keep_bodies: write latest, changes or none (given: 'yes')"),
        ("keep_bodies: null", "keep_bodies: write latest, changes or none (given: None)"),
        ("politeness: {delay: 1:30}", "politeness.delay: '1:30' is not a duration: write it like 90s"),
        ("politeness: 5s", "politeness: write its settings below it, as `delay: 1s` (given: '5s')"),
        ("discover: [example.org]", "discover[0]: write its settings below it, as `site: https://example.org/`"),
        ("log: {level: loud}", "log.level: write one of: debug, info, warning, error (given: 'loud')"),
        ("audit: {share: 2}", "audit.share: write a number from 0 to 1 (given: 2)"),
        ("audit: {share: lots}", "audit.share: write a number from 0 to 1 (given: 'lots')"),
        ("politeness: {per_host: 0}", "politeness.per_host: write a whole number from 1 to 1000 (given: 0)"),
        ("signals: {feeds: [nonsense]}", "1 setting cannot be used:\n  signals.feeds[0]: "),
        ("bandwidth: 1/s\nbandwidth: 2/s", "bandwidth is given twice"),
        ("digest: [{pattern: *}]", "quotes"),
        ("digest: [{ignore_text: ['a(?=b)']}]", "digest[0].ignore_text[0]: 'a(?=b)' is not a regular expression RE2"),
    ],
)
def test_what_is_easily_mistaken_is_refused_with_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    """No value is silently taken for another; the sentence names a way to write it."""
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert said in str(caught.value)


def test_an_empty_section_means_its_defaults(tmp_path: Path) -> None:
    """A section or list whose lines are all commented out changes nothing."""
    file = tmp_path / "c.yaml"
    file.write_text("politeness:\n  # delay: 1s\nsignals:\ndigest:\nallow_private:\n")
    assert load(file) == Settings()


@pytest.mark.parametrize(
    ("text", "seconds", "spelt"),
    [("300ms", 0.3, "300ms"), ("0", 0.0, "0s"), ("90s", 90.0, "1.5min"), ("30 days", 2_592_000.0, "30d"),
     ("3w", 1_814_400.0, "3w"), ("61.234", 61.234, "61.234s")],
)  # fmt: skip
def test_durations_are_spelt_as_they_are_read(text: str, seconds: float, spelt: str) -> None:
    """What is spelt can be read again as the same duration, milliseconds too."""
    assert parse_duration(text) == pytest.approx(seconds)
    assert spell_duration(seconds) == spelt
    assert parse_duration(spelt) == pytest.approx(seconds)


def test_the_list_lies_beside_whoever_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative `urls` starts at the directory of its file, and on the command line at the working directory."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "etc/c.yaml").write_text("urls: lists/urls.txt\n")
    monkeypatch.chdir(tmp_path / "work")
    file = Path("../etc/c.yaml")
    assert Path(str(load(file).urls)).resolve() == tmp_path / "etc/lists/urls.txt"
    assert load(file, {"urls": "other.txt"}).urls == str(tmp_path / "work/other.txt")
    assert load(file, {"urls": "-"}).urls == "-"
    assert load(file, {"urls": "/dev/fd/63"}).urls == "/dev/fd/63"


def test_all_errors_are_reported_at_once_with_their_paths(tmp_path: Path) -> None:
    """A file with several mistakes names each of them."""
    file = tmp_path / "bad.yaml"
    file.write_text(
        "bandwith: 2/s\nbandwidth: fast\npolicy: best\nallow_private: [nonsense]\npoliteness: {delay: 3 parsecs}\n"
        "signals: {share: 2, sitemaps: ['ftp://x/']}\ndigest: [{ignore_text: ['(']}]\nretention: {crawls: 1e6}\n"
        "urls: [a]\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(file)
    text = str(caught.value)
    for place in (
        "bandwith: no such setting", "bandwidth: 'fast' is not a rate", "policy:", "allow_private[0]:",
        "politeness.delay:", "signals.share:", "signals.sitemaps[0]", "digest[0].ignore_text[0]:", "1000000", "urls:",
    ):  # fmt: skip
        assert place in text, text


def test_importance_by_requests_needs_requests() -> None:
    """Without api.listen nobody can ask for copies: that is said, and with it all is well."""
    with pytest.raises(ConfigError, match=r"\n  importance: requests counts what is asked of api.listen"):
        load(None, {"importance": "requests", "api": {"listen": None}})
    assert load(None, {"importance": "requests", "api": {"listen": "127.0.0.1:8080"}}).importance == "requests"


def test_the_command_line_wins(tmp_path: Path) -> None:
    """A value given on the command line replaces the file's; None does not."""
    file = tmp_path / "c.yaml"
    file.write_text("bandwidth: 2/s\ndatabase: sqlite:///a.db\n")
    settings = load(file, {"bandwidth": "90/min", "database": None})
    assert settings.bandwidth == 1.5
    assert settings.database == "sqlite:///a.db"


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [", "just text\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    """Lists, broken YAML and prose get a sentence that names the file."""
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"c\.yaml"):
        load(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is named in the error."""
    with pytest.raises(ConfigError, match="absent"):
        load(tmp_path / "absent.yaml")


def test_a_database_that_several_processes_took_over_is_theirs(tmp_path: Path) -> None:
    """Settings name crawld's own PostgreSQL once it holds everything; the files beside the SQLite file stay theirs."""
    written = Settings(database=f"sqlite:///{tmp_path}/x.db")
    assert load(None, {"database": written.database}) == written
    folder = tmp_path / "x.db.postgres"
    folder.mkdir()
    (folder / "address").write_text("")  # it is being made
    assert load(None, {"database": written.database}) == written
    (folder / "address").write_text("postgresql://crawld@/postgres?host=/somewhere")
    used = load(None, {"database": written.database})
    assert used.database == "postgresql://crawld@/postgres?host=/somewhere"
    assert used.control_socket() == written.control_socket() == tmp_path / "x.db.sock"
    assert (used.token_file(), used.key_file()) == (written.token_file(), written.key_file())


def test_the_control_socket_follows_from_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the SQLite file; for PostgreSQL in the service's runtime directory, else one name for each database."""
    assert Settings(database=f"sqlite:///{tmp_path}/x.db").control_socket() == tmp_path / "x.db.sock"
    postgres = Settings(database="postgresql://me@somewhere/one")
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    assert postgres.control_socket() == tmp_path / "crawld.sock"
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "missing"))
    other = Settings(database="postgresql://me@somewhere/two")
    assert postgres.control_socket().parent.is_dir()
    assert postgres.control_socket() != other.control_socket()


WRONG: tuple[object, ...] = (
    None, True, False, -1, 0, 1, 3.7, -0.5, 1e30, 10**30, float("nan"), float("inf"), "", "abc", "1e6", "\x00", "é" * 9,
    b"\xff", [], [1], [[]], ["abc"], [None], [{}], {}, {"nonsense": 1}, {"a": {"b": 1}}, {3: 4}, object(), {1, 2},
)  # fmt: skip
"""A value of every type that YAML or a program can hand over, and some at the bounds."""


def _setting_places(model: type[BaseModel] = Settings) -> list[tuple[str, ...]]:
    places: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        listed: dict[str, type[BaseModel]] = {"discover": Discover, "digest": DigestSection, "hooks": HookSection}
        inner = listed.get(name) or field.annotation
        places.append((name,))
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            places += [(name, *rest) for rest in _setting_places(inner)]
    return places


@pytest.mark.parametrize("place", _setting_places(), ids=".".join)
def test_no_wrong_value_of_any_setting_is_answered_in_the_librarys_words(place: tuple[str, ...]) -> None:
    """Every setting with every kind of value either loads or is refused in sentences of ours that name its place."""
    refused = 0
    listed = place[0] in {"discover", "digest", "hooks"} and len(place) > 1
    for wrong in WRONG:
        inner: object = wrong
        for name in reversed(place[1:]):
            inner = {"name": "x", "command": ["/bin/true"], name: inner} if place[0] == "hooks" else {name: inner}
        given = {place[0]: [inner] if listed else inner}
        try:
            load(None, given)
        except ConfigError as error:
            refused += 1
            said = str(error)
            assert not FOREIGN.search(said), said
            assert UNNAMED not in said, said
            assert place[0] in said, said
    assert refused > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bandwith: 2/s", "bandwith: no such setting: did you mean bandwidth?"),
        ("Bandwidth: 2/s", "Bandwidth: no such setting: did you mean bandwidth?"),
        ("user-agent: x", "user-agent: no such setting: did you mean user_agent?"),
        ("politeness: {dely: 1s}", "politeness.dely: no such setting: did you mean delay?"),
        ("delay: 1s", "delay: no such setting: did you mean politeness.delay?"),
        ("sitemap: auto", "sitemap: no such setting: did you mean signals.sitemaps?"),
        ("hooks: [{name: x, comand: [/bin/true]}]", "hooks[0].comand: no such setting: did you mean command?"),
        ("discover: [{sites: https://example.org/}]", "discover[0].sites: no such setting: did you mean site?"),
        ("audit: {qqqq: 1}", "audit.qqqq: no such setting; there are: share"),
        ("log: {level: inof}", "write one of: debug, info, warning, error; did you mean info?"),
        ("hooks: [{name: x, command: [a], concurrency: 17}]", "concurrency: write a whole number from 1 to 16"),
        ("hooks: [{name: x, command: [a], verdicts: []}]", "hooks[0].verdicts: write at least 1 entry in the list"),
        ("api: {open_reading: maybe}", "api.open_reading: write true or false (given: 'maybe')"),
        ("retention: {days: 0}", "retention.days: write a number above 0 and up to 36500 (given: 0)"),
    ],
)  # fmt: skip
def test_a_misspelt_setting_is_answered_with_the_one_that_may_be_meant(tmp_path: Path, text: str, said: str) -> None:
    """A misspelt name, at the top, in a section or in a list, is answered with the name it resembles."""
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert said in str(caught.value)
