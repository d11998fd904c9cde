"""Settings of an anonymization: the same classes in Python, in a configuration file, and in the core.

``Settings`` validates all of them together. Jobs add sections of their own (``crenel.jobs.config``).
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from datetime import date
from functools import cached_property
from importlib import import_module
from ipaddress import IPv4Network
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from crenel.anonymity.algorithm import REPAIRS, Algorithm, algorithms_with, known_algorithms
from crenel.anonymity.model.attributes import EXACT, Categorical, Numeric
from crenel.anonymity.model.durations import format_duration
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.explain import explain, explain_undecided, fields_of, listed, suggestion
from crenel.anonymity.model.fields import Columns, Milliseconds, Positive, Whole, about, is_duration, show_plain_types
from crenel.anonymity.model.hierarchy import Hierarchy
from crenel.anonymity.model.hierarchy_field import section_of as hierarchy_section
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise, Sensitive
from crenel.anonymity.model.reference import Reference
from crenel.anonymity.model.region_tree import RegionTree
from crenel.anonymity.model.secret import SubjectKey
from crenel.anonymity.model.secret_field import KEY_SOURCES, SubjectKeyField
from crenel.contract import ContractError, check_contract
from crenel.contradictions import contradictions
from crenel.privacy_warnings import STATE_WARNINGS, epoch_warnings, startup_warnings
from crenel.regions_file import read_regions
from crenel.settings_file import expand, override, read

JOB = ("source", "sinks", "catalogs", "flink", "accept_duplicates", "audit_chain", "shape")
"""Sections of a file that only a job has."""

_SUBJECT_KEY = "${CRENEL_SUBJECT_KEY}"


class PrivacyWarning(UserWarning):
    """Valid settings with a weaker guarantee than they suggest, in the words of ``crenel check``.

    ``anonymize`` and ``open_stream`` warn once of the settings, and ``Stream.snapshot`` of the key of stored state.

    Examples
    --------
    >>> import warnings
    >>> import crenel
    >>> warnings.simplefilter("error", crenel.PrivacyWarning)  # refuse such settings
    """


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings that determine the releases, validated together.

    Attributes
    ----------
    policy : the role of each column
    privacy : privacy models that every release satisfies
    algorithm : which tuples are released together, and when. A file has its name, and a section of this name
    sampling_and_noise : sampling and perturbation of the input; None: neither
    shards : division of the stream
    seed : determines every random choice, so that a run can be repeated; None: drawn from the operating system, which
        is right for data that is published
    subject_key : key of the hash of subjects, 16 random bytes or more; a shorter one causes a warning, and is refused
        with a pseudonym. Text or bytes, or the place where each process reads it, such as ``{"environment": "NAME"}``.
        A restore needs the same key
    epoch : of a job: another number makes its shards start anew, under a policy that its state does not fit
    extensions : Python modules that register algorithms, privacy models or formats of records of your own
    folder : folder that relative paths of files refer to, such as those of hierarchies; by default the current one

    Raises
    ------
    ConfigError
        Lists every problem, each with its field and a valid form.

    Examples
    --------
    >>> import crenel
    >>> settings = crenel.Settings(
    ...     policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]),
    ...     privacy=crenel.Privacy(k=10, l=2),
    ...     algorithm=crenel.Nearest(crenel.Delay(tuples=1000)),
    ... )
    >>> print(settings.to_yaml())
    policy:
      quasi_identifiers:
        age:
          type: numeric
          domain: [0, 110]
      sensitive: [diagnosis]
    privacy:
      k: 10
      l: 2
    algorithm: nearest
    nearest:
      delay:
        tuples: 1000
    <BLANKLINE>
    """

    policy: Annotated[Policy, about("a mapping of roles to columns of the source")]
    privacy: Annotated[Privacy, about("a mapping such as {k: 10, l: 2}")]
    algorithm: Algorithm
    sampling_and_noise: Annotated[
        SamplingAndNoise | None,
        about("a mapping such as {sample_rate: 0.5, phi: 100}, or null for neither sampling nor noise"),
    ] = None
    shards: Annotated[Shards, about("a mapping such as {count: 4, by: subject}")] = Shards()  # noqa: RUF009 - frozen
    seed: Annotated[
        Annotated[Whole, Field(ge=0, le=2**63 - 1)] | None, about("a whole number from 0 to 2^63 - 1, or null")
    ] = None
    subject_key: Annotated[SubjectKeyField, about(f"text, best as {_SUBJECT_KEY} in a file, or {KEY_SOURCES}")] = field(
        default=SubjectKey(), repr=False
    )
    epoch: Annotated[Positive, about("a whole number, 1 or more: with another one shards begin anew")] = 1
    extensions: Annotated[Columns, about("a list of Python modules, such as [my_company.privacy_models]")] = ()
    folder: Path = field(default=Path(), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | Path):
            raise ConfigError("settings", ["folder: is not a path; give text or a Path, such as Path('conf')"])
        given = {name: getattr(self, name) for name in _SECTIONS} | {"algorithm": self.algorithm}
        problems = [*import_extensions(self.extensions)]
        validated = _Validation(given, Path(self.folder), {})
        if problems := [*problems, *validated.problems]:
            raise ConfigError("settings", problems)
        self.__dict__.update(validated.values, folder=Path(self.folder))

    @classmethod
    def of_sections(
        cls,
        content: Mapping[str, Any],
        folder: Path,
        origin: Path | str,
        *,
        paths: Mapping[str, str] = MappingProxyType({}),
        problems: Sequence[str] = (),
        unset: Sequence[str] = (),
        known: Sequence[str] = (),
        with_regions: bool = True,
    ) -> Settings:
        """Return the settings of the sections of a file.

        Parameters
        ----------
        content : the sections, without those of jobs
        folder : as of ``Settings``
        origin : origin of the sections, which an error names
        paths : column of the contract, by column of the policy, where they differ
        problems : problems of the file that are known already, and are part of the error
        unset : fields that are empty because of these problems
        known : further sections that the file may have
        with_regions : whether files of regions are read; without them the settings are only for ``crenel regions``

        Raises
        ------
        ConfigError
            Lists every problem, each with its field and a valid form.
        """
        import_module("crenel.anonymity.builtin")
        found = [*problems, *import_extensions(content.get("extensions"))]
        undecided = dict(explain_undecided(content, Policy))
        given, unknown = _sections_of(content, known)
        validated = _Validation(
            given, folder, paths, missing_is_known=frozenset((*unset, *undecided)), with_regions=with_regions
        )
        if found := [*found, *undecided.values(), *unknown, *validated.problems]:
            raise ConfigError(origin, found)
        settings = object.__new__(cls)
        settings.__dict__.update({f.name: f.default for f in fields(cls) if f.default is not MISSING})
        settings.__dict__.update(validated.values, folder=folder)
        return settings

    def outputs(self, *, repairs: bool = False) -> tuple[str, ...]:
        """Return the names of the outputs that a program reads.

        Raises
        ------
        ConfigError
            ``repairs`` was asked for, and the algorithm has no such log.
        """
        if repairs and REPAIRS not in {output.name for output in self.algorithm.outputs}:
            raise ConfigError("settings", [f"repairs: {without_output(type(self.algorithm), REPAIRS)}"])
        return ("released", REPAIRS) if repairs else ("released",)

    @property
    def admissions(self) -> int:
        """Number of admissions before the shards (``crenel.anonymity.algorithm.Admission``); 0: there is one stage."""
        return self.algorithm.admissions(self.shards.count)

    @property
    def counts_event_time(self) -> str | None:
        """A field that depends on event time, such as a delay or a window size; None without one."""
        return next((f"{self.algorithm.name}.{path}" for path in self.algorithm.durations), None)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about valid settings with weak guarantees, each with its field."""
        contract: tuple[str, ...] = self.__dict__.get("_contract_warnings", ())
        anew = epoch_warnings(self.epoch, self.privacy.lasting, private=self.algorithm.private)
        return (*startup_warnings(self), *contract, *anew, *self.algorithm.warnings())

    def _warn(self, *, of_state: bool = True, of_all: bool = True) -> None:
        """Warn of weak guarantees in the name of the caller's caller, once of each for these settings.

        Parameters
        ----------
        of_state, of_all : whether stored state, and all else, weakens a guarantee here
        """
        warned: set[str] = self.__dict__.setdefault("_warned", set())
        for text in self.warnings:
            if (of_state if text in STATE_WARNINGS else of_all) and text not in warned:
                warnings.warn(text, PrivacyWarning, stacklevel=3)
                warned.add(text)

    def to_yaml(self) -> str:
        """Return the settings as a configuration file, to which a job adds ``source`` and ``sinks``.

        A key given as text is not written: the file then refers to the variable CRENEL_SUBJECT_KEY.

        Raises
        ------
        ValueError
            A hierarchy, a distribution or regions were given as an object, and a file would have to name their path.
        """
        import yaml

        text: str = yaml.dump(self.sections(), Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=120)
        return text

    def sections(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Return the sections of a configuration file; raise as ``to_yaml``. ``names``: which; None: all."""
        sections: dict[str, Any] = {}
        for name in _SECTIONS if names is None else [name for name in _SECTIONS if name in names]:
            if (value := getattr(self, name)) != _default(Settings, name):
                sections[name] = _written(value, name, _SECTIONS[name].field)
            if name == "privacy":
                own = _written(self.algorithm, self.algorithm.name, None)
                sections |= {"algorithm": self.algorithm.name, self.algorithm.name: own}
        return sections


def load(path: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """Return the settings of a configuration file; its sections for jobs, such as ``source``, are not read.

    Parameters
    ----------
    path : a YAML file, whose folder relative paths in it refer to
    overrides : fields to set first, each ``dotted.key=value`` with the value in YAML

    Raises
    ------
    ConfigError
        Lists every problem, each with its field and a valid form.
    """
    content = read(path)
    problems = override(content, overrides)
    content, unset = expand({name: section for name, section in content.items() if name not in JOB})
    problems += [f"{name}: {problem}" for name, problem in unset.items()]
    return Settings.of_sections(content, Path(path).parent, path, problems=problems, unset=[*unset])


def without_output(algorithm: type[Algorithm], name: str) -> str:
    """Return the problem of an output that an algorithm does not have, with the algorithms that have it."""
    choose = algorithms_with(lambda other: name in {each.name for each in other.outputs})
    return f"{algorithm.name} has no such output; remove it, or choose {choose}"


@dataclass(frozen=True)
class _Section:
    """A field of ``Settings``: what validates it, its class, and its description."""

    adapter: TypeAdapter[Any]
    field: FieldInfo


@dataclass(frozen=True)
class _Chosen:
    """The algorithm of a file by its class, and its section."""

    kind: type[Algorithm]
    section: Any


def _sections() -> dict[str, _Section]:
    hints = get_type_hints(Settings, include_extras=True)
    names = [f.name for f in fields(Settings) if f.name not in ("algorithm", "folder")]
    return {name: _Section(TypeAdapter(hints[name]), FieldInfo.from_annotation(hints[name])) for name in names}


def _sections_of(content: Mapping[str, Any], known: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of ``Settings`` in the sections of a file, and problems with the names of sections."""
    algorithms = known_algorithms()
    names = " or ".join(f"'{name}'" for name in algorithms)
    given: dict[str, Any] = {name: content[name] for name in _SECTIONS if name in content}
    problems = []
    chosen = content.get("algorithm", "castle")
    if chosen in algorithms:
        example = f"a mapping such as {algorithms[chosen].example}"
        if content.get(chosen) is None:
            problems.append(f"{chosen}: is missing; {example}")
        else:
            given["algorithm"] = _Chosen(algorithms[chosen], content[chosen])
    else:
        problems.append(f"algorithm: is not one of the choices{suggestion(chosen, [*algorithms])}; {names}")
    for name in content:
        if name in algorithms:
            if name != chosen and chosen in algorithms and content[name] is not None:
                problems.append(
                    f"{name}: goes with 'algorithm: {name}', and the algorithm is {chosen!r}; remove it, or choose "
                    f"{name}"
                )
        elif name not in _SECTIONS and name != "algorithm" and name not in known:
            sections = [*_SECTIONS, "algorithm", *algorithms, *known]
            problems.append(f"{name}: is unknown{suggestion(name, sections)}; known here: {listed(sections)}")
    return given, problems


class _Validation:
    """Validated fields of ``Settings``, or the problems with them.

    Attributes
    ----------
    values : fields by name
    problems : all problems, each with its field and a valid form
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        folder: Path,
        paths: Mapping[str, str],
        *,
        missing_is_known: frozenset[str] = frozenset(),
        with_regions: bool = True,
    ) -> None:
        self.values: dict[str, Any] = {}
        self.problems: list[str] = []
        self._folder, self._known = folder, missing_is_known
        for name, section in _SECTIONS.items():
            if name in given:
                self._validate(name, section.adapter, given[name], _class_of(section), name, section.field)
            elif _default(Settings, name) is MISSING:
                self.problems.append(f"{name}: is missing; {section.field.description}")
        if "algorithm" in given:
            self._validate_algorithm(given["algorithm"])
        if self.problems or not {"policy", "privacy", "algorithm"} <= self.values.keys():
            return
        defaults = {f.name: f.default for f in fields(Settings) if f.name not in self.values}
        shards: Any = self.values.get("shards", defaults.get("shards"))
        self._read_files(shards, paths, with_regions)
        if not self.problems:
            self.problems += contradictions(SimpleNamespace(**(defaults | self.values)))

    def _validate(
        self, name: str, adapter: TypeAdapter[Any], value: Any, kind: type, prefix: str, about: FieldInfo | None = None
    ) -> None:
        try:
            self.values[name] = adapter.validate_python(value, context={"folder": self._folder})
        except ValidationError as error:
            # A field with an unset variable is empty, which would cause spurious further problems.
            found = explain(error, kind, prefix, about=about)
            self.problems += [problem for field, problem in found if field not in self._known]

    def _validate_algorithm(self, given: Any) -> None:
        if isinstance(given, _Chosen):
            self._validate("algorithm", TypeAdapter(given.kind), given.section, given.kind, given.kind.name)
        elif isinstance(given, Algorithm):
            self._validate("algorithm", TypeAdapter(type(given)), given, type(given), given.name)
        else:
            self.problems.append(
                "algorithm: is no algorithm; give an object such as crenel.Nearest(crenel.Delay(tuples=1000))"
            )

    def _read_files(self, shards: Shards, paths: Mapping[str, str], with_regions: bool) -> None:
        """Read the files of regions, and compare the policy with its contract."""
        policy, algorithm = self.values["policy"], self.values["algorithm"]
        if with_regions:
            self.values["shards"] = self._with_regions(shards, "shards", policy, shards.count)
            self.values["algorithm"] = self._with_regions(algorithm, algorithm.name, policy, None)
        if policy.contract is not None:
            try:
                problems, found = check_contract(policy.contract, policy, self._folder, paths)
            except ContractError as error:
                problems, found = [f"policy.contract.file: {error}"], []
            self.problems += problems
            self.values["_contract_warnings"] = tuple(found)

    def _with_regions(self, section: Any, name: str, policy: Policy, count: int | None) -> Any:
        for f in fields(section):
            value = getattr(section, f.name)
            path = value.source if isinstance(value, RegionTree) else value
            if f.name not in ("regions", "partition") or path is None:
                continue
            try:
                tree = replace(read_regions(self._folder / path, policy, count), source=str(path))
                section = replace(section, **{f.name: tree})
            except ConfigError as error:
                self.problems += [f"{name}.{f.name}: {path}: {problem}" for problem in error.problems]
        return section


def _class_of(section: _Section) -> Any:
    """Return the class of a section, for explanations; of a single value, one without fields."""
    annotation = section.field.annotation
    return next((each for each in (annotation, *get_args(annotation)) if fields_of(each)), object)


def import_extensions(given: Any) -> Iterator[str]:
    """Import modules that register algorithms, privacy models and formats; yield a problem of each that is missing."""
    for name in filter(None, given) if isinstance(given, list | tuple) else ():
        try:
            import_module(str(name))
        except (ImportError, TypeError) as error:  # the latter: a relative name
            yield f"extensions: the module {name!r} cannot be imported ({error}); it must be on Python's path"


def _default(kind: type, name: str) -> Any:
    (own,) = [f for f in fields(kind) if f.name == name]
    return own.default_factory() if own.default_factory is not MISSING else own.default


def _written(value: Any, place: str, field_info: FieldInfo | None) -> Any:
    """Return a value as a file has it; ``place``: its dotted name, for errors."""
    if isinstance(value, Hierarchy | Reference | RegionTree):
        return _source(value, place)
    if isinstance(value, SubjectKey):
        return value.place or _SUBJECT_KEY
    if is_dataclass(value) and not isinstance(value, type):
        return _section(value, place)
    if isinstance(value, Mapping):
        return {str(key): _written(each, f"{place}.{key}", None) for key, each in value.items()}
    if isinstance(value, Milliseconds):  # a day, a time or a duration
        return value.text
    if isinstance(value, date | IPv4Network | Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [_written(each, place, None) for each in value]
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return int(value)
    if field_info is not None and isinstance(value, int) and not isinstance(value, bool) and is_duration(field_info):
        return format_duration(value)
    return value


def _section(value: Any, place: str) -> dict[str, Any]:
    """Return the fields of an object with another value than the default."""
    kind = {Numeric: "numeric", Categorical: "categorical"}.get(type(value))
    section: dict[str, Any] = {} if kind is None else {"type": kind}
    about = fields_of(type(value))
    for f in fields(value):
        own = getattr(value, f.name)
        if f.name in (*about, "models") and own != _default(type(value), f.name):
            section[f.name] = _written(own, f"{place}.{f.name}", about.get(f.name))
    if isinstance(value, Privacy | Sensitive):
        section |= section.pop("models", {})
    return section


def _source(value: Hierarchy | Reference | RegionTree, place: str) -> Any:
    if isinstance(value, Hierarchy):
        try:
            return _written(hierarchy_section(value), place, None)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
    if value.source is None:
        raise ValueError(f"{place}: is an object; save it as a file, and give its path")
    return _written(value.source, place, None)


def _dumper() -> type[Any]:
    """Return a writer of YAML with lists in one line, and mappings over several."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def represent_list(self, data: Any) -> Any:
            return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)

    Dumper.add_representer(list, Dumper.represent_list)
    return Dumper


_SECTIONS = _sections()
show_plain_types(Settings)
