"""Prototype of nearest with alternative rules; for experiments only.

Each member search visits all buffered tuples. Without reuse the default rule has exactly the loss of
``crenel.anonymity.algorithms.nearest``. All compiled functions are in this module, because the key of compiled code
covers a module of this folder and no import between two of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.compiled.arrays import record
from crenel.anonymity.compiled.jit import Int, entry, leaf, procedure
from crenel.anonymity.compiled.random import RandomStream, randbelow, random_stream
from crenel.anonymity.space.boxes import assign, contains, enclose, enlargement, info_loss
from crenel.anonymity.space.domain import NONE, Boxes, Domain, boxes, domain, node_offsets
from experiments.harness import Stream

RING = 100
"""Number of recent releases in the mean loss tau."""

REUSED, SUPPRESSED = -2, -3
"""``Search.release`` of tuples without a group."""

GROUP, TRIED, BEST = 0, 1, 2
"""Rows of ``Search.box``."""

_SHRINKAGE = 0.9
"""Share of its radius that a tuple keeps at least when a nearer neighbor arrives."""

_FEWEST = 100
"""Minimum number of tuples of the lowest cost from which a group is chosen."""

_KINDS = 64
"""Number of kinds of tuples that a learned price tells apart."""

_LEARNING = 0.05
"""Weight of the latest group in the learned cost of its kind."""

_STEADY = 20
"""Number of releases before the first early one, which needs the losses of others."""


@dataclass(frozen=True)
class Rule:
    """Parameters of the rules; the defaults of all but the first four give the rule of nearest.

    Attributes
    ----------
    k, l, delay, reuse_limit : as in ``nearest``; one sensitive attribute, and a delay in tuples
    reuse_factor : factor of k - 1 in the rule of reuse
    keep_threshold : maximum loss of a generalization that is kept for reuse, in multiples of tau
    random_moment : reuse is tried once, at a random moment of the delay, instead of at its end
    lookahead : number of tuples next due, of which the one with the best group is released first
    worst_first : the one with the worst group is released first
    early_share : the group of a new tuple is released if its loss is in this share of the best recent ones
    initial_members : number of groups with different first members, of which the best is chosen
    exchange : members are exchanged for other tuples while that lowers the loss
    spare_members : number of additional members, of which the most expensive are dropped
    age_cost : cost of a new tuple as a member, in multiples of tau / k; falls to 0 when it is due
    age_weight : additional weight of the enlargement by a new tuple; falls in the same way
    price : bonus of a member at the end of its delay, in multiples of its radius; 0 on arrival
    neighbors : number of nearest tuples of other subjects that give a tuple its radius
    sample : number of the most recent buffered tuples among which neighbors are sought; 0: all
    sample_share : number of buffered tuples for each tuple of a larger sample, in which fewer neighbors count; 0: none
    updates : a radius shrinks as nearer tuples arrive
    candidates : number of tuples nearest to the due one from which its group is chosen, in multiples of k; 0: all
    priced : number of tuples of the highest price that are candidates as well
    cheapest : number of tuples of the lowest cost beside the due one from which its group is chosen, in multiples of k
        and ``_FEWEST`` at least; 0: all
    learned : the radius of the price is replaced by a moving mean of what groups of due tuples of the same kind lost
        above tau; 1: by region of the attributes, 2: by radius
    beam : number of partial groups that a beam search keeps
    parts : number of arrivals after which all buffered tuples are partitioned; a due tuple takes its part; 0: never
    isolation_bonus : bonus of a member with a high loss of its own, in multiples of that loss / k
    include_contained : tuples within the box whose remaining share of the delay is at most this join the release
    include_if_good : the same, only with groups whose loss is below tau
    """

    k: int
    l: int = 1  # noqa: E741
    delay: int = 1000
    reuse_limit: int = 1000
    reuse_factor: float = 1.0
    keep_threshold: float = np.inf
    random_moment: bool = False
    lookahead: int = 0
    worst_first: bool = False
    early_share: float = 0.0
    initial_members: int = 1
    exchange: bool = False
    spare_members: int = 0
    age_cost: float = 0.0
    age_weight: float = 0.0
    price: float = 0.0
    neighbors: int = 8
    sample: int = 0
    sample_share: int = 0
    updates: bool = True
    candidates: int = 0
    priced: int = 0
    cheapest: int = 0
    learned: int = 0
    beam: int = 1
    parts: int = 0
    isolation_bonus: float = 0.0
    include_contained: float = 0.0
    include_if_good: bool = False


class Search(NamedTuple):
    """State of one run: the stream, buffered tuples, the chosen group, and releases.

    Attributes
    ----------
    rule, now : numbers of the rule, and of the run
    points : (tuples,) the stream
    subject, value : (tuples,) number of the person, and of the sensitive value
    waits, place : (tuples,) the ``now.waiting`` buffered tuples; index of each tuple there, ``NONE`` after its release
    first, following : (tuples + delay + 1,), (tuples,) chains of the tuples that try reuse at each moment
    group, best : (tuples,) members of the group, and of the best so far
    chosen : (tuples,) whether it is in the group
    candidate : (tuples,) whether the group is chosen from it, of the buffered tuples
    radius : (tuples,) distance to the nearest tuples of other subjects on arrival; shrinks as nearer ones arrive
    region, cost_of : (tuples,), (kinds,) region of each tuple; learned cost of each kind
    beams, beam_box, beam_cost, beam_mark : (2 beam, k) members of partial groups, before and after a step; their
        boxes, costs, and sums of marks, which are equal for equal groups
    part, items, order, keys : (tuples,) part of each buffered tuple; scratch
    part_box : (2,) scratch
    near, near_tuple : (neighbors,) smallest distances of a new tuple, ascending, and the tuples
    own, bias, weight : (tuples,) loss of its own group on arrival; cost as a member; weight of its enlargement
    box : (3,) of the group, a candidate, and the best
    omega, omega_loss, matches : (reuse_limit,) generalizations kept for reuse; scratch
    release, waited : (tuples,) number of its release; number of later tuples until then
    ring : (100,) losses of recent releases
    random : random stream of reuse
    """

    rule: Any
    now: Any
    domain: Domain
    points: Boxes
    subject: NDArray[np.int64]
    value: NDArray[np.int64]
    waits: NDArray[np.int64]
    place: NDArray[np.int64]
    first: NDArray[np.int64]
    following: NDArray[np.int64]
    group: NDArray[np.int64]
    best: NDArray[np.int64]
    chosen: NDArray[np.bool_]
    candidate: NDArray[np.bool_]
    radius: NDArray[np.float64]
    region: NDArray[np.int64]
    cost_of: NDArray[np.float64]
    beams: NDArray[np.int64]
    beam_box: Boxes
    beam_cost: NDArray[np.float64]
    beam_mark: NDArray[np.int64]
    part: NDArray[np.int64]
    items: NDArray[np.int64]
    order: NDArray[np.int64]
    keys: NDArray[np.float64]
    part_box: Boxes
    near: NDArray[np.float64]
    near_tuple: NDArray[np.int64]
    own: NDArray[np.float64]
    bias: NDArray[np.float64]
    weight: NDArray[np.float64]
    box: Boxes
    omega: Boxes
    omega_loss: NDArray[np.float64]
    matches: NDArray[np.int64]
    release: NDArray[np.int64]
    waited: NDArray[np.int64]
    ring: NDArray[np.float64]
    random: RandomStream


def prepare(tuples: Stream, rule: Rule, seed: int) -> Search:
    """Return the state before the first tuple; all attributes need a domain."""
    n, policy = len(tuples), tuples.policy
    now = record(
        "newest waiting oldest omega_used omega_next ring_used ring_next releases released reused suppressed",
        "tau loss",
    )
    named = asdict(rule)
    of = record(
        " ".join(name for name, given in named.items() if not isinstance(given, float)),
        " ".join(name for name, given in named.items() if isinstance(given, float)),
    )
    for name, given in named.items():
        setattr(of, name, given)
    subject = np.arange(n) if tuples.subject is None else np.unique(tuples.subject, return_inverse=True)[1]
    random = random_stream(bytes([seed]) * 32)
    moments = np.random.default_rng(seed).integers(0, rule.delay + 1, n) + np.arange(n)
    made = Search(
        rule=of,
        now=now,
        domain=domain(policy),
        points=Boxes(tuples.numeric, tuples.numeric, tuples.categorical + node_offsets(policy)),
        subject=subject.astype(np.int64),
        value=np.unique(tuples.sensitive[:, 0], return_inverse=True)[1].astype(np.int64),
        waits=np.zeros(n, np.int64),
        place=np.full(n, NONE),
        first=np.full(n + rule.delay + 1, NONE),
        following=np.full(n, NONE),
        group=np.zeros(n, np.int64),
        best=np.zeros(n, np.int64),
        chosen=np.zeros(n, np.bool_),
        candidate=np.zeros(n, np.bool_),
        radius=np.ones(n),
        region=regions(tuples) if rule.learned == 1 else np.zeros(n, np.int64),
        cost_of=np.zeros(_KINDS),
        beams=np.zeros((2 * rule.beam, rule.k), np.int64),
        beam_box=boxes(2 * rule.beam, policy),
        beam_cost=np.zeros(2 * rule.beam),
        beam_mark=np.zeros(2 * rule.beam, np.int64),
        part=np.full(n, NONE),
        items=np.zeros(n, np.int64),
        order=np.zeros(n, np.int64),
        keys=np.zeros(n),
        part_box=boxes(2, policy),
        near=np.zeros(rule.neighbors),
        near_tuple=np.zeros(rule.neighbors, np.int64),
        own=np.zeros(n),
        bias=np.zeros(n),
        weight=np.ones(n),
        box=boxes(3, policy),
        omega=boxes(rule.reuse_limit, policy),
        omega_loss=np.zeros(rule.reuse_limit),
        matches=np.zeros(rule.reuse_limit, np.int64),
        release=np.full(n, NONE),
        waited=np.zeros(n, np.int64),
        ring=np.zeros(RING),
        random=random,
    )
    if rule.random_moment:
        for i, moment in enumerate(moments.tolist()):
            made.following[i], made.first[moment] = made.first[moment], i
    return made


def regions(tuples: Stream) -> NDArray[np.int64]:
    """Return the region of each tuple, by median cuts of the first tuples at their most diverse attribute."""
    values = np.column_stack([tuples.numeric, tuples.categorical])
    first, region = values[:1000], np.zeros(len(values), np.int64)
    for _ in range(_KINDS.bit_length() - 1):
        before = region.copy()
        for one in np.unique(before):
            held = first[before[: len(first)] == one]
            a = int(np.argmax([len(np.unique(column)) for column in held.T])) if len(held) else 0
            cut = np.median(held[:, a]) if len(held) else 0.0
            region[before == one] = 2 * one + (values[before == one, a] > cut)
    return region


@dataclass(frozen=True)
class Result:
    """Mean loss of released tuples; shares of all tuples that were suppressed, and in singleton releases."""

    loss: float
    suppressed: float
    reused: float


def run(tuples: Stream, rule: Rule, seed: int = 0) -> Result:
    """Process a whole stream by a rule; all attributes need a domain."""
    made = prepare(tuples, rule, seed)
    process(made)
    now, n = made.now, len(tuples)
    return Result(now.loss / max(now.released, 1), now.suppressed / n, now.reused / n)


@entry
def process(search: Search) -> None:
    """Process all tuples, to the end."""
    now, rule, n = search.now, search.rule, len(search.subject)
    for t in range(n):
        now.newest = t
        search.waits[now.waiting], search.place[t] = t, now.waiting
        now.waiting += 1
        if rule.price > 0.0:
            measure_radius(search, np.int64(t))
        if rule.parts > 0 and t % rule.parts == 0:
            partition(search)
        if rule.isolation_bonus > 0.0:
            search.own[t] = now.tau
            if choose(search, np.int64(t)) > 0:
                search.own[t] = info_loss(search.domain, search.box, np.int64(GROUP))
        if rule.early_share > 0.0:
            release_early(search, np.int64(t))
        one = search.first[t]
        while one != NONE:
            if search.place[one] != NONE:
                try_reuse(search, np.int64(one), choose(search, np.int64(one)))
            one = search.following[one]
        while oldest(search) <= t - rule.delay:
            release_due(search, oldest(search))
    while now.waiting > 0:
        release_due(search, oldest(search))


@leaf
def measure_radius(search: Search, t: Int) -> None:
    """Set the radius of a new tuple, 1 before it has enough neighbors, and lower those of its neighbors."""
    near, near_tuple, sample, neighbors = search.near, search.near_tuple, search.rule.sample, search.rule.neighbors
    if 0 < sample * search.rule.sample_share < search.now.waiting:
        larger = search.now.waiting // search.rule.sample_share
        sample, neighbors = larger, max(np.int64(neighbors * sample / larger + 0.5), 1)
    last = neighbors - 1
    near[:], near_tuple[:] = np.inf, NONE
    seen = 0
    for back in range(1, search.rule.delay + 1):
        other = t - back
        if other < 0 or (sample > 0 and seen == sample):
            break
        if search.place[other] == NONE or search.subject[other] == search.subject[t]:
            continue
        seen += 1
        distance, place = enlargement(search.domain, search.points, t, search.points, other, np.inf), last
        if distance > near[last] or (distance == near[last] and other > near_tuple[last]):
            continue
        while place > 0 and (
            distance < near[place - 1] or (distance == near[place - 1] and other < near_tuple[place - 1])
        ):
            near[place], near_tuple[place] = near[place - 1], near_tuple[place - 1]
            place -= 1
        near[place], near_tuple[place] = distance, other
    search.radius[t] = min(near[last], 1.0)
    for i in range(neighbors):
        if near_tuple[i] != NONE and search.rule.updates != 0:
            shrunk = max(near[i], _SHRINKAGE * search.radius[near_tuple[i]])
            search.radius[near_tuple[i]] = min(shrunk, search.radius[near_tuple[i]])


@leaf
def oldest(search: Search) -> Int:
    """Return the buffered tuple with the earliest deadline; without any, a tuple that has not arrived."""
    now = search.now
    while now.oldest <= now.newest and search.place[now.oldest] == NONE:
        now.oldest += 1
    return np.int64(now.oldest)


@procedure
def release_early(search: Search, t: Int) -> None:
    """Release the group around a new tuple, if it is one of the best."""
    now, rule = search.now, search.rule
    members = choose(search, t)
    if members == 0 or now.ring_used < _STEADY:
        return
    loss, better = info_loss(search.domain, search.box, np.int64(GROUP)), 0
    for i in range(now.ring_used):
        better += search.ring[i] < loss
    if better < rule.early_share * now.ring_used:
        release(search, members)


@procedure
def release_due(search: Search, due: Int) -> None:
    """Release or suppress the tuple that is due, and earlier others by the rule."""
    rule = search.rule
    while rule.lookahead > 0:
        chosen = next_to_release(search, due)
        if chosen == due:
            break
        release(search, choose(search, chosen))
        if search.place[due] == NONE:
            return
    members = whole_part(search, due) if rule.parts > 0 else np.int64(0)
    if members == 0:
        members = choose(search, due)
    if rule.learned != 0 and members > 0:
        kind, excess = kind_of(search, due), info_loss(search.domain, search.box, np.int64(GROUP)) - search.now.tau
        search.cost_of[kind] += _LEARNING * (max(excess, 0.0) - search.cost_of[kind])
    if (rule.random_moment == 0 or members == 0) and try_reuse(search, due, members):
        return
    if members > 0:
        release(search, members)
    else:
        search.now.suppressed += 1
        remove(search, due, SUPPRESSED)


@procedure
def next_to_release(search: Search, due: Int) -> Int:
    """Return the tuple to release first, of those next due."""
    rule, most, first = search.rule, -np.inf, due
    for t in range(due, min(due + rule.lookahead + 1, search.now.newest + 1)):
        if search.place[t] != NONE and choose(search, np.int64(t)) > 0:
            loss = info_loss(search.domain, search.box, np.int64(GROUP))
            if (loss if rule.worst_first else -loss) > most:
                most, first = loss if rule.worst_first else -loss, np.int64(t)
    return first


@procedure
def try_reuse(search: Search, t: Int, members: Int) -> bool:
    """Release a tuple under an earlier generalization, drawn at random, if that is better than its group.

    Parameters
    ----------
    members : size of its group; 0: no group
    """
    now, rule, matches = search.now, search.rule, search.matches
    found = 0
    for row in range(now.omega_used):
        if contains(search.domain, search.omega, np.int64(row), search.points, t):
            matches[found] = row
            found += 1
    if found == 0:
        return False
    loss = search.omega_loss[matches[randbelow(search.random, found)]]
    if members > 0:
        group = info_loss(search.domain, search.box, np.int64(GROUP))
        if loss > group + rule.reuse_factor * (rule.k - 1) * max(group - now.tau, 0.0):
            return False
    now.loss += loss
    now.released += 1
    now.reused += 1
    remove(search, t, REUSED)
    return True


@leaf
def remove(search: Search, t: Int, release: Int) -> None:
    """Remove a tuple from the buffered ones."""
    now, place = search.now, search.place[t]
    now.waiting -= 1
    last = search.waits[now.waiting]
    search.waits[place], search.place[last], search.place[t] = last, place, NONE
    search.release[t], search.waited[t] = release, now.newest - t


@leaf
def release(search: Search, members: Int) -> None:
    """Release the group, with contained tuples by the rule."""
    now, rule, box, group = search.now, search.rule, search.box, search.group
    loss = info_loss(search.domain, box, np.int64(GROUP))
    if rule.include_contained > 0.0 and (rule.include_if_good == 0 or loss < now.tau):
        for i in range(now.waiting):
            t = search.waits[i]
            if remaining_delay(search, t) <= rule.include_contained and not has_subject(search, members, t):
                if contains(search.domain, box, np.int64(GROUP), search.points, t):
                    group[members] = t
                    members += 1
    for i in range(members):
        remove(search, group[i], now.releases)
    now.releases += 1
    now.loss += loss * members
    now.released += members
    search.ring[now.ring_next] = loss
    now.ring_next = (now.ring_next + 1) % RING
    now.ring_used = min(now.ring_used + 1, RING)
    total = 0.0
    for i in range(now.ring_used):
        total += search.ring[i]
    now.tau = total / now.ring_used
    if len(search.omega_loss) > 0 and loss <= rule.keep_threshold * now.tau:
        assign(search.omega, now.omega_next, box, np.int64(GROUP))
        search.omega_loss[now.omega_next] = loss
        now.omega_next = (now.omega_next + 1) % len(search.omega_loss)
        now.omega_used = min(now.omega_used + 1, len(search.omega_loss))


@procedure
def choose(search: Search, t: Int) -> Int:
    """Choose a group around a tuple, in ``group`` and ``box``; return its size, 0 without a group."""
    now, rule = search.now, search.rule
    if rule.age_cost > 0.0 or rule.age_weight > 0.0 or rule.isolation_bonus > 0.0 or rule.price > 0.0:
        for i in range(now.waiting):
            other = search.waits[i]
            left = remaining_delay(search, other)
            search.bias[other] = (rule.age_cost * now.tau * left - rule.isolation_bonus * search.own[other]) / rule.k
            lonely = search.radius[other] if rule.learned == 0 else search.cost_of[kind_of(search, other)]
            search.bias[other] -= rule.price * lonely * (1.0 - left)
            search.weight[other] = 1.0 + rule.age_weight * left
    if rule.candidates > 0:
        find_candidates(search, t)
    if rule.cheapest > 0:
        find_cheapest(search, t)
    members: Int = search_beam(search, t) if rule.beam > 1 else np.int64(0)
    if members > 0:
        return members
    if rule.initial_members == 1:
        return refine(search, grow(search, t, 0))
    least = np.inf
    for start in range(rule.initial_members):
        found = refine(search, grow(search, t, np.int64(start)))
        if found > 0 and cost(search, np.int64(GROUP), found) < least:
            least, members = cost(search, np.int64(GROUP), found), found
            search.best[:found] = search.group[:found]
            assign(search.box, np.int64(BEST), search.box, np.int64(GROUP))
    search.group[:members] = search.best[:members]
    assign(search.box, np.int64(GROUP), search.box, np.int64(BEST))
    return members


@leaf
def kind_of(search: Search, t: Int) -> Int:
    """Return the kind of a tuple, of which the price is learned."""
    if search.rule.learned == 1:
        return np.int64(search.region[t])
    return np.int64(min(-4.0 * np.log2(max(search.radius[t], 1e-6)), _KINDS - 1.0))


@procedure
def search_beam(search: Search, t: Int) -> Int:
    """Choose a group around a tuple by beam search; return its size, 0 if none is found."""
    rule, wide, held = search.rule, search.rule.beam, np.int64(1)
    beams, box, costs, mark = search.beams, search.beam_box, search.beam_cost, search.beam_mark
    beams[0, 0], costs[0], mark[0] = t, 0.0, 0
    assign(box, np.int64(0), search.points, t)
    for members in range(1, rule.k):
        made = np.int64(0)
        for i in range(held):
            search.group[:members] = beams[i, :members]
            for j in range(members):
                search.chosen[beams[i, j]] = True
            found = np.int64(0)
            assign(search.box, np.int64(TRIED), box, np.int64(i))
            brings = rule.l - count_values(search, np.int64(members), NONE) >= rule.k - members
            while found < wide:
                other = nearest(search, np.int64(TRIED), np.int64(members), brings, rule.cheapest > 0)
                if other == NONE:
                    break
                search.best[len(search.best) - 1 - found] = other
                search.chosen[other] = True
                found += 1
            for j in range(members):
                search.chosen[beams[i, j]] = False
            for j in range(found):
                other = search.best[len(search.best) - 1 - j]
                search.chosen[other] = False
                growth = enlargement(search.domain, box, np.int64(i), search.points, other, np.inf)
                total = costs[i] + search.weight[other] * growth + search.bias[other]
                made = np.int64(keep_partial(search, np.int64(i), np.int64(members), other, total, made))
        if made == 0:
            return np.int64(0)
        held = made
        for i in range(held):
            beams[i], costs[i], mark[i] = beams[wide + i], costs[wide + i], mark[wide + i]
            assign(box, np.int64(i), box, np.int64(wide + i))
    best = np.int64(np.argmin(costs[:held]))
    search.group[: rule.k] = beams[best]
    assign(search.box, np.int64(GROUP), box, best)
    return np.int64(rule.k) if count_values(search, np.int64(rule.k), NONE) >= rule.l else np.int64(0)


@procedure
def keep_partial(search: Search, i: Int, members: Int, other: Int, total: float, made: Int) -> Int:
    """Keep a partial group with one more tuple, if it is one of the cheapest; return the number kept."""
    wide, beams, box, costs, mark = search.rule.beam, search.beams, search.beam_box, search.beam_cost, search.beam_mark
    own = mark[i] + (other + 1) * (other + 1) * 2654435761
    place = wide + made
    for j in range(wide, wide + made):
        if mark[j] == own:
            place = j
    if place == wide + made and made == wide:
        place = wide + np.argmax(costs[wide:])
    if place < wide + made and costs[place] <= total:
        return made
    beams[place, :members] = beams[i, :members]
    beams[place, members], costs[place], mark[place] = other, total, own
    assign(box, np.int64(place), box, i)
    enclose(search.domain, box, np.int64(place), search.points, other)
    return made + 1 if place == wide + made else made


@procedure
def partition(search: Search) -> None:
    """Cut all buffered tuples at medians into parts of at least k, each time where the loss of the halves is least."""
    count, items = np.int64(search.now.waiting), search.items
    items[:count] = search.waits[:count]
    pending = np.zeros((count + 1, 2), np.int64)
    pending[0, 1], waiting = count, 1
    while waiting > 0:
        waiting -= 1
        first, stop = pending[waiting]
        middle = halve(search, first, stop) if stop - first >= 2 * search.rule.k else np.int64(NONE)
        if middle == NONE:
            for i in range(first, stop):
                search.part[items[i]] = items[first]
        else:
            pending[waiting, 0], pending[waiting, 1] = first, middle
            pending[waiting + 1, 0], pending[waiting + 1, 1] = middle, stop
            waiting += 2


@procedure
def halve(search: Search, first: Int, stop: Int) -> Int:
    """Order tuples along the attribute whose median cut loses least; return the cut, ``NONE`` if none gains."""
    items, count, middle = search.items, stop - first, (stop - first) // 2
    points, low = search.points, np.int64(0)
    numeric = points.lower.shape[1]
    whole = loss_of(search, items, first, stop) * count
    least, chosen = whole, np.int64(NONE)
    for a in range(numeric + points.node.shape[1]):
        sort_by(search, first, stop, np.int64(a))
        total = loss_of(search, search.order, low, middle) * middle
        total += loss_of(search, search.order, middle, count) * (count - middle)
        if total < least:
            least, chosen = total, np.int64(a)
    if chosen == NONE:
        return np.int64(NONE)
    sort_by(search, first, stop, chosen)
    items[first:stop] = search.order[:count]
    return first + middle


@procedure
def sort_by(search: Search, first: Int, stop: Int, a: Int) -> None:
    """Write some of ``items`` into ``order``, by one attribute, numeric ones first."""
    items, points = search.items, search.points
    numeric = points.lower.shape[1]
    for i in range(first, stop):
        t = items[i]
        search.keys[i - first] = points.lower[t, a] if a < numeric else points.node[t, a - numeric]
    sorted_by = np.argsort(search.keys[: stop - first], kind="mergesort")
    for i in range(stop - first):
        search.order[i] = items[first + sorted_by[i]]


@leaf
def loss_of(search: Search, items: NDArray[np.int64], first: Int, stop: Int) -> float:
    """Return the loss of the box around some tuples."""
    assign(search.part_box, np.int64(0), search.points, items[first])
    for i in range(first + 1, stop):
        enclose(search.domain, search.part_box, np.int64(0), search.points, items[i])
    return info_loss(search.domain, search.part_box, np.int64(0))


@leaf
def whole_part(search: Search, due: Int) -> Int:
    """Make the group of all that is left of a due tuple's part; return its size, 0 if it is no longer releasable."""
    members = np.int64(1)
    search.group[0] = due
    assign(search.box, np.int64(GROUP), search.points, due)
    if search.part[due] == NONE:
        return np.int64(0)
    for i in range(search.now.waiting):
        t = search.waits[i]
        if t != due and search.part[t] == search.part[due] and not has_subject(search, members, t):
            search.group[members] = t
            members += 1
            enclose(search.domain, search.box, np.int64(GROUP), search.points, t)
    return members if members >= search.rule.k and count_values(search, members, NONE) >= search.rule.l else np.int64(0)


@procedure
def find_candidates(search: Search, t: Int) -> None:
    """Mark the tuples nearest to a due one, and those of the highest price; all of equal distance or price."""
    rule, count = search.rule, np.int64(search.now.waiting)
    distances, prices = np.empty(count), np.empty(count)
    for i in range(count):
        other = search.waits[i]
        distances[i] = enlargement(search.domain, search.points, t, search.points, other, np.inf)
        prices[i] = search.radius[other] * (1.0 - remaining_delay(search, other))
    farthest = np.sort(distances)[min(rule.candidates * rule.k, count) - 1]
    lowest = np.sort(prices)[count - min(rule.priced, count)] if rule.priced > 0 else np.inf
    for i in range(count):
        search.candidate[search.waits[i]] = distances[i] <= farthest or prices[i] >= lowest


@procedure
def find_cheapest(search: Search, t: Int) -> None:
    """Mark the tuples of the lowest cost beside a due one; all of equal cost."""
    rule, count = search.rule, np.int64(search.now.waiting)
    costs = np.empty(count)
    for i in range(count):
        other = search.waits[i]
        growth = enlargement(search.domain, search.points, t, search.points, other, np.inf)
        costs[i] = search.weight[other] * growth + search.bias[other]
    highest = np.sort(costs)[min(max(rule.cheapest * rule.k, _FEWEST), count) - 1]
    for i in range(count):
        search.candidate[search.waits[i]] = costs[i] <= highest


@leaf
def cost(search: Search, row: Int, members: Int) -> float:
    """Return the loss of a group and the cost of its members."""
    total = info_loss(search.domain, search.box, row)
    for i in range(members):
        total += search.bias[search.group[i]]
    return total


@leaf
def grow(search: Search, t: Int, start: Int) -> Int:
    """Grow a group around a tuple, from the member with rank ``start`` among the nearest."""
    rule, group, chosen = search.rule, search.group, search.chosen
    assign(search.box, np.int64(GROUP), search.points, t)
    group[0] = t
    chosen[t] = True
    members, size, passed = 1, rule.k + rule.spare_members, 0
    while members < size:
        brings = rule.l - count_values(search, members, NONE) >= rule.k - members
        found = nearest(search, np.int64(GROUP), members, brings, rule.candidates > 0 or rule.cheapest > 0)
        if found == NONE and (rule.candidates > 0 or rule.cheapest > 0):
            found = nearest(search, np.int64(GROUP), members, brings, False)
        if found == NONE:
            break
        if members == 1 and passed < start:
            search.best[len(search.best) - 1 - passed] = found
            chosen[found] = True
            passed += 1
            continue
        group[members] = found
        chosen[found] = True
        members += 1
        enclose(search.domain, search.box, np.int64(GROUP), search.points, found)
    for i in range(members):
        chosen[group[i]] = False
    for i in range(passed):
        chosen[search.best[len(search.best) - 1 - i]] = False
    return np.int64(members) if members >= rule.k and count_values(search, members, NONE) >= rule.l else np.int64(0)


@leaf
def count_values(search: Search, members: Int, without: Int) -> Int:
    """Return the number of sensitive values of the group, ``without`` one index."""
    found = np.int64(0)
    if search.rule.l == 1:
        return np.int64(1)
    for i in range(members):
        new = i != without
        for j in range(i):
            new &= j == without or search.value[search.group[i]] != search.value[search.group[j]]
        found += new
    return found


@leaf
def nearest(search: Search, row: Int, members: Int, brings: bool, candidates: bool) -> Int:
    """Return the tuple of another subject with the cheapest enlargement.

    Parameters
    ----------
    brings : it has another value
    candidates : it is a candidate
    """
    least, found = np.inf, np.int64(NONE)
    for i in range(search.now.waiting):
        t = search.waits[i]
        if search.chosen[t] or (candidates and not search.candidate[t]):
            continue
        bias, weight = search.bias[t], search.weight[t]
        growth = enlargement(search.domain, search.box, row, search.points, t, (least - bias) / weight) * weight + bias
        if growth > least or (growth == least and t > found) or has_subject(search, members, t):
            continue
        if brings and search.rule.l > 1:
            new = True
            for j in range(members):
                new &= search.value[search.group[j]] != search.value[t]
            if not new:
                continue
        least, found = growth, t
    return found


@leaf
def enclose_without(search: Search, members: Int, place: Int) -> None:
    """Set the candidate box to that of the group without one index."""
    assign(search.box, np.int64(TRIED), search.points, search.group[0])
    for i in range(1, members):
        if i != place:
            enclose(search.domain, search.box, np.int64(TRIED), search.points, search.group[i])


@leaf
def refine(search: Search, members: Int) -> Int:
    """Drop spare members, the most expensive first; exchange members while that lowers the cost."""
    rule, group = search.rule, search.group
    while members > rule.k:
        least, dropped = np.inf, np.int64(NONE)
        for place in range(1, members):
            enclose_without(search, members, place)
            total = info_loss(search.domain, search.box, np.int64(TRIED)) - search.bias[group[place]]
            if total < least and count_values(search, members, place) >= rule.l:
                least, dropped = total, np.int64(place)
        group[dropped] = group[members - 1]
        members -= 1
        enclose_without(search, members, np.int64(NONE))
        assign(search.box, np.int64(GROUP), search.box, np.int64(TRIED))
    while rule.exchange != 0 and members > 1:
        if not try_exchange(search, members):
            break
    return members


@leaf
def try_exchange(search: Search, members: Int) -> bool:
    """Exchange one member for another tuple where that lowers the cost most; return whether it does."""
    group, chosen = search.group, search.chosen
    leaves: Int = np.int64(NONE)
    comes: Int = np.int64(NONE)
    least = cost(search, np.int64(GROUP), members) - 1e-9
    for i in range(members):
        chosen[group[i]] = True
    for place in range(1, members):
        # The last member is exchanged; another tuple of its subject may replace it.
        member = group[place]
        group[place] = group[members - 1]
        group[members - 1] = member
        enclose_without(search, members - 1, np.int64(NONE))
        brings = count_values(search, members - 1, NONE) < search.rule.l
        other = nearest(search, np.int64(TRIED), members - 1, brings, False)
        if other != NONE:
            enclose(search.domain, search.box, np.int64(TRIED), search.points, other)
            total = cost(search, np.int64(TRIED), members - 1) + search.bias[other]
            if total < least:
                least, leaves, comes = total, np.int64(place), other
        group[members - 1] = group[place]
        group[place] = member
    for i in range(members):
        chosen[group[i]] = False
    if leaves == NONE:
        return False
    group[leaves] = comes
    enclose_without(search, members, np.int64(NONE))
    assign(search.box, np.int64(GROUP), search.box, np.int64(TRIED))
    return True


@leaf
def remaining_delay(search: Search, t: Int) -> float:
    """Return the remaining share of a tuple's delay."""
    return float(max(t + search.rule.delay - search.now.newest, 0) / search.rule.delay)


@leaf
def has_subject(search: Search, members: Int, t: Int) -> bool:
    """Return whether the group has a tuple of the same subject."""
    for i in range(members):
        if search.subject[search.group[i]] == search.subject[t]:
            return True
    return False
