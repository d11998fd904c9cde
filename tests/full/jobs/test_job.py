"""Whole jobs at their edges, what commands print of them, and how a run is stopped."""

from __future__ import annotations

import tempfile
from pathlib import Path
from signal import SIGTERM
from time import monotonic, sleep

import pytest

from crenel.jobs.local.stop import descendants
from tests.support.launch import Host, rows_of, start
from tests.support.processes import command, running
from tests.support.visits import REJECTED, RELEASED, Run, visits, write

pytestmark = pytest.mark.flink

ONE_SHARD = [
    # Watermarks come by the clock, so only without event time do two runs see the same.
    *("--set", "castle.delay={tuples: 60, jitter: 0.2}"),
    *("--set", "shards.count=1"),
    *("--set", "castle.suppression=generalize", "--set", "policy.quasi_identifiers.wage.domain=[0, 1000000]"),
]
WINDOWED = [
    *("--set", "castle=null", "--set", "algorithm=suhdsa", "--set", "privacy.l=4", "--json"),
    *("--set", "sinks.repairs={connector: filesystem, path: OUTPUT/repairs, format: csv}"),
    *("--set", "sinks.windows={connector: filesystem, path: OUTPUT/windows, format: csv}"),
]
BY_BOTH = ["--set", "suhdsa={tuples: 30, event_time: 5 min, target: {most: 5}, adaptive: {least: 20}}"]
# A view hides its connector, and this one has no watermark.
VIEW = (
    "CREATE TEMPORARY VIEW source AS SELECT CAST(1 AS BIGINT) AS line, CAST(1 AS BIGINT) AS id, 'a' AS person, "
    "'b' AS name, '3' AS age, 'c' AS town, CAST(1 AS DOUBLE) AS wage, 'd' AS illness, TO_TIMESTAMP_LTZ(0, 3) AS ts"
)
UNFIT = ("--set", f"source.ddl={VIEW}", "--set", "flink={table.local-time-zone: Europe/Oslo}")
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "one_shard_loopback": ("run", ONE_SHARD),
    "check_window": ("check", [*WINDOWED[:6], *BY_BOTH]),
    "limited": ("run", ["--json", "--set", "policy.event_time_limit=10 min"]),
    "check": ("check", []),
    "check_source": ("check", [*UNFIT, "--set", "policy.event_time_limit=1 h"]),
}


@pytest.fixture(scope="module")
def runs(mini: Host, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(mini, tmp_path_factory.mktemp("job"))


class Runs:
    """The jobs of this module, each run once, when a test first asks for it."""

    def __init__(self, mini: Host, root: Path) -> None:
        self._mini = mini
        self._root = root
        self._ended: dict[str, Run] = {}

    def __getitem__(self, name: str) -> Run:
        if name not in self._ended:
            self._ended[name] = self._run(name)
        return self._ended[name]

    def _run(self, name: str) -> Run:
        rows = visits()
        if name == "limited":
            rows = [*rows[:300], rows[299] | {"line": 9999, "ms": rows[299]["ms"] + 10**9}, *rows[300:320]]
        command, arguments = COMMANDS[name]
        path = write(self._root / name, rows)
        arguments = [argument.replace("OUTPUT", str(path.parent)) for argument in arguments]
        return Run(path.parent, self._mini.crenel(command, path, *arguments))


def test_text_is_printed_without_color_in_80_columns(runs: Runs) -> None:
    for name in ("one_shard_loopback", "check"):
        ended = runs[name].ended
        assert ended.returncode == 0, ended.stderr
        assert "\x1b" not in ended.stdout
        # Paths are not broken, so that they can be copied, and sentences that a terminal breaks are not either.
        whole = ("Warning: ", str(runs[name].folder))
        assert all(len(line.rstrip()) <= 80 for line in ended.stdout.splitlines() if not any(w in line for w in whole))


def test_check_shows_the_policy_and_the_columns_of_each_sink(runs: Runs) -> None:
    lines = [line.split() for line in runs["check"].ended.stdout.splitlines()]
    assert ["k", "5", "distinct", "subjects", "in", "every", "release"] in lines
    assert ["age_min", "INT"] in lines
    assert ["diversity_illness", "BIGINT"] in lines
    assert ["reference", "STRING"] in lines
    assert ["illness", "STRING"] in lines
    for name in ("released", "audit", "suppressed", "rejected"):
        assert any(line[:1] == [f"{name}:"] for line in lines)


def test_a_source_that_may_repeat_rows_or_lets_no_time_pass_is_refused(runs: Runs) -> None:
    ended = runs["check_source"].ended
    assert (ended.returncode, ended.stdout) == (2, "")
    found = [line.removeprefix("  - ").split(": ")[0] for line in ended.stderr.splitlines()[1:]]
    zone = "flink.table.local-time-zone"
    assert found == ["source.ddl", zone, "policy.event_time_limit", "castle.delay.event_time"]
    assert f"{zone}: is not UTC, and PyFlink takes the UTC time of the column 'ts', a TIMESTAMP_LTZ," in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_row_that_is_dated_far_ahead_of_the_watermark_is_rejected(runs: Runs) -> None:
    run = runs["limited"]
    assert run.ended.returncode == 0, run.ended.stderr
    outside = [row["reference"] for row in run.sink("rejected", REJECTED) if row["column"] == "ts"]
    assert outside == ["9999"]
    assert run.summary["rows_in"] == 321
    ids = {row["id"] for row in run.released}
    assert len(ids) + sum(run.summary["suppressed"].values()) + sum(run.summary["rejected"].values()) == 321


@pytest.mark.parametrize(("mode", "worker"), [("process", "beam_boot"), ("loopback", "worker_boot.py")])
def test_a_run_that_is_told_to_stop_cancels_its_job_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, worker: str
) -> None:
    path = write(tmp_path / "job", visits())
    text = path.read_text(encoding="utf-8")
    endless = text.replace("'format' = 'csv', ", "'format' = 'csv', 'source.monitor-interval' = '1 s', ")
    assert endless != text
    settings = "{execution.checkpointing.interval: 1 s, table.exec.source.idle-timeout: 1 s}"
    path.write_text(f"{endless}flink: {settings}\n", encoding="utf-8")
    temporary = Path(tempfile.mkdtemp())  # short, as the path of a socket in it must be
    monkeypatch.setenv("TMPDIR", str(temporary))
    run = start("run", path, mode=mode)
    try:
        until = monotonic() + 240
        while not rows_of(path.parent / "released", RELEASED):
            assert run.poll() is None
            assert monotonic() < until, "nothing is released"
            sleep(0.2)
        started = descendants(run.pid)
        for part in ("PythonGatewayServer", worker):
            assert any(part in command(process) for process in started)
        run.send_signal(SIGTERM)
        out, err = run.communicate(timeout=60)
    finally:
        run.kill()
    assert (run.returncode, out) == (143, "")
    assert err == "crenel: stopped; the job was canceled, and what it had not published yet is lost\n"
    assert not any(map(running, started))
    assert list(temporary.iterdir()) == []
    temporary.rmdir()


def test_check_shows_the_algorithm_with_its_parameters(runs: Runs) -> None:
    lines = [" ".join(line.split()) for line in runs["check_window"].ended.stdout.splitlines()]
    for line in (
        "algorithm suhdsa",
        "delay.tuples 60 later tuples of the shard",
        "delay.event_time 10 min",
        "tuples 30 close a window",
        "output generalization",
        "target from l to 5; smoothing 0.3, band 0.05, dwell 5",
        "adaptive windows of 20 to 30 tuples; delay_weight 0.5, windows 8",
        "neighbor BIGINT",
        "entropy_least DOUBLE",
    ):
        assert line in lines
    for sink in ("repairs", "windows"):
        assert f"{sink}: discarded, with the columns" in lines
