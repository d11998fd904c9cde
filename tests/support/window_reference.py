"""Grouping and repair of one window in plain Python, slow and literal (SUHDSA with l-diversity, Section 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.policy import Policy
from tests.support.source import Row
from tests.support.space import Box, Space


@dataclass
class Group:
    """Positions of its members; what has gone into another group has none."""

    members: list[int]
    merged: bool = False
    given_up: bool = False


@dataclass(frozen=True)
class Action:
    """A repair: numbers of the group and its partner, and the pair that changed places, if one did."""

    group: int
    partner: int
    pair: tuple[int, int] | None


class Reference:
    """One window.

    Parameters
    ----------
    policy : numeric quasi-identifiers have domains
    rows : the tuples of the window, in order
    k, target : distinct subjects and sensitive values that each group is to have
    """

    def __init__(self, policy: Policy, parameters: Suhdsa, rows: Sequence[Row], k: int, target: int) -> None:
        self.policy, self.algorithm, self.rows, self.k, self.target = policy, parameters, rows, k, target
        self.space = Space(policy)
        self.points = [self.space.point(row) for row in rows]
        self.seen = self.space.nothing_seen()
        self.groups: list[Group] = []
        self.actions: list[Action] = []

    # Distances and losses.

    def depth(self, tree: int, node: int) -> int:
        parent = self.policy.categorical[tree].hierarchy.parent
        return 0 if parent[node] == node else 1 + self.depth(tree, int(parent[node]))

    def above(self, tree: int, nodes: Iterable[int]) -> int:
        """Return the lowest node above some nodes."""
        parent = self.policy.categorical[tree].hierarchy.parent
        ways = []
        for node in nodes:
            way = [node]
            while parent[way[-1]] != way[-1]:
                way.append(int(parent[way[-1]]))
            ways.append(way)
        return next(node for node in ways[0] if all(node in way for way in ways))

    def distance(self, one: Box, other: Box) -> float:
        """CAIL distance; of intervals the gap between them."""
        attributes = len(self.policy.attributes)
        weight = dict(self.algorithm.weights)
        total = 0.0
        for a, (node, its) in enumerate(zip(one.node, other.node, strict=True)):
            if node != its:
                shared = self.depth(a, self.above(a, (node, its)))
                share = 1.0 - 2.0 * shared / (self.depth(a, node) + self.depth(a, its))
                total += weight.get(self.policy.categorical[a].name, 1.0) / attributes * share
        for a, attribute in enumerate(self.policy.numeric):
            assert attribute.domain is not None
            width = attribute.domain[1] - attribute.domain[0]
            gap = max(one.lower[a] - other.upper[a], other.lower[a] - one.upper[a], 0.0)
            total += gap * (1.0 / width / attributes) * weight.get(attribute.name, 1.0)
        return total

    def box(self, members: Iterable[int]) -> Box:
        return self.space.around([self.points[p] for p in members])

    def loss(self, members: Iterable[int]) -> float:
        return self.space.loss(self.box(members), self.seen)

    # Grouping.

    def group(self) -> None:
        patterns: dict[Box, list[int]] = {}
        for position, point in enumerate(self.points):
            patterns.setdefault(point, []).append(position)
        free = list(patterns.values())  # oldest first
        while free:
            rest = list(free)
            seed = max(rest, key=len)
            rest.remove(seed)
            members = list(seed)
            while self.subjects(members) < self.k and rest:
                near = [self.distance(self.box(members), self.points[p[0]]) for p in rest]
                ties = [p for p, d in zip(rest, near, strict=True) if d == min(near)]
                taken = min(ties, key=lambda p: round(self.loss([*members, p[0]]) - self.loss(members), 12))
                rest.remove(taken)
                members += taken
            if self.subjects(members) < self.k:
                break
            self.groups.append(Group(members))
            free = rest
        for pattern in sorted(free, key=lambda p: p[0]) if self.groups else []:
            growths = [
                self.loss([*g.members, *pattern]) * len([*g.members, *pattern]) - self.loss(g.members) * len(g.members)
                for g in self.groups
            ]
            least = min(growths)
            next(g for g, x in zip(self.groups, growths, strict=True) if x <= least + 1e-9).members.extend(pattern)

    def subjects(self, members: Iterable[int]) -> int:
        if self.policy.subject is None:
            return len(set(members))
        return len({self.rows[p].subject for p in members})

    def diversity(self, members: Iterable[int]) -> list[int]:
        """Return one more than the number of commonest values that fewer persons hold than there are."""
        held = list(members)
        everybody = self.subjects(held)
        return [
            sum(total < everybody for total in accumulate(self._persons(held, a), initial=0))
            for a in range(len(self.policy.sensitive))
        ]

    def _persons(self, members: Iterable[int], attribute: int) -> list[int]:
        """Return the number of persons with each value of a sensitive attribute, the commonest first."""
        pairs = {
            (p if self.policy.subject is None else self.rows[p].subject, self._value(p, attribute)) for p in members
        }
        return sorted(Counter(value for _, value in pairs).values(), reverse=True)

    def _value(self, position: int, attribute: int) -> object:
        return self.rows[position].published[attribute]

    def unsatisfiable(self) -> bool:
        """Return whether no group of the window could have k subjects and the target."""
        everyone = range(len(self.rows))
        if self.subjects(everyone) < self.k:
            return True
        for attribute, found in enumerate(self.diversity(everyone)):
            persons = self._persons(everyone, attribute)
            # Where a person has several values, a part may have a larger number than the whole, above 2.
            exact = sum(persons) == self.subjects(everyone) or self.target <= 2
            if (found if exact else len(persons)) < self.target:
                return True
        return False

    def lack(self, members: Iterable[int]) -> list[int]:
        return [max(0, self.target - found) for found in self.diversity(members)]

    # Repair.

    def representative(self, members: Sequence[int]) -> Box:
        around = self.box(members)
        numbers = []
        for a in range(len(self.policy.numeric)):
            values = sorted(self.points[p].lower[a] for p in members)
            if self.algorithm.numeric == "mean":
                numbers.append(sum(x / len(values) for x in values))
            else:
                numbers.append((values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2)
        nodes = []
        for a, node in enumerate(around.node):
            found = Counter(self.points[p].node[a] for p in members)
            most = max(found.values())
            nodes.append(
                node if self.algorithm.categorical == "ancestor" else min(x for x in found if found[x] == most)
            )
        return Box(tuple(numbers), tuple(numbers), tuple(nodes))

    def repair(self) -> None:
        while violators := [
            i for i, g in enumerate(self.groups) if g.members and not g.given_up and any(self.lack(g.members))
        ]:
            urgent = min(violators, key=lambda i: self._urgency(self.groups[i].members))
            if not self._act(urgent):
                self.groups[urgent].given_up = True

    def _urgency(self, members: list[int]) -> tuple[int, int, int, int]:
        return (
            min(self.diversity(members)),
            min(members),
            min(self.rows[p].event_time for p in members),
            len(members),
        )

    def neighbors(self, group: int) -> list[int]:
        center = self.representative(self.groups[group].members)
        others = [i for i, g in enumerate(self.groups) if g.members and i != group]
        far = {i: round(self.distance(center, self.representative(self.groups[i].members)), 12) for i in others}
        return sorted(others, key=lambda i: far[i])[: self.algorithm.neighbors]

    def feasible(self, group: int, partner: int, x: int, y: int) -> bool:
        """Return whether x and y may change places."""
        for here, there, leaves, comes in (
            (self.groups[group].members, self.groups[partner].members, x, y),
            (self.groups[partner].members, self.groups[group].members, y, x),
        ):
            after = [p for p in here if p != leaves] + [comes]
            assert comes in there
            if self.subjects(after) < self.k:
                return False
            if any(b > a for a, b in zip(self.lack(here), self.lack(after), strict=True)):
                return False
        mine = self.groups[group].members
        return sum(self.lack([p for p in mine if p != x] + [y])) < sum(self.lack(mine))

    def may_merge(self, group: int, partner: int) -> bool:
        mine, union = self.groups[group].members, self.groups[group].members + self.groups[partner].members
        most = int(self.algorithm.growth_cap * self.k)
        before, after = self.lack(mine), self.lack(union)
        return (
            self.subjects(union) <= most
            and sum(after) < sum(before)
            and all(b <= a for a, b in zip(before, after, strict=True))
        )

    def _act(self, group: int) -> bool:
        """Take the cheapest action by loss alone (distortion weight 1), if there is any."""
        assert self.algorithm.distortion_weight == 1
        mine = self.groups[group].members
        best: tuple[float, Action] = (inf, Action(group, group, None))
        for partner in self.neighbors(group):
            its = self.groups[partner].members
            before = self.loss(mine) * len(mine) + self.loss(its) * len(its)
            lacking = sum(self.lack(mine))
            pairs = [(x, y) for y in its for x in mine if self.feasible(group, partner, x, y)]
            if pairs:
                center, other = self.representative(mine), self.representative(its)
                fits = {
                    (x, y): round(self.distance(other, self.points[x]) + self.distance(center, self.points[y]), 12)
                    for x, y in pairs
                }
                x, y = min(pairs, key=lambda pair: fits[pair])
                one, two = [p for p in mine if p != x] + [y], [p for p in its if p != y] + [x]
                after = self.loss(one) * len(one) + self.loss(two) * len(two)
                price = (after - before) / (len(mine) + len(its)) * lacking / (lacking - sum(self.lack(one)))
                best = min(best, (price, Action(group, partner, (x, y))), key=lambda found: round(found[0], 12))
            if self.may_merge(group, partner):
                after = self.loss(mine + its) * len(mine + its)
                price = (after - before) / len(mine + its) * lacking / (lacking - sum(self.lack(mine + its)))
                best = min(best, (price, Action(group, partner, None)), key=lambda found: round(found[0], 12))
        if best[0] == inf:
            return False
        action = best[1]
        its = self.groups[action.partner].members
        if action.pair is None:
            self.groups[group] = Group(mine + its, merged=True)
            self.groups[action.partner] = Group([])
        else:
            x, y = action.pair
            mine[mine.index(x)], its[its.index(y)] = y, x
        self.actions.append(action)
        return True
