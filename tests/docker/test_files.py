"""Agreement of all files of containers on versions, paths and names, and with Crenel."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.night.docker.chroot import of_context
from tests.support.launch import ROOT
from tests.test_boundaries import ORDER

DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
DEPLOYMENT = yaml.safe_load((DOCKER / "kubernetes" / "crenel.yaml").read_text(encoding="utf-8"))
NETWORK = yaml.safe_load((DOCKER / "kubernetes" / "networkpolicy.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((DOCKER / "kubernetes" / "flinkdeployment.schema.json").read_text(encoding="utf-8"))


def test_they_all_name_the_flink_that_crenel_needs() -> None:
    flink = version("apache-flink")
    files = [path for path in DOCKER.rglob("*") if path.suffix in ("", ".yaml") and path.is_file()]
    named = [
        found
        for path in files
        for found in re.findall(r"flink(?:-python|-s3-fs-\w+)?[-:](\d+\.\d+\.\d+)", path.read_text(encoding="utf-8"))
    ]
    assert len(named) >= 4
    assert set(named) == {flink}
    major, minor, _ = flink.split(".")
    assert DEPLOYMENT["spec"]["flinkVersion"] == f"v{major}_{minor}"


def test_the_lock_of_the_image_is_part_of_that_of_the_checks() -> None:
    part, whole = (entries(ROOT / name) for name in ("requirements-run.lock", "requirements.lock"))
    assert part <= whole
    assert not {"pytest", "mypy", "ruff"} & {entry.partition("==")[0] for entry in part}


def entries(lock: Path) -> set[str]:
    """Return each package of a lock with its version, marker and hashes."""
    text = "".join(line for line in lock.read_text(encoding="utf-8").splitlines(True) if not line.startswith("#"))
    return set(text.replace("\\\n", "").splitlines())


def test_the_image_gets_what_the_package_is_made_of_and_nothing_else() -> None:
    seen = {str(path) for path in of_context(ROOT, ".")}
    wanted = {f"{name}/__init__.py" for name in ORDER}
    wanted |= {"pyproject.toml", "README.md", "LICENSE", "conf/demo.yaml", "conf/hierarchies/area.csv"}
    # The archive of sources has a folder in place of the link.
    wanted |= {"jobs/examples" if (ROOT / "jobs/examples").is_symlink() else "jobs/examples/demo.yaml"}
    assert wanted <= seen
    tops = {path.partition("/")[0] for path in seen}
    assert not tops & {"tests", "benchmarks", "experiments", "docs", ".git", ".venv", "Makefile"}
    assert not [path for path in seen if "__pycache__" in path]


def test_compose_and_kubernetes_start_the_same_job() -> None:
    of_compose = COMPOSE["services"]["jobmanager"]["command"]
    job = DEPLOYMENT["spec"]["job"]
    assert of_compose[of_compose.index("--job-classname") + 1] == job["entryClass"]
    assert of_compose[of_compose.index("--jars") + 1].removeprefix("file://") == job["jarURI"].removeprefix("local://")
    python = of_compose[of_compose.index("-py") :]
    assert python[:3] == job["args"][:3] == ["-py", "/opt/crenel/anonymize.py", "--config"]


def test_everybody_reaches_compose_on_this_machine_alone() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_all_processes_have_the_keys_as_files_so_that_the_job_graph_has_none() -> None:
    spec = DEPLOYMENT["spec"]
    parts = ("podTemplate", "jobManager", "taskManager")
    assert [part for part in parts if "secretName" in json.dumps(spec[part])] == ["podTemplate"]
    assert not [part for part in parts if "secretKeyRef" in json.dumps(spec[part])]
    (mount,) = [mount for mount in container("podTemplate")["volumeMounts"] if mount["name"] == "keys"]
    assert mount["readOnly"] is True
    path = f"{mount['mountPath']}/subject-key"
    assert f"{{file: {path}}}#' conf/kafka.yaml" in (DOCKER / "README.md").read_text(encoding="utf-8")
    assert "CRENEL_SUBJECT_KEY" not in COMPOSE["services"]["taskmanager"]["environment"]


def container(part: str) -> dict[str, Any]:
    """Return the container of Flink in one of the pod templates."""
    template = DEPLOYMENT["spec"] if part == "podTemplate" else DEPLOYMENT["spec"][part]
    (found,) = template["podTemplate"]["spec"]["containers"]
    assert found["name"] == "flink-main-container"
    return dict(found)


def test_containers_write_to_volumes_alone() -> None:
    shared = container("podTemplate")
    assert shared["securityContext"]["readOnlyRootFilesystem"] is True
    volumes = {volume["name"]: volume for volume in DEPLOYMENT["spec"]["podTemplate"]["spec"]["volumes"]}
    written = {mount["mountPath"] for mount in shared["volumeMounts"] if volumes[mount["name"]].get("emptyDir") == {}}
    (plugin,) = (variable["value"] for variable in shared["env"] if variable["name"] == "ENABLE_BUILT_IN_PLUGINS")
    # Flink's image links the plugin into a folder of that name.
    assert written == {"/tmp", "/opt/flink/log", f"/opt/flink/plugins/{plugin.removesuffix('.jar')}"}
    # Both templates have variables and volumes: by position, those of one would replace those of the other.
    assert DEPLOYMENT["spec"]["flinkConfiguration"]["kubernetes.operator.pod-template.merge-arrays-by-name"] == "true"


def test_the_network_policy_is_of_the_pods_of_the_job_and_opens_the_ports_that_it_has() -> None:
    assert (NETWORK["apiVersion"], NETWORK["kind"]) == ("networking.k8s.io/v1", "NetworkPolicy")
    pods = {"matchLabels": {"app": DEPLOYMENT["metadata"]["name"]}}
    assert (NETWORK["spec"]["podSelector"], NETWORK["spec"]["policyTypes"]) == (pods, ["Ingress"])
    inner, *outer = NETWORK["spec"]["ingress"]
    assert inner == {"from": [{"podSelector": pods}]}
    assert all(set(source) >= {"namespaceSelector"} for rule in outer for source in rule["from"])
    metrics = int(DEPLOYMENT["spec"]["flinkConfiguration"]["metrics.reporter.prom.port"])
    assert [port["port"] for rule in outer for port in rule["ports"]] == [8081, metrics]


def test_nothing_in_kubernetes_starts_without_what_was_before() -> None:
    spec = DEPLOYMENT["spec"]
    assert (DEPLOYMENT["kind"], spec["job"]["upgradeMode"]) == ("FlinkDeployment", "savepoint")
    settings = spec["flinkConfiguration"]
    assert settings["high-availability.type"] == "kubernetes"
    for name in (
        "high-availability.storageDir",
        "execution.checkpointing.dir",
        "execution.checkpointing.savepoint-dir",
    ):
        assert settings[name].startswith("s3://")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "job", "upgradMode"), "savepoint"),
        (("spec", "job", "upgradeMode"), "rolling"),
        (("spec", "flinkVersion"), "v9_9"),
        (("spec", "podTemplate", "spec", "securityContext", "runAsNonRot"), True),
        (("spec", "taskManager", "resource", "cpu"), "two"),
    ],
)
def test_the_schema_refuses_what_the_operator_would(path: tuple[str, ...], value: Any) -> None:
    # Draft-specific, as the schema says: what `make check` runs reads the same.
    validator = Draft202012Validator(SCHEMA)
    assert list(validator.iter_errors(DEPLOYMENT)) == []
    changed = deepcopy(DEPLOYMENT)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    assert list(validator.iter_errors(changed))


def test_the_job_of_compose_reads_what_the_generator_writes_and_finds_its_topics_and_hierarchies() -> None:
    kafka = yaml.safe_load((ROOT / "conf" / "kafka.yaml").read_text(encoding="utf-8"))
    (columns,) = re.findall(
        r"CREATE TEMPORARY TABLE visits \((.*?)\) WITH", (DOCKER / "generate.py").read_text(encoding="utf-8"), re.DOTALL
    )
    written = set(re.findall(r"(\w+) (?:STRING|BIGINT)", columns))
    assert written == {*kafka["source"]["from_json"]["fields"], "visited_ms"}
    assert "'$.visited_ms'" in kafka["source"]["ddl"]
    (made,) = re.findall(r"for topic in (.*?); do", str(COMPOSE["services"]["topics"]["command"]))
    assert made.split() == ["visits", *(sink["topic"] for sink in kafka["sinks"].values())]
    volumes = DEPLOYMENT["spec"]["jobManager"]["podTemplate"]["spec"]["volumes"]
    (policy,) = [volume for volume in volumes if volume["name"] == "policy"]
    there = {item["path"] for item in policy["configMap"]["items"]}
    configured_hierarchies = {
        found["hierarchy"] for found in kafka["policy"]["quasi_identifiers"].values() if "hierarchy" in found
    }
    assert there == {"policy.yaml", *configured_hierarchies}
