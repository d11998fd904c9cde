"""Synthetic stream of clinic visits for the demo, without data of real persons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

COLUMNS = ("line", "person", "name", "age", "area", "education", "salary", "diagnosis", "clinic", "visited_ms")
"""Columns in the order of the file, which has no header; an empty field is a missing value."""

Integers: TypeAlias = NDArray[np.int64]

_TOWNS = ("AL", "BR", "CO", "DU", "EL", "FE", "GA", "HA", "IN", "JE", "KI", "LO")
_DISTRICTS = 5
_AREAS = tuple(f"{town}{district}" for town in _TOWNS for district in range(1, _DISTRICTS + 1))
_EDUCATIONS = (
    "no certificate",
    "basic school",
    "secondary school",
    "apprenticeship",
    "trade certificate",
    "master craftsman",
    "bachelor",
    "master",
    "doctorate",
)
_EDUCATION_WEIGHTS = np.array(
    [
        [0.08, 0.20, 0.22, 0.22, 0.12, 0.04, 0.08, 0.03, 0.01],  # the country
        [0.04, 0.10, 0.20, 0.13, 0.08, 0.03, 0.24, 0.14, 0.04],  # the large towns
    ]
)
_SALARY_BY_EDUCATION = np.array([19, 22, 27, 29, 33, 41, 43, 52, 64]) * 1000.0
_DIAGNOSES = ("check-up", "cold", "back pain", "allergy", "hypertension", "diabetes", "depression", "cancer", "hiv")
_DIAGNOSIS_WEIGHTS = np.array(
    [
        [0.46, 0.28, 0.08, 0.10, 0.01, 0.01, 0.05, 0.005, 0.005],  # below 40
        [0.34, 0.18, 0.20, 0.05, 0.11, 0.05, 0.05, 0.015, 0.005],  # 40 to 64
        [0.24, 0.10, 0.19, 0.02, 0.26, 0.12, 0.03, 0.038, 0.002],  # 65 and older
    ]
)
_FIRST_NAMES = (
    "Ada",
    "Bram",
    "Cleo",
    "Dara",
    "Enno",
    "Faye",
    "Gil",
    "Hana",
    "Ivo",
    "Juno",
    "Kit",
    "Lena",
    "Milo",
    "Nia",
)
_LAST_NAMES = (
    "Ashdown",
    "Birk",
    "Crane",
    "Dell",
    "Eastley",
    "Farrow",
    "Glen",
    "Holt",
    "Iden",
    "Jarrow",
    "Keld",
    "Lund",
)

_START = 1_704_067_200_000  # midnight on 1 January 2024, UTC
_DAY = 86_400_000
_VISITS_A_DAY = 2_000
_VISITS_A_PERSON = 6


@dataclass(frozen=True)
class _People:
    """Constant attributes of persons, one entry each; categories as positions."""

    name: NDArray[np.object_]
    age: Integers
    area: Integers
    education: Integers
    salary: Integers


def write(path: Path | str, rows: int = 50_000, seed: int = 1) -> None:
    """Write a stream as a CSV file without a header; the same arguments give the same bytes.

    Persons return, some of them often. Age, area, education and salary are correlated; diagnoses are skewed and depend
    on age. Visits are densest at noon, and arrive some minutes out of order. A few rows in a thousand have a missing
    value, an impossible age, an unknown area or a salary that is no number.

    Parameters
    ----------
    rows : 0 or more; 50,000 make 25 days
    seed : 0 or more
    """
    random = np.random.default_rng(seed)
    people = _draw_people(random, max(rows // _VISITS_A_PERSON, 1))
    # Few persons come often: a person's share of the visits is skewed.
    share = random.gamma(0.8, size=len(people.age))
    who = random.choice(len(people.age), size=rows, p=share / share.sum())
    area = people.area[who]
    diagnosis = _draw(random, _DIAGNOSIS_WEIGHTS, np.digitize(people.age[who], [40, 65]))
    clinic = area // (3 * _DISTRICTS) * 2 + random.integers(0, 2, rows)

    def some(share: float) -> Any:
        return pa.array(random.random(rows) < share)

    ages = pc.if_else(some(0.001), 170, pa.array(people.age[who]))
    areas = pc.if_else(some(0.001), "ZZ9", pa.array(_AREAS).take(pa.array(area)))
    salaries = pc.if_else(some(0.0005), "n/a", pa.array(people.salary[who]).cast(pa.string()))
    educations = pa.array(_EDUCATIONS).take(pa.array(people.education[who]))
    columns = {
        "line": pa.array(np.arange(1, rows + 1)),
        "person": pa.array(np.char.mod("p%06d", who)),
        "name": pa.array(people.name[who], pa.string()),
        "age": pc.if_else(some(0.002), None, ages),
        "area": areas,
        "education": pc.if_else(some(0.001), None, educations),
        "salary": salaries,
        "diagnosis": pa.array(_DIAGNOSES).take(pa.array(diagnosis)),
        "clinic": pa.array(np.char.mod("clinic %d", clinic + 1)),
        "visited_ms": pa.array(_draw_times(random, rows)),
    }
    pyarrow.csv.write_csv(
        pa.table([columns[name] for name in COLUMNS], names=list(COLUMNS)),
        path,
        pyarrow.csv.WriteOptions(include_header=False, quoting_style="none"),
    )


def _draw_people(random: np.random.Generator, count: int) -> _People:
    names = np.array([f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES], object)
    size = 1 / np.arange(1, len(_TOWNS) + 1)
    town = random.choice(len(_TOWNS), size=count, p=size / size.sum())
    education = _draw(random, _EDUCATION_WEIGHTS, (town < 4).astype(np.int64))
    age = np.clip(18 + random.gamma(3.0, 10.0, count), 18, 100).astype(np.int64)
    experience = 1 + 0.012 * np.minimum(age - 18, 35)
    salary = _SALARY_BY_EDUCATION[education] * experience * random.lognormal(0.0, 0.25, count)
    return _People(
        name=names[random.integers(0, len(names), count)],
        age=age,
        area=town * _DISTRICTS + random.integers(0, _DISTRICTS, count),
        education=education,
        salary=salary.astype(np.int64) // 100 * 100,
    )


def _draw(random: np.random.Generator, weights: NDArray[np.float64], row: Integers) -> Integers:
    """Draw one position for each entry of ``row``, with that row of ``weights`` as probabilities."""
    reached = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)[row]
    drawn = (random.random(len(row))[:, None] >= reached).sum(axis=1)
    # Rounding may leave the last sum just below one.
    position: Integers = np.minimum(drawn, weights.shape[1] - 1)
    return position


def _draw_times(random: np.random.Generator, rows: int) -> Integers:
    """Draw epoch milliseconds in order of arrival, which differs slightly from the order of the visits."""
    days = rows / _VISITS_A_DAY
    grid = np.linspace(0, days, int(np.ceil(days * 96)) + 2)
    visits_so_far = grid - 0.9 * np.sin(2 * np.pi * grid) / (2 * np.pi)
    visited = np.interp(random.random(rows) * visits_so_far[-1], visits_so_far, grid) * _DAY
    arrived = visited + random.exponential(80_000, rows)
    return _START + visited[np.argsort(arrived, kind="stable")].astype(np.int64)
