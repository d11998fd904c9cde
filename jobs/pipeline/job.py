"""Executable job: its inserts, and stable names for the state of its operators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyflink.common import JobClient
from pyflink.datastream import DataStream
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment
from pyflink.util.java_utils import is_instance_of

from crenel.jobs.causes import JobSetup
from crenel.jobs.pipeline.bundle_timing import SOURCE, set_pace


@dataclass(frozen=True)
class Names:
    """Names of the views, functions and operators of one anonymization.

    Attributes
    ----------
    name : of the anonymization in a program; empty in a job, whose savepoints hold the names without it
    """

    name: str = ""

    def table(self, part: str) -> str:
        """Return the name of a view, table or function."""
        return "_".join(filter(None, ("crenel", self.name, part)))

    def uid(self, part: str) -> str:
        """Return the uid of an operator."""
        return "-".join(filter(None, ("crenel", self.name, part)))


_PHYSICAL = "org.apache.flink.streaming.api.transformations.PhysicalTransformation"
"""Transformations that are operators, and not only ways between two."""

_ONE_INPUT = "org.apache.flink.streaming.api.transformations.OneInputTransformation"

_KINDS = {
    "constraint-validator": "not null",
    "correlate": "unnest",
    "discarding-sink": "end",
    "external-datastream": "rows",
    "python-calc": "encode",
    "watermark-assigner": "watermark",
}
"""Names of steps by the kind in Flink's uid. Flink's own names have numbers that change with each further sink, and the
metrics of a task repeat those of all its operators."""

JOB = Names()
"""Names in a job."""


class Job:
    """The job that ``crenel.jobs.pipeline.build.build`` returns.

    Parameters
    ----------
    tables : environment of the job
    operator : output of the anonymizer, which all inserts read
    warnings : caveats to report before the start, each with its field
    setup : facts to report if the job fails
    fingerprint : of the settings that stored state must have (``crenel.anonymity.model.fingerprint``)
    conceals : whether Flink's web page shows only the names of operators, and not their descriptions, which hold texts
        of the query
    """

    def __init__(
        self,
        tables: StreamTableEnvironment,
        operator: DataStream,
        warnings: tuple[str, ...] = (),
        setup: JobSetup | None = None,
        *,
        fingerprint: Mapping[str, str] = MappingProxyType({}),
        conceals: bool = False,
    ) -> None:
        self.warnings = warnings
        self.fingerprint = fingerprint
        self._conceals = conceals
        self.setup = JobSetup({}, {}, {}) if setup is None else setup
        self._operator = operator._j_data_stream.getTransformation()
        self._environment = operator._j_data_stream.getExecutionEnvironment()
        self._statements = tables.create_statement_set()
        self._sinks: list[str] = []
        self._in_catalogs: set[str] = set()

    def insert(self, sink: str, query: str, into: str | None = None) -> None:
        """Write the rows of a query to the table ``sink``.

        ``into``: the path of a table of a catalog, with the columns to write; ``sink`` then names operators alone.
        """
        self._statements.add_insert_sql(f"INSERT INTO {into or sink} {query}")
        self._sinks.append(sink)
        if into is not None:
            self._in_catalogs.add(sink)

    def explain(self) -> str:
        """Return Flink's plan; raise Flink's errors about the job."""
        return str(self._statements.explain())

    def execute(self) -> JobClient:
        """Start the job."""
        self._statements.attach_as_datastream()
        # A sink of its own DataStream program, such as Paimon's, adds steps before; Flink adds all ends at last.
        ends = list(self._environment.getTransformations())[-len(self._sinks) :]
        self._name_operators(ends)
        if self._conceals:
            conceal(self._operator, *ends)
        get_gateway().jvm.org.apache.flink.python.util.PythonConfigUtil.configPythonOperator(self._environment)
        set_pace(self._environment, self._operator, list(upwards(self._operator, set())))
        return JobClient(self._environment.executeAsync(self._environment.getStreamGraph()))

    def _name_operators(self, ends: list[Any]) -> None:
        # Flink numbers SQL operators in planning order: with one more sink, the offsets and pending files of a
        # savepoint would match no operator. So a name consists of the operator's kind and its table.
        if len(ends) != len(self._sinks):
            raise RuntimeError(f"{len(self._sinks)} inserts became {len(ends)} sinks")
        known: set[str] = set()
        seen: set[int] = set()
        for label, end in [("source", self._operator), *zip(self._sinks, ends, strict=True)]:
            if label in self._in_catalogs:
                name_steps(end, label.removeprefix("crenel_"), JOB, known, seen)
            name_operators(end, label.removeprefix("crenel_"), JOB, known, seen)


def name_steps(end: Any, label: str, names: Names, known: set[str], seen: set[int]) -> None:
    """Give uids to the steps of a sink that is a DataStream program of its own, by their names.

    Flink would derive them from all of the job, and find no state where anything has changed, such as the parallelism.
    Arguments are as of ``name_operators``.
    """
    for step in upwards(end, set(seen)):
        if step.getUid() is None:
            kind = re.sub(r"\W+", "-", step.getName().partition(":")[0].strip()).lower()
            uid = _unused(names.uid(f"{label}-{kind}"), known)
            known.add(uid)
            step.setUid(uid)
            if 1 in (step.getMaxParallelism(), *(before.getMaxParallelism() for before in list(step.getInputs()))):
                _begin_chain(step)


def _begin_chain(step: Any) -> None:
    """Have a step be chained to none before it.

    A step that is never parallel would be chained to others where these are not either, and Flink could not restore its
    state where they are.
    """
    if not is_instance_of(step, _PHYSICAL):
        return
    strategies = get_gateway().jvm.org.apache.flink.streaming.api.operators.ChainingStrategy
    step.setChainingStrategy(strategies.HEAD)
    # Iceberg's committer ignores that.
    if is_instance_of(step, _ONE_INPUT) and step.getOperatorFactory().getChainingStrategy().name() != "HEAD":
        for before in list(step.getInputs()):
            before.setChainingStrategy(strategies.NEVER)


def name_operators(
    end: Any, label: str, names: Names, known: set[str], seen: set[int], *, by_table: bool = False
) -> None:
    """Give stable uids to a transformation and all that it reads from, in the place of uids that Flink has numbered.

    In a job, they have short names too: that of the table for a source or a sink, and else that of their kind.

    Parameters
    ----------
    known : uids that are in use; the new ones are added
    seen : ids of transformations that were named for earlier ends, with all that they read from
    by_table : whether each source is named by its table, so that the offsets of two topics cannot change places. In a
        job, savepoints hold the uids without it
    """
    for transformation in upwards(end, seen):
        number, _, kind = (transformation.getUid() or "").partition("_")
        if number.isdecimal():
            what = _what(transformation, kind)
            if by_table and is_instance_of(transformation, SOURCE) and kind != "source":
                what += "-" + transformation.getName().partition("[")[0].rpartition(".")[2]
            uid = _unused(names.uid(f"{label}-{what}"), known)
            known.add(uid)
            transformation.setUid(uid)
            if not by_table:
                transformation.setName(_short_name(transformation, label, kind))


def upwards(transformation: Any, seen: set[int]) -> Iterator[Any]:
    """Yield a transformation and all that it reads from, each once; ``seen`` collects their ids."""
    if transformation.getId() not in seen:
        seen.add(transformation.getId())
        yield transformation
        inputs = transformation.getInputs()
        # By number: an iterator of Java ends with an exception, which costs ten requests.
        for number in range(inputs.size()):
            yield from upwards(inputs.get(number), seen)


def conceal(*ends: Any) -> None:
    """Have Flink's web page show only the names of operators; descriptions hold texts of the query."""
    seen: set[int] = set()
    for end in ends:
        for transformation in upwards(end, seen):
            transformation.setDescription(transformation.getName())


def _what(transformation: Any, kind: str) -> str:
    return transformation.getName().partition("[")[0] if kind == "source" else kind


def _short_name(transformation: Any, label: str, kind: str) -> str:
    path = str(transformation.getName()).partition("[")[0]
    if kind == "source" or "." in path:
        return path.rpartition(".")[2].removeprefix("crenel_")
    is_step = kind in _KINDS or kind == "calc" or label == "source"
    return _KINDS.get(kind, kind) if is_step else label.removeprefix("sink_")


def _unused(name: str, known: set[str]) -> str:
    number = 2
    unused = name
    while unused in known:
        unused = f"{name}-{number}"
        number += 1
    return unused
