"""Configuration of a job: one YAML file, read and validated once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from crenel.anonymity.algorithm import REPAIRS, Algorithm, known_algorithms
from crenel.anonymity.model.attributes import NO_ENDS, Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import (
    SHARD_BY_REGIONS,
    SHARD_BY_SUBJECT,
    Policy,
    Pseudonym,
    Shards,
    without_domain,
)
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.model.region_tree import RegionTree
from crenel.anonymity.model.secret import SHORTEST_KEY, Secret, SubjectKey
from crenel.anonymity.noise.release_noise import problems_within
from crenel.jobs.config.catalogs import CatalogTable, find_table_problems, is_table, table_of
from crenel.jobs.config.contract import ContractError, check_contract
from crenel.jobs.config.delivery import clashing_sinks, repeating_sinks
from crenel.jobs.config.explain import explain, explain_undecided, listed, suggestion
from crenel.jobs.config.file import ConfigError, expand, override, read
from crenel.jobs.config.flink_settings import UTC, ZONE, overridden, repeating_settings, without_scheme
from crenel.jobs.config.formats import with_utc
from crenel.jobs.config.kafka import unfit_timeouts, with_timeout
from crenel.jobs.config.overlaps import find_shared_sinks, find_sinks_in_state
from crenel.jobs.config.regions import read_regions
from crenel.jobs.config.schema import File, SinksSection, file_model
from crenel.jobs.config.source import ForgetSource, Source
from crenel.jobs.config.sql import statements
from crenel.jobs.config.warnings import chain_warnings, epoch_warnings, startup_warnings

__all__ = ["Config", "ConfigError", "ForgetSource", "Source", "load"]


@dataclass(frozen=True)
class Config:
    """A job, as its file and its overrides describe it.

    Attributes
    ----------
    algorithm : to run
    parameters : of the algorithm
    sampling_and_noise : sampling and noise; None: neither
    seed : determines every random choice; None: drawn from the operating system
    subject_key : key of the subject hash
    sinks : options of the connector by output: always ``released``, and where configured ``suppressed``, ``rejected``,
        ``audit``, ``summary`` and the algorithm's own outputs. In a program, which has no connectors: empty options for
        ``released`` and for each log that the program reads
    flink : settings passed to Flink unchanged
    epoch : of the shards, 1 or more; another epoch starts them without state
    is_nested : whether ``released`` has the shape of the source, and not one column for each published value
    accept_duplicates : whether a record may be published twice, under two generalizations
        (``crenel.jobs.config.delivery``)
    audit_chain : key of the audit log's hash chain, possibly empty; None: no chain
    catalogs : options of each catalog by its name
    tables : sinks that are tables of catalogs, by output; ``sinks`` has their ``CatalogTable.as_connector``
    contract_warnings : of columns that are published unchanged, and that the contract does not call public
    """

    policy: Policy
    privacy: Privacy
    algorithm: Algorithm
    parameters: Any
    sampling_and_noise: SamplingAndNoise | None
    shards: Shards
    seed: int | None
    # Fields that may hold a secret stay out of the representation, which ends up in logs and tracebacks.
    subject_key: SubjectKey
    source: Source = field(repr=False)
    sinks: dict[str, dict[str, str]] = field(repr=False)
    flink: dict[str, str] = field(repr=False)
    accept_duplicates: bool
    epoch: int = 1
    is_nested: bool = False
    audit_chain: Secret | None = None
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    tables: Mapping[str, CatalogTable] = field(default_factory=dict)
    contract_warnings: tuple[str, ...] = ()

    def with_repairs(self) -> Config:
        """Return the configuration of a program that reads the repair log.

        Raises
        ------
        ConfigError
            The algorithm has no such log.
        """
        if REPAIRS not in {output.name for output in self.algorithm.outputs}:
            raise ConfigError("settings", [f"repairs: {_without_output(self.algorithm, REPAIRS)}"])
        return replace(self, sinks=self.sinks | {REPAIRS: {}})

    @property
    def admissions(self) -> int:
        """Number of admissions before the shards (``crenel.anonymity.algorithm.Admission``); 0: there is one stage."""
        return self.algorithm.admissions(self.shards.count)

    @property
    def counts_event_time(self) -> str | None:
        """A field that depends on event time, such as a delay or a window size; None without one."""
        return next((f"{self.algorithm.name}.{path}" for path in self.algorithm.durations(self.parameters)), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about valid settings with weak guarantees, each with its field."""
        general = startup_warnings(
            self.policy,
            self.sampling_and_noise,
            self.privacy.noise_within,
            seeded=self.seed is not None,
            private=self.algorithm.private,
            key=self.subject_key.read(),
            derivation=self.subject_key.derivation,
            duplicates=self.accept_duplicates,
            lasting=self.privacy.lasting,
        )
        chain = chain_warnings(None if self.audit_chain is None else self.audit_chain.read())
        anew = epoch_warnings(self.epoch, self.privacy.lasting, private=self.algorithm.private)
        return (*general, *self.contract_warnings, *chain, *anew, *self.algorithm.warnings(self.parameters))


def load(path: Path | str, overrides: Sequence[str] = (), *, with_regions: bool = True) -> Config:
    """Read and validate a configuration.

    Parameters
    ----------
    path : a YAML file; paths of hierarchies are relative to its folder
    overrides : fields to set first, each ``dotted.key=value`` with the value in YAML
    with_regions : whether files of regions are read; without them the configuration describes no job

    Raises
    ------
    ConfigError
        Lists every problem, each with its field and a valid form.
    """
    content = read(path)
    problems = override(content, overrides)
    written = statements(content)
    content, unset = expand(content)
    varied = frozenset(name for name, text in statements(content).items() if text != written[name])
    problems += [f"{name}: {problem}" for name, problem in unset.items()]
    problems += _import_extensions(content)
    folder = Path(path).parent if with_regions else None
    validated = _validated(file_model(), content, Path(path).parent, path, problems, unset, regions_in=folder)
    file = validated.file
    table = None if file.source.table is None else table_of(file.catalogs, file.source.table)
    return _config(validated, file.source.core(varied, table), _sinks(file))


def load_sections(content: Mapping[str, Any], folder: Path, where: Path | str) -> tuple[File, Config]:
    """Validate the sections of a configuration that a program needs, which has no source and no sinks.

    Parameters
    ----------
    content : the sections, as YAML or Python writes their values
    folder : folder that paths of hierarchies are relative to
    where : origin of the settings, which an error names

    Returns
    -------
    The sections, and the configuration of a program that follows from them.

    Raises
    ------
    ConfigError
        Lists every problem, each with its field and a valid form.
    """
    problems = list(_import_extensions(content))
    validated = _validated(file_model(job=False), content, folder, where, problems, {}, regions_in=folder)
    return validated.file, _config(validated, Source(""), {"released": {}})


def load_settings(content: Mapping[str, Any], folder: Path, where: Path | str) -> Config:
    """Return the configuration of a program; arguments and errors as for ``load_sections``."""
    return load_sections(content, folder, where)[1]


@dataclass(frozen=True)
class _Validated:
    """Content of a configuration as sections, with the regions files that they name.

    Attributes
    ----------
    regions : of the shards, where they are divided by regions
    parameters : of the algorithm
    contract_warnings : as in ``Config``
    """

    file: File
    regions: RegionTree | None
    parameters: Any
    contract_warnings: tuple[str, ...]


def _validated(
    model: type[File],
    content: Mapping[str, Any],
    folder: Path,
    where: Path | str,
    problems: list[str],
    unset: Mapping[str, str],
    regions_in: Path | None,
) -> _Validated:
    """Return the content as sections; raise ``ConfigError`` with these problems and all others.

    ``unset``: problems by field, of fields that are empty because of them. ``regions_in``: folder of files of regions;
    None: they are not read.
    """
    file, found, undecided = None, None, dict(explain_undecided(content, model))
    problems += undecided.values()
    try:
        file = model.model_validate(content, context={"folder": folder})
    except ValidationError as error:
        # A field with an unset variable is empty, which would cause spurious further problems.
        known = {*unset, *undecided}
        problems += [problem for name, problem in explain(error, model) if name not in known]
    if file is not None:
        parameters, regions = file.parameters, None
        try:
            if regions_in is not None:
                parameters, regions = _with_regions(file, regions_in), _regions(file, regions_in)
        except ConfigError as error:
            problems += error.problems
        against, warnings = _against_contract(file, folder)
        problems += against
        found = _Validated(file, regions, parameters, tuple(warnings))
        problems += _unreadable(file) or _contradictions(file, parameters)
    if problems or found is None:
        raise ConfigError(where, problems)
    return found


def _config(validated: _Validated, source: Source, sinks: dict[str, dict[str, str]]) -> Config:
    file = validated.file
    return Config(
        policy=file.policy.core(),
        privacy=file.complete_privacy,
        algorithm=file.chosen,
        parameters=validated.parameters,
        sampling_and_noise=file.sampling_and_noise.core() if file.sampling_and_noise else None,
        shards=file.shards.core(validated.regions),
        seed=file.seed,
        subject_key=SubjectKey(file.subject_key, file.subject_key_derivation),
        source=source,
        sinks=sinks,
        flink=file.flink,
        accept_duplicates=file.accept_duplicates,
        epoch=file.epoch,
        is_nested=file.shape == "nested",
        audit_chain=None if file.audit_chain is None else file.audit_chain.key or Secret("audit_chain.key"),
        catalogs=file.catalogs,
        tables=_tables(file),
        contract_warnings=validated.contract_warnings,
    )


def _import_extensions(content: Mapping[str, Any]) -> Iterator[str]:
    """Import the built-in algorithms and privacy models, and the modules with further ones."""
    import_module("crenel.anonymity.builtin")
    given = content.get("extensions")
    for name in given if isinstance(given, list) else ():
        try:
            import_module(str(name))
        except ImportError as error:
            yield f"extensions: the module {name!r} cannot be imported ({error}); it must be on Python's path"


def _unreadable(file: File) -> list[str]:
    """Return problems with the sources of keys: this process checks key lengths and hashes references with them."""
    problems = []
    for secret in (file.subject_key, None if file.audit_chain is None else file.audit_chain.key):
        try:
            if secret is not None:
                secret.read()
        except PolicyError as error:
            problems.append(str(error))
    return problems


def _without_output(algorithm: Algorithm, name: str) -> str:
    others = [other.name for other in known_algorithms().values() if name in {o.name for o in other.outputs}]
    choose = " or ".join(f"'algorithm: {other}'" for other in others)
    return f"{algorithm.name} has no such output; remove it, or choose {choose}"


def _contradictions(file: File, parameters: Any) -> Iterator[str]:
    """Yield contradictions between sections that are valid separately, and the parameters of the algorithm."""
    named = {} if file.source is None or file.source.table is None else {"source.table": file.source.table}
    if unknown := [
        *find_table_problems(
            file.catalogs, named, _of_catalogs(file), has_event_time=file.policy.event_time is not None
        )
    ]:
        yield from unknown
        return
    policy, algorithm = file.policy.core(), file.chosen
    try:
        yield from problems_within(policy, file.complete_privacy)
    except PolicyError as error:
        yield str(error)
    yield from algorithm.problems(policy, file.privacy.core(), parameters)
    for attribute in policy.numeric if algorithm.representative(file.parameters) else ():
        if attribute.ends is not None:
            yield f"{attribute.place}.ends: {NO_ENDS}"
    yield from _unpublishable(file, policy)
    if file.privacy.core().lasting is not None:
        yield from _not_lasting(file, policy)
    if policy.arrays and not algorithm.arrays:
        fit = " or ".join(f"'algorithm: {other.name}'" for other in known_algorithms().values() if other.arrays)
        yield (
            f"policy.arrays: {algorithm.name} counts one value of a record; choose {fit}, or make each value a record "
            "of the same person by CROSS JOIN UNNEST in source.query"
        )
    if policy.pseudonym is not None:
        yield from _not_pseudonymous(file, policy.pseudonym)
    own = {output.name for output in algorithm.outputs}
    for name in sorted(_sinks(file).keys() - own - set(SinksSection.model_fields)):
        yield f"sinks.{name}: {_without_output(algorithm, name)}"
    if file.sampling_and_noise is not None and not algorithm.noise:
        fit = " or ".join(f"'algorithm: {other.name}'" for other in known_algorithms().values() if other.noise)
        yield f"sampling_and_noise: its argument is not made for {algorithm.name}; remove it, or choose {fit}"
    elif file.sampling_and_noise is not None:
        yield from _unnoisable(file, policy)
    else:
        yield from _indivisible(file, policy)
    if file.privacy.l > 1 and not policy.sensitive:
        yield "privacy.l: asks for diversity, but policy.sensitive names no column; name one, or set l to 1"
    for model, _ in file.privacy.core().further if not policy.sensitive else ():
        yield f"privacy.{model.name}: is about sensitive values, but policy.sensitive names no column; name one"
    try:
        file.privacy.core().require_columns(policy.sensitive)
    except PolicyError as error:
        yield str(error)
    if file.source is not None and file.source.forget is not None and policy.subject is None:
        yield (
            "source.forget: asks to forget persons, and policy.subject names no column that they are known by; "
            "name one, or remove it"
        )
    if file.audit_chain is not None and "audit" not in _sinks(file):
        yield "sinks.audit: is missing, and audit_chain goes through it; name a sink, or remove audit_chain"
    yield from clashing_sinks(_sinks(file))
    yield from find_shared_sinks(_sinks(file))
    yield from find_sinks_in_state(_sinks(file), file.flink)
    yield from unfit_timeouts(_sinks(file))
    yield from overridden(file.flink)
    yield from _instants_elsewhere(file)
    yield from without_scheme(file.flink)
    if not file.accept_duplicates:
        yield from repeating_sinks(_sinks(file))
        yield from repeating_settings(file.flink)


def _instants_elsewhere(file: File) -> Iterator[str]:
    """Yield the fields of records that are read in UTC, where SQL takes their texts for another zone's."""
    source, zone = file.source, file.flink.get(ZONE, "UTC")
    if source is None or zone in UTC:
        return
    read: dict[str, dict[str, str]] = {
        "from_csv": {} if source.from_csv is None else source.from_csv.fields,
        **{
            name: {} if of is None else {column: field.type for column, field in of.fields.items()}
            for name, of in (("from_avro", source.from_avro), ("from_protobuf", source.from_protobuf))
        },
    }
    for section, fields in read.items():
        for name, kind in fields.items():
            if kind.upper().startswith("TIMESTAMP_LTZ"):
                yield (
                    f"source.{section}.fields.{name}: {kind} is read in UTC, and flink.{ZONE} is not UTC; "
                    "set it to UTC, or declare the field as BIGINT"
                )


def _against_contract(file: File, folder: Path) -> tuple[list[str], list[str]]:
    """Return problems and warnings about columns that the contract calls personal data."""
    if file.policy.contract is None:
        return [], []
    source = file.source
    records = None if source is None else source.from_avro or source.from_protobuf or source.from_json
    fields = () if records is None else records.fields.items()
    paths = {name: of.path.removeprefix("$.") for name, of in fields if of.path is not None}
    try:
        return check_contract(file.policy.contract, file.policy.core(), folder, paths)
    except ContractError as error:
        return [f"policy.contract.file: {error}"], []


def _unpublishable(file: File, policy: Policy) -> Iterator[str]:
    """Yield published forms that a release alone, or the algorithm's own form, contradicts."""
    name, parameters = file.chosen.name, file.parameters
    for number in policy.numeric if file.chosen.representative(parameters) else ():
        if number.missing == "value":
            yield (
                f"{number.place}.missing: {name} publishes a representative, to which missing numbers would count; "
                f"set {name}.output to 'generalization' with 'publish: mean' or 'median' here, or remove it"
            )
    for attribute in policy.quasi_identifiers:
        if not attribute.has_representative and attribute not in policy.sets:
            continue
        field = f"{attribute.place}.publish: {attribute.publish!r} is of one class"
        if getattr(parameters, "reuse_limit", 0):
            yield f"{field}, and a reused generalization has none; set {name}.reuse_limit to 0, or remove 'publish'"
        if file.privacy.core().lasting is not None:
            yield (
                f"{field}, and privacy.persons.guarantee: lasting publishes rows under earlier generalizations; choose "
                "each_release, or remove 'publish'"
            )
        if attribute.has_representative and getattr(parameters, "suppression", None) == "generalize":
            yield f"{field}, and a fully generalized row has none; set {name}.suppression to 'withhold'"
        if file.chosen.representative(parameters):
            yield f"{field}, and {name} publishes a representative of its own; remove one of the two"


def _not_lasting(file: File, policy: Policy) -> Iterator[str]:
    """Yield settings that are incompatible with a lasting privacy model."""
    field = "privacy.persons.guarantee: lasting"
    if not file.chosen.lasting:
        fit = " or ".join(f"'algorithm: {other.name}'" for other in known_algorithms().values() if other.lasting)
        yield f"{field} is not made for {file.chosen.name}; choose {fit}, or each_release"
    if policy.arrays:
        yield f"{field} counts one value of a record; remove policy.arrays, or choose each_release"
    if policy.subject is None:
        yield f"{field} is about persons, but policy.subject names no column; name one"
    if file.shards.by != SHARD_BY_SUBJECT:
        yield f"{field} needs all rows of a person in one shard; set shards.by to {SHARD_BY_SUBJECT}"
    for section, why in (
        ("sampling_and_noise", "a person's latest values are not the perturbed ones"),
        ("noise_within_release", "noise is scaled by classes, and a later row may leave without one"),
    ):
        if getattr(file, section) is not None:
            yield f"{field} does not go with {section}, as {why}; remove one of them"
    for model, _ in file.privacy.core().further:
        yield f"{field} holds for k and l, and privacy.{model.name} is about each release; remove one of them"
    if file.privacy.sensitive:
        yield f"{field} holds for k and l, and privacy.sensitive is about each release; remove one of them"


def _not_pseudonymous(file: File, pseudonym: Pseudonym) -> Iterator[str]:
    """Yield settings that are incompatible with a published pseudonym."""
    if file.subject_key is None:
        yield (
            "subject_key: is missing; without a key, an attacker who guesses a subject can compute its code of "
            "policy.pseudonym. Give 16 random bytes or more, best as ${CRENEL_SUBJECT_KEY}"
        )
    elif len(file.subject_key.read()) < SHORTEST_KEY:
        yield (
            f"subject_key: is shorter than {SHORTEST_KEY} bytes, and the published codes of policy.pseudonym confirm a "
            f"guess of it; give {SHORTEST_KEY} random bytes or more, best as ${{CRENEL_SUBJECT_KEY}}"
        )
    if pseudonym.links_releases and not pseudonym.accept_linkable and file.privacy.core().lasting is None:
        under = "privacy.persons.guarantee: each_release"
        if file.sampling_and_noise is not None:
            under = f"sampling_and_noise and {under}"
        yield (
            f"policy.pseudonym.scope: {pseudonym.scope!r} shows which rows are one person's, and nothing is guaranteed "
            f"of these together under {under}; choose 'release' or a guarantee that is lasting, or say "
            "policy.pseudonym.accept_linkable: true"
        )


def _indivisible(file: File, policy: Policy) -> Iterator[str]:
    """Yield problems with the division into shards."""
    by, attributes = file.shards.by, {attribute.name: attribute for attribute in policy.quasi_identifiers}
    chosen = attributes.get(by)
    if file.shards.regions is not None:
        if by != SHARD_BY_REGIONS:
            yield f"shards.regions: goes with 'by: {SHARD_BY_REGIONS}'; set shards.by to it, or remove the file"
    elif by == SHARD_BY_REGIONS and chosen is None:
        yield "shards.regions: is missing; give the path of what 'crenel regions' wrote"
    elif by != SHARD_BY_SUBJECT and chosen is None:
        valid = [SHARD_BY_SUBJECT, *attributes, SHARD_BY_REGIONS]
        yield f"shards.by: is not a quasi-identifier{suggestion(by, valid)}; one of {listed(valid)}"
    elif isinstance(chosen, Numeric) and chosen.domain is None:
        yield f"shards.by: the numeric {by!r} has no domain to divide; give policy.quasi_identifiers.{by}.domain"
    if file.chosen.private and by != SHARD_BY_SUBJECT:
        yield (
            f"shards.by: {file.chosen.name} bounds the records of each person, which must be in one shard; set it to "
            f"{SHARD_BY_SUBJECT}"
        )
    elif (
        file.shards.count > 1
        and by != SHARD_BY_SUBJECT
        and getattr(file.parameters, "suppression", None) == "generalize"
    ):
        yield (
            f"{file.chosen.name}.suppression: generalize publishes a tuple without detail, but a file or partition of "
            f"'released' holds records of one shard, and shards.by: {by} divides by values, so the file tells them; "
            f"set suppression to withhold, or shards.by to {SHARD_BY_SUBJECT}"
        )


def _regions(file: File, folder: Path) -> RegionTree | None:
    """Return the configured regions of the shards; raise ``ConfigError`` about the regions file."""
    if file.shards.regions is None or file.shards.by != SHARD_BY_REGIONS:
        return None
    return _read_regions(file, folder, "shards.regions", file.shards.regions, file.shards.count)


def _with_regions(file: File, folder: Path) -> Any:
    """Return the algorithm's parameters with the regions files that they name; raise as ``_regions`` does."""
    parameters = file.parameters
    for setting in file.chosen.settings:
        if setting.kind == "regions":
            path = getattr(parameters, setting.field)
            tree = _read_regions(file, folder, f"{file.chosen.name}.{setting.path}", path)
            parameters = replace(parameters, **{setting.field: tree})
    return parameters


def _read_regions(file: File, folder: Path, field: str, path: str, count: int | None = None) -> RegionTree:
    try:
        return read_regions(folder / path, file.policy.core(), count)
    except ConfigError as error:
        raise ConfigError(path, [f"{field}: {path}: {problem}" for problem in error.problems]) from None


def _unnoisable(file: File, policy: Policy) -> Iterator[str]:
    """Yield settings that are incompatible with sampling and noise."""
    if file.sampling_and_noise is not None and file.sampling_and_noise.range == "declared":
        for name in without_domain(policy):
            yield (
                f"policy.quasi_identifiers.{name}.domain: is missing; sampling_and_noise scales noise by the range, "
                "which without a domain is made of values of persons; give a domain, or say "
                "sampling_and_noise.range: observed to have it so"
            )
    if file.shards.by != SHARD_BY_SUBJECT:
        what = "a quasi-identifier" if file.shards.regions is None else "regions"
        yield (
            f"shards.by: a shard chosen by {what} gives away what noise is to hide; "
            f"with sampling_and_noise it is {SHARD_BY_SUBJECT!r}"
        )
    elif file.shards.count > 1 and policy.subject is None:
        yield (
            "shards.count: without policy.subject a row's shard follows from its values, and so gives away what noise "
            "is to hide; name a subject, or set shards.count to 1"
        )


def _sinks(file: File) -> dict[str, dict[str, str]]:
    tables = _tables(file)
    return {
        name: tables[name].as_connector if name in tables else with_utc(with_timeout(options))
        for name, options in file.sinks or ()
        if options is not None
    }


def _tables(file: File) -> dict[str, CatalogTable]:
    return {name: table_of(file.catalogs, options["table"], options) for name, options in _of_catalogs(file).items()}


def _of_catalogs(file: File) -> dict[str, dict[str, str]]:
    """Return the options of the sinks that are tables of catalogs, by output."""
    return {name: options for name, options in file.sinks or () if options is not None and is_table(options)}
