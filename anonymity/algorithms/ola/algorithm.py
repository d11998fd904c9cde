"""OLA as an anonymization algorithm: its parameters, its requirements on the policy, and its registration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from crenel.anonymity.algorithm import Setting, Shard, ShardContext
from crenel.anonymity.algorithms.batch.stored import initial_snapshot, read
from crenel.anonymity.algorithms.batch.windows import ClosedBy, algorithm_of_windows
from crenel.anonymity.algorithms.ola.shard import Ola
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.hierarchy import HierarchyError, from_paths
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.shard import StoredShard

MOST_NODES = 100_000
"""Maximum number of nodes in a lattice, the combinations of levels of all attributes."""


@dataclass(frozen=True)
class OlaParameters:
    """Parameters of OLA.

    Attributes
    ----------
    window : bounds that close a window
    max_suppression : maximum share of a window's tuples that may be suppressed, 0 to 1
    metric : loss metric that the chosen generalization minimizes (``crenel.anonymity.algorithms.ola.lattice``)
    """

    window: ClosedBy = field(default_factory=ClosedBy)
    max_suppression: float = 0.05
    metric: Literal["precision", "discernibility", "entropy"] = "entropy"

    def __post_init__(self) -> None:
        self.window.require("ola")
        if not 0 <= self.max_suppression <= 1:
            raise PolicyError(f"ola.max_suppression: must be from 0 to 1, not {self.max_suppression:g}")

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield each conflict with a policy, with its field and the valid values."""
        yield from self.window.problems(policy, privacy, "ola")
        levels = []
        for attribute in policy.quasi_identifiers:
            if isinstance(attribute, Numeric):
                yield (
                    f"{attribute.place}.type: ola moves numbers by levels too; make it categorical, with a hierarchy "
                    "such as {numbers: {domain: [0, 120], levels: [1, 5, 10]}}"
                )
                continue
            try:
                levels.append(int(attribute.hierarchy.levels()[attribute.hierarchy.root]) + 1)
            except HierarchyError as error:
                yield f"policy.quasi_identifiers.{attribute.name}.hierarchy: {error}"
        if (nodes := prod(levels)) > MOST_NODES:
            yield (
                f"policy.quasi_identifiers: have {nodes} combinations of levels, and ola looks through {MOST_NODES} at "
                "most; leave levels or columns out"
            )


def _new(context: ShardContext, number: int, key: bytes) -> Shard:
    return Ola(context, initial_snapshot(context, number, key))


def _restored(context: ShardContext, stored: StoredShard, where: str) -> Shard:
    return Ola(context, read(context, stored, where))


def _compile(_privacy: Privacy) -> None:
    attribute = Categorical("x", from_paths([("x", "*")]))
    warm_up(OLA, OlaParameters(ClosedBy(tuples=32)), attribute)
    warm_up(OLA, OlaParameters(ClosedBy(tuples=32), max_suppression=1.0), attribute, Privacy(5, 5))  # suppresses all


def _tell(ola: OlaParameters) -> Iterator[tuple[str, str]]:
    yield from ola.window.tell()
    yield "max_suppression", f"{ola.max_suppression:g} of a window"
    yield "metric", ola.metric


def _summary(counts: Mapping[str, int]) -> tuple[str, str, str]:
    return "windows", f"{counts['windows']:,}", "one generalization each, by OLA"


OLA = algorithm_of_windows(
    name="ola",
    parameters=OlaParameters,
    settings=(
        Setting("max_suppression", "max_suppression", "share", "a share of a window's tuples, from 0 to 1"),
        Setting(
            "metric",
            "metric",
            "choice",
            "'precision', 'discernibility' or 'entropy'",
            choices=("precision", "discernibility", "entropy"),
        ),
    ),
    new=_new,
    restored=_restored,
    tell=_tell,
    summary=_summary,
    compile=_compile,
)
