"""The dashboard, by Grafana's own schema and by what it asks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from tests.support.queries import DASHBOARD, panels


def test_grafana_knows_every_field() -> None:
    # Grafana's library reads what its schema has and drops the rest, so all that is written must come back.
    pytest.importorskip("grafana_foundation_sdk", reason="Grafana's schema needs Python 3.11")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    written = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(written)))
    assert list(lost(written, read)) == []


def lost(written: Any, read: Any, where: str = "") -> Iterator[str]:
    """Yield the location of each written value that did not return."""
    if isinstance(written, dict) and isinstance(read, dict):
        for name, value in written.items():
            yield from lost(value, read.get(name), f"{where}.{name}")
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for i, (value, back) in enumerate(zip(written, read, strict=True)):
            yield from lost(value, back, f"{where}[{i}]")
    elif written != read:
        yield where


def test_panels_are_told_apart_and_do_not_overlap() -> None:
    content = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    rows = [panel for panel in content["panels"] if panel["type"] == "row"]
    assert max(Counter(panel["id"] for panel in (*rows, *panels())).values()) == 1
    assert max(Counter(panel["title"] for panel in panels()).values()) == 1
    for placed in (content["panels"], *(row["panels"] for row in rows)):
        covered = [cells(panel["gridPos"]) for panel in placed]
        assert all(not one & other for one, other in combinations(covered, 2))
        assert all(x < 24 for part in covered for x, _ in part)


def test_every_panel_says_what_it_shows_of_the_data_source_and_job_that_were_chosen() -> None:
    for panel in panels():
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            assert target["expr"].count('job_name=~"$job"') == target["expr"].count("{"), panel["title"]


def cells(place: dict[str, int]) -> set[tuple[int, int]]:
    """Return the cells of the grid that a panel covers."""
    return {
        (x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])
    }
