"""Ends of published intervals: on their grid, around the values, and the same for all values of a cell."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Noised, Numeric, by_name
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Persons, Privacy
from crenel.anonymity.space.domain import Boxes, domain
from crenel.anonymity.space.ends import round_all
from tests.support.drive import KEY, Kept, Setting, columns_of, in_blocks, taken
from tests.support.example_counts import FEW
from tests.support.lasting_drive import LastingSetting
from tests.support.nearest_drive import NearestSetting
from tests.support.source import IDENTITY, Advance, Push, Row
from tests.support.space import Box, Space

GRIDS = st.sampled_from((5.0, 0.1, 0.25, 1e-3, 7.0, 3e10, 0.3))
NUMBERS = st.floats(-1e12, 1e12) | st.integers(-1000, 1000).map(lambda i: i / 10) | st.floats(allow_nan=False)


def rounded(attribute: Numeric, lower: float, upper: float) -> tuple[float, float]:
    """Return the interval as it is published."""
    ends = np.array([[lower]]) + 0.0, np.array([[upper]]) + 0.0
    boxes = Boxes(*ends, np.zeros((1, 0), np.int32))
    round_all(domain(Policy(by_name((attribute,)))), boxes)
    return float(boxes.lower[0, 0]), float(boxes.upper[0, 0])


@given(GRIDS, st.lists(NUMBERS.filter(np.isfinite), min_size=2, max_size=2).map(sorted))
@FEW
def test_ends_are_the_nearest_floats_of_multiples_outside_of_the_values(ends: float, interval: list[float]) -> None:
    attribute = Numeric(ends=ends).named("x")
    lower, upper = interval
    found = rounded(attribute, lower, upper)
    assert found[0] <= lower <= upper <= found[1]
    assert found == rounded(attribute, *found)
    assert Box((found[0],), (found[1],), ()) == Space(Policy(by_name((attribute,)))).published(
        Box((lower,), (upper,), ())
    )


@given(st.integers(-(10**9), 10**9), st.integers(1, 20))
def test_a_decimal_multiple_is_an_end_of_its_own(steps: int, tenths: int) -> None:
    value = float(Fraction(steps * tenths, 10))
    assert rounded(Numeric(ends=tenths / 10).named("x"), value, value) == (value, value)


@given(st.floats(17.5, 90))
def test_ends_stay_within_a_declared_domain(value: float) -> None:
    lower, upper = rounded(Numeric((17.5, 90), ends=20).named("x"), value, value)
    assert lower in (17.5, 20, 40, 60, 80)
    assert upper in (20, 40, 60, 80, 90)
    assert lower <= value <= upper


@pytest.mark.parametrize(
    ("changed", "valid"),
    [
        ({"ends": 0.0}, "is too small; a number above 0"),
        ({"ends": float("inf")}, "is not finite; a number above 0"),
        ({"ends": 1e300}, "15 digits at most"),
        ({"ends": 11.0, "domain": (0.0, 10.0)}, "wider than the domain"),
        ({"ends": 1e-9, "domain": (0.0, 1e9)}, "too small"),
    ],
)
def test_a_grid_that_is_none_is_refused(changed: dict[str, Any], valid: str) -> None:
    with pytest.raises(PolicyError, match=rf"\n  ends: .*{valid}"):
        Numeric(**changed)


def test_what_is_noised_has_no_ends() -> None:
    with pytest.raises(PolicyError, match="\n  ends: is unknown; known here: domain, step"):
        Noised((0.0, 10.0), ends=1.0)  # type: ignore[call-arg]


WINDOWS = Window(4, None)
SETTINGS = {
    "castle": (Setting, Castle(Delay(10)), Castle),
    "nearest": (NearestSetting, Nearest(Delay(10, jitter=0.25), reuse_limit=1000), Nearest),
    "lasting": (LastingSetting, Nearest(Delay(10, jitter=0.25), reuse_limit=1000), Nearest),
    "window": (Setting, Suhdsa(tuples=4), Suhdsa),
    "mondrian": (Setting, Mondrian(window=WINDOWS), Mondrian),
}


@pytest.mark.parametrize("name", SETTINGS)
@given(data=st.data(), cells=st.lists(st.integers(-20, 20), min_size=4, max_size=4))
@FEW
def test_values_of_the_same_cells_are_published_between_the_same_ends(
    name: str, data: st.DataObject, cells: list[int]
) -> None:
    def left(values: list[float]) -> dict[str, list[Any]]:
        made, parameters, algorithm = SETTINGS[name]
        policy = Policy({"x": Numeric((-100.0, 105.0), ends=5.0)}, passthrough=(IDENTITY,), subject="who")
        privacy = Privacy(4, persons=Persons("lasting") if name == "lasting" else None)
        setting = made(policy, privacy, parameters, (pa.int64(),))  # type: ignore[operator]
        shard = algorithm.new(setting.terms(), 0, KEY)
        rows = [Row((value,), (i,), subject=i) for i, value in enumerate(values)]
        return columns_of([taken(setting, shard, step).releases for step in in_blocks(rows, 4)])

    within = st.floats(0.001, 4.999)  # an end is of both cells beside it
    one, other = ([5.0 * cell + data.draw(within) for cell in cells] for _ in range(2))
    first, second = left(one), left(other)
    assert (first["lower"], first["upper"]) == ([[5.0 * min(cells)]], [[5.0 * max(cells) + 5]])
    for column in ("lower", "upper", "loss", "subjects"):
        assert first[column] == second[column]


def moving(ends: float | None) -> LastingSetting:
    """Persons whose promise lasts, with one number."""
    policy = Policy({"x": Numeric((0.0, 100.0), ends=ends)}, passthrough=(IDENTITY,), subject="who", event_time="at")
    parameters = Nearest(Delay(event_time=1), reuse_limit=1000)
    return LastingSetting(policy, Privacy(3, persons=Persons("lasting")), parameters, (pa.int64(),))


def ends_of(shard: Kept, values: dict[int, float], time: int) -> tuple[float, float]:
    """Return the interval under which persons with these values leave."""
    shard.take(Push(tuple(Row((x,), (1000 * time + who,), subject=who, event_time=time) for who, x in values.items())))
    left = shard.take(Advance(time + 1))
    assert left.tuples.tolist() == [len(values)]
    return float(left.lower[0, 0]), float(left.upper[0, 0])


def test_who_moves_within_a_cell_widens_nothing_and_who_leaves_it_shows_no_more_than_another_cell() -> None:
    shard = Kept(moving(5.0))
    assert ends_of(shard, {1: 21.0, 2: 22.0, 3: 24.0}, 0) == (20, 25)
    assert ends_of(shard, {3: 24.9}, 10) == (20, 25)
    assert ends_of(shard, {3: 27.0}, 20) == (20, 30)
    assert ends_of(shard, {3: 29.0}, 30) == (20, 30)


def test_a_restored_shard_publishes_on_the_grid_of_now() -> None:
    shard = Kept(moving(None))
    assert ends_of(shard, {1: 21.0, 2: 22.0, 3: 24.0}, 0) == (21, 24)
    assert shard.live.arrays.now.omega_used == 1
    shard.restore(moving(5.0))
    # A generalization published between other ends is no longer reused.
    assert shard.live.arrays.now.omega_used == 0
    assert ends_of(shard, {2: 23.0}, 10) == (20, 25)
    shard.restore(moving(2.0))
    assert ends_of(shard, {2: 23.0}, 20) in ((20, 24), (20, 26))
    shard.restore(moving(None))
    lower, upper = ends_of(shard, {2: 23.0}, 30)
    assert lower <= 21
    assert upper >= 24
