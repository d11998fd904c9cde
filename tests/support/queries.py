"""What the dashboard and the alerts ask of Prometheus."""

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

_VARIABLES = {"$__rate_interval:15s": "10s:1s", "$__rate_interval": "10s", '"$job"': '".*"'}
"""What Grafana sets, as it would be where Prometheus scrapes each second."""
_PATTERN = re.compile(r'__name__=~"([^"]+)"')
_NAME = re.compile(r"\bflink_\w+")
_TEXT = re.compile(r'"[^"]*"')


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard, without the rows that they stand in."""
    found = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def asked() -> Iterator[tuple[str, str]]:
    """Every expression, with where it stands: the title of a panel, or the name of an alert."""
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
    """The metrics that an expression names."""
    return set(_NAME.findall(_TEXT.sub("", expression)))


def patterns(expression: str) -> set[str]:
    """The regular expressions by which it asks for metrics whose names follow from a policy."""
    return set(_PATTERN.findall(expression))
