"""Adult with a height, and two invented lists with the size and columns of the paper's voter lists (Table III)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.adult import frame
from crenel.anonymity.model.attributes import Categorical, Noised, Numeric, QuasiIdentifier, by_name
from crenel.anonymity.model.builders.mask import Mask
from crenel.anonymity.model.builders.numbers import Numbers
from crenel.anonymity.model.hierarchy import Hierarchy, from_paths
from crenel.anonymity.model.policy import Policy
from crenel.state.block import NO_TIME, Block
from experiments.kepsilon.body import STEP, heights, weights

SEED = 20170507
"""Seed of heights, weights and invented persons."""

HEIGHTS = Noised((100.0, 230.0), STEP).named("height")
WEIGHTS = Noised((15.0, 300.0), STEP).named("weight")

ROW = "row"
"""Pass-through column that connects a published record with its original."""

LISTS_YEAR = 2016
"""Year in which the persons of the invented lists have their ages."""

_ADULT_YEAR = 1994
_WIDTHS = (1.0, 2.0, 4.0, 8.0)
_EXTRA_WIDTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
# Of 18 and 19 year olds, then by decade; from 80 on, fewer each year.
_AGES = ((18, 20, 0.03), (20, 30, 0.17), (30, 40, 0.16), (40, 50, 0.16), (50, 60, 0.18), (60, 70, 0.16), (70, 80, 0.09))
_OLDEST, _OLDER_EACH_YEAR = 102, 0.85
_RACES = {
    "white": 0.63,
    "hispanic": 0.16,
    "black": 0.14,
    "asian": 0.02,
    "unknown": 0.025,
    "other": 0.017,
    "several": 0.005,
    "native": 0.003,
}


@dataclass(frozen=True)
class Population:
    """Persons, one record each.

    Attributes
    ----------
    name : for tables
    rows : a column for each quasi-identifier, ``born`` a whole number and the others texts, and the noised one
    k_quasis : quasi-identifiers that are generalized
    noised : the epsilon-quasi
    """

    name: str
    rows: pd.DataFrame
    k_quasis: tuple[str, ...]
    noised: Noised

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, count: int) -> Population:
        """Return the first ``count`` persons."""
        return replace(self, rows=self.rows.iloc[:count].reset_index(drop=True))

    @property
    def values(self) -> NDArray[np.float64]:
        """Return the values of the noised attribute, (people,)."""
        return self.rows[self.noised.name].to_numpy(np.float64)

    def policy(self, *, by_levels: bool, noised: bool) -> Policy:
        """Return the roles of the columns.

        Parameters
        ----------
        by_levels : numbers are generalized by hierarchies, as OLA needs it; else to intervals
        noised : the noised attribute is; else it is a quasi-identifier like the others
        """
        names = self.k_quasis if noised else (*self.k_quasis, self.noised.name)
        chosen = tuple(self._attribute(name, by_levels=by_levels) for name in names)
        return Policy(by_name(chosen), noised=by_name((self.noised,) if noised else ()), passthrough=(ROW,))

    def members(self, policy: Policy) -> pa.Schema:
        """Return names and types of the columns that are published unchanged or with noise."""
        return pa.schema([(name, pa.int64() if name == ROW else pa.float64()) for name in policy.members])

    def block(self, policy: Policy) -> Block:
        """Return all persons as one block, in their order."""
        count = len(self)
        leaves = [self._leaves(attribute) for attribute in policy.categorical]
        columns = {ROW: np.arange(count), self.noised.name: self.values}
        return Block(
            shard=0,
            numeric=self.rows[[a.name for a in policy.numeric]].to_numpy(np.float64),
            categorical=np.stack(leaves, axis=1).astype(np.int32) if leaves else np.zeros((count, 0), np.int32),
            subject=None,
            sensitive=np.zeros((count, 0), np.uint64),
            event_time=np.full(count, NO_TIME),
            members=pa.record_batch([pa.array(columns[name]) for name in policy.members], self.members(policy)),
        )

    def _attribute(self, name: str, *, by_levels: bool) -> QuasiIdentifier:
        column = self.rows[name]
        if not by_levels and name in ("born", self.noised.name):
            return Numeric((float(column.min()), float(column.max()))).named(name)
        if name == self.noised.name:
            return Categorical(from_paths(self._whole().paths())).named(name)
        return Categorical(_table_1(name, column)).named(name)

    def _leaves(self, attribute: Categorical) -> NDArray[np.intp]:
        column = self.rows[attribute.name]
        if attribute.name == self.noised.name:
            return self._whole().finder()(np.floor(column.to_numpy(np.float64)))
        labels = attribute.hierarchy.labels[: attribute.hierarchy.leaves]
        found: NDArray[np.intp] = pd.Index(labels).get_indexer(column.astype(str))
        return found

    def _whole(self) -> Numbers:
        """Return a hierarchy of the noised attribute with eight levels: "8 times smaller" (Section VII-D)."""
        lowest, highest = self.noised.domain or (0.0, 0.0)
        return Numbers((lowest, highest), _EXTRA_WIDTHS, origin=lowest)


def _table_1(name: str, column: pd.Series[Any]) -> Hierarchy:
    """Return a hierarchy of Table I."""
    values = sorted(column.unique())
    if name == "born":
        ends = float(column.min()), float(column.max())
        return from_paths(Numbers(ends, _WIDTHS, origin=ends[0]).paths())
    if name == "zip":
        return from_paths(Mask((5, 4, 3, 2, 1), values=tuple(values)).paths())
    if name == "marital-status":
        paths: Sequence[tuple[str, ...]] = [
            (own, "in marriage" if own.startswith("Married") else "alone", "*") for own in values
        ]
        return from_paths(sorted(paths, key=lambda path: path[1]))
    return from_paths([(own, "person" if name == "sex" else "*") for own in values])


@cache
def adult() -> Population:
    """Return the 30,162 complete rows of Adult in file order, with an invented height."""
    found = frame()
    rows = found[["sex", "race", "marital-status"]].assign(born=_ADULT_YEAR - found["age"])
    age, sex = found["age"].to_numpy(np.int64), found["sex"].to_numpy(object)
    rows["height"] = heights(age, sex, np.random.default_rng(SEED))
    return Population("Adult", rows, ("born", "sex", "race", "marital-status"), HEIGHTS)


@cache
def list_a() -> Population:
    """Return 134,791 invented persons, the size of the paper's sample of Florida's voters: ZIP, race, height."""
    return _invented(
        "invented list A (size of Florida's)", 134_791, ("zip", "sex", "born", "race"), HEIGHTS, codes=900, first="3"
    )


@cache
def list_b() -> Population:
    """Return 72,825 invented persons, the size of the paper's sample of Michigan's voters: ZIP, weight."""
    return _invented(
        "invented list B (size of Michigan's)", 72_825, ("zip", "sex", "born"), WEIGHTS, codes=800, first="4"
    )


def _invented(
    name: str, people: int, k_quasis: tuple[str, ...], noised: Noised, *, codes: int, first: str
) -> Population:
    random = np.random.default_rng([SEED, people])
    age = _ages(people, random)
    sex = random.choice(np.array(["Female", "Male"], object), people, p=(0.53, 0.47))
    drawn = heights(age, sex, random) if noised is HEIGHTS else weights(age, sex, random)
    rows = pd.DataFrame(
        {
            "zip": _codes(people, codes, first, random),
            "sex": sex,
            "born": LISTS_YEAR - age,
            "race": random.choice(np.array(list(_RACES), object), people, p=list(_RACES.values())),
            noised.name: np.clip(drawn, *(noised.domain or (0, 0))),
        }
    )
    return Population(name, rows[[*k_quasis, noised.name]], k_quasis, noised)


def _ages(people: int, random: np.random.Generator) -> NDArray[np.int64]:
    share = np.zeros(_OLDEST + 1)
    for start, stop, part in _AGES:
        share[start:stop] = part / (stop - start)
    share[80:] = share[79] * _OLDER_EACH_YEAR ** np.arange(1, _OLDEST - 78)
    return random.choice(_OLDEST + 1, people, p=share / share.sum())


def _codes(people: int, codes: int, first: str, random: np.random.Generator) -> NDArray[np.object_]:
    """Return ZIP codes with a first digit, in 25 areas of three digits, of uneven size."""
    areas = np.sort(random.choice(30, 25, replace=False)) + 20  # two digits more: 20 to 49
    area = random.choice(areas, 2 * codes, p=random.dirichlet(np.full(25, 2.0)))
    known = np.unique(area * 100 + random.integers(0, 100, 2 * codes))
    known = np.sort(random.choice(known, min(codes, len(known)), replace=False))
    size = random.lognormal(0.0, 1.0, len(known))
    labels = np.array([f"{first}{code:04d}" for code in known], object)
    return labels[random.choice(len(known), people, p=size / size.sum())]


POPULATIONS: dict[str, Callable[[], Population]] = {"adult": adult, "a": list_a, "b": list_b}
