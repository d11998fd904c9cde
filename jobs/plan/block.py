"""Configuration sections of a chosen setting, as text to paste."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from crenel.jobs.config.load import Config, load
from crenel.jobs.plan.point import Point, Written


def block(written: Written, point: Point, regions: str) -> str:
    """Return YAML of ``privacy``, ``algorithm`` and its section, ``shards``, and further changed fields.

    ``regions`` : file to name where regions divide the stream.
    """
    found = replace(written, regions=dict.fromkeys([*written.regions, point.shards], regions)).sections(point)
    privacy = dict(written.content.get("privacy") or {})
    content: dict[str, Any] = {"privacy": privacy | {"k": found["privacy.k"], "l": found["privacy.l"]}}
    content |= {name: value for name, value in found.items() if not name.startswith("privacy.")}
    for name, value in point.further:
        _set(content, written.content, name, value)
    return yaml.safe_dump(_typed(content), default_flow_style=None, sort_keys=False, allow_unicode=True, width=1000)


def pasted(text: str, written: Written, point: Point, path: Path, overrides: list[str], regions: str) -> Config:
    """Return the configuration with a block in place of its sections; ``regions``: the actual regions file.

    Raises
    ------
    ConfigError
        The configuration with the block is not valid.
    """
    content = yaml.safe_load(text)
    if "regions" in content["shards"]:
        content["shards"]["regions"] = regions
    removed = [f"{name}=~" for name in replaced(written, point) if name not in content]
    return load(path, [*overrides, *removed, *(f"{name}={json.dumps(value)}" for name, value in content.items())])


def replaced(written: Written, point: Point) -> list[str]:
    """Return the sections and sinks that a block replaces or makes useless."""
    other = [] if point.algorithm == written.config.algorithm.name else [written.config.algorithm.name]
    sinks = [f"sinks.{name}" for name in written.unfit_sinks(point)]
    return ["privacy", "algorithm", point.algorithm, *other, "shards", *sinks]


def _set(content: dict[str, Any], configured: Mapping[str, Any], name: str, value: str) -> None:
    """Set a dotted field, in a copy of its section as it is configured."""
    first, dot, rest = name.partition(".")
    if not dot:
        content[first] = value
        return
    given = content.get(first, configured.get(first))
    inner = dict(given) if isinstance(given, dict) else {}
    content[first] = inner
    _set(inner, {}, rest, value)


def _typed(value: Any) -> Any:
    """Convert text that is a number as written to that number, because YAML would quote the text."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_typed(inner) for inner in value]
    for kind in (int, float) if isinstance(value, str) else ():
        try:
            if str(kind(value)) == value:
                return kind(value)
        except ValueError:
            continue
    return value
