"""Sensitive arrays in a program: each privacy model counts a person once for each value of the person's array."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from math import log
from typing import Any

import pyarrow as pa
import pytest

import crenel

ILLNESSES = ("flu", "asthma", "diabetes", "gout", "angina", "migraine", "eczema", "cancer")
K = 5

ALGORITHMS: dict[str, Any] = {
    "nearest": crenel.Nearest(delay=crenel.Delay(tuples=60)),
    "castle": crenel.Castle(delay=crenel.Delay(tuples=60)),
    "mondrian": crenel.Mondrian(window=crenel.Window(tuples=100)),
    "ola": crenel.Ola(window=crenel.Window(tuples=100), max_suppression=0.3),
}


def settings(algorithm: str, privacy: crenel.Privacy, **policy: Any) -> crenel.Settings:
    levels = crenel.Numbers(domain=(0, 99), levels=[5, 10, 50])
    age = crenel.Categorical(levels) if algorithm == "ola" else crenel.Numeric((0, 99))
    arrays = {"subject": "person", "sensitive": ["illnesses"], "arrays": {"illnesses": 3}} | policy
    return crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"age": age}, **arrays),
        privacy=privacy,
        algorithm=ALGORITHMS[algorithm],
        seed=7,
    )


def records(count: int, *, persons: int | None = None, seed: int = 1) -> pa.Table:
    """Return records with up to three illnesses each, the first ones more common; some have none."""
    draw = random.Random(seed)
    common = [len(ILLNESSES) - i for i in range(len(ILLNESSES))]
    sets = [list(dict.fromkeys(draw.choices(ILLNESSES, common, k=draw.randrange(4)))) for _ in range(count)]
    return pa.table(
        {
            "person": [f"p{i if persons is None else draw.randrange(persons)}" for i in range(count)],
            "age": [draw.randrange(100) for _ in range(count)],
            "illnesses": pa.array(sets, pa.list_(pa.string())),
        }
    )


def classes(result: crenel.Result, data: pa.Table) -> list[dict[str, set[str | None]]]:
    """Return the values of each person, by the class of the records; a person without a value has a missing one."""
    found = []
    rows = result.released["row"].to_pylist()
    given = data.to_pylist()
    start = 0
    for tuples in result.audit["tuples"].to_pylist():
        members: dict[str, set[str | None]] = {}
        for row in rows[start : start + tuples]:
            members.setdefault(given[row]["person"], set()).update(given[row]["illnesses"] or [None])
        found.append(members)
        start += tuples
    return found


def diversity(members: dict[str, set[str | None]]) -> int:
    """Return the largest l for which the l - 1 most common values have fewer persons in sum than the class."""
    counts = sorted(Counter(value for values in members.values() for value in values).values(), reverse=True)
    l, total = 1, 0  # noqa: E741
    for count in counts:
        total += count
        if total >= len(members):
            return l
        l += 1  # noqa: E741
    return l - 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_few_values_are_true_of_all_persons_of_a_class(algorithm: str) -> None:
    data = records(400, persons=300)
    result = crenel.anonymize(data, settings(algorithm, crenel.Privacy(k=K, l=3)), row_numbers=True)
    assert result.released["illnesses"].to_pylist() == [
        data["illnesses"][row].as_py() for row in result.released["row"].to_pylist()
    ]
    assert result.released.num_rows > 250
    assert result.released.num_rows + result.suppressed.num_rows == 400
    made = classes(result, data)
    assert [len(members) for members in made] == result.audit["subjects"].to_pylist()
    assert [diversity(members) for members in made] == result.audit["diversity_illnesses"].to_pylist()
    assert min(map(diversity, made)) >= 3
    assert min(map(len, made)) >= K


def test_a_value_of_everybody_is_no_diversity_however_many_others_there_are() -> None:
    sets = [["flu", other] for other in ILLNESSES[1:]] * 5
    data = pa.table({"person": [f"p{i}" for i in range(35)], "age": [30] * 35, "illnesses": sets})
    for algorithm in ALGORITHMS:
        result = crenel.anonymize(data, settings(algorithm, crenel.Privacy(k=K, l=2)))
        assert result.released.num_rows == 0
        assert result.suppressed.num_rows == 35


@pytest.mark.parametrize("algorithm", ["nearest", "mondrian"])
def test_the_share_of_persons_with_a_value_is_bounded(algorithm: str) -> None:
    data = records(400)
    privacy = crenel.Privacy(k=K, l=1, alpha=0.5, entropy_l=2.5)
    result = crenel.anonymize(data, settings(algorithm, privacy), row_numbers=True)
    assert result.released.num_rows > 200
    for members in classes(result, data):
        counts = Counter(value for values in members.values() for value in values)
        assert max(counts.values()) <= 0.5 * len(members)
        left, once = len(members), []  # each person counts for the commonest value that has room
        for count in sorted(counts.values(), reverse=True):
            once.append(min(count, left))
            left -= once[-1]
        shares = [count / len(members) for count in once if count]
        assert -sum(share * log(share) for share in shares) >= log(2.5) - 1e-9


def test_one_value_each_is_treated_as_a_plain_column() -> None:
    data = records(300, persons=200)
    one = [values[:1] or ["none"] for values in data["illnesses"].to_pylist()]
    arrays = data.set_column(2, "illnesses", pa.array(one, pa.list_(pa.string())))
    plain = data.set_column(2, "illnesses", pa.array([value for (value,) in one]))
    for algorithm in ("nearest", "mondrian"):
        privacy = crenel.Privacy(k=K, l=2, t=0.5)
        left = crenel.anonymize(arrays, settings(algorithm, privacy, arrays={"illnesses": 1}))
        right = crenel.anonymize(plain, settings(algorithm, privacy, arrays={}))
        assert left.audit.drop(["in_force"]).equals(right.audit.drop(["in_force"]))  # a hash of the settings
        assert [[value] for value in right.released["illnesses"].to_pylist()] == left.released["illnesses"].to_pylist()


def test_order_and_repetition_in_an_array_change_nothing() -> None:
    data = records(200)
    repeated = [[*reversed(values), *values] for values in data["illnesses"].to_pylist()]
    other = data.set_column(2, "illnesses", pa.array(repeated, pa.list_(pa.string())))
    made = [crenel.anonymize(of, settings("nearest", crenel.Privacy(k=K, l=3))) for of in (data, other)]
    assert made[0].audit.equals(made[1].audit)


ELEMENTS: dict[pa.DataType, Any] = {
    pa.date32(): [date(2024, 2, 24 + i) for i in range(6)],
    pa.date64(): [date(2024, 2, 24 + i) for i in range(6)],
    pa.decimal128(20, 9): [Decimal(-i).scaleb(-9) for i in range(6)],
    pa.uint64(): [2**64 - 1 - i for i in range(6)],
    pa.time32("s"): [time(8, i) for i in range(6)],
    pa.time64("us"): [time(8, 0, 0, i) for i in range(6)],
    pa.timestamp("ms"): [datetime(2024, 2, 29, 8, 0, i) for i in range(6)],
    pa.timestamp("ns", "UTC"): [datetime(2024, 2, 29, 8, i, tzinfo=timezone.utc) for i in range(6)],
    pa.timestamp("us", "Europe/Berlin"): [
        datetime(2024, 10, 27, tzinfo=timezone.utc) + timedelta(hours=i) for i in range(6)
    ],
}


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_elements_of_days_times_and_decimals_are_values_like_their_texts(element: pa.DataType) -> None:
    draw = random.Random(1)
    sets = [draw.choices(ELEMENTS[element], range(6, 0, -1), k=draw.randrange(4)) for _ in range(200)]
    typed = pa.array(sets, pa.large_list(element))
    data = pa.table({"person": range(200), "age": [draw.randrange(100) for _ in range(200)], "illnesses": typed})
    texts = data.set_column(2, "illnesses", typed.cast(pa.list_(pa.string())))
    of = settings("nearest", crenel.Privacy(k=K, l=3, alpha=0.6))
    result, plain = (crenel.anonymize(each, of, row_numbers=True) for each in (data, texts))
    assert result.audit.equals(plain.audit)
    assert result.released.num_rows > 100
    assert result.released["illnesses"].type == typed.type
    assert result.released["illnesses"].to_pylist() == typed.take(result.released["row"].combine_chunks()).to_pylist()
    assert crenel.verify(result, of).outcome == "holds"
    left, right = (
        crenel.attack(each, of, seeds=1, targets=50, result=made).attacks
        for each, made in ((data, result), (texts, plain))
    )
    assert [(attack.name, attack.success) for attack in left] == [(attack.name, attack.success) for attack in right]
    assert any(attack.name == "disclosure of illnesses" and attack.success for attack in left)
    column = result.released.column_names.index("illnesses")
    same = pa.array([sets[0] and sets[0][:1]] * result.released.num_rows, typed.type)
    worse = crenel.verify(replace(result, released=result.released.set_column(column, "illnesses", same)), of)
    assert {check.name for check in worse.checks if check.outcome == "broken"} >= {"l of illnesses"}
    frame = result.released.to_pandas()
    assert crenel.verify(replace(result, released=frame), of).outcome == "holds"


def test_elements_without_exact_values_are_refused_with_the_types_that_have_them() -> None:
    data = records(10).set_column(2, "illnesses", pa.array([[0.5]] * 10))
    words = r"policy\.arrays\.illnesses: .*ARRAY<DOUBLE>.*text, whole numbers, DECIMAL, DATE, .*remove it"
    with pytest.raises(crenel.ConfigError, match=words):
        crenel.anonymize(data, settings("nearest", crenel.Privacy(k=2)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_field_of_the_rows_of_a_list_is_an_array(algorithm: str) -> None:
    plain = records(400, persons=300)
    stays = [
        [{"illness": each, "ward": {"id": len(each), "bed": 1}, "note": "Ann"} for each in illnesses]
        for illnesses in plain["illnesses"].to_pylist()
    ]
    nested = plain.drop(["illnesses"]).append_column("stays", pa.array(stays))
    names = {"illness": "stays[*].illness", "ward": "stays[*].ward.id"}
    policy = {
        "sensitive": [names["illness"]],
        "arrays": {names["illness"]: 3},
        "passthrough": [names["ward"]],
        "drop": ["stays[*].note", "stays[*].ward.bed"],
    }
    privacy = crenel.Privacy(k=K, l=3)
    left = crenel.anonymize(plain, settings(algorithm, privacy))
    of = settings(algorithm, privacy, **policy)
    right = crenel.anonymize(nested, of)
    renamed = [name.replace("illnesses", names["illness"]) for name in left.audit.column_names]
    # The hash of the settings in force counts the names of columns.
    assert left.audit.rename_columns(renamed).drop(["in_force"]).equals(right.audit.drop(["in_force"]))
    illnesses = right.released[names["illness"]].to_pylist()
    assert illnesses == left.released["illnesses"].to_pylist()
    assert right.released[names["ward"]].to_pylist() == [[len(each) for each in values] for values in illnesses]
    assert "Ann" not in str(right.released.to_pylist())
    assert crenel.verify(right, of).outcome == "holds"
    left_attack, right_attack = (
        crenel.attack(data, by, seeds=1, targets=50, result=result).attacks
        for data, by, result in ((plain, settings(algorithm, privacy), left), (nested, of, right))
    )
    for before, after in zip(left_attack, right_attack, strict=True):
        assert before.name.replace("illnesses", names["illness"]) == after.name
        assert before.success == after.success
    assert names["illness"] in crenel.report(right, of, data=nested)
    assert crenel.why(nested, of, rows=300)


def test_missing_rows_and_fields_are_missing_values_and_leave_their_places() -> None:
    kind = pa.list_(pa.struct([("illness", pa.string()), ("ward", pa.int8())]))
    flu = {"illness": "flu", "ward": 1}
    stays = [[flu], [], None, [None], [flu, {"illness": None, "ward": 2}], [{"illness": "gout", "ward": None}] * 2]
    data = pa.table({"person": [*"abcdef"], "age": [1] * 6, "stays": pa.array(stays, kind)})
    policy = {"sensitive": ["stays[*].illness"], "arrays": {"stays[*].illness": 2}, "passthrough": ["stays[*].ward"]}
    privacy = crenel.Privacy(k=2)
    result = crenel.anonymize(data, settings("mondrian", privacy, **policy), row_numbers=True)
    assert [(row["row"], row["column"], row["reason"]) for row in result.rejected.to_pylist()] == [
        (row, "stays[*].illness", "missing") for row in (2, 3, 4)
    ]
    result = crenel.anonymize(data, settings("mondrian", privacy, missing="value", **policy), row_numbers=True)
    assert result.rejected.num_rows == 0
    found = {row["row"]: (row["stays[*].illness"], row["stays[*].ward"]) for row in result.released.to_pylist()}
    assert found == {
        0: (["flu"], [1]),
        1: ([], []),
        2: (None, None),
        3: ([None], [None]),
        4: (["flu", None], [1, 2]),
        5: (["gout", "gout"], [None, None]),
    }


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"arrays": {}}, "policy.arrays.illnesses"),
        (
            {"arrays": {"illnesses": 0}},
            "arrays.illnesses: is too small; sensitive arrays: 'column: 8', the maximum number of",
        ),
        ({"arrays": {"illnesses": 65}}, "arrays.illnesses: is too large; sensitive arrays: 'column: 8'"),
        ({"arrays": {"age": 2}}, "policy.arrays.age: is not a column of policy.sensitive"),
        ({"sensitive": ["town"], "passthrough": ["illnesses"], "arrays": {"town": 2}}, "policy.arrays.town"),
    ],
)
def test_unfit_arrays_are_refused_by_their_field(policy: dict[str, Any], words: str) -> None:
    data = records(10).append_column("town", pa.array(["x"] * 10))
    policy = {"drop": ["town"]} | policy if "town" not in policy.get("sensitive", ()) else policy
    with pytest.raises(crenel.ConfigError, match=words.replace(".", r"\.")):
        crenel.anonymize(data, settings("nearest", crenel.Privacy(k=2), **policy))


@pytest.mark.parametrize("algorithm", ["nearest", "mondrian"])
def test_a_stream_goes_on_from_a_snapshot(algorithm: str) -> None:
    of = settings(algorithm, crenel.Privacy(k=K, l=3, t=0.6))
    data = records(300, persons=200)
    whole = crenel.anonymize(data, of)
    with crenel.open_stream(of) as stream:
        parts = [stream.push(data.slice(0, 150)).released]
        stored = stream.snapshot()
    with crenel.open_stream(of, snapshot=stored) as stream:
        parts += [stream.push(data.slice(150)).released, stream.finish().released]
    assert pa.concat_tables(parts).equals(whole.released)
    wider = replace(of, policy=replace(of.policy, arrays={"illnesses": 4}))
    with pytest.raises(crenel.PolicyError, match=r"cannot change on a restore: policy\.arrays"):
        crenel.open_stream(wider, snapshot=stored)


def test_evidence_counts_each_value_of_an_array() -> None:
    of = settings("nearest", crenel.Privacy(k=K, l=3, alpha=0.6))
    data = records(1200)
    result = crenel.anonymize(data, of)
    verdict = crenel.verify(result, of)
    assert verdict.outcome == "holds", verdict
    broken = result.released["illnesses"].to_pylist()
    broken[:50] = [["flu"]] * 50
    column = result.released.column_names.index("illnesses")
    released = result.released.set_column(column, "illnesses", pa.array(broken, pa.list_(pa.string())))
    worse = crenel.verify(replace(result, released=released), of)
    assert {check.name for check in worse.checks if check.outcome == "broken"} == {
        "l of illnesses",
        "alpha of illnesses",
    }
    found = {
        (attack.name, attack.knows): attack
        for results in (
            crenel.attack(data, of, seeds=1, targets=400),
            crenel.attack(data, of, seeds=1, targets=400, result=result),
        )
        for attack in results.attacks
    }
    for (name, _), attack in found.items():
        if name == "disclosure of illnesses, beside control":
            assert attack.success <= 0.6
        if name == "homogeneity in illnesses":
            assert attack.success < 0.05
    assert any(name == "disclosure of illnesses" for name, _ in found)
    page = crenel.report(result, of, data=data)
    assert "Diversity of illnesses" in page
    assert crenel.plan(data, of, replays=4, rows=600).settings
    assert crenel.why(data, of, rows=600)


def test_algorithms_that_count_one_value_refuse_arrays() -> None:
    of = settings("nearest", crenel.Privacy(k=2))
    words = r"policy\.arrays: suhdsa counts one value of a record; choose .*'algorithm: nearest'"
    with pytest.raises(crenel.ConfigError, match=words):
        replace(of, algorithm=crenel.Suhdsa(tuples=50))
    with pytest.raises(crenel.ConfigError, match=r"counts one value of a record; remove policy\.arrays"):
        replace(of, privacy=crenel.Privacy(k=2, persons=crenel.Persons(guarantee="lasting")))
