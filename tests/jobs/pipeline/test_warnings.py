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


def test_a_setting_that_flink_does_not_know_is_told_with_what_was_meant() -> None:
    intended = {
        "execution.checkpointng.interval": "execution.checkpointing.interval",
        "excution.checkpointing.mode": "execution.checkpointing.mode",
        "table.exec.source.idle-timout": "table.exec.source.idle-timeout",
        "python.fn-execution.bundletime": "python.fn-execution.bundle.time",
    }
    warnings = list(unknown_settings([*KNOWN, *intended, "nonsense"]))
    assert warnings[-1].startswith("flink.nonsense: is no setting of this Flink's, and")
    for warning, (name, meant) in zip(warnings[:-1], intended.items(), strict=True):
        assert warning.startswith(f"flink.{name}: is no setting of this Flink's (did you mean {meant!r}?)")
