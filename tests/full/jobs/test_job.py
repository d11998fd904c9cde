"""The whole job on the mini-cluster: what goes into a CSV file, and what comes out in others."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from signal import SIGTERM
from statistics import median
from time import monotonic, sleep
from typing import Any

import pytest

from crenel.anonymity.algorithms.suhdsa.outputs import REPAIRS, WINDOWS
from crenel.evidence.verify.verify import verify
from crenel.jobs.config.load import load
from crenel.jobs.local.outputs import read_outputs
from crenel.jobs.local.stop import descendants
from crenel.jobs.pipeline.evidence_inputs import guarantees
from tests.support.launch import Host, crenel, rows_of, start
from tests.support.processes import command, running
from tests.support.visits import (
    AUDIT,
    GENERALIZED,
    ILLNESSES,
    REJECTED,
    RELEASED,
    ROWS,
    SUPPRESSED,
    TOWNS,
    WRONG,
    K,
    L,
    Row,
    Run,
    visits,
    write,
)

pytestmark = pytest.mark.flink

ONE_SHARD = [
    # Watermarks come by the clock, so only without event time do two runs see the same.
    *("--set", "castle.delay={tuples: 60, jitter: 0.2}"),
    *("--set", "shards.count=1"),
    *("--set", "castle.suppression=generalize", "--set", "policy.quasi_identifiers.wage.domain=[0, 1000000]"),
]
NOISE = [
    *("--set", "sampling_and_noise={sample_rate: 0.8, phi: 50}"),
    *("--set", "policy.quasi_identifiers.wage={type: numeric, domain: [0, 100000], step: 0.5}"),
]
WINDOWED = [
    *("--set", "castle=null", "--set", "algorithm=suhdsa", "--set", "privacy.l=4", "--json"),
    *("--set", "sinks.repairs={connector: filesystem, path: OUTPUT/repairs, format: csv}"),
    *("--set", "sinks.windows={connector: filesystem, path: OUTPUT/windows, format: csv}"),
]
BY_BOTH = ["--set", "suhdsa={tuples: 30, event_time: 5 min, target: {most: 5}, adaptive: {least: 20}}"]
BY_TUPLES = ["--set", "suhdsa={tuples: 30, output: representative}", "--set", "shards.count=1"]
# A view hides its connector, and this one has no watermark.
VIEW = (
    "CREATE TEMPORARY VIEW source AS SELECT CAST(1 AS BIGINT) AS line, CAST(1 AS BIGINT) AS id, 'a' AS person, "
    "'b' AS name, '3' AS age, 'c' AS town, CAST(1 AS DOUBLE) AS wage, 'd' AS illness, TO_TIMESTAMP_LTZ(0, 3) AS ts"
)
# Two sensitive columns, and nobody leaves but by event time.
TWO = "policy.sensitive=[illness, ward]"
WAIT = 60  # seconds, each of which brings a row
NEAREST = [
    *("--set", "castle=null", "--set", "algorithm=nearest"),
    *("--set", f"nearest={{delay: {{event_time: {WAIT} s, jitter: 0.25}}, reuse_limit: 1000}}"),
    *("--set", TWO, "--json"),
    *(
        "--set",
        "source.query=SELECT line, id, person, name, TRY_CAST(age AS INT) AS age, town, wage, illness, ts, "
        "CASE MOD(id, 3) WHEN 0 THEN 'day' ELSE 'night' END AS ward FROM source",
    ),
]
# Labels of the towns hold a semicolon, which separates the values of a set in CSV.
FORMS = [
    *("--set", "castle.reuse_limit=0", "--set", "policy.quasi_identifiers.age.publish=median"),
    *("--set", "policy.quasi_identifiers.town.hierarchy={mask: {keep: [2, 1], length: 2, alphabet: abcd}}"),
    *(
        "--set",
        "policy.quasi_identifiers.town.publish=set",
        "--set",
        "audit_chain={key: a key of an auditor for tests}",
    ),
    *("--set", "sinks.released={connector: filesystem, path: OUTPUT/released, format: json}"),
    *(
        "--set",
        "source.query=SELECT line, id, person, name, TRY_CAST(age AS INT) AS age, SUBSTRING('abcd', "
        "CAST(MOD(id, 4) AS INT) + 1, 1) || SUBSTRING('abcd', CAST(MOD(id, 3) AS INT) + 1, 1) AS town, wage, illness, "
        "ts FROM source",
    ),
]
UNFIT = ("--set", f"source.ddl={VIEW}", "--set", "flink={table.local-time-zone: Europe/Oslo}")
COMMANDS: dict[str, tuple[str, str, list[str]]] = {
    "loopback": ("loopback", "run", ["--parallelism", "2", "--json"]),
    "process": ("process", "run", ["--parallelism", "2", "--json"]),
    "one_shard_loopback": ("loopback", "run", ONE_SHARD),
    "one_shard_process": ("process", "run", ONE_SHARD),
    "noise": ("loopback", "run", [*NOISE, "--json"]),
    "window": ("loopback", "run", ["--parallelism", "2", *WINDOWED, *BY_BOTH]),
    # One reader: until a second one says that there is nothing for it, no watermark passes.
    "nearest": ("loopback", "run", NEAREST),
    "representative": ("loopback", "run", [*WINDOWED, *BY_TUPLES]),
    "forms": ("loopback", "run", FORMS),
    "check_window": ("loopback", "check", [*WINDOWED[:6], *BY_BOTH]),
    "no_row": ("loopback", "run", ["--json"]),
    "one_row": ("loopback", "run", ["--json"]),
    "all_rejected": ("loopback", "run", ["--json"]),
    "unreadable": ("loopback", "run", []),
    "limited": ("loopback", "run", ["--json", "--set", "policy.event_time_limit=10 min"]),
    "check": ("loopback", "check", []),
    "check_source": ("loopback", "check", [*UNFIT, "--set", "policy.event_time_limit=1 h"]),
    "check_roles": ("loopback", "check", ["--set", "policy.drop=[nmae]", "--set", "policy.sensitive=[illness, wages]"]),
}
ALONE = ("loopback", "unreadable", "check_roles")
"""In a process each, as users start them: one that ends well, one that fails, and one that is refused."""


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
            self._ended[name] = self._demo() if name == "demo" else self._run(name)
        return self._ended[name]

    def _run(self, name: str) -> Run:
        inputs: dict[str, list[Row]] = {
            "no_row": [],
            "one_row": visits()[:1],
            "all_rejected": [row | {"age": ""} for row in visits()[:50]],
            "limited": [
                *visits()[:300],
                visits()[299] | {"line": 9999, "ms": visits()[299]["ms"] + 10**9},
                *visits()[300:320],
            ],
            "unreadable": [row | {"wage": "4711-secret"} for row in visits()[:1]],
        }
        mode, command, arguments = COMMANDS[name]
        path = write(self._root / name, inputs.get(name, visits()))
        arguments = [argument.replace("OUTPUT", str(path.parent)) for argument in arguments]
        launched = crenel if name in ALONE else self._mini.crenel
        sensitive = ("illness", "ward") if TWO in arguments else ("illness",)
        return Run(path.parent, launched(command, path, *arguments, mode=mode), sensitive)

    def _demo(self) -> Run:
        folder = self._root / "demo"
        return Run(folder, self._mini.crenel("demo", "--rows", "2000", "--keep", folder))


@pytest.fixture(params=["loopback", "process", "window", "nearest"])
def run(request: pytest.FixtureRequest, runs: Runs) -> Run:
    found = runs[request.param]
    assert found.ended.returncode == 0, found.ended.stderr
    return found


def test_every_row_leaves_once(run: Run) -> None:
    released = [int(row["id"]) for row in run.released]
    rejected = [int(row["reference"]) + 9_999 for row in run.sink("rejected", REJECTED)]
    suppressed = run.sink("suppressed", SUPPRESSED)
    assert len(released) == len(set(released))
    assert len(rejected) == len(set(rejected))
    assert not set(released) & set(rejected)
    assert len(released) + len(rejected) + len(suppressed) == ROWS
    positions = {(row["shard"], row["position"]) for row in suppressed}
    assert len(positions) == len(suppressed)


def test_the_summary_tells_what_is_in_the_sinks(run: Run) -> None:
    summary = run.summary
    suppressed = Counter(row["reason"] for row in run.sink("suppressed", SUPPRESSED))
    rejected = Counter(row["reason"] for row in run.sink("rejected", REJECTED))
    audit = run.audit
    kinds = Counter(row["kind"] for row in audit)
    assert summary["rows_in"] == ROWS
    assert summary["released"] == len(run.released)
    assert {reason: count for reason, count in summary["suppressed"].items() if count} == suppressed
    assert {reason: count for reason, count in summary["rejected"].items() if count} == rejected
    assert {kind: count for kind, count in summary["releases_by_kind"].items() if count} == kinds
    assert summary["releases"] == len(audit)
    losses = sum(float(row["loss"]) * int(row["tuples"]) for row in audit)
    assert summary["mean_loss"] == pytest.approx(losses / summary["released"])
    assert summary["delay_tuples"]["p50"] <= summary["delay_tuples"]["p99"] <= summary["delay_tuples"]["max"] <= 60


def test_every_class_holds_k_people_and_l_values(run: Run) -> None:
    came = {row["id"]: row for row in visits()}
    classes: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in run.released:
        classes[tuple(row[name] for name in GENERALIZED)].append(row)
    stated: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in run.audit:
        stated[tuple(row[name] for name in GENERALIZED)].append(row)
    assert set(stated) == set(classes)
    for key, members in classes.items():
        people = {came[int(row["id"])]["person"] for row in members}
        # A reused generalization states the people of its first release.
        releases = stated[key]
        assert len(people) >= max(int(row["subjects"]) for row in releases) >= K
        for name in run.sensitive:
            values = {row[name] for row in members}
            assert len(values) >= max(int(row[f"diversity_{name}"]) for row in releases)
            assert min(int(row[f"diversity_{name}"]) for row in releases) >= L
        assert min(int(row["subjects"]) for row in releases) >= K
        assert sum(int(row["tuples"]) for row in releases) == len(members)


def test_a_row_lies_inside_its_generalization_and_its_values_survive(run: Run) -> None:
    came = {row["id"]: row for row in visits()}
    for row in run.released:
        origin = came[int(row["id"])]
        assert int(row["age_min"]) <= origin["age"] <= int(row["age_max"])
        assert float(row["wage_min"]) <= origin["wage"] <= float(row["wage_max"])
        assert row["town"] in (origin["town"], TOWNS[origin["town"]], "any")
        assert [row[name] for name in run.sensitive] == [origin["illness"], ward(origin)][: len(run.sensitive)]


def ward(row: Row) -> str:
    """Return the rows as the query reads them."""
    return "day" if row["id"] % 3 == 0 else "night"


def test_nothing_waits_past_its_delay_in_event_time(runs: Runs) -> None:
    run = runs["nearest"]
    assert run.ended.returncode == 0, run.ended.stderr
    # The newest row may be 8 s ahead of its turn, and the watermark is 5 s behind. That all rows come in one bundle or
    # two, at whose end alone Flink tells of a watermark, holds nothing back.
    assert 0 < run.summary["delay_tuples"]["max"] <= WAIT + 8 + 5 + 1


def test_categories_that_csv_must_quote_are_published(run: Run) -> None:
    assert {row["illness"] for row in run.released} == set(ILLNESSES)
    assert {row["town"] for row in run.released} & set(TOWNS)


def test_rejected_rows_tell_column_reason_time_and_line_and_no_value(run: Run) -> None:
    wrong = {
        row["line"]: (*WRONG[number % 100], row["ms"]) for number, row in enumerate(visits()) if number % 100 in WRONG
    }
    rejected = run.sink("rejected", REJECTED)
    assert {int(row["reference"]) for row in rejected} == set(wrong)
    for row in rejected:
        column, _, reason, time = wrong[int(row["reference"])]
        assert (row["column"], row["reason"]) == (column, reason)
        assert milliseconds(row["event_time"]) == time
    assert not {"Atlantis", "999"} & {value for row in rejected for value in row.values()}


def test_suppressed_tuples_tell_reason_shard_position_and_time(run: Run) -> None:
    suppressed = run.sink("suppressed", SUPPRESSED)
    assert suppressed or run.folder.name == "nearest"  # which may find a generalization for all that are left over
    times = {row["ms"] for row in visits()}
    for row in suppressed:
        assert row["reason"] in ("outlier", "too_few_subjects", "too_little_diversity")
        assert 0 <= int(row["shard"]) < 4
        assert 0 <= int(row["position"]) < ROWS
        assert milliseconds(row["event_time"]) in times


def test_each_shard_counts_its_releases(run: Run) -> None:
    audit = run.audit
    assert {row["shard"] for row in audit} == {"0", "1", "2", "3"}
    for shard in "0123":
        ids = sorted(int(row["release_id"]) for row in audit if row["shard"] == shard)
        assert ids == list(range(len(ids)))


def test_nothing_of_a_record_is_printed(run: Run) -> None:
    reused = "crenel: warning: nearest.reuse_limit: is 1000, so tuples are published alone"
    assert all(line.startswith(reused) for line in run.ended.stderr.splitlines())
    assert "Secret" not in run.ended.stdout + run.ended.stderr


def test_the_summary_has_a_sink_of_its_own_where_one_is_given(run: Run) -> None:
    rows = run.sink("summary", ("shard", "name", "amount"))
    admitted = {row["shard"]: float(row["amount"]) for row in rows if row["name"] == "tuples_in"}
    assert set(admitted) == {"0", "1", "2", "3"}
    assert sum(admitted.values()) == ROWS - sum(run.summary["rejected"].values())


@pytest.mark.parametrize(("sink", "columns"), [("released", RELEASED), ("audit", AUDIT), ("rejected", REJECTED)])
def test_workers_in_processes_of_their_own_release_the_same(runs: Runs, sink: str, columns: Sequence[str]) -> None:
    here, there = (
        sorted(tuple(row.values()) for row in runs[f"one_shard_{mode}"].sink(sink, columns))
        for mode in ("loopback", "process")
    )
    assert here
    assert here == there


def test_suppressed_tuples_are_published_where_the_policy_says_so(runs: Runs) -> None:
    run = runs["one_shard_loopback"]
    released = run.released
    assert len(released) == ROWS - len(run.sink("rejected", REJECTED))
    assert run.sink("suppressed", SUPPRESSED) == []
    generalized = [row for row in run.audit if row["kind"] == "generalized"]
    assert generalized
    for row in generalized:
        assert (row["age_min"], row["age_max"], row["town"], row["loss"]) == ("0", "120", "any", "1.0")
    assert f"{len(generalized):,}" in run.ended.stdout
    assert "published fully generalized" in " ".join(run.ended.stdout.split())


def test_text_is_printed_without_color_in_80_columns(runs: Runs) -> None:
    for name in ("one_shard_loopback", "check", "demo"):
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


def test_check_lists_every_role_that_the_source_does_not_bear_out(runs: Runs) -> None:
    ended = runs["check_roles"].ended
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "policy.drop: the source has no column 'nmae'; did you mean 'name'?" in ended.stderr
    assert "policy.sensitive: the source has no column 'wages'; it has " in ended.stderr
    assert "Traceback" not in ended.stderr


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


def test_the_demo_shows_rows_before_and_after_and_keeps_its_files(runs: Runs) -> None:
    run = runs["demo"]
    text = " ".join(run.ended.stdout.split())
    for part in ("Before: 4 visits", "After: ", "rows in 2,000", "mean loss", "Files in"):
        assert part in text
    assert f"suppressed {len(run.sink('suppressed', SUPPRESSED))} " in text
    for name in ("stream.csv", "released", "audit", "rejected"):
        assert (run.folder / name).exists()
        assert name in text
    columns = ("age_min", "age_max", "area", "education", "salary_min", "salary_max", "diagnosis", "clinic")
    assert f"released {len(run.sink('released', columns)):,}" in text


def test_a_source_without_a_row_ends_well(runs: Runs) -> None:
    run = runs["no_row"]
    assert run.ended.returncode == 0, run.ended.stderr
    assert run.summary["rows_in"] == 0
    assert run.summary["mean_loss"] is None
    assert run.released == []


def test_a_single_row_is_withheld(runs: Runs) -> None:
    run = runs["one_row"]
    assert run.ended.returncode == 0, run.ended.stderr
    assert run.released == []
    assert [row["reason"] for row in run.sink("suppressed", SUPPRESSED)] == ["too_few_subjects"]


def test_a_source_of_rejected_rows_ends_well(runs: Runs) -> None:
    run = runs["all_rejected"]
    assert run.ended.returncode == 0, run.ended.stderr
    assert run.summary["rejected"]["missing"] == run.summary["rows_in"] == 50
    assert len(run.sink("rejected", REJECTED)) == 50
    assert run.released == run.sink("suppressed", SUPPRESSED) == []


def test_a_job_that_fails_tells_why_and_no_value(runs: Runs) -> None:
    ended = runs["unreadable"].ended
    assert ended.returncode == 1
    assert "TRY_CAST" in ended.stderr
    assert "4711-secret" not in ended.stderr + ended.stdout
    assert len(ended.stderr.splitlines()) < 5
    logs = Path(ended.stderr.split("Flink's logs are in ")[1].split(";")[0])
    assert any(logs.iterdir())
    assert logs.stat().st_mode & 0o077 == 0
    shutil.rmtree(logs)


@pytest.mark.parametrize(("mode", "worker"), [("process", "beam_boot"), ("loopback", "worker_boot.py")])
def test_a_run_that_is_told_to_stop_cancels_its_job_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, worker: str
) -> None:
    path = write(tmp_path / "job", visits())
    text = path.read_text(encoding="utf-8")
    endless = text.replace("'format' = 'csv', ", "'format' = 'csv', 'source.monitor-interval' = '1 s', ")
    assert endless != text
    path.write_text(endless + "flink: {execution.checkpointing.interval: 1 s}\n", encoding="utf-8")
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


def milliseconds(time: str) -> int:
    """Return a TIMESTAMP_LTZ as CSV has it: in UTC, without zeros at the end of the fraction."""
    second, _, fraction = time.removesuffix("Z").partition(".")
    whole = datetime.strptime(second, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    return int(whole.timestamp()) * 1000 + int(fraction.ljust(3, "0"))


def test_noise_samples_rows_and_publishes_what_lies_on_its_grid(runs: Runs) -> None:
    run = runs["noise"]
    assert run.ended.returncode == 0, run.ended.stderr
    summary = run.summary
    released = run.released
    withheld, rejected = (sum(summary[name].values()) for name in ("suppressed", "rejected"))
    assert summary["rows_in"] == ROWS == len(released) + withheld + rejected + summary["sampled_out"]
    admitted = ROWS - rejected
    assert summary["sampled_out"] == pytest.approx(0.2 * admitted, abs=5 * (0.16 * admitted) ** 0.5)
    assert summary["parameters"] == {"k": K, "l": L, "sample_rate": 0.8, "phi": 50}
    assert {(row["k"], row["sample_rate"], row["phi"]) for row in run.audit} == {(str(K), "0.8", "50.0")}
    ends = {float(row[f"wage_{end}"]) for row in released for end in ("min", "max")}
    assert all(end % 0.5 == 0 and 0 <= end <= 100_000 for end in ends)
    # One wage in fifty is a multiple of the step in the input, and hardly any end is a person's wage.
    assert len(ends & {row["wage"] for row in visits()}) < len(ends) / 10
    # Without noise every row lies inside; with noise many do not.
    came = {row["id"]: row for row in visits()}
    outside = [not int(row["age_min"]) <= int(came[int(row["id"])]["age"]) <= int(row["age_max"]) for row in released]
    assert 0.02 < sum(outside) / len(outside) < 0.9


def test_repairs_and_windows_have_sinks_of_their_own(runs: Runs) -> None:
    run = runs["window"]
    windows = run.sink("windows", tuple(WINDOWS.columns))
    repairs = run.sink("repairs", tuple(REPAIRS.columns))
    audit = run.audit
    summary = run.summary
    assert summary["windows"] == len(windows) > ROWS / 30
    assert summary["releases"] == sum(int(window["releases"]) for window in windows)
    actions = Counter(repair["action"] for repair in repairs)
    assert (summary["swaps"], summary["merges"]) == (actions["swap"], actions["merge"])
    assert min(actions.values()) > 0
    assert {float(window["lsr"]) for window in windows} == {1.0}
    assert {int(window["target"]) for window in windows} <= {4, 5}
    assert min(int(row["diversity_illness"]) for row in audit) >= 4
    # A window has the event time of the newest of its releases, and a repair that of its window.
    released_at: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in audit:
        released_at[row["shard"]].append((int(row["release_id"]), row["event_time"]))
    times = {shard: iter([time for _, time in sorted(releases)]) for shard, releases in released_at.items()}
    windows.sort(key=lambda window: int(window["window"]))
    closed_at = {(window["shard"], window["window"]): window["event_time"] for window in windows}
    for window in windows:
        newest = max((next(times[window["shard"]]) for _ in range(int(window["releases"]))), default="")
        assert window["event_time"] == newest
    assert all(next(left, None) is None for left in times.values())
    assert all(repair["event_time"] == closed_at[repair["shard"], repair["window"]] for repair in repairs)


def test_a_number_is_published_as_the_mean_of_its_release(runs: Runs) -> None:
    run = runs["representative"]
    assert run.ended.returncode == 0, run.ended.stderr
    came = {row["id"]: row for row in visits()}
    classes: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in run.sink("released", ("age", "town", "wage", "illness", "id")):
        classes[row["age"], row["town"], row["wage"]].append(came[int(row["id"])])
    assert len(classes) > 100
    for (age, town, wage), members in classes.items():
        assert len({row["person"] for row in members}) >= K
        assert float(age) == pytest.approx(sum(row["age"] for row in members) / len(members))
        assert float(wage) == pytest.approx(sum(row["wage"] for row in members) / len(members))
        assert town in {row["town"] for row in members}


def test_sets_are_arrays_in_json_and_texts_in_csv_and_list_the_values_of_a_release(runs: Runs) -> None:
    run = runs["forms"]
    assert run.ended.returncode == 0, run.ended.stderr
    overrides = [of.replace("OUTPUT", str(run.folder)) for of in FORMS[1::2]]
    config = load(run.folder / "job.yaml", overrides)
    outputs = read_outputs(config)
    ages = {row["id"]: row["age"] for row in visits()}
    classes: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in outputs.released.to_pylist():
        classes[row["age"], row["town"], row["wage_min"], row["wage_max"]].append(int(row["id"]))
    assert len(classes) > 100
    for (age, towns, *_), members in classes.items():
        assert age == median(ages[number] for number in members)
        assert towns.split(";") == sorted({"abcd"[number % 4] + "abcd"[number % 3] for number in members})
    assert any(path.read_text(encoding="utf-8").startswith('{"age":') for path in (run.folder / "released").iterdir())
    assert [check for check in verify(outputs, guarantees(config)).checks if check.findings] == []


def test_check_shows_the_algorithm_with_its_parameters(runs: Runs) -> None:
    lines = [" ".join(line.split()) for line in runs["check_window"].ended.stdout.splitlines()]
    for line in (
        "algorithm suhdsa",
        "delay.tuples 60 later tuples of the shard",
        "delay.event_time 600000 ms",
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
