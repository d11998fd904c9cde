"""Settings that Flink does not know."""

from __future__ import annotations

from crenel.jobs.local.run import LOCAL
from crenel.jobs.pipeline.environment import DEFAULTS, LOOPBACK
from crenel.jobs.pipeline.warnings import unknown_settings

KNOWN = (
    *DEFAULTS,
    *LOCAL,
    *LOOPBACK,
    "execution.savepoint.path",
    "state.checkpoints.dir",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
    "table.exec.source.idle-timeout",
    "table.optimizer.bushy-join-reorder-threshold",
    "python.fn-execution.bundle.time",
    "state.backend.rocksdb.memory.managed",
    "state.backend.rocksdb.metrics.block-cache-usage",
    "high-availability.storageDir",
    "taskmanager.numberOfTaskSlots",
    "taskmanager.memory.jvm-metaspace.size",
    "restart-strategy.fixed-delay.attempts",
    "pipeline.global-job-parameters.mine",
    "metrics.reporter.prom.port",
    "s3.access-key",
    "kubernetes.operator.savepoint.history.max.age",
)


def test_settings_of_flink_are_known() -> None:
    assert list(unknown_settings(KNOWN)) == []


def test_a_setting_that_flink_does_not_know_is_told() -> None:
    misspelled = (
        "execution.checkpointng.interval",
        "excution.checkpointing.mode",
        "table.exec.source.idle-timout",
        "python.fn-execution.bundletime",
        "nonsense",
    )
    found = list(unknown_settings([*KNOWN, *misspelled]))
    assert [warning.partition(": is no setting of this version of Flink")[0] for warning in found] == [
        f"flink.{name}" for name in misspelled
    ]
