"""Whether what a job publishes is published once.

A record that leaves twice leaves under two generalisations, and whoever sees both can intersect them (design, "What
always holds", 7). After a failure Flink replays its input, so what had left by then must not be visible yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

_ONCE = ("filesystem", "hive", "iceberg", "paimon", "blackhole")
"""Connectors that publish when a checkpoint is complete, or nothing at all."""

_OF_RECORDS = ("released", "audit", "suppressed", "rejected")
"""Outputs that speak of single records, or tell a generalisation; a summary, repairs and windows do not."""

_TWICE = "after a failure a record may leave twice, and its two generalisations can be intersected"
_OR_ACCEPT = "or accept that with 'accept_duplicates: true'"

CHECKPOINTING: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "execution.checkpointing.mode": (lambda mode: mode.upper() == "EXACTLY_ONCE", "EXACTLY_ONCE"),
    # No digit but zeros is no time, in whatever unit: Flink then takes no checkpoints.
    "execution.checkpointing.interval": (
        lambda text: re.search("[1-9]", text) is not None,
        "more than zero, as '30 s'",
    ),
    "execution.checkpointing.checkpoints-after-tasks-finish": (lambda value: value.lower() == "true", "true"),
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": (lambda value: value.lower() == "true", "true"),
    "execution.runtime-mode": (lambda mode: mode.upper() == "STREAMING", "STREAMING"),
}
"""Settings of Flink without which nothing is published once: which values keep that, and what would be valid."""


CHECKPOINTS = ("execution.checkpointing.dir", "state.checkpoints.dir", "execution.checkpointing.storage")
"""Settings of Flink that say where checkpoints are kept, by the present name first."""


def repeating_sinks(sinks: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """What is wrong with sinks that may publish a record twice; ``sinks``: options of the connector by output."""
    for name in _OF_RECORDS:
        options = sinks.get(name)
        if options is None or options["connector"] in _ONCE:
            continue
        if options["connector"] != "kafka":
            yield (
                f"sinks.{name}.connector: is not known to be exactly-once, so {_TWICE}; one of {', '.join(_ONCE)}, or "
                f"kafka with 'sink.delivery-guarantee: exactly-once', {_OR_ACCEPT}"
            )
        elif options.get("sink.delivery-guarantee", "").lower() != "exactly-once":
            yield f"sinks.{name}.sink.delivery-guarantee: is not exactly-once, so {_TWICE}; exactly-once, {_OR_ACCEPT}"
        elif not options.get("sink.transactional-id-prefix"):
            yield (
                f"sinks.{name}.sink.transactional-id-prefix: is missing, and Kafka has no exactly-once without it; "
                "text that no other sink and no other job uses"
            )


def repeating_settings(settings: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with settings of Flink under which even an exactly-once sink may publish a record twice."""
    for name, (keeps, valid) in CHECKPOINTING.items():
        if name in settings and not keeps(settings[name]):
            yield f"flink.{name}: no longer lets sinks publish once, so {_TWICE}; {valid}, {_OR_ACCEPT}"
