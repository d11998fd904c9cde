"""Real data to their end, and data as bad as they come, each run judged by the checker."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.model.attributes import Categorical, Numeric, by_name
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.durations import LONGEST
from crenel.anonymity.model.hierarchy import from_paths, load
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from tests.support.drive import Setting, in_blocks, judged
from tests.support.launch import DATA
from tests.support.source import IDENTITY, Advance, Finish, Push, Row, Step

real = pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data: the folder {DATA} is absent")

ADULT = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
).split()
NUMERIC = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
CATEGORICAL = ["education", "marital-status", "occupation", "native-country"]


def records(path: Path, header: list[str] | None = None) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, header, skipinitialspace=True)
        return [row for row in rows if None not in row.values() and "?" not in row.values()]


def needed(suppression: str) -> tuple[float, float] | None:
    """Return a domain where one is needed: to generalize fully."""
    return (0, 1000) if suppression == "generalize" else None


@pytest.fixture(scope="module")
def adult() -> list[dict[str, str]]:
    found = records(DATA / "adult" / "adult.data", ADULT)
    assert len(found) == 30_162
    return found


@real
@pytest.mark.parametrize("l", [1, 2])
def test_adult_is_anonymous_and_diverse_in_time(adult: list[dict[str, str]], l: int) -> None:  # noqa: E741
    ranges = {name: [float(row[name]) for row in adult] for name in NUMERIC}
    numeric = tuple(Numeric((min(values), max(values))).named(name) for name, values in ranges.items())
    trees = tuple(Categorical(load(DATA / "adult" / f"hierarchy_{name}.csv")).named(name) for name in CATEGORICAL)
    made = Setting(
        Policy(by_name((*numeric, *trees)), sensitive=("income",), passthrough=(IDENTITY,)),
        Privacy(10, l),
        Castle(Delay(1000)),
        (pa.string(), pa.int64()),
    )
    rows = [
        Row((*(float(row[n]) for n in NUMERIC), *(row[n] for n in CATEGORICAL)), (row["income"], i))
        for i, row in enumerate(adult)
    ]
    _, counters, _ = judged(made, in_blocks(rows, 997))
    assert counters.released > 0.99 * len(rows)
    assert counters.longest_delay == 1000
    if l == 1:  # the paper's setting, Section 5
        assert counters.loss_sum / counters.released == pytest.approx(0.26, abs=0.01)


@real
@pytest.mark.parametrize("l", [1, 3])
@pytest.mark.parametrize("suppression", ["withhold", "generalize"])
def test_taxi_trips_of_a_hundred_people_hide_people_and_not_trips(l: int, suppression: str) -> None:  # noqa: E741
    trips = records(DATA / "taxi" / "yellow_2019-01_sample1000.csv")
    made = Setting(
        Policy(
            {"TripDistance": Numeric(needed(suppression)), "PickupLocationID": Numeric((1, 265))},
            sensitive=("FareAmount",),
            passthrough=(IDENTITY,),
            subject="pid",
        ),
        Privacy(10, l),
        Castle(Delay(200), max_clusters=25, suppression=suppression),  # type: ignore[arg-type]
        (pa.float64(), pa.int64()),
    )
    rows = [
        Row((float(trip["TripDistance"]), float(trip["PickupLocationID"])), (float(trip["FareAmount"]), i), trip["pid"])
        for i, trip in enumerate(trips)
    ]
    assert len({row.subject for row in rows}) == 100
    judged(made, in_blocks(rows, 64))
    judged(made, in_blocks(rows, 1))


@real
def test_pima_has_two_outcomes_in_every_release() -> None:
    patients = records(DATA / "pima" / "diabetes.csv")
    columns = [name for name in patients[0] if name != "outcome"]
    made = Setting(
        Policy({name: Numeric() for name in columns}, sensitive=("outcome",), passthrough=(IDENTITY,)),
        Privacy(5, 2),
        Castle(Delay(100)),
        (pa.string(), pa.int64()),
    )
    rows = [Row(tuple(float(row[n]) for n in columns), (row["outcome"], i)) for i, row in enumerate(patients)]
    assert len(rows) == 768
    _, counters, _ = judged(made, in_blocks(rows, 100))
    assert counters.released > 0.9 * len(rows)


CITIES = from_paths([("Rome", "Italy", "*"), ("Milan", "Italy", "*"), ("Lima", "*")])
VISITS = Policy(
    {
        "age": Numeric(),
        "pay": Numeric((0, 0)),
        "place": Categorical(CITIES),
        "one": Categorical(from_paths([("only", "*")])),
    },
    sensitive=("illness",),
    passthrough=(IDENTITY,),
    subject="who",
    event_time="at",
)
FAR = [NO_TIME + 1, 2**63 - 1, 0, -(2**62), 2**62, 1, 2**63 - 1]


def visits(count: int, *, people: int, ages: int, illnesses: int, times: list[int]) -> list[Row]:
    return [
        Row(
            (float(i * 37 % ages), 0.0, ("Rome", "Milan", "Lima")[i % 3 if ages > 1 else 0], "only"),
            (str(i % illnesses), i),
            i % people,
            times[i % len(times)],
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("suppression", ["withhold", "generalize"])
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="no row"),
        pytest.param(visits(1, people=1, ages=1, illnesses=1, times=[0]), id="one row"),
        pytest.param(visits(500, people=1, ages=60, illnesses=9, times=[0]), id="one subject"),
        pytest.param(visits(500, people=1, ages=1, illnesses=1, times=[0]), id="one subject, all rows equal"),
        pytest.param(visits(500, people=500, ages=1, illnesses=1, times=[0]), id="all rows equal"),
        pytest.param(visits(500, people=500, ages=60, illnesses=1, times=[0]), id="one sensitive value"),
        pytest.param(visits(500, people=3, ages=60, illnesses=9, times=[0]), id="fewer people than k"),
        pytest.param(visits(500, people=80, ages=60, illnesses=9, times=FAR), id="far event times"),
    ],
)
def test_bad_streams_end_well(rows: list[Row], suppression: str) -> None:
    steps: list[Step] = [
        Push(tuple(rows[:250])),
        *map(Advance, (NO_TIME + 1, -1, 0, 2**62)),
        Push(tuple(rows[250:]), 2**62),
    ]
    for delay in ({"delay": Delay(20)}, {"delay": Delay(event_time=1000)}, {"delay": Delay(40, LONGEST)}):
        parameters = Castle(suppression=suppression, **delay)  # type: ignore[arg-type]
        age, *others = VISITS.attributes
        policy = replace(VISITS, quasi_identifiers=by_name((Numeric(needed(suppression)).named(age.name), *others)))
        made = Setting(policy, Privacy(4, 2), parameters, (pa.string(), pa.int64()))
        _, counters, _ = judged(made, [*steps, Finish()])
        assert counters.buffered == 0
        assert counters.tuples_in == len(rows)
