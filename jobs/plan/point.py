"""Candidate setting of a plan, and its form in a configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from crenel.anonymity.algorithm import Algorithm, known_algorithms
from crenel.anonymity.model.policy import SHARD_BY_REGIONS
from crenel.jobs.config.load import Config
from crenel.jobs.config.schema import SinksSection

_UNITS = ((86_400_000, "day"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


@dataclass(frozen=True)
class Point:
    """One setting.

    Attributes
    ----------
    algorithm : its name
    k, l : as of ``crenel.anonymity.model.privacy.Privacy``
    tuples, milliseconds : maximum delay in later tuples of the shard, and in event time; None: unbounded. For an
        algorithm with windows that carries tuples over to the next window, a window has half of it
    shards, by : as of ``crenel.anonymity.model.policy.Shards``
    further : values of further configuration fields by their dotted names
    """

    algorithm: str
    k: int
    l: int  # noqa: E741 - the field's own name for it
    tuples: int | None
    milliseconds: int | None
    shards: int = 1
    by: str = "subject"
    further: tuple[tuple[str, str], ...] = ()

    @property
    def delay(self) -> str:
        """The delay bound, as a configuration writes it."""
        bounds = [] if self.tuples is None else [f"{self.tuples} tuples"]
        bounds += [] if self.milliseconds is None else [duration(self.milliseconds)]
        return ", ".join(bounds) or "all"

    @property
    def divided(self) -> str:
        """The division of the stream, in words."""
        return "1" if self.shards == 1 else f"{self.shards} by {self.by}"


def duration(milliseconds: int) -> str:
    """Return a duration as a configuration writes it, in the largest unit of which it is a whole number."""
    scale, unit = next((scale, unit) for scale, unit in _UNITS if milliseconds % scale == 0 or scale == 1)
    return f"{milliseconds // scale} {unit}"


@dataclass(frozen=True)
class Written:
    """Conversion of points to configurations, based on an existing one.

    Attributes
    ----------
    config : the existing configuration
    content : the same in raw form
    regions : the regions file, by number of regions
    """

    config: Config
    content: Mapping[str, Any]
    regions: Mapping[int, str] = field(default_factory=dict)

    def sections(self, point: Point) -> dict[str, Any]:
        """Return the values of ``privacy.k``, ``privacy.l``, the algorithm with its section, and ``shards``."""
        shards: dict[str, Any] = {"count": point.shards}
        if point.shards > 1 or point.by == SHARD_BY_REGIONS:
            shards["by"] = point.by
        if point.by == SHARD_BY_REGIONS:
            shards["regions"] = self.regions[point.shards]
        return {
            "privacy.k": point.k,
            "privacy.l": point.l,
            "algorithm": point.algorithm,
            point.algorithm: self._section(point),
            "shards": shards,
        }

    def overrides(self, point: Point) -> list[str]:
        """Return the changes as overrides for ``load``, which also remove incompatible fields."""
        found = {name: json.dumps(value) for name, value in self.sections(point).items()}
        # JSON is YAML, and its quoting cannot be broken by a value.
        given = [f"{name}={value}" for name, value in found.items()]
        return [*self._removed(point), *given, *(f"{name}={value}" for name, value in point.further)]

    def _removed(self, point: Point) -> Iterator[str]:
        if point.algorithm == self.config.algorithm.name:
            return
        yield f"{self.config.algorithm.name}=~"
        for name in self.unfit_sinks(point):
            yield f"sinks.{name}=~"

    def unfit_sinks(self, point: Point) -> list[str]:
        """Return the sinks of outputs that the algorithm does not have."""
        own = {output.name for output in known_algorithms()[point.algorithm].outputs}
        return sorted(self.config.sinks.keys() - own - set(SinksSection.model_fields))

    def _section(self, point: Point) -> dict[str, Any]:
        algorithm, configured = known_algorithms()[point.algorithm], self.config.algorithm
        given = self.content.get(configured.name) or {}
        section: dict[str, Any] = json.loads(json.dumps(given)) if algorithm is configured else {}
        if algorithm is not configured:
            # Settings of equal name and kind have the same meaning in both algorithms.
            ours = {setting.path: setting.kind for setting in algorithm.settings}
            for setting in configured.settings:
                if ours.get(setting.path) == setting.kind and (value := _found(given, setting.path)) is not None:
                    _put(section, setting.path, value)
        for path, value in self._bounds(algorithm, point).items():
            _put(section, path, value)
        for name in [name for name, value in section.items() if value in (None, {})]:
            del section[name]
        return section

    def _bounds(self, algorithm: Algorithm, point: Point) -> dict[str, int | str | None]:
        found = bounds(algorithm, point.tuples, point.milliseconds)
        if algorithm is not self.config.algorithm:
            return found
        # Configured bounds keep their proportions.
        whole = dict(zip(_BOUNDS, waits(algorithm, self.config.parameters), strict=True))
        wanted = dict(zip(_BOUNDS, (point.tuples, point.milliseconds), strict=True))
        for setting in algorithm.settings:
            kind = setting.path.rpartition(".")[2]
            if setting.path in found and (all_of := whole[kind]) and (now := wanted[kind]):
                own = attrgetter(setting.field)(self.config.parameters)
                scaled = None if own is None else max(own * now // all_of, 1)
                found[setting.path] = scaled if scaled is None or kind == "tuples" else duration(scaled)
        return found


def bounds(algorithm: Algorithm, tuples: int | None, milliseconds: int | None) -> dict[str, int | str | None]:
    """Return the values of an algorithm's settings that bound the delay; None: not set."""
    paths = [setting.path for setting in algorithm.settings if setting.path.rpartition(".")[2] in _BOUNDS]
    both = any(path.startswith("delay.") for path in paths) and not all(path.startswith("delay.") for path in paths)
    found: dict[str, int | str | None] = {}
    for path in paths:
        # A tuple that a window carries over waits for one more window.
        parts = 2 if both and not path.startswith("delay.") else 1
        if path.endswith("tuples"):
            found[path] = None if tuples is None else max(tuples // parts, 1)
        else:
            found[path] = None if milliseconds is None else duration(milliseconds // parts)
    return found


def waits(algorithm: Algorithm, parameters: Any) -> tuple[int | None, int | None]:
    """Return the configured delay bounds, in tuples and in milliseconds; None: unbounded."""
    found: dict[str, int | None] = {"tuples": None, "event_time": None}
    # The delay section comes last, and so takes precedence.
    for setting in sorted(algorithm.settings, key=lambda of: of.path.startswith("delay.")):
        kind = setting.path.rpartition(".")[2]
        if kind in found:
            value = attrgetter(setting.field)(parameters)
            found[kind] = found[kind] if value is None else value
    return found["tuples"], found["event_time"]


_BOUNDS = ("tuples", "event_time")


def _found(section: Mapping[str, Any], path: str) -> Any:
    name, dot, rest = path.partition(".")
    value = section.get(name)
    return value if not dot or not isinstance(value, dict) else _found(value, rest)


def _put(section: dict[str, Any], path: str, value: Any) -> None:
    """Set a field of a section; None removes it."""
    name, dot, rest = path.partition(".")
    if dot:
        inner = section.get(name)
        section[name] = dict(inner) if isinstance(inner, dict) else {}
        _put(section[name], rest, value)
    elif value is None:
        section.pop(name, None)
    else:
        section[name] = value
