"""Noise within a release: numbers that no cluster looks at, each moved so far that others of its class may be meant.

(k, epsilon)-anonymity, Sections IV and V. What leaves together is one class; the Laplace scale of an attribute is its
width in that class, divided by the attribute's share of epsilon (Section IV: a record has one epsilon). Noise is drawn
as CASTLEGUARD's is (``crenel.anonymity.noise.laplace``): exactly, in steps of the attribute's grid, within its domain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import record, zeros
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.outcomes import LINKABLE
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.noise.laplace import Steps, steps_of


class NoiseArrays(NamedTuple):
    """The noised attributes of one shard.

    Attributes
    ----------
    value : (slots, noised) values of the tuples that wait
    shown : (slots, noised) what is published of those that leave in this step
    linked : (slots,) whether no original in its class is nearer to what is published of a tuple than its subject's
    scale : (releases, noised) the Laplace scale of each release of this step, in the attribute's unit
    place : (noised,) of each among the columns that members have of their own
    steps : the grids
    domain, least : (noised,) width of the declared domain, and least width by which noise is scaled
    epsilon : (noised,) of each attribute
    span : (2, noised) lowest and highest value of the class that leaves
    numerator, denominator : (noised,) the scale of the class that leaves, in steps, as a fraction
    reach : (noised,) the linking range of the class that leaves, and a little more, in the attribute's unit
    near : (subjects that must be near,) those that were found about the tuple that was looked at last
    of : ``by_domain`` and ``by_name`` (whether there are subjects), 0 or 1; ``subjects`` that must be near, 0 without
        confidence; ``reason`` of those that are suppressed; ``beyond``: probability, for each attribute, of noise
        beyond its linking range
    """

    value: NDArray[np.float64]
    shown: NDArray[np.float64]
    linked: NDArray[np.bool_]
    scale: NDArray[np.float64]
    place: NDArray[np.int64]
    steps: Steps
    domain: NDArray[np.float64]
    least: NDArray[np.float64]
    epsilon: NDArray[np.float64]
    span: NDArray[np.float64]
    numerator: NDArray[np.int64]
    denominator: NDArray[np.int64]
    reach: NDArray[np.float64]
    near: NDArray[np.uint64]
    of: Any


def within(policy: Policy, privacy: Privacy, slots: int) -> NoiseArrays:
    """The noise of a shard with so many slots; of no attributes where the policy names none.

    Raises
    ------
    PolicyError
        A noised attribute has no step, or there are noised attributes and no noise, or noise and none of them.
    """
    attributes, noise = policy.noised, privacy.noise_within
    stepless = [
        f"{a.place}.step: is missing; noise is drawn in steps, such as 0.1" for a in attributes if a.step is None
    ]
    for problem in (*problems_within(policy, privacy), *stepless):
        raise PolicyError(problem)
    count, steps = len(attributes), steps_of(attributes)
    width = steps.upper - steps.lower
    of = record("by_domain by_name subjects reason", "beyond")
    of.by_name = policy.subject is not None
    if noise is not None:
        of.by_domain = noise.scale == "domain"
        if noise.confidence is not None:
            of.subjects, of.reason = noise.confidence.k, privacy.reasons.index(LINKABLE)
            of.beyond = 1.0 - noise.confidence.c ** (1 / count)
    return NoiseArrays(
        value=zeros((slots, count)),
        shown=zeros((slots, count)),
        linked=zeros(slots if count else 0, np.bool_),
        scale=zeros((slots, count)),
        place=np.array([policy.members.index(attribute.name) for attribute in attributes], np.int64),
        steps=steps,
        domain=width,
        least=width * (0.0 if noise is None else noise.least),
        epsilon=np.array(() if noise is None else noise.of(count), np.float64),
        span=np.zeros((2, count)),
        numerator=np.zeros(count, np.int64),
        denominator=np.ones(count, np.int64),
        reach=np.zeros(count),
        near=np.zeros(int(of.subjects), np.uint64),
        of=of,
    )


def problems_within(policy: Policy, privacy: Privacy) -> list[str]:
    """What does not go together in a policy and its noise within releases, each with its field."""
    attributes, noise = policy.noised, privacy.noise_within
    if noise is None:
        names = ", ".join(attribute.name for attribute in attributes)
        return [f"noise_within_release: is missing; policy.noised names {names}"] if attributes else []
    found = []
    if not attributes:
        found.append("noise_within_release: policy.noised names no column; name one, or remove it")
    if attributes and noise.shares and len(noise.shares) != len(attributes):
        found.append("noise_within_release.shares: must name each column of policy.noised")
    if noise.confidence is not None and noise.confidence.k > privacy.k:
        found.append(
            f"noise_within_release.confidence.k: must be at most privacy.k ({privacy.k}), not {noise.confidence.k}: a "
            "class of k subjects could not keep it"
        )
    return found


def let_in(noise: NoiseArrays, slots: NDArray[np.int32], members: pa.RecordBatch) -> None:
    """Note the noised values of tuples in some slots; ``members`` has the columns of ``Policy.members``."""
    for a, place in enumerate(noise.place.tolist()):
        noise.value[slots, a] = members.column(place).to_numpy(zero_copy_only=False)


def with_slots(noise: NoiseArrays, slots: int) -> NoiseArrays:
    """The same with room for more tuples."""
    count = noise.value.shape[1]
    larger = zeros((slots, count))
    larger[: len(noise.value)] = noise.value
    return noise._replace(
        value=larger,
        shown=zeros((slots, count)),
        linked=zeros(slots if count else 0, np.bool_),
        scale=zeros((slots, count)),
    )
