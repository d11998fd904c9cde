"""``crenel schema``: an editor that follows it accepts each valid file, and names what is misspelled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from crenel.jobs.cli.app import app
from tests.crenel.test_settings import BASE, drawn_of, of_algorithms, parts

CONFIGURATIONS = sorted((Path(__file__).parents[3] / "conf").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(json.loads(CliRunner().invoke(app, ["schema"]).stdout))


def problems(content: Any) -> list[str]:
    return [error.json_path for error in VALIDATOR.iter_errors(content)]


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.name)
def test_shipped_configurations_are_valid(path: Path) -> None:
    assert problems(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


@given(st.one_of([drawn_of(part) for part in (*parts(), *of_algorithms())]))
def test_each_field_with_each_valid_value_is_valid(part: dict[str, Any]) -> None:
    assert problems({**BASE, **part}) == []


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({"policies": {}}, "$"),
        ({"policy": {"quasi_identifiers": {"age": {"type": "numeric", "domains": [0, 9]}}}}, "$.policy"),
        ({"policy": {"quasi_identifiers": {"age": {"domain": [0, 9]}}}}, "$.policy"),
        ({"policy": {"missing": "keep"}}, "$.policy"),
        ({"algorithm": "closest"}, "$.algorithm"),
        ({"nearest": {"delay": {"tuple": 9}}}, "$.nearest"),
        ({"sinks": {"release": {}}}, "$.sinks"),
        ({"accept_duplicates": "nope"}, "$.accept_duplicates"),
    ],
)
def test_a_misspelled_field_or_choice_is_found(part: dict[str, Any], place: str) -> None:
    (found,) = problems(part)
    assert found.startswith(place)
    assert problems({"accept_duplicates": "${DUPLICATES}"}) == []
