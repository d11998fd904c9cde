"""Privacy settings of a job: conditions on every release, sampling and noise.

All classes are frozen, and their constructors validate all values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isclose
from typing import Literal

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.outcomes import LINKABLE, SUPPRESSIONS
from crenel.anonymity.model.privacy_model import ConfiguredModels, Parameter, PrivacyModel, Sensitive
from crenel.anonymity.model.reference import OF_STREAM, Reference

LEAST_PHI = 2.0**-12
"""Minimum of phi and epsilon; below it, the scale of noise on the longest domain would exceed the maximum."""

_DIVERSITY = SUPPRESSIONS[2]


@dataclass(frozen=True)
class Confidence:
    """Suppression of tuples with too few possible owners of a noised value ((k, epsilon)-anonymity, Section V-C).

    Attributes
    ----------
    c : probability that a noised value lies inside the linking range of the original, above 0 and below 1
    k : minimum number of distinct subjects inside this range, if there are any; at least 2
    """

    c: float
    k: int

    def __post_init__(self) -> None:
        if not 0 < self.c < 1:
            raise PolicyError("noise_within_release.confidence.c: must be above 0 and below 1")
        if self.k < 2:
            raise PolicyError(f"noise_within_release.confidence.k: must be 2 or more, not {self.k}")


@dataclass(frozen=True)
class NoiseWithin:
    """Noise on noised attributes, scaled within each release ((k, epsilon)-anonymity, Section IV).

    Attributes
    ----------
    epsilon : of one record, divided among its noised attributes; above 0, finite
    shares : (noised,) share of epsilon of each noised attribute, in the order of the policy, above 0; empty: equal
    scale : the noise of an attribute has the Laplace scale width / (epsilon * share); the width is that of the
        ``release``, as in the paper, or of the declared ``domain``
    least : minimum width as a share of the declared domain's, from 0 to 1; without it, a release of equal values would
        be published unchanged
    confidence : None: no tuple is suppressed for too few possible owners
    """

    epsilon: float
    shares: tuple[float, ...] = ()
    scale: Literal["release", "domain"] = "release"
    least: float = 0.02
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        if not LEAST_PHI <= self.epsilon < inf:
            raise PolicyError("noise_within_release.epsilon: must be a finite number, 2^-12 or more")
        if any(share <= 0 for share in self.shares) or (self.shares and not isclose(sum(self.shares), 1, rel_tol=1e-9)):
            raise PolicyError("noise_within_release.shares: must be above 0 each, and 1 together")
        if not 0 <= self.least <= 1:
            raise PolicyError("noise_within_release.least: must be from 0 to 1")

    def of(self, attributes: int) -> tuple[float, ...]:
        """Return epsilon of each noised attribute."""
        return tuple(self.epsilon * share for share in self.shares or (1 / attributes,) * attributes)


@dataclass(frozen=True)
class Lasting:
    """Settings of the guarantee that covers all releases of a person, and not only each one.

    See ``crenel.anonymity.algorithms.nearest.lasting``.

    Attributes
    ----------
    horizon : milliseconds of event time, at least 1, after which a person without new tuples is forgotten, if the rest
        of the anonymity set has none either; None: never
    moved : treatment of a tuple whose values, or the latest of its anonymity set, lie outside the generalization:
        ``widen`` the generalization, ``suppress`` the tuple, or publish it and ``count`` the person
    """

    horizon: int | None = None
    moved: Literal["widen", "suppress", "count"] = "widen"

    def __post_init__(self) -> None:
        if self.horizon is not None and self.horizon < 1:
            raise PolicyError(f"privacy.persons.horizon: must be 1 ms or more, not {self.horizon}")


@dataclass(frozen=True)
class Privacy:
    """Conditions that every release satisfies.

    Attributes
    ----------
    k : minimum number of distinct subjects, at least 1
    l : l-diversity of each sensitive column (``crenel.anonymity.privacy_models.tally``), 1 to k
    further : other privacy models of each sensitive column, with their parameters
    noise_within : noise on the policy's noised attributes; None where it has none
    lasting : guarantee over all releases of a person; None: k and l hold for each release alone
    sensitive : settings of single columns
    """

    k: int
    l: int = 1  # noqa: E741 - the field's own name for it
    further: ConfiguredModels = ()
    noise_within: NoiseWithin | None = None
    lasting: Lasting | None = None
    sensitive: tuple[Sensitive, ...] = ()

    def __post_init__(self) -> None:
        if self.k < 1:
            raise PolicyError(f"privacy.k: must be 1 or more, not {self.k}")
        self._require("privacy", self.l, self.further)
        for column in self.sensitive:
            place = f"privacy.sensitive.{column.name}"
            if column.l is None and not column.further and column.reference is None:
                raise PolicyError(f"{place}: asks for nothing; give l or another promise, or remove it")
            self._require(place, column.l, column.further)

    def _require(self, place: str, l: int | None, further: ConfiguredModels) -> None:  # noqa: E741
        if l is not None and not 1 <= l <= self.k:
            raise PolicyError(f"{place}.l: must be from 1 to k ({self.k}), not {l}")
        for model, parameter in further:
            if not model.allowed(parameter, self.k):
                given = (
                    ", ".join(f"{name} {number:g}" for name, number in zip(model.fields, parameter, strict=True))
                    if isinstance(parameter, tuple)
                    else f"{parameter:g}"
                )
                raise PolicyError(f"{place}.{model.name}: must be {model.parameter}, not {given}")

    def require_columns(self, sensitive: Sequence[str]) -> None:
        """Raise ``PolicyError`` where a setting names a column outside ``sensitive``, or a reference is unusable."""
        for column in self.sensitive:
            if column.name not in sensitive:
                known = f"one of {', '.join(sensitive)}" if sensitive else "policy.sensitive names no column; name it"
                raise PolicyError(f"privacy.sensitive.{column.name}: is not a column of policy.sensitive; {known}")
        for name in sensitive:
            place = f"privacy.sensitive.{name}.reference"
            compares = [model.name for model, _, _ in self.further_of(name) if model.compares]
            reference = self.reference_of(name)
            if reference is not None and (problem := reference.problem()):
                raise PolicyError(f"privacy.sensitive.{name}.hierarchy: {problem}")
            if not compares and reference is not None:
                raise PolicyError(f"{place}: nothing is compared with it; give a promise that is, or remove it")

    def l_of(self, column: str) -> tuple[int, str]:
        """Return the l of a sensitive column, and the reason for suppressing tuples that violate it."""
        for of in self.sensitive:
            if of.name == column and of.l is not None:
                return of.l, f"{_DIVERSITY}:{column}"
        return self.l, _DIVERSITY

    def further_of(self, column: str) -> tuple[tuple[PrivacyModel, Parameter, str], ...]:
        """Return a column's privacy models beside k and l, with parameters and reasons for suppression."""
        own = [pair for of in self.sensitive if of.name == column for pair in of.further]
        names = {model.name for model, _ in own}
        of_all = [(model, given, model.reason) for model, given in self.further if model.name not in names]
        return (*of_all, *((model, given, f"{model.reason}:{column}") for model, given in own))

    def reference_of(self, column: str) -> Reference | None:
        """Return the distribution with which a sensitive column is compared; None where no model compares it.

        Without a declared reference, this is the distribution of the shard's stream so far.
        """
        declared = next((of.reference for of in self.sensitive if of.name == column), None)
        compares = any(model.compares for model, _, _ in self.further_of(column))
        return OF_STREAM if declared is None and compares else declared

    @property
    def reasons(self) -> tuple[str, ...]:
        """Possible reasons for suppression, those of additional privacy models last; stored as positions."""
        confident = self.noise_within is not None and self.noise_within.confidence is not None
        linkable = confident or self.lasting is not None
        further = [model.reason for model, _ in self.further]
        for column in self.sensitive:
            further += [self.l_of(column.name)[1], *(reason for _, _, reason in self.further_of(column.name))]
        return tuple(dict.fromkeys((*SUPPRESSIONS, *further, *((LINKABLE,) if linkable else ()))))

    @property
    def least_values(self) -> int:
        """Minimum number of values per release of the sensitive column that needs the most."""
        configured = [*self.further, *(pair for column in self.sensitive for pair in column.further)]
        own = [column.l or 1 for column in self.sensitive]
        return max([self.l, *own, *(model.least_values(parameter) for model, parameter in configured)])

    @property
    def in_force(self) -> dict[str, float]:
        """Parameters of all privacy models by name; the name of a single column is appended."""
        noise = {} if self.noise_within is None else {"epsilon_within": self.noise_within.epsilon}
        found: dict[str, float] = {"k": self.k, "l": self.l}
        for model, parameter in self.further:
            found |= model.named(parameter)
        for column in self.sensitive:
            if column.l is not None:
                found[f"l_{column.name}"] = column.l
            for model, parameter in column.further:
                found |= {f"{name}_{column.name}": number for name, number in model.named(parameter).items()}
        return found | noise


@dataclass(frozen=True)
class SamplingAndNoise:
    """Sampling and perturbation (CASTLEGUARD, Algorithms 1 and 2; symbols of the paper in brackets).

    Attributes
    ----------
    sample_rate : probability that a tuple is admitted (beta), above 0 and at most 1
    phi : noise on a quasi-identifier has the Laplace scale range / phi; at least 2^-12, finite
    observed_range : whether the range is the one observed so far, as in the paper, instead of the declared domain
    """

    sample_rate: float
    phi: float
    observed_range: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.sample_rate <= 1:
            raise PolicyError("sampling_and_noise.sample_rate: must be above 0 and at most 1")
        if not LEAST_PHI <= self.phi < inf:
            raise PolicyError("sampling_and_noise.phi: must be a finite number, 2^-12 or more")
