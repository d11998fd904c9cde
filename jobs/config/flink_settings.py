"""Checks of Flink settings, from the configuration, from ``flink run -D`` or from the cluster's file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlparse

from crenel.jobs.config.delivery import OR_ACCEPT_SINK, TWICE

MAX_PARALLELISM = 128
"""Number of key groups of every job; it never changes, or savepoints could not be restored at another parallelism."""

FIXED: Mapping[str, str] = {"pipeline.max-parallelism": str(MAX_PARALLELISM)}
"""Settings that a configuration must not change, because stored state depends on them."""

ZONE = "table.local-time-zone"

UTC = ("UTC", "Etc/UTC", "GMT", "Z")
"""Names of UTC as the value of ``ZONE``."""

INTERVAL = "execution.checkpointing.interval"
_AFTER_END = "execution.checkpointing.checkpoints-after-tasks-finish"
CHECKPOINTING: Mapping[str, tuple[str, str]] = {
    "execution.checkpointing.mode": ("EXACTLY_ONCE", "EXACTLY_ONCE"),
    # Zero in any unit is no interval: Flink then takes no checkpoints.
    INTERVAL: (".*[1-9].*", "more than zero, as '30 s'"),
    _AFTER_END: ("true", "true"),
    f"{_AFTER_END}.enabled": ("true", "true"),
    "execution.runtime-mode": ("STREAMING", "STREAMING"),
}
"""Flink settings that exactly-once publication requires: a pattern of the value, and a valid value."""

CHECKPOINTS = ("execution.checkpointing.dir", "state.checkpoints.dir", "execution.checkpointing.storage")
"""Flink settings for the location of checkpoints, current names first."""

FOLDERS = (*CHECKPOINTS[:2], "execution.checkpointing.savepoint-dir", "state.savepoints.dir")
"""Settings of Flink that name a folder for state."""

STATE = ("execution.state-recovery.path", "execution.savepoint.path")
"""Flink settings for the state that a job resumes from, current name first; ``flink run -s`` sets it."""


def overridden(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each setting that differs from its fixed value."""
    for name, value in FIXED.items():
        if name in settings and settings[name].strip() != value:
            yield (
                f"flink.{name}: is {value} in every job, as the keys of shards are chosen for so many key groups, and "
                "stored state lies under them; leave it out"
            )


def without_scheme(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each folder for state without a scheme."""
    for name in FOLDERS:
        if name in settings and not urlparse(settings[name]).scheme:
            yield (
                f"flink.{name}: has no scheme, and Flink takes no folder for state without one; such as "
                "file:///shared/checkpoints or s3://bucket/checkpoints"
            )


def repeating_settings(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield problems of Flink settings under which even an exactly-once sink may publish a record twice."""
    for name, (pattern, valid) in CHECKPOINTING.items():
        if name in settings and not re.fullmatch(pattern, settings[name], re.IGNORECASE | re.DOTALL):
            yield f"flink.{name}: no longer lets sinks publish once, so {TWICE}; {valid}, {OR_ACCEPT_SINK}"
