"""A job with an algorithm and a privacy model of the user keeps its guarantees."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.extension_points.stream import CONFIGURATION, visits
from tests.extension_points.test_extension_points import require_privacy
from tests.support.launch import crenel, rows_of
from tests.support.visits import SUPPRESSED


@pytest.mark.flink
def test_the_whole_job_keeps_it(tmp_path: Path) -> None:
    folder, configuration = tmp_path, tmp_path / "job.yaml"
    configuration.write_text(CONFIGURATION.format(folder=folder), encoding="utf-8")
    (folder / "in.csv").write_text("\n".join(visits()) + "\n", encoding="ascii")
    done = crenel("run", configuration, "--json", mode="process")
    assert done.returncode == 0, done.stderr
    rows = rows_of(folder / "released", ("x_min", "x_max", "illness", "id"))
    suppressed = rows_of(folder / "suppressed", SUPPRESSED)
    assert len({row["id"] for row in rows}) == len(rows) == 400 - len(suppressed) > 200
    who = dict(line.split(",")[:2] for line in visits())
    classes: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for row in rows:
        classes[row["x_min"], row["x_max"]].append((who[row["id"]], row["illness"]))
    for members in classes.values():  # neighbors may have one interval; each release keeps it, and so all together
        require_privacy(members)
    audit = (folder / "audit").rglob("part-*")
    assert all("0.6" in line.split(",") for path in audit for line in path.read_text("ascii").splitlines())
    verified = crenel("verify", configuration, "--json", mode="process")
    assert verified.returncode == 0, verified.stdout
    (check,) = (check for check in json.loads(verified.stdout)["checks"] if check["name"] == "at_most of illness")
    assert check["outcome"] == "holds"
