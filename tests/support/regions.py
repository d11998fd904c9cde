"""Strategies of trees of regions, and the walk down one in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from crenel.anonymity.model.attributes import by_name
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.region_tree import Branch, Region, RegionTree
from crenel.anonymity.regions.learn import learn
from crenel.anonymity.regions.loss import EncodedSample
from tests.support.strategies import attributes

Case = tuple[Policy, EncodedSample]


@st.composite
def cases(draw: st.DrawFn, rows: int = 30) -> Case:
    """Return a policy of up to four quasi-identifiers, and encoded tuples of it."""
    chosen = [draw(attributes(f"a{i}")) for i in range(draw(st.integers(1, 4)))]
    policy = Policy(by_name(tuple(attribute for attribute, _ in chosen)))
    many = draw(st.integers(1, rows))
    drawn = {
        attribute.name: draw(st.lists(st.sampled_from(range(len(values))), min_size=many, max_size=many))
        for attribute, values in chosen
    }
    values = {attribute.name: values for attribute, values in chosen}
    numeric = [[float(values[a.name][i]) + 0.0 for i in drawn[a.name]] for a in policy.numeric]
    return policy, EncodedSample(
        np.array(numeric, np.float64).reshape(len(numeric), many).T,
        np.array([drawn[a.name] for a in policy.categorical], np.int32).reshape(len(policy.categorical), many).T,
    )


def distinct(sample: EncodedSample) -> int:
    return len(set(map(tuple, sample.values.tolist())))


@st.composite
def learned(draw: st.DrawFn) -> tuple[Policy, EncodedSample, RegionTree]:
    policy, sample = draw(cases())
    return policy, sample, learn(policy, sample, draw(st.integers(1, distinct(sample))), draw(st.integers(2, 5)))


def walk(branch: Branch, row: Sequence[float]) -> Region:
    """Return the region of a tuple, in plain Python."""
    while not isinstance(branch, Region):
        branch = branch.right if row[branch.attribute] >= branch.value else branch.left
    return branch


def leaves(branch: Branch) -> list[Region]:
    return [branch] if isinstance(branch, Region) else [*leaves(branch.left), *leaves(branch.right)]
