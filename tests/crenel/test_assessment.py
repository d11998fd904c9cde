"""Verification and attacks of results within a process."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import crenel
import crenel.evidence.figures
from crenel.operators.digests import in_force_digest
from crenel.results import Result
from tests.crenel.stream import ALGORITHMS, records, settings


def broken(result: Result, of: crenel.Settings) -> list[str]:
    """Return the names of the violated statements."""
    return [check.name for check in crenel.verify(result, of).checks if check.outcome == "broken"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["pyarrow", "pandas"])
def test_a_result_holds_under_its_settings(algorithm: str, kind: str) -> None:
    of = settings(algorithm, shards=2)
    table: Any = records()
    if kind == "pandas":
        table = table.drop(["tests"]).to_pandas()
        of = replace(of, policy=replace(of.policy, passthrough=["born", "clinic"]))
    verdict = crenel.verify(crenel.anonymize(table, of), of)
    assert [check for check in verdict.checks if check.findings] == []
    assert verdict.outcome == "holds"
    (lost,) = [check for check in verdict.checks if check.name == "nothing lost"]
    assert (lost.outcome, lost.words.endswith("; 400 records read")) == ("holds", True)
    assert verdict.to_arrow()["statement"].to_pylist() == [check["name"] for check in verdict.to_dict()["checks"]]


def test_changed_results_are_broken() -> None:
    of = settings()
    result = crenel.anonymize(records(), of)
    assert broken(replace(result, released=result.released.slice(1)), of)
    assert broken(replace(result, audit=result.audit.slice(1)), of)
    same = pa.array(["flu"] * result.released.num_rows)
    position = result.released.column_names.index("diagnosis")
    equal = replace(result, released=result.released.set_column(position, "diagnosis", same))
    assert "l of diagnosis" in broken(equal, of)
    assert "in force" in broken(result, replace(of, privacy=crenel.Privacy(k=5, l=2)))


def test_a_stream_whose_k_was_raised_and_lowered_again_holds_under_both_settings_together() -> None:
    lower = replace(settings(), algorithm=crenel.Nearest(crenel.Delay(tuples=40)))
    higher = replace(lower, privacy=replace(lower.privacy, k=2 * lower.privacy.k))
    parts, kept = list[Result](), None
    for seed, of in enumerate((lower, higher, lower)):
        stream = crenel.open_stream(of, snapshot=kept)
        parts.append(stream.push(records(300, seed=seed)))
        kept = stream.snapshot()
    result = Result.joined([*parts, stream.finish()])
    assert result.summary.shards
    verdict = crenel.verify(result, [lower, higher])
    assert verdict.outcome == "holds", [check for check in verdict.checks if check.findings]
    names = [check.name for check in verdict.checks]
    assert [name for name in names if name.startswith("k under")] == ["k under settings[0]", "k under settings[1]"]
    assert broken(result, lower) == ["in force"]
    assert {"in force", "k"} <= {*broken(result, higher)}
    # Outputs that lose a release, and a person in a release of the higher k.
    lost = replace(result, audit=result.audit.slice(1))
    assert {"release ids", "cover"} <= {c.name for c in crenel.verify(lost, [lower, higher]).checks if c.findings}
    stated = [higher.privacy.k - 1 if k == higher.privacy.k else n for n, k in _pairs(result.audit)]
    fewer = result.audit.set_column(result.audit.column_names.index("subjects"), "subjects", pa.array(stated))
    found = crenel.verify(replace(result, audit=fewer), [lower, higher])
    assert [check.name for check in found.checks if check.findings] == ["k under settings[1]"]
    with pytest.raises(crenel.ConfigError, match=r"shards\.count: not the same in settings\[0\] and settings\[1\]"):
        crenel.verify(result, [lower, replace(lower, shards=crenel.Shards(count=2))])


def test_the_hash_of_settings_in_force_counts_what_a_release_is_judged_by() -> None:
    of = crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}, sensitive=["diagnosis"]),
        privacy=crenel.Privacy(k=2, l=2),
        algorithm=crenel.Nearest(crenel.Delay(tuples=100)),
    )
    assert in_force_digest(of) == "f5a5cc2c98cc4532"  # as outputs state it, which later versions verify
    same = [
        replace(of, algorithm=crenel.Nearest(crenel.Delay(tuples=7))),
        replace(of, subject_key=b"0123456789abcdef", seed=5),
    ]
    others = [
        replace(of, privacy=crenel.Privacy(k=3, l=2)),
        replace(of, privacy=crenel.Privacy(k=2, l=2, alpha=0.9)),
        replace(of, privacy=replace(of.privacy, sensitive={"diagnosis": crenel.Sensitive(l=1)})),
        replace(of, policy=replace(of.policy, passthrough=["clinic"])),
        replace(of, policy=replace(of.policy, sensitive=["diagnosis", "ward"])),
        replace(of, policy=replace(of.policy, quasi_identifiers={"age": crenel.Numeric((0, 110), ends=5)})),
        replace(of, policy=replace(of.policy, quasi_identifiers={"age": crenel.Numeric((0, 110), publish="mean")})),
        replace(of, algorithm=crenel.Nearest(crenel.Delay(tuples=100), suppression="generalize")),
        replace(of, shards=crenel.Shards(count=2)),
    ]
    assert {*map(in_force_digest, same)} == {in_force_digest(of)}
    assert len({*map(in_force_digest, (of, *others))}) == 1 + len(others)


def _pairs(audit: pa.Table) -> list[tuple[int, int]]:
    return list(zip(audit["subjects"].to_pylist(), audit["k"].to_pylist(), strict=True))


def test_a_lost_record_is_found_by_the_counts_of_the_stream() -> None:
    of = replace(settings(), algorithm=crenel.Nearest(crenel.Delay(tuples=5)))
    with crenel.open_stream(of) as stream:
        parts = [stream.push(records(200))]
        kept = stream.snapshot()
    assert parts[0].summary.shards == {}  # a stream that has not ended has no final counts
    with crenel.open_stream(of, snapshot=kept) as stream:
        parts += [stream.push(records(100, seed=4)), stream.finish()]
    result = Result.joined(parts)
    assert broken(result, of) == []
    assert result.suppressed.num_rows > 1
    assert result.rejected.num_rows > 1
    summary = result.summary
    assert broken(replace(result, suppressed=result.suppressed.slice(1)), of) == ["counts"]
    assert broken(replace(result, rejected=result.rejected.slice(1)), of) == ["nothing lost"]
    assert broken(replace(result, summary=replace(summary, read=summary.read + 1)), of) == ["nothing lost"]
    counts = {shard: {**amounts, "tuples_in": amounts["tuples_in"] + 1} for shard, amounts in summary.shards.items()}
    assert broken(replace(result, summary=replace(summary, read=summary.read + 1, shards=counts)), of) == [
        "nothing lost"
    ]


def test_a_table_of_other_settings_is_refused() -> None:
    of = settings()
    result = crenel.anonymize(records(), of)
    with pytest.raises(ValueError, match=r"result\.released: lacks the column 'age_min'"):
        crenel.verify(replace(result, released=result.released.drop(["age_min"])), of)
    named = result.audit.set_column(0, result.audit.column_names[0], pa.array(["x"] * result.audit.num_rows))
    with pytest.raises(ValueError, match="is not of type int64"):
        crenel.verify(replace(result, audit=named), of)


def test_attacks_on_replays() -> None:
    of, table = settings(shards=2), records(800)
    replays = crenel.attack(table, of, seeds=1, targets=100)
    assert {attack.judged for attack in replays.attacks} == {"replay"}
    names = [attack.name for attack in replays.attacks]
    assert {"re-identification at 1", "linking", "disclosure of diagnosis"} <= set(names)
    assert replays.to_arrow()["name"].to_pylist() == names
    assert pc.min(replays.to_arrow()["success"]).as_py() >= 0


def test_attacks_on_a_result_succeed_as_often_as_a_guess_among_all_records_that_fit() -> None:
    of, table = settings(shards=2), records(800)
    result = crenel.anonymize(table, of)
    outputs = crenel.attack(table, of, result=result, seeds=1, targets=10_000)
    assert {attack.judged for attack in outputs.attacks} == {"outputs"}
    assert outputs.to_dict()["released"] == outputs.released == result.released.num_rows
    people = [r for r in table.to_pylist() if r["age"] is not None and r["area"] != "Mars"]
    areas = {"*": {"Oslo", "Bergen", "Lund"}, "Norway": {"Oslo", "Bergen"}, "Sweden": {"Lund"}}
    guesses = [
        1
        / sum(
            row["age_min"] <= person["age"] <= row["age_max"]
            and row["height_min"] <= person["height"] <= row["height_max"]
            and person["area"] in areas.get(row["area"], {row["area"]})
            for person in people
        )
        for row in result.released.to_pylist()
    ]
    expected = sum(guesses) / len(guesses)
    linking = next(a for a in outputs.attacks if (a.name, a.knows) == ("linking", "quasi-identifiers"))
    assert linking.success == pytest.approx(expected)
    assert linking.baseline == pytest.approx(1 / len(people))
    assert linking.low > 10 * linking.baseline  # what is released narrows the persons down


def test_a_replay_releases_as_many_records_as_the_stream() -> None:
    from crenel.evidence.replay import replay
    from crenel.stream import read_sample

    for algorithm in ("nearest", "timed", "mondrian"):
        of, table = settings(algorithm, shards=2), records()
        summary, totals = crenel.anonymize(table, of).summary, replay(*read_sample(table, of))
        assert (totals.released, totals.mean_loss) == (summary.released, pytest.approx(summary.mean_loss))


def test_attacks_need_records_and_the_data_of_the_result() -> None:
    of = settings()
    with pytest.raises(ValueError, match="data: has 0 valid records"):
        crenel.attack(records().slice(0, 0), of)
    result = crenel.anonymize(records(), of)
    with pytest.raises(crenel.AttackError, match=r"result\.released: .* give the data of the result") as error:
        crenel.attack(records(20), of, result=result)
    assert "--sample" not in str(error.value)
    with pytest.raises(
        crenel.AttackError, match=r"result\.released: no record of data lies in .* give the data of the re"
    ):
        crenel.attack(records(seed=9), of, result=result)
    with pytest.raises(crenel.AttackError, match="data has 3 persons"):
        crenel.attack(records(3), of)


def test_a_figure_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"install crenel with its extra 'plot'"):
        crenel.evidence.figures.budget_figure(10, 0.5)


def test_a_budget_needs_sampling_and_noise() -> None:
    with pytest.raises(crenel.PolicyError, match="sampling_and_noise: is missing"):
        crenel.budget(settings())
