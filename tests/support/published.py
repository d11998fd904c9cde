"""Outputs of a run that are made up, with the tuples that they were made of, for what is shown of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.hierarchy import from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.report.context import About, Flow
from crenel.state.block import NO_TIME, Block, Rejected

_REGIONS = {"coast": 3, "hills": 4, "plain": 2}
TOWNS = from_paths([(f"{name}-{i}", name, "anywhere") for name, many in _REGIONS.items() for i in range(many)])
ILLNESSES = ("flu", "gout", "cold", "<b>&'\"", "頭痛", "$5$")
POLICY = Policy(
    {"age": Numeric(domain=(0, 99)), "wage": Numeric(), "town": Categorical(TOWNS)},
    sensitive=("illness",),
    passthrough=("id",),
    subject="person",
    event_time="seen",
)
K = 2
START = 1_704_067_200_000


@dataclass(frozen=True)
class Release:
    """Records of one release.

    Attributes
    ----------
    tuples : (age, wage, leaf of the town, illness, person) of each
    kind : as in the audit log
    """

    tuples: tuple[tuple[int, int, int, str, int], ...]
    kind: str
    hour: int

    @property
    def shared(self) -> tuple[float, float, float, float, str]:
        """Its generalization."""
        if self.kind == "generalized":
            return 0.0, 99.0, 0.0, 10_000.0, "anywhere"
        ages, wages, leaves = ([one[i] for one in self.tuples] for i in range(3))
        node = TOWNS.lowest_common_ancestor(min(leaves), max(leaves))
        return float(min(ages)), float(max(ages)), float(min(wages)), float(max(wages)), TOWNS.labels[node]

    @property
    def loss(self) -> float:
        """Mean InfoLoss over the attributes, of wages by 10,000."""
        age, most_age, wage, most_wage, town = self.shared
        node = TOWNS.labels.index(town)
        return float((most_age - age) / 99 + (most_wage - wage) / 10_000 + TOWNS.loss[node]) / 3


def made_releases() -> st.SearchStrategy[list[Release]]:
    """Return some releases, of K tuples or more each, or of one that was suppressed."""
    one = st.tuples(
        st.integers(0, 99),
        st.integers(0, 100).map(lambda n: n * 100),
        st.integers(0, TOWNS.leaves - 1),
        st.sampled_from(ILLNESSES),
        st.integers(0, 30),
    )
    groups = st.builds(
        Release,
        st.lists(one, min_size=K, max_size=8, unique_by=lambda tuple_: tuple_[4]).map(tuple),
        st.sampled_from(("cluster", "split")),
        st.integers(0, 300),
    )
    alone = st.builds(Release, st.tuples(one), st.just("generalized"), st.integers(0, 300))
    return st.lists(st.one_of(groups, groups, alone), min_size=1, max_size=12)


def outputs(releases: list[Release], *, audited: bool = True) -> RunOutputs:
    """Return the rows in the sinks of these releases."""
    names = ("age_min", "age_max", "wage_min", "wage_max", "town")
    kinds = [pa.float64()] * 4 + [pa.string()]

    def table(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    generalization = [pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)]
    released = pa.schema([*generalization, ("illness", pa.string()), ("id", pa.string())])
    rows = [(*r.shared, one[3], str(n)) for r in releases for n, one in enumerate(r.tuples)]
    whole = ("release_id", "shard", "event_time", "subjects", "tuples", "diversity_illness")
    numbers = [pa.field(name, pa.int64()) for name in whole]
    audit = pa.schema([*numbers, ("kind", pa.string()), ("loss", pa.float64()), *generalization])
    audit_rows = []
    for n, r in enumerate(releases):
        size, values = len(r.tuples), len({one[3] for one in r.tuples})
        audit_rows.append((n, 0, START + r.hour * 3_600_000 + 1234, size, size, values, r.kind, r.loss, *r.shared))
    return RunOutputs(POLICY, table(rows, released), table(audit_rows, audit) if audited else None)


def block(releases: list[Release]) -> Block:
    """Return the tuples of these releases as they came in."""
    tuples = [one for r in releases for one in r.tuples]
    return Block(
        shard=0,
        numeric=np.array([[t[0], t[1]] for t in tuples], np.float64).reshape(-1, 2),
        categorical=np.array([[t[2]] for t in tuples], np.int32).reshape(-1, 1),
        subject=np.array([(t[4] + 1) * 0x9E3779B97F4A7C15 % 2**64 for t in tuples], np.uint64),
        sensitive=np.zeros((len(tuples), 1), np.uint64),
        event_time=np.full(len(tuples), NO_TIME),
        members=pa.RecordBatch.from_pydict({}),
        rejected=Rejected.none(),
    )


def about(**others: object) -> About:
    """Return the settings of a run."""
    given: dict[str, object] = {"name": "job.yaml", "made": "today", "privacy": Privacy(K), "algorithm": "castle"}
    given |= {"settings": {"Roles": (("subject", "person"),)}, "published": True, "versions": (("Crenel", "1"),)}
    return About(**{**given, **others})  # type: ignore[arg-type]


def flow(releases: list[Release]) -> Flow:
    """Return the summary of their rows, and of nine that were rejected."""
    suppressed = sum(r.kind == "generalized" for r in releases)
    left = sum(len(r.tuples) for r in releases) - suppressed
    rejected = {"missing": 7, "bad_type": 2}
    return Flow(left, left + suppressed + 9, 0, {"outlier": suppressed}, rejected, suppressed, delays={3: left, 40: 1})
