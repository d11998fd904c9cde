"""Anonymization of a table within a PyFlink program of your own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from pyflink.table import StatementSet, StreamTableEnvironment, Table

from crenel.jobs.config.delivery import OF_RECORDS, OR_ACCEPT, clashing_sinks, repeating_sinks
from crenel.jobs.config.file import ConfigError
from crenel.jobs.config.flink_settings import CHECKPOINTING, FOLDERS, repeating_settings
from crenel.jobs.config.kafka import unfit_timeouts
from crenel.jobs.config.overlaps import find_shared_sinks, find_sinks_in_state
from crenel.jobs.local.worker import keep_pool_private
from crenel.jobs.pipeline.build import attach, column_types, outputs, selection
from crenel.jobs.pipeline.bundle_timing import set_pace
from crenel.jobs.pipeline.environment import DEFAULTS, warn_of_channels
from crenel.jobs.pipeline.job import Names, upwards
from crenel.jobs.pipeline.sockets import UnknownChannelsError, bind_channels
from crenel.settings import Settings

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_ACCEPT = "or accept that with delivery='caller'"
_NEEDED = (
    "python.fn-execution.arrow.batch.size",
    "python.fn-execution.bundle.size",
    "python.map-state.read-cache-size",
    "python.map-state.iterate-response-batch-size",
    "table.local-time-zone",
    "table.exec.uid.generation",
    "execution.checkpointing.interval",
    "execution.checkpointing.mode",
    "execution.checkpointing.externalized-checkpoint-retention",
)
"""Settings of jobs that also suit the other operators of a program; object reuse does not."""


def configure(t_env: StreamTableEnvironment) -> None:
    """Set the settings of Flink that Crenel's operators need, where the program has none; ``anonymize`` calls it.

    In a local run, servers of PyFlink in this process then accept connections of this machine alone.

    Examples
    --------
    >>> from pyflink.table import EnvironmentSettings, StreamTableEnvironment
    >>> t_env = StreamTableEnvironment.create(environment_settings=EnvironmentSettings.in_streaming_mode())
    >>> configure(t_env)  # doctest: +SKIP
    """
    present = t_env._get_j_env().getConfiguration()
    own = t_env.get_config().get_configuration()
    for name in _NEEDED:
        if not present.containsKey(name) and not own.contains_key(name):
            t_env.get_config().set(name, DEFAULTS[name])
    keep_pool_private()
    try:
        bind_channels()
    except UnknownChannelsError as error:
        warn_of_channels(error)


def anonymize(
    t_env: StreamTableEnvironment,
    table: Table,
    settings: Settings,
    *,
    name: str,
    delivery: Literal["judged", "caller"] = "judged",
) -> Outputs:
    """Anonymize a table of a PyFlink program.

    Parameters
    ----------
    t_env : environment of the program
    table : append-only table, such as a view or a join; event time and watermark are those of its schema
    settings : policy, privacy models and algorithm
    name : letters, digits and ``_``; distinguishes the anonymizers of one program. UIDs of operators derive from it,
        so keep it as long as savepoints exist
    delivery : ``"judged"``: records reach only sinks that ``Outputs.insert_into`` has checked; ``"caller"``: the
        program ensures that no record is published twice

    Raises
    ------
    ConfigError
        The columns do not match the policy, the table updates or deletes rows, or the name is not valid.

    Examples
    --------
    >>> outputs = anonymize(t_env, visits, settings, name="visits")  # doctest: +SKIP
    >>> statements = t_env.create_statement_set()  # doctest: +SKIP
    >>> outputs.insert_into(statements, released="released_visits", audit="audit_log")  # doctest: +SKIP
    >>> statements.execute()  # doctest: +SKIP
    """
    if _NAME.fullmatch(name) is None:
        raise ConfigError("anonymize", ["name: is not valid; give a letter, followed by letters, digits and '_'"])
    if delivery not in ("judged", "caller"):
        raise ConfigError(name, ["delivery: is not known; 'judged' or 'caller'"])
    configure(t_env)
    zoned = any(text.startswith("TIMESTAMP_LTZ") for text in column_types(table).values())
    if zoned and t_env.get_config().get("table.local-time-zone", "") != "UTC":
        raise ConfigError(name, ["table.local-time-zone: must be UTC, or PyFlink shifts TIMESTAMP_LTZ; set it to UTC"])
    names = Names(name)
    found, operator = attach(t_env, settings.validated, table, names)
    transformation = operator._j_data_stream.getTransformation()
    above = list(upwards(transformation, set()))
    set_pace(operator._j_data_stream.getExecutionEnvironment(), transformation, above)
    queries = {output: selection(columns, origin) for output, (columns, origin) in outputs(found, names).items()}
    queries.pop("forgotten", None)  # a program has no requests to forget persons
    return Outputs(t_env, name, queries, accepted=delivery == "caller")


class Outputs:
    """Outputs of an anonymizer in a PyFlink program, as tables; ``anonymize`` makes one.

    Execute all outputs of one anonymizer in one statement set: each further execution would anonymize the table again,
    and publish its records under other generalizations.
    """

    def __init__(
        self, t_env: StreamTableEnvironment, name: str, queries: Mapping[str, str], *, accepted: bool = False
    ) -> None:
        self._tables, self._name, self._queries, self._accepted = t_env, name, queries, accepted
        self._sinks: dict[str, dict[str, str]] = {}

    @property
    def released(self) -> Table:
        """One row for each published record; needs ``delivery="caller"``, as for all tables of records."""
        return self._table("released")

    @property
    def audit(self) -> Table:
        """One row for each release."""
        return self._table("audit")

    @property
    def suppressed(self) -> Table:
        """Records that were not published, each with its reason."""
        return self._table("suppressed")

    @property
    def rejected(self) -> Table:
        """Records that failed validation, each with its reason."""
        return self._table("rejected")

    @property
    def summary(self) -> Table:
        """Counters of each shard at the end of the input."""
        return self._table("summary")

    @property
    def further(self) -> dict[str, Table]:
        """Further outputs of the algorithm, by name."""
        return {name: self._table(name) for name in self._queries if name not in (*OF_RECORDS, "summary")}

    def insert_into(self, statement_set: StatementSet, **sinks: str) -> None:
        """Insert outputs into tables, each as ``released="path.of.table"``, after a check of delivery.

        Raises
        ------
        ConfigError
            Lists outputs that do not exist or have a sink already, and sinks that may publish a record twice or would
            mix with others, unless the caller is responsible for delivery.

        Examples
        --------
        >>> outputs.insert_into(statements, released="released_visits", audit="audit_log")  # doctest: +SKIP
        """
        problems = [
            f"{output}: is no output; one of {', '.join(self._queries)}"
            for output in sinks
            if output not in self._queries
        ]
        problems += [
            f"sinks.{output}: has a sink already, and a second one would publish each record twice; remove one"
            for output in sinks
            if output in self._sinks
        ]
        options = {output: _options(self._tables, path) for output, path in sinks.items()}
        problems += [
            f"sinks.{output}: the table {sinks[output]!r} does not exist, or is a view; create a table first"
            for output, found in options.items()
            if found is None
        ]
        given = {output: found for output, found in options.items() if found is not None}
        problems += [problem.replace(OR_ACCEPT, _ACCEPT) for problem in self._problems({**self._sinks, **given})]
        if problems:
            raise ConfigError(self._name, problems)
        self._sinks |= given
        for output, path in sinks.items():
            statement_set.add_insert(path, self._tables.sql_query(self._queries[output]))

    def _problems(self, sinks: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        settings = {
            name: value for name in (*CHECKPOINTING, *FOLDERS) if (value := self._tables.get_config().get(name, ""))
        }
        yield from clashing_sinks(sinks)
        yield from find_shared_sinks(sinks)
        yield from find_sinks_in_state(sinks, settings)
        yield from unfit_timeouts(sinks)
        if not self._accepted:
            yield from repeating_sinks(sinks)
            yield from repeating_settings(settings)

    def _table(self, output: str) -> Table:
        if output in OF_RECORDS and not self._accepted:
            raise ConfigError(
                self._name,
                [
                    f"{output}: the sinks of a table cannot be seen from here, so a record may be published twice; use "
                    f"insert_into({output}=...), {_ACCEPT} in anonymize"
                ],
            )
        return self._tables.sql_query(self._queries[output])


def _options(t_env: StreamTableEnvironment, path: str) -> dict[str, str] | None:
    """Return the options of a table, with an empty connector where it has none; None: there is no such table."""
    manager = t_env._j_tenv.getCatalogManager()
    place = manager.qualifyIdentifier(t_env._j_tenv.getParser().parseIdentifier(path))
    found = manager.getTable(place)
    if not found.isPresent() or found.get().getResolvedTable().getTableKind().name() != "TABLE":
        return None
    return {"connector": "", **dict(found.get().getResolvedTable().getOptions())}
