"""Noise within a release: numbers that no cluster looks at, each moved so far that others of its class may be meant.

(k, epsilon)-anonymity, Sections IV and V. What leaves together is one class; the Laplace scale of an attribute is its
width in that class, divided by the attribute's share of epsilon (Section IV: a record has one epsilon). Noise is drawn
as CASTLEGUARD's is (``anonymity.noise.perturb``): exactly, in steps of the attribute's grid, within its domain.

With confidence a record is suppressed where somebody, but fewer than k subjects of its class, lies within the linking
range of what would be published of it (Section V-C). Equation (9) centres that range on the published value, the line
below it on the original one. It is the published one here: that is what an observer sees, and about the original one
there is always somebody, its own record, so that the paper's remark on records that have none would be about nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anonymity.compiled.arrays import record, zeros
from anonymity.compiled.jit import Int, leaf, procedure
from anonymity.noise.perturb import decimal_step, fraction, grid_ends, moved
from anonymity.policy import LINKABLE, Policy, PolicyError, Privacy
from anonymity.promise.tally import Slots
from anonymity.tuples.leaving import Out, Totals, withhold


class Within(NamedTuple):
    """The noised attributes of one shard.

    Attributes
    ----------
    value : (slots, noised) values of the tuples that wait
    shown : (slots, noised) what is published of those that leave in this step
    linked : (slots,) whether the original nearest to what is published of a tuple, in its class, is its own
    scale : (releases, noised) the Laplace scale of each release of this step, in the attribute's unit
    place : (noised,) of each among the columns that members have of their own
    step, parts, whole, lower, upper, first, last : (noised,) as of ``anonymity.noise.perturb.Grid``
    domain, least : (noised,) width of the declared domain, and least width by which noise is scaled
    epsilon : (noised,) of each attribute
    span : (2, noised) lowest and highest value of the class that leaves
    of : ``by_domain`` and ``by_name`` (whether there are subjects), 0 or 1; ``subjects`` that must be near, 0 without
        confidence; ``reason`` of those that are suppressed; ``beyond``: probability, for each attribute, of noise
        beyond its linking range
    """

    value: NDArray[np.float64]
    shown: NDArray[np.float64]
    linked: NDArray[np.bool_]
    scale: NDArray[np.float64]
    place: NDArray[np.int64]
    step: NDArray[np.float64]
    parts: NDArray[np.float64]
    whole: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    domain: NDArray[np.float64]
    least: NDArray[np.float64]
    epsilon: NDArray[np.float64]
    span: NDArray[np.float64]
    of: Any


def within(policy: Policy, privacy: Privacy, slots: int) -> Within:
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
    count = len(attributes)
    ends = [grid_ends(attribute) for attribute in attributes]
    first, last = np.array(ends, np.int64).reshape(-1, 2).T.copy()
    steps = [attribute.step or 1.0 for attribute in attributes]
    parts, whole = np.array([decimal_step(step) for step in steps], np.float64).reshape(-1, 2).T.copy()
    lower, upper = np.array([a.domain or (0.0, 0.0) for a in attributes], np.float64).reshape(-1, 2).T.copy()
    of = record("by_domain by_name subjects reason", "beyond")
    of.by_name = policy.subject is not None
    if noise is not None:
        of.by_domain = noise.scale == "domain"
        if noise.confidence is not None:
            of.subjects, of.reason = noise.confidence.k, privacy.reasons.index(LINKABLE)
            of.beyond = 1.0 - noise.confidence.c ** (1 / count)
    return Within(
        value=zeros((slots, count)),
        shown=zeros((slots, count)),
        linked=zeros(slots if count else 0, np.bool_),
        scale=zeros((slots, count)),
        place=np.array([policy.members.index(attribute.name) for attribute in attributes], np.int64),
        step=np.array(steps),
        parts=parts,
        whole=whole,
        lower=lower,
        upper=upper,
        first=first,
        last=last,
        domain=upper - lower,
        least=(upper - lower) * (0.0 if noise is None else noise.least),
        epsilon=np.array(() if noise is None else noise.of(count), np.float64),
        span=np.zeros((2, count)),
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


def let_in(noise: Within, slots: NDArray[np.int32], members: pa.RecordBatch) -> None:
    """Note the noised values of tuples in some slots; ``members`` has the columns of ``Policy.members``."""
    for a, place in enumerate(noise.place.tolist()):
        noise.value[slots, a] = members.column(place).to_numpy(zero_copy_only=False)


def with_slots(noise: Within, slots: int) -> Within:
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


@leaf
def linking_range(scale: float, beyond: float) -> float:
    """The least whole number r with P(|noise| > r) <= ``beyond``, for discrete Laplace noise of a scale in steps.

    For a scale of many steps this is the paper's -b ln(1 - c), ``beyond`` being 1 - c (Section V-C).
    """
    if scale <= 0.0:
        return 0.0
    ratio = np.exp(-1.0 / scale)
    return max(np.ceil(scale * np.log(2.0 / (beyond * (1.0 + ratio))) - 1.0 - 1e-9), 0.0)


@leaf
def span(noise: Within, members: Slots) -> None:
    """Let ``Within.span`` be that of some tuples."""
    for a in range(noise.value.shape[1]):
        noise.span[0, a], noise.span[1, a] = np.inf, -np.inf
        for member in members:
            noise.span[0, a] = min(noise.span[0, a], noise.value[member, a])
            noise.span[1, a] = max(noise.span[1, a], noise.value[member, a])


@leaf
def widen(noise: Within, known: NDArray[np.float64], member: Int) -> None:
    """Let ``Within.span`` be a class's, ``known`` (2, noised), with one tuple more."""
    for a in range(noise.value.shape[1]):
        noise.span[0, a] = min(known[0, a], noise.value[member, a])
        noise.span[1, a] = max(known[1, a], noise.value[member, a])


@leaf
def span_domain(noise: Within) -> None:
    """Let ``Within.span`` be the declared domains: of who is published among nobody."""
    for a in range(noise.value.shape[1]):
        noise.span[0, a], noise.span[1, a] = noise.lower[a], noise.upper[a]


@leaf
def scale_of(noise: Within, attribute: Int) -> float:
    """The Laplace scale of an attribute, in its own unit, for a class that has ``Within.span``."""
    width = noise.domain[attribute]
    if noise.of.by_domain == 0:
        width = max(noise.span[1, attribute] - noise.span[0, attribute], noise.least[attribute])
    return float(width / noise.epsilon[attribute])


@leaf
def note_scale(noise: Within, release: Int) -> None:
    """Write the scales of a class that has ``Within.span`` to its release of this step, by number."""
    for a in range(noise.scale.shape[1]):
        noise.scale[release, a] = scale_of(noise, np.int64(a))


@procedure
def add_noise(noise: Within, stream: Any, members: Slots) -> None:
    """Draw what is published of some tuples of a class that has ``Within.span``, once for each."""
    for member in members:
        for a in range(noise.value.shape[1]):
            numerator, denominator = fraction(scale_of(noise, np.int64(a)) / noise.step[a])
            position = np.int64(np.rint(noise.value[member, a] / noise.step[a]))
            found = moved(stream, position, numerator, denominator, noise.first[a], noise.last[a])
            shown = found * noise.parts[a] / noise.whole[a]
            noise.shown[member, a] = min(max(shown, noise.lower[a]), noise.upper[a])


@procedure
def settle(
    noise: Within, out: Out, totals: Totals, stream: Any, subject: NDArray[np.uint64], start: Int, stop: Int
) -> Int:
    """Add noise to the members of the next release, and withhold those of whom it shows too much.

    Parameters
    ----------
    subject : (slots,) keyed hashes
    start, stop : where the members stand in ``out.members``

    Returns
    -------
    stop : where those that stay end; they keep their order
    """
    members = out.members[start:stop]
    span(noise, members)
    note_scale(noise, out.filled.releases)
    add_noise(noise, stream, members)
    for member in members:
        noise.linked[member] = _nearest_is_own(noise, np.int64(member), members)
    if noise.of.subjects == 0:
        return stop
    lonely = np.empty(len(members), np.bool_)
    for i in range(len(members)):
        lonely[i] = 0 < _near(noise, np.int64(members[i]), members, subject) < noise.of.subjects
    kept = start
    for i in range(len(lonely)):
        slot = out.members[start + i]
        if lonely[i]:
            withhold(out, totals, np.int64(slot), noise.of.reason)
        else:
            out.members[kept] = slot
            kept += 1
    return kept


@leaf
def count_linked(noise: Within, out: Out, totals: Totals, start: Int, stop: Int) -> None:
    """Count those members of the next release whose nearest original is their own."""
    for i in range(start, stop):
        totals.sums.linked += noise.linked[out.members[i]]


@leaf
def withhold_all(noise: Within, out: Out, totals: Totals, start: Int, stop: Int) -> None:
    """Withhold what is left of a class that cannot keep its promises without those that were withheld."""
    for i in range(start, stop):
        withhold(out, totals, np.int64(out.members[i]), noise.of.reason)


@procedure
def _near(noise: Within, member: Int, members: Slots, subject: NDArray[np.uint64]) -> Int:
    # How many subjects lie within the linking range of what is published of a tuple; not counted beyond the wanted.
    enough = noise.of.subjects
    seen = np.empty(enough, np.uint64)
    reach = np.empty(noise.value.shape[1], np.float64)
    for a in range(len(reach)):
        steps = linking_range(scale_of(noise, np.int64(a)) / noise.step[a], noise.of.beyond)
        reach[a] = (steps + 1e-6) * noise.step[a]
    found = np.int64(0)
    for other in members:
        inside = True
        for a in range(len(reach)):
            inside &= abs(noise.value[other, a] - noise.shown[member, a]) <= reach[a]
        known = not inside
        for i in range(found if noise.of.by_name != 0 else 0):
            known |= seen[i] == subject[other]
        if not known:
            seen[found] = subject[other]
            found += 1
            if found == enough:
                break
    return found


@leaf
def _nearest_is_own(noise: Within, member: Int, members: Slots) -> bool:
    # Over several attributes distances are added up, each relative to its domain.
    own = _apart(noise, member, member)
    for other in members:
        if _apart(noise, np.int64(other), member) < own:
            return False
    return True


@leaf
def _apart(noise: Within, original: Int, published: Int) -> float:
    total = 0.0
    for a in range(noise.value.shape[1]):
        total += abs(noise.value[original, a] - noise.shown[published, a]) / noise.domain[a]
    return total
