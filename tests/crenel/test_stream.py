"""Streams within a process: one result however they are cut, stopped and restored, and every record once."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crenel
from crenel.results import Result
from tests.crenel.stream import ALGORITHMS, ROWS, START, records, settings
from tests.support.labels import in_interval

TABLE = records()
LATE = timedelta(minutes=20)
RESULTS = {
    "castle": "9d21885de7fb3550",
    "nearest": "d57052479c3ee655",
    "timed": "88c5918b42a7824f",
    "suhdsa": "31d1fde04a40b44d",
    "mondrian": "9ef43a746a1c3fd4",
    "ola": "af545115c4f1379f",
}
"""Hash of the tables of each algorithm."""
TABLES = ("released", "audit", "suppressed", "rejected")


@cache
def whole(algorithm: str, shards: int) -> Result:
    """Return the result of the whole table at once."""
    return crenel.anonymize(TABLE, settings(algorithm, shards), lateness=LATE, row_numbers=True)


def by_shard(result: Result) -> dict[int, list[tuple[tuple[int, ...], str]]]:
    """Return the releases of each shard, in order: their members and the rest of the audit record."""
    rows = iter(result.released["row"].to_pylist())
    found: dict[int, list[tuple[tuple[int, ...], str]]] = {}
    for record in result.audit.to_pylist():
        members = tuple(next(rows) for _ in range(record["tuples"]))
        found.setdefault(record["shard"], []).append((members, str(record)))
    return found


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_record_ends_once_and_lies_in_its_class(algorithm: str, shards: int) -> None:
    result = whole(algorithm, shards)
    ends = [row for name in ("released", "suppressed", "rejected") for row in getattr(result, name)["row"].to_pylist()]
    assert sorted(ends) == list(range(ROWS))
    assert sum(result.audit["tuples"].to_pylist()) == result.released.num_rows
    raw = TABLE.to_pylist()
    for record in result.released.to_pylist():
        of = raw[record["row"]]
        for name in ("age", "height"):
            if algorithm == "ola":
                assert in_interval(float(of[name]), record[name])
            else:
                assert record[f"{name}_min"] <= of[name] <= record[f"{name}_max"]
        assert record["area"] in (of["area"], "*", {"Lund": "Sweden"}.get(of["area"], "Norway"))
        assert {name: record[name] for name in ("diagnosis", "born", "tests", "clinic")} == {
            name: of[name] for name in ("diagnosis", "born", "tests", "clinic")
        }
    assert Counter(result.rejected["reason"].to_pylist()) == {"missing": 10, "unknown_category": 10}
    assert result.rejected["column"].to_pylist()[:2] == ["age", "area"]
    summary = result.summary
    assert (summary.read, summary.released, summary.buffered) == (ROWS, result.released.num_rows, 0)
    assert sum(summary.suppressed.values()) == result.suppressed.num_rows
    assert sum(summary.rejected.values()) == result.rejected.num_rows


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_results_are_the_same_with_each_version_of_numba_and_of_other_packages(algorithm: str) -> None:
    result = whole(algorithm, 3)
    result = replace(result, audit=result.audit.drop(["in_force"]))  # a hash of the settings, which are no result
    found = repr([getattr(result, name).to_pylist() for name in TABLES])
    assert blake2b(found.encode(), digest_size=8).hexdigest() == RESULTS[algorithm], (
        "the algorithm gives other results than it did: if that is meant, change RESULTS, and say so in CHANGELOG.md"
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_published_columns_have_the_types_of_the_data(algorithm: str) -> None:
    schema, source = whole(algorithm, 1).released.schema, TABLE.schema
    if algorithm != "ola":
        assert [schema.field(f"age_{end}").type for end in ("min", "max")] == [pa.int16()] * 2
        assert [schema.field(f"height_{end}").type for end in ("min", "max")] == [pa.decimal128(5, 1)] * 2
    for name in ("diagnosis", "born", "tests", "clinic"):
        assert schema.field(name).type == source.field(name).type
    assert whole(algorithm, 1).audit.schema.field("event_time").type == source.field("seen").type
    assert "person" not in schema.names


@given(
    algorithm=st.sampled_from([*ALGORITHMS]),
    shards=st.sampled_from((1, 3)),
    cuts=st.lists(st.integers(0, ROWS), max_size=5),
    stop=st.sets(st.integers(0, 5)),
)
def test_a_stream_gives_the_same_however_it_is_cut_and_restored(
    algorithm: str, shards: int, cuts: list[int], stop: set[int]
) -> None:
    made = settings(algorithm, shards)
    stream = crenel.open_stream(made, lateness=LATE, row_numbers=True)
    ends = [0, *sorted(cuts), ROWS]
    parts = []
    for i, (start, end) in enumerate(pairwise(ends)):
        parts.append(stream.push(TABLE.slice(start, end - start)))
        if i in stop:
            stream = crenel.open_stream(made, lateness=LATE, row_numbers=True, snapshot=stream.snapshot())
    parts.append(stream.finish())
    found, wanted = Result.joined(parts), whole(algorithm, shards)
    assert by_shard(found) == by_shard(wanted)
    for name in ("suppressed", "rejected"):
        order = [("row", "ascending")]
        assert getattr(found, name).sort_by(order) == getattr(wanted, name).sort_by(order)
    assert found.summary == wanted.summary


def test_a_push_publishes_what_is_due_and_a_watermark_the_rest() -> None:
    with crenel.open_stream(settings("timed")) as stream:
        first = stream.push(TABLE.slice(0, 200))
        assert 0 < first.released.num_rows < 200
        assert first.summary.buffered > 0
        later = stream.advance(START + timedelta(days=3))
        assert later.summary.buffered == 0
        assert stream.advance(0).audit.num_rows == 0  # an earlier watermark has no effect
        assert stream.advance(datetime(2026, 1, 9)).audit.num_rows == 0


def test_a_restored_stream_goes_on_from_its_watermark() -> None:
    made = settings("timed")
    stream = crenel.open_stream(made)
    stream.push(TABLE.slice(0, 200))
    stream.advance(START + timedelta(days=3))
    restored = crenel.open_stream(made, snapshot=stream.snapshot())
    late = [each.push(TABLE.slice(200, 50)) for each in (stream, restored)]
    assert late[0].summary.buffered == 0  # all of them are due at once
    assert late[1].summary == late[0].summary


def test_forgetting_erases_the_buffered_records_of_a_person() -> None:
    made = settings("nearest")
    stream = crenel.open_stream(made, row_numbers=True)
    parts = [stream.push(TABLE.slice(0, 50))]
    before = {row for part in parts for row in part.released["row"].to_pylist()}
    people = TABLE["person"].to_pylist()
    forgotten = {people[row] for row in range(30, 50)}
    parts += [stream.forget(sorted(forgotten)), stream.finish()]
    after = {row for part in parts for row in part.released["row"].to_pylist()} - before
    assert after
    assert not {people[row] for row in after} & forgotten
    with crenel.open_stream(made) as open_one:
        open_one.push(TABLE.slice(0, 50))
        open_one.forget({*people})
        assert len(open_one._rows) == len(open_one._rows.pieces[0].table) == 0  # nothing of them stays in memory
    assert parts[-1].summary.forgotten > 0
    with pytest.raises(ValueError, match="has finished"):
        stream.push(TABLE)


@pytest.mark.parametrize(
    ("column", "subjects"),
    [
        (["p12", "p", "1"], "p12"),
        (["p12", "p", "1"], b"p12"),
        (["5", "6", "7"], [5]),
        (["5", "6", "7"], ["5", None]),
        (["person", "6", "7"], pd.DataFrame({"person": ["6"]})),
        (["5", "6", "7"], {"5": 1}),
        (["5", "6", "7"], 5),
        ([5, 6, 7], [5.5]),
        ([5, 6, 7], ["5"]),
        ([0, 1, 2], [True]),
        ([5, 6, 7], np.array([5.0, np.nan])),
        ([2**53, 2**53 + 1], [2.0**53]),
        ([date(2024, 1, 1), date(2024, 1, 2)], [datetime(2024, 1, 1, 8)]),
        ([datetime(2024, 1, 1, 8)], [date(2024, 1, 1)]),
        (pa.array([1, 2], pa.timestamp("s")), [datetime(1970, 1, 1, 0, 0, 1, 500_000)]),
        (pa.array([1, 2], pa.decimal128(5, 2)), [Decimal("1.001")]),
    ],
)
def test_only_the_persons_that_are_named_exactly_are_forgotten(column: Any, subjects: Any) -> None:
    policy = crenel.Policy(subject="person", quasi_identifiers={"age": crenel.Numeric((0, 110))})
    with crenel.open_stream(replace(settings(), policy=policy, privacy=crenel.Privacy(k=9))) as stream:
        persons = pa.array(column)
        stream.push(pa.table({"person": persons, "age": range(len(persons))}))
        with pytest.raises(ValueError, match=r"^subjects: "):
            stream.forget(subjects)
        assert stream.forget(persons.slice(0, 1)).summary.forgotten == 1
        assert stream.forget(pd.Series(persons.to_pylist()[1:2])).summary.forgotten == min(len(persons), 2)


@pytest.mark.parametrize("role", ["sensitive", "passthrough", "quasi_identifiers"])
def test_row_numbers_replace_no_published_column(role: str) -> None:
    labels: Any = {"row": crenel.Categorical({"a": ["*"], "b": ["*"]})}
    roles: dict[str, Any] = {"quasi_identifiers": {"age": crenel.Numeric((0, 9))}}
    roles |= (
        {"quasi_identifiers": roles["quasi_identifiers"] | labels} if role == "quasi_identifiers" else {role: ["row"]}
    )
    made = replace(settings(), policy=crenel.Policy(**roles), privacy=crenel.Privacy(k=2))
    data = pa.table({"age": [1, 2], "row": ["a", "b"]})
    assert sorted(crenel.anonymize(data, made).released["row"].to_pylist()) in (["a", "b"], ["*", "*"])
    with pytest.raises(crenel.ConfigError, match=r"row_numbers: adds a column 'row', and released has one"):
        crenel.anonymize(data, made, row_numbers=True)


def test_nobody_is_forgotten_where_no_column_names_a_person() -> None:
    made = settings()
    made = replace(made, policy=replace(made.policy, subject=None, drop=["person"]))
    with pytest.raises(ValueError, match=r"policy\.subject: names no column"):
        crenel.open_stream(made).forget(["p1"])


def test_a_snapshot_holds_what_is_buffered_alone() -> None:
    made = settings("nearest")
    stream = crenel.open_stream(made)
    sizes = []
    for _ in range(12):
        stream.push(TABLE)
        sizes.append(len(stream.snapshot()))
    assert max(sizes) < 2 * sizes[0]


def test_a_push_copies_few_of_the_records_and_entries_that_are_buffered() -> None:
    stream = crenel.open_stream(replace(settings(), algorithm=crenel.Nearest(delay=crenel.Delay(tuples=10**6))))
    pushes, copied, entries = 64, 0, []
    for _ in range(pushes):
        stream.push(TABLE.slice(0, 10))
        copied += len(stream._rows.pieces[-1].numbers)
        entries.append(stream._opened.shards._shards[0].stored.entries["blocks"])
    assert len(stream._rows) == 10 * pushes
    assert entries[0] is entries[-1]
    assert len(entries[0]) == pushes
    assert copied <= 10 * pushes * 7  # a copy of all at each push would be 20,800


def test_a_snapshot_of_other_settings_is_refused_by_the_field_that_differs() -> None:
    stream = crenel.open_stream(settings("nearest"))
    stream.push(TABLE)
    saved = stream.snapshot()
    other = settings("nearest")
    attributes = {**other.policy.quasi_identifiers, "age": crenel.Numeric((0, 120))}
    other = replace(other, policy=replace(other.policy, quasi_identifiers=attributes))
    with pytest.raises(crenel.PolicyError, match="age"):
        crenel.open_stream(other, snapshot=saved)
    with pytest.raises(crenel.StateError):
        crenel.open_stream(settings("nearest"), snapshot=saved[:-1])


def test_a_snapshot_before_the_first_record_is_a_new_stream() -> None:
    made = settings("nearest")
    stream = crenel.open_stream(made, snapshot=crenel.open_stream(made).snapshot(), lateness=LATE, row_numbers=True)
    assert by_shard(Result.joined([stream.push(TABLE), stream.finish()])) == by_shard(whole("nearest", 1))


def test_a_record_dated_far_ahead_is_rejected_and_moves_no_watermark() -> None:
    made = settings("timed")
    made = replace(made, policy=replace(made.policy, event_time_limit="1 h"))
    ahead = TABLE["seen"].to_pylist()
    ahead[5] = START + timedelta(days=900)
    table = TABLE.set_column(TABLE.schema.get_field_index("seen"), "seen", pa.array(ahead, TABLE["seen"].type))
    result = crenel.anonymize(table, made, row_numbers=True)
    assert 5 in result.rejected["row"].to_pylist()
    assert result.summary.mean_loss is not None
    assert result.released.num_rows > 300


@pytest.mark.parametrize("time", [None, 10**15, -(10**15)])
def test_a_record_without_a_readable_time_ends_the_wait_of_no_others(time: int | None) -> None:
    made = crenel.Settings(
        policy=crenel.Policy(event_time="ms", quasi_identifiers={"age": crenel.Numeric((0, 110))}),
        privacy=crenel.Privacy(k=2),
        algorithm=crenel.Nearest(crenel.Delay(event_time="12 h")),
    )
    times = [1_600_000_000_000 + i for i in range(50)]
    with crenel.open_stream(made) as stream:
        result = stream.push(pa.table({"age": [30] * 51, "ms": pa.array([*times, time], pa.int64())}))
        assert (result.released.num_rows, result.rejected.num_rows) == (0, 1)
        assert stream.finish().released.num_rows == 50


@pytest.mark.parametrize("algorithm", ["castle", "nearest"])
def test_sampled_records_leave_nothing_behind(algorithm: str) -> None:
    noisy = settings("castle", sampling_and_noise=crenel.SamplingAndNoise(sample_rate=0.5, phi=50))
    if algorithm == "nearest":
        noisy = replace(noisy, algorithm=ALGORITHMS["nearest"])
    attributes = {
        name: replace(of, step=0.1) if name == "height" else of for name, of in noisy.policy.quasi_identifiers.items()
    }
    noisy = replace(noisy, policy=replace(noisy.policy, quasi_identifiers=attributes))
    stream = crenel.open_stream(noisy, row_numbers=True)
    for _ in range(30):
        result = stream.push(TABLE)
    assert result.summary.sampled_out > 3000
    assert len(stream._rows) < 10_000
    assert len(stream.snapshot()) < 400_000


def test_noised_values_and_pseudonyms_are_published_in_their_columns() -> None:
    made = settings("nearest", subject_key="sixteen bytes 16")
    attributes = {name: of for name, of in made.policy.quasi_identifiers.items() if name != "height"}
    made = replace(
        made,
        policy=replace(
            made.policy,
            quasi_identifiers=attributes,
            noised={"weight": crenel.Noised((30, 200))},
            pseudonym=crenel.Pseudonym("code", "release"),
            drop=["height"],
            neutralize_formulas=True,
            passthrough=["born", "tests", "clinic", "note", "large_note", "coded_note"],
        ),
        privacy=replace(made.privacy, noise_within_release=crenel.NoiseWithinRelease(epsilon=1.0)),
    )
    table = TABLE.append_column("weight", pa.array([60 + i % 50 for i in range(ROWS)], pa.uint8()))
    notes = pa.array(["=1+1", "'=1+1"] * (ROWS // 2))
    forms = {"note": notes, "large_note": notes.cast(pa.large_string()), "coded_note": notes.dictionary_encode()}
    for name, column in forms.items():
        table = table.append_column(name, column)
    result = crenel.anonymize(table, made)
    assert result.released.schema.field("weight").type == pa.uint8()
    for name, column in forms.items():
        assert result.released.schema.field(name).type == column.type
        assert set(result.released[name].to_pylist()) == {"'=1+1"}
    assert result.released["coded_note"].chunk(0).dictionary.to_pylist() == ["'=1+1"]
    assert set(map(len, result.released["code"].to_pylist())) == {32}
    assert {"linkable", "noise_error_weight", "noise_expected_weight"} <= set(result.audit.column_names)
    assert result.released["weight"].to_pylist() != table["weight"].to_pylist()


@pytest.mark.parametrize("algorithm", ["castle", "nearest"])
def test_the_repair_log_names_each_release_and_is_the_same_after_a_snapshot(algorithm: str) -> None:
    plain, logged = whole(algorithm, 3), crenel.anonymize(TABLE, settings(algorithm, 3), lateness=LATE, repairs=True)
    assert "repairs" not in plain.further
    log = logged.further["repairs"]
    released = log.filter(log["release_id"].is_valid()).select(["shard", "release_id"]).to_pylist()
    assert logged.audit.to_pylist() == plain.audit.to_pylist()
    assert released == logged.audit.select(["shard", "release_id"]).to_pylist()
    first = crenel.open_stream(settings(algorithm, 3), lateness=LATE, repairs=True)
    parts = [first.push(TABLE[: ROWS // 2])]
    second = crenel.open_stream(settings(algorithm, 3), lateness=LATE, repairs=True, snapshot=first.snapshot())
    parts += [second.push(TABLE[ROWS // 2 :]), second.finish()]
    keys = [("shard", "ascending"), ("release_id", "ascending"), ("position", "ascending")]
    assert pa.concat_tables([part.further["repairs"] for part in parts]).sort_by(keys) == log.sort_by(keys)


def test_an_algorithm_without_a_repair_log_refuses_to_write_one() -> None:
    with pytest.raises(crenel.ConfigError, match=r"repairs: mondrian has no such output; .*'algorithm: nearest'"):
        crenel.anonymize(TABLE, settings("mondrian", 1), repairs=True)


@pytest.mark.parametrize("odd", [lambda name: unicodedata.normalize("NFD", name), lambda name: f"{name} "])
def test_two_spellings_of_a_person_are_one_person_if_the_policy_says_so(odd: Callable[[str], str]) -> None:
    names = [f"\u00c5sa {number % 6}" for number in range(120)]
    spelled = [odd(name) if number // 6 % 2 else name for number, name in enumerate(names)]
    table = pa.table({"person": spelled, "age": [number * 7 % 60 for number in range(120)]})
    policy = crenel.Policy(subject="person", quasi_identifiers={"age": crenel.Numeric((0, 60))})
    settings = crenel.Settings(
        policy=policy, privacy=crenel.Privacy(k=8), algorithm=crenel.Nearest(crenel.Delay(tuples=60)), seed=1
    )
    assert crenel.anonymize(table, settings).released.num_rows > 0
    assert "6 of 12 values differ from another only in" in str(crenel.profile(table))
    policy = replace(policy, subject_normalization=["nfc", "trim"])
    settings = replace(settings, policy=policy, privacy=crenel.Privacy(k=6))
    assert "subject_normalization" in settings.to_yaml()
    assert crenel.anonymize(table, replace(settings, privacy=crenel.Privacy(k=8))).released.num_rows == 0
    plain = table.set_column(0, "person", pa.array(names))
    assert crenel.anonymize(table, settings).released.equals(crenel.anonymize(plain, settings).released)
    with crenel.open_stream(settings) as stream:
        stream.push(table.slice(0, 60))
        stream.forget([odd("\u00c5sa 3")])
        assert stream.summary.forgotten == 10
