"""OLA as an anonymization algorithm: its settings, and its requirements on the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Annotated, ClassVar, Literal

from crenel.anonymity.algorithm import add_algorithm
from crenel.anonymity.algorithms.batch.windows import WindowedAlgorithm
from crenel.anonymity.algorithms.ola.shard import OlaShard
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.fields import Share, about, setting
from crenel.anonymity.model.hierarchy import HierarchyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy

MOST_NODES = 100_000
"""Maximum number of nodes in a lattice, the combinations of levels of all attributes."""


@add_algorithm
@setting
class Ola(WindowedAlgorithm):
    """OLA: one optimal full-domain generalization for each window.

    Attributes
    ----------
    max_suppression : maximum share of a window's tuples that are suppressed, from 0 to 1, unless no levels satisfy it
    metric : loss to minimize (``crenel.anonymity.algorithms.ola.lattice``)
    """

    max_suppression: Annotated[Share, about("a share of a window's tuples, from 0 to 1")] = 0.05
    metric: Annotated[
        Literal["precision", "discernibility", "entropy"], about("'precision', 'discernibility' or 'entropy'")
    ] = "entropy"

    name: ClassVar[str] = "ola"
    shard: ClassVar = OlaShard

    @classmethod
    def compile(cls, privacy: Privacy) -> None:
        attribute = Categorical({"x": ["*"]})
        warm_up(cls(Window(tuples=32)), attribute)
        warm_up(cls(Window(tuples=32), max_suppression=1.0), attribute, Privacy(5, 5))  # suppresses all

    @classmethod
    def summary(cls, counts: Mapping[str, int]) -> tuple[str, str, str]:
        return "windows", f"{counts['windows']:,}", "one generalization each, by OLA"

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        yield from super().problems(policy, privacy)
        levels = []
        for attribute in policy.attributes:
            if isinstance(attribute, Numeric):
                yield (
                    f"{attribute.place}.type: ola moves numbers by levels too; make it categorical, with a hierarchy "
                    "such as {numbers: {domain: [0, 120], levels: [1, 5, 10]}}"
                )
                continue
            try:
                levels.append(int(attribute.hierarchy.levels()[attribute.hierarchy.root]) + 1)
            except HierarchyError as error:
                yield f"{attribute.place}.hierarchy: {error}"
        if (nodes := prod(levels)) > MOST_NODES:
            yield (
                f"policy.quasi_identifiers: have {nodes} combinations of levels, and ola looks through {MOST_NODES} at "
                "most; leave levels or columns out"
            )

    def describe(self) -> Iterator[tuple[str, str]]:
        yield from super().describe()
        yield "max_suppression", f"{self.max_suppression:g} of a window"
        yield "metric", self.metric
