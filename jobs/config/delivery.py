"""Checks for exactly-once publication.

A record published twice has two generalizations, and an attacker who sees both can intersect them. After a failure
Flink replays its input, so rows published since the last checkpoint must not be visible yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from crenel.anonymity.model.explain import suggestion
from crenel.jobs.config.catalogs import TABLE
from crenel.jobs.config.connectors import (
    ALLOWED,
    KAFKA,
    PREFIX,
    PUBLISHES_ONCE,
    REPLAYS,
    TIMEOUT,
    Options,
    in_transactions,
    is_rest,
)
from crenel.operators.output_columns import RECORD_OUTPUTS

_CHANGES = "gives rows that are updated or deleted later, and what has left cannot be taken back"
_AS_ROWS = "read the changes as rows that are only added, with the connector kafka and a format such as json or raw"

CHANGES = {
    "source.ddl": f"{_CHANGES}; {_AS_ROWS}, and not debezium-json, or in the source's query with SELECT ... FROM "
    "TO_CHANGELOG(input => TABLE source)",
    "source.query": f"{_CHANGES}; a SELECT that only adds rows, without GROUP BY, DISTINCT, or a join of all that came",
}
"""Why updating or deleting sources cannot be read, with the remedy, by the field of the query."""

_SCAN = re.compile(r"\bTableSourceScan\(table=\[\[([^],]+), ([^],]+), ([^],]+)[],]")
"""Matches catalog, database and name of a table that a plan of Flink reads whole."""

TWICE = "after a failure a record may leave twice, and its two generalizations can be intersected"
OR_ACCEPT = "or accept that with 'accept_duplicates: true'"
OR_ACCEPT_SINK = f"{OR_ACCEPT}, in a program with delivery='caller'"


def repeating_sinks(sinks: Mapping[str, Options]) -> Iterator[str]:
    """Yield a message for each sink that may publish a record twice; ``sinks``: options of the connector by output."""
    for name in RECORD_OUTPUTS:
        options = sinks.get(name)
        if options is None:
            continue
        connector = options["connector"]
        if connector == "iceberg" and is_rest(options):
            place = f"catalogs.{options[TABLE].partition('.')[0]}" if TABLE in options else f"sinks.{name}"
            yield (
                f"{place}.catalog-type: Iceberg may commit the same files twice on recovery where its catalog "
                f"is REST (apache/iceberg 14425), so {TWICE}; hive, hadoop or jdbc, {OR_ACCEPT_SINK}"
            )
        elif connector in PUBLISHES_ONCE:
            continue
        elif connector != "kafka":
            similar = suggestion(connector, (*PUBLISHES_ONCE, "kafka"))
            place = f"sinks.{name}.{TABLE if TABLE in options and connector else 'connector'}"
            yield (
                f"{place}: is not known to be exactly-once{similar}, so {TWICE}; one of {', '.join(PUBLISHES_ONCE)}, "
                f"or kafka with 'sink.delivery-guarantee: exactly-once', {OR_ACCEPT_SINK}"
            )
        elif not in_transactions(options):
            place = f"sinks.{name}.sink.delivery-guarantee"
            yield f"{place}: is not exactly-once, so {TWICE}; exactly-once, {OR_ACCEPT_SINK}"
        elif not options.get(PREFIX):
            yield (
                f"sinks.{name}.{PREFIX}: is missing, and Kafka has no exactly-once without it; "
                "text that no other sink and no other job uses"
            )


def clashing_sinks(sinks: Mapping[str, Options]) -> Iterator[str]:
    """Yield problems with the transactions of Kafka sinks, even with duplicates accepted; ``sinks`` as above."""
    first: dict[str, str] = {}
    for name, options in sinks.items():
        if not in_transactions(options):
            continue
        if options.get("sink.transaction-naming-strategy", "").upper() == "POOLING":
            yield (
                f"sinks.{name}.sink.transaction-naming-strategy: POOLING may leave a transaction open after a "
                "recovery, which blocks consumers of the topic with read_committed until it times out; INCREMENTING, "
                "or leave it out"
            )
        prefix = options.get(PREFIX)
        if prefix and first.setdefault(prefix, name) != name:
            yield (
                f"sinks.{name}.{PREFIX}: is that of sinks.{first[prefix]}, and each would abort the other's "
                "transactions; text that no other sink and no other job uses"
            )


def unfit_timeouts(sinks: Mapping[str, Options]) -> Iterator[str]:
    """Yield problems of the timeouts of transactions; ``sinks`` as above."""
    for name, options in sinks.items():
        if options.get("connector") in KAFKA and milliseconds(options.get(TIMEOUT, "1")) is None:
            yield (
                f"sinks.{name}.{TIMEOUT}: is not a whole number of milliseconds above 0; {ALLOWED}, which brokers "
                "allow by default, or leave it out"
            )


def milliseconds(text: str) -> int | None:
    """Return the timeout that a text gives; None where Kafka reads none."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text) < 2**31 else None


def repeating_scans(explain: Callable[[], str], catalogs: Mapping[str, Options]) -> Iterator[str]:
    """Yield a problem for each table of a catalog that a query reads whole, and reads again after a failure.

    A join keeps the rows that it has read before the failure, and would find each partner twice. A lookup join asks the
    table for the partners of each row, and keeps nothing.

    Parameters
    ----------
    explain : return Flink's plan of the query; called only where a catalog has such tables
    catalogs : options by name
    """
    repeated = {name for name, options in catalogs.items() if options["type"] not in REPLAYS}
    for parts in dict.fromkeys(_SCAN.findall(explain())) if repeated else ():
        if parts[0] in repeated:
            yield (
                f"source.query: a restart reads all rows of {'.'.join(parts)} again, so {TWICE}; look up each row with "
                f"JOIN ... FOR SYSTEM_TIME AS OF (docs/how-to/lakehouse.md#join-a-table-of-a-database), {OR_ACCEPT}"
            )


def repeating_source(options: Options | None, field: str = "source.ddl") -> Iterator[str]:
    """Yield problems of a source that may deliver a row twice.

    Parameters
    ----------
    options : of the table ``source``; None where the DDL creates no such table, or a view
    field : that names the table
    """
    connector = "" if options is None else options.get("connector", "")
    if options is None:
        yield (
            f"source.ddl: creates no table 'source', so nothing is known of its connector, and {TWICE}; write CREATE "
            f"TEMPORARY TABLE source (...) WITH (...), {OR_ACCEPT}"
        )
    elif connector.endswith(("upsert-kafka", "-cdc")):
        yield f"source.ddl: {_CHANGES}; {_AS_ROWS}"
    elif connector not in REPLAYS:
        yield (
            f"{field}: the connector is not known to go on exactly where a checkpoint was, so {TWICE}; one of "
            f"{', '.join(REPLAYS)}, {OR_ACCEPT}"
        )
