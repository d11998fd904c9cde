"""Privacy settings of a job: conditions on every release, sampling and noise.

All classes are frozen, and their constructors validate all values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from math import isclose, log1p
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ArgsKwargs

from crenel.anonymity.model.errors import FieldError, PolicyError
from crenel.anonymity.model.explain import suggestion
from crenel.anonymity.model.fields import AboveZero, Column, Duration, Positive, Real, Share, about, setting
from crenel.anonymity.model.hierarchy_field import HierarchyOrNone
from crenel.anonymity.model.outcomes import LINKABLE, SUPPRESSIONS
from crenel.anonymity.model.privacy_model import ConfiguredModels, Parameter, PrivacyModel, known_privacy_models
from crenel.anonymity.model.reference import OF_STREAM, Distance, Reference, ReferenceField

LEAST_PHI = 2.0**-12
"""Minimum of phi and epsilon; below it, the scale of noise on the longest domain would exceed the maximum."""

_DIVERSITY = SUPPRESSIONS[2]


@setting
class Confidence:
    """Suppression of tuples with too few possible owners of a noised value ((k, epsilon)-anonymity, Section V-C).

    Attributes
    ----------
    c : probability that a noised value lies inside the linking range of the original, above 0 and below 1; records with
        too few subjects within it are suppressed
    k : minimum number of distinct subjects inside this range, unless there are none; from 2 to ``privacy.k``
    """

    c: Annotated[Annotated[Real, Field(gt=0, lt=1)], about("a number above 0 and below 1, such as 0.99")]
    k: Annotated[Annotated[Positive, Field(ge=2)], about("a whole number from 2 to privacy.k")]


@setting
class NoiseWithinRelease:
    """Noise on the noised attributes inside each equivalence class ((k, epsilon)-anonymity, Section IV).

    Attributes
    ----------
    epsilon : privacy parameter of a record, shared among its noised attributes; above 0
    shares : share of epsilon of each noised attribute: all attributes, with the sum 1; None: equal shares
    scale : the noise has the scale width / (epsilon x share); the width is that of the ``"release"``, as in the paper,
        or of the declared ``"domain"``
    least : minimum width of a release for the noise, as a share of the width of the domain, from 0 to 1; without it, a
        release of equal values would be published unchanged
    confidence : suppression by confidence; None: none
    """

    epsilon: Annotated[
        Annotated[Real, Field(ge=LEAST_PHI)],
        about("a number above 0, such as 2: for all noised attributes of a record"),
    ]
    shares: Annotated[
        dict[Column, AboveZero] | None,
        about("the share of epsilon of each noised attribute, 1 together; without it they are equal"),
    ] = None
    scale: Annotated[Literal["release", "domain"], about("'release' or 'domain'")] = "release"
    least: Annotated[Share, about("a share of the domain's width, from 0 to 1")] = 0.02
    confidence: Annotated[
        Confidence | None, about("a mapping such as {c: 0.99, k: 10}, or null for no suppression by it")
    ] = None

    def __post_init__(self) -> None:
        if self.shares is not None and not isclose(sum(self.shares.values()), 1, rel_tol=1e-9):
            raise FieldError("shares", "must be above 0 each, and 1 together")

    def of(self, noised: Sequence[str]) -> tuple[float, ...]:
        """Return epsilon of each noised attribute, in their order."""
        shares = self.shares or dict.fromkeys(noised, 1 / max(len(noised), 1))
        return tuple(self.epsilon * shares[name] for name in noised)


@setting
class Persons:
    """The guarantee over all records of a person (``crenel.anonymity.algorithms.nearest.lasting``).

    Attributes
    ----------
    guarantee : ``"each_release"``: k and l hold for each release; ``"lasting"``: for all records of a person together,
        with ``algorithm: nearest`` only
    horizon : event time since the last record of a person and of the whole anonymity set after which they are
        forgotten, an eighth of it later; at least ``nearest.delay.event_time``; None: never, and state grows with the
        number of persons
    moved : treatment of a record if it, or the latest values of a member of the anonymity set, lie outside the
        generalization: ``"widen"`` it, ``"suppress"`` the record, or publish it and ``"count"``
    """

    guarantee: Annotated[Literal["each_release", "lasting"], about("'each_release' or 'lasting'")] = "each_release"
    horizon: Annotated[
        Annotated[Duration, Field(ge=1)] | None,
        about("a duration such as '30 days' of event time since a person's last row, or null: for ever"),
    ] = None
    moved: Annotated[Literal["widen", "suppress", "count"], about("'widen', 'suppress' or 'count'")] = "widen"


class _WithModels:
    """Base class of sections in which a privacy model has a field under its name, beside the fields of the class."""

    models: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, given: Any) -> Any:
        """Move the parameters of privacy models into ``models``."""
        if isinstance(given, ArgsKwargs):
            return ArgsKwargs(given.args, _collected(given.kwargs or {}))
        return _collected(given) if isinstance(given, Mapping) else given

    @classmethod
    def further_fields(cls) -> dict[str, FieldInfo]:
        """Return the fields of the registered privacy models."""
        return {
            name: FieldInfo(annotation=Any, default=None, description=model.parameter)
            for name, model in known_privacy_models().items()
        }

    @cached_property
    def further(self) -> ConfiguredModels:
        """The privacy models beside k and l, with their parameters, in the order in which they are checked.

        They are pickled, so that another process imports the modules that register them.
        """
        known = known_privacy_models()
        for name in self.models:
            if name not in known:
                raise PolicyError(
                    f"privacy.{name}: is a privacy model of which this process knows nothing; import its module"
                )
        return tuple((known[name], known[name].as_numbers(self.models[name])) for name in known if name in self.models)


def _collected(given: Mapping[str, Any]) -> dict[str, Any]:
    known, fields = known_privacy_models(), dict(given)
    models = dict(fields.pop("models", None) or {})
    models |= {name: fields.pop(name) for name in [*fields] if name in known}
    for name, parameter in models.items():
        if name not in known:
            raise FieldError(name, f"is no privacy model{suggestion(name, list(known))}; one of {', '.join(known)}")
        models[name] = None if parameter is None else known[name].validated(parameter)
    return fields | {"models": {name: parameter for name, parameter in models.items() if parameter is not None}}


@setting
class Sensitive(_WithModels):
    """Privacy models of one sensitive column, each in place of that of all columns.

    Attributes
    ----------
    l : diversity of this column, from 1 to k, above or below that of all columns; None: that of all columns
    reference : path of a CSV file of values with their shares or counts, for models that compare, such as t and beta,
        or the ``Reference`` that it becomes; None: the stream of the shard so far
    distance : distance between values for t: ``"equal"``, ``"ordered"`` or ``"hierarchical"``
    hierarchy : hierarchy whose leaves are the values, as of a quasi-identifier; required for the distance
        ``"hierarchical"``
    models : parameter of each further privacy model of the column by name. Its name may be an argument, and is a field
        of a file: ``Sensitive(t=0.2)``
    """

    l: Annotated[  # noqa: E741 - the field's own name for it
        Positive | None, about("a whole number from 1 to k, or null for privacy.l")
    ] = None
    reference: Annotated[
        ReferenceField | None,
        about(
            "the path of a CSV file of values and their shares or counts, relative to the configuration, or null for "
            "the stream so far"
        ),
    ] = None
    distance: Annotated[
        Distance, about("'equal', 'ordered' or 'hierarchical': how far t has values from each other")
    ] = "equal"
    hierarchy: Annotated[
        HierarchyOrNone,
        about("the path of a hierarchy file whose leaves are the values, relative to the configuration"),
    ] = None
    models: dict[str, Any] = field(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            l: int | None = None,  # noqa: E741
            reference: str | Path | Reference | None = None,
            distance: Distance = "equal",
            hierarchy: Any = None,
            models: Mapping[str, Any] = ...,
            **further: Any,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.distance != "equal" and self.reference is None:
            raise ValueError("its 'distance' is one to a 'reference'; give that, or remove it")
        if (self.distance == "hierarchical") != (self.hierarchy is not None):
            raise ValueError("a 'hierarchy' and 'distance: hierarchical' go together; give both, or neither")

    @property
    def compared(self) -> Reference | None:
        """The reference distribution with its distances."""
        if self.reference is None:
            return None
        return replace(self.reference, distance=self.distance, hierarchy=self.hierarchy)


@setting
class Privacy(_WithModels):
    """Privacy models that every release satisfies.

    Attributes
    ----------
    k : minimum number of distinct persons in every release, 1 or more
    l : l-diversity of each sensitive column in every release, counted by persons, from 1 to k
        (``crenel.anonymity.privacy_models.tally``)
    persons : the guarantee over all records of a person; None: k and l hold for each release
    sensitive : privacy models of single sensitive columns
    noise_within_release : noise inside each equivalence class, needed with ``policy.noised``; None: none
    models : parameter of each further privacy model of all sensitive columns by name, of Crenel or of your own. Its
        name may be an argument, and is a field of a file: ``Privacy(k=10, t=0.2)``

    Examples
    --------
    >>> Privacy(k=10, l=3, recursive={"c": 2, "l": 3}).models
    {'recursive': {'c': 2.0, 'l': 3.0}}
    """

    k: Annotated[Positive, about("a whole number, 1 or more")]
    l: Annotated[Positive, about("a whole number from 1 to k")] = 1  # noqa: E741 - the field's own name for it
    persons: Annotated[
        Persons | None,
        about("a mapping such as {guarantee: lasting, horizon: 30 days}: for persons with several rows"),
    ] = None
    sensitive: Annotated[
        dict[Column, Sensitive],
        about("privacy models of single sensitive columns, such as {diagnosis: {l: 3, alpha: 0.5}}"),
    ] = field(default_factory=dict)
    noise_within_release: Annotated[
        NoiseWithinRelease | None, about("a mapping such as {epsilon: 2}, needed with policy.noised, or null")
    ] = None
    models: dict[str, Any] = field(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(
            self,
            k: int,
            l: int = 1,  # noqa: E741
            persons: Persons | None = None,
            sensitive: Mapping[str, Sensitive] = ...,
            noise_within_release: NoiseWithinRelease | None = None,
            models: Mapping[str, Any] = ...,
            **further: Any,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._require("privacy", self.l, self.further)
        for name, column in self.sensitive.items():
            place = f"privacy.sensitive.{name}"
            if column.l is None and not column.further and column.reference is None:
                raise PolicyError(f"{place}: has no privacy model; give l or another one, or remove it")
            self._require(place, column.l, column.further)

    @property
    def lasting(self) -> Persons | None:
        """The guarantee over all releases of a person; None: k and l hold for each release alone."""
        return self.persons if self.persons is not None and self.persons.guarantee == "lasting" else None

    def _require(self, place: str, l: int | None, further: ConfiguredModels) -> None:  # noqa: E741
        if l is not None and not 1 <= l <= self.k:
            raise PolicyError(f"{place}.l: must be from 1 to k ({self.k}), not {l}")
        for model, parameter in further:
            if not model.allowed(parameter, self.k):
                raise PolicyError(f"{place}.{model.name}: must be {model.parameter}, not {model.text(parameter)}")

    def require_columns(self, sensitive: Sequence[str]) -> None:
        """Raise ``PolicyError`` where a setting names a column outside ``sensitive``, or a reference is unusable."""
        for name in self.sensitive:
            if name not in sensitive:
                known = f"one of {', '.join(sensitive)}" if sensitive else "policy.sensitive names no column; name it"
                raise PolicyError(f"privacy.sensitive.{name}: is not a column of policy.sensitive; {known}")
        for name in sensitive:
            place = f"privacy.sensitive.{name}.reference"
            compares = [model.name for model, _, _ in self.further_of(name) if model.compares]
            reference = self.reference_of(name)
            if reference is not None and (problem := reference.problem()):
                raise PolicyError(f"privacy.sensitive.{name}.hierarchy: {problem}")
            if not compares and reference is not None:
                raise PolicyError(f"{place}: no privacy model compares with it; give one that does, or remove it")

    def l_of(self, column: str) -> tuple[int, str]:
        """Return the l of a sensitive column, and the reason for suppressing tuples that violate it."""
        own = self.sensitive.get(column)
        if own is not None and own.l is not None:
            return own.l, f"{_DIVERSITY}:{column}"
        return self.l, _DIVERSITY

    def further_of(self, column: str) -> tuple[tuple[PrivacyModel, Parameter, str], ...]:
        """Return a column's privacy models beside k and l, with parameters and reasons for suppression."""
        own = self.sensitive[column].further if column in self.sensitive else ()
        names = {model.name for model, _ in own}
        of_all = [(model, given, model.reason) for model, given in self.further if model.name not in names]
        return (*of_all, *((model, given, f"{model.reason}:{column}") for model, given in own))

    def reference_of(self, column: str) -> Reference | None:
        """Return the distribution with which a sensitive column is compared; None where no model compares it.

        Without a declared reference, this is the distribution of the shard's stream so far.
        """
        declared = self.sensitive[column].compared if column in self.sensitive else None
        compares = any(model.compares for model, _, _ in self.further_of(column))
        return OF_STREAM if declared is None and compares else declared

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Possible reasons for suppression, those of additional privacy models last; stored as positions."""
        noise = self.noise_within_release
        confident = noise is not None and noise.confidence is not None
        linkable = confident or self.lasting is not None
        further = [model.reason for model, _ in self.further]
        for column in self.sensitive:
            further += [self.l_of(column)[1], *(reason for _, _, reason in self.further_of(column))]
        return tuple(dict.fromkeys((*SUPPRESSIONS, *further, *((LINKABLE,) if linkable else ()))))

    @property
    def least_values(self) -> int:
        """Minimum number of values per release of the sensitive column that needs the most."""
        configured = [*self.further, *(pair for column in self.sensitive.values() for pair in column.further)]
        own = [column.l or 1 for column in self.sensitive.values()]
        return max([self.l, *own, *(model.least_values(parameter) for model, parameter in configured)])

    @property
    def in_force(self) -> dict[str, float]:
        """Parameters of all privacy models by name; the name of a single column is appended."""
        within = self.noise_within_release
        noise = {} if within is None else {"epsilon_within": within.epsilon}
        found: dict[str, float] = {"k": self.k, "l": self.l}
        for model, parameter in self.further:
            found |= model.named(parameter)
        for column, own in self.sensitive.items():
            if own.l is not None:
                found[f"l_{column}"] = own.l
            for model, parameter in own.further:
                found |= {f"{name}_{column}": number for name, number in model.named(parameter).items()}
        return found | noise


@setting
class Tolerance:
    """Noise as a tolerance, from which phi follows.

    Attributes
    ----------
    share : share of the range within which noise stays with that probability, above 0 (r in equation 4)
    probability : probability with which noise stays within the share, above 0 and below 1 (Pr)
    """

    share: Annotated[AboveZero, about("a number above 0, such as 0.05: a share of the range")]
    probability: Annotated[Annotated[Real, Field(gt=0, lt=1)], about("a number above 0 and below 1, such as 0.99")]


@setting
class SamplingAndNoise:
    """Sampling and perturbation of the input (CASTLEGUARD, Algorithms 1 and 2; symbols of the paper in brackets).

    Attributes
    ----------
    sample_rate : probability that a tuple is admitted (beta), above 0 and at most 1
    phi : noise has the Laplace scale range / phi; at least 2^-12; None where ``within`` is given
    within : in place of phi, a tolerance
    range : whether the range is the ``"declared"`` domain, or the one ``"observed"`` so far, as in the paper
    """

    sample_rate: Annotated[
        Annotated[Real, Field(gt=0, le=1)],
        about("a number above 0 and at most 1, such as 0.9: the share of tuples that are let in"),
    ]
    phi: Annotated[
        Annotated[Real, Field(ge=LEAST_PHI)] | None,
        about("a number above 0, such as 100: noise has the scale range / phi"),
    ] = None
    within: Annotated[Tolerance | None, about("a mapping such as {share: 0.05, probability: 0.99}")] = None
    range: Annotated[Literal["declared", "observed"], about("'declared' or 'observed'")] = "declared"

    def __post_init__(self) -> None:
        if (self.phi is None) == (self.within is None):
            raise ValueError("give either 'phi' or 'within', the tolerance that phi follows from")
        if self.inverse_scale < LEAST_PHI:
            raise FieldError(
                "within", "needs more noise than there can be; give a smaller share or a larger probability"
            )

    @cached_property
    def inverse_scale(self) -> float:
        """Phi, as it is given or follows from the tolerance (CASTLEGUARD, equation 4)."""
        if self.within is not None:
            return -log1p(-self.within.probability) / self.within.share
        return self.phi or 0.0

    @property
    def has_observed_range(self) -> bool:
        """Whether the range is the one observed so far, as in the paper, instead of the declared domain."""
        return self.range == "observed"
