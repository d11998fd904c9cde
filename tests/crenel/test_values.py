"""A value has one number, text and time, in each role, in a job and in a program, whatever data it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pandas.arrays import ArrowExtensionArray  # type: ignore[attr-defined]

import crenel
from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.outcomes import REJECTIONS
from crenel.anonymity.model.values import sql_type
from crenel.jobs.config.load import Config
from crenel.jobs.pipeline.layout import Layout, SourceColumns, layout
from crenel.operators.encode.encoder import Encoder
from crenel.state.block import NO_TIME

UTC = timezone.utc
NAN = float("nan")


class Type(NamedTuple):
    """Values of an Arrow type, and what a job makes of them, written by hand; NaN and None are missing.

    ``sql`` is the type of the column in a job; None where SQL has none with these values. ``texts`` are those of
    ``CAST(c AS STRING)``, with FLOAT and DOUBLE in the form of Java 19 and later, and a TIME without the fraction 0.
    """

    arrow: pa.DataType
    values: Sequence[Any]
    sql: str | None
    texts: Sequence[str | None]
    numbers: Sequence[float] = ()
    times: Sequence[int] = ()


def _stamps(*fractions: str) -> list[str]:
    return [f"{second}{'.' * bool(fraction)}{fraction}" for second, fraction in zip(_SECONDS, fractions, strict=True)]


_SECONDS = ("1969-12-31 23:59:59", "2024-02-29 08:00:00", "2024-03-01 00:30:00")
_MOMENTS = [datetime(1969, 12, 31, 23, 59, 59), datetime(2024, 2, 29, 8), datetime(2024, 3, 1, 0, 30)]
_MICROS = [_MOMENTS[0].replace(microsecond=999_999), _MOMENTS[1].replace(microsecond=1500), _MOMENTS[2]]
_ZONED = [moment.replace(tzinfo=UTC) for moment in _MOMENTS]
_DAYS = [date(1969, 12, 31), date(2024, 2, 29), date(1900, 1, 1)]
_DAY_TEXTS, _DAY_TIMES = (
    ["1969-12-31", "2024-02-29", "1900-01-01"],
    [-86_400_000, 1_709_164_800_000, -2_208_988_800_000],
)
_TIMES = [-1000, 1_709_193_600_000, 1_709_253_000_000]
_REALS = [0.1, -0.0, 1e7, 1234.5, 0.00025, NAN]
_REAL_TEXTS = ["0.1", "0.0", "1.0E7", "1234.5", "2.5E-4", None]
_WORDS = ["7", "x", "", "2024-02-29"]
_WIDE = [2**53 + 1, -(2**63), 2**63 - 1, 0]

TYPES = {
    "int8": Type(pa.int8(), [-128, 0, 127], "TINYINT", ["-128", "0", "127"], [-128, 0, 127]),
    "int16": Type(pa.int16(), [-300, 300], "SMALLINT", ["-300", "300"], [-300, 300]),
    "int32": Type(pa.int32(), [-(2**31), 7], "INT", ["-2147483648", "7"], [-(2.0**31), 7]),
    "int64": Type(pa.int64(), _WIDE, "BIGINT", list(map(str, _WIDE)), [2.0**53, -(2.0**63), 2.0**63, 0]),
    "uint8": Type(pa.uint8(), [0, 255], "SMALLINT", ["0", "255"], [0, 255]),
    "uint32": Type(pa.uint32(), [0, 2**32 - 1], "BIGINT", ["0", "4294967295"], [0, 2.0**32 - 1]),
    "uint64": Type(pa.uint64(), [0, 2**64 - 1], "DECIMAL(20, 0)", ["0", "18446744073709551615"], [0, 2.0**64]),
    "float16": Type(pa.float16(), [np.float16(1.5), np.float16(NAN)], "FLOAT", ["1.5", None], [1.5, NAN]),
    "float32": Type(pa.float32(), _REALS, "FLOAT", _REAL_TEXTS, [float(np.float32(value)) + 0.0 for value in _REALS]),
    "float64": Type(pa.float64(), _REALS, "DOUBLE", _REAL_TEXTS, [value + 0.0 for value in _REALS]),
    "bool": Type(pa.bool_(), [True, False], "BOOLEAN", ["TRUE", "FALSE"]),
    "string": Type(
        pa.string(), ["7", "x", "", "2024-02-29"], "STRING", ["7", "x", "", "2024-02-29"], [7, NAN, NAN, NAN]
    ),
    "large_string": Type(pa.large_string(), ["7", "08:30"], "STRING", ["7", "08:30"], [7, NAN]),
    "dictionary": Type(pa.dictionary(pa.int8(), pa.string()), ["b", "a"], "STRING", ["b", "a"], [NAN, NAN]),
    "decimal": Type(
        pa.decimal128(5, 2), [Decimal("-0.10"), Decimal("123.45")], "DECIMAL(5, 2)", ["-0.10", "123.45"], [-0.1, 123.45]
    ),
    "small decimal": Type(pa.decimal128(12, 10), [Decimal("1e-10")], "DECIMAL(12, 10)", ["0.0000000001"], [1e-10]),
    "hundreds": Type(pa.decimal128(3, -2), [Decimal(99_900)], "DECIMAL(5, 0)", ["99900"], [99_900]),
    "decimal256": Type(pa.decimal256(10, 2), [Decimal("0.07")], "DECIMAL(10, 2)", ["0.07"], [0.07]),
    "date32": Type(pa.date32(), _DAYS, "DATE", _DAY_TEXTS, times=_DAY_TIMES),
    "date64": Type(pa.date64(), _DAYS, "DATE", _DAY_TEXTS, times=_DAY_TIMES),
    "time32[s]": Type(pa.time32("s"), [time(8), time(0)], "TIME(0)", ["08:00:00", "00:00:00"]),
    "time32[ms]": Type(pa.time32("ms"), [time(8), time(0, 0, 0, 120_000)], "TIME(3)", ["08:00:00", "00:00:00.12"]),
    "time64[us]": Type(pa.time64("us"), [time(8, 0, 0, 1)], None, ["08:00:00.000001"]),
    "time64[ns]": Type(pa.time64("ns"), [28_800_000_000_100], None, ["08:00:00.0000001"]),
    "timestamp[s]": Type(pa.timestamp("s"), _MOMENTS, "TIMESTAMP(0)", _SECONDS, times=_TIMES),
    "timestamp[ms]": Type(pa.timestamp("ms"), _MOMENTS, "TIMESTAMP(3)", _stamps("000", "000", "000"), times=_TIMES),
    "timestamp[us]": Type(
        pa.timestamp("us"),
        _MICROS,
        "TIMESTAMP(6)",
        _stamps("999999", "001500", "000000"),
        times=[-1, _TIMES[1] + 1, _TIMES[2]],
    ),
    "timestamp[ns]": Type(pa.timestamp("ns"), [-1], "TIMESTAMP(9)", ["1969-12-31 23:59:59.999999999"], times=[-1]),
    "zoned[s]": Type(pa.timestamp("s", "Europe/Berlin"), _ZONED, "TIMESTAMP_LTZ(0)", _SECONDS, times=_TIMES),
    "zoned[ms]": Type(
        pa.timestamp("ms", "America/New_York"),
        _ZONED,
        "TIMESTAMP_LTZ(3)",
        _stamps("000", "000", "000"),
        times=_TIMES,
    ),
    "zoned[us]": Type(
        pa.timestamp("us", "UTC"), _ZONED, "TIMESTAMP_LTZ(6)", _stamps("000000", "000000", "000000"), times=_TIMES
    ),
}


def _labels(of: Type) -> dict[str, list[str]]:
    return {text: ["*"] for text in of.texts if text is not None}


ROLES: dict[str, Callable[[Type], dict[str, Any]]] = {
    "interval": lambda of: {"quasi_identifiers": {"c": crenel.Numeric()}},
    "labels": lambda of: {"quasi_identifiers": {"c": crenel.Categorical(_labels(of))}},
    "numbers": lambda of: {
        "quasi_identifiers": {"c": crenel.Categorical(crenel.Numbers((0, 200), [50, 100], open=True, whole=False))}
    },
    "mask": lambda of: {"quasi_identifiers": {"c": crenel.Categorical(crenel.Mask(keep=[1, 0], length=1))}},
    "dates": lambda of: {
        "quasi_identifiers": {"c": crenel.Categorical(crenel.Dates(domain=("1960-01-01", "2024-12-31")))}
    },
    "weekdays": lambda of: {"quasi_identifiers": {"c": crenel.Categorical(crenel.Weekdays())}},
    "times": lambda of: {"quasi_identifiers": {"c": crenel.Categorical(crenel.Times())}},
    "addresses": lambda of: {"quasi_identifiers": {"c": crenel.Categorical(crenel.Ip(["10.0.0.0/8"], [16]))}},
    "sensitive": lambda of: {"sensitive": ["c"]},
    "generalized": lambda of: {"sensitive": ["c"], "generalized": {"c": crenel.Generalized(_labels(of))}},
    "generalized days": lambda of: {
        "sensitive": ["c"],
        "generalized": {"c": crenel.Generalized(crenel.Dates(domain=("1960-01-01", "2024-12-31")), level=1)},
    },
    "noised": lambda of: {"noised": {"c": crenel.Noised((0, 100), 1)}},
    "subject": lambda of: {"subject": "c"},
    "reference": lambda of: {"reference": "c"},
    "event time": lambda of: {"event_time": "c"},
    "passthrough": lambda of: {"passthrough": ["c"]},
}


def settings(role: str, of: Type, **changed: Any) -> crenel.Settings:
    roles = ROLES[role](of)
    roles.setdefault("quasi_identifiers", {"n": crenel.Numeric((0, 9))})
    if "n" not in roles["quasi_identifiers"]:
        roles["drop"] = ["n"]
    noise = crenel.NoiseWithinRelease(epsilon=1) if role == "noised" else None
    privacy = crenel.Privacy(k=2, noise_within_release=noise)
    own: dict[str, Any] = {"policy": crenel.Policy(**roles), "privacy": privacy, "seed": 1}
    return crenel.Settings(algorithm=crenel.Nearest(crenel.Delay(tuples=9)), **{**own, **changed})


def table(of: Type) -> pa.Table:
    """Return each value three times, and a missing one; ``n`` is out of its domain once, so that one is rejected."""
    values = [*of.values, None, *of.values, *of.values]
    column = pa.array(values, of.arrow.value_type if pa.types.is_dictionary(of.arrow) else of.arrow)
    if pa.types.is_dictionary(of.arrow):
        column = column.dictionary_encode().cast(of.arrow)
    return pa.table({"c": column, "n": pa.array([10, *(i % 7 for i in range(1, len(values)))], pa.int32())})


def by_a_program(of: Type, made: crenel.Settings) -> tuple[Any, ...]:
    with crenel.open_stream(made) as stream:
        data = table(of)
        stream.open(data.schema)
        blocks, _ = stream._encoded(data.combine_chunks().to_batches()[0])
        return _comparable([each.block for each in blocks], stream._opened.plan.checked)


def by_a_job(of: Type, made: crenel.Settings) -> tuple[Any, ...]:
    """Return what a job encodes, whose SQL is evaluated by the texts, numbers and times of ``of``."""
    found = job_layout(of, made)
    return encoded(found, made, sql_arguments(of, found))


def job_layout(of: Type, made: crenel.Settings) -> Layout:
    return layout(Config(made), SourceColumns({"c": of.sql or sql_type(of.arrow), "n": "INT"}, True), "data")


def rows_of(of: Type) -> list[int | None]:
    """Return the value of each row of ``table``; None where it is missing."""
    return [*range(len(of.values)), None, *range(len(of.values)), *range(len(of.values))]


def sql_arguments(of: Type, found: Layout) -> list[Any]:
    rows, sql = rows_of(of), of.sql or sql_type(of.arrow)
    first = {"n": table(of)["n"].to_pandas(), "n IS NULL": pd.Series([False] * len(rows))}
    plain = [text.replace("`", "") for text in found.arguments]
    return [first[text] if text in first else _flink(text, of, rows, sql) for text in plain]


def encoded(found: Layout, made: crenel.Settings, arguments: Sequence[Any]) -> tuple[Any, ...]:
    plan = found.plan if made.policy.passthrough else found.plan.readable
    return _comparable([each.block for each in Encoder(plan).blocks(*arguments)], plan.checked)


def _flink(expression: str, of: Type, rows: Sequence[int | None], sql: str) -> pd.Series[Any]:
    """Return the argument that PyFlink passes for an SQL expression."""

    def each(values: Sequence[Any]) -> list[Any]:
        return [None if row is None or row >= len(values) else values[row] for row in rows]

    texts = pa.array(each(of.texts), pa.string())
    name = sql.partition("(")[0]
    if expression == "c IS NULL":
        return pd.Series([row is None for row in rows])
    if sql == "TIME(3)":  # Flink writes each with a fraction
        shown = [text if text is None or "." in text else f"{text}.0" for text in texts.to_pylist()]
        texts = pa.array(shown, pa.string())
    if expression == "CAST(c AS STRING)" or (expression == "c" and name == "STRING"):
        return pd.Series(ArrowExtensionArray(texts))
    if expression == "CAST(c AS DOUBLE)" or (expression == "c" and name in ("FLOAT", "DOUBLE")):
        kind = np.float32 if expression == "c" and name == "FLOAT" else np.float64
        return pd.Series([NAN if number is None else number for number in each(of.numbers)], dtype=kind)
    if expression in ("COALESCE(CAST(c AS BIGINT), CAST(0 AS BIGINT))", "COALESCE(c, CAST(0 AS BIGINT))"):
        return pd.Series([value or 0 for value in each(of.values)], dtype=np.int64)
    if name.startswith("TIMESTAMP") or name == "DATE":
        stamps = [NO_TIME if stamp is None else stamp for stamp in each(of.times)]
        return pd.Series(np.array(stamps, np.int64).view("datetime64[ms]"))
    assert expression == "c", expression
    return pa.array(each(of.values), pa.bool_() if name == "BOOLEAN" else pa.int64()).to_pandas()


def _comparable(blocks: list[Any], checked: Sequence[str | None]) -> tuple[Any, ...]:
    (block,) = blocks
    rejected = [
        (checked[column], REJECTIONS[reason])
        for column, reason in zip(block.rejected.column.tolist(), block.rejected.reason.tolist(), strict=True)
    ]
    parts = (block.numeric, block.categorical, block.sensitive, block.event_time)
    subject = None if block.subject is None else block.subject.tolist()
    return (*(part.tolist() for part in parts), subject, block.members.to_pylist(), rejected, block.rejected.reference)


@pytest.mark.parametrize("name", TYPES)
def test_a_job_and_a_program_read_a_value_alike(name: str) -> None:
    of = TYPES[name]
    for role in ROLES.keys() - {"event time", "passthrough"}:
        made = settings(role, of)
        wanted, found = (tried(read, of, made) for read in (by_a_job, by_a_program))
        assert found == wanted, role


def tried(read: Callable[[Type, crenel.Settings], tuple[Any, ...]], of: Type, made: crenel.Settings) -> Any:
    """Return what is encoded; the number of problems where the type does not fit its role."""
    try:
        return read(of, made)
    except ConfigError as error:
        return len(error.problems)


def as_pandas(data: pa.Table) -> Any:
    return data.to_pandas(types_mapper=pd.ArrowDtype)


@pytest.mark.parametrize("convert", [as_pandas, polars.from_arrow], ids=["pandas", "polars"])
@pytest.mark.parametrize("name", TYPES)
def test_data_of_other_libraries_gives_the_same_releases_and_rejections(name: str, convert: Callable[..., Any]) -> None:
    of, data = TYPES[name], table(TYPES[name])
    if convert is not as_pandas and name in ("float16", "hundreds", "decimal256"):
        pytest.skip("Polars does not have the type")
    frame = convert(data)
    finer = {"timestamp[s]", "zoned[s]", "date64"}  # in Polars, in their texts
    for role in ROLES.keys() - ({"labels", "generalized"} if convert is not as_pandas and name in finer else set()):
        made = settings(role, of)
        wanted, found = (_outcome(each, made) for each in (data, frame))
        assert found == wanted, role


def _outcome(data: Any, made: crenel.Settings) -> Any:
    """Return rows and losses of the releases, and the rejections; None where a type does not fit its role."""
    try:
        result = crenel.anonymize(data, made, row_numbers=True)
    except ConfigError:
        return None
    rejected = list(zip(*(list(result.rejected[each]) for each in ("row", "column", "reason")), strict=True))
    losses = [float(str(loss)) for loss in result.audit["loss"]]
    return [int(str(row)) for row in result.released["row"]], losses, [tuple(map(str, each)) for each in rejected]


@pytest.mark.parametrize("name", TYPES)
def test_values_return_unchanged_and_event_times_are_milliseconds(name: str) -> None:
    of, data = TYPES[name], table(TYPES[name])
    released = crenel.anonymize(data, settings("passthrough", of), row_numbers=True).released
    wanted = data["c"].take(released["row"]).to_pylist()
    assert released["c"].type == of.arrow
    assert released["c"].to_pylist() == [None if value != value else value for value in wanted]
    times = of.times or ([int(value) for value in of.numbers] if pa.types.is_integer(of.arrow) else None)
    with crenel.open_stream(settings("event time", of)) as stream:
        if times is None:
            with pytest.raises(ConfigError, match=r"policy\.event_time: column 'c' has the type"):
                stream.open(data.schema)
            return
        stream.open(data.schema)
        blocks, _ = stream._encoded(data.combine_chunks().to_batches()[0])
        found = {*(time for each in blocks for time in each.block.event_time.tolist())}
        assert found == {time for time in times if -62_135_596_800_000 <= time <= 253_402_300_799_999}


@pytest.mark.parametrize(
    ("values", "leaves"),
    [
        ([34, 45], [34, 45]),
        ([34, 45], ["34", 45.0]),
        (np.array([34, 45], np.uint8), np.array([34, 45])),
        (np.array([34.0, 0.1], np.float32), ["34", "0.1"]),
        ([34.0, 1e7], [34, "10000000"]),
        ([True, False], [True, False]),
        ([True, False], ["true", "False"]),
        ([Decimal("1.50"), Decimal("2.00")], ["1.5", 2]),
        ([date(2024, 2, 29), date(2024, 3, 1)], [date(2024, 2, 29), "2024-03-01"]),
        (pa.array([0, 500], pa.timestamp("ms")), [datetime(1970, 1, 1), "1970-01-01 00:00:00.5"]),
        ([time(8), time(9, 0, 0, 120_000)], [time(8), "09:00:00.120"]),
        ([time(8), time(9)], ["08:00:00.000", "09:00"]),
        (pa.array([28_800, 32_400], pa.time32("s")), ["08:00:00.0", "09:00:00"]),
        (["34", "34.0"], ["34", "34.0"]),
        ([True, False], ["TRUE", "FALSE"]),
    ],
)
def test_a_leaf_denotes_a_value_of_its_column(values: Any, leaves: Any) -> None:
    data = pa.table({"c": pa.array(values), "n": [1, 2]})
    hierarchy = {leaves[0]: ["a", "*"], leaves[1]: ["b", "*"]}
    of = Type(pa.null(), (), None, ())
    quasi = {"c": crenel.Categorical(hierarchy, publish="set")}
    made = replace(settings("reference", of), policy=crenel.Policy(quasi_identifiers=quasi, drop=["n"]))
    result = crenel.anonymize(data, made)
    assert result.rejected.num_rows == 0
    assert all(len(each) == 2 for each in result.released["c"].to_pylist())
    generalized = {"c": crenel.Generalized(hierarchy, level=1)}
    policy = crenel.Policy(quasi_identifiers={"n": crenel.Numeric((0, 9))}, sensitive=["c"], generalized=generalized)
    assert sorted(crenel.anonymize(data, replace(made, policy=policy)).released["c"].to_pylist()) == ["a", "b"]


@pytest.mark.parametrize(
    ("hierarchy", "words"),
    [
        ({34: ["young"], 45: ["old"]}, "line 2: two roots, 'young' and 'old'"),
        ({34: ["*"], "34": ["*"]}, "line 2: the value '34' is in line 1 already"),
        ({"a": "Norway"}, "is unknown; known here: file, values"),
        ({"a": ["*"], "b": "Norway"}, "line 2: the labels above a value are a list"),
        ({"a": ["*"], None: ["*"]}, "line 2: holds a NoneType; give text, a number"),
        ({("a", "b"): ["*"]}, "line 1: holds a tuple"),
        ({}, "must hold one of file, values"),
    ],
)
def test_an_error_of_a_hierarchy_names_attribute_and_line(hierarchy: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"hierarchy.*: {words}") as caught:
        settings(
            "interval", TYPES["int8"], policy=crenel.Policy(quasi_identifiers={"c": crenel.Categorical(hierarchy)})
        )
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    "hierarchy",
    [
        crenel.Values([1, 2, "(other)"]),
        crenel.Groups({"known": [1, 2], "else": ["(other)"]}),
        {1: ["known", "*"], 2: ["known", "*"], "(other)": ["else", "*"]},
    ],
    ids=lambda hierarchy: type(hierarchy).__name__,
)
@pytest.mark.parametrize(
    "kind", [pa.int16(), pa.float64(), pa.string(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_the_leaf_other_takes_each_value_that_a_hierarchy_lacks(hierarchy: Any, kind: pa.DataType) -> None:
    column = pa.array(["1", "1", "7", "2", "99", "2", None]).cast(pa.string())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    policy = crenel.Policy({"a": crenel.Numeric((0, 9)), "c": crenel.Categorical(hierarchy)}, passthrough=["n"])
    settings = crenel.Settings(policy=policy, privacy=crenel.Privacy(k=2), algorithm=crenel.Nearest(crenel.Delay(8)))
    table = pa.table({"a": [1, 1, 5, 9, 5, 9, 5], "c": column, "n": range(7)})
    result = crenel.anonymize(table, settings)
    rows = {row["n"]: row["c"] for row in result.released.to_pylist()}
    assert rows == {0: "1", 1: "1", 3: "2", 5: "2", 2: "(other)", 4: "(other)"}
    assert result.rejected.select(["reason", "column"]).to_pylist() == [{"reason": "missing", "column": "c"}]
