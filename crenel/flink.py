"""Anonymization within a PyFlink program of the user: a Table in, Tables out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal

from pyflink.common import JobClient
from pyflink.java_gateway import get_gateway
from pyflink.table import StatementSet, StreamTableEnvironment, Table
from pyflink.util.java_utils import get_field

from crenel.anonymity.algorithm import Output
from crenel.anonymity.model.errors import ConfigError, PolicyError
from crenel.anonymity.model.explain import listed, suggestion
from crenel.anonymity.model.secret_field import read_secret
from crenel.jobs.config.delivery import clashing_sinks, repeating_sinks, unfit_timeouts
from crenel.jobs.config.flink_settings import CHECKPOINTING, FOLDERS, INTERVAL, repeating_settings
from crenel.jobs.config.load import Config
from crenel.jobs.config.overlaps import find_shared_sinks, find_sinks_in_state
from crenel.jobs.pipeline.anonymizer import anonymizer, flattened, outputs
from crenel.jobs.pipeline.environment import instants_elsewhere, keep_java_threads
from crenel.jobs.pipeline.job import JOB, Names, name_operators, upwards
from crenel.jobs.pipeline.layout import SourceColumns, layout
from crenel.jobs.pipeline.side_streams import Requests
from crenel.jobs.pipeline.sink_columns import Column, written_null
from crenel.jobs.pipeline.source_table import column_types, with_setting
from crenel.operators.column_types import parse
from crenel.settings import Settings

__all__ = ["Outputs", "anonymize", "execute"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_MODE = "execution.runtime-mode"


def anonymize(
    t_env: StreamTableEnvironment,
    table: Table,
    settings: Settings,
    *,
    name: str,
    delivery: Literal["checked", "caller"] = "checked",
    forget: Table | None = None,
    audit_chain: str | bytes | Mapping[str, str] | None = None,
    repairs: bool = False,
) -> Outputs:
    """Anonymize a table within a program; the program's statements start the job.

    Insert all outputs that you need by one statement set: each execution of a statement is a job of its own, which
    would publish every record once more, under another generalization.

    Parameters
    ----------
    t_env : environment of the program, made from a ``StreamExecutionEnvironment``
    table : any table to which rows are only appended: a view, a join, a query, or a table of a catalog. Event time and
        watermark are those of its schema
    settings : policy, privacy models and algorithm
    name : distinguishes the anonymizations of a program. Views, functions and the uids of operators begin with it, so a
        savepoint restores while the name stays the same
    delivery : ``"checked"``: only ``Outputs.insert_into`` publishes, which checks that sinks publish each record once.
        ``"caller"``: the outputs are tables, and the program is responsible for their sinks
    forget : requests to forget persons: a table with one column, of the type of the subject, to which rows are only
        appended. A request erases the earlier records of the person that are buffered, and what is stored of the
        person. The output ``forgotten`` records it
    audit_chain : key of the hash chain of the output ``audit``: text, also as bytes of UTF-8, or its place, such as
        ``{"environment": "CRENEL_AUDIT_KEY"}``; None: no chain
    repairs : whether CASTLE and nearest write their repair log, the output ``repairs``; SUHDSA always does. Keep the
        log from recipients

    Returns
    -------
    The outputs, with the columns of docs/reference/outputs.md.

    Raises
    ------
    ConfigError
        The columns do not fit the policy, a table changes earlier rows, the name is in use, a key cannot be read, or
        the environment has a batch mode or an unsuitable time zone; the message lists all problems of a kind.
    TypeError
        The environment or a table is of another class.

    Notes
    -----
    A job of Crenel sets the following settings of Flink. A program sets them itself, in the ``Configuration`` from
    which it makes its ``StreamExecutionEnvironment``; operators in Python do not read them from ``t_env.get_config()``.

    - ``table.local-time-zone: UTC``. PyFlink takes the UTC time of a TIMESTAMP_LTZ for local time. It is required where
      the table has a column of this type.
    - ``execution.checkpointing.interval: 30 s``. Sinks publish once, at checkpoints. ``insert_into`` requires it with
      checked delivery.
    - ``execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION``. The last checkpoint holds
      the buffered records.
    - ``table.exec.uid.generation: ALWAYS``. Operators after the outputs find their state in a savepoint of the same
      program. With ``execute``, they find it without this setting, and also after other statements were added.
    - ``python.fn-execution.bundle.time: 10``. A record waits so many milliseconds in each of two steps. Flink's default
      of 1000 suits a bounded source.
    - ``python.fn-execution.bundle.size: 100000``, ``python.fn-execution.arrow.batch.size: 20000`` and
      ``pipeline.object-reuse: true``. Larger blocks cost less, and rows of arrays are not copied.
    - ``python.map-state.read-cache-size: 0`` and ``python.map-state.iterate-response-batch-size: 100``. State is read
      once, at a restore, and each message of it stays below 2 GB.

    Examples
    --------
    ::

        outputs = crenel.flink.anonymize(t_env, t_env.from_path("visits"), settings, name="visits")
        statements = t_env.create_statement_set()
        outputs.insert_into(statements, released="released_visits", audit="audit_log")
        crenel.flink.execute(t_env, statements)
    """
    if not isinstance(t_env, StreamTableEnvironment):
        raise TypeError("t_env: is no StreamTableEnvironment; make one by StreamTableEnvironment.create(environment)")
    for argument, given in {"table": table, "forget": forget}.items():
        if not isinstance(given, Table) and (given is not None or argument == "table"):
            kind = type(given).__qualname__
            raise TypeError(f"{argument}: is a {kind}; give a Table, such as t_env.from_path('visits')")
    if not isinstance(settings, Settings):
        kind = type(settings).__qualname__
        raise TypeError(f"settings: is a {kind}; give crenel.Settings, such as crenel.load('visits.yaml')")
    keep_java_threads(get_gateway()._gateway_client)
    sinks: dict[str, dict[str, str]] = {output: {} for output in settings.outputs(repairs=repairs)}
    config, unfit_key = _chained(Config(settings, sinks=sinks), audit_chain)
    try:
        table = flattened(t_env, table, config.policy.roles)
    except ConfigError as error:
        raise ConfigError("table", error.problems) from None
    types = column_types(table)
    if forget is not None and config.policy.subject is None:
        unfit_key.append("forget: asks to forget persons, and policy.subject names no column; name one")
    if problems := [*_unfit_arguments(name, delivery), *_unfit_environment(t_env, types), *unfit_key]:
        raise ConfigError("anonymize", problems)
    names = Names(name)
    used = {function.lower() for function in t_env.list_user_defined_functions()}
    if names.table("encode").lower() in used:
        raise ConfigError(
            "anonymize", [f"name: {name!r} is in use in this environment; give each anonymization a name of its own"]
        )
    has_watermark = any(parse(kind).rowtime for kind in types.values())
    try:
        found = layout(config, SourceColumns(types, has_watermark=has_watermark), "table")
        t_env.create_temporary_view(names.table("source"), table)
        with _numbered_uids(t_env):
            requests = None if forget is None else Requests(forget, "forget", "the table of requests")
            released = anonymizer(t_env, config, found, names, forget=requests)
    except ConfigError as error:
        for part in ("source", "requests"):
            t_env.drop_temporary_view(names.table(part))
        for part in ("encode", "forget"):
            t_env.drop_temporary_system_function(names.table(part))
        raise ConfigError("table", error.problems) from None
    settings._warn()
    name_operators(released._j_data_stream.getTransformation(), "source", names, set(), set(), by_table=True)
    unwritten = {output.name for output in config.algorithm.outputs} - {output.name for output in _written(config)}
    unwritten |= set() if forget is not None else {"forgotten"}
    queries = {of: query for of, query in outputs(found, names).items() if of not in unwritten}
    return Outputs(t_env, config, queries, delivery)


def execute(t_env: StreamTableEnvironment, statement_set: StatementSet) -> JobClient:
    """Start the job of a statement set, as its ``execute`` does, with a stable uid for each operator.

    Flink numbers the operators of queries as it plans them, so one more query would take the state of all others from
    them. Here an operator is named by its kind and by the table that its statement inserts into, and a source by its
    own table.

    Parameters
    ----------
    t_env : environment of the program
    statement_set : all statements of the job; it is empty afterwards

    Returns
    -------
    Client of the job, which runs; ``get_job_execution_result().result()`` waits for its end.
    """
    statements, environment = statement_set._j_statement_set, t_env._j_tenv
    operations = get_field(statements.getClass(), "operations").get(statements)
    tables = [operation.getContextResolvedTable().getIdentifier().getObjectName() for operation in operations]
    t_env._before_execute()
    with _numbered_uids(t_env):
        ends = environment.getPlanner().translate(operations)
    seen: set[int] = set()
    uids = {each.getUid() for end in ends for each in upwards(end, seen)}
    named: set[int] = set()
    for table, end in zip(tables, ends, strict=True):
        name_operators(end, f"sink_{table}", JOB, uids, named, by_table=True)
    del operations[:]
    executor = get_field(environment.getClass(), "execEnv").get(environment)
    settings = environment.getConfig()
    graph = executor.createPipeline(ends, settings, f"insert-into_{','.join(tables)}")
    return JobClient(executor.executeAsync(graph))


class Outputs:
    """The outputs of an anonymization in a program, with the columns of docs/reference/outputs.md.

    Only ``anonymize`` makes objects of this class. Each attribute is a ``Table``, and needs ``delivery="caller"``.
    """

    def __init__(
        self,
        t_env: StreamTableEnvironment,
        config: Config,
        queries: Mapping[str, tuple[tuple[Column, ...], str]],
        delivery: Literal["checked", "caller"],
    ) -> None:
        self._tables, self._config, self._queries, self._delivery = t_env, config, queries, delivery

    @property
    def released(self) -> Table:
        """One row per published record."""
        return self._handed_out("released")

    @property
    def audit(self) -> Table:
        """One row per release."""
        return self._handed_out("audit")

    @property
    def suppressed(self) -> Table:
        """One row per suppressed record, with its reason."""
        return self._handed_out("suppressed")

    @property
    def rejected(self) -> Table:
        """One row per record that failed validation, with its reason."""
        return self._handed_out("rejected")

    @property
    def summary(self) -> Table:
        """Figures of each shard, after the end of a bounded source."""
        return self._handed_out("summary")

    @property
    def forgotten(self) -> Table:
        """One row per request to forget a person and shard, where the anonymization takes requests."""
        return self._handed_out("forgotten")

    @property
    def further(self) -> Mapping[str, Table]:
        """Outputs of the algorithm itself, by name, such as ``repairs``."""
        return {output.name: self._handed_out(output.name) for output in _written(self._config)}

    def columns(self, output: str) -> str:
        """Return the columns of an output as a statement declares them, such as ``"`age_min` INT, `age_max` INT"``.

        ``output``: its name, such as ``"released"`` or ``"repairs"``.

        Raises
        ------
        ConfigError
            There is no such output.
        """
        if problem := self._unknown(output):
            raise ConfigError("columns", [problem])
        return ", ".join(column.declaration for column in self._queries[output][0])

    def insert_into(self, statement_set: StatementSet, **sinks: str) -> None:
        """Add statements that insert outputs into tables of the program.

        Parameters
        ----------
        statement_set : of the environment of the outputs; the program executes it
        sinks : path of a table by output, such as ``released="released_visits"`` or ``repairs="catalog.db.repairs"``

        Raises
        ------
        ConfigError
            A table does not exist, two outputs would mix with each other or with Flink's state, or a record may be
            published twice; the last is not checked with ``delivery="caller"``. The message lists all problems.
        """
        problems = [problem for name in sorted(sinks) if (problem := self._unknown(name))]
        options: dict[str, dict[str, str]] = {}
        for name, path in sinks.items():
            if name in self._queries:
                found = _table_options(self._tables, path)
                if found is None:
                    problems.append(f"sinks.{name}: there is no table {path!r} to insert into; create it before")
                else:
                    options[name] = found
        if problems := [*problems, *self._unfit_sinks(options)]:
            raise ConfigError("insert_into", problems)
        for name, path in sinks.items():
            statement_set.add_insert(path, self._table(name))

    def _unknown(self, output: str) -> str | None:
        """Return the problem of a name that is no output."""
        if output in self._queries:
            return None
        if output == "forgotten":
            return "sinks.forgotten: records requests to forget, and there are none; give their table as forget"
        if output in {own.name for own in self._config.algorithm.outputs}:
            return f"sinks.{output}: is not written; give {output}=True to anonymize"
        valid = [*self._queries]
        return f"sinks.{output}: is no output{suggestion(output, valid)}; one of {listed(valid)}"

    def _unfit_sinks(self, options: Mapping[str, dict[str, str]]) -> Iterator[str]:
        """Yield the problems that a job with these sinks would have."""
        used = self._tables.get_config()
        yield from clashing_sinks(options)
        yield from find_shared_sinks(options)
        yield from find_sinks_in_state(options, {name: value for name in FOLDERS if (value := used.get(name, ""))})
        yield from unfit_timeouts(options)
        if self._config.policy.missing == "value" and written_null(options.get("released", {})):
            yield (
                "sinks.released: has a 'csv.null-literal', so a value may be written as a missing one is, and l counts "
                "the two apart; leave the option out, or set policy.missing to reject"
            )
        if self._delivery == "checked":
            settings = {name: value for name in CHECKPOINTING if (value := used.get(name, ""))}
            yield from repeating_sinks(options)
            yield from repeating_settings({INTERVAL: "0"} | settings)

    def _handed_out(self, name: str) -> Table:
        if self._delivery != "caller":
            raise ConfigError(
                "anonymize",
                [
                    f"delivery: {name!r} as a table may reach any sink, also one that publishes a record twice under "
                    "two generalizations, and Crenel cannot check it; use insert_into, or take responsibility for "
                    "exactly-once sinks with delivery='caller'"
                ],
            )
        return self._table(name)

    def _table(self, name: str) -> Table:
        if problem := self._unknown(name):
            raise ConfigError("anonymize", [problem])
        columns, relation = self._queries[name]
        return self._tables.sql_query(f"SELECT {', '.join(column.selection for column in columns)} FROM {relation}")


def _written(config: Config) -> tuple[Output, ...]:
    return config.algorithm.written(config.algorithm.logs(config.sinks))


def _chained(config: Config, key: Any) -> tuple[Config, list[str]]:
    """Return a configuration with the key of the hash chain, and problems of the key."""
    if key in ("", b""):
        return config, ["audit_chain: is empty; give a key, or None for no chain"]
    try:
        if isinstance(key, bytes):
            key = key.decode()
        secret = read_secret("audit_chain", dict(key) if isinstance(key, Mapping) else key)
        if secret is not None:
            secret.read()
    except PolicyError as error:  # whose message names the field
        return config, [str(error)]
    except UnicodeDecodeError:  # whose message quotes the key
        return config, ["audit_chain: its bytes are not UTF-8; give text, such as secrets.token_hex(32)"]
    except ValueError as error:
        return config, [f"audit_chain: {error}"]
    return replace(config, audit_chain=secret), []


def _unfit_arguments(name: Any, delivery: Any) -> Iterator[str]:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        yield "name: begins with a letter and has letters, digits and '_' alone, such as 'visits'"
    if delivery not in ("checked", "caller"):
        yield "delivery: is 'checked', or 'caller' to take responsibility for exactly-once sinks"


def _unfit_environment(tables: StreamTableEnvironment, types: Mapping[str, str]) -> Iterator[str]:
    used = tables.get_config()
    if used.get(_MODE, "STREAMING").upper() != "STREAMING":
        yield f"flink.{_MODE}: is not STREAMING, which an anonymization needs, also of a bounded source; set it"
    yield from instants_elsewhere(tables, (name for name, kind in types.items() if parse(kind).name == "TIMESTAMP_LTZ"))


def _numbered_uids(tables: StreamTableEnvironment) -> AbstractContextManager[None]:
    """Have Flink number the operators of queries, so that ``name_operators`` recognizes them."""
    return with_setting(tables, "table.exec.uid.generation", "ALWAYS", "PLAN_ONLY")


def _table_options(tables: StreamTableEnvironment, path: str) -> dict[str, str] | None:
    """Return the options of a table; None where there is none, or it is a view.

    A table of a catalog of its own kind has no connector; its path then distinguishes it from others.
    """
    manager = tables._j_tenv.getCatalogManager()
    place = manager.qualifyIdentifier(tables._j_tenv.getParser().parseIdentifier(path))
    found = manager.getTable(place)
    if not found.isPresent():
        return None
    resolved = found.get().getResolvedTable()
    if resolved.getTableKind().name() != "TABLE":
        return None
    options = dict(resolved.getOptions())
    return options if "connector" in options else {"connector": "", "table": place.asSummaryString(), **options}
