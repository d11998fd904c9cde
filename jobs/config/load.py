"""Configuration of a job: one YAML file, read and validated once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, InstanceOf, ValidationError, create_model

from crenel.anonymity.algorithm import REPAIRS, Algorithm, known_algorithms
from crenel.anonymity.model.errors import ConfigError, PolicyError
from crenel.anonymity.model.explain import explain, listed, suggestion
from crenel.anonymity.model.fields import Column
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.model.secret import Secret, SubjectKey
from crenel.anonymity.model.secret_field import KEY_SOURCES, secret_field
from crenel.jobs.config.catalogs import CatalogTable, find_table_problems, is_table, table_of
from crenel.jobs.config.connectors import unshaded_classes, with_timeout, with_utc
from crenel.jobs.config.delivery import clashing_sinks, repeating_sinks, unfit_timeouts
from crenel.jobs.config.fields import Catalog, Options, Sink
from crenel.jobs.config.flink_settings import UTC, ZONE, overridden, repeating_settings, without_scheme
from crenel.jobs.config.overlaps import find_shared_sinks, find_sinks_in_state
from crenel.jobs.config.source import Source, SourceSection, parse_options, source_section
from crenel.jobs.config.sql import FIELDS, Statement, statements
from crenel.privacy_warnings import DUPLICATES, chain_warnings
from crenel.settings import JOB, Settings, import_extensions, without_output
from crenel.settings_file import FileSection, expand, override, read

OUTPUTS = {
    "released": "published records, into an exactly-once connector",
    "suppressed": "suppressed records without their values, into an exactly-once connector; None: discarded",
    "rejected": "rejected rows without their values, into an exactly-once connector; None: discarded",
    "audit": "one row for each release, into an exactly-once connector; None: discarded",
    "forgotten": "codes of forgotten persons with the time, into any connector; None: discarded",
    "summary": "counters of each shard at the end of the input, into any connector; None: discarded",
}
"""Outputs of each job, with their meaning as sinks; algorithms add their own."""

_SINK = (
    "the options of a Flink connector, such as {connector: filesystem, path: /out, format: csv}, or a table of a "
    "catalog, as {table: lake.clinic.released}"
)
_DISCARDED = "the options of a Flink connector, {table: lake.clinic.NAME} for a table of a catalog, or null to discard"


class AuditChainSection(FileSection):
    """Hash chain through the audit log.

    Attributes
    ----------
    key : key of the chain, or the place where each process reads it. ``audit_chain: {}`` chains without a key. The
        chain needs ``sinks.audit``, which receives a closing record for each shard at the end of the input. To turn it
        on or off, give ``released`` and ``audit`` other folders, because the columns of ``audit`` change
    """

    key: Annotated[InstanceOf[Secret] | None, secret_field("audit_chain.key")] = Field(
        None, description=f"text, best as ${{CRENEL_AUDIT_KEY}}, {KEY_SOURCES}, or null for a chain without a key"
    )


class JobSections(FileSection):
    """The sections of a configuration file that only a job has, beside those of ``crenel.settings.Settings``.

    Attributes
    ----------
    catalogs : catalogs of Flink, for ``source.table``, for sinks with ``table``, and for ``source.query``
    flink : settings of Flink by Flink's names, dotted or nested, passed on unchanged
    accept_duplicates : whether source, sinks and checkpoints need not be exactly-once, so that a tuple may be published
        twice
    shape : ``nested`` publishes ``released`` with the fields of ROW columns where they were in the source, and each
        interval as ``{min, max}`` in the place of its quasi-identifier; not for CSV and JDBC sinks
    """

    audit_chain: AuditChainSection | None = Field(
        None, description="a mapping such as {key: ${CRENEL_AUDIT_KEY}}, {} for a chain without a key, or null for none"
    )
    catalogs: dict[Column, Catalog] = Field(
        {},
        description="options of Flink's CREATE CATALOG by name, such as {lake: {type: paimon, warehouse: "
        "file:///shared/lake}}",
    )
    source: SourceSection = Field(description="a mapping with ddl or table and, where wanted, query")
    sinks: dict[Column, Sink | None] = Field(description=_SINK)
    flink: Options = Field({}, description="settings of Flink by their names, each with one value")
    accept_duplicates: bool = Field(False, description="true or false")
    shape: Literal["flat", "nested"] = Field("flat", description="'flat' or 'nested'")

    def sinks_given(self) -> dict[str, dict[str, str]]:
        """Return the options of the sinks that are not discarded."""
        return {name: options for name, options in self.sinks.items() if options is not None}


def job_sections() -> type[JobSections]:
    """Return the sections, with a field of ``source`` for each known format of records."""
    return create_model(
        "JobSections", __base__=JobSections, source=(source_section(), JobSections.model_fields["source"])
    )


def sink_descriptions() -> dict[str, tuple[str, str]]:
    """Return the valid values and the meaning of each sink, by name."""
    found = {name: (_SINK if name == "released" else _DISCARDED, meaning) for name, meaning in OUTPUTS.items()}
    for name, algorithms in _writers().items():
        secret = "; tells how releases were formed, so it is not for recipients" if name == REPAIRS else ""
        found[name] = _DISCARDED, f"output of {listed(algorithms)}, into any connector; None: discarded{secret}"
    return found


def _writers() -> dict[str, list[str]]:
    """Return the names of the algorithms that write each output of their own."""
    writers: dict[str, list[str]] = {}
    for algorithm in known_algorithms().values():
        for output in algorithm.outputs:
            writers.setdefault(output.name, []).append(algorithm.name)
    return dict(sorted(writers.items()))


@dataclass(frozen=True)
class Config:
    """A job, as its file and its overrides describe it.

    Attributes
    ----------
    settings : what determines the releases
    source : source of tuples; that of a program is empty
    sinks : options of the connector by output: always ``released``, and where configured ``suppressed``, ``rejected``,
        ``audit``, ``summary`` and the algorithm's own outputs. In a program, which has no connectors: empty options for
        ``released`` and for each log that the program reads
    flink : settings passed to Flink unchanged
    is_nested : whether ``released`` has the shape of the source, and not one column for each published value
    accept_duplicates : whether a record may be published twice, under two generalizations
        (``crenel.jobs.config.delivery``)
    audit_chain : key of the audit log's hash chain, possibly empty; None: no chain
    catalogs : options of each catalog by its name
    tables : sinks that are tables of catalogs, by output; ``sinks`` has their ``CatalogTable.as_connector``
    """

    settings: Settings
    # Fields that may hold a secret stay out of the representation, which ends up in logs and tracebacks.
    source: Source = field(default=Source(""), repr=False)
    sinks: dict[str, dict[str, str]] = field(default_factory=lambda: {"released": {}}, repr=False)
    flink: dict[str, str] = field(default_factory=dict, repr=False)
    accept_duplicates: bool = False
    is_nested: bool = False
    audit_chain: Secret | None = None
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    tables: Mapping[str, CatalogTable] = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        return self.settings.policy

    @property
    def privacy(self) -> Privacy:
        return self.settings.privacy

    @property
    def algorithm(self) -> Algorithm:
        return self.settings.algorithm

    @property
    def sampling_and_noise(self) -> SamplingAndNoise | None:
        return self.settings.sampling_and_noise

    @property
    def shards(self) -> Shards:
        return self.settings.shards

    @property
    def seed(self) -> int | None:
        return self.settings.seed

    @property
    def subject_key(self) -> SubjectKey:
        key: SubjectKey = self.settings.subject_key
        return key

    @property
    def epoch(self) -> int:
        return self.settings.epoch

    @property
    def admissions(self) -> int:
        return self.settings.admissions

    @property
    def counts_event_time(self) -> str | None:
        return self.settings.counts_event_time

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Lines of ``crenel.description.guarantee_lines`` that only a job has."""
        lines = [("requests to forget", "none are read" if self.source.forget is None else "from the table forget")]
        if self.audit_chain is not None:
            keyless = "without a key: anyone with write access can rewrite it"
            lines.append(("audit_chain", "with a key" if self.audit_chain else keyless))
        return tuple(lines)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about valid settings with weak guarantees, each with its field."""
        duplicates = (DUPLICATES,) if self.accept_duplicates else ()
        chain = chain_warnings(None if self.audit_chain is None else self.audit_chain.read())
        return (*self.settings.warnings, *duplicates, *chain)


def load(path: Path | str, overrides: Sequence[str] = (), *, with_regions: bool = True) -> Config:
    """Read and validate a configuration.

    Parameters
    ----------
    path : a YAML file, whose folder relative paths in it refer to
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
    content, unset = expand(content, statements=FIELDS, statement=Statement)
    varied = frozenset(name for name, text in statements(content).items() if text != written[name])
    problems += [f"{name}: {problem}" for name, problem in unset.items()]
    folder = Path(path).parent
    job, of_job = None, list[str]()
    # Formats of records are sections of a job; Settings names what cannot be imported.
    list(import_extensions(content.get("extensions")))
    sections_of_job = job_sections()
    try:
        job = sections_of_job.model_validate(
            {name: section for name, section in content.items() if name in JOB}, context={"folder": folder}
        )
    except ValidationError as error:
        of_job = [problem for name, problem in explain(error, sections_of_job) if name not in unset]
    sections = {name: section for name, section in content.items() if name not in JOB}
    settings = None
    try:
        settings = Settings.of_sections(
            sections,
            folder,
            path,
            paths={} if job is None or job.source.records is None else job.source.records.paths,
            problems=problems,
            unset=[*unset],
            known=JOB,
            with_regions=with_regions,
        )
    except ConfigError as error:
        problems = list(error.problems)
    problems += of_job
    if job is not None and settings is not None and not problems:
        problems += _problems(job, settings)
    if problems or job is None or settings is None:
        raise ConfigError(path, problems)
    table = None if job.source.table is None else table_of(job.catalogs, job.source.table)
    return Config(
        settings=settings,
        source=job.source.core(varied, table),
        sinks=_sinks(job),
        flink=job.flink,
        accept_duplicates=job.accept_duplicates,
        is_nested=job.shape == "nested",
        audit_chain=None if job.audit_chain is None else job.audit_chain.key or Secret("audit_chain.key"),
        catalogs=job.catalogs,
        tables=_tables(job),
    )


def _problems(job: JobSections, settings: Settings) -> Iterator[str]:
    """Yield contradictions between the sections of a job, and with its settings."""
    if job.audit_chain is not None and job.audit_chain.key is not None:
        try:
            job.audit_chain.key.read()
        except PolicyError as error:
            yield str(error)
            return
    policy = settings.policy
    named = {} if job.source.table is None else {"source.table": job.source.table}
    has_event_time = policy.event_time is not None
    if unknown := [*find_table_problems(job.catalogs, named, _of_catalogs(job), has_event_time=has_event_time)]:
        yield from unknown
        return
    sinks, known = _sinks(job), {**OUTPUTS, **_writers()}
    own = {output.name for output in settings.algorithm.outputs}
    if "released" not in sinks:
        yield f"sinks.released: is missing; {_SINK}"
    for name in sorted(job.sinks.keys() - known.keys()):
        yield f"sinks.{name}: is unknown{suggestion(name, [*known])}; known here: {listed([*known])}"
    for name in sorted((sinks.keys() & known.keys()) - own - OUTPUTS.keys()):
        yield f"sinks.{name}: {without_output(type(settings.algorithm), name)}"
    if job.source.forget is not None and policy.subject is None:
        yield (
            "source.forget: asks to forget persons, and policy.subject names no column that they are known by; "
            "name one, or remove it"
        )
    if job.audit_chain is not None and "audit" not in sinks:
        yield "sinks.audit: is missing, and audit_chain goes through it; name a sink, or remove audit_chain"
    yield from clashing_sinks(sinks)
    yield from find_shared_sinks(sinks)
    yield from find_sinks_in_state(sinks, job.flink)
    yield from unfit_timeouts(sinks)
    created = job.source.core(frozenset(), None).statements
    tables = {field: parse_options(ddl) for field, ddl in created.items()}
    tables |= {f"sinks.{name}": options for name, options in sinks.items()}
    yield from unshaded_classes(tables, job.flink.get("pipeline.jars", ""))
    yield from overridden(job.flink)
    yield from _instants_elsewhere(job)
    yield from without_scheme(job.flink)
    if not job.accept_duplicates:
        yield from repeating_sinks(sinks)
        yield from repeating_settings(job.flink)


def _instants_elsewhere(job: JobSections) -> Iterator[str]:
    """Yield the fields of records that are read in UTC, where SQL takes their texts for another zone's."""
    records, zone = job.source.records, job.flink.get(ZONE, "UTC")
    if records is None or zone in UTC:
        return
    for name, kind in records.types.items():
        if kind.upper().startswith("TIMESTAMP_LTZ") and records.is_parsed(name, "time"):
            yield (
                f"{records.place}.fields.{name}: {kind} is read in UTC, and flink.{ZONE} is not UTC; "
                "set it to UTC, or declare the field as BIGINT"
            )


def _sinks(job: JobSections) -> dict[str, dict[str, str]]:
    tables = _tables(job)
    return {
        name: tables[name].as_connector if name in tables else with_utc(with_timeout(options))
        for name, options in job.sinks_given().items()
    }


def _tables(job: JobSections) -> dict[str, CatalogTable]:
    return {name: table_of(job.catalogs, options["table"], options) for name, options in _of_catalogs(job).items()}


def _of_catalogs(job: JobSections) -> dict[str, dict[str, str]]:
    """Return the options of the sinks that are tables of catalogs, by output."""
    return {name: options for name, options in job.sinks_given().items() if is_table(options)}
