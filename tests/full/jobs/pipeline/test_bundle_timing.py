"""Waits of rows for others, in the operators of a complete job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.launch import ROOT, environment

pytestmark = pytest.mark.flink

TEXT = """
policy: {quasi_identifiers: {x: {type: numeric, domain: [0, 9]}}, passthrough: [number]}
privacy: {k: 2}
castle: {delay: {tuples: 5}}
source:
  ddl: >-
    CREATE TEMPORARY TABLE source (number INT, x AS MOD(number, 10)) WITH ('connector' = 'datagen',
    'rows-per-second' = '10', 'fields.number.min' = '0' ENDS)
sinks: {released: {connector: blackhole}}
"""
PROGRAM = """
import json, sys
from crenel.jobs.config.load import load
from crenel.jobs.pipeline import environment, bundle_timing as pace
from crenel.jobs.pipeline.job import upwards
from crenel.jobs.pipeline.build import build

class Unstarted:
    # An environment in which a job is wired to its end, and not started.

    def __init__(self, environment):
        self._environment = environment

    def __getattr__(self, name):
        return getattr(self._environment, name)

    def executeAsync(self, graph):
        return None


found = []
for path, flink in json.loads(sys.argv[1]):
    config = load(path, [f"flink={json.dumps(flink)}"] if flink else [])
    tables = environment.local_environment({"parallelism.default": "1", **config.flink})
    job = build(tables, config)
    job._environment = Unstarted(job._environment)
    job.execute()
    python = [pace._python_operator(each) for each in upwards(job._operator, set())]
    waits = [int(each.getConfiguration().toMap()[pace.BUNDLE]) for each in python if each is not None]
    java = tables._get_j_env()
    found.append([sorted(waits), java.getBufferTimeout(), java.getConfiguration().toMap().get(pace.SEGMENT)])
print(json.dumps(found))
"""


def test_rows_wait_less_where_the_source_does_not_end_and_as_long_as_the_settings_say(tmp_path: Path) -> None:
    paths = [tmp_path / "bounded.yaml", tmp_path / "live.yaml"]
    for path, rows in zip(paths, (", 'number-of-rows' = '100'", ""), strict=True):
        path.write_text(TEXT.replace(" ENDS", rows), encoding="utf-8")
    bounded, live = map(str, paths)
    chained = tmp_path / "chained.yaml"  # its shards begin by a source of their own, which must not pass for a live one
    text = paths[0].read_text(encoding="utf-8").replace("{released:", "{audit: {connector: blackhole}, released:")
    chained.write_text(f"{text}audit_chain: {{}}\n", encoding="utf-8")
    given = {"python.fn-execution.bundle.time": "50", "execution.buffer-timeout.interval": "7 ms"}
    other = {"python.fn-execution.bundle.time": "1", "taskmanager.memory.segment-size": "64 kb"}
    jobs = [
        (bounded, {}),
        (live, {}),
        (live, given),
        (bounded, other),
        (bounded, {"parallelism.default": "5"}),
        (str(chained), {}),
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(jobs)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [
        [[1000, 1000], 100, "256 kb"],
        [[2, 10], 2, None],
        [[2, 50], 7, None],
        [[1, 1], 100, "64 kb"],
        [[1000, 1000], 100, None],  # more tasks than there would be buffers for
        [[1000, 1000], 100, "256 kb"],
    ]
