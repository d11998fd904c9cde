"""Tables of Paimon and Iceberg as sinks and sources, and files of Parquet.

Through a kill and a move each record is in its table once.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crenel.jobs.local.stop import descendants
from tests.support.artifacts import jars
from tests.support.launch import Host, crenel, start

pytestmark = pytest.mark.flink

ROWS, RATE = 20_000, 1000
TIMEOUT = 240  # seconds: machines are shared
TEXT = f"""
policy:
  subject: person
  event_time: seen
  quasi_identifiers:
    age: {{type: numeric, domain: [0, 99]}}
    born: {{type: numeric}}
    entered: {{type: numeric, domain: [2026-03-01, 2026-04-01], ends: 1h}}
    at: {{type: numeric}}
  sensitive: [illnesses]
  arrays: {{illnesses: 2}}
  passthrough: [id]
privacy: {{k: 8, l: 2}}
algorithm: nearest
nearest: {{delay: {{tuples: 500}}}}
shards: {{count: 2}}
seed: 11
subject_key: a key of the tests
catalogs:
  lake: CATALOG
source:
  ddl: |
    CREATE TEMPORARY TABLE source (
      id BIGINT, seen AS TO_TIMESTAMP_LTZ(id * 10000, 3), WATERMARK FOR seen AS seen - INTERVAL '5' SECOND
    ) WITH (
      'connector' = 'datagen', 'rows-per-second' = '{RATE}', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
      'fields.id.end' = '{ROWS}'
    )
  query: |
    SELECT id, 'p' || CAST(MOD(id * 7919, 5003) AS STRING) AS person, CAST(MOD(id * 31, 100) AS INT) AS age,
      TIMESTAMPADD(DAY, CAST(MOD(id * 13, 400) AS INT), DATE '1969-06-01') AS born,
      TIMESTAMPADD(SECOND, CAST(MOD(id * 7907, 2592000) AS INT), TIMESTAMP '2026-03-01 12:00:00.125') AS entered,
      TO_TIMESTAMP_LTZ(MOD(id * 77777777, 63072000000) - 31536000000, 3) AS `at`,
      ARRAY[CASE MOD(id, 3) WHEN 0 THEN 'cold' WHEN 1 THEN 'flu' ELSE 'gout' END] AS illnesses, seen
    FROM source
sinks:
  released: {{table: lake.default.released, partitioned_by: day, day_column: day, manifest.compression: deflate}}
  audit: {{table: lake.default.audit, manifest.compression: deflate}}
  suppressed: {{table: lake.default.suppressed, manifest.compression: deflate}}
flink:
  pipeline.jars: JARS
  execution.checkpointing.interval: 2 s
  execution.checkpointing.dir: file://FOLDER/checkpoints
"""
SHAPES = {"paimon": "flat", "iceberg": "nested"}
CATALOGS = {
    "paimon": "{type: paimon, warehouse: 'file://FOLDER/lake'}",
    "iceberg": "{type: iceberg, catalog-type: hadoop, warehouse: 'file://FOLDER/lake'}",
}


def artifact(*names: str) -> list[str]:
    """Return the jars of some artifacts."""
    return [str(path) for name in names for path in jars("lake").glob(f"{name}-*.jar")]


HADOOP = ("hadoop-client-api", "hadoop-client-runtime")


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """Yield a process whose Java has Hadoop's client, as Iceberg needs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CLASSPATH", os.pathsep.join(artifact(*HADOOP)))
        made = Host()
    yield made
    made.stop()


def configure(folder: Path, kind: str) -> Path:
    """Return the configuration of a job into tables of a catalog; Paimon finds Hadoop's client among the job's jars."""
    names = ("paimon-flink-2.1", *HADOOP) if kind == "paimon" else ("iceberg-flink-runtime-2.1",)
    text = TEXT.replace("CATALOG", CATALOGS[kind]).replace("JARS", ";".join(artifact(*names)))
    text += f"shape: {SHAPES[kind]}\n"
    path = folder / "job.yaml"
    path.write_text(text.replace("FOLDER", str(folder)), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["paimon", "iceberg"])
def test_killed_and_restored_at_another_parallelism_each_record_is_there_once(
    kind: str, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = configure(tmp_path, kind)
    if kind == "iceberg":
        monkeypatch.setenv("HADOOP_CLASSPATH", os.pathsep.join(artifact(*HADOOP)))
    committed = FILES[kind]
    run = start("run", configuration)
    wait(lambda: run.poll() is not None or len(rows(committed(table(tmp_path, kind, "released")))) > ROWS // 10)
    checkpoint = newest(tmp_path)
    wait(lambda: run.poll() is not None or newest(tmp_path) != checkpoint)
    assert run.poll() is None, run.communicate()
    for process in (*descendants(run.pid), run.pid):
        os.kill(process, signal.SIGKILL)
    run.communicate()
    before = rows(committed(table(tmp_path, kind, "released")))
    assert ROWS // 10 < len(before) < ROWS * 0.9  # in the middle

    hurry(configuration)
    state = f"flink.execution.state-recovery.path={newest(tmp_path)}"
    done = host.crenel("run", configuration, "--parallelism", "2", "--set", state)
    assert done.returncode == 0, done.stderr
    found = {name: rows(committed(table(tmp_path, kind, name))) for name in ("released", "audit", "suppressed")}
    ids = found["released"]["id"].to_pylist()
    assert len(ids) == len(set(ids))
    assert set(before["id"].to_pylist()) < set(ids)
    assert len(ids) + len(found["suppressed"]) == ROWS
    assert sum(found["audit"]["tuples"].to_pylist()) == len(ids)
    require_tight(found["released"])
    result = host.crenel("verify", configuration, "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    checks = json.loads(result.stdout)["checks"]
    assert [check for check in checks if check["findings"]] == []
    assert {check["name"]: check["outcome"] for check in checks}["cover"] == "holds"
    reads_and_ends(host, configuration, kind)


def member(number: int) -> dict[str, Any]:
    """Return the quasi-identifiers of a record."""
    return {
        "age": number * 31 % 100,
        "born": date(1969, 6, 1) + timedelta(days=number * 13 % 400),
        "entered": datetime(2026, 3, 1, 12, 0, 0, 125_000) + timedelta(seconds=number * 7907 % 2_592_000),
        "at": datetime(1969, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=number * 77_777_777 % 63_072_000_000),
    }


def require_tight(released: pa.Table) -> None:
    """Require that each interval is that of its members, in its own type; those of ``entered`` end at full hours."""
    classes: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in released.to_pylist():
        ends = tuple(row[name] for name in ENDS) if "age" not in row else tuple(row[of][end] for of, end in OF_ENDS)
        classes.setdefault(ends, []).append(member(row["id"]))
    for ends, members in classes.items():
        expected = [(min, max)[end == "max"](each[of] for each in members) for of, end in OF_ENDS]
        low = expected[4].replace(minute=0, second=0, microsecond=0)
        high = expected[5].replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        assert list(ends) == [*expected[:4], low, min(high, datetime(2026, 4, 1)), *expected[6:]]


OF_ENDS = [(of, end) for of in ("age", "born", "entered", "at") for end in ("min", "max")]
ENDS = [f"{of}_{end}" for of, end in OF_ENDS]
AUDIT = [
    "policy={event_time: event_time, quasi_identifiers: {age_min: {type: numeric}, born_max: {type: numeric}}, "
    "passthrough: [release_id], drop: [shard, kind, subjects, tuples, diversity_illnesses, loss, in_force, k, l, "
    "sample_rate, phi, age_max, born_min, entered_min, entered_max, at_min, at_max]}",
    "privacy={k: 2}",
    "nearest={delay: {event_time: 1 h}}",
    "source={table: lake.default.audit, watermark: {column: event_time, delay: 1 min}}",
    "sinks={released: {table: lake.default.again, day_column: day, manifest.compression: deflate}}",
]


def reads_and_ends(host: Host, configuration: Path, kind: str) -> None:
    """Check that a job reads the rows that a table has when the job starts, and ends."""
    sets = [part for text in AUDIT for part in ("--set", text)]
    done = host.crenel("run", configuration, *sets, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    audit = rows(FILES[kind](table(configuration.parent, kind, "audit")))
    assert summary["rows_in"] == len(audit) > 50
    again = rows(FILES[kind](table(configuration.parent, kind, "again")))
    assert len(again) == summary["released"] > 0
    # Files come in any order, so that a whole day may be overdue when it comes, and have too few rows for a release.
    # The day of a release is that of its latest row.
    days: dict[int, set[str]] = {}
    for row in audit.to_pylist():
        days.setdefault(row["release_id"], set()).add(f"{row['event_time']:%Y-%m-%d}")
    assert set().union(*days.values()) == {"1970-01-01", "1970-01-02", "1970-01-03"}
    assert {*again["day"].to_pylist()} <= set().union(*days.values())
    assert all(row["day"] >= min(days[row["release_id"]]) for row in again.to_pylist())
    assert summary["delay_tuples"]["max"] < len(audit) // 4  # event time passes, and not only at the end


def hurry(configuration: Path) -> None:
    """Let the source bring its rows at once."""
    text = configuration.read_text("utf-8")
    configuration.write_text(text.replace(f"'rows-per-second' = '{RATE}'", "'rows-per-second' = '100000'"), "utf-8")


def wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not until():
        assert time.monotonic() < end
        time.sleep(1)


def newest(folder: Path) -> Path | None:
    """Return the newest complete checkpoint."""
    found = [path.parent for path in (folder / "checkpoints").glob("*/chk-*/_metadata")]
    return max(found, key=lambda path: (path.parent.stat().st_ctime, int(path.name[4:])), default=None)


def table(folder: Path, kind: str, name: str) -> Path:
    return folder / "lake" / ("default.db" if kind == "paimon" else "default") / name


def rows(files: list[Path]) -> pa.Table:
    """Return the rows of data files, without the partition, which is a column of the files too."""
    return pa.concat_tables([pq.ParquetFile(path).read() for path in files]) if files else pa.table({"id": []})


def avro(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


def paimon_files(folder: Path) -> list[Path]:
    """Return the data files of the current snapshot of a table of Paimon, as its manifests list them."""
    snapshots = sorted((folder / "snapshot").glob("snapshot-*"), key=lambda path: int(path.name[9:]))
    if not snapshots:
        return []
    snapshot = json.loads(snapshots[-1].read_text(encoding="utf-8"))
    lists = (snapshot["baseManifestList"], snapshot["deltaManifestList"])
    named = [entry["_FILE_NAME"] for name in lists for entry in avro(folder / "manifest" / name)]
    files: dict[str, int] = {}
    for entry in (entry for name in named for entry in avro(folder / "manifest" / name)):
        files[entry["_FILE"]["_FILE_NAME"]] = files.get(entry["_FILE"]["_FILE_NAME"], 0) + 1 - 2 * entry["_KIND"]
    return [path for name, times in files.items() if times > 0 for path in folder.rglob(name)]


def iceberg_files(folder: Path) -> list[Path]:
    """Return the data files of the current snapshot of a table of Iceberg, as its manifests list them."""
    hint = folder / "metadata" / "version-hint.text"
    if not hint.exists():
        return []
    metadata = json.loads((folder / "metadata" / f"v{hint.read_text().strip()}.metadata.json").read_text("utf-8"))
    current = [of for of in metadata.get("snapshots", ()) if of["snapshot-id"] == metadata["current-snapshot-id"]]
    manifests = [entry["manifest_path"] for of in current for entry in avro(local(of["manifest-list"]))]
    entries = [entry for path in manifests for entry in avro(local(path))]
    return [local(entry["data_file"]["file_path"]) for entry in entries if entry["status"] != 2]


def local(uri: str) -> Path:
    return Path(uri.removeprefix("file:"))


FILES = {"paimon": paimon_files, "iceberg": iceberg_files}


@pytest.fixture(scope="module")
def tables(mini: Host, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the configuration of a job whose tables of Paimon are there."""
    path = configure(tmp_path_factory.mktemp("tables"), "paimon")
    path.write_text(path.read_text("utf-8").replace(f"'{ROWS}'", "'2000'"), "utf-8")
    hurry(path)
    done = mini.crenel("run", path, *in_files(path))
    assert done.returncode == 0, done.stderr
    return path


def in_files(path: Path) -> tuple[str, ...]:
    """Return arguments by which a job writes its audit log into files of Parquet."""
    names = ("paimon-flink-2.1", "flink-sql-parquet", *HADOOP)
    sink = f"{{connector: filesystem, path: {path.parent / 'audit'}, format: parquet}}"
    return ("--set", f"sinks.audit={sink}", "--set", f"flink.pipeline.jars={';'.join(artifact(*names))}")


def test_files_of_parquet_hold_the_intervals_of_a_table(tables: Path, mini: Host) -> None:
    released = rows(paimon_files(table(tables.parent, "paimon", "released")))
    require_tight(released)
    audit = pa.concat_tables(pq.read_table(file) for file in (tables.parent / "audit").rglob("part-*"))
    # Flink's files of Parquet say nothing of a zone.
    plain = {name: released[name].cast(audit.schema.field(name).type) for name in ENDS}
    assert {*zip(*(audit[name].to_pylist() for name in ENDS), strict=True)} == {
        *zip(*(plain[name].to_pylist() for name in ENDS), strict=True)
    }
    result = mini.crenel("verify", tables, *in_files(tables), "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    checks = {check["name"]: check["outcome"] for check in json.loads(result.stdout)["checks"]}
    assert (checks["cover"], checks["k"]) == ("holds", "holds")


def test_parquet_without_hadoop_is_refused_with_the_names_of_its_jars(tmp_path: Path) -> None:
    path = configure(tmp_path, "paimon")
    (_, sink, _, jars_of_both) = in_files(path)
    alone = jars_of_both.replace(";".join(["", *artifact(*HADOOP)]), "")
    text = path.read_text("utf-8").replace("lake.default.", "x")  # no catalog
    text = "\n".join(line for line in text.splitlines() if "xsuppressed" not in line and "xreleased" not in line)
    path.write_text(text.replace("{table: xaudit, manifest.compression: deflate}", "{connector: blackhole}"), "utf-8")
    released = f"sinks.released={sink.partition('=')[2]}"
    done = crenel("check", path, "--set", released, "--set", alone, "--set", "catalogs={}")
    assert done.returncode == 2
    assert "; Flink has no Hadoop client, which the catalog needs, or the format parquet" in done.stderr
    assert "hadoop-client-api and hadoop-client-runtime in flink.pipeline.jars" in done.stderr


def keyed(folder: Path) -> None:
    """Write the schema of a table with other columns, and with a primary key, as a user may have made it."""
    kept = table(folder, "paimon", "released")
    schema = json.loads((kept / "schema" / "schema-0").read_text("utf-8"))
    array = {"type": "ARRAY", "element": "STRING"}
    kinds = {"id": "BIGINT NOT NULL", "age_min": "SMALLINT", "illnesses": array}
    kinds |= {of["name"]: of["type"] for of in schema["fields"] if of["name"] in ENDS[2:]}
    fields = [of | {"type": kinds[of["name"]]} for of in schema["fields"] if of["name"] in kinds]
    made = folder / "lake" / "default.db" / "keyed" / "schema"
    made.mkdir(parents=True)
    text = json.dumps(
        schema | {"fields": fields, "partitionKeys": [], "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )
    (made / "schema-0").write_text(text, "utf-8")


def test_what_does_not_fit_is_told_with_its_field(tables: Path, mini: Host) -> None:
    def refused(*sets: str, run: Callable[..., CompletedProcess[str]] = mini.crenel) -> list[str]:
        done = run("check", tables, *(part for text in sets for part in ("--set", text)))
        assert done.returncode == 2, done.stdout
        return [line.strip().removeprefix("- ") for line in done.stderr.splitlines() if line.strip().startswith("- ")]

    keyed(tables.parent)
    found = refused("sinks.released={table: lake.default.keyed, partitioned_by: day, day_column: day}")
    assert [problem.partition(";")[0].partition(" (")[0] for problem in found] == [
        "sinks.released.table: lake.default.keyed has the primary key id, so a record would replace an earlier one "
        "with the same key",
        "sinks.released.table: the column 'age_min' of lake.default.keyed has the type SMALLINT, and the job writes "
        "INT",
        "sinks.released.table: lake.default.keyed has no column 'age_max'",
        "sinks.released.table: the column 'id' of lake.default.keyed is NOT NULL, and the job may write NULL",
        "sinks.released.table: lake.default.keyed has no column 'day'",
        "sinks.released.partitioned_by: lake.default.keyed is partitioned by no column",
    ]
    (problem,) = refused("sinks.released={table: lake.clinic.new}")
    assert problem.startswith("sinks.released.table: the catalog 'lake' has no database 'clinic'; it has default, or")
    (problem,) = refused("source={table: lake.default.release}")
    assert problem.startswith(
        "source.table: the database 'default' of the catalog 'lake' has no table 'release' (did you"
    )
    # Java keeps the jars of jobs that ran before.
    paimon, hadoop = artifact("paimon-flink-2.1", HADOOP[0])
    (problem,) = refused(f"flink.pipeline.jars={paimon}", run=crenel)
    assert problem.startswith("catalogs.lake: cannot be opened: ")
    assert "; Flink has no Hadoop client, which the catalog needs" in problem
    (problem,) = refused(f"flink.pipeline.jars={hadoop}", run=crenel)
    assert problem.startswith("catalogs.lake: cannot be opened: ")
    assert "; name the file of paimon-flink in flink.pipeline.jars" in problem
