"""From rows to blocks."""

from __future__ import annotations

import json
import math
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonymity.hierarchy import MISSING, Hierarchy, from_paths
from anonymity.policy import REJECTIONS, Categorical, Numeric, Policy, PolicyError, Shards
from jobs.columns import layout
from operators import hashing
from operators.encode import EncodePlan, Encoder
from operators.encode_function import EncodeFunction
from operators.reading import EARLIEST, LATEST, Read, members_schema
from state.block import NO_TIME, Block

ODD = ('a "b", c', "line\nbreak", "it's; so", "Zürich", "東京 🏯", "", " ", "nan", "None")
AREA = from_paths([(label, f"group {i % 3}", "*") for i, label in enumerate(ODD)])
KEYS = tuple(range(100, 132))
NAN, INF = float("nan"), float("inf")

COLUMNS = {
    "age": "INT",
    "area": "STRING",
    "pay": "STRING",
    "speed": "DOUBLE",
    "income": "STRING",
    "bonus": "DOUBLE",
    "trip": "BIGINT",
    "ok": "BOOLEAN",
    "person": "STRING",
    "ts": "BIGINT",
    "line": "BIGINT",
}
POLICY = Policy(
    quasi_identifiers=(
        Numeric("age", (0, 100)),
        Categorical("area", AREA),
        Numeric("pay"),
        Numeric("speed", (-1.5, 8)),
    ),
    sensitive=("income", "bonus"),
    passthrough=("trip", "ok"),
    subject="person",
    event_time="ts",
    reference="line",
)
GOOD: dict[str, Any] = {
    "age": 40,
    "area": "Zürich",
    "pay": "1.5",
    "speed": 2.5,
    "income": "high",
    "bonus": 0.5,
    "trip": 7,
    "ok": True,
    "person": "ann",
    "ts": 1_700_000_000_000,
    "line": 12,
}


def plan_of(
    policy: Policy = POLICY, columns: dict[str, str] = COLUMNS, shards: Shards | None = None, key: bytes = b"secret"
) -> EncodePlan:
    shards = shards or Shards(1)
    return layout(policy, {name: columns[name] for name in policy.roles}).encode_plan(shards, KEYS[: shards.count], key)


def without(*roles: str, **changed: Any) -> Policy:
    """``POLICY`` without the columns of some roles."""
    kept = {field: getattr(POLICY, field) for field in Policy.__dataclass_fields__ if field not in roles}
    return Policy(**{**kept, **changed})


def arguments(plan: EncodePlan, rows: Sequence[dict[str, Any]]) -> list[pd.Series[Any]]:
    """What PyFlink calls the function with."""
    single = (plan.subject, plan.event_time, plan.reference)
    reads = [
        *plan.quasi_identifiers,
        *plan.sensitive,
        *plan.passthrough,
        *(read for read in single if read is not None),
    ]
    series: dict[int, pd.Series[Any]] = {}
    for read in reads:
        series[read.value] = as_series(read, [row[read.name] for row in rows])
        if read.missing is not None:
            series[read.missing] = pd.Series([row[read.name] is None for row in rows], dtype=bool)
    return [series[position] for position in range(len(series))]


def as_series(read: Read, values: list[Any]) -> pd.Series[Any]:
    match read.kind:
        case "number" | "real":
            return pd.Series([NAN if value is None else float(value) for value in values], dtype=np.float64)
        case "integer":
            return pd.Series([0 if value is None else value for value in values], dtype=np.int64)
        case "timestamp":
            times = pa.array(values, pa.timestamp("ms")).to_pandas()
            return times.dt.tz_localize("UTC")
        case "boolean":
            return pa.array(values, pa.bool_()).to_pandas().astype(object if None in values else bool)
        case _:
            return pa.array([None if value is None else str(value) for value in values], pa.string()).to_pandas()


@dataclass(frozen=True)
class Outcome:
    """What came of batches: for each shard its tuples in order, and the rejected rows."""

    tuples: dict[int, list[tuple[Any, ...]]]
    rejected: list[tuple[str, str, int, str | None]]


def blocks_of(plan: EncodePlan, rows: Sequence[dict[str, Any]]) -> list[Block]:
    """The blocks of one batch, read back from their bytes."""
    keys, blobs = Encoder(plan).encode(*arguments(plan, rows))
    assert len(keys) == len(blobs) == len(rows)
    schema = members_schema(plan.sensitive + plan.passthrough)
    blocks = []
    for key, blob in zip(keys.tolist(), blobs, strict=True):
        if blob is None:
            assert key == 0
            continue
        block = Block.from_bytes(blob, schema)
        assert key == plan.keys[block.shard]
        blocks.append(block)
    assert len({block.shard for block in blocks}) == len(blocks)
    return blocks


def encoded(plan: EncodePlan, batches: Iterable[Sequence[dict[str, Any]]]) -> Outcome:
    outcome = Outcome({}, [])
    for batch in batches:
        for block in blocks_of(plan, batch):
            outcome.tuples.setdefault(block.shard, []).extend(tuples_of(block))
            bad = block.rejected
            for i, (column, reason, time) in enumerate(
                zip(bad.column.tolist(), bad.reason.tolist(), bad.event_time.tolist(), strict=True)
            ):
                reference = bad.reference[i] if bad.reference else None
                outcome.rejected.append((plan.checked[column], REJECTIONS[reason], time, reference))
            assert block.shard == 0 or not len(bad.column)
    return Outcome({shard: tuples for shard, tuples in outcome.tuples.items() if tuples}, outcome.rejected)


def tuples_of(block: Block) -> list[tuple[Any, ...]]:
    members = [
        # repr: NaN is not equal to itself.
        tuple(repr(value) for value in row.values())
        for row in block.members.to_pylist()
    ] or [()] * len(block)
    subjects = [None] * len(block) if block.subject is None else block.subject.tolist()
    columns = (block.numeric, block.categorical, block.sensitive, block.event_time)
    return list(zip(*(map(repr, column.tolist()) for column in columns), subjects, members, strict=True))


# What is wrong with a row, told without any code of the project: column and reason.
def verdict(row: dict[str, Any], *, keep_missing: bool) -> tuple[str, str] | None:
    def number(value: Any, domain: tuple[float, float] | None) -> str | None:
        if value is None:
            return "missing"
        try:
            value = float(value)
        except ValueError:
            return "bad_type"
        if not math.isfinite(value):
            return "bad_type"
        return None if domain is None or domain[0] <= value <= domain[1] else "outside_domain"

    missing = None if keep_missing else "missing"
    found = {
        "age": number(row["age"], (0, 100)),
        "area": missing if row["area"] is None else None if row["area"] in ODD else "unknown_category",
        "pay": number(row["pay"], None),
        "speed": number(row["speed"], (-1.5, 8)),
        "income": missing if row["income"] is None else None,
        "bonus": missing if row["bonus"] is None else None,
        "person": "missing" if row["person"] is None else None,
        "ts": "missing" if row["ts"] is None else None if EARLIEST <= row["ts"] <= LATEST else "outside_domain",
    }
    return next(((column, reason) for column, reason in found.items() if reason is not None), None)


def mostly(usual: Any, *odd: Any) -> st.SearchStrategy[Any]:
    return st.one_of(usual, usual, usual, usual, st.sampled_from(odd))


rows = st.fixed_dictionaries(
    {
        "age": mostly(st.integers(0, 100), None, -1, 101, 2**40),
        "area": mostly(st.sampled_from(ODD), None, "zürich", MISSING, "group 1", "*"),
        "pay": mostly(
            st.sampled_from(("1", " 2.5 ", "-0.0", "1e3")), None, "", "abc", "nan", "inf", "-Infinity", "1,5"
        ),
        "speed": mostly(st.sampled_from((0.0, -0.0, -1.5, 8.0)), None, NAN, INF, -INF, 8.000001),
        "income": mostly(st.sampled_from(("low", "high", *ODD)), None),
        "bonus": mostly(st.sampled_from((0.0, -0.0, 1e300, NAN, INF)), None),
        "trip": st.one_of(st.integers(-(2**63), 2**63 - 1), st.none()),
        "ok": st.sampled_from((True, False, None)),
        "person": mostly(st.sampled_from(("ann", "bob", "ann ", "东", "", *(f"p{i}" for i in range(30)))), None),
        "ts": mostly(st.integers(EARLIEST, LATEST), None, EARLIEST - 1, LATEST + 1, NO_TIME, 2**63 - 1),
        "line": st.one_of(st.integers(-5, 5), st.none()),
    }
)
shards = st.sampled_from(
    (Shards(1), Shards(2), Shards(7), Shards(3, "age"), Shards(2, "area"), Shards(9, "area"), Shards(32, "speed"))
)
policies = st.sampled_from(
    (
        POLICY,
        without("subject", drop=("person",)),
        without("reference", "event_time", "missing", drop=("line", "ts"), missing="reject"),
        without("sensitive", "passthrough", drop=("income", "bonus", "trip", "ok")),
    )
)


@given(policies, shards, st.lists(rows, max_size=25), st.lists(st.integers(0, 25), max_size=6))
@settings(max_examples=150)
def test_any_cutting_into_batches_gives_the_same_tuples_in_the_same_order(
    policy: Policy, shards: Shards, rows: list[dict[str, Any]], cuts: list[int]
) -> None:
    plan = plan_of(policy, shards=shards)
    ends = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    batches = [rows[start:end] for start, end in pairwise(ends)]
    assert encoded(plan, batches) == encoded(plan, [rows]) == encoded(plan, [[row] for row in rows])


@given(shards, st.booleans(), st.lists(rows, max_size=25))
@settings(max_examples=150)
def test_every_row_is_in_one_block_or_rejected_for_the_first_thing_wrong(
    shards: Shards, keep_missing: bool, rows: list[dict[str, Any]]
) -> None:
    rows = [{**row, "trip": i, "line": i} for i, row in enumerate(rows)]
    policy = POLICY
    if keep_missing:
        attributes = tuple(
            Categorical(a.name, a.hierarchy.with_missing()) if isinstance(a, Categorical) else a
            for a in POLICY.quasi_identifiers
        )
        policy = without("missing", "quasi_identifiers", missing="value", quasi_identifiers=attributes)
    outcome = encoded(plan_of(policy, shards=shards), [rows])
    verdicts = [verdict(row, keep_missing=keep_missing) for row in rows]
    kept = sorted(int(members[2]) for tuples in outcome.tuples.values() for *_, members in tuples)
    assert kept == [i for i, wrong in enumerate(verdicts) if wrong is None]
    assert [(column, reason) for column, reason, *_ in outcome.rejected] == [w for w in verdicts if w is not None]
    assert [reference for *_, reference in outcome.rejected] == [
        str(i) for i, w in enumerate(verdicts) if w is not None
    ]


def test_a_block_holds_what_the_row_held() -> None:
    [block] = blocks_of(
        plan_of(), [GOOD, {**GOOD, "area": "東京 🏯", "trip": None, "ok": None, "pay": "-3", "person": "bob"}]
    )
    assert block.numeric.tolist() == [[40, 1.5, 2.5], [40, -3, 2.5]]
    labels = [AREA.labels[leaf] for leaf in block.categorical[:, 0].tolist()]
    assert labels == ["Zürich", "東京 🏯"]
    assert block.event_time.tolist() == [GOOD["ts"]] * 2
    assert block.members.to_pylist() == [
        {"income": "high", "bonus": 0.5, "trip": 7, "ok": True},
        {"income": "high", "bonus": 0.5, "trip": None, "ok": None},
    ]
    assert block.subject is not None
    assert len(set(block.subject.tolist())) == 2


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 0])
def test_published_integers_keep_every_digit(value: int) -> None:
    [block] = blocks_of(plan_of(), [{**GOOD, "trip": value}, {**GOOD, "trip": None}])
    assert block.members["trip"].to_pylist() == [value, None]


def test_zero_has_no_sign_in_an_interval() -> None:
    [block] = blocks_of(plan_of(), [{**GOOD, "pay": "-0.0", "speed": -0.0}])
    assert [str(value) for value in block.numeric[0].tolist()] == ["40.0", "0.0", "0.0"]


def test_published_reals_tell_nan_from_missing() -> None:
    policy = without("sensitive", "passthrough", passthrough=("bonus",), drop=("income", "trip", "ok"))
    [block] = blocks_of(plan_of(policy), [{**GOOD, "bonus": value} for value in (NAN, None, INF, -0.0)])
    assert list(map(str, block.members["bonus"].to_pylist())) == ["nan", "None", "inf", "-0.0"]


@pytest.mark.parametrize(
    ("column", "sql", "wrong"),
    [
        ("age", "INT", 987_654_321_123),
        ("area", "STRING", "a private place"),
        ("pay", "STRING", "a private sum"),
        ("speed", "DOUBLE", 98_765.4321),
        ("ts", "BIGINT", LATEST + 987_654_321),
    ],
)
def test_nothing_of_a_rejected_row_is_in_a_block_but_its_time_and_reference(column: str, sql: str, wrong: Any) -> None:
    secret = {
        "income": "a private income",
        "bonus": 12_345.678_9,
        "trip": 1_234_567_890_123,
        "person": "a private person",
    }
    bad = {**GOOD, **secret, column: wrong, "line": 99}
    for rows in ([bad], [GOOD, bad, GOOD], [bad] * 3 + [GOOD]):
        plan = plan_of(shards=Shards(3))
        _, blobs = Encoder(plan).encode(*arguments(plan, rows))
        found = b"".join(blob for blob in blobs if blob is not None)
        assert found
        hashed = hashing.text_codes(np.array([secret["person"]], object), plan.hash_key, repeated=False)
        assert hashed.tobytes() not in found
        for value in [*secret.values(), wrong]:
            for form in forms(value):
                assert form not in found, (column, form)


def forms(value: Any) -> list[bytes]:
    """The bytes in which a value might show."""
    if isinstance(value, str):
        return [value.encode()]
    both = [struct.pack("<d", value)]
    return [*both, struct.pack("<q", value)] if isinstance(value, int) else both


def test_a_batch_of_rejected_rows_alone_makes_one_block_of_the_first_shard() -> None:
    for count in (1, 4):
        [block] = blocks_of(
            plan_of(shards=Shards(count)), [{**GOOD, "age": None}, {**GOOD, "area": None, "line": None}]
        )
        assert block.shard == 0
        assert len(block) == 0
        assert block.numeric.shape == (0, 3)
        assert block.rejected.reference == ("12", None)
        assert block.rejected.event_time.tolist() == [GOOD["ts"]] * 2


def test_no_rows_make_no_block() -> None:
    for policy in (POLICY, without("sensitive", "passthrough", drop=("income", "bonus", "trip", "ok"))):
        for count in (1, 4):
            assert blocks_of(plan_of(policy, shards=Shards(count)), []) == []


def test_a_column_that_is_the_same_in_all_rows_may_come_as_one_value() -> None:
    plan = plan_of(shards=Shards(3))
    rows = [{**GOOD, "trip": i, "person": f"p{i}"} for i in range(20)]
    whole = arguments(plan, rows)
    folded = [column if column.nunique() > 1 else column.iloc[0] for column in whole]
    assert sum(isinstance(column, pd.Series) for column in folded) == 2
    keys, blobs = Encoder(plan).encode(*folded)
    wanted_keys, wanted = Encoder(plan).encode(*whole)
    assert keys.tolist() == wanted_keys.tolist()
    assert blobs.tolist() == wanted.tolist()


def test_rows_that_cannot_be_counted_are_an_error() -> None:
    plan = plan_of()
    with pytest.raises(ValueError, match=r"source\.query"):
        Encoder(plan).encode(*(column.iloc[0] for column in arguments(plan, [GOOD])))


def test_event_times_come_as_timestamps_too() -> None:
    plan = plan_of(columns={**COLUMNS, "ts": "TIMESTAMP_LTZ(3) *ROWTIME*"})
    times = [0, -1, 1_700_000_000_123, EARLIEST, LATEST, None]
    [block] = blocks_of(plan, [{**GOOD, "ts": time} for time in times])
    assert block.event_time.tolist() == times[:-1]
    assert block.rejected.event_time.tolist() == [NO_TIME]
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["missing"]


def test_a_time_out_of_range_is_not_shown() -> None:
    [block] = blocks_of(plan_of(), [{**GOOD, "ts": LATEST + 1}, {**GOOD, "ts": None}, {**GOOD, "age": None}])
    assert block.rejected.event_time.tolist() == [NO_TIME, NO_TIME, GOOD["ts"]]
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["outside_domain", "missing", "missing"]


@pytest.mark.parametrize("leaves", [1, 20_000])
def test_hierarchies_of_one_leaf_and_of_many_are_coded(leaves: int) -> None:
    labels = [f"value {i}" for i in range(leaves)]
    tree: Hierarchy = from_paths([(label, f"group {i % 100}", "*") for i, label in enumerate(labels)])
    policy = Policy(quasi_identifiers=(Categorical("area", tree),), drop=())
    chosen = [labels[i] for i in range(0, leaves, 97)]
    [block] = blocks_of(plan_of(policy), [{"area": label} for label in [*chosen, "other"]])
    assert [tree.labels[leaf] for leaf in block.categorical[:, 0].tolist()] == chosen
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["unknown_category"]


def test_a_missing_category_becomes_the_leaf_for_missing_values_and_no_text_does() -> None:
    tree = AREA.with_missing()
    policy = Policy(quasi_identifiers=(Categorical("area", tree),), sensitive=("income",), missing="value")
    rows = [{"area": area, "income": income} for area, income in ((None, None), (MISSING, "low"), ("", ""))]
    [block] = blocks_of(plan_of(policy), rows)
    assert [tree.labels[leaf] for leaf in block.categorical[:, 0].tolist()] == [MISSING, ""]
    assert block.members["income"].to_pylist() == [None, ""]
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["unknown_category"]


def test_a_category_that_is_called_missing_is_one_where_missing_values_are_rejected() -> None:
    tree = from_paths([(MISSING, "*"), ("a", "*")])
    [block] = blocks_of(plan_of(Policy(quasi_identifiers=(Categorical("area", tree),))), [{"area": MISSING}])
    assert block.categorical.tolist() == [[0]]


def test_a_hierarchy_without_a_leaf_for_missing_values_is_refused_where_they_are_kept() -> None:
    policy = Policy(quasi_identifiers=(Categorical("area", AREA),), missing="value")
    with pytest.raises(PolicyError, match=r"policy\.quasi_identifiers\.area\.hierarchy"):
        Encoder(plan_of(policy))


SENSITIVE: list[tuple[str, list[list[Any]]]] = [
    ("STRING", [["a"], ["b"], ["a "], [""], ["None"], ["nan"], ["é"], ["e\u0301"], [None]]),
    ("DOUBLE", [[0.0, -0.0], [1.0], [5e-324], [INF], [-INF], [NAN, -NAN], [None]]),
    ("BIGINT", [[0], [1], [-1], [2**53], [2**53 + 1], [2**63 - 1], [-(2**63)], [None]]),
    ("BOOLEAN", [[True], [False], [None]]),
]


@pytest.mark.parametrize(("sql", "classes"), SENSITIVE)
def test_sensitive_codes_are_equal_where_values_are(sql: str, classes: list[list[Any]]) -> None:
    policy = Policy(quasi_identifiers=(Categorical("area", AREA.with_missing()),), sensitive=("s",), missing="value")
    plan = plan_of(policy, {"area": "STRING", "s": sql})
    rows = [{"area": "", "s": value} for group in classes for value in group + group]
    [block] = blocks_of(plan, rows)
    codes = iter(block.sensitive[:, 0].tolist())
    found = [{next(codes) for _ in group + group} for group in classes]
    assert [len(group) for group in found] == [1] * len(classes)
    assert len(set.union(*found)) == len(classes)


def test_text_codes_are_siphash_2_4() -> None:
    # The test vector of the SipHash paper (Aumasson and Bernstein, 2012, Appendix A), then pandas' finaliser.
    key, text = ("".join(map(chr, range(length))) for length in (16, 15))
    code = 0xA129CA6149BE45E5
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        code = (code ^ code >> shift) * factor % 2**64
    values = np.array([text, "other", text], object)
    for repeated in (False, True):
        codes = hashing.text_codes(values, key, repeated=repeated).tolist()
        assert codes[0] == codes[2] == code != codes[1]


def test_subject_hashes_depend_on_the_key_and_keep_16_ascii_characters_of_it() -> None:
    keys = [hashing.hash_key(key) for key in (b"", b"a", b"b", b"a" * 1000)]
    assert len(set(keys)) == 4
    assert all(len(key.encode("ascii")) == 16 for key in keys)
    person = np.array(["ann"], object)
    assert len({hashing.text_codes(person, key, repeated=False)[0] for key in keys}) == 4


PEOPLE = ["ann", "bob", "Zürich", "東京 🏯", "", "7"]


def test_codes_are_the_same_in_another_process() -> None:
    script = (
        "import sys, json, numpy as np\nfrom operators import hashing\n"
        "values = np.array(json.loads(sys.argv[1]), object)\nkey = hashing.hash_key(b'secret')\n"
        "codes = hashing.text_codes(values, key, repeated=False)\n"
        "print(codes.tolist(), hashing.slices(codes, 7).tolist(), hashing.combined([codes, codes]).tolist())"
    )
    values, key = np.array(PEOPLE, object), hashing.hash_key(b"secret")
    codes = hashing.text_codes(values, key, repeated=True)
    here = f"{codes.tolist()} {hashing.slices(codes, 7).tolist()} {hashing.combined([codes, codes]).tolist()}"
    root = Path(__file__).parent.parent
    for seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", script, json.dumps(PEOPLE)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == here


def test_stored_codes_and_shards_are_what_they_always_were() -> None:
    # Savepoints hold them: another value here means that people in old state are strangers in the new one.
    rows = [{**GOOD, "person": person} for person in PEOPLE]
    [block] = blocks_of(plan_of(), rows)
    assert block.subject is not None
    assert block.subject.tolist() == [
        5933059407391985386,
        774411865386755488,
        1596570111991363807,
        7050504043660914560,
        13917787285694311473,
        6285362196835245303,
    ]
    assert hashing.slices(block.subject, 7).tolist() == [4, 2, 2, 5, 2, 2]


def shard_of(plan: EncodePlan, rows: Sequence[dict[str, Any]]) -> list[int]:
    """The shard of each row, which is known by its ``trip``."""
    rows = [{**row, "trip": i} for i, row in enumerate(rows)]
    found = {
        int(members[-2]): shard for shard, tuples in encoded(plan, [rows]).tuples.items() for *_, members in tuples
    }
    return [found[i] for i in range(len(rows))]


def test_a_subject_has_one_shard_whatever_else_its_rows_hold() -> None:
    people = [f"person {i}" for i in range(400)]
    plan = plan_of(shards=Shards(8))
    first = shard_of(plan, [{**GOOD, "person": person} for person in people])
    second = shard_of(plan, [{**GOOD, "person": p, "age": i % 90, "income": "x"} for i, p in enumerate(people)])
    assert first == second
    assert min(np.bincount(first, minlength=8)) > 400 / 8 / 2


def test_order_of_arrival_is_kept_in_large_batches() -> None:
    rows = [{**GOOD, "person": f"p{i % 700}", "age": i % 102, "trip": i} for i in range(5000)]
    outcome = encoded(plan_of(shards=Shards(5)), [rows])
    assert len(outcome.tuples) == 5
    for tuples in outcome.tuples.values():
        trips = [int(members[2]) for *_, members in tuples]
        assert trips == sorted(trips)


def test_hashes_within_one_shard_still_differ_in_every_bit() -> None:
    hashes = np.random.default_rng(0).integers(0, 2**64, 100_000, np.uint64, endpoint=False)
    inside = hashes[hashing.slices(hashes, 16) == 3]
    ones = [int(((inside >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)]
    assert all(abs(one / len(inside) - 0.5) < 0.05 for one in ones)


def test_without_a_subject_equal_rows_share_a_shard_and_others_spread() -> None:
    policy = Policy(quasi_identifiers=(Numeric("age"), Categorical("area", AREA)), passthrough=("trip",))
    plan = plan_of(policy, shards=Shards(4))
    same = encoded(plan, [[{"age": 1, "area": "", "trip": 1}] * 50])
    assert [len(tuples) for tuples in same.tuples.values()] == [50]
    for column, values in (("age", range(400)), ("trip", range(400)), ("area", ODD)):
        found = encoded(plan, [[{"age": 1, "area": "", "trip": 1, column: value} for value in values]])
        assert len(found.tuples) >= 3, column


def test_a_numeric_quasi_identifier_divides_its_domain_into_equal_slices() -> None:
    plan = plan_of(shards=Shards(4, "age"))
    ages = [0, 24, 25, 49, 50, 74, 75, 99, 100]
    assert shard_of(plan, [{**GOOD, "age": age} for age in ages]) == [0, 0, 1, 1, 2, 2, 3, 3, 3]
    single = Policy(quasi_identifiers=(Numeric("age", (5, 5)),), passthrough=("trip", "ok"))
    assert shard_of(plan_of(single, shards=Shards(4, "age")), [GOOD | {"age": 5}]) == [0]
    wide = Policy(quasi_identifiers=(Numeric("speed", (-8e307, 8e307)),), passthrough=("trip", "ok"))
    rows = [{**GOOD, "speed": speed} for speed in (-8e307, 0.0, 8e307, 1.7e308, NAN)]
    found = encoded(plan_of(wide, shards=Shards(4, "speed")), [rows])
    assert sorted(found.tuples) == [0, 2, 3]
    assert [reason for _, reason, *_ in found.rejected] == ["outside_domain", "bad_type"]


def test_a_categorical_quasi_identifier_divides_its_leaves_into_neighbours() -> None:
    plan = plan_of(shards=Shards(3, "area"))
    leaves = AREA.labels[: AREA.leaves]
    found = shard_of(plan, [{**GOOD, "area": label} for label in leaves])
    assert found == sorted(found)
    assert np.bincount(found).tolist() == [3, 3, 3]


@pytest.mark.parametrize("by", ["pay", "income", "nothing"])
def test_shards_that_cannot_be_told_are_refused(by: str) -> None:
    with pytest.raises(PolicyError, match=r"shards\.by"):
        Encoder(plan_of(shards=Shards(4, by)))


def test_the_function_makes_the_same_of_a_batch_after_it_was_shipped() -> None:
    plan = plan_of(shards=Shards(2))
    rows = [{**GOOD, "person": f"p{i}"} for i in range(20)]
    function = EncodeFunction(pickle.loads(pickle.dumps(plan)))
    function.open(None)
    frame = function.eval(*arguments(plan, rows))
    keys, blobs = Encoder(plan).encode(*arguments(plan, rows))
    assert list(frame.columns) == ["k", "b"]
    assert len(frame) == len(rows)
    assert frame["k"].tolist() == keys.tolist()
    assert frame["b"].tolist() == blobs.tolist()
    assert not function.is_deterministic()
