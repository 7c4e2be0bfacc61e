"""Settings: every error at once, defaults as documented."""

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from crawld import config
from crawld.errors import ConfigError

ROOT = Path(__file__).parents[2]


def test_the_shipped_file_holds_the_defaults() -> None:
    """config.yaml at the top of the project equals the defaults, setting by setting."""
    assert config.load(ROOT / "config.yaml") == config.Settings()


def test_the_shipped_file_names_every_setting() -> None:
    """No setting is missing from config.yaml."""
    given = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    assert set(given) == set(config.Settings.model_fields)
    for name, field in config.Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            assert set(given[name]) == set(section.model_fields), name


def test_all_errors_are_reported_at_once_with_their_paths(tmp_path: Path) -> None:
    """A file with several mistakes names each of them."""
    file = tmp_path / "bad.yaml"
    file.write_text(
        "bandwith: 2/s\nbandwidth: fast\npolicy: best\nallow_private: [nonsense]\npoliteness: {delay: 3 parsecs}\n"
        "signals: {share: 2, sitemaps: ['ftp://x/']}\ndigest: [{ignore_text: ['(']}]\nretention: {crawls: 1e6}\n"
        "urls: [a]\n"
    )
    with pytest.raises(ConfigError) as caught:
        config.load(file)
    text = str(caught.value)
    for place in (
        "bandwith: no such setting", "bandwidth: 'fast' is not a rate", "policy:", "allow_private[0]:",
        "politeness.delay:", "signals.share:", "signals.sitemaps[0]", "digest[0].ignore_text[0]:", "1000000", "urls:",
    ):  # fmt: skip
        assert place in text, text


def test_importance_by_requests_needs_requests() -> None:
    """Without api.listen nobody can ask for copies: that is said, and with it all is well."""
    with pytest.raises(ConfigError, match=r"\n  importance: requests counts what is asked of api.listen"):
        config.load(None, {"importance": "requests"})
    assert config.load(None, {"importance": "requests", "api": {"listen": "127.0.0.1:8080"}}).importance == "requests"


def test_the_command_line_wins(tmp_path: Path) -> None:
    """A value given on the command line replaces the file's; None does not."""
    file = tmp_path / "c.yaml"
    file.write_text("bandwidth: 2/s\ndatabase: sqlite:///a.db\n")
    settings = config.load(file, {"bandwidth": "90/min", "database": None})
    assert settings.bandwidth == 1.5
    assert settings.database == "sqlite:///a.db"


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [", "just text\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    """Lists, broken YAML and prose get a sentence that names the file."""
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"c\.yaml"):
        config.load(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is named in the error."""
    with pytest.raises(ConfigError, match="absent"):
        config.load(tmp_path / "absent.yaml")


def test_the_control_socket_follows_from_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the SQLite file; for PostgreSQL in the service's runtime directory, else one name for each database."""
    assert config.Settings(database=f"sqlite:///{tmp_path}/x.db").control_socket() == tmp_path / "x.db.sock"
    postgres = config.Settings(database="postgresql://me@somewhere/one")
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    assert postgres.control_socket() == tmp_path / "crawld.sock"
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "missing"))
    other = config.Settings(database="postgresql://me@somewhere/two")
    assert postgres.control_socket().parent.is_dir()
    assert postgres.control_socket() != other.control_socket()
