"""Configurations of the points of a plan: settings to replay, and text to paste."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from crenel.anonymity.algorithm import Algorithm, known_algorithms
from crenel.anonymity.model.durations import format_duration
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import SHARD_BY_REGIONS, Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.region_tree import RegionTree
from crenel.evidence.plan.point import Point, waits
from crenel.evidence.plan.replays import Make
from crenel.evidence.sample import Setting
from crenel.jobs.config.file import ConfigError, override, read
from crenel.jobs.config.load import Config, load, load_settings
from crenel.jobs.config.regions import regions_text
from crenel.jobs.config.schema import SinksSection
from crenel.jobs.pipeline.evidence_inputs import setting_of

_BOUNDS = ("tuples", "event_time")
"""Last parts of the paths of settings that bound a delay."""


Changed: TypeAlias = Callable[[Sequence[str]], Config]
"""A function that returns the configuration with overrides; it can be pickled, and raises ``ConfigError``."""


def _changed_file(path: Path, overrides: Sequence[str], changes: Sequence[str]) -> Config:
    return load(path, [*overrides, *changes])


def _changed_sections(content: Mapping[str, Any], folder: Path, changes: Sequence[str]) -> Config:
    return load_settings(overridden(content, changes), folder, "settings")


def overridden(content: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Return a copy of raw sections with overrides.

    Raises
    ------
    ConfigError
        An override cannot be applied.
    """
    changed: dict[str, Any] = _copied(content)
    if problems := override(changed, changes):
        raise ConfigError("settings", (problem.removeprefix("--set ") for problem in problems))
    return changed


def _copied(value: Any) -> Any:
    """Return a copy of the mappings, which overrides change; objects such as hierarchies stay the same."""
    return {name: _copied(inner) for name, inner in value.items()} if isinstance(value, dict) else value


def _load_setting(changed: Changed, changes: Sequence[str], coded: Privacy) -> Setting:
    """Return the setting of a changed configuration; ``coded``: configured privacy models, with codes of references.

    Raises
    ------
    PolicyError
        The configuration is not valid.
    """
    try:
        config = changed(changes)
    except ConfigError as error:
        raise PolicyError(error.problems[0]) from None
    codes = {column.name: column.reference for column in coded.sensitive}
    sensitive = (replace(of, reference=codes.get(of.name, of.reference)) for of in config.privacy.sensitive)
    return setting_of(config, replace(config.privacy, sensitive=tuple(sensitive)))


@dataclass(frozen=True)
class PlanConfiguration:
    """A configuration, and those of other points that are based on it.

    Attributes
    ----------
    changed : returns the configuration with overrides
    config : the configuration
    content : the same in raw form
    privacy : configured privacy models, with the codes of their references
    folder : for learned regions files; None: no regions are learned
    regions : the regions file, by number of regions
    learned : content of the learned regions files, by number of regions
    """

    changed: Changed
    config: Config
    content: Mapping[str, Any]
    privacy: Privacy
    folder: Path | None
    regions: dict[int, str] = field(default_factory=dict)
    learned: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, path: Path, overrides: Sequence[str], config: Config, privacy: Privacy, folder: Path
    ) -> PlanConfiguration:
        """Return the plan configuration of a valid file."""
        content = read(path)
        override(content, overrides)
        return cls._of(partial(_changed_file, path, tuple(overrides)), config, content, privacy, folder)

    @classmethod
    def of_sections(
        cls, content: Mapping[str, Any], base: Path, config: Config, privacy: Privacy, folder: Path | None
    ) -> PlanConfiguration:
        """Return the plan configuration of valid sections of a program; ``base``: folder of their relative paths."""
        return cls._of(partial(_changed_sections, content, base), config, content, privacy, folder)

    @classmethod
    def _of(
        cls, changed: Changed, config: Config, content: Mapping[str, Any], privacy: Privacy, folder: Path | None
    ) -> PlanConfiguration:
        shards = config.shards
        regions = {} if shards.regions is None else {shards.count: str(content["shards"]["regions"])}
        return cls(changed, config, content, privacy, folder, regions)

    @property
    def learns_regions(self) -> bool:
        """Whether regions may be learned from a sample."""
        return self.folder is not None

    def make(self, point: Point) -> Make:
        """Return a function that makes the setting of a point; raise ``PolicyError`` where regions are missing."""
        return partial(_load_setting, self.changed, tuple(self.changes(point)), self.privacy)

    def has_regions(self, count: int) -> bool:
        """Return whether there is a regions file with this number of regions."""
        return count in self.regions

    def add_regions(self, policy: Policy, tree: RegionTree, rows: int, members: int) -> None:
        """Write learned regions to a file; parameters as of ``regions_text``."""
        if self.folder is None:
            raise ValueError("there is no folder for learned regions")
        count = len(tree)
        self.learned[count] = regions_text(policy, tree, rows, members)
        path = self.folder / f"regions-{count}.yaml"
        path.write_text(self.learned[count], encoding="utf-8")
        self.regions[count] = str(path)

    def learned_regions(self, point: Point) -> str | None:
        """Return the content of the learned regions file of a point; None if none was learned."""
        return self.learned.get(point.shards) if point.by == SHARD_BY_REGIONS else None

    def changes(self, point: Point) -> list[str]:
        """Return the changes as overrides for ``load``, which also remove incompatible fields."""
        if point.by == SHARD_BY_REGIONS and not self.has_regions(point.shards):
            raise PolicyError(
                "shards.regions: the sample holds too little for so many regions"
                if self.learns_regions
                else "shards.regions: no file is given for learned regions"
            )
        sections = self._sections(point, self.regions.get(point.shards, ""))
        # JSON is YAML, and its quoting cannot be broken by a value.
        changed = [f"{name}={json.dumps(value)}" for name, value in sections.items()]
        return [*self._removed(point), *changed, *(f"{name}={value}" for name, value in point.further)]

    def block(self, point: Point, regions: str) -> str:
        """Return YAML of ``privacy``, ``algorithm`` and its section, ``shards``, and further changed fields.

        ``regions`` : name of a learned regions file.
        """
        file = regions if point.shards in self.learned else self.regions.get(point.shards, "")
        found = self._sections(point, file)
        privacy = dict(self.content.get("privacy") or {})
        content: dict[str, Any] = {"privacy": privacy | {"k": found["privacy.k"], "l": found["privacy.l"]}}
        content |= {name: value for name, value in found.items() if not name.startswith("privacy.")}
        for name, value in point.further:
            _set(content, self.content, name, value)
        return yaml.safe_dump(_typed(content), default_flow_style=None, sort_keys=False, allow_unicode=True, width=1000)

    def load_with(self, block: str, point: Point) -> Config:
        """Return the configuration with a block in place of its sections.

        Raises
        ------
        ConfigError
            The configuration with the block is not valid.
        """
        content = yaml.safe_load(block)
        if "regions" in content["shards"]:
            content["shards"]["regions"] = self.regions.get(point.shards, "")
        removed = [f"{name}=~" for name in self.replaced(point) if name not in content]
        changed = (f"{name}={json.dumps(value)}" for name, value in content.items())
        return self.changed([*removed, *changed])

    def replaced(self, point: Point) -> list[str]:
        """Return the sections and sinks that a block replaces or makes useless."""
        own = self.config.algorithm.name
        sinks = [f"sinks.{name}" for name in self._unfit_sinks(point)]
        return ["privacy", "algorithm", point.algorithm, *([] if point.algorithm == own else [own]), "shards", *sinks]

    def _sections(self, point: Point, regions: str) -> dict[str, Any]:
        """Return the values of ``privacy.k``, ``privacy.l``, the algorithm with its section, and ``shards``."""
        shards: dict[str, Any] = {"count": point.shards}
        if point.shards > 1 or point.by == SHARD_BY_REGIONS:
            shards["by"] = point.by
        if point.by == SHARD_BY_REGIONS:
            shards["regions"] = regions
        return {
            "privacy.k": point.k,
            "privacy.l": point.l,
            "algorithm": point.algorithm,
            point.algorithm: self._section(point),
            "shards": shards,
        }

    def _removed(self, point: Point) -> Iterator[str]:
        if point.algorithm == self.config.algorithm.name:
            return
        yield f"{self.config.algorithm.name}=~"
        for name in self._unfit_sinks(point):
            yield f"sinks.{name}=~"

    def _unfit_sinks(self, point: Point) -> list[str]:
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
                if ours.get(setting.path) == setting.kind and (value := _value_at(given, setting.path)) is not None:
                    _put(section, setting.path, value)
        for path, value in self._scaled_bounds(algorithm, point).items():
            _put(section, path, value)
        for name in [name for name, value in section.items() if value in (None, {})]:
            del section[name]
        return section

    def _scaled_bounds(self, algorithm: Algorithm, point: Point) -> dict[str, int | str | None]:
        found = _delay_bounds(algorithm, point.tuples, point.milliseconds)
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
                found[setting.path] = scaled if scaled is None or kind == "tuples" else format_duration(scaled)
        return found


def _delay_bounds(algorithm: Algorithm, tuples: int | None, milliseconds: int | None) -> dict[str, int | str | None]:
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
            found[path] = None if milliseconds is None else format_duration(milliseconds // parts)
    return found


def _value_at(section: Mapping[str, Any], path: str) -> Any:
    name, dot, rest = path.partition(".")
    value = section.get(name)
    return value if not dot or not isinstance(value, dict) else _value_at(value, rest)


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
