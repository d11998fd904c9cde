"""A bundle ends when its work has, and what is written in it goes to Java before its end, by PyFlink's own streams."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from apache_beam.runners.worker import data_plane, statesampler
from apache_beam.utils.counters import CounterFactory
from pyflink.fn_execution import coder_impl_fast
from pyflink.fn_execution.beam.beam_coder_impl_fast import FlinkLengthPrefixCoderBeamWrapper

from crenel.operators.beam_patches import end_at_once, leave_at_once, leaving

WATCH = statesampler.StateSampler.run
PATIENCE = 10  # seconds
MANY = 20_000  # rows


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore Beam's own functions, after earlier patches in this process."""
    monkeypatch.setattr(statesampler.StateSampler, "run", WATCH)


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def test_nobody_watches_a_bundle_so_its_end_waits_for_nobody() -> None:
    end_at_once()
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


def test_a_bundle_that_is_watched_already_ends_with_its_thread() -> None:
    sampler, before = statesampler.StateSampler("bundle", CounterFactory()), threads()
    sampler.start()
    assert len(threads() - before) == 1
    end_at_once()
    sampler.stop()
    assert threads() == before


class Written:
    """A stream of PyFlink's to Java, and what has left by it."""

    def __init__(self) -> None:
        self.left: list[bytes] = []
        self._rest: list[bytes] = []
        values = coder_impl_fast.ValueCoderImpl(coder_impl_fast.CharCoderImpl())
        self._coder = FlinkLengthPrefixCoderBeamWrapper(values)
        self._stream = data_plane.SizeBasedBufferingClosableOutputStream(self._rest.append, self.left.append)

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


def test_what_is_written_stays_in_a_bundle_until_it_is_told_to_leave(written: Written) -> None:
    written.write("stays")
    assert written.left == []
    leave_at_once(MANY)
    written.write("tells")
    [left] = written.left
    assert b"stays" in left
    assert b"tells" in left
    leave_at_once(1)
    written.write("stays again")
    assert written.left == [left]


def test_each_result_leaves_once_it_is_written(written: Written) -> None:
    for number, result in enumerate(leaving(["one", "two"], MANY), 1):
        written.write(str(result))
        assert len(written.left) == number
        assert str(result).encode() in written.left[-1]
