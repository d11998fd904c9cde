"""Sum over the reports of shards, which accounts for every row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from io import StringIO

import pytest
from rich.console import Console

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.outcomes import SUPPRESSIONS
from crenel.jobs.local.summary import DelaySummary, RunSummary

CASTLE = Castle(Delay(9))
ONE_SHARD = [
    ("tuples_in", 100.0),
    ("sampled_out", 8.0),
    ("released", 90.0),
    ("merges", 3.0),
    ("splits", 1.0),
    ("loss_sum", 22.5),
    ("longest_delay", 131.0),
    ("suppressed.outlier", 4.0),
    ("suppressed.too_few_subjects", 6.0),
    ("suppressed.too_little_diversity", 0.0),
    ("rejected.missing", 2.0),
    ("releases.cluster", 5.0),
    ("releases.reused", 7.0),
    ("delay.0", 10.0),
    ("delay.50", 40.0),
    ("delay.128", 50.0),
    ("parameter.k", 10.0),
    ("parameter.sample_rate", 0.9),
    ("parameter.phi", 100.0),
]
ANOTHER = [
    ("tuples_in", 10.0),
    ("released", 10.0),
    ("loss_sum", 7.5),
    ("longest_delay", 9.0),
    ("releases.cluster", 1.0),
    ("delay.9", 10.0),
    ("parameter.k", 10.0),
    ("parameter.sample_rate", 0.9),
    ("parameter.phi", 100.0),
]


def summed(rows: Iterable[tuple[str, float]], seconds: float, algorithm: Algorithm = CASTLE) -> RunSummary:
    return RunSummary.of(((0, *row) for row in rows), seconds, algorithm, SUPPRESSIONS)


REJECTED = {
    "missing": 2,
    "outside_domain": 0,
    "unknown_category": 0,
    "bad_type": 0,
    "unreadable": 0,
    "too_many_values": 0,
}


def test_a_chained_run_states_its_identity() -> None:
    identity = [("run.7c775bdec33b1de4", 1.0), ("settings.d58d048375e290428b0f1a0a4eeb7ca5", 1.0)]
    summary = summed([*ONE_SHARD, *identity, *ANOTHER, *identity], 12.5)
    stated = {"run": "7c775bdec33b1de4", "settings": "d58d048375e290428b0f1a0a4eeb7ca5"}
    assert summary.identities.items() == stated.items() <= summary.as_json().items()
    assert not stated.keys() & summed(ONE_SHARD, 12.5).as_json().keys()
    console = Console(width=120)
    with console.capture() as printed:
        console.print(summary.as_table())
    assert "7c775bdec33b1de4" in printed.get()


def test_shards_are_added_up() -> None:
    summary = summed([*ONE_SHARD, *ANOTHER], 12.5)
    assert summary.rows_in == 120
    assert summary.sampled_out == 8
    assert summary.released == 100
    assert summary.suppressed == {"outlier": 4, "too_few_subjects": 6, "too_little_diversity": 0}
    assert summary.rejected == REJECTED
    assert summary.releases == {
        "cluster": 6,
        "merged": 0,
        "split": 0,
        "reused": 7,
        "generalized": 0,
        "again": 0,
        "widened": 0,
    }
    assert (summary.reused, summary.counts["merges"], summary.counts["splits"]) == (7, 3, 1)
    assert summary.mean_loss == pytest.approx(0.3)
    assert summary.parameters == {"k": 10, "sample_rate": 0.9, "phi": 100}  # the same of every shard
    assert "sample rate 0.9, phi 100" in printed(summary)
    assert re.search(r"sampled out\s+8", printed(summary))


def test_the_longest_delay_is_that_of_the_slowest_shard() -> None:
    summary = summed([*ANOTHER, *ONE_SHARD], 1.0)
    assert summary.delay is not None
    assert summary.delay.longest == 131


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({7: 1}, DelaySummary(7, 7, 7)),
        ({1: 50, 2: 50}, DelaySummary(1, 2, 2)),
        ({1: 49, 2: 51}, DelaySummary(2, 2, 2)),
        ({0: 99, 500: 1}, DelaySummary(0, 0, 500)),
        ({0: 98, 500: 2}, DelaySummary(0, 500, 500)),
    ],
)
def test_percentiles_of_the_delay_are_those_of_the_nearest_rank(counts: dict[int, int], expected: DelaySummary) -> None:
    tuples = float(sum(counts.values()))
    rows = [("tuples_in", tuples), ("released", tuples), ("longest_delay", float(max(counts)))]
    rows += [(f"delay.{delay}", float(count)) for delay, count in counts.items()]
    assert summed(rows, 1.0).delay == expected


def test_a_job_without_a_row_has_a_summary() -> None:
    summary = summed([], 1.0)
    assert (summary.rows_in, summary.released, summary.mean_loss, summary.delay) == (0, 0, None, None)
    assert "rows in" in printed(summary)


@pytest.mark.parametrize(("released", "what"), [(89.0, "1 tuples are unaccounted for"), (92.0, "2 tuples .* twice")])
def test_tuples_that_are_not_accounted_for_are_an_error(released: float, what: str) -> None:
    rows = [(name, released if name == "released" else amount) for name, amount in ONE_SHARD]
    with pytest.raises(ValueError, match=what):
        summed(rows, 1.0)


def test_tuples_that_are_published_fully_generalized_are_suppressed_and_not_withheld() -> None:
    rows = [("tuples_in", 5.0), ("released", 5.0), ("suppressed.outlier", 2.0), ("releases.generalized", 2.0)]
    summary = summed([*rows, ("loss_sum", 2.0), ("delay.0", 5.0)], 1.0)
    assert (summary.released, summary.withheld, sum(summary.suppressed.values())) == (5, 0, 2)
    assert "outlier 2, published fully generalized" in printed(summary)


def test_tuples_of_the_forgotten_are_accounted_for() -> None:
    rows = [("tuples_in", 9.0), ("released", 5.0), ("forgotten", 4.0), ("loss_sum", 2.0), ("delay.0", 5.0)]
    summary = summed(rows, 1.0)
    assert (summary.forgotten, summary.rows_in, summary.withheld) == (4, 9, 0)
    assert re.search(r"forgotten\s+4\s+44\.4%", printed(summary))
    assert "forgotten" not in printed(summed(ANOTHER, 1.0))


def test_synthetic_records_are_accounted_for() -> None:
    rows = [("tuples_in", 5.0), ("synthetic", 3.0), ("released", 6.0), ("suppressed.too_few_subjects", 2.0)]
    summary = summed(
        [*rows, ("loss_sum", 2.0), ("delay.0", 5.0)], 1.0, Cells("cells.yaml", epsilon=1, delta=1e-6, sample_rate=0.5)
    )
    assert (summary.synthetic, summary.rows_in, summary.withheld) == (3, 5, 2)
    assert summary.as_json()["synthetic"] == 3


def test_json_holds_every_number_of_the_issue() -> None:
    read = json.loads(json.dumps(summed([*ONE_SHARD, *ANOTHER], 12.34567).as_json()))
    (warning,) = read.pop("warnings")
    assert warning.startswith("castle.reuse_limit: 7 of 100 released tuples")
    assert read == {
        "rows_in": 120,
        "sampled_out": 8,
        "released": 100,
        "suppressed": {"outlier": 4, "too_few_subjects": 6, "too_little_diversity": 0},
        "withheld": 10,
        "rejected": REJECTED,
        "forgotten": 0,
        "releases": 13,
        "releases_by_kind": {
            "cluster": 6,
            "merged": 0,
            "split": 0,
            "reused": 7,
            "generalized": 0,
            "again": 0,
            "widened": 0,
        },
        "reused": 7,
        "merges": 3,
        "splits": 1,
        "mean_loss": pytest.approx(0.3),
        "delay_tuples": {"p50": 50, "p99": 128, "max": 131},
        "parameters": {"k": 10, "sample_rate": 0.9, "phi": 100},
        "seconds": 12.346,
    }


def test_text_fits_80_columns_and_names_the_reasons() -> None:
    text = printed(summed([*ONE_SHARD, *ANOTHER], 12.5))
    assert max(len(line) for line in text.splitlines()) <= 80
    for part in ("120", "83.3%", "outlier 4, too few subjects 6", "missing 2", "cluster 6, reused 7", "0.300", "12.5"):
        assert part in text


def test_windows_tell_how_many_closed_and_what_was_repaired() -> None:
    shards = [
        [("tuples_in", 50.0), ("released", 48.0), ("suppressed.too_little_diversity", 2.0), ("loss_sum", 12.0)],
        [("tuples_in", 20.0), ("released", 20.0), ("loss_sum", 5.0)],
    ]
    closed = [[("windows", 3.0), ("swaps", 2.0), ("merges", 1.0)], [("windows", 1.0), ("swaps", 0.0), ("merges", 4.0)]]
    summary = summed([row for part in (*shards, *closed) for row in part], 1.0, Suhdsa(9))
    assert summary.counts == {"windows": 4, "swaps": 2, "merges": 5}
    assert summary.released == 68
    assert re.search(r"windows\s+4\s+repaired by swaps 2, merges 5", printed(summary))
    assert "too little diversity 2" in printed(summary)
    assert "splits" not in printed(summary)


def printed(summary: RunSummary) -> str:
    out = StringIO()
    Console(file=out, width=80).print(summary.as_table())
    return out.getvalue()
