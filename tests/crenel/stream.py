"""A small stream of records of many Arrow types, and settings of each algorithm for it."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa

import crenel

ROWS = 400
HOUR = timedelta(hours=1)
START = datetime(2026, 1, 1, tzinfo=timezone.utc)

ALGORITHMS: dict[str, crenel.Algorithm] = {
    "castle": crenel.Castle(crenel.Delay(tuples=60), reuse_limit=20),
    "nearest": crenel.Nearest(crenel.Delay(tuples=60)),
    "timed": crenel.Nearest(crenel.Delay(event_time=timedelta(hours=3))),
    "suhdsa": crenel.Suhdsa(tuples=40),
    "mondrian": crenel.Mondrian(crenel.Window(tuples=50)),
    "ola": crenel.Ola(crenel.Window(event_time="2 h")),
}


def records(rows: int = ROWS, seed: int = 3) -> pa.Table:
    """Return visits of some ninety persons; every fortieth has no age, or an unknown area."""
    draw = random.Random(seed)
    hours = sorted(draw.uniform(0, 24) for _ in range(rows))
    columns = {
        "person": pa.array([f"p{draw.randrange(90)}" for _ in range(rows)]),
        "age": pa.array([None if i % 40 == 7 else draw.randrange(18, 95) for i in range(rows)], pa.int16()),
        "area": pa.array(["Mars" if i % 40 == 9 else draw.choice(["Oslo", "Bergen", "Lund"]) for i in range(rows)]),
        "height": pa.array([Decimal(draw.randrange(1400, 2100)) / 10 for _ in range(rows)], pa.decimal128(5, 1)),
        "seen": pa.array([START + (hour - draw.random() / 4) * HOUR for hour in hours], pa.timestamp("us", "UTC")),
        "diagnosis": pa.array([draw.choice(["flu", "asthma", "back pain", "check-up"]) for _ in range(rows)]),
        "born": pa.array([date(1950, 1, 1) + timedelta(draw.randrange(20_000)) for _ in range(rows)]),
        "tests": pa.array([[{"name": "x", "value": i}] for i in range(rows)]),
        "clinic": pa.array([draw.choice(["north", None]) for _ in range(rows)]).dictionary_encode(),
    }
    return pa.table(columns)


def settings(algorithm: str = "nearest", shards: int = 1, **others: object) -> crenel.Settings:
    """Return settings for ``records``."""
    base = crenel.Settings(
        policy=crenel.Policy(
            subject="person",
            event_time="seen",
            quasi_identifiers={
                "age": crenel.Numeric((18, 100)),
                "area": crenel.Categorical(
                    {"Oslo": ["Norway", "*"], "Bergen": ["Norway", "*"], "Lund": ["Sweden", "*"]}
                ),
                "height": crenel.Numeric((140, 210)),
            },
            sensitive=["diagnosis"],
            passthrough=["born", "tests", "clinic"],
        ),
        privacy=crenel.Privacy(k=4, l=2),
        algorithm=ALGORITHMS["nearest" if algorithm == "ola" else algorithm],
        shards=crenel.Shards(shards),
        seed=11,
    )
    if algorithm == "ola":  # which moves numbers by levels too
        levels = {
            "age": crenel.Categorical(crenel.Numbers((18, 100), [1, 10, 50])),
            "height": crenel.Categorical(crenel.Numbers((140, 210), [5, 35], whole=False)),
        }
        attributes = {**base.policy.quasi_identifiers, **levels}
        base = replace(
            base,
            policy=replace(base.policy, quasi_identifiers=attributes),
            algorithm=ALGORITHMS[algorithm],
        )
    return replace(base, **others)  # type: ignore[arg-type]
