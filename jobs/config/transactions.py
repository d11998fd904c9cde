"""Timeouts of Kafka sink transactions, which must exceed the checkpoint interval and respect the broker's maximum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

TIMEOUT = "properties.transaction.timeout.ms"

ALLOWED = 900_000
"""Milliseconds that a broker allows by default (``transaction.max.timeout.ms``).

Flink's default is four times that, which such a broker refuses at each start.
"""

_CHECKPOINT = 60_000
"""Milliseconds to allow for a checkpoint and a preceding restart, beyond the checkpoint interval."""

_LARGEST = 2**31 - 1


def in_transactions(options: Mapping[str, str]) -> bool:
    """Return whether a Kafka sink with these options writes in transactions."""
    return options.get("sink.delivery-guarantee", "").lower() == "exactly-once"


def with_timeout(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a sink, with a default timeout for Kafka transactions."""
    default = {TIMEOUT: str(ALLOWED)} if _kafka(options) and in_transactions(options) else {}
    return default | dict(options)


def unfit_timeouts(sinks: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield problems of the timeouts of sinks; ``sinks``: options of the connector by output."""
    for name, options in sinks.items():
        if _kafka(options) and TIMEOUT in options and _milliseconds(options) is None:
            yield (
                f"sinks.{name}.{TIMEOUT}: is not a whole number of milliseconds above 0; {ALLOWED}, which brokers "
                "allow by default, or leave it out"
            )


def cautions_of_timeouts(sinks: Mapping[str, Mapping[str, str]], interval: int) -> Iterator[str]:
    """Yield warnings about the timeouts before a job starts, each with its field.

    Parameters
    ----------
    sinks : options of the connector by output
    interval : milliseconds between two checkpoints
    """
    for name, options in sinks.items():
        timeout = _milliseconds(options) if _kafka(options) and in_transactions(options) else None
        if timeout is None:
            continue
        if timeout > ALLOWED:
            yield (
                f"sinks.{name}.{TIMEOUT}: is more than the {ALLOWED} ms that Kafka's brokers allow by default. Where "
                "transaction.max.timeout.ms of the broker is less, the job never comes to work, and is started again "
                "for ever"
            )
        if timeout < interval + _CHECKPOINT:
            yield (
                f"sinks.{name}.{TIMEOUT}: is {timeout} ms, and a transaction is open from one checkpoint to the end of "
                f"the next, with execution.checkpointing.interval at {interval} ms. Kafka takes back what is open for "
                f"longer; give {interval + _CHECKPOINT} or more, and no less than the longest outage of the job"
            )


def _kafka(options: Mapping[str, str]) -> bool:
    return options.get("connector") in ("kafka", "upsert-kafka")


def _milliseconds(options: Mapping[str, str]) -> int | None:
    text = options.get(TIMEOUT, "").strip()
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text) <= _LARGEST else None
