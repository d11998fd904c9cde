"""Samples with one quasi-identifier removed, or coarsened before anonymization."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.model.hierarchy import HierarchyError, LazyLabels, from_paths
from crenel.anonymity.model.policy import Policy, Shards
from crenel.evidence.sample import Sample
from crenel.state.block import TupleColumns

_LEAST_PATH = 3
"""Minimum length of a path from a value to the root with a level between them."""


@dataclass(frozen=True)
class AsDivided(Sample):
    """A sample with the shards of another one, so that nothing else differs.

    Attributes
    ----------
    of_shard : (tuples,) the shard of each
    """

    of_shard: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def shards(self, shards: Shards) -> NDArray[np.int64]:
        """Return (tuples,) ``of_shard``, regardless of ``shards``."""
        return self.of_shard


def without(sample: Sample, name: str, shards: Shards) -> Sample:
    """Return the same tuples in the same shards, with one quasi-identifier dropped.

    Raises
    ------
    PolicyError
        It was the only one.
    """
    policy, tuples = sample.policy, sample.tuples
    numeric = [attribute.name != name for attribute in policy.numeric]
    left = replace(
        policy,
        quasi_identifiers={other: a for other, a in policy.quasi_identifiers.items() if other != name},
        drop=(*policy.drop, name),
    )
    # Without the number, its presence is gone as well.
    categorical = [attribute in left.categorical for attribute in policy.categorical]
    columns = {"numeric": tuples.numeric[:, numeric], "categorical": tuples.categorical[:, categorical]}
    return _changed(sample, left, columns, shards)


def one_level_up(sample: Sample, name: str, shards: Shards) -> Sample | None:
    """Return the same tuples in the same shards, with a categorical attribute one level up its hierarchy.

    None where that is impossible: values stand directly below the root, labels below others at several levels, or the
    hierarchy is too large to list.
    """
    policy, tuples = sample.policy, sample.tuples
    column, attribute = next((i, a) for i, a in enumerate(policy.categorical) if a.name == name)
    if isinstance(attribute.hierarchy.labels, LazyLabels):
        return None
    paths = attribute.hierarchy.paths()
    cut = [path[1:] if len(path) >= _LEAST_PATH else path for path in paths]
    known = list(dict.fromkeys(cut))
    if len(known) in (1, len(paths)):
        return None
    try:
        tree = from_paths(known)
    except HierarchyError:
        return None
    leaf = {label: number for number, label in enumerate(tree.labels[: tree.leaves])}
    categorical = tuples.categorical.copy()
    categorical[:, column] = np.array([leaf[path[0]] for path in cut], np.int32)[tuples.categorical[:, column]]
    changed = policy.quasi_identifiers | {name: replace(attribute, hierarchy=tree)}
    return _changed(sample, replace(policy, quasi_identifiers=changed), {"categorical": categorical}, shards)


def _changed(sample: Sample, policy: Policy, columns: dict[str, Any], shards: Shards) -> Sample:
    values: dict[str, Any] = {f.name: getattr(sample, f.name) for f in fields(Sample)}
    arrays = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    tuples: TupleColumns = replace(sample.tuples, **arrays)
    return AsDivided(**values | {"policy": policy, "tuples": tuples}, of_shard=sample.shards(shards))
