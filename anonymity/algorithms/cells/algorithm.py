"""``cells`` as an anonymization algorithm: its settings, its guarantee, and its requirements on the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp, isfinite
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from crenel.anonymity.algorithm import Admission, AdmissionStage, ShardContext, add_algorithm
from crenel.anonymity.algorithms.batch.shard import BatchAlgorithm, BatchShard
from crenel.anonymity.algorithms.batch.stored import BatchSnapshot, initial_snapshot, read
from crenel.anonymity.algorithms.cells.contributions import CONTRIBUTIONS
from crenel.anonymity.algorithms.cells.shard import CellsShard
from crenel.anonymity.algorithms.cells.stages import CellStage, PersonStage
from crenel.anonymity.algorithms.precompile import warm_up
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.durations import format_duration
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.fields import AboveZero, Duration, Positive, Share, about, setting
from crenel.anonymity.model.hierarchy import HierarchyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.reference import OF_STREAM
from crenel.anonymity.model.region_tree import Cut, Region, RegionsFile, RegionTree
from crenel.anonymity.noise.budget import log_divergence, smallest_epsilon
from crenel.anonymity.noise.composition import (
    composed_delta,
    delta_of_parameters,
    delta_over_horizon,
    holds,
    least_k,
    persons_for,
)
from crenel.anonymity.noise.privacy_loss import delta_of_losses
from crenel.anonymity.noise.selection import LEAST_EPSILON, NoisyCounts, noisy_counts, threshold_for
from crenel.state.shard import StoredShard

_OFTEN = 0.95
"""Probability with which a key of enough persons is published."""

_RARELY = 0.05
"""Probability with which a key of few persons is published."""


def _shard(context: ShardContext, snapshot: BatchSnapshot) -> BatchShard:
    return CellStage(context, snapshot) if context.admissions else CellsShard(context, snapshot)


def _new_admission(context: ShardContext, number: int, key: bytes) -> Admission:
    return PersonStage(context, initial_snapshot(context, number, key))


def _restored_admission(context: ShardContext, stored: StoredShard, where: str) -> Admission:
    return PersonStage(context, read(context, stored, where))


@add_algorithm
@setting
class Cells(BatchAlgorithm):
    """Differentially private k-anonymity: declared cells, and a sample of persons or noisy counts for each window.

    Attributes
    ----------
    partition : path of a file of regions, each of which is a cell; ``crenel regions`` writes such files
    epsilon, delta : guarantee for each person over a horizon: above 0, and above 0 and below 1
    window : width of the windows, which begin at multiples of it in event time; None: all of a bounded input
    windows : maximum number of windows per horizon to which a person contributes
    horizon : a multiple of ``window``; None: the whole stream
    lateness : processing time after its end at which a window closes in a job; None: at the end of a bounded input
    release : ``"sampled"`` publishes records of sampled persons, ``"noisy"`` synthetic ones by counts with noise
    sample_rate : with ``"sampled"``, the probability that a person is in a window's sample, above 0 and below 1
    """

    partition: Annotated[RegionsFile, about("the path of a file of regions")]
    epsilon: Annotated[AboveZero, about("a number above 0, for each person and horizon")]
    delta: Annotated[Share, about("a number above 0 and below 1, such as 1.0e-6")]
    window: Annotated[
        Annotated[Duration, Field(ge=1)] | None, about("a duration such as '10 min', or null for all of the input")
    ] = None
    windows: Annotated[Positive, about("a whole number, 1 or more: windows of a person per horizon")] = 1
    horizon: Annotated[Duration | None, about("a multiple of cells.window, or null for all windows")] = None
    lateness: Annotated[
        Duration | None,
        about("a duration such as '1 min', or null where the end of a bounded input closes all windows"),
    ] = None
    release: Annotated[
        Literal["sampled", "noisy"],
        about("'sampled' or 'noisy': a sample of persons, or synthetic records by counts with noise"),
    ] = "sampled"
    sample_rate: Annotated[
        Share | None, about("a number above 0 and below 1; required by 'release: sampled', and refused by 'noisy'")
    ] = None

    name: ClassVar[str] = "cells"
    example: ClassVar[str] = "{window: 10 min, sample_rate: 0.2, partition: FILE, epsilon: 1, delta: 1.0e-6}"
    shard: ClassVar = staticmethod(_shard)
    entries: ClassVar[tuple[str, ...]] = (*BatchAlgorithm.entries, CONTRIBUTIONS)
    counted: ClassVar = {
        "tuples_in": "tuples that count: sampled, or with 'release: noisy' all within the contribution bound",
        "released": "tuples released, synthetic ones included",
        "synthetic": "released tuples that noise added to the count of their key",
        "windows": "windows closed with a tuple that counts",
        "sampled_out": "tuples that do not count, late and further ones included",
        "late": "tuples that arrived after their window had closed",
        "over_contribution": "tuples beyond the contribution bound of their person",
    }
    private: ClassVar[bool] = True
    # Buffered records are of the sample, and contributions have numbers of windows.
    fixed: ClassVar[tuple[str, ...]] = ("window", "release", "sample_rate", "horizon")
    admission: ClassVar = AdmissionStage(_new_admission, _restored_admission)

    @classmethod
    def compile(cls, privacy: Privacy) -> None:
        tree = RegionTree.of(Cut(0, 3.0, Region(0.5, 0.0), Region(0.5, 0.0)))
        warm_up(cls(tree, 4.0, 0.5, window=64, sample_rate=0.9), Numeric((0, 6)))
        warm_up(cls(tree, 4.0, 0.5, window=64, release="noisy"), Numeric((0, 6)))

    @classmethod
    def summary(cls, counts: Mapping[str, int]) -> tuple[str, str, str]:
        return (
            "windows",
            f"{counts['windows']:,}",
            f"late {counts['late']:,}, further {counts['over_contribution']:,}",
        )

    def warnings(self) -> Iterator[str]:
        if getattr(self.partition, "epsilon", 0.0) is None:
            yield (
                "cells.partition: was learned without differential privacy, so the guarantee does not hold for persons "
                "whose records it was learned from; learn it with 'crenel regions --private', or write 'epsilon: 0' "
                "into the file if it was learned from other persons or declared"
            )
        if self.release == "noisy":
            yield (
                "cells.release: noisy publishes synthetic records, and privacy.k counts them, as subjects in audit "
                "does; fewer than k persons may be behind them"
            )

    def describe(self) -> Iterator[tuple[str, str]]:
        yield "window", "all of the input" if self.window is None else f"{format_duration(self.window)} of event time"
        if self.lateness is None:
            yield "lateness", "windows close at the end of the input"
        else:
            yield "lateness", f"a window closes {format_duration(self.lateness)} after its end"
        if self.release == "sampled":
            yield "sample_rate", f"{self.sample_rate:g} of the persons of a window, chosen anew in each"
        else:
            yield "release", "as many records of a key as its count with noise says; no record is that of a person"
        if isinstance(self.partition, RegionTree):
            yield "partition", f"{len(self.partition)} cells"
        horizon = "the whole stream" if self.horizon is None else format_duration(self.horizon)
        yield "windows", f"a person contributes to {self.windows} at most over {horizon}"
        yield "epsilon, delta", f"{self.epsilon:g} and {self.delta:g} for each person over {horizon}"

    @property
    def is_synthetic(self) -> bool:
        return self.release == "noisy"

    def __post_init__(self) -> None:
        for name in ("horizon", "lateness") if self.window is None else ():
            if getattr(self, name) is not None:
                raise PolicyError(f"cells.{name}: goes with cells.window, which is missing; give it, or remove {name}")
        if self.release == "sampled" and self.sample_rate is None:
            raise PolicyError(
                "cells.sample_rate: is missing; give a number above 0 and below 1, or set release to 'noisy'"
            )
        if self.release == "noisy" and self.sample_rate is not None:
            raise PolicyError("cells.sample_rate: release: noisy counts all persons; remove it")
        for name in ("sample_rate", "delta"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < 1:
                raise PolicyError(f"cells.{name}: must be above 0 and below 1, not {getattr(self, name):g}")
        if self.window and self.horizon is not None and (self.horizon < self.window or self.horizon % self.window):
            raise PolicyError(
                f"cells.horizon: must be a multiple of cells.window ({self.window} ms), not {self.horizon} ms"
            )

    @property
    def reach(self) -> int | None:
        """Number of consecutive windows in a horizon; None: all."""
        return None if self.horizon is None or self.window is None else self.horizon // self.window

    @property
    def regions(self) -> RegionTree:
        """The partition, once it is read."""
        assert isinstance(self.partition, RegionTree)
        return self.partition

    @property
    def windows_of_person(self) -> int:
        """Maximum number of windows per horizon to which a person contributes."""
        return 1 if self.window is None else min(self.windows, self.reach or self.windows)

    @property
    def spent(self) -> float:
        """The part of epsilon that the partition has spent."""
        return getattr(self.partition, "epsilon", None) or 0.0

    def noisy_counts(self, k: int) -> NoisyCounts | None:
        """Return the noise and the threshold of a window's counts; None with ``release: sampled``.

        Parameters
        ----------
        k : minimum number of published records of a key

        Raises
        ------
        PolicyError
            Nothing of epsilon is left to the windows.
        """
        if self.release == "sampled":
            return None
        if self.epsilon <= self.spent:
            raise PolicyError(self._overspent)
        return noisy_counts(k, self.epsilon - self.spent, self.delta, self.windows_of_person)

    @property
    def _overspent(self) -> str:
        return f"cells.epsilon: must be above {self.spent:g}, which cells.partition has spent, not {self.epsilon:g}"

    def account(self, privacy: Privacy) -> dict[str, float]:
        """Return the figures of ``crenel budget`` by name, for a k that is large enough.

        ``delta_over_horizon`` counts for the guarantee: the smaller of ``delta_by_privacy_loss``, which only several
        windows have, and ``delta_by_composition``, which only an epsilon of a window has. That epsilon is the one at
        which the delta by composition is least, or with ``release: noisy`` the threshold. ``persons_published_often``
        is the number of persons of a key, in the stream, which is published with a probability of 0.95 at least; keys
        of fewer persons are suppressed more often. Keys of ``persons_published_rarely`` or fewer are published with a
        probability of 0.05 at most.
        """
        k, windows, epsilon = privacy.k, self.windows_of_person, self.epsilon - self.spent
        basic, counts = epsilon / windows, self.noisy_counts(k)
        figures: dict[str, float] = {
            "k": k,
            "windows": windows,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "epsilon_of_partition": self.spent,
        }
        if counts is not None:
            rarely = counts.persons_for(_RARELY)
            return figures | {
                "epsilon_of_window": counts.epsilon,
                "delta_of_window": counts.delta,
                "delta_by_composition": composed_delta(epsilon, windows, counts.epsilon, counts.delta),
                "threshold": counts.threshold,
                "threshold_by_basic_composition": max(k, threshold_for(basic, self.delta / windows)),
                "persons_published_rarely": rarely - (counts.share_published(rarely) > _RARELY),
                "persons_published_often": counts.persons_for(_OFTEN),
            }
        rate = self._rate
        delta, of_window = delta_of_parameters(k, rate, epsilon, windows)
        least = least_k(rate, epsilon, self.delta, windows)
        figures |= {"sample_rate": rate, "delta_over_horizon": delta_over_horizon(k, rate, epsilon, windows)}
        if windows > 1:
            figures["delta_by_privacy_loss"] = delta_of_losses(k, rate, epsilon, windows)
        if isfinite(of_window):
            of_parameters = {"epsilon_of_window": of_window, "delta_of_window": exp(log_divergence(k, rate, of_window))}
            figures |= of_parameters | {"delta_by_composition": delta}
        return figures | {
            "delta_by_basic_composition": (
                windows * exp(log_divergence(k, rate, basic)) if basic >= smallest_epsilon(rate) else 1.0
            ),
            "least_k": k if least is None else least,
            "persons_published_often": persons_for(k, rate, _OFTEN),
        }

    def budgeted(self, privacy: Privacy) -> dict[str, object]:
        """Return the fields, with their values, that decide on epsilon and delta of a horizon."""
        found: dict[str, object] = {f"cells.{name}": getattr(self, name) for name in ("epsilon", "delta", "windows")}
        # Windows compose whatever cells they have, but another private partition has spent epsilon of its own.
        found["cells.partition"] = [self.spent, self.regions.cuts] if self.spent else None
        return found if self.release == "noisy" else found | {"privacy.k": privacy.k}

    @property
    def _rate(self) -> float:
        """The sample rate, which ``release: sampled`` has."""
        assert self.sample_rate is not None
        return self.sample_rate

    def problems(self, policy: Policy, privacy: Privacy) -> Iterator[str]:
        """Yield each conflict with a policy, with its field and the valid values."""
        yield from _unfit(policy, privacy)
        if self.window is not None and policy.event_time is None:
            yield "cells.window: policy.event_time names no column; name one, or leave the window out"
        windows, spent = self.windows_of_person, self.spent
        epsilon = self.epsilon - spent
        if epsilon <= 0:
            yield self._overspent
            return
        if self.release == "noisy":  # the threshold follows from epsilon and delta, whatever k is
            if epsilon / windows < LEAST_EPSILON:
                yield f"cells.epsilon: must be {LEAST_EPSILON:g} or more for each of {windows} windows of a person"
            return
        rate = self._rate
        if holds(privacy.k, rate, epsilon, self.delta, windows):
            return
        least = least_k(rate, epsilon, self.delta, windows)
        guarantee = f"epsilon {epsilon:g} and delta {self.delta:g} over {windows} windows of a person"
        if spent:
            guarantee += f" (cells.partition has spent {spent:g})"
        if least is None:
            yield (
                f"cells.sample_rate: no k gives {guarantee} at {rate:g}; set it to "
                f"{_feasible_rate(epsilon, self.delta, windows)} or less, or cells.windows to a smaller number"
            )
        else:
            yield (
                f"privacy.k: must be {least} or more for {guarantee} at cells.sample_rate {rate:g}, not "
                f"{privacy.k}; a smaller sample_rate, fewer windows or a larger epsilon need a smaller k"
            )


def _feasible_rate(epsilon: float, delta: float, windows: int) -> str:
    """Return a sample rate of two digits or less for which some k gives the guarantee."""
    for digits in range(1, 7):
        for part in range(9, 0, -1):
            rate = part / 10**digits
            if smallest_epsilon(rate) <= epsilon and least_k(rate, epsilon, delta, windows) is not None:
                return f"{rate:g}"
    return "0.000001"


def _unfit(policy: Policy, privacy: Privacy) -> Iterator[str]:
    """Yield the parts of a policy that tell more of a record than its key does, or need another person's records."""
    if policy.event_time_limit is not None:
        yield (
            "policy.event_time_limit: compares a record with a watermark, which other persons' records move; remove it"
        )
    for role, names in (
        ("passthrough", policy.passthrough),
        ("noised", policy.noised),
        ("pseudonym", () if policy.pseudonym is None else [policy.pseudonym.column]),
    ):
        if names:
            yield (
                f"policy.{role}: cells publishes only values that k persons share, and {', '.join(names)} is published "
                "for each record; move it to drop, or remove it"
            )
    for attribute in policy.attributes:
        if isinstance(attribute, Numeric):
            if attribute.domain is None:
                yield f"{attribute.place}.domain: is missing; cells are declared, so give [lowest, highest]"
            if attribute.missing == "value":
                yield f"{attribute.place}.missing: narrows intervals to the numbers of a class; set it to 'reject'"
            for name in ("step", "ends"):
                if getattr(attribute, name) is not None:
                    yield f"{attribute.place}.{name}: does not apply to cells, whose ends are declared; remove it"
        else:
            try:
                attribute.hierarchy.require_listed()
            except HierarchyError as error:
                yield f"{attribute.place}.hierarchy: {error}"
        if attribute.publish not in ("interval", "ancestor"):
            yield f"{attribute.place}.publish: {attribute.publish!r} tells values within a cell; remove it"
    for name in policy.sensitive:
        if privacy.reference_of(name) is OF_STREAM:
            yield (
                f"privacy.sensitive.{name}.reference: is missing; without it a privacy model compares with all records "
                "of the stream, also those that are not published; declare a reference"
            )
