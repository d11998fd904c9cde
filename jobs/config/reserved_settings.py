"""Flink settings that users must not change, because stored state depends on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

MAX_PARALLELISM = 128
"""Number of key groups of every job; it never changes, or savepoints could not be restored at another parallelism."""

FIXED: Mapping[str, str] = {"pipeline.max-parallelism": str(MAX_PARALLELISM)}


def overridden(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield problems of settings, from the configuration, from ``flink run -D`` or from the cluster's file."""
    for name, value in FIXED.items():
        if name in settings and settings[name].strip() != value:
            yield (
                f"flink.{name}: is {value} in every job, as the keys of shards are chosen for so many key groups, and "
                "stored state lies under them; leave it out"
            )
