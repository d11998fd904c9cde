"""Queries of the dashboard and the alerts to Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.launch import ROOT

DASHBOARD = ROOT / "conf" / "grafana" / "crenel.json"
ALERTS = ROOT / "conf" / "prometheus" / "alerts.yml"
SCRAPE = ROOT / "conf" / "prometheus" / "prometheus.yml"

OF_KAFKA = {"flink_taskmanager_job_task_operator_failedCommittables"}
"""Metrics that only a job with sinks of Kafka has."""

_VARIABLES = {"$__rate_interval:15s": "10s:1s", "$__rate_interval": "10s", '"$job"': '".*"'}
"""Variables of Grafana, for a Prometheus that scrapes each second."""
_PATTERN = re.compile(r'__name__=~"([^"]+)"')
_NAME = re.compile(r"\bflink_\w+")
_TEXT = re.compile(r'"[^"]*"')


def panels(*, are_open: bool = False) -> list[dict[str, Any]]:
    """Return the panels of the dashboard, without the rows that they stand in.

    ``are_open``: without those of the closed rows, each of which is for some algorithms.
    """
    found = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    shown = [panel for panel in found if panel["type"] != "row"]
    return shown if are_open else shown + [panel for row in found for panel in row.get("panels", [])]


def all_expressions() -> Iterator[tuple[str, str]]:
    """Yield every expression with its location: the title of a panel, or the name of an alert."""
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in _VARIABLES.items():
                expression = expression.replace(variable, value)
            yield panel["title"], expression
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def names(expression: str) -> set[str]:
    """Return the metrics that an expression names."""
    return set(_NAME.findall(_TEXT.sub("", expression)))


def patterns(expression: str) -> set[str]:
    """Return the regular expressions by which it asks for metrics whose names follow from a policy."""
    return set(_PATTERN.findall(expression))
