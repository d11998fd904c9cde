"""The figures of ``benchmarks.latency``, of a stream that was made up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import latency

RATE, HELD, CARRIED = 50, 50, 5


def _stream() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray, np.ndarray]:
    """Windows of 50 tuples that each carry the last 5, and leave 100 ms after the tuple that closed them was due."""
    paced = RATE * (latency._SETTLE + latency._MEASURED + latency._REST)
    rows = np.arange(latency._FLOOD + paced)
    each = HELD - CARRIED
    count = (len(rows) - CARRIED) // each
    released = np.full(count, each)
    released[-1] += len(rows) - count * each
    carried = np.full(count, CARRIED)
    carried[-1] = 0
    windows = pd.DataFrame({"tuples": released + carried, "carried": carried})
    closing = np.minimum(rows // each * each + HELD - 1, rows[-1])
    closing[-released[-1] :] = rows[-1]
    due = 1.7e9 + rows / RATE
    moments = pd.to_datetime(np.round((due[closing] + 0.1) * 1000).astype("int64"), unit="ms", utc=True)
    left = pd.DataFrame({"row": rows, "moment": moments.strftime("%Y-%m-%d %H:%M:%S.%fZ")})
    return left, windows, due, closing


def test_a_wait_begins_with_the_tuple_or_with_the_one_that_closed_its_window() -> None:
    left, windows, due, closing = _stream()
    run = latency._figures(left, latency._closed_by(windows), due, RATE, 0.0)
    measured = slice(latency._FLOOD + latency._SETTLE * RATE, -latency._REST * RATE)
    assert run.closed == pytest.approx(100, abs=0.01)
    assert run.whole == pytest.approx(100 + (due[closing] - due)[measured] * 1000, abs=0.01)
    assert run.rate == pytest.approx(RATE, rel=0.1)


def test_rows_that_did_not_leave_are_no_latency() -> None:
    left, windows, due, _ = _stream()
    with pytest.raises(RuntimeError, match="were suppressed or lost"):
        latency._figures(left.iloc[:-1], latency._closed_by(windows), due, RATE, 0.0)


def test_a_release_waits_for_the_end_of_the_delay_of_its_first_row_or_of_that_of_a_part_beside_it() -> None:
    delay = latency.DELAY
    releases = [  # kind, batch, its rows, the row that let it leave
        ("cluster", 0, [0, 5], delay),
        ("cluster", 0, [3, 9], 3 + delay),
        ("split", 0, [6, 7], 4 + delay),
        ("split", 0, [4, 8], 4 + delay),
        ("split", 0, [2 + delay, 5 + delay], 5 + delay),  # of a later step of the same batch
        ("split", 1, [6 + delay, 10], 10 + delay),
        *(("reused", 2, [row], row + delay) for row in range(11, 2 * delay) if row % 4),  # others are suppressed
    ]
    left = pd.DataFrame(
        [(row, number, kind, batch) for number, (kind, batch, rows, _) in enumerate(releases) for row in rows],
        columns=["row", "release", "kind", "batch"],
    )
    closing = [by if by < 2 * delay else -1 for _, _, rows, by in releases for _ in rows]
    assert latency._expired_by(left, 2 * delay).tolist() == closing
