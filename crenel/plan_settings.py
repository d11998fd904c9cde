"""Settings of the points of a plan: to replay, and as text to paste into a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from crenel.anonymity.algorithm import Algorithm, known_algorithms
from crenel.anonymity.model.errors import ConfigError, PolicyError
from crenel.anonymity.model.explain import explain, fields_of
from crenel.anonymity.model.policy import SHARD_BY_REGIONS, Policy, Shards
from crenel.anonymity.model.privacy import Privacy, Sensitive
from crenel.anonymity.model.region_tree import RegionTree
from crenel.evidence.plan.point import Point
from crenel.evidence.plan.replays import Make
from crenel.evidence.sample import ReplaySetting
from crenel.operators.digests import PlanSettings
from crenel.regions_file import regions_text
from crenel.settings import Settings
from crenel.settings_file import parse


def setting_of(settings: PlanSettings, privacy: Privacy) -> ReplaySetting:
    """Return the replay setting of settings; ``privacy``: their privacy models, with the codes of references."""
    return ReplaySetting(
        algorithm=settings.algorithm,
        privacy=privacy,
        shards=settings.shards,
        seed=settings.seed or 0,
        sampling_and_noise=settings.sampling_and_noise,
    )


@dataclass(frozen=True)
class PlannedSettings:
    """Settings, and those of other points that are based on them.

    Attributes
    ----------
    settings : the configured settings
    privacy : configured privacy models, with the codes of their references
    folder : for learned regions files; None: no regions are learned
    regions : path of the regions file, by number of regions
    learned : content of the learned regions files, by number of regions
    """

    settings: Settings
    privacy: Privacy
    folder: Path | None
    regions: dict[int, str] = field(default_factory=dict)
    learned: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shards = self.settings.shards
        if isinstance(shards.regions, RegionTree) and shards.regions.source is not None:
            self.regions.setdefault(shards.count, shards.regions.source)

    @property
    def learns_regions(self) -> bool:
        """Whether regions may be learned from a sample."""
        return self.folder is not None

    def make(self, point: Point) -> Make:
        """Return a function that makes the setting of a point; raise ``PolicyError`` where regions are missing."""
        if point.by == SHARD_BY_REGIONS and not self.has_regions(point.shards):
            raise PolicyError(
                "shards.regions: the sample holds too little for so many regions"
                if self.learns_regions
                else "shards.regions: no file is given for learned regions"
            )
        return partial(_setting, self.settings, self.privacy, point, self.regions.get(point.shards))

    def of(self, point: Point) -> Settings:
        """Return the settings of a point.

        Raises
        ------
        ConfigError
            They are not valid.
        """
        return changed(self.settings, point, self.regions.get(point.shards))

    def has_regions(self, count: int) -> bool:
        """Return whether there is a regions file with this number of regions."""
        return count in self.regions

    def add_regions(self, policy: Policy, tree: RegionTree, rows: int, members: int) -> None:
        """Write learned regions to a file; parameters as of ``regions_text``."""
        if self.folder is None:
            raise ValueError("there is no folder for learned regions")
        count = len(tree)
        self.learned[count] = regions_text(policy, tree, rows, members)
        path = (self.folder / f"regions-{count}.yaml").absolute()
        path.write_text(self.learned[count], encoding="utf-8")
        self.regions[count] = str(path)

    def learned_regions(self, point: Point) -> str | None:
        """Return the content of the learned regions file of a point; None if none was learned."""
        return self.learned.get(point.shards) if point.by == SHARD_BY_REGIONS else None

    def block(self, point: Point, regions: str) -> str:
        """Return YAML of ``privacy``, ``algorithm`` and its section, ``shards``, and further changed sections.

        ``regions`` : name of a learned regions file.
        """
        settings = self.of(point)
        if point.by == SHARD_BY_REGIONS and point.shards in self.learned:
            learned: Any = settings.shards.regions
            tree = replace(learned, source=regions)
            settings = replace(settings, shards=replace(settings.shards, regions=tree))
        names = [
            "privacy",
            "algorithm",
            point.algorithm,
            "shards",
            *(name.partition(".")[0] for name, _ in point.further),
        ]
        content = settings.sections(dict.fromkeys(names))
        content.setdefault("shards", {"count": 1})
        return yaml.safe_dump(content, default_flow_style=None, sort_keys=False, allow_unicode=True, width=1000)

    def replaced(self, point: Point) -> list[str]:
        """Return the sections that a block replaces or makes useless."""
        own = self.settings.algorithm.name
        return ["privacy", "algorithm", point.algorithm, *([] if point.algorithm == own else [own]), "shards"]


def _setting(settings: Settings, privacy: Privacy, point: Point, regions: str | None) -> ReplaySetting:
    """Return the setting of a point; ``privacy``: configured privacy models, with codes of references.

    Raises
    ------
    PolicyError
        The settings are not valid.
    """
    try:
        made = changed(settings, point, regions)
    except ConfigError as error:
        raise PolicyError(error.problems[0]) from None
    coded = {
        name: replace(column, reference=privacy.sensitive[name].reference) if name in privacy.sensitive else column
        for name, column in made.privacy.sensitive.items()
    }
    return setting_of(made, replace(made.privacy, sensitive=coded))


def changed(settings: Settings, point: Point, regions: str | None) -> Settings:
    """Return the settings of a point, based on others; ``regions``: path of its regions file.

    Raises
    ------
    ConfigError
        They are not valid.
    """
    by = point.by if point.shards > 1 or point.by == SHARD_BY_REGIONS else "subject"
    made: dict[str, Any] = {
        "privacy": replace(settings.privacy, k=point.k, l=point.l),
        "algorithm": _algorithm(settings.algorithm, point),
        "shards": Shards(point.shards, by, regions if by == SHARD_BY_REGIONS else None),
    }
    for name, text in point.further:
        first, *rest = name.split(".")
        section = "algorithm" if first == point.algorithm else first
        if section not in {f.name for f in fields(Settings)}:
            raise _unknown(name)
        made[section] = _with_field(made.get(section, getattr(settings, section)), rest, parse(text), name)
    return replace(settings, **made)


def _unknown(name: str) -> ConfigError:
    return ConfigError("settings", [f"{name}: is no field of settings; such as privacy.t or castle.max_clusters"])


def _with_field(value: Any, path: list[str], given: Any, name: str) -> Any:
    """Return a section with another value of a field; ``given`` is as a file has it, and None the default."""
    if not path:
        return given
    first, *rest = path
    if isinstance(value, Privacy | Sensitive) and first not in {f.name for f in fields(value)}:
        models = {model: parameter for model, parameter in value.models.items() if model != first or rest}
        own = _with_field(models.get(first), rest, given, name)
        return _replaced(value, {"models": models if own is None else models | {first: own}}, name)
    if isinstance(value, Mapping):
        return {**value, first: _with_field(value.get(first), rest, given, name)}
    if value is None:
        return {first: _with_field(None, rest, given, name)}
    if not is_dataclass(value) or first not in fields_of(type(value)):
        raise _unknown(name)
    return _replaced(value, {first: _with_field(getattr(value, first), rest, given, name)}, name)


def _replaced(value: Any, changes: Mapping[str, Any], name: str) -> Any:
    try:
        return replace(value, **changes)
    except ConfigError as error:
        place = name.partition(".")[0]
        raise ConfigError("settings", [f"{place}.{problem}" for problem in error.problems]) from None


def _algorithm(configured: Algorithm, point: Point) -> Algorithm:
    """Return the algorithm of a point, with the configured values of the settings that both have."""
    kind: Any = known_algorithms()[point.algorithm]
    section: dict[str, Any] = {}
    if isinstance(configured, kind):
        section = {f.name: getattr(configured, f.name) for f in fields(kind)}
    ours, others = dict(kind.settings()), dict(type(configured).settings())
    for path, field_info in ours.items():
        other = others.get(path)
        # Settings of equal name and type have the same meaning in both algorithms.
        if other is not None and other.annotation == field_info.annotation:
            _put(section, path, configured.value_of(path))
    for path, bound in _bounds(kind, configured, point).items():
        _put(section, path, bound)
    section = {name: value for name, value in section.items() if value is not None and value != {}}
    try:
        made: Algorithm = TypeAdapter(kind).validate_python(section, context={"folder": Path()})
    except ValidationError as error:
        raise ConfigError("settings", [problem for _, problem in explain(error, kind, kind.name)]) from None
    return made


def _bounds(kind: type[Algorithm], configured: Algorithm, point: Point) -> dict[str, int | None]:
    """Return the values of an algorithm's settings that bound the delay; None: not set."""
    bounds, wanted = kind.bounds(), {"tuples": point.tuples, "event_time": point.milliseconds}
    carries = any(path.startswith("delay.") for path in bounds) and not all(
        path.startswith("delay.") for path in bounds
    )
    values: dict[str, int | None] = {}
    for path, unit in bounds.items():
        # A tuple that a window carries over waits for one more window.
        parts = 2 if carries and not path.startswith("delay.") else 1
        bound = wanted[unit]
        values[path] = None if bound is None else max(bound // parts, 1 if unit == "tuples" else 0)
    if not isinstance(configured, kind):
        return values
    # Configured bounds keep their proportions.
    longest = dict(zip(("tuples", "event_time"), configured.delay_bounds, strict=True))
    for path, unit in bounds.items():
        whole, now = longest[unit], wanted[unit]
        if whole and now:
            own = configured.value_of(path)
            values[path] = None if own is None else max(own * now // whole, 1)
    return values


def _put(section: dict[str, Any], path: str, value: Any) -> None:
    """Set a field of a section by its dotted name."""
    name, dot, rest = path.partition(".")
    if not dot:
        section[name] = value
        return
    inner: Any = section.get(name)
    if is_dataclass(inner) and not isinstance(inner, type):
        inner = {f.name: getattr(inner, f.name) for f in fields(inner)}
    section[name] = dict(inner or {})
    _put(section[name], rest, value)
    if all(each is None for each in section[name].values()):
        section[name] = None
