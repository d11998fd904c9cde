"""The figures of ``crenel why``, held to what a replay counts and to tables made by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.evidence.outputs import RunOutputs
from crenel.evidence.replay import replay_outputs
from crenel.evidence.sample import ReplaySetting
from crenel.evidence.why.explanation import RejectedRows, repairs_of, run_figures, suppressed_tuples
from crenel.jobs.config.load import Config, load
from tests.evidence.test_replay import sample_of, setting_of
from tests.support.example_counts import FEW
from tests.support.strategies import Case, cases

DEMO = Path(__file__).resolve().parents[3] / "conf" / "demo.yaml"


@FEW
@given(case=cases(), shards=st.sampled_from((1, 3)))
def test_each_suppressed_tuple_is_known_published_or_not(case: Case, shards: int) -> None:
    replayed = replay_outputs(sample_of(case.setting, case), setting_of(case, shards))
    mask = suppressed_tuples(replayed)
    if mask is None:
        assert case.setting.sampling_and_noise is not None
        return
    assert mask.sum() == sum(replayed.totals.suppressed.values())
    assert mask[replayed.suppressed_row].all()


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("CRENEL_DEMO_INPUT", "/nowhere/in.csv")
    monkeypatch.setenv("CRENEL_DEMO_OUTPUT", "/nowhere")
    return load(DEMO)


def setting(config: Config) -> ReplaySetting:
    return ReplaySetting(config.algorithm, config.privacy)


def test_of_a_run_its_reasons_losses_and_rejected_rows_are_told(config: Config) -> None:
    root = {a.name: a.hierarchy.labels[a.hierarchy.root] for a in config.policy.categorical}
    released = {"age_min": [18, 18], "age_max": [59, 100], "salary_min": [0, 0], "salary_max": [10, 10]}
    generalization = released | {name: [label] * 2 for name, label in root.items()}
    audit = {"kind": ["cluster", "generalized"], "tuples": [12, 1], "loss": [0.875, 1.0]}
    run = RunOutputs(
        config.policy,
        pa.table({"age_min": [18] * 13}),
        pa.table(audit | generalization),
        pa.table({"reason": ["outlier", "outlier", "too_few_subjects"]}),
        pa.table({"column": ["age"] * 21 + ["area"] * 9, "reason": ["missing"] * 21 + ["unknown_category"] * 9}),
    )
    result = run_figures(run, setting(config))
    assert (result.released, result.fully_generalized) == (13, 1)
    assert result.suppressed == {"outlier": 2, "too_few_subjects": 1}
    assert result.losses == pytest.approx({"age": (12 * 0.5 + 1) / 13, "area": 1, "education": 1, "salary": 1})
    assert result.rejected == (RejectedRows("age", "missing", 20), RejectedRows("area", "unknown_category", 0))


def test_a_run_that_kept_released_rows_alone_tells_their_losses_and_no_reasons(config: Config) -> None:
    leaf = {a.name: a.hierarchy.labels[0] for a in config.policy.categorical}
    ends = {"age_min": [18, 18], "age_max": [59, 18], "salary_min": [0, 0], "salary_max": [10, 5]}
    run = RunOutputs(config.policy, pa.table(ends | {name: [label] * 2 for name, label in leaf.items()}))
    result = run_figures(run, setting(config))
    assert result.losses == pytest.approx({"age": 0.25, "area": 0, "education": 0, "salary": 0.75})
    assert (result.suppressed, result.fully_generalized, result.rejected) == (None, None, ())


def test_repairs_are_counted_by_what_lacked_with_their_loss_before_and_after(config: Config) -> None:
    audit = {"shard": [0, 0, 0, 1], "release_id": [0, 1, 2, 0], "tuples": [10, 30, 5, 8], "loss": [0.5, 0.3, 0.1, 0.9]}
    log = {
        "shard": [0, 0, 0, 1, 1],
        "release_id": [0, 1, 2, 0, None],
        "lacked": ["too_few_subjects", "too_few_subjects", None, "alpha", "alpha"],
        "loss_before": [0.1, 0.2, None, 0.1, 0.0],
        "reused_release": pa.array([None, None, None, None, None], pa.int64()),
    }
    run = RunOutputs(config.policy, pa.table({}), pa.table(audit), further={"repairs": pa.table(log)})
    few, alpha = repairs_of(run)
    assert (alpha.lacked, alpha.releases, alpha.tuples) == ("alpha", 1, 8)
    assert (alpha.before, alpha.after) == pytest.approx((0.1, 0.9))
    assert (few.lacked, few.releases, few.tuples) == ("too_few_subjects", 2, 40)
    assert (few.before, few.after) == pytest.approx((7 / 40, 14 / 40))
    assert repairs_of(RunOutputs(config.policy, pa.table({}), pa.table(audit))) == ()
    reused = log | {"reused_release": pa.array([7] * 5)}
    assert (
        repairs_of(RunOutputs(config.policy, pa.table({}), pa.table(audit), further={"repairs": pa.table(reused)}))
        == ()
    )
