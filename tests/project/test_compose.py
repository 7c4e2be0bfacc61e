"""The compose files: everything they name is there, and crawld in its container reads and writes where they say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from crawld.main.settings import load
from tests.support.process import ROOT

FILES = (ROOT / "compose.yaml", ROOT / "docs/monitoring/compose.yaml")
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def merged() -> dict[str, Any]:
    """Both files as `docker compose -f … -f …` takes them: services, configs and volumes by name."""
    found: dict[str, Any] = {"services": {}, "configs": {}, "volumes": {}}
    for file in FILES:
        for part, named in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            for name, one in named.items():
                known = found[part].setdefault(name, {})
                for key, value in (one or {}).items():
                    known[key] = known[key] | value if isinstance(known.get(key), dict) else value
    return found


def crawld_settings(folder: Path, environment: dict[str, str]) -> Any:
    """The settings of the container with such an environment."""
    (folder / "config.yaml").write_text(merged()["configs"]["crawld"]["content"])
    return load(folder / "config.yaml", {"database": environment["CRAWLD_DATABASE"]})


def test_volumes_configs_and_files_that_are_named_are_there() -> None:
    """Every volume and config is declared, and every file that is mounted from the checkout exists or is the list."""
    whole = merged()
    for name, service in whole["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            known = (ROOT / source).exists() if source.startswith(".") else source in whole["volumes"]
            assert known or source == "./urls.txt", f"{name}: {volume}"
        assert {one["source"] for one in service.get("configs", ())} <= whole["configs"].keys()
        assert set(service.get("depends_on", ())) <= whole["services"].keys()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), "open to the network"


def test_the_container_is_the_image_s(tmp_path: Path) -> None:
    """Volume, user, port and settings are those that the Dockerfile has."""
    crawld = merged()["services"]["crawld"]
    (volume,) = re.findall(r"^VOLUME (\S+)$", IMAGE, re.MULTILINE)
    assert f"data:{volume}" in crawld["volumes"]
    (database,) = re.findall(r"CRAWLD_DATABASE=(\S+)", IMAGE)
    settings = crawld_settings(tmp_path, {"CRAWLD_DATABASE": database})
    assert settings.token_file().is_relative_to(volume)
    port = settings.api.listen.rpartition(":")[2]
    assert f"EXPOSE {port}\n" in IMAGE
    assert f"127.0.0.1:{port}/healthz" in IMAGE
    assert crawld["ports"] == [f"127.0.0.1:{port}:{port}"]
    (started,) = re.findall(r"^CMD (\[.*\])$", IMAGE, re.MULTILINE)
    assert crawld["configs"][0]["target"] == json.loads(started)[-1] == crawld["environment"]["CRAWLD_CONFIG"]


def test_prometheus_reads_the_token_that_crawld_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside PostgreSQL it lies in the volume; Prometheus is the user who may read it, and asks crawld's port."""
    services, configs = merged()["services"], merged()["configs"]
    environment = services["crawld"]["environment"]
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))  # stands for the volume, which is not there
    settings = crawld_settings(tmp_path, environment | {"CRAWLD_DATABASE": "postgresql://crawld@postgres/crawld"})
    (scraped,) = yaml.safe_load(configs["prometheus"]["content"])["scrape_configs"]
    kept = settings.token_file().relative_to(tmp_path)
    assert scraped["authorization"]["credentials_file"] == str(Path(environment["STATE_DIRECTORY"]) / kept)
    assert scraped["static_configs"] == [{"targets": [f"crawld:{settings.api.listen.rpartition(':')[2]}"]}]
    assert f"\nUSER {services['prometheus']['user']}\n" in IMAGE
    user = services["postgres"]["environment"]
    assert f"//{user['POSTGRES_USER']}:" in environment["CRAWLD_DATABASE"]
    assert environment["CRAWLD_DATABASE"].endswith(f"@postgres/{user['POSTGRES_DB']}")
    for name in ("datasource", "dashboards"):
        assert yaml.safe_load(configs[name]["content"])["apiVersion"] == 1
