"""Noise on numeric attributes inside a release, so that several members may be the owner of a published value.

The method is (k, epsilon)-anonymity, Sections IV and V; clustering ignores these attributes. A release is one
equivalence class. The Laplace scale of an attribute is its width in the class, divided by the attribute's share of
epsilon (Section IV: a record has one epsilon). Noise is drawn as for CASTLEGUARD (``crenel.anonymity.noise.laplace``):
exactly, in steps of the attribute's grid, within its domain.
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
from crenel.anonymity.noise.laplace import StepGrids, steps_of


class NoiseArrays(NamedTuple):
    """Noised attributes of one shard.

    Attributes
    ----------
    value : (slots, noised) original values of the buffered tuples
    shown : (slots, noised) published values of the tuples released in this step
    linked : (slots,) whether no original value of the published members is nearer to a tuple's published value than its
        own subject's
    scale : (releases, noised) Laplace scale of each release of this step, in the attribute's unit
    place : (noised,) index of each attribute in ``Policy.members``
    steps : grids of the attributes
    domain, least : (noised,) width of the declared domain, and minimum width for the noise scale
    epsilon : (noised,) of each attribute
    span : (2, noised) minimum and maximum value in the current class
    numerator, denominator : (noised,) noise scale of the current class, in steps, as a fraction
    reach : (noised,) linking range of the current class, with a small margin, in the attribute's unit
    near : (required subjects,) subjects counted in the linking range of the current tuple
    config : ``by_domain`` and ``by_name`` (the policy names a subject), 0 or 1; ``subjects``: required number in the
        linking range, 0 without confidence; ``reason`` for suppression; ``beyond``: probability, per attribute, of
        noise beyond its linking range
    """

    value: NDArray[np.float64]
    shown: NDArray[np.float64]
    linked: NDArray[np.bool_]
    scale: NDArray[np.float64]
    place: NDArray[np.int64]
    steps: StepGrids
    domain: NDArray[np.float64]
    least: NDArray[np.float64]
    epsilon: NDArray[np.float64]
    span: NDArray[np.float64]
    numerator: NDArray[np.int64]
    denominator: NDArray[np.int64]
    reach: NDArray[np.float64]
    near: NDArray[np.uint64]
    config: Any


def within(policy: Policy, privacy: Privacy, slots: int) -> NoiseArrays:
    """Return the noise arrays of a shard with ``slots`` slots; without noised attributes they have no columns.

    Raises
    ------
    PolicyError
        A noised attribute has no step, or only one of noised attributes and noise settings is present.
    """
    attributes, noise = tuple(policy.noised.values()), privacy.noise_within_release
    stepless = [
        f"{a.place}.step: is missing; noise is drawn in steps, such as 0.1" for a in attributes if a.step is None
    ]
    for problem in (*problems_within(policy, privacy), *stepless):
        raise PolicyError(problem)
    count, steps = len(attributes), steps_of(attributes)
    width = steps.upper - steps.lower
    config = record("by_domain by_name subjects reason", "beyond")
    config.by_name = policy.subject is not None
    if noise is not None:
        config.by_domain = noise.scale == "domain"
        if noise.confidence is not None:
            config.subjects, config.reason = noise.confidence.k, privacy.reasons.index(LINKABLE)
            config.beyond = 1.0 - noise.confidence.c ** (1 / count)
    return NoiseArrays(
        value=zeros((slots, count)),
        shown=zeros((slots, count)),
        linked=zeros(slots if count else 0, np.bool_),
        scale=zeros((slots, count)),
        place=np.array([policy.members.index(attribute.name) for attribute in attributes], np.int64),
        steps=steps,
        domain=width,
        least=width * (0.0 if noise is None else noise.least),
        epsilon=np.array(() if noise is None else noise.of([*policy.noised]), np.float64),
        span=np.zeros((2, count)),
        numerator=np.zeros(count, np.int64),
        denominator=np.ones(count, np.int64),
        reach=np.zeros(count),
        near=np.zeros(int(config.subjects), np.uint64),
        config=config,
    )


def problems_within(policy: Policy, privacy: Privacy) -> list[str]:
    """Return conflicts between a policy and its noise inside releases, each with its field."""
    attributes, noise = tuple(policy.noised.values()), privacy.noise_within_release
    if noise is None:
        names = ", ".join(attribute.name for attribute in attributes)
        return [f"privacy.noise_within_release: is missing; policy.noised names {names}"] if attributes else []
    problems = []
    if not attributes:
        problems.append("privacy.noise_within_release: policy.noised names no column; name one, or remove it")
    if attributes and noise.shares and noise.shares.keys() != policy.noised.keys():
        problems.append("privacy.noise_within_release.shares: must name each column of policy.noised")
    if noise.confidence is not None and noise.confidence.k > privacy.k:
        problems.append(
            f"privacy.noise_within_release.confidence.k: must be at most privacy.k ({privacy.k}), not "
            f"{noise.confidence.k}: a class of k subjects could not keep it"
        )
    return problems


def admit(noise: NoiseArrays, slots: NDArray[np.int32], members: pa.RecordBatch) -> None:
    """Store the noised values of tuples in their slots; ``members`` has the columns of ``Policy.members``."""
    for a, place in enumerate(noise.place.tolist()):
        noise.value[slots, a] = members.column(place).to_numpy(zero_copy_only=False)


def with_slots(noise: NoiseArrays, slots: int) -> NoiseArrays:
    """Return the same arrays with room for ``slots`` tuples."""
    count = noise.value.shape[1]
    larger = zeros((slots, count))
    larger[: len(noise.value)] = noise.value
    return noise._replace(
        value=larger,
        shown=zeros((slots, count)),
        linked=zeros(slots if count else 0, np.bool_),
        scale=zeros((slots, count)),
    )
