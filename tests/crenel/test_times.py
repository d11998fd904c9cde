"""Days and timestamps as numeric quasi-identifiers: intervals have the type of their column, in each algorithm."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

import crenel
from tests.crenel.stream import records as visits
from tests.crenel.stream import settings
from tests.crenel.test_published_forms import broken, changed

TYPES = {
    "timestamp": pa.timestamp("ms"),
    "seconds": pa.timestamp("s"),
    "zoned": pa.timestamp("ms", "Europe/Berlin"),
    "day": pa.date32(),
}


def records(kind: pa.DataType) -> pa.Table:
    """Return visits with a time beside event time, some of them before 1970."""
    table = visits()
    times = [time.replace(tzinfo=None) - timedelta(days=56 * 365) for time in table["seen"].to_pylist()]
    times = [time.replace(microsecond=time.microsecond // 1000 * 1000) for time in times]
    plain = pa.array(times, pa.timestamp("ms"))
    tz = getattr(kind, "tz", None)
    return table.append_column("visited", plain.cast(pa.timestamp("ms", tz)).cast(kind, safe=False))


def timed(algorithm: str = "nearest", visited: crenel.Numeric | None = None, **others: Any) -> crenel.Settings:
    base = settings(algorithm, **others)
    quasi: dict[str, Any] = {
        "born": crenel.Numeric((date(1950, 1, 1), "2010-01-01")),
        "visited": visited or crenel.Numeric(),
        "area": base.policy.quasi_identifiers["area"],
    }
    return replace(base, policy=replace(base.policy, quasi_identifiers=quasi, passthrough=["clinic"]))


def published(kind: pa.DataType, of: crenel.Settings) -> tuple[pa.Table, Any]:
    """Return the records, those of them that were published, in the order of the result, and the result."""
    table = records(kind).drop(["tests", "age", "height"])
    result = crenel.anonymize(table, of, row_numbers=True)
    return table.take(result.released["row"]), result


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("algorithm", ["castle", "nearest", "suhdsa", "mondrian"])
def test_an_interval_has_the_type_of_its_column_and_contains_its_records(algorithm: str, kind: str) -> None:
    of = timed(algorithm)
    members, result = published(TYPES[kind], of)
    assert result.released.num_rows > 200
    for name, wanted in (("born", pa.date32()), ("visited", TYPES[kind])):
        assert result.released.schema.field(f"{name}_min").type == wanted
        assert result.audit.schema.field(f"{name}_max").type == wanted
        low, high = (result.released[f"{name}_{end}"].to_pylist() for end in ("min", "max"))
        outside = [
            v for least, v, most in zip(low, members[name].to_pylist(), high, strict=True) if not least <= v <= most
        ]
        assert not outside
    assert broken(result, of) == set()


def test_ends_lie_on_a_grid_that_a_duration_states() -> None:
    of = timed(visited=crenel.Numeric(ends="15 min"))
    _, result = published(TYPES["timestamp"], of)
    assert {end.minute % 15 for end in result.released["visited_min"].to_pylist()} == {0}
    assert len(set(result.released["visited_max"].to_pylist())) > 5
    assert broken(result, of) == set()


def test_a_representative_is_a_time_rounded_down() -> None:
    members, result = published(TYPES["day"], timed(visited=crenel.Numeric(publish="mean")))
    assert result.released.schema.field("visited").type == pa.date32()
    low, high = (member(members["visited"].to_pylist()) for member in (min, max))
    assert {type(day) for day in result.released["visited"].to_pylist()} == {date}
    assert all(low <= day <= high for day in result.released["visited"].to_pylist())


@pytest.mark.parametrize("missing", ["reject", "value"])
def test_a_missing_time_is_missing(missing: Any) -> None:
    of = timed(visited=crenel.Numeric(("2025-12-01", "2026-12-31"), missing=missing))
    table = visits().drop(["tests", "age", "height"])
    times = table["seen"].cast(pa.timestamp("ms"), safe=False).to_pylist()
    gaps = pa.array([None if i % 3 == 0 else time for i, time in enumerate(times)], pa.timestamp("ms"))
    result = crenel.anonymize(table.append_column("visited", gaps), of)
    rejected = [row["reason"] for row in result.rejected.to_pylist() if row["column"] == "visited"]
    if missing == "reject":
        assert len(rejected) > 100
        assert set(rejected) == {"missing"}
    else:
        absent = {row["visited_min"] for row in result.released.to_pylist() if row["visited_missing"] == "yes"}
        assert not rejected
        assert absent == {None}
    assert broken(result, of) == set()


def test_verify_sees_a_day_outside_its_domain() -> None:
    of = timed()
    _, result = published(TYPES["timestamp"], of)
    assert broken(changed("born_max", lambda day: day + timedelta(days=30_000))(result), of) >= {"domain"}


def test_an_attacker_who_knows_times_reads_intervals_of_times() -> None:
    of, table = timed(), records(TYPES["timestamp"]).drop(["tests", "age", "height"])
    found = crenel.attack(table, of, result=crenel.anonymize(table, of))
    assert found.to_dict()


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_finer_than_milliseconds_are_refused(unit: str) -> None:
    with pytest.raises(crenel.ConfigError, match=r"policy.quasi_identifiers.visited: the type TIMESTAMP\(.\) is finer"):
        crenel.anonymize(records(pa.timestamp(unit)).drop(["tests", "age", "height"]), timed())


@pytest.mark.parametrize(
    ("column", "number", "words"),
    [
        (
            [19710308, 19800101],
            crenel.Numeric(("1920-01-01", "2026-12-31")),
            "type BIGINT; CAST it to DATE",
        ),
        (["1971-03-08", "1980-01-01"], crenel.Numeric(("1920-01-01", "2026-12-31")), "the type STRING"),
        ([1971.5, 1980], crenel.Numeric((0, 1e9), ends="1 h"), "the type DOUBLE"),
        ([1971, 1980], crenel.Numeric((0, 1e9), step="1 h"), "the type BIGINT"),
        ([date(1971, 3, 8)], crenel.Numeric((1920, 2026)), "domain: is of numbers, and the column has the type DATE"),
    ],
)
def test_days_fit_columns_of_days_alone(column: list[Any], number: crenel.Numeric, words: str) -> None:
    of = crenel.Settings(
        policy=crenel.Policy(quasi_identifiers={"born": number}),
        privacy=crenel.Privacy(k=2),
        algorithm=crenel.Nearest(crenel.Delay(tuples=9)),
    )
    for made in (of, crenel.Settings.of_sections(yaml.safe_load(of.to_yaml()), Path(), "here")):
        with pytest.raises(crenel.ConfigError, match=words):
            crenel.anonymize(pa.table({"born": column}), made)
        again = crenel.Settings.of_sections(yaml.safe_load(made.to_yaml()), Path(), "here")
        assert again.policy == made.policy or made is of


def test_a_domain_of_a_day_and_a_number_is_refused() -> None:
    with pytest.raises(crenel.ConfigError, match=r"domain: one bound is a day or a time"):
        timed(visited=crenel.Numeric(("1920-01-01", 2e12)))


NEW_YEAR, LEAP = datetime(1969, 12, 31, 23, 59, 59), datetime(1904, 2, 29)
BEFORE = [NEW_YEAR, datetime(1969, 12, 31, 23, 59, 57), LEAP]
MEAN = datetime(1948, 1, 20, 23, 59, 58)  # of -1, -3 and -2_077_747_200 seconds: -692_582_401.33, rounded down
BEFORE_1970: dict[str, tuple[pa.DataType, list[Any], dict[str, Any]]] = {
    "date32": (pa.date32(), [date(1969, 12, 31), LEAP.date(), date(1969, 12, 30)], {"mean": date(1948, 1, 20)}),
    "date64": (pa.date64(), [date(1969, 12, 31), LEAP.date(), date(1969, 12, 30)], {"mean": date(1948, 1, 20)}),
    "s": (pa.timestamp("s"), BEFORE, {"mean": MEAN}),
    "ms": (pa.timestamp("ms"), BEFORE, {"mean": MEAN + timedelta(milliseconds=666)}),
    "zoned": (pa.timestamp("ms", "UTC"), BEFORE, {"mean": MEAN + timedelta(milliseconds=666)}),
    "us": (pa.timestamp("us"), [*BEFORE[:2], LEAP + timedelta(microseconds=-1)], {}),
    "ns": (pa.timestamp("ns"), BEFORE, {}),
}


@pytest.mark.parametrize("name", BEFORE_1970)
def test_days_and_times_before_1970_are_rounded_down(name: str) -> None:
    kind, values, wanted = BEFORE_1970[name]
    forms: dict[str, Any] = {
        "weekdays": crenel.Categorical(crenel.Weekdays(), publish="set"),
        "days": crenel.Categorical(crenel.Dates(("1900-01-01", "1999-12-31")), publish="set"),
    }
    if wanted:
        forms |= {form: crenel.Numeric(publish=form) for form in ("mean", "median")}  # type: ignore[arg-type]
        forms |= {"interval": crenel.Numeric(), "grid": crenel.Numeric(ends="2 d")}
    column = pa.array(values, kind)
    of = crenel.Settings(
        policy=crenel.Policy(quasi_identifiers=forms),
        privacy=crenel.Privacy(k=3),
        algorithm=crenel.Nearest(crenel.Delay(tuples=9)),
    )
    released = crenel.anonymize(pa.table(dict.fromkeys(forms, column)), of).released
    row = {each: _plain(value) for each, value in released.to_pylist()[0].items()}
    # 1904-02-29 was a Monday, the day before it a Sunday, 1969-12-30 a Tuesday and 1969-12-31 a Wednesday.
    early = "1904-02-28" if name == "us" else "1904-02-29"
    is_day = name.startswith("date")
    days = [early, *(["1969-12-30"] if is_day else []), "1969-12-31"]
    assert row["days"] == days
    named = {"1904-02-28": "Sunday", "1904-02-29": "Monday", "1969-12-30": "Tuesday", "1969-12-31": "Wednesday"}
    assert set(row["weekdays"]) == {named[day] for day in days}
    if wanted:
        assert row["mean"] == wanted["mean"]
        assert row["median"] == (date(1969, 12, 30) if is_day else BEFORE[1])
        assert (row["interval_min"], row["interval_max"]) == (min(values), max(values))
        # The days -24_048 and 0, as multiples of two days since 1970.
        assert (row["grid_min"], row["grid_max"]) == ((LEAP.date(), date(1970, 1, 1)) if is_day else (LEAP, EPOCH))


EPOCH = datetime(1970, 1, 1)


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
