"""The manifests for Kubernetes: what `kubectl` would find wrong with names, and what workers need to end well."""

import shlex
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from crawld.cli import main
from crawld.main.settings import load
from tests.support.process import ROOT

FILE = ROOT / "docs/fleet/kubernetes.yaml"
KINDS = {
    "Namespace": "v1",
    "Secret": "v1",
    "ConfigMap": "v1",
    "Service": "v1",
    "Job": "batch/v1",
    "StatefulSet": "apps/v1",
    "PodDisruptionBudget": "policy/v1",
}
LONGEST_STOP = 15
"""Seconds that a worker may take to end: requests under way, the last commit, giving shards back."""


@pytest.fixture(scope="module")
def manifests() -> dict[str, Any]:
    """The objects by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(FILE.read_text(encoding="utf-8"))}


def pod(manifests: dict[str, Any], kind: str) -> dict[str, Any]:
    """The pod that an object makes."""
    found: dict[str, Any] = manifests[kind]["spec"]["template"]["spec"]
    return found


def test_every_object_has_its_kind_version_and_namespace(manifests: dict[str, Any]) -> None:
    """One object of each kind, all in one namespace."""
    assert {kind: one["apiVersion"] for kind, one in manifests.items()} == KINDS
    spaces = {one["metadata"].get("namespace") for kind, one in manifests.items() if kind != "Namespace"}
    assert spaces == {manifests["Namespace"]["metadata"]["name"]}


def test_what_is_referred_to_is_there(manifests: dict[str, Any]) -> None:
    """Labels match selectors; volumes, secrets and ports have the names under which they are used."""
    workers = manifests["StatefulSet"]
    labels = workers["spec"]["template"]["metadata"]["labels"]
    assert workers["spec"]["selector"]["matchLabels"] == labels
    assert manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert manifests["Service"]["spec"]["selector"] == labels
    assert workers["spec"]["serviceName"] == manifests["Service"]["metadata"]["name"]
    (container,) = pod(manifests, "StatefulSet")["containers"]
    volumes = {one["name"] for one in pod(manifests, "StatefulSet")["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == volumes
    for kind in ("StatefulSet", "Job"):
        (used,) = pod(manifests, kind)["containers"][0]["envFrom"]
        assert used["secretRef"]["name"] == manifests["Secret"]["metadata"]["name"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] == "/healthz"
        assert container[probe]["httpGet"]["port"] in ports


def test_workers_end_well_and_leave_one_at_a_time(manifests: dict[str, Any]) -> None:
    """There is time to give shards back, and never more than one worker is sent away."""
    assert pod(manifests, "StatefulSet")["terminationGracePeriodSeconds"] >= 2 * LONGEST_STOP
    assert manifests["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert manifests["StatefulSet"]["spec"]["podManagementPolicy"] == "Parallel"


def test_pods_are_confined(manifests: dict[str, Any]) -> None:
    """No root, no privileges, no writing but to volumes, a bound for memory, no account."""
    for kind in ("StatefulSet", "Job"):
        spec = pod(manifests, kind)
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]["memory"]


def test_commands_and_settings_are_crawlds(manifests: dict[str, Any], tmp_path: Any) -> None:
    """The commands exist with these options, and the settings are read as they stand."""
    for kind in ("StatefulSet", "Job"):
        group, verb, *options = pod(manifests, kind)["containers"][0]["args"]
        shown = CliRunner().invoke(main, [group, verb, "--help"])
        assert shown.exit_code == 0, shown.output
        for option in options:
            assert not option.startswith("--") or option in shown.output
    for name, text in manifests["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text)
    database = manifests["Secret"]["stringData"]["CRAWLD_DATABASE"]
    settings = load(tmp_path / "config.yaml", {"database": database})
    assert settings.database == database
    assert settings.api.listen == "0.0.0.0:8642"


def test_the_image_is_built_from_this_tree() -> None:
    """The extras that the image installs are the package's, and it starts what the manifests give words to."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    run = next(line for line in lines if line.startswith("RUN"))
    extras = next(word for word in shlex.split(run) if word.startswith("/src["))[5:-1].split(",")
    known = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(f"\n{extra} = [" in known for extra in extras)
    assert 'ENTRYPOINT ["crawld"]' in lines


def test_every_object_fits_the_schema_of_kubernetes(manifests: dict[str, Any]) -> None:
    """No field is misspelt, missing or of another type; the schemas take 108 MB and are installed by hand."""
    schemas = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    for version in ("1.30", schemas.latest_version()):
        for one in manifests.values():
            schemas.validate(one, version, strict=True)
    misspelt = manifests["StatefulSet"] | {"spec": manifests["StatefulSet"]["spec"] | {"replica": 4}}
    with pytest.raises(schemas.ValidationError):
        schemas.validate(misspelt, "1.30", strict=True)
