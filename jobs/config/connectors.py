"""Connectors of Flink: what each of them guarantees, and which of its options name a place, a broker or a format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from crenel.jobs.config.catalogs import TABLE, split_path
from crenel.jobs.config.paths import locate

Options: TypeAlias = Mapping[str, str]

SERVERS = "properties.bootstrap.servers"
TIMEOUT = "properties.transaction.timeout.ms"
PREFIX = "sink.transactional-id-prefix"

ALLOWED = 900_000
"""Milliseconds that a broker allows by default (``transaction.max.timeout.ms``).

Flink's default is four times that, which such a broker refuses at each start.
"""


@dataclass(frozen=True)
class Connector:
    """Properties of a connector, or of the catalog of the same name.

    Attributes
    ----------
    publishes_once : whether a sink publishes when a checkpoint is complete, or nothing at all
    replays : why a source goes on exactly behind a checkpoint; empty: it may not, as a socket, a query that is read
        again from its beginning, or a queue that repeats a message until it is acknowledged
    stores : whether a sink keeps records
    jar : artifact of Maven, without version; empty: Flink has it
    """

    publishes_once: bool = False
    replays: str = ""
    stores: bool = True
    jar: str = ""


_IN_FILES = "its checkpoints hold snapshots and places in files"
_KAFKA_JAR = "flink-sql-connector-kafka"
CONNECTORS: Mapping[str, Connector] = {
    "filesystem": Connector(publishes_once=True, replays="its checkpoints hold how far each file was read"),
    "hive": Connector(publishes_once=True, replays="reads files as filesystem does", jar="flink-sql-connector-hive"),
    "iceberg": Connector(publishes_once=True, replays=_IN_FILES, jar="iceberg-flink-runtime"),
    "paimon": Connector(publishes_once=True, replays=_IN_FILES, jar="paimon-flink"),
    "kafka": Connector(replays="its checkpoints hold the offset of each partition", jar=_KAFKA_JAR),
    "upsert-kafka": Connector(jar=_KAFKA_JAR),
    "datagen": Connector(replays="makes its rows up: a sequence goes on where it was, and a random row is a new one"),
    "blackhole": Connector(publishes_once=True, stores=False),
    "print": Connector(stores=False),
    "jdbc": Connector(
        jar="flink-connector-jdbc-core, with those of flink-connector-jdbc-postgres and of the driver (or of another "
        "database)"
    ),
}
KAFKA = ("kafka", "upsert-kafka")
PUBLISHES_ONCE = [name for name, connector in CONNECTORS.items() if connector.publishes_once]
REPLAYS = [name for name, connector in CONNECTORS.items() if connector.replays]
LOCAL = [name for name, connector in CONNECTORS.items() if not connector.jar]

JARS: Mapping[str, str] = {
    **{name: connector.jar for name, connector in CONNECTORS.items() if connector.jar},
    "avro": "flink-sql-avro",
    "avro-confluent": "flink-sql-avro-confluent-registry",
    "orc": "flink-sql-orc",
    "parquet": "flink-sql-parquet, with those of hadoop-client-api and hadoop-client-runtime",
    "protobuf": "flink-sql-protobuf",
}
"""Maven artifacts of connectors, catalogs and formats, without versions."""

NAMING = tuple(
    f".{name}"
    for name in (
        *("connector", "format", "path", "topic", "table-name", "catalog-name", "hostname", "port", SERVERS),
        *(TABLE, "warehouse", "type", "catalog-type", "default-database", "message-class-name"),
    )
)
"""Suffixes of option names, with a leading dot, whose values name a location, a format or a class: no secrets."""

_PARQUET = {"parquet.utc-timezone": "true", "parquet.write.int64.timestamp": "true"}


_OF_KAFKA = re.compile(r"(?<![\w.])org\.apache\.kafka\.(?:[a-z]+\.)*[A-Z]\w*")
_SHADED = "org.apache.flink.kafka.shaded."


def unshaded_classes(tables: Mapping[str, Options], jars: str) -> Iterator[str]:
    """Yield a message for each option that names a class of Kafka by a name that Flink's connector does not have.

    Flink would find that out at each start, on the workers.

    Parameters
    ----------
    tables : options by field
    jars : those of the configuration; with Kafka's own client among them, its classes have their own names
    """
    for field, options in tables.items() if "kafka-clients" not in jars else ():
        for name, value in options.items() if options.get("connector") in KAFKA else ():
            if name.startswith("properties.") and (named := _OF_KAFKA.search(value)):
                yield (
                    f"{field}: '{name}' names a class of Kafka, which {_KAFKA_JAR} has as {_SHADED}{named[0]}; give "
                    "that name. With the connector that is no SQL connector, name the jar of kafka-clients in "
                    "flink.pipeline.jars (docs/how-to/deploy.md#sasl-and-tls)"
                )


def in_transactions(options: Options) -> bool:
    """Return whether a sink is one of Kafka that writes in transactions."""
    return options.get("connector") in KAFKA and options.get("sink.delivery-guarantee", "").lower() == "exactly-once"


def with_timeout(options: Options) -> dict[str, str]:
    """Return the options of a sink, with a default timeout for Kafka transactions."""
    return ({TIMEOUT: str(ALLOWED)} if in_transactions(options) else {}) | dict(options)


def with_utc(options: Options) -> dict[str, str]:
    """Return the options of a sink, by which files of Parquet hold timestamps in UTC.

    Flink's defaults shift them by the offset of the machine's zone, and those before 1970 by a second.
    """
    return (_PARQUET if options.get("format") == "parquet" else {}) | dict(options)


def is_rest(options: Options) -> bool:
    """Return whether a table of Iceberg has a catalog that is REST, by its type or by the name of its class."""
    return options.get("catalog-type", "").lower() == "rest" or options.get("catalog-impl", "").endswith("RESTCatalog")


def locations(options: Options) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the places where a table keeps its records, each with the option that names it.

    A place is a root and the names below it: a folder begins with each folder that contains it.
    """
    connector, known = options.get("connector", ""), True
    if connector in KAFKA:
        names = {"topic": _split(options, "topic", ";"), "topic-pattern": [options.get("topic-pattern", "")]}
        for option, server in product(names, _split(options, SERVERS)):
            yield from ((option, (f"{option}:", server, name)) for name in names[option] if name)
    elif connector == "jdbc" and options.get("table-name"):
        url = options.get("url", "").partition("?")[0].rstrip("/")
        yield "table-name", ("table:", url, options["table-name"].casefold())
    elif connector == "iceberg" and options.get("catalog-table"):
        database, table = options.get("catalog-database", "default"), options["catalog-table"]
        for lake in _lakes(options):
            yield "catalog-table", ("table:", *lake, database, table.casefold())
        yield from _in_warehouse(options, "warehouse", database, table)
    elif (parts := split_path(options.get(TABLE, ""))) is not None:
        yield from _in_warehouse(options, TABLE, *parts[1:])
        if "warehouse" not in options:
            yield TABLE, ("table:", connector, *parts)
    else:
        known = False
    yield from ((option, locate(options[option])) for option in ("path", "table-path") if options.get(option))
    if options and not known:
        yield "connector", ("options:", repr(sorted(options.items())))


def _in_warehouse(options: Options, option: str, database: str, table: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    # A table without a name gets the name of its sink, which is unique.
    if options.get("warehouse"):
        is_plain = options.get("connector") == "iceberg" and options.get("catalog-type", "").lower() == "hadoop"
        yield option, (*locate(options["warehouse"]), database if is_plain else f"{database}.db", table)


def _lakes(options: Options) -> Iterator[tuple[str, ...]]:
    """Yield what identifies the catalog of a table of Iceberg: addresses, warehouse, or else its name."""
    warehouse = locate(options["warehouse"]) if options.get("warehouse") else ()
    addresses = _split(options, "uri")
    yield from ((address, *(warehouse if is_rest(options) else ())) for address in addresses)
    if warehouse or not addresses:
        yield warehouse or (options.get("catalog-name", ""),)


def _split(options: Options, name: str, sign: str = ",") -> list[str]:
    """Return the parts of an option; those of a list of addresses in one spelling."""
    parts = [part.strip() for part in options.get(name, "").split(sign) if part.strip()]
    return [part.rstrip("/").lower() for part in parts] if sign == "," else parts
