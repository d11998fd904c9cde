"""Scale-out on a standalone cluster: one TaskManager and two, each with one slot and one core of its own.

Two slots on two cores tell little, because one slot uses 1.5 of them: Java and Python take turns within it only in
part. A TaskManager that is pinned to a core stands for a machine. The JobManager, which is idle, is pinned to none.

A rate is the difference of two runs of different lengths, as in ``benchmarks/job.py``. All runs read the same files,
each of which holds a part of the time, so that the rows of no reader are late.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from benchmarks import adult, real
from benchmarks.measure import Table
from tests.support.cluster import FLINK, Cluster, job_id, with_settings

ROWS = (1_800_000, 5_400_000)
"""Rows of the short and of the long run."""

SHARDS = 8
_TWO = "two TaskManagers"
_SETTINGS = {
    "one TaskManager": [range(1)],
    _TWO: [range(2)],
    "two clusters of one TaskManager, each with a job of its own": [range(1), range(1, 2)],
}
"""Cores by cluster. Two clusters exchange nothing: they show what the machine itself allows."""

_FILES = 16
_PATIENCE = 1800.0  # seconds


class PinnedCluster(Cluster):
    """A JobManager, and one TaskManager of one slot for each of the given cores.

    Parameters
    ----------
    folder : holds everything of the cluster
    cores : numbers of the cores
    """

    def __init__(self, folder: Path, cores: range) -> None:
        super().__init__(folder)
        self._folder, self._cores = folder, cores
        file = folder / "conf" / "config.yaml"
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        content["taskmanager"]["numberOfTaskSlots"] = 1
        file.write_text(yaml.safe_dump(content), encoding="utf-8")

    def _begin(self, script: str) -> None:
        if script != "taskmanager.sh":
            super()._begin(script)
            return
        for core in self._cores:
            pinned = self._folder / f"taskmanager-{core}.sh"
            pinned.write_text(f'exec taskset -c {core} bash "{FLINK}/bin/{script}" "$@"\n', encoding="utf-8")
            self._processes.append(self._spawn(pinned.stem, pinned, "start-foreground"))

    def _is_up(self) -> bool:
        try:
            return int(self.get("/overview")["slots-total"]) == len(self._cores) and self._socket.exists()
        except OSError:
            return False


def parts(rows: int, folder: Path) -> Path:
    """Return a folder with the rows of ``real.yaml`` in files that follow each other in time."""
    made = folder / f"parts-{rows}"
    if not made.exists():
        made.mkdir()
        with real.rows_file(rows, folder).open(encoding="utf-8") as whole:
            for number in range(_FILES):
                (made / f"{number:02}.csv").write_text("".join(islice(whole, -(-rows // _FILES))), encoding="utf-8")
    return made


def run(cluster: PinnedCluster, slots: int, rows: int, folder: Path) -> float:
    """Return the seconds of a job on the cluster, from its first running task to its end."""
    with tempfile.TemporaryDirectory(dir=folder) as output:
        given = {
            "BENCH_SOURCE": real.source(parts(rows, folder), "csv"),
            "BENCH_OUTPUT": f"{output}/released",
            "BENCH_HIERARCHIES": str(adult.DATA),
        }
        settings = {"parallelism.default": slots, "execution.checkpointing.dir": f"file://{output}/checkpoints"}
        what = ("--config", real.CONFIGURATION, "--set", f"shards.count={SHARDS}")
        done = cluster.ask("anonymize", *what, *with_settings(real.CONFIGURATION, settings), **given)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        job = job_id(done)
        cluster.wait(lambda: cluster.state(job) in ("FINISHED", "FAILED"), "end", _PATIENCE)
        final: dict[str, Any] = cluster.get(f"/jobs/{job}")
        if final["state"] != "FINISHED":
            raise RuntimeError(str(cluster.get(f"/jobs/{job}/exceptions"))[:2000])
        return float(final["timestamps"]["FINISHED"] - final["timestamps"]["RUNNING"]) / 1000


def tables(repeats: int = 2) -> list[Table]:
    """Return the table of this module."""
    seconds: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turn in range(repeats):
            for what, cores in _SETTINGS.items():
                clusters: list[PinnedCluster] = []
                for own in cores:
                    place = folder / f"cluster-{turn}-{len(clusters)}-{len(cores)}-{len(own)}"
                    place.mkdir()
                    clusters.append(PinnedCluster(place, own))
                try:
                    for cluster in clusters:
                        cluster.start()
                    for rows in ROWS:
                        parts(rows, folder)
                        with ThreadPoolExecutor(len(clusters)) as pool:
                            took = pool.map(lambda c, own: run(c, len(own), rows, folder), clusters, cores)  # noqa: B023
                            seconds.setdefault((what, rows), []).append(max(took))
                finally:
                    for cluster in clusters:
                        cluster.stop()
    table = Table(
        f"Scale-out: TaskManagers of one slot, each on one core (`benchmarks/real.yaml`, CSV, {SHARDS} shards; "
        f"best of {repeats}, in turn)",
        ["setting", "rows/s", "of one", "to reach"],
    )
    few, many = ROWS
    rates = {
        what: len(cores) * (many - few) / (min(seconds[what, many]) - min(seconds[what, few]))
        for what, cores in _SETTINGS.items()
    }
    first, *_ = rates.values()
    for what, rate in rates.items():
        table.add(what, f"{rate:,.0f}", f"{rate / first:.2f}", "1.8" if what == _TWO else "-")
    return [table]
