"""A user's program: it joins before an anonymization, aggregates after it, and has two policies.

The argument is a folder with ``in.csv``. The program prints a line of JSON, and then the rows of its aggregate.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

import crenel
from crenel.flink import Outputs, anonymize
from crenel.jobs.pipeline.job import upwards
from tests.crenel.stream import settings

FLINK = {
    "parallelism.default": "1",
    "pipeline.max-parallelism": "64",
    "table.local-time-zone": "UTC",
    "python.executable": sys.executable,
    "python.client.executable": sys.executable,
}
OUTPUTS = ("released", "audit", "suppressed", "rejected", "summary")
RELEASED = (
    "age_min SMALLINT, age_max SMALLINT, area STRING, height_min DECIMAL(5, 1), height_max DECIMAL(5, 1), "
    "diagnosis STRING, born DATE, id BIGINT"
)
JOIN = """
SELECT person, age, area, height, seen, diagnosis, born, id
FROM visits CROSS JOIN UNNEST(ARRAY[ROW('o', 'Oslo'), ROW('b', 'Bergen'), ROW('l', 'Lund'), ROW('m', 'Mars')])
AS areas (code, area) WHERE visits.code = areas.code
"""


def first() -> crenel.Settings:
    """Return the settings of the first anonymization."""
    found = settings("nearest", shards=3)
    algorithm = crenel.Nearest(crenel.Delay(tuples=60, jitter=0.25))  # the seed matters
    return replace(found, policy=replace(found.policy, passthrough=["born", "id"]), algorithm=algorithm)


def second() -> crenel.Settings:
    """Return the settings of the second one, with another policy and algorithm."""
    found = first()
    policy = crenel.Policy(
        subject="person",
        quasi_identifiers={"age": found.policy.quasi_identifiers["age"]},
        sensitive=["diagnosis"],
        drop=["area", "height", "seen", "born", "id"],
    )
    return replace(found, policy=policy, algorithm=crenel.Suhdsa(tuples=40), shards=crenel.Shards())


def table(name: str, columns: str, folder: Path, connector: str = "filesystem") -> str:
    """Return the statement of a table of CSV files."""
    options = {"connector": connector}
    if connector == "filesystem":
        options |= {"path": str(folder / name), "format": "csv", "csv.null-literal": ""}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({listed})"


def errors(t_env: StreamTableEnvironment, outputs: Outputs, folder: Path) -> Iterator[str]:
    """Yield the messages of what is refused; nothing of it changes the job."""
    visits, statements = t_env.sql_query(JOIN), t_env.create_statement_set()
    timed = replace(first(), algorithm=crenel.Nearest(crenel.Delay(event_time="1 h")))
    untimed = t_env.sql_query(JOIN.replace("seen,", "CAST(seen AS TIMESTAMP_LTZ(3)) AS seen,"))
    persons, ages = (t_env.sql_query(f"SELECT {columns} FROM visits") for columns in ("DISTINCT person", "age"))
    t_env.execute_sql(table("shown", RELEASED, folder, "print"))

    def under(setting: str, value: str) -> Outputs:
        before = t_env.get_config().get(setting, "STREAMING")
        t_env.get_config().set(setting, value)
        try:
            return anonymize(t_env, visits, first(), name="few")
        finally:
            t_env.get_config().set(setting, before)

    attempts = (
        lambda: outputs.released,
        lambda: anonymize(t_env, visits, first(), name="Visits"),
        lambda: anonymize(t_env, visits, first(), name="all-visits"),
        lambda: anonymize(t_env, t_env.sql_query("SELECT person, age FROM visits"), first(), name="few"),
        lambda: anonymize(t_env, t_env.sql_query(f"SELECT DISTINCT * FROM ({JOIN})"), first(), name="few"),
        lambda: under("table.local-time-zone", "Europe/Oslo"),
        lambda: under("execution.runtime-mode", "BATCH"),
        lambda: anonymize(t_env, untimed, timed, name="few"),
        lambda: anonymize(t_env, visits, first(), name="few", forget=ages),
        lambda: anonymize(t_env, visits, first(), name="few", forget=visits),
        lambda: anonymize(t_env, visits, first(), name="few", forget=persons),
        lambda: anonymize(t_env, visits, second(), name="few", audit_chain={"environment": "CRENEL_NO_KEY"}),
        lambda: anonymize(t_env, visits, second(), name="few", audit_chain=""),
        lambda: anonymize(t_env, visits, second(), name="few", audit_chain=b"\xff"),
        lambda: anonymize(t_env, "visits", first(), name="few"),
        lambda: anonymize(t_env, visits, "visits.yaml", name="few"),  # type: ignore[arg-type]
        lambda: outputs.columns("release"),
        lambda: outputs.insert_into(statements, forgotten="shown"),
        lambda: outputs.insert_into(statements, repairs="shown"),
        lambda: outputs.insert_into(statements, released="shown", audited="shown", audit="nowhere"),
        lambda: outputs.insert_into(statements, released="released", audit="released"),
    )
    for attempt in attempts:
        message = "nothing was refused"
        try:
            attempt()
        except (crenel.ConfigError, TypeError) as error:
            message = str(error)
        yield message


def main(folder: Path) -> None:
    """Run the program."""
    configuration = Configuration()
    for key, value in FLINK.items():
        configuration.set_string(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    t_env = StreamTableEnvironment.create(environment)
    t_env.execute_sql(
        "CREATE TABLE visits (person STRING, age SMALLINT, code STRING, height DECIMAL(5, 1), seen TIMESTAMP_LTZ(3), "
        "diagnosis STRING, born DATE, id BIGINT, WATERMARK FOR seen AS seen - INTERVAL '20' MINUTE) WITH ("
        f"'connector' = 'filesystem', 'path' = '{folder}/in.csv', 'format' = 'csv', 'csv.null-literal' = '')"
    )
    visits = t_env.sql_query(JOIN)
    outputs = anonymize(t_env, visits, first(), name="visits")
    again = anonymize(t_env, visits, second(), name="again", delivery="caller")
    t_env.execute_sql(table("released", RELEASED, folder))
    t_env.execute_sql(table("counts", "diagnosis STRING, records BIGINT", folder, "print"))
    seen: set[int] = set()
    ends = environment._j_stream_execution_environment.getTransformations()
    uids = [str(uid) for end in ends for each in upwards(end, seen) if (uid := each.getUid()) is not None]
    messages = [*errors(t_env, outputs, folder)]

    environment.enable_checkpointing(1000)
    statements = t_env.create_statement_set()
    outputs.insert_into(statements, released="released")
    t_env.create_temporary_view("published", again.released)
    counted = "SELECT diagnosis, COUNT(*) AS records FROM published GROUP BY diagnosis"
    statements.add_insert("counts", t_env.sql_query(counted))
    columns = {name: getattr(again, name).get_schema().get_field_names() for name in OUTPUTS}
    columns |= {name: further.get_schema().get_field_names() for name, further in again.further.items()}
    print(json.dumps({"errors": messages, "columns": columns, "uids": sorted(uids)}), flush=True)
    statements.execute().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
