"""Data of every kind, and what cannot be read, with its remedy."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crenel
from crenel.frames import Frame
from tests.crenel.stream import records, settings

TABLE = records(200)
SETTINGS = settings("nearest")
WANTED = crenel.anonymize(TABLE, SETTINGS)


def batches() -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(30))


class Exported:
    """An object of another library that exports an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return batches().__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        pa.concat_tables([TABLE.slice(0, 7), TABLE.slice(7, 0), TABLE.slice(7)]),
        pa.concat_tables([TABLE.slice(150), TABLE]).slice(50),
        batches(),
        TABLE.combine_chunks().to_batches()[0],
        pa.dataset.dataset(TABLE),
        Exported(),
    ],
    ids=["chunks", "slice", "reader", "batch", "dataset", "stream"],
)
def test_arrow_data_of_any_kind_gives_arrow_tables(data: object) -> None:
    found = crenel.anonymize(data, SETTINGS)
    assert found.released == WANTED.released
    assert found.audit == WANTED.audit


def test_a_pandas_frame_comes_back_as_one() -> None:
    frame = TABLE.drop(["tests"]).to_pandas()
    policy = SETTINGS.policy
    made = settings("nearest", policy=replace(policy, passthrough=["born", "clinic"]))
    found = crenel.anonymize(frame, made)
    assert isinstance(found.released, pd.DataFrame)
    assert found.released["diagnosis"].tolist() == WANTED.released["diagnosis"].to_pylist()
    assert found.released["clinic"].dtype == "category"
    assert isinstance(found.suppressed, pd.DataFrame)


DTYPES: dict[str, Any] = {
    "int8": pd.Series([1, 2, 3], dtype="int8"),
    "uint64": pd.Series([2**64 - 1, 2, 3], dtype="uint64"),
    "float32": pd.Series([1.5, None, 2], dtype="float32"),
    "Int64": pd.Series([2**53 + 1, None, 2**53 + 3], dtype="Int64"),
    "UInt8": pd.Series([255, None, 3], dtype="UInt8"),
    "Float64": pd.Series([0.1, None, 3], dtype="Float64"),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "string": pd.Series(["a", None, "c"], dtype="string"),
    "int64[pyarrow]": pd.Series([2**53 + 1, None, 3], dtype="int64[pyarrow]"),
    "dictionary[pyarrow]": pd.Series(
        pd.array(["a", None, "c"], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    ),
    "decimal[pyarrow]": pd.Series(pd.array([Decimal("0.10"), None], dtype=pd.ArrowDtype(pa.decimal128(9, 2)))),
    "objects: whole numbers": pd.Series([2**53 + 1, None, 3], dtype=object),
    "objects: Booleans": pd.Series([True, None, False], dtype=object),
    "objects: text": pd.Series(["a", None, "c"], dtype=object),
    "objects: days": pd.Series([date(1960, 1, 1), None, date(2024, 2, 29)]),
    "category of numbers": pd.Series([3, None, 1], dtype="category"),
    "seconds": pd.Series(["1960-01-01", None]).astype("datetime64[s]"),
    "nanoseconds with a zone": pd.Series(["1960-01-01", None]).astype("datetime64[ns, Europe/Berlin]"),
    "period": pd.Series(pd.period_range("2024-01", periods=3, freq="M")),
    "interval": pd.Series(pd.interval_range(0, 3)),
}


@pytest.mark.parametrize("name", DTYPES)
def test_a_series_comes_back_with_its_dtype_and_values(name: str) -> None:
    column = pd.concat([DTYPES[name]] * 6, ignore_index=True)
    frame = pd.DataFrame({"age": range(len(column)), "kept": column, "secret": column})
    secret = {"drop": ["secret"]} if name in ("period", "interval") else {"sensitive": ["secret"]}
    policy = crenel.Policy(
        quasi_identifiers={"age": crenel.Numeric((0, 99))}, passthrough=["kept"], missing="value", **secret
    )
    made = replace(keeping("value"), policy=policy, privacy=crenel.Privacy(k=2))
    released = crenel.anonymize(frame, made, row_numbers=True).released
    assert len(released) == len(frame)
    for each in {"kept", "secret"} & {*released.columns}:
        wanted = column[released["row"]].reset_index(drop=True).rename(each)
        pd.testing.assert_series_equal(released[each], wanted)


def test_ends_of_which_some_are_missing_have_the_dtype_of_their_column_or_a_nullable_one() -> None:
    for dtype in ("Int64", "int64[pyarrow]", object, "category"):
        number = pd.Series([2**53 + 1, None] * 6, dtype=object).astype(dtype)
        policy = crenel.Policy(quasi_identifiers={"number": crenel.Numeric((0, 2.0**60), missing="value")})
        made = replace(keeping("value"), policy=policy, privacy=crenel.Privacy(k=2))
        released = crenel.anonymize(pd.DataFrame({"number": number}), made).released
        assert released["number_min"].dtype == ("Int64" if dtype == "category" else dtype)
        assert int(released["number_min"].dropna().iloc[0]) <= 2**53 + 1 <= int(released["number_max"].dropna().iloc[0])


def test_a_polars_frame_comes_back_as_one() -> None:
    frame = polars.from_arrow(TABLE)
    found = crenel.anonymize(frame, SETTINGS)
    assert isinstance(found.released, polars.DataFrame)
    assert found.released["diagnosis"].to_list() == WANTED.released["diagnosis"].to_pylist()
    assert found.released.schema["born"] == polars.Date


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("age", kind) for kind in (pa.uint8(), pa.int64(), pa.float32(), pa.float64(), pa.string())),
        *(("area", kind) for kind in (pa.large_string(), pa.dictionary(pa.int8(), pa.string()))),
        *(("diagnosis", kind) for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string()))),
        *(("person", kind) for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string()))),
        ("height", pa.float64()),
        ("seen", pa.timestamp("ns")),
        ("seen", pa.timestamp("s", "Europe/Oslo")),
    ],
    ids=lambda of: str(of),
)
def test_columns_of_other_types_give_the_same_classes(name: str, kind: pa.DataType) -> None:
    column = TABLE[name].cast(pa.string()) if pa.types.is_floating(kind) else TABLE[name]  # rounded once
    other = TABLE.set_column(TABLE.schema.get_field_index(name), name, column.cast(kind, safe=False))
    found = crenel.anonymize(other, SETTINGS)
    assert found.audit["loss"] == WANTED.audit["loss"]
    assert found.audit["tuples"] == WANTED.audit["tuples"]


FLOATS = (pa.float16(), pa.float32(), pa.float64())


def of_floats(values: list[float | None], kind: pa.DataType, way: str) -> Any:
    """Return records of one column of each role, with NaN and null as the Arrow column has them."""
    column = pa.array([None if value is None else np.float16(value) for value in values], pa.float16()).cast(kind)
    if way == "dictionary":
        indices = pa.array([None if value is None else row for row, value in enumerate(values)])
        column = pa.DictionaryArray.from_arrays(indices, pa.array(column.to_numpy(zero_copy_only=False), kind))
    table = pa.table(dict.fromkeys(("number", "form", "secret", "kept"), column))
    if way == "polars":
        return polars.from_arrow(table)
    if way == "pandas":
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    return table


def as_table(data: Any) -> pa.Table:
    if isinstance(data, pd.DataFrame):
        return pa.Table.from_pandas(data)
    return data if isinstance(data, pa.Table) else data.to_arrow()


def keeping(missing: Any, **policy: Any) -> crenel.Settings:
    quasi = {
        "number": crenel.Numeric((0, 9), missing=missing),
        "form": crenel.Categorical(crenel.Numbers((0, 9), [1, 5, 10], whole=False)),
    }
    roles = {"quasi_identifiers": quasi, "sensitive": ["secret"], "passthrough": ["kept"], **policy}
    return crenel.Settings(
        policy=crenel.Policy(missing=missing, **roles),
        privacy=crenel.Privacy(k=2, l=2),
        algorithm=crenel.Nearest(crenel.Delay(tuples=9)),
        seed=1,
    )


NAN = float("nan")


@pytest.mark.parametrize("way", ["pyarrow", "dictionary", "pandas", "polars"])
@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_nan_is_a_missing_value_in_each_role_and_is_not_published(kind: pa.DataType, way: str) -> None:
    if way == "polars" and kind == pa.float16():
        pytest.skip("Polars has no such type in all versions")
    data = of_floats([NAN, None, 1.0, 2.0], kind, way)
    rejected = crenel.anonymize(data, keeping("reject"), row_numbers=True).rejected
    rejected = as_table(rejected)
    assert sorted(zip(rejected["row"].to_pylist(), rejected["reason"].to_pylist(), strict=True)) == [
        (0, "missing"),
        (1, "missing"),
    ]
    # Of two persons, one has NaN and the other null: one value, and no diversity.
    alike = of_floats([NAN, None] * 3, kind, way)
    assert len(crenel.anonymize(alike, keeping("value")).released) == 0
    # With a number beside them there are two values, and no NaN remains.
    mixed = crenel.anonymize(of_floats([NAN, None, 3.0] * 2, kind, way), keeping("value")).released
    table = as_table(mixed)
    for name in ("secret", "kept"):
        column = table[name].cast(kind)
        assert column.null_count == 4
        assert not any(value != value for value in column.drop_null().to_pylist())
    assert table["number_missing"].to_pylist().count("no") in (0, 2)
    assert set(table["form"].to_pylist()) & {"(missing)", "*"}


def test_noised_nan_and_a_reference_of_nan_are_missing_and_infinity_is_not() -> None:
    table = pa.table({"q": [1, 2, 3, 4], "x": [NAN, None, float("inf"), 1.0], "id": [NAN, 2.0, None, 4.0]})
    policy = crenel.Policy(
        quasi_identifiers={"q": crenel.Numeric((0, 9))}, noised={"x": crenel.Noised((0, 9), 1)}, reference="id"
    )
    noise = crenel.NoiseWithinRelease(epsilon=1)
    made = replace(keeping("reject"), policy=policy, privacy=crenel.Privacy(k=2, noise_within_release=noise))
    rejected = crenel.anonymize(table, made).rejected
    assert rejected["reason"].to_pylist() == ["missing", "missing", "bad_type"]
    assert rejected["reference"].to_pylist() == [None, "2.0", None]


def test_a_nan_of_pandas_is_missing() -> None:
    frame = pd.DataFrame({"age": [NAN, 40.0]})
    made = crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
        privacy=crenel.Privacy(k=1),
        algorithm=crenel.Nearest(crenel.Delay(tuples=1)),
    )
    assert crenel.anonymize(frame, made).rejected["reason"].tolist() == ["missing"]
    assert crenel.profile(pa.table({"x": [NAN, None, 1.0, 1.0]})).columns[0].missing == 0.5


def test_a_table_without_rows_gives_tables_without_rows() -> None:
    found = crenel.anonymize(TABLE.slice(0, 0), SETTINGS)
    assert found.released.schema == WANTED.released.schema
    assert found.audit.schema == WANTED.audit.schema
    assert (found.released.num_rows, found.summary.read, found.summary.mean_loss) == (0, 0, None)
    assert "records" in str(found.summary)


def test_fewer_persons_than_k_are_suppressed() -> None:
    found = crenel.anonymize(TABLE.slice(0, 3), SETTINGS)
    assert found.released.num_rows == 0
    assert found.suppressed["reason"].to_pylist() == ["too_few_subjects"] * 3


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ([1, 2], TypeError, r"data: is a builtins\.list; give a pyarrow Table"),
        (pd.Series([1]), TypeError, "data: is a pandas Series; give a DataFrame"),
        (pd.DataFrame({"a": [1]}, index=pd.Index([7], name="person")), ValueError, r"index 'person'.*reset_index"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "two columns 'a'; rename one"),
        (pd.DataFrame({1: [1]}), ValueError, "a column whose name is not text"),
        (pd.DataFrame({"a": [1.5, "x"]}), TypeError, "the column 'a' is of object with values of float, str, which"),
        (pd.DataFrame({"a": ["x\ud800"]}), TypeError, "the column 'a' is of object with values of str, which"),
        (pd.DataFrame({"b": [1], "a": [2**70]}), TypeError, "the column 'a' is of object with values of int, which"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([1.5])}), TypeError, r"the column 'a' is of Sparse\[float64, nan\]"),
        (pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), ValueError, "two columns 'a'; rename one"),
        (polars.Series("a", [1]), TypeError, "data: is a Polars Series; give a DataFrame"),
        (pa.chunked_array([[1]]), TypeError, r"pyarrow\.lib\.ChunkedArray, whose Arrow stream has no named columns"),
        (polars.DataFrame({"a": [1]}, schema={"a": polars.Int128}), TypeError, "column 'a' is of Int128, which Arrow"),
        (
            polars.DataFrame({"a": polars.Series([object()])}),
            TypeError,
            "the column 'a' is of Object, which Arrow does",
        ),
        (
            polars.DataFrame({"a": [[1]]}, schema={"a": polars.List(polars.Int128)}),
            TypeError,
            "the column 'a' is of Int128, which Arrow does not have; cast or remove it",
        ),
    ],
)
def test_data_that_cannot_be_read_is_refused_with_a_remedy(data: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        crenel.anonymize(data, SETTINGS)


PASSED = {
    "duration": pa.array([1, None] * 3, pa.duration("ms")),
    "bytes": pa.array([b"a", None] * 3, pa.binary(1)),
    "map": pa.array([[("a", 1)], None] * 3, pa.map_(pa.string(), pa.int64())),
    "wide decimal": pa.array([Decimal("1.5"), None] * 3, pa.decimal256(60, 2)),
    "no value": pa.nulls(6),
}
if hasattr(pa, "list_view"):  # from Arrow 16 on
    PASSED |= {
        "text view": pa.array(["a", None] * 3, pa.string_view()),
        "bytes view": pa.array([b"a", None] * 3, pa.binary_view()),
        "list view": pa.array([[1], None] * 3, pa.list_view(pa.int64())),
    }


@pytest.mark.parametrize("name", PASSED)
def test_other_types_are_passed_through_or_refused_by_name(name: str) -> None:
    column = PASSED[name]
    data = pa.table({"n": range(6), "c": column})
    policy = crenel.Policy(quasi_identifiers={"n": crenel.Numeric((0, 9))}, passthrough=["c"])
    made = replace(keeping("reject"), policy=policy, privacy=crenel.Privacy(k=2))
    if name == "list view":
        with pytest.raises(crenel.ConfigError, match=r"'c' is of type list_view<item: int64>"):
            crenel.anonymize(data, made)
        return
    released = crenel.anonymize(data, made).released["c"]
    assert released.type == column.type
    assert sorted(map(repr, released.to_pylist())) == sorted(map(repr, column.to_pylist()))
    if name.endswith("view"):  # the same in pandas, and from a reader
        frame = pd.DataFrame(
            {"n": range(6), "c": pd.Series(pd.array(pa.chunked_array([column]), pd.ArrowDtype(column.type)))}
        )
        assert crenel.anonymize(frame, made).released["c"].dtype == frame["c"].dtype
        reader = pa.RecordBatchReader.from_batches(data.schema, data.to_batches())
        assert crenel.anonymize(reader, made).released["c"].equals(released)
    for roles in ({"subject": "c"}, {"event_time": "c"}, {"reference": "c"}, {"sensitive": ["c"]}):
        other = replace(made, policy=replace(policy, passthrough=[], **roles))
        if name == "no value" or (name == "text view" and "event_time" not in roles):
            crenel.anonymize(data, other)
        else:
            with pytest.raises(crenel.ConfigError, match=r"column 'c'"):
                crenel.anonymize(data, other)


def test_columns_that_do_not_fit_the_policy_are_all_named() -> None:
    other = TABLE.rename_columns(["person", "years", "area", "height", "seen", "diagnosis", "born", "tests", "clinic"])
    other = other.set_column(3, "height", pa.array([[1.0]] * 200)).append_column("extra", pa.array([1] * 200))
    with pytest.raises(crenel.ConfigError) as caught:
        crenel.anonymize(other, SETTINGS)
    problems = "\n".join(caught.value.problems)
    assert "policy.quasi_identifiers: the source has no column 'age'" in problems
    assert "the source's column 'extra' has no role" in problems
    assert "policy.quasi_identifiers.height: has the type ARRAY<DOUBLE>" in problems
    assert "convert it in the source's query or data" in problems


FIRST = pd.DataFrame({"number": range(9), "form": 1.5, "secret": ["a", "b", "c"] * 3, "kept": date(2024, 1, 1)})
NEXT = {
    "a missing number": FIRST.assign(number=[None, *range(1, 9)]),
    "a column without values": FIRST.assign(secret=None),
    "no rows": FIRST.iloc[:0],
    "another order": FIRST[["kept", "form", "secret", "number"]],
    "categories": FIRST.astype({"secret": "category", "number": "category"}),
    "other widths": FIRST.astype({"number": "UInt8", "form": "float32", "secret": "string"}),
    "Arrow": pa.Table.from_pandas(FIRST),
    "Polars": polars.from_pandas(FIRST),
}


@pytest.mark.parametrize("name", NEXT)
def test_a_stream_converts_the_columns_of_later_data_exactly(name: str) -> None:
    made = keeping("value")
    with crenel.open_stream(made) as stream, crenel.open_stream(made, row_numbers=True) as plain:
        parts = [stream.push(FIRST), stream.push(NEXT[name]), stream.finish()]
        wanted = FIRST.assign(number=FIRST["number"].astype("Int64"))
        if name in ("a missing number", "a column without values"):
            wanted = NEXT[name].astype({"number": "Int64"})
        rows = pa.Table.from_pandas(wanted, schema=pa.Schema.from_pandas(FIRST))
        others = [plain.push(FIRST), plain.push(rows.slice(0, 0 if name == "no rows" else 9)), plain.finish()]
    for part, other in zip(parts, others, strict=True):
        assert part.released.equals(other.released.drop(["row"]))
        assert part.audit.equals(other.audit)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (FIRST.drop(columns="kept"), "data: lacks the column 'kept' of the stream"),
        (FIRST.assign(more=1), "data: has the column 'more', and the stream has none of that name"),
        (
            FIRST.assign(number=0.5),
            "'number' has the type double, and int64 in the stream, which does not",
        ),
        (FIRST.assign(number=2.0**53), "'number' has the type double"),
        (FIRST.assign(number="1"), "'number' has the type string"),
        (FIRST.assign(secret=1), "'secret' has the type int64, and string in the stream"),
        (FIRST.assign(kept=pd.Timestamp("2024-01-01")), r"'kept' has the type timestamp\[n?s\], and date32\[day\] in"),
    ],
)
def test_a_stream_refuses_columns_that_cannot_be_converted_exactly(data: pd.DataFrame, words: str) -> None:
    stream = crenel.open_stream(keeping("value"))
    stream.push(FIRST)
    with pytest.raises(crenel.ConfigError, match=words):
        stream.push(data)
    untyped = crenel.open_stream(keeping("value"))
    assert untyped.push(FIRST.iloc[:0]).released.num_rows == 0
    with pytest.raises(crenel.ConfigError, match=r"'secret' .* null in the stream.*by Stream.open\(schema\)"):
        untyped.push(FIRST)


@pytest.mark.parametrize("role", ["interval", "labels", "noised", "event_time", "arrays"])
def test_columns_without_any_value_give_empty_results(role: str) -> None:
    roles: dict[str, Any] = {
        "interval": {"quasi_identifiers": {"c": crenel.Numeric(("2020-01-01", "2024-01-01"), missing="value")}},
        "labels": {"quasi_identifiers": {"c": crenel.Categorical(crenel.Dates(domain=("2020-01-01", "2020-12-31")))}},
        "noised": {"noised": {"c": crenel.Noised((0, 1), 0.5)}},
        "event_time": {"event_time": "c"},
        "arrays": {"sensitive": ["c"], "arrays": {"c": 2}},
    }
    policy = {"quasi_identifiers": {"n": crenel.Numeric((0, 9))}, "subject": "s", "missing": "value", **roles[role]}
    policy |= {} if "n" in policy["quasi_identifiers"] else {"drop": ["n"]}
    privacy = crenel.Privacy(
        k=2, noise_within_release=crenel.NoiseWithinRelease(epsilon=1) if role == "noised" else None
    )
    made = replace(keeping("value"), policy=crenel.Policy(**policy), privacy=privacy)
    for data in (
        pd.DataFrame({"c": [], "n": [], "s": []}, dtype=object),
        pd.DataFrame({"c": None, "n": [1, 2], "s": ["a", "b"]}),
    ):
        result = crenel.anonymize(data, made)
        rejected = len(data) if role in ("noised", "event_time") else 0
        assert (len(result.released), len(result.rejected)) == (len(data) - rejected, rejected)


NESTED = pa.Table.from_pylist(
    [
        {"id": i, "patient": None if i == 3 else {"age": 30 + i, "home": {"zip": f"1{i % 10}"}, "name": "Ann"}}
        for i in range(40)
    ]
)
OF_NESTED = crenel.Settings(
    policy=crenel.Policy(
        quasi_identifiers={
            "patient.age": crenel.Numeric((0, 110)),
            "patient.home.zip": crenel.Categorical(crenel.Mask(keep=[2, 1], length=2)),
        },
        passthrough=["id"],
        drop=["patient.name"],
    ),
    privacy=crenel.Privacy(k=2),
    algorithm=crenel.Nearest(crenel.Delay(tuples=100)),
    seed=1,
)


@pytest.mark.parametrize("kind", ["table", "reader", "pandas", "polars"])
def test_fields_of_structs_have_roles(kind: str) -> None:
    data = {
        "table": lambda: NESTED,
        "reader": lambda: pa.RecordBatchReader.from_batches(NESTED.schema, NESTED.to_batches(7)),
        "pandas": NESTED.to_pandas,
        "polars": lambda: polars.from_arrow(NESTED),
    }[kind]()
    found = crenel.anonymize(data, OF_NESTED)
    ids, lower, upper = (
        [int(str(value)) for value in found.released[name]] for name in ("id", "patient.age_min", "patient.age_max")
    )
    assert 3 not in ids
    assert len(set(ids)) == 39 - len(found.suppressed) > 30
    assert all(low <= 30 + number <= high for number, low, high in zip(ids, lower, upper, strict=True))
    # A missing struct makes its fields missing.
    assert [str(column) for column in found.rejected["column"]] == ["patient.age"]


def test_an_opened_stream_of_structs_goes_on_from_a_snapshot() -> None:
    with crenel.open_stream(OF_NESTED) as stream:
        stream.open(NESTED.schema)
        stream.push(NESTED.slice(0, 10))
        kept = stream.snapshot()
    with crenel.open_stream(OF_NESTED, snapshot=kept) as stream:
        parts = [stream.push(NESTED.slice(10)), stream.finish()]
    assert sum(part.released.num_rows + part.suppressed.num_rows for part in parts) == 39


def test_a_struct_with_a_role_has_no_roles_in_it() -> None:
    policy = crenel.Policy(quasi_identifiers=OF_NESTED.policy.quasi_identifiers, passthrough=["patient", "id"])
    made = crenel.Settings(policy=policy, privacy=OF_NESTED.privacy, algorithm=OF_NESTED.algorithm)
    with pytest.raises(crenel.ConfigError, match=r"'patient' has a role, and its field 'patient.age' too"):
        crenel.anonymize(NESTED, made)


INNER = pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.string())]))])
ITEMS = st.lists(
    st.none()
    | st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(-9, 9),
                "b": st.none() | st.fixed_dictionaries({"c": st.none() | st.sampled_from(["", "x"])}),
            }
        ),
        min_size=2,
        max_size=2,
    ),
    max_size=9,
)


@given(
    ITEMS,
    st.integers(0, 5),
    st.sampled_from([pa.list_(INNER), pa.large_list(INNER), pa.list_(INNER, 2)]),
    st.booleans(),
)
def test_a_field_of_the_rows_of_a_list_has_the_value_of_each_row(
    rows: list[Any], start: int, kind: pa.DataType, within: bool
) -> None:
    values = pa.array([{"v": row} for row in rows], pa.struct([("v", kind)])) if within else pa.array(rows, kind)
    roles = ["w.v[*].b.c", "w.v[*].a"] if within else ["w[*].b.c", "w[*].a"]
    frame = Frame.of(pa.table({"w": values.slice(start)})).flattened(roles)
    assert frame.schema.names == roles[::-1]
    found = [row for batch in frame.batches() for row in batch.to_pylist()]
    assert found == [
        {
            roles[1]: None if row is None else [(item or {}).get("a") for item in row],
            roles[0]: None if row is None else [((item or {}).get("b") or {}).get("c") for item in row],
        }
        for row in rows[start:]
    ]
