"""Stopped, moved, killed and changed: what a job publishes is what it would have published anyway."""

from __future__ import annotations

import json
import os
import random
import time
from datetime import datetime, timezone
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import crenel
from tests.support.cluster import PYTHON, Cluster, job_id, restored, with_settings
from tests.support.launch import Host, rows_of
from tests.support.people import AUDIT, RELEASED, ROWS, configure, persons, published, raw_values, rows_in_order, write
from tests.support.programs import LINK, require_same_rows
from tests.support.visits import SUPPRESSED

pytestmark = pytest.mark.cluster

SLOW = 2500  # rows a second
ROCKSDB = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": True,
    "execution.checkpointing.unaligned.enabled": True,
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of tuples; people come back, and their names and numbers are strings that a search can find."""
    return write(tmp_path_factory.mktemp("people"), persons())


def require_chained(mini: Host, configuration: Path) -> None:
    """``crenel verify`` finds all that was published good, and its releases tell that shards were restored."""
    plain = configuration.with_name("verified.yaml")  # without the function that only the cluster has
    plain.write_text(configuration.read_text(encoding="utf-8").replace("paced(id) AS id", "id"), encoding="utf-8")
    result = mini.crenel("verify", plain, "--json")
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert [check for check in checks.values() if check["findings"]] == []
    assert {checks[name]["outcome"] for name in ("chain", "starts", "values", "end")} == {"holds"}
    audit = rows_of(configuration.parent / "out" / "audit", [*AUDIT, *LINK])
    assert len({row["chain_start"] for row in audit}) > 1


def test_killed_at_random_stopped_and_restored_at_another_parallelism_and_back(
    cluster: Cluster, mini: Host, people: Path, tmp_path: Path
) -> None:
    chance = random.Random(os.environ.get("CRENEL_TEST_SEED"))
    configuration = configure(people, tmp_path / "killed", way="nearest by regions")
    job = cluster.submit(configuration, ROCKSDB, rate=SLOW // 5)
    for part in ("worker", "taskmanager"):
        kill(cluster, job, part, chance)
    cluster.wait_for_checkpoint(job)
    require_incremental_and_unaligned(cluster, job)
    savepoint = cluster.stop_job(job, tmp_path / "savepoints")
    assert raw_values(savepoint) == []

    # In the words of the documentation, and from here on with Flink's own state backend.
    where = ("-py", "tests/support/paced.py", "--config", configuration)
    before = published(configuration.parent)["released"]
    run = ("run", "-d", "-p", "2", "-s", savepoint)
    job = job_id(succeeded(cluster.flink(*run, *PYTHON, *where, CRENEL_TEST_RATE=str(SLOW // 4))))
    kill(cluster, job, "worker", chance)
    cluster.wait(lambda: published(configuration.parent)["released"] != before, "release after the restore")
    stopped = succeeded(cluster.flink("stop", "--type", "canonical", "--savepointPath", tmp_path / "savepoints", job))
    savepoint = Path(stopped.stdout.split("Savepoint completed. Path: ")[1].split()[0].removeprefix("file:"))
    assert raw_values(savepoint) == []

    stopped_at = len(published(configuration.parent)["released"])
    cluster.wait_for_end(cluster.submit(configuration, restored(savepoint)))
    uninterrupted = crenel.anonymize(rows_in_order(people), crenel.load(configuration))
    assert 0 < stopped_at < uninterrupted.released.num_rows  # in the middle
    assert uninterrupted.released.num_rows > 0.9 * ROWS
    assert uninterrupted.released.num_rows + uninterrupted.suppressed.num_rows == ROWS
    assert len(set(uninterrupted.released["id"].to_pylist())) == uninterrupted.released.num_rows
    require_same_rows(configuration.parent / "out" / "released", uninterrupted.released)
    require_same_rows(configuration.parent / "out" / "audit", uninterrupted.audit, LINK)
    require_same_rows(configuration.parent / "out" / "suppressed", uninterrupted.suppressed)
    require_chained(mini, configuration)


def kill(cluster: Cluster, job: str, part: str, chance: random.Random) -> None:
    """``kill -9`` of a Python worker, or of the TaskManager with all that it started, somewhere behind a checkpoint."""
    cluster.wait_for_checkpoint(job)
    before = cluster.restored(job)
    time.sleep(chance.uniform(0, 1.5))
    if part == "worker":
        cluster.wait(cluster.kill_worker, "Python worker")
    else:
        cluster.kill_taskmanager()
        cluster.start_taskmanager()
    cluster.wait(lambda: cluster.restored(job) > before or cluster.state(job) == "FINISHED", "restart")
    assert cluster.state(job) != "FINISHED"  # it happened in the middle


def require_incremental_and_unaligned(cluster: Cluster, job: str) -> None:
    """Checkpoints of a job have left out state that earlier ones hold, and have held blocks in flight."""
    history = cluster.get(f"/jobs/{job}/checkpoints")["history"]
    assert any(0 < found["checkpointed_size"] < found["state_size"] for found in history)
    assert any(found["persisted_data"] > 0 for found in history)


def succeeded(done: CompletedProcess[str]) -> CompletedProcess[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_two_stages_are_killed_and_restored_at_another_parallelism_and_publish_what_a_program_does(
    cluster: Cluster, mini: Host, people: Path, tmp_path: Path
) -> None:
    configuration = configure(people, tmp_path, way="cells")
    regions = (tmp_path / "regions.yaml").read_text(encoding="utf-8").replace("version: 1", "version: 1\nepsilon: 0")
    (tmp_path / "cells.yaml").write_text(regions, encoding="utf-8")
    text = configuration.read_text(encoding="utf-8")
    for old, new in (
        ("subject: person", "subject: person\n  event_time: seen"),
        ("  passthrough: [id]\n", ""),
        ("SELECT paced(id) AS id, person, name", "SELECT TO_TIMESTAMP_LTZ(paced(id) * 10, 3) AS seen, person, name"),
    ):
        assert old in text
        text = text.replace(old, new)
    configuration.write_text(text, encoding="utf-8")
    job = cluster.submit(configuration, ROCKSDB, rate=SLOW // 3)
    kill(cluster, job, "worker", random.Random(os.environ.get("CRENEL_TEST_SEED")))
    cluster.wait_for_checkpoint(job)
    savepoint = cluster.stop_job(job, tmp_path / "savepoints")
    assert raw_values(savepoint) == []
    assert published(tmp_path)["released"] == []
    cluster.wait_for_end(cluster.submit(configuration, restored(savepoint) | {"parallelism.default": "2"}))

    table = rows_in_order(people)
    times = [datetime.fromtimestamp(number / 100, timezone.utc) for number in table["id"].to_pylist()]
    program = crenel.anonymize(table.drop_columns("id").append_column("seen", [times]), crenel.load(configuration))
    require_same_rows(tmp_path / "out" / "released", program.released)
    assert program.released.num_rows > ROWS / 10


def test_a_later_version_goes_on_from_a_savepoint(cluster: Cluster, mini: Host, people: Path, tmp_path: Path) -> None:
    job = cluster.submit(configure(people, tmp_path, ["released", "suppressed"]), rate=SLOW)
    cluster.wait(lambda: bool(published(tmp_path)["released"]), "release")
    savepoint = cluster.stop_job(job, tmp_path / "savepoints")
    before = published(tmp_path)

    # One more output in the job, before all others; one more sink and one more column that is passed through in the
    # configuration; and a larger k.
    later = configure(people, tmp_path)
    text = (
        later.read_text(encoding="utf-8")
        .replace("k: 8", "k: 12")
        .replace("passthrough: [id]", "passthrough: [note, id]")
    )
    later.write_text(text.replace("illness FROM", "illness, 'n-' || CAST(id AS STRING) AS note FROM"), encoding="utf-8")
    assert fits(mini, later, savepoint) == (0, True)
    cluster.wait_for_end(cluster.submit(later, restored(savepoint), CRENEL_TEST_VERSION="2"))
    rows = [line.split(",") for line in published(tmp_path)["released"]]
    ids = [int(row[-1]) for row in rows]
    assert len(ids) == len(set(ids))
    assert len(ids) + len(published(tmp_path)["suppressed"]) == ROWS
    noted = {int(row[-1]): row[-2] for row in rows if len(row) > len(RELEASED)}
    waited = sorted(number for number, note in noted.items() if not note)
    assert all(note in ("", f"n-{number}") for number, note in noted.items())
    assert 0 < len(waited) < len(noted)
    assert max(waited) < min(noted.keys() - set(waited))  # those that had come before the savepoint, and no other
    audit = [row for row in rows_of(tmp_path / "out" / "audit", [*AUDIT, *LINK]) if row["kind"] != "closing"]
    assert sum(int(row["tuples"]) for row in audit) == len(ids) - len(before["released"])
    assert min(int(row["subjects"]) for row in audit) >= 12

    # The check reports fields that cannot change, and so does the start, which submits nothing.
    wider = later.with_name("wider.yaml")
    wider.write_text(later.read_text(encoding="utf-8").replace("[0, 99]", "[0, 120]"), encoding="utf-8")
    assert fits(mini, wider, savepoint) == (2, False)
    committed = published(tmp_path)
    refused = cluster.ask("paced", "--config", wider, *with_settings(wider, restored(savepoint)))
    assert refused.returncode == 2
    assert "policy.quasi_identifiers.age.domain: has changed since the state was stored" in refused.stderr
    assert "was submitted" not in refused.stdout

    # Where the client cannot read the state, the job ends for good before it publishes anything.
    (savepoint / "compressed").write_bytes(b"\xff\x06\x00\x00sNaPpY")
    job = cluster.submit(wider, restored(savepoint))
    cluster.wait_for_failure(job)
    (failure,) = cluster.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
    assert "IllegalStateException: restore the state under the policy it was made with" in failure["stacktrace"]
    assert "policy.quasi_identifiers.age.domain" in failure["stacktrace"]
    assert cluster.restored(job) == 1
    assert published(tmp_path) == committed


EARLY = 2000


def left_early(output: Path) -> list[int]:
    """Return the first tuples that were published or suppressed, by number; event time is as many seconds."""
    released = [int(row["id"]) for row in rows_of(output / "out" / "released", RELEASED)]
    times = [row["event_time"] for row in rows_of(output / "out" / "suppressed", SUPPRESSED)]
    withheld = [int(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()) for time in times]
    return sorted(number for number in released + withheld if number < EARLY)


def test_quiet_shards_release_at_once_what_a_shorter_event_time_delay_has_made_overdue(
    cluster: Cluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # After the first rows all tuples are one person's, so that all shards but one get none any more.
    people = write(tmp_path_factory.mktemp("early"), [*range(EARLY), *[0] * 300_000])
    configuration = configure(people, tmp_path)
    text = configuration.read_text(encoding="utf-8")
    for old, new in (
        ("subject: person", "subject: person\n  event_time: seen"),
        ("{tuples: 2000}", "{event_time: 300 d}"),
        ("FROM source", ", seen FROM source"),
        (
            "town STRING, illness STRING",
            "town STRING, illness STRING, seen AS TO_TIMESTAMP_LTZ(id * 1000, 3), "
            "WATERMARK FOR seen AS seen - INTERVAL '5' SECOND",
        ),
    ):
        assert old in text
        text = text.replace(old, new)
    configuration.write_text(text, encoding="utf-8")
    job = cluster.submit(configuration, rate=SLOW)
    cluster.wait(lambda: cluster.rows_read(job) > 2 * EARLY, "rows")
    savepoint = cluster.stop_job(job, tmp_path / "savepoints")
    assert not any(published(tmp_path).values())

    configuration.write_text(text.replace("300 d", "10 s"), encoding="utf-8")
    checkpoints = {"execution.checkpointing.dir": (tmp_path / "checkpoints").as_uri()}
    job = cluster.submit(configuration, restored(savepoint) | checkpoints, rate=SLOW // 2)
    cluster.wait(lambda: left_early(tmp_path) == list(range(EARLY)), "release of what is overdue", 150)
    assert cluster.state(job) == "RUNNING"  # not the end of the input
    cluster.cancel(job)
    # The last checkpoint, which a canceled job leaves, holds all buffered tuples.
    assert list((tmp_path / "checkpoints" / job).glob("chk-*/_metadata"))


def fits(mini: Host, configuration: Path, savepoint: Path) -> tuple[int, bool]:
    """Return the exit code of ``crenel check --against``, and whether it named nothing that cannot change."""
    text = configuration.read_text(encoding="utf-8").replace("paced(id) AS id", "id")  # it knows no function of ours
    plain = configuration.with_name("plain.yaml")
    plain.write_text(text, encoding="utf-8")
    done = mini.crenel("check", plain, "--against", savepoint)
    return done.returncode, "policy.quasi_identifiers.age.domain" not in done.stdout + done.stderr
