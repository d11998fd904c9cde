"""Requests reach a job that runs, and its savepoint holds nothing of whoever is forgotten."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from crenel.jobs.config.load import load
from crenel.operators.encode.forget import code_of
from crenel.operators.encode.hashing import text_codes
from tests.support.cluster import Cluster, restored
from tests.support.launch import Host, rows_of
from tests.support.people import RELEASED, ROWS, configure, published, write

pytestmark = pytest.mark.cluster

RATE = 250  # rows a second: two minutes until the input ends, and all that waits leaves
FORGOTTEN = ("code", "shard", "event_time", "time", "tuples")
LONELY = "subject-099999"  # of whom there is one tuple, early on, that waits for long
FORGET = """
  forget:
    ddl: |
      CREATE TEMPORARY TABLE forget (who STRING)
      WITH ('connector' = 'filesystem', 'path' = 'REQUESTS', 'source.monitor-interval' = '200 ms', 'format' = 'csv')
sinks:"""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = random.Random(5)
    persons = [chance.randrange(ROWS // 3) for _ in range(ROWS)]
    persons[300] = 99_999
    return write(tmp_path_factory.mktemp("crowd"), persons)


def with_requests(crowd: Path, output: Path, *changes: tuple[str, str]) -> Path:
    """Return the configuration of a job that keeps what came for long, and reads requests."""
    configuration = configure(crowd, output, ("released", "suppressed", "forgotten"))
    (output / "requests").mkdir()
    text = configuration.read_text(encoding="utf-8")
    for old, new in (
        ("\nsinks:", FORGET.replace("REQUESTS", str(output / "requests"))),
        ("{tuples: 2000}", "{tuples: 1000000}"),
        *changes,
    ):
        assert old in text
        text = text.replace(old, new)
    configuration.write_text(text, encoding="utf-8")
    return configuration


def plain(configuration: Path) -> Path:
    """Return the same for a command that knows no function of ours."""
    made = configuration.with_name("plain.yaml")
    made.write_text(configuration.read_text(encoding="utf-8").replace("paced(id) AS id", "id"), encoding="utf-8")
    return made


def subject_hash(configuration: Path, who: str) -> np.uint64:
    key = load(configuration).subject_key.hash_key
    return np.uint64(text_codes(np.array([who], object), key, repeated=False)[0])


def holds(savepoint: Path, subject: np.uint64) -> bool:
    contents = [path.read_bytes() for path in savepoint.rglob("*") if path.is_file()]
    assert any(b"CRNL" in content for content in contents)
    pattern = re.escape(np.asarray(subject, "<u8").tobytes())
    return any(re.search(pattern, content) for content in contents)


def test_a_savepoint_holds_nothing_of_a_person_who_was_forgotten(
    cluster: Cluster, mini: Host, crowd: Path, tmp_path: Path
) -> None:
    # By a value, so that the request goes to all shards: tests/operators/test_forget.py holds where it goes.
    configuration = with_requests(crowd, tmp_path / "job", ("{count: 4}", "{count: 4, by: age}"))
    subject = subject_hash(configuration, LONELY)
    job = cluster.submit(configuration, rate=RATE)
    cluster.wait(lambda: cluster.rows_read(job) > 2500, "rows")
    before = cluster.stop_job(job, tmp_path / "savepoints")
    assert holds(before, subject)  # it waited

    job = cluster.submit(configuration, restored(before), rate=RATE)
    done = mini.crenel("forget", plain(configuration), "--subject", LONELY)
    assert done.returncode == 0, done.stderr
    code = code_of(subject, load(configuration).subject_key.hash_key)
    assert code in done.stdout
    assert LONELY not in done.stdout + done.stderr

    def request_records() -> list[dict[str, str]]:
        return rows_of(configuration.parent / "out" / "forgotten", FORGOTTEN)

    cluster.wait(lambda: len(request_records()) == 4, "record of the request")
    after = cluster.stop_job(job, tmp_path / "savepoints")
    assert not holds(after, subject)
    assert {row["code"] for row in request_records()} == {code}
    assert sum(int(row["tuples"]) for row in request_records()) == 1
    assert len({row["shard"] for row in request_records()}) == 4

    # All others are still there, and leave once.
    text = configuration.read_text(encoding="utf-8").replace("'source.monitor-interval' = '200 ms', ", "")
    configuration.write_text(text.replace("{tuples: 1000000}", "{tuples: 2000}"), encoding="utf-8")
    cluster.wait_for_end(cluster.submit(configuration, restored(after)))
    ids = [int(row["id"]) for row in rows_of(configuration.parent / "out" / "released", RELEASED)]
    assert len(ids) == len(set(ids))
    assert 300 not in ids
    assert len(ids) + len(published(configuration.parent, ["suppressed"])["suppressed"]) == ROWS - 1


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "(who STRING)",
            "(who INT)",
            "source.forget.ddl: the column 'who' has the type INT, and policy.subject STRING;",
        ),
        ("(who STRING)", "(who STRING, why STRING)", "source.forget.ddl: gives the columns who, why; it must give one"),
        ("(who STRING)", "(who CHAR(14))", "has the type CHAR(14), and policy.subject STRING; the two must be written"),
    ],
)
def test_requests_that_could_never_meet_a_person_are_refused(
    mini: Host, crowd: Path, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    done = mini.crenel("check", plain(with_requests(crowd, tmp_path / "job", (old, new))))
    assert done.returncode == 2
    assert problem in done.stderr


def test_nobody_is_asked_to_be_forgotten_where_no_job_reads_it(mini: Host, crowd: Path, tmp_path: Path) -> None:
    done = mini.crenel("forget", plain(configure(crowd, tmp_path)), "--subject", LONELY)
    assert done.returncode == 2
    assert "source.forget: is missing" in done.stderr
    wrong = plain(with_requests(crowd, tmp_path / "job", ("(who STRING)", "(who STRING, why STRING)")))
    query = "--set", "source.forget.query=SELECT who FROM forget"
    done = mini.crenel("forget", wrong, *query, "--subject", LONELY)
    assert done.returncode == 2
    assert "the table 'forget' has the columns who, why" in done.stderr
    assert LONELY not in done.stdout + done.stderr
