"""From rows to blocks."""

from __future__ import annotations

import math
import pickle
import struct
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.arrays import ArrowExtensionArray

from crenel.anonymity.buffer.members import Members
from crenel.anonymity.model.attributes import Categorical, Noised, Numeric
from crenel.anonymity.model.hierarchy import MISSING, Hierarchy, from_paths
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.anonymity.model.secret import SubjectKey
from crenel.operators.encode import hashing
from crenel.operators.encode.columns import EARLIEST, LATEST, Read, codes_of, members_schema
from crenel.operators.encode.encoder import Encoder
from crenel.operators.encode.function import EncodeFunction
from crenel.state.block import NO_TIME, Block
from tests.support.encoding import (
    AREA,
    COLUMNS,
    GOOD,
    INF,
    KEYS,
    NAN,
    ODD,
    POLICY,
    arguments,
    as_series,
    blocks_of,
    encoded,
    plan_of,
    without,
)
from tests.support.example_counts import examples
from tests.support.fakes import FakeMetrics
from tests.support.layouts import TIMED, encode_plan, layout_of


# Column and reason of a rejected row, found without any code of the project.
def verdict(row: dict[str, Any], *, keep_missing: bool) -> tuple[str, str] | None:
    def number(value: Any, domain: tuple[float, float] | None) -> str | None:
        if value is None:
            return "missing"
        is_float = isinstance(value, float)
        if isinstance(value, str) and not set(value) <= set("0123456789+-.eE "):
            return "bad_type"
        try:
            value = float(value)
        except ValueError:
            return "bad_type"
        if not math.isfinite(value):
            return "missing" if is_float and math.isnan(value) else "bad_type"
        return None if domain is None or domain[0] <= value <= domain[1] else "outside_domain"

    missing = None if keep_missing else "missing"
    found = {
        "age": number(row["age"], (0, 100)),
        "area": missing if row["area"] is None else None if row["area"] in ODD else "unknown_category",
        "pay": number(row["pay"], None),
        "speed": number(row["speed"], (-1.5, 8)),
        "income": missing if row["income"] is None else None,
        "bonus": missing if row["bonus"] is None or math.isnan(row["bonus"]) else None,
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
            st.sampled_from(("1", " 2.5 ", "-0.0", "1e3")),
            None,
            "",
            "abc",
            "nan",
            "inf",
            "-Infinity",
            "1,5",
            "1_000",
            "１２",
            "1٫5",
            "٣",
            "1e400",
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
# Area stands last: a block has categories behind numbers.
AREAS = Cut(3, 4, Region(0.2, 0), Region(0.3, 0))
NUMBERS = Cut(1, 2, Region(0.1, 0), Cut(2, 0, Region(0.2, 0), Region(0.2, 0)))
REGIONS = RegionTree.of(Cut(0, 41, AREAS, NUMBERS))
shards = st.sampled_from(
    (
        *(Shards(1), Shards(2), Shards(7)),
        *(Shards(3, "age"), Shards(2, "area"), Shards(9, "area"), Shards(32, "speed")),
        Shards(5, "regions", REGIONS),
    )
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
@settings(max_examples=examples(150))
def test_any_cutting_into_batches_gives_the_same_tuples_in_the_same_order(
    policy: Policy, shards: Shards, rows: list[dict[str, Any]], cuts: list[int]
) -> None:
    plan = plan_of(policy, shards=shards)
    ends = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    batches = [rows[start:end] for start, end in pairwise(ends)]
    assert encoded(plan, batches) == encoded(plan, [rows]) == encoded(plan, [[row] for row in rows])


@given(shards, st.booleans(), st.lists(rows, max_size=25))
@settings(max_examples=examples(150))
def test_every_row_is_in_one_block_or_rejected_for_the_first_thing_wrong(
    shards: Shards, keep_missing: bool, rows: list[dict[str, Any]]
) -> None:
    rows = [{**row, "trip": i, "line": i} for i, row in enumerate(rows)]
    policy = POLICY
    if keep_missing:
        attributes = {
            name: Categorical(a.hierarchy.with_missing()) if isinstance(a, Categorical) else a
            for name, a in POLICY.quasi_identifiers.items()
        }
        policy = without("missing", "quasi_identifiers", missing="value", quasi_identifiers=attributes)
    outcome = encoded(plan_of(policy, shards=shards), [rows])
    verdicts = [verdict(row, keep_missing=keep_missing) for row in rows]
    kept = sorted(int(members[2]) for tuples in outcome.tuples.values() for *_, members in tuples)
    assert kept == [i for i, wrong in enumerate(verdicts) if wrong is None]
    assert [(column, reason) for column, reason, *_ in outcome.rejected] == [w for w in verdicts if w is not None]
    assert [reference for *_, reference in outcome.rejected] == [
        str(i) for i, w in enumerate(verdicts) if w is not None
    ]


@pytest.mark.parametrize("missing", ["reject", "value"])
def test_each_tuple_goes_to_the_shard_of_its_region(missing: Any) -> None:
    policy = POLICY
    if missing == "value":
        area = Categorical(AREA.with_missing())
        policy = without(
            "missing",
            "quasi_identifiers",
            missing=missing,
            quasi_identifiers={"age": Numeric(), "area": area, "pay": Numeric()},
        )
        policy = replace(policy, quasi_identifiers={**policy.quasi_identifiers, "speed": Numeric()})
    plan = plan_of(policy, shards=Shards(5, "regions", REGIONS))
    leaves = [*AREA.labels[: AREA.leaves], None]
    rows = [
        {**GOOD, "age": age, "area": area, "pay": pay, "speed": speed}
        for age in (0, 40, 41, 100)
        for area in leaves[: None if missing == "value" else -1]
        for pay in ("1.99", "2")
        for speed in (-0.0, -1e-9)
    ]
    found = {shard: len(tuples) for shard, tuples in encoded(plan, [rows]).tuples.items()}
    expected = Counter(
        (0 if leaves.index(row["area"]) < 4 else 1)
        if row["age"] < 41
        else (2 if row["pay"] == "1.99" else 3 if row["speed"] == -1e-9 else 4)
        for row in rows
    )
    assert found == expected


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


def test_a_published_nan_is_missing_and_infinity_a_value() -> None:
    policy = without("sensitive", "passthrough", passthrough=("bonus",), drop=("income", "trip", "ok"))
    [block] = blocks_of(plan_of(policy), [{**GOOD, "bonus": value} for value in (NAN, None, INF, -0.0)])
    assert list(map(str, block.members["bonus"].to_pylist())) == ["None", "None", "inf", "-0.0"]


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
        hashed = hashing.text_codes(np.array([secret["person"]], object), plan.subject_key.hash_key, repeated=False)
        assert hashed.tobytes() not in found
        for value in [*secret.values(), wrong]:
            for form in forms(value):
                assert form not in found, (column, form)


def forms(value: Any) -> list[bytes]:
    """Return the bytes in which a value might show."""
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
    with pytest.raises(ValueError, match=r"source: its query gives the same in all rows"):
        Encoder(plan).encode(*(column.iloc[0] for column in arguments(plan, [GOOD])))


def test_event_times_come_as_timestamps_too() -> None:
    plan = plan_of(columns={**COLUMNS, "ts": "TIMESTAMP_LTZ(3) *ROWTIME*"})
    times = [0, -1, 1_700_000_000_123, EARLIEST, LATEST, None]
    [block] = blocks_of(plan, [{**GOOD, "ts": time} for time in times])
    assert block.event_time.tolist() == times[:-1]
    assert block.rejected.event_time.tolist() == [NO_TIME]
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["missing"]


def test_a_time_out_of_range_is_not_shown() -> None:
    wrong = ((LATEST + 1, "outside_domain"), (EARLIEST - 1, "outside_domain"), (None, "missing"))
    [block] = blocks_of(plan_of(), [*({**GOOD, "ts": time} for time, _ in wrong), {**GOOD, "age": None}])
    assert block.rejected.event_time.tolist() == [NO_TIME] * 3 + [GOOD["ts"]]
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == [*(reason for _, reason in wrong), "missing"]


@pytest.mark.parametrize("leaves", [1, 20_000])
def test_hierarchies_of_one_leaf_and_of_many_are_coded(leaves: int) -> None:
    labels = [f"value {i}" for i in range(leaves)]
    tree: Hierarchy = from_paths([(label, f"group {i % 100}", "*") for i, label in enumerate(labels)])
    policy = Policy(quasi_identifiers={"area": Categorical(tree)}, drop=())
    chosen = [labels[i] for i in range(0, leaves, 97)]
    [block] = blocks_of(plan_of(policy), [{"area": label} for label in [*chosen, "other"]])
    assert [tree.labels[leaf] for leaf in block.categorical[:, 0].tolist()] == chosen
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["unknown_category"]


def test_a_missing_category_becomes_the_leaf_for_missing_values_and_no_text_does() -> None:
    tree = AREA.with_missing()
    policy = Policy(quasi_identifiers={"area": Categorical(tree)}, sensitive=("income",), missing="value")
    rows = [{"area": area, "income": income} for area, income in ((None, None), (MISSING, "low"), ("", ""))]
    [block] = blocks_of(plan_of(policy), rows)
    assert [tree.labels[leaf] for leaf in block.categorical[:, 0].tolist()] == [MISSING, ""]
    assert block.members["income"].to_pylist() == [None, ""]
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["unknown_category"]


def test_a_category_that_is_called_missing_is_one_where_missing_values_are_rejected() -> None:
    tree = from_paths([(MISSING, "*"), ("a", "*")])
    [block] = blocks_of(plan_of(Policy(quasi_identifiers={"area": Categorical(tree)})), [{"area": MISSING}])
    assert block.categorical.tolist() == [[0]]


def test_the_function_makes_the_same_of_a_batch_after_it_was_shipped() -> None:
    plan = plan_of(shards=Shards(2))
    rows = [{**GOOD, "person": f"p{i}"} for i in range(20)]
    function = EncodeFunction(pickle.loads(pickle.dumps(plan)))
    function.open(cast(Any, SimpleNamespace(get_metric_group=FakeMetrics)))
    frame = function.eval(*arguments(plan, rows))
    keys, blobs = Encoder(plan).encode(*arguments(plan, rows))
    assert list(frame.columns) == ["k", "b"]
    assert len(frame) == len(rows)
    assert frame["k"].tolist() == keys.tolist()
    assert frame["b"].tolist() == blobs.tolist()
    assert not function.is_deterministic()


@pytest.mark.parametrize("text", ["1_000", "１２", "١٢", "1\u00a0", "nan", "1e400"])
def test_a_text_is_a_number_where_sql_and_json_take_it_for_one(text: str) -> None:
    good = [{**GOOD, "pay": number} for number in ("007", "+.5", "5.", " 1E3\t", None)]
    [block] = blocks_of(plan_of(), [*good, {**GOOD, "pay": text}])
    assert block.numeric[:, 1].tolist() == [7, 0.5, 5, 1000]
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["missing", "bad_type"]


def test_a_float_is_compared_with_its_domain_in_its_own_type() -> None:
    singles = np.array([0.1, 0.7], np.float32)
    beside = [np.nextafter(singles[0], np.float32(0)), np.nextafter(singles[1], np.float32(1))]
    assert float(singles[0]) > 0.1
    assert float(singles[1]) < 0.7
    for domain, good, bad in (((0.1, 0.7), singles, beside), ((-0.7, -0.1), -singles, [-x for x in beside])):
        policy = Policy(quasi_identifiers={"speed": Numeric(domain)})
        plan = plan_of(policy, {"speed": "FLOAT"})
        [block] = blocks_of(plan, [{"speed": float(value)} for value in (*good, *bad)])
        assert sorted(block.numeric[:, 0].tolist()) == list(domain)  # what is published is a FLOAT again
        assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["outside_domain"] * 2


@pytest.mark.parametrize(
    ("sql", "end", "value", "admitted"),
    [
        ("BIGINT", 99_999_999, 100_000_000, False),
        ("INT", -99_999_999, -100_000_000, False),
        ("DOUBLE", 0.1, float(np.float32(0.1)), False),
        ("FLOAT", 0.1, float(np.float32(0.1)), True),
        ("FLOAT", 99_999_999, 100_000_000.0, True),
    ],
)
def test_only_a_float_is_compared_with_the_domain_as_one(sql: str, end: float, value: float, admitted: bool) -> None:
    domain = (min(end, 0), max(end, 0))
    for policy in (
        Policy(quasi_identifiers={"speed": Numeric(domain)}),
        Policy(
            quasi_identifiers={"age": Numeric((0, 100))},
            noised={"speed": Noised(domain, step=1 if sql.endswith("INT") else 1e-3)},
        ),
    ):
        plan = plan_of(policy, {"speed": sql, "age": "INT"})
        [block] = blocks_of(plan, [{"speed": value, "age": 1}])
        reasons = [] if admitted else ["outside_domain"]
        assert [REJECTIONS[reason] for reason in block.rejected.reason] == reasons


def test_a_double_beside_its_domain_is_outside() -> None:
    policy = Policy(quasi_identifiers={"speed": Numeric((0, 0.1))})
    [block] = blocks_of(plan_of(policy, {"speed": "DOUBLE"}), [{"speed": float(np.float32(0.1))}, {"speed": 0.1}])
    assert block.numeric.tolist() == [[0.1]]


def test_a_row_that_is_dated_too_far_ahead_of_the_watermark_is_rejected() -> None:
    policy = without("event_time_limit", event_time_limit=1000)
    plan = plan_of(policy, {**COLUMNS, "ts": "TIMESTAMP_LTZ(3) *ROWTIME*"})
    assert plan.watermark is not None
    start = 1_700_000_000_000
    # Before the first watermark there is no limit, and what is late is no matter of this one.
    cases = [(start + 1000, start), (start + 1001, start), (LATEST, None), (start, LATEST), (start - 10**9, start)]
    columns = arguments(plan, [{**GOOD, "ts": time} for time, _ in cases])
    columns[plan.watermark.value] = as_series(plan.watermark, [watermark for _, watermark in cases])
    _, blobs = Encoder(plan).encode(*columns)
    (blob,) = (blob for blob in blobs if blob is not None)
    block = Block.from_bytes(blob, members_schema(plan.sensitive + plan.passthrough))
    assert block.event_time.tolist() == [time for i, (time, _) in enumerate(cases) if i != 1]
    assert [REJECTIONS[reason] for reason in block.rejected.reason] == ["outside_domain"]
    assert [plan.checked[column] for column in block.rejected.column] == ["ts"]
    assert block.rejected.event_time.tolist() == [NO_TIME]


def test_the_watermark_rides_with_the_tuples_of_each_shard_and_tells_whose_it_is() -> None:
    columns = {"person": "STRING", "age": "INT", "ts": "TIMESTAMP_LTZ(3) *ROWTIME*"}
    policy = Policy(quasi_identifiers={"age": Numeric((0, 99))}, subject="person", event_time="ts")
    found = layout_of(policy, columns, algorithm=TIMED)
    plan = encode_plan(found, Shards(2), (0, 1), SubjectKey.of(b"a key"))
    assert plan.watermark is not None
    rows = [{"person": f"p{i % 7}", "age": None if i == 3 else i, "ts": 1000 * i} for i in range(20)]
    passed = [None, *(1000 * i - 5000 for i in range(19))]
    series = arguments(plan, rows)
    series[plan.watermark.value] = as_series(plan.watermark, passed)
    _, blobs = Encoder(plan, 77).encode(*series)
    blocks = [Block.from_bytes(blob, members_schema(())) for blob in blobs if blob is not None]
    assert sorted(block.shard for block in blocks) == [0, 1]
    watermarks: dict[int, int] = {}
    for block in blocks:
        assert block.watermark is not None
        assert block.encoder == 77
        watermarks |= dict(zip(block.event_time.tolist(), block.watermark.tolist(), strict=True))
    expected = {1000 * i: NO_TIME if mark is None else mark for i, mark in enumerate(passed) if i != 3}
    assert watermarks == expected


def distinct(sql: str, values: list[Any], null_text: str = "", missing: str = "value") -> int:
    """Return the number of counted values of a sensitive column."""
    tree = AREA.with_missing()
    policy = Policy(quasi_identifiers={"area": Categorical(tree)}, sensitive=("income",), missing=missing)  # type: ignore[arg-type]
    found = layout_of(policy, {"area": "STRING", "income": sql})
    plan = encode_plan(found, Shards(), KEYS[:1], SubjectKey.of(b"secret"), null_text)
    [block] = blocks_of(plan, [{"area": "Zürich", "income": value} for value in values])
    assert len(block) == len(values)
    return len(set(block.sensitive[:, 0].tolist()))


@pytest.mark.parametrize(
    ("sql", "values", "null_text", "count"),
    [
        ("STRING", [None, ""], "", 1),
        ("STRING", [None, "", "flu", "flu"], "", 2),
        ("STRING", ["", "", "flu"], "", 2),
        ("STRING", [None, None, "cold"], "n/a", 2),
        ("STRING", [None, "n/a", "flu"], "n/a", 2),
        ("STRING", [None, "n/a", "flu"], "", 3),
        ("STRING", [" ", "", "nan", "None", "null"], "", 5),
        ("BIGINT", [None, 0, 1], "", 3),
        ("BIGINT", [None, 0, 1], "0", 2),
        ("DOUBLE", [None, NAN, 1.5], "NaN", 2),
        ("DOUBLE", [None, NAN, 1.5], "", 2),
        ("FLOAT", [None, NAN, 1.5], "", 2),
        ("BOOLEAN", [None, False, True], "false", 2),
        ("BOOLEAN", [None, False, True], "no", 3),
        ("VARCHAR(3)", ["abcd", "abce", "ab"], "", 2),
        ("VARCHAR(3)", [None, "", "東京都庁", "東京都"], "", 2),
        ("CHAR(3)", ["a", "a ", "a  b", "b"], "", 2),
        ("STRING", ["a", "a ", "a  b", "b"], "", 4),
    ],
)
def test_what_a_recipient_cannot_tell_apart_counts_as_one_value(
    sql: str, values: list[Any], null_text: str, count: int
) -> None:
    assert distinct(sql, values, null_text) == count
    if None not in values:
        assert distinct(sql, values, null_text, "reject") == count


def test_metrics_show_how_full_regions_are() -> None:
    function, metrics = EncodeFunction(plan_of(shards=Shards(5, "regions", REGIONS))), FakeMetrics()
    function.open(cast(Any, SimpleNamespace(get_metric_group=lambda: metrics)))
    assert metrics.known["crenel.fullest_region_x1000"]() == 0
    function.eval(*arguments(function._plan, [{**GOOD, "pay": "1"}] * 300 + [{**GOOD, "age": 60, "pay": "1"}] * 100))
    area = REGIONS.regions(np.zeros((1, 3)), np.array([[ODD.index("Zürich")]], np.int32)).item()
    shown = {name.removeprefix("crenel."): read() for name, read in metrics.known.items()}
    assert shown[f"share_of_shard_{area}_x1000"] == 750
    assert shown["share_of_shard_2_x1000"] == 250
    assert shown["fullest_region_x1000"] == max(round(750 / REGIONS.share[area]), 2500)


def test_metrics_show_how_full_shards_are_that_are_no_regions() -> None:
    function, metrics = EncodeFunction(plan_of(shards=Shards(4, "area"))), FakeMetrics()
    function.open(cast(Any, SimpleNamespace(get_metric_group=lambda: metrics)))
    function.eval(*arguments(function._plan, [GOOD] * 300))
    shown = {name.removeprefix("crenel."): read() for name, read in metrics.known.items()}
    shares = [shown[f"share_of_shard_{shard}_x1000"] for shard in range(4)]
    assert sorted(shares) == [0, 0, 0, 1000]
    assert shown["fullest_shard_x1000"] == 4000
    EncodeFunction(plan_of(shards=Shards(1))).open(cast(Any, None))  # asks for no metrics


@settings(max_examples=20)
@given(st.lists(rows, min_size=1, max_size=10))
def test_blocks_are_the_same_whether_texts_are_pythons_or_arrows(rows: list[dict[str, Any]]) -> None:
    plan = plan_of()
    series = arguments(plan, rows)
    reads = (*plan.quasi_identifiers, *plan.sensitive, *plan.passthrough, plan.subject, plan.reference)
    texts = {read.value for read in reads if read is not None and read.form == "text"}
    assert len(texts) == 5
    arrays = [pa.array(column, pa.string()) if place in texts else column for place, column in enumerate(series)]
    kept = [pd.Series(ArrowExtensionArray(column)) if place in texts else column for place, column in enumerate(arrays)]
    before, *after = (Encoder(plan).encode(*given)[1].tolist() for given in (series, arrays, kept))
    assert after == [before, before]


FORMULAS = ["=cmd", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=cmd", "1=1", "", None]
NEUTRAL = ["'=cmd", "'+1", "'-1", "'@SUM(A1)", "'\t=1", "'\r=1", "'=cmd", "1=1", "", None]


def test_formulas_are_neutralized_in_every_text_that_is_shown_and_in_no_other_column() -> None:
    kinds = {"age": "INT", "illness": "STRING", "note": "VARCHAR(5)", "owed": "DECIMAL(5, 2)", "line": "STRING"}
    policy = Policy(
        {"age": Numeric((0, 99))},
        sensitive=("illness",),
        passthrough=("note", "owed"),
        reference="line",
        missing="value",
    )
    rows = [{"age": 5, "illness": text, "note": text, "owed": "-0.50", "line": text} for text in FORMULAS]
    bad = [row | {"age": 100} for row in rows]
    found = {}
    for neutral in (False, True):
        plan = plan_of(replace(policy, neutralize_formulas=neutral), kinds)
        [block] = blocks_of(plan, rows + bad)
        members = block.members.to_pydict()
        found[neutral] = members["illness"], members["note"], list(block.rejected.reference)
        assert members["owed"] == ["-0.50"] * len(rows)
        # Values that a recipient cannot distinguish count as one: '=cmd came in two ways, and nothing twice.
        assert len(set(block.sensitive[:, 0].tolist())) == len(set(filter(None, members["illness"]))) + 1
    assert found[False] == (FORMULAS,) * 3
    assert found[True] == (NEUTRAL,) * 3


def test_a_reference_names_a_formula_as_it_comes_or_as_it_is_published() -> None:
    read = Read("illness", "text", 0, neutralized=True)
    as_it_comes, published, other = codes_of(["=cmd", "'=cmd", "cmd"], read, "0" * 16, None)
    assert as_it_comes == published != other


def test_bytes_pass_from_rows_through_a_block_and_its_buffer_unchanged() -> None:
    values = [b"\x00\xff", None, b"", b"x" * 1_000_000, b"\x00\xff", None]
    policy = Policy({"n": Numeric()}, passthrough=("c", "d"))
    columns = {"n": "INT NOT NULL", "c": "ARRAY<INT>", "d": "BYTES"}
    found = layout_of(policy, columns, shards=Shards(2))
    numbers = pd.Series(np.arange(6))
    series = [numbers, pd.Series(ArrowExtensionArray(pa.array(values, pa.binary()))), pa.array(values[::-1])]
    blocks = list(Encoder(found.plan).blocks(*series))
    assert len(blocks) > 0
    read: dict[int, tuple[bytes | None, bytes | None]] = {}
    for encoded_block in blocks:
        block = Block.from_bytes(encoded_block.block.to_bytes(), found.plan.context.members)
        members = Members(found.plan.context.members)
        members.reserve(8)
        slots = np.arange(len(block), dtype=np.int32) + 1
        members.put(slots, block.members)
        assert members.moved(slots, 6).batch(np.arange(len(block), dtype=np.int32)) == block.members
        read |= dict(zip(encoded_block.rows.tolist(), zip(*members.take(slots), strict=True), strict=True))
        assert members.batch(slots).column(0).null_count == len(block)
    assert read == dict(enumerate(zip(values, values[::-1], strict=True)))
