"""A summary says what to read it with, and what to do about it."""

from __future__ import annotations

import pytest

from crenel.anonymity.algorithm import Algorithm
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.ola.algorithm import Ola
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.outcomes import LINKABLE, REUSE_RISK, SUPPRESSIONS
from crenel.anonymity.model.policy import Policy
from crenel.jobs.local.summary import RunSummary

CASTLE = Castle(Delay(9))
CELLS = Cells("cells.yaml", epsilon=1, delta=1e-6, sample_rate=0.5)
PLAIN = {"tuples_in": 1000.0, "released": 1000.0}


POLICY = Policy(
    quasi_identifiers={"wage": Numeric((0.0, 9.0))}, subject="person", event_time="seen", sensitive=("illness",)
)


def warnings(changed: dict[str, float], field: str | None = "castle.delay.event_time") -> list[str]:
    rows = [(0, *row) for row in (PLAIN | changed).items()]
    return RunSummary.of(rows, 1.0, CASTLE, (*SUPPRESSIONS, LINKABLE), field, policy=POLICY).warnings


@pytest.mark.parametrize(
    ("changed", "beginning", "remedy"),
    [
        (
            {"released": 80.0, "suppressed.too_little_diversity": 900.0, "suppressed.outlier": 20.0},
            "suppressed: 92% of the tuples, most of them as too little diversity",
            "read it in the order of its events",
        ),
        (
            {"released": 500.0, "suppressed.too_few_subjects": 500.0},
            "suppressed: 50% of the tuples, most of them as too few subjects",
            "divide the stream into fewer shards",
        ),
        (
            {"released": 500.0, "suppressed.outlier": 500.0},
            "suppressed: 50% of the tuples, most of them as outlier",
            "keep fewer clusters open",
        ),
        (
            {"released": 850.0, "suppressed.outlier": 20.0, "suppressed.linkable": 130.0},
            "suppressed: 15% of the tuples, most of them as linkable",
            "lower privacy.noise_within_release.confidence.k or privacy.noise_within_release.epsilon. Larger windows",
        ),
        (
            {"readers_without_watermark": 1.0, "event_time_standstill_s": 25.0},
            "source.ddl: no watermark came from 1 parallel reader of the source in 25 s, so no record was due",
            "give 'scan.watermark.idle-timeout'",
        ),
        ({"stretch.wage": 2.5}, "policy.quasi_identifiers.wage.domain: is not given", "give the domain"),
        ({"releases.reused": 7.0}, "castle.reuse_limit: 7 of 1,000 released tuples were published alone", REUSE_RISK),
        (
            {"rejected.missing": 250.0, "rejected_in.missing.wage": 240.0, "rejected_in.missing.person": 10.0},
            "policy.quasi_identifiers.wage: 240 of 1,250 rows (19.2%) are rejected as missing: it is absent",
            "'missing: value' of this attribute",
        ),
        (
            {"rejected.missing": 150.0, "rejected_in.missing.illness": 150.0},
            "policy.sensitive: column 'illness': 150 of 1,150",
            "'policy.missing: value' admits",
        ),
        (
            {"rejected.missing": 150.0, "rejected_in.missing.person": 150.0},
            "policy.subject: 150 of 1,150",
            "A record without a person is never admitted",
        ),
        (
            {"released": 200.0, "suppressed.too_few_subjects": 800.0, "late": 700.0},
            "castle.delay.event_time: 70% of the tuples were due when they arrived",
            "set policy.event_time_limit",
        ),
        ({"overdue": 600.0}, "castle.delay.event_time: 60% of the tuples left after", "'on-event'"),
    ],
)
def test_what_surprises_is_said_with_the_remedy(changed: dict[str, float], beginning: str, remedy: str) -> None:
    [warning] = warnings(changed)
    assert warning.startswith(beginning)
    assert remedy in warning


def test_an_ordinary_run_is_not_warned_of() -> None:
    usual = {"released": 950.0, "suppressed.outlier": 50.0, "stretch.wage": 1.9, "overdue": 400.0}
    assert warnings(usual | {"late": 99.0, "rejected.missing": 99.0, "rejected_in.missing.wage": 99.0}) == []
    assert warnings({"overdue": 1000.0}, None) == []
    few = {"tuples_in": 90.0, "released": 0.0, "suppressed.too_few_subjects": 90.0}
    assert warnings(few) == []


@pytest.mark.parametrize(("came", "warned"), [((590, 10, 400), False), ((610, 10, 380), True), ((10, 10, 980), False)])
def test_a_shard_that_gets_more_than_twice_its_expected_share_is_told(came: tuple[int, ...], warned: bool) -> None:
    rows = [(shard, name, float(n)) for shard, n in enumerate(came) for name in ("tuples_in", "released")]
    found = RunSummary.of(rows, 1.0, CASTLE, SUPPRESSIONS, None, (0.3, 0.1, 0.6)).warnings
    assert len(found) == warned
    for warning in found:
        assert warning.startswith("shards.regions: shard 0 got 2.03 times its expected share of the tuples")
        assert "crenel regions" in warning
    assert RunSummary.of(rows, 1.0, CASTLE, SUPPRESSIONS, None).warnings == []


def test_keys_of_too_few_records_are_not_blamed_on_persons_or_shards() -> None:
    rows = [(0, *row) for row in (PLAIN | {"released": 500.0, "suppressed.too_few_subjects": 500.0}).items()]
    [warning] = RunSummary.of(rows, 1.0, CELLS, SUPPRESSIONS).warnings
    assert "too few records shared all values that would have been published" in warning
    assert "people" not in warning
    assert "shards" not in warning


@pytest.mark.parametrize(
    "algorithm", [CASTLE, Nearest(Delay(9)), Suhdsa(9), Mondrian(), Ola(), CELLS], ids=lambda found: found.name
)
def test_a_summary_of_every_algorithm_can_be_read_and_written(algorithm: Algorithm) -> None:
    rows = [(0, *row) for row in PLAIN.items()]
    summary = RunSummary.of(rows, 1.0, algorithm, SUPPRESSIONS, None)
    assert summary.as_table().row_count >= 5
    assert summary.as_json()["released"] == 1000


def test_an_input_without_rows_is_told_with_what_to_check() -> None:
    (warning,) = warnings({"tuples_in": 0.0, "released": 0.0})
    assert warning.startswith("source.ddl: no row was read, so nothing was published; check the path")
    assert warnings({"tuples_in": 0.0, "released": 0.0, "rejected.missing": 1.0}) == []
