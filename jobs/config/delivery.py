"""Checks for exactly-once publication.

A record published twice has two generalizations, and an attacker who sees both can intersect them (design, "What always
holds", 7). After a failure Flink replays its input, so rows published since the last checkpoint must not be visible
yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from crenel.jobs.config.catalogs import TABLE
from crenel.jobs.config.explain import suggestion
from crenel.jobs.config.kafka import in_transactions

_ONCE = ("filesystem", "hive", "iceberg", "paimon", "blackhole")
"""Connectors that publish when a checkpoint is complete, or nothing at all."""

_REPLAYED: Mapping[str, str] = {
    "filesystem": "its checkpoints hold how far each file was read",
    "hive": "reads files as filesystem does",
    "iceberg": "its checkpoints hold snapshots and places in files",
    "paimon": "its checkpoints hold snapshots and places in files",
    "kafka": "its checkpoints hold the offset of each partition",
    "datagen": "makes its rows up: a sequence goes on where it was, and a random row is a new one",
}
"""Connectors that resume exactly behind the checkpoint, and the reason.

Excluded are connectors without a position to resume from (sockets, JDBC queries, which are read again from their
beginning). Also excluded are queues that redeliver a message until it is acknowledged.
"""

_CHANGES = "gives rows that are updated or deleted later, and what has left cannot be taken back"
_AS_ROWS = "read the changes as rows that are only added, with the connector kafka and a format such as json or raw"

CHANGES = {
    "source.ddl": f"{_CHANGES}; {_AS_ROWS}, and not debezium-json, or in source.query with SELECT ... FROM "
    "TO_CHANGELOG(input => TABLE source)",
    "source.query": f"{_CHANGES}; a SELECT that only adds rows, without GROUP BY, DISTINCT, or a join of all that came",
}
"""Why updating or deleting sources cannot be read, with the remedy, by the field of the query."""

_OF_CHANGES = ("upsert-kafka", "-cdc")
"""Names or suffixes of connectors that update or delete earlier rows."""

OF_RECORDS = ("released", "audit", "suppressed", "rejected")
"""Outputs that describe single records, or contain generalizations; the summary and an algorithm's own do not."""

_PREFIX = "sink.transactional-id-prefix"

_SCAN = re.compile(r"\bTableSourceScan\(table=\[\[([^],]+), ([^],]+), ([^],]+)[],]")
"""Matches catalog, database and name of a table that a plan of Flink reads whole."""

TWICE = "after a failure a record may leave twice, and its two generalizations can be intersected"
OR_ACCEPT = "or accept that with 'accept_duplicates: true'"


def repeating_sinks(sinks: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a message for each sink that may publish a record twice; ``sinks``: options of the connector by output."""
    for name in OF_RECORDS:
        options = sinks.get(name)
        if options is None:
            continue
        if options["connector"] == "iceberg" and _through_rest(options):
            place = f"catalogs.{options[TABLE].partition('.')[0]}" if TABLE in options else f"sinks.{name}"
            yield (
                f"{place}.catalog-type: Iceberg may commit the same files twice on recovery where its catalog "
                f"is REST (apache/iceberg 14425), so {TWICE}; hive, hadoop or jdbc, {OR_ACCEPT}"
            )
        elif options["connector"] in _ONCE:
            continue
        elif options["connector"] != "kafka":
            similar = suggestion(options["connector"], (*_ONCE, "kafka"))
            place = f"sinks.{name}.{TABLE if TABLE in options and options['connector'] else 'connector'}"
            yield (
                f"{place}: is not known to be exactly-once{similar}, so {TWICE}; one of {', '.join(_ONCE)}, or kafka "
                f"with 'sink.delivery-guarantee: exactly-once', {OR_ACCEPT}"
            )
        elif not in_transactions(options):
            yield f"sinks.{name}.sink.delivery-guarantee: is not exactly-once, so {TWICE}; exactly-once, {OR_ACCEPT}"
        elif not options.get(_PREFIX):
            yield (
                f"sinks.{name}.{_PREFIX}: is missing, and Kafka has no exactly-once without it; "
                "text that no other sink and no other job uses"
            )


def clashing_sinks(sinks: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield problems with the transactions of Kafka sinks, even with duplicates accepted; ``sinks`` as above."""
    first: dict[str, str] = {}
    for name, options in sinks.items():
        if options["connector"] not in ("kafka", "upsert-kafka") or not in_transactions(options):
            continue
        if options.get("sink.transaction-naming-strategy", "").upper() == "POOLING":
            yield (
                f"sinks.{name}.sink.transaction-naming-strategy: POOLING may leave a transaction open after a "
                "recovery, which blocks consumers of the topic with read_committed until it times out; INCREMENTING, "
                "or leave it out"
            )
        prefix = options.get(_PREFIX)
        if prefix and first.setdefault(prefix, name) != name:
            yield (
                f"sinks.{name}.{_PREFIX}: is that of sinks.{first[prefix]}, and each would abort the other's "
                "transactions; text that no other sink and no other job uses"
            )


def _through_rest(options: Mapping[str, str]) -> bool:
    # The catalog is named by type, or by the name of its class.
    return options.get("catalog-type", "").lower() == "rest" or options.get("catalog-impl", "").endswith("RESTCatalog")


def repeating_scans(explain: Callable[[], str], catalogs: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a problem for each table of a catalog that a query reads whole, and reads again after a failure.

    A join keeps the rows that it has read before the failure, and would find each partner twice. A lookup join asks the
    table for the partners of each row, and keeps nothing.

    Parameters
    ----------
    explain : return Flink's plan of the query; called only where a catalog has such tables
    catalogs : options by name
    """
    repeated = {name for name, options in catalogs.items() if options["type"] not in _REPLAYED}
    for parts in dict.fromkeys(_SCAN.findall(explain())) if repeated else ():
        if parts[0] in repeated:
            yield (
                f"source.query: a restart reads all rows of {'.'.join(parts)} again, so {TWICE}; look up each row with "
                f"JOIN ... FOR SYSTEM_TIME AS OF (docs/how-to/lakehouse.md#join-a-table-of-a-database), {OR_ACCEPT}"
            )


def repeating_source(options: Mapping[str, str] | None, field: str = "source.ddl") -> Iterator[str]:
    """Yield problems of a source that may deliver a row twice.

    Parameters
    ----------
    options : of the table ``source``; None where the DDL creates no such table, or a view
    field : that names the table
    """
    if options is None:
        yield (
            f"source.ddl: creates no table 'source', so nothing is known of its connector, and {TWICE}; write CREATE "
            f"TEMPORARY TABLE source (...) WITH (...), {OR_ACCEPT}"
        )
    elif options.get("connector", "").endswith(_OF_CHANGES):
        yield f"source.ddl: {_CHANGES}; {_AS_ROWS}"
    elif options.get("connector", "") not in _REPLAYED:
        yield (
            f"{field}: the connector is not known to go on exactly where a checkpoint was, so {TWICE}; one of "
            f"{', '.join(_REPLAYED)}, {OR_ACCEPT}"
        )
