"""A PyFlink program from Kafka to Kafka: it joins two topics, anonymizes the result, and counts what is published.

Create the topics in ``TOPICS`` first. With the jar of Flink's SQL connector for Kafka, run it on this machine by
``python examples/kafka_program.py --connector JAR --invent 5000``, or on a cluster by
``flink run --jarfile JAR -py examples/kafka_program.py --invent 5000``.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

import crenel
from crenel.flink import anonymize, execute

VISITS = (
    "visit BIGINT, patient STRING, age INT, area STRING, ward STRING, seen TIMESTAMP_LTZ(3), "
    "WATERMARK FOR seen AS seen - INTERVAL '10' MINUTE"
)
DIAGNOSES = "visit BIGINT, diagnosis STRING, made TIMESTAMP_LTZ(3), WATERMARK FOR made AS made - INTERVAL '10' MINUTE"
REQUESTS = "patient STRING"
JOINED = """
SELECT v.patient, v.age, v.area, v.ward, v.seen, d.diagnosis
FROM visits AS v JOIN diagnoses AS d ON v.visit = d.visit AND d.made BETWEEN v.seen AND v.seen + INTERVAL '1' HOUR
"""
COUNTED = "SELECT area, diagnosis, COUNT(*) AS visits FROM published GROUP BY area, diagnosis"
COUNTS = "area STRING, diagnosis STRING, visits BIGINT, PRIMARY KEY (area, diagnosis) NOT ENFORCED"

OUTPUTS = ("released", "audit", "suppressed", "rejected", "forgotten")
TOPICS = [f"example.{name}" for name in ("visits", "diagnoses", "requests", *OUTPUTS, "counts")]

SETTINGS = crenel.Settings(
    policy=crenel.Policy(
        subject="patient",
        event_time="seen",
        quasi_identifiers={
            "age": crenel.Numeric((0, 110)),
            "area": crenel.Categorical({"Oslo": ["Norway", "*"], "Bergen": ["Norway", "*"], "Lund": ["Sweden", "*"]}),
        },
        sensitive=["diagnosis"],
        passthrough=["ward"],
    ),
    privacy=crenel.Privacy(k=5, l=2),
    algorithm=crenel.Nearest(crenel.Delay(tuples=500, event_time="6 h")),
    shards=crenel.Shards(2),
    subject_key=os.environ.get("CRENEL_SUBJECT_KEY"),
)
FLINK = {
    "table.local-time-zone": "UTC",
    "python.fn-execution.bundle.time": "10",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}
"""Settings of Flink with the reasons in ``help(crenel.flink.anonymize)``."""


def main() -> None:
    """Start the job."""
    options = arguments()
    t_env = environment(options)
    for name, columns in {"visits": VISITS, "diagnoses": DIAGNOSES, "requests": REQUESTS}.items():
        t_env.execute_sql(source(name, columns, options.brokers))
    if options.invent:
        invent(t_env, options.invent)

    outputs = anonymize(
        t_env,
        t_env.sql_query(JOINED),
        SETTINGS,
        name="visits",
        delivery="caller",  # Crenel cannot see the sink of the counts
        forget=t_env.from_path("requests"),
        audit_chain=os.environ.get("CRENEL_AUDIT_KEY"),
    )
    statements = t_env.create_statement_set()
    for name in OUTPUTS:
        t_env.execute_sql(sink(name, outputs.columns(name), options.brokers))
    outputs.insert_into(statements, **dict(zip(OUTPUTS, OUTPUTS, strict=True)))
    t_env.create_temporary_view("published", outputs.released)
    t_env.execute_sql(sink("counts", COUNTS, options.brokers, connector="upsert-kafka"))
    statements.add_insert_sql(f"INSERT INTO counts {COUNTED}")
    job = execute(t_env, statements)
    if options.connector:
        job.get_job_execution_result().result()  # the job would end with this process


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description="Anonymize visits from Kafka to Kafka.")
    parser.add_argument("--brokers", default="localhost:9092", help="addresses of Kafka's brokers")
    parser.add_argument("--connector", type=Path, help="jar of Flink's connector, for a run on this machine")
    parser.add_argument("--invent", type=int, metavar="VISITS", help="invented visits to write first")
    parser.add_argument("--checkpoints", default="10 s", help="time between checkpoints, at which sinks publish")
    return parser.parse_args()


def environment(options: argparse.Namespace) -> StreamTableEnvironment:
    """Return the environment of the program."""
    configuration = Configuration()
    for key, value in FLINK.items():
        configuration.set_string(key, value)
    configuration.set_string("execution.checkpointing.interval", options.checkpoints)
    if options.connector:
        configuration.set_string("pipeline.jars", options.connector.resolve().as_uri())
        configuration.set_string("python.executable", sys.executable)
    return StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(configuration))


def source(name: str, columns: str, brokers: str) -> str:
    """Return the statement of a topic that the program reads from its beginning."""
    return f"""
        CREATE TEMPORARY TABLE {name} ({columns}) WITH (
            'connector' = 'kafka', 'topic' = 'example.{name}', 'properties.bootstrap.servers' = '{brokers}',
            'properties.group.id' = 'crenel-example', 'properties.isolation.level' = 'read_committed',
            'scan.startup.mode' = 'earliest-offset', 'scan.watermark.idle-timeout' = '15 s',
            'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'
        )"""


def sink(name: str, columns: str, brokers: str, connector: str = "kafka") -> str:
    """Return the statement of a topic to which each record is written once, also after a failure."""
    formats = {"kafka": "'format' = 'json'", "upsert-kafka": "'key.format' = 'json', 'value.format' = 'json'"}
    return f"""
        CREATE TEMPORARY TABLE {name} ({columns}) WITH (
            'connector' = '{connector}', 'topic' = 'example.{name}', 'properties.bootstrap.servers' = '{brokers}',
            'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'kafka-program-{name}',
            'properties.transaction.timeout.ms' = '900000', {formats[connector]}
        )"""


def invent(t_env: StreamTableEnvironment, visits: int) -> None:
    """Write invented visits of some hundred patients, one per minute, with their diagnoses."""
    t_env.execute_sql(f"""
        CREATE TEMPORARY TABLE numbers (visit BIGINT, drawn INT) WITH (
            'connector' = 'datagen', 'number-of-rows' = '{visits}', 'fields.drawn.min' = '0',
            'fields.drawn.max' = '999999', 'fields.visit.kind' = 'sequence',
            'fields.visit.start' = '0', 'fields.visit.end' = '{visits - 1}'
        )""")
    statements = t_env.create_statement_set()
    statements.add_insert_sql("""
        INSERT INTO visits SELECT
            visit, CONCAT('p', CAST(MOD(drawn, 700) AS STRING)), 18 + MOD(drawn, 70),
            ELT(1 + MOD(drawn, 3), 'Oslo', 'Bergen', 'Lund'), CONCAT('ward ', CAST(visit AS STRING)),
            TO_TIMESTAMP_LTZ(1790000000000 + visit * 60000, 3)
        FROM numbers""")
    statements.add_insert_sql("""
        INSERT INTO diagnoses SELECT
            visit, ELT(1 + MOD(drawn, 4), 'flu', 'asthma', 'back pain', 'check-up'),
            TO_TIMESTAMP_LTZ(1790000000000 + visit * 60000 + MOD(drawn, 3600000), 3)
        FROM numbers""")
    statements.execute().wait()


if __name__ == "__main__":
    main()
