"""Settings of Flink that are the job's own: its state would be lost, or lie elsewhere, under others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

MAX_PARALLELISM = 128
"""Key groups of the job: fixed from the first day, or no savepoint could be restored at another parallelism."""

FIXED: Mapping[str, str] = {"pipeline.max-parallelism": str(MAX_PARALLELISM)}


def overridden(settings: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with settings, be they of the configuration, of ``flink run -D`` or of the cluster's file."""
    for name, value in FIXED.items():
        if name in settings and settings[name].strip() != value:
            yield (
                f"flink.{name}: is {value} in every job, as the keys of shards are chosen for so many key groups, and "
                "stored state lies under them; leave it out"
            )
