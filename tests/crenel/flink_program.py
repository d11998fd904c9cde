"""A PyFlink program: joins before it anonymizes under two policies, and aggregates after."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

import crenel
from crenel.flink import anonymize


def main(folder: Path) -> None:
    """Run the program on the files of a folder."""
    t_env = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    t_env.get_config().set("parallelism.default", "1")
    csv = f"WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder}/"
    t_env.execute_sql(f"CREATE TABLE visits (person STRING, age INT, code INT) {csv}visits.csv')")
    t_env.execute_sql("CREATE VIEW codes AS SELECT * FROM (VALUES (0, 'flu'), (1, 'asthma')) AS c (code, diagnosis)")
    joined = t_env.sql_query("SELECT person, age, diagnosis FROM visits JOIN codes ON visits.code = codes.code")
    t_env.execute_sql(f"CREATE TABLE fine (age_min INT, age_max INT, diagnosis STRING) {csv}fine')")
    t_env.execute_sql(f"CREATE TABLE counts (age_min INT, n BIGINT) {csv}counts')")
    t_env.execute_sql("CREATE TABLE shown (age_min INT, n BIGINT) WITH ('connector' = 'print')")

    statements = t_env.create_statement_set()
    fine = anonymize(t_env, joined, settings(3), name="fine")
    fine.insert_into(statements, released="fine")
    try:
        fine.released  # noqa: B018
    except crenel.ConfigError as error:
        print(json.dumps(error.problems))
    try:
        fine.insert_into(statements, audit="shown", released="fine")
    except crenel.ConfigError as error:
        print(json.dumps(error.problems))
    coarse = anonymize(t_env, joined, settings(10), name="coarse", delivery="caller")
    t_env.create_temporary_view("coarse", coarse.released)
    statements.add_insert_sql("INSERT INTO shown SELECT age_min, COUNT(*) FROM coarse GROUP BY age_min")
    statements.execute().wait()


def settings(k: int) -> crenel.Settings:
    """Return the policy of the test, with one k."""
    return crenel.Settings(
        policy=crenel.Policy(
            subject="person", quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]
        ),
        privacy=crenel.Privacy(k=k),
        algorithm=crenel.Nearest(crenel.Delay(tuples=50)),
        seed=7,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
