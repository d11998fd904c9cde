"""Makes a JSON schema of the operator's own definition of a FlinkDeployment, strict: what it does not name is refused.

``python -m tests.night.docker.crd CRD FLINK_VERSION > docker/kubernetes/flinkdeployment.schema.json``, where ``CRD`` is
the ``flinkdeployments.flink.apache.org-v1.yml`` of the operator, as the Maven artifact
``org.apache.flink:flink-kubernetes-operator-api:1.10.0`` has it in ``META-INF/fabric8``. No newer one could be fetched
from Maven Central; later operators take all that it takes. It was made before Flink 2, so ``FLINK_VERSION`` is added.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml


def schema(definition: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the schema of a whole FlinkDeployment, with one copy of the schema of its three pod templates."""
    (served,) = definition["spec"]["versions"]
    spec = served["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["flinkVersion"]["enum"].append(version)
    pod = spec["properties"]["podTemplate"]
    for holder in (spec, spec["properties"]["jobManager"], spec["properties"]["taskManager"]):
        assert holder["properties"]["podTemplate"] == pod
        holder["properties"]["podTemplate"] = {"$ref": "#/$defs/pod"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Made by tests/night/docker/crd.py of org.apache.flink:flink-kubernetes-operator-api:1.10.0, "
        "Apache-2.0",
        "type": "object",
        "additionalProperties": False,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": f"{definition['spec']['group']}/{served['name']}"},
            "kind": {"const": definition["spec"]["names"]["kind"]},
            "metadata": _strict(pod["properties"]["metadata"]),
            "spec": _strict(spec),
        },
        "$defs": {"pod": _strict(pod)},
    }


def _strict(part: Any) -> Any:
    if isinstance(part, list):
        return [_strict(each) for each in part]
    if not isinstance(part, dict):
        return part
    made = {name: _strict(each) for name, each in part.items()}
    # Where a number may be text as well, Kubernetes says so in a way of its own.
    if made.pop("x-kubernetes-int-or-string", False):
        made["type"] = ["integer", "string"]
    if isinstance(part.get("properties"), dict) and part.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


if __name__ == "__main__":
    print(json.dumps(schema(yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2])))
