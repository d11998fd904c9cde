"""No process of a cluster of one machine listens where another machine could connect, but for its metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import Cluster, job_id
from tests.support.listening import CHANNELS, JOB, KEY, seen

TEXT = JOB


@pytest.mark.cluster
def test_a_cluster_of_one_machine_listens_on_loopback_alone_but_for_its_metrics(cluster: Cluster, path: Path) -> None:
    submitted = cluster.ask("anonymize", "--config", path, LISTENING_KEY=KEY)
    assert submitted.returncode == 0, submitted.stderr
    job = job_id(submitted)
    found, commands = seen(cluster.processes, lambda: cluster.state(job) in ("FINISHED", "FAILED"))
    cluster.wait_for_end(job)
    assert len(found) > CHANNELS
    # The reporter for Prometheus has no setting for its address: the table of ports in docs/reference/security.md.
    others = [socket for socket in found if not socket.is_loopback]
    assert [socket for socket in others if socket.port not in cluster.reporters] == []
    assert others
    assert [line for line in commands if KEY in line] == []
