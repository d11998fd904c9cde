"""A worker ends with its Java; its bundles end with their work; results and texts take no detour."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyflink.version
import pytest
from apache_beam.runners.worker import data_plane, statesampler
from apache_beam.utils.counters import CounterFactory
from pyflink.fn_execution import coder_impl_fast, coders
from pyflink.fn_execution.beam.beam_coder_impl_fast import FlinkLengthPrefixCoderBeamWrapper
from pyflink.table import DataTypes
from pyflink.table.utils import arrow_to_pandas

from crenel.operators.encode.columns import as_arrow
from crenel.operators.worker import flush_each, flush_results, keep_texts_in_arrow, prepare_worker
from tests.support.launch import ROOT
from tests.support.processes import running

SAMPLE = statesampler.StateSampler.run
PATIENCE = 10  # seconds
MANY = 20_000  # rows

# As Flink starts one: a shell in between, which stays when Java is gone.
WORKER = """
import os, sys, time
from types import SimpleNamespace
from crenel.operators.worker import prepare_worker

sys.modules["__main__"].__spec__ = SimpleNamespace(name="pyflink.fn_execution.beam.beam_boot")
prepare_worker()
prepare_worker()
print(os.getpid(), os.getppid(), flush=True)
time.sleep(600)
"""
JAVA = """
import subprocess, sys
subprocess.run(["sh", "-c", '"$0" -c "$1" 2>&1 | tee "$2"', *sys.argv[1:]])
"""

FIELDS = {
    "whole": (DataTypes.INT(), pa.array([1, None], pa.int32())),
    "text": (DataTypes.STRING(), pa.array(["a", None])),
    "bytes": (DataTypes.BYTES(), pa.array([b"\xff", None])),
    "time": (DataTypes.TIMESTAMP(3), pa.array([0, None], pa.timestamp("ms"))),
}


@pytest.fixture(autouse=True)
def unpatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam and PyFlink as they are installed, whatever ran in this process before."""
    monkeypatch.setattr(statesampler.StateSampler, "run", SAMPLE)
    monkeypatch.setattr(coders.coder_impl, "arrow_to_pandas", arrow_to_pandas)


def test_a_worker_ends_with_the_java_that_started_it(tmp_path: Path) -> None:
    written = tmp_path / "written"
    java = subprocess.Popen(
        [sys.executable, "-c", JAVA, sys.executable, WORKER, str(written)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait(lambda: written.exists() and written.read_text(encoding="utf-8").endswith("\n"))
        worker, shell = map(int, written.read_text(encoding="utf-8").split())
        time.sleep(1.5)
        assert running(worker)
    finally:
        java.kill()
        java.wait()
    wait(lambda: not running(worker) and not running(shell))


def test_a_process_that_is_no_worker_has_no_watchdog() -> None:
    prepare_worker()
    assert "crenel-watchdog" not in [thread.name for thread in threading.enumerate()]


def wait(done: Callable[[], bool]) -> None:
    """Wait for something to come true; fails where it takes too long."""
    until = time.monotonic() + 20
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def test_no_thread_samples_a_bundle_so_its_end_waits_for_none() -> None:
    prepare_worker()
    sampler = statesampler.StateSampler("bundle", CounterFactory())
    for _ in range(3):  # a bundle processor is used again and again
        before = threads()
        sampler.start()
        for thread in threads() - before:
            thread.join(PATIENCE)
        assert threads() == before
        assert statesampler.get_current_tracker() is sampler
        with sampler.scoped_state("step", "process"):
            assert sampler.current_state().name.step_name == "step"
        sampler.stop_if_still_running()
        assert statesampler.get_current_tracker() is None
        sampler.stop_if_still_running()  # as after a failure
        sampler.commit_counters()
        sampler.reset()


def test_a_bundle_that_is_sampled_already_ends_with_its_thread() -> None:
    sampler, before = statesampler.StateSampler("bundle", CounterFactory()), threads()
    sampler.start()
    assert len(threads() - before) == 1
    prepare_worker()
    sampler.stop()
    assert threads() == before


def test_versions_that_the_patches_were_not_written_for_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyflink.version, "__version__", "2.4.0")
    prepare_worker()
    keep_texts_in_arrow()
    assert statesampler.StateSampler.run is SAMPLE
    assert coders.coder_impl.arrow_to_pandas is arrow_to_pandas


class Written:
    """A stream of PyFlink's to Java, and the messages that were sent by it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._rest: list[bytes] = []
        values = coder_impl_fast.ValueCoderImpl(coder_impl_fast.CharCoderImpl())
        self._coder = FlinkLengthPrefixCoderBeamWrapper(values)
        self._stream = data_plane.SizeBasedBufferingClosableOutputStream(self._rest.append, self.sent.append)

    def write(self, value: str) -> None:
        # As PyFlink's NetworkOutputProcessor writes what a function yields.
        self._coder.encode_to_stream(value, self._stream, True)
        self._coder._output_stream.maybe_flush()

    def close(self) -> None:
        self._coder._output_stream.close()


@pytest.fixture
def written() -> Iterator[Written]:
    stream = Written()
    yield stream
    stream.close()


def test_results_stay_in_a_bundle_until_they_are_flushed(written: Written) -> None:
    written.write("stays")
    assert written.sent == []
    flush_results(MANY)
    written.write("flushes")
    [sent] = written.sent
    assert b"stays" in sent
    assert b"flushes" in sent
    flush_results(1)
    written.write("stays again")
    assert written.sent == [sent]


def test_each_result_is_sent_once_it_is_written(written: Written) -> None:
    for number, result in enumerate(flush_each(["one", "two"], MANY), 1):
        written.write(str(result))
        assert len(written.sent) == number
        assert str(result).encode() in written.sent[-1]


def read(*names: str) -> list[pd.Series[Any]]:
    kinds = DataTypes.ROW([DataTypes.FIELD(name, FIELDS[name][0]) for name in names])
    schema = pa.schema([(name, FIELDS[name][1].type) for name in names])
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, schema) as stream:
        stream.write_batch(pa.record_batch([FIELDS[name][1] for name in names], schema=schema))
    coder = coders.ArrowCoder(schema, kinds, "UTC").get_impl()
    series: list[pd.Series[Any]] = coder.decode(written.getvalue().to_pybytes())
    return series


def test_texts_and_bytes_stay_with_arrow_and_all_else_is_as_before() -> None:
    before = read(*FIELDS)
    assert [str(series.dtype) for series in before] == ["float64", "object", "object", "datetime64[ms]"]
    keep_texts_in_arrow()
    after = read(*FIELDS)
    assert [str(series.dtype) for series in after] == [
        "float64",
        "string[pyarrow]",
        "binary[pyarrow]",
        "datetime64[ms]",
    ]
    for name, old, new in zip(FIELDS, before, after, strict=True):
        assert new.isna().tolist() == old.isna().tolist() == [False, True]
        assert new[0] == old[0]
        if name in ("text", "bytes"):
            assert as_arrow(new, FIELDS[name][1].type).equals(FIELDS[name][1])


def test_a_batch_of_texts_alone_and_one_without_are_read() -> None:
    keep_texts_in_arrow()
    keep_texts_in_arrow()  # as by each function that opens in a process
    assert as_arrow(read("text")[0], pa.string()).to_pylist() == ["a", None]
    assert read("whole")[0][0] == 1
