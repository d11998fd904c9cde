"""Independent judge of a shard: it knows the input and the releases, and not how one became the other.

All of it is computed anew in plain Python from tuples as they came (values, not codes) and releases as they left.
Of the project only types that hold data are imported.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import combinations
from math import isclose
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import KINDS, LINKABLE, SUPPRESSIONS
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from tests.support.deadlines import last_position, last_time
from tests.support.linking import linking_of
from tests.support.source import IDENTITY, Finish, Forget, Push, Row, Step
from tests.support.space import Box, Ranges, Space

if TYPE_CHECKING:
    from crenel.anonymity.algorithms.castle.shard import CastleCounters as Counters

_TRIED_OUT = 8
"""Tuples of which every choice is tried out."""

_SPLIT, _REUSED, _GENERALIZED = (KINDS.index(kind) for kind in ("split", "reused", "generalized"))


class Violation(AssertionError):  # noqa: N818 - an error of what is tested, not of the test
    """The output breaks a promise; the text tells which."""


class Stated(NamedTuple):
    """Statements of a release about itself, and its part in Omega."""

    box: Box
    subjects: int
    diversity: tuple[int, ...]


Gamma: TypeAlias = Mapping[int, frozenset[int]]
"""Positions of the tuples of each open cluster, by its id."""


class Checker:
    """Follows one shard step by step and raises ``Violation`` at the first promise that is broken.

    Parameters
    ----------
    policy, privacy, algorithm : what was promised; ``policy.passthrough`` holds ``IDENTITY``
    key : the 32 bytes of the shard's random key, from which deadlines follow
    """

    keeps_all = False  # whether Omega holds every release, whatever it loses

    def __init__(self, policy: Policy, privacy: Privacy, algorithm: Any, key: bytes) -> None:
        self.key = key
        self.policy, self.privacy, self.algorithm = policy, privacy, algorithm
        self.space = Space(policy)
        self.rows: list[Row] = []
        self.points: list[Box] = []
        self.waiting: dict[int, None] = {}  # positions, oldest first
        self.omega: deque[Stated] = deque(maxlen=algorithm.reuse_limit)
        self.kinds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.confidence: Counter[str] = Counter()  # what it brought about
        self.released = self.forgotten = 0
        self.loss_sum = 0.0
        self._identity = policy.members.index(IDENTITY)
        self._position: dict[int, int] = {}
        self._ring = [0.0] * algorithm.loss_window
        self._clusters = 0
        self._unsure = False  # whether tau, or what Omega holds, cannot be known: losses before rounding are not told
        self._kept: list[Stated] = []  # what Omega may ever have held
        self._delays: Counter[int] | None = Counter()  # None once a block of several tuples leaves them open
        self._seen = [self.space.nothing_seen()]
        self._placed_before = self._least_placed = 0
        self._due: set[int] = set()
        self._ended = False
        self._gamma: Gamma | None = None
        self._linking = linking_of(policy, privacy)
        self._linkable: set[int] = set()
        self._classes: list[tuple[list[int], list[list[Any]]]] = []  # that left: members, and what was published
        self._waits_on: set[int] = set()

    @property
    def tau(self) -> float:
        """The mean loss of the most recent clusters (CASTLE, Section 3.2.3)."""
        losses = self._ring[: self._clusters]
        return sum(losses) / len(losses) if losses else 0.0

    def observe(self, step: Step, out: Releases, gamma: Gamma | None = None) -> None:
        """Judge one step by its input and its releases; with the current ``gamma``, also the outliers."""
        self._check_shape(out)
        if isinstance(step, Forget):
            self._forget(step, out, gamma)
            return
        rows = step.rows if isinstance(step, Push) else ()
        self._placed_before = len(self.rows)
        for row in rows:
            self._place(row)
        self._least_placed = max(self._least_placed, self._placed_before + (len(rows) == 1))
        if len(rows) > 1:
            self._delays = None
        self._ended = isinstance(step, Finish)
        self._due = self._find_due(NO_TIME if isinstance(step, Finish) else step.watermark)
        present = frozenset(self.waiting)
        waited = set(present)
        reusable = Counter(self.omega if len(out.suppressed_reason) else ())
        self._linkable, self._classes = set(), []
        withheld = self._check_withheld(out)
        self._check_releases(out)
        # Entries that Omega held before and after, it held in between.
        self._check_reasons(withheld, waited, reusable & Counter(self.omega if withheld else ()))
        if len(rows) == len(withheld) == 1 and not len(out.release_id) and not self._linkable:
            self._check_outlier(*withheld[0], gamma)
        moved = self._check_gamma(gamma)
        if self._linking is not None:
            self._check_confidence(moved, gamma, present)
        elif moved:
            raise Violation("a tuple that waits was moved to another cluster")
        self._gamma = gamma
        if late := self._due & set(self.waiting):
            raise Violation(f"the tuple at position {min(late)} waits longer than it may")
        if self._ended:
            self._check_order_of_expiry(out)

    def _forget(self, step: Forget, out: Releases, gamma: Gamma | None) -> None:
        """Nothing leaves, the persons' tuples wait no more, and all others wait where they did."""
        expect("what leaves where somebody is forgotten", (len(out), len(out.suppressed_reason)), (0, 0))
        gone = forgotten_of(step, self.rows, self.waiting)
        for position in gone:
            del self.waiting[position]
        self.forgotten += len(gone)
        if self.policy.noised:
            self.omega.clear()
        self._waits_on -= gone
        if gamma is not None and self._gamma is not None:
            left = {id: held - gone for id, held in self._gamma.items() if held - gone}
            expect("the clusters of the others", dict(gamma), left)
        self._gamma = gamma

    # Input.

    def _place(self, row: Row) -> None:
        position = len(self.rows)
        if self._position.setdefault(row.published[self._identity], position) != position:
            raise ValueError("the input repeats an identity")
        self.rows.append(row)
        self.points.append(self.space.point(row))
        self.waiting[position] = None
        seen = self.space.widened(self._seen[-1], self.points[-1], position + 1)
        if seen is not self._seen[-1]:
            self._seen.append(seen)

    def _find_due(self, watermark: int) -> set[int]:
        """Return the tuples that must be published or suppressed by the end of the step."""
        if self._ended:
            return set(self.waiting)
        due: set[int] = set()
        if self.algorithm.delay.tuples is not None:
            due.update(position for position in self.waiting if self._last_position(position) < len(self.rows))
        if self.algorithm.delay.event_time is not None:
            due.update(position for position in self.waiting if self._last_time(position) <= watermark)
        return due

    def _last_position(self, position: int) -> int:
        return last_position(self.key, position, self.algorithm.delay.tuples, self.algorithm.delay.jitter)

    def _last_time(self, position: int) -> int:
        came, parameters = self.rows[position].event_time, self.algorithm
        return last_time(self.key, position, came, parameters.delay.event_time, parameters.delay.jitter)

    def _stays_until(self, position: int) -> int:
        """Return the last position before which a release can have been made that holds this tuple."""
        return self._last_position(position)

    # Releases.

    def _check_shape(self, out: Releases) -> None:
        releases, suppressed = len(out.release_id), len(out.suppressed_reason)
        numeric, categorical = len(self.policy.numeric), len(self.policy.categorical)
        shapes: Mapping[str, tuple[int, ...]] = {
            **dict.fromkeys(("kind", "subjects", "tuples", "loss", "event_time"), (releases,)),
            **dict.fromkeys(("lower", "upper"), (releases, numeric)),
            **dict.fromkeys(("suppressed_position", "suppressed_event_time"), (suppressed,)),
            "diversity": (releases, len(self.policy.sensitive)),
            "node": (releases, categorical),
            "offsets": (releases + 1,),
        }
        for column, shape in shapes.items():
            expect(f"shape of {column}", np.shape(getattr(out, column)), shape)
        expect("columns of members", len(out.members), len(self.policy.members))
        expect("members", {len(column) for column in out.members}, {int(out.offsets[-1])})
        expect("tuples", [0, *out.tuples.cumsum().tolist()], out.offsets.tolist())
        first = self.kinds.total()
        expect("release_id", out.release_id.tolist(), list(range(first, first + releases)))

    def _leave(self, position: int) -> None:
        if position not in self.waiting:
            raise Violation(f"the tuple at position {position} left, though it does not wait")
        del self.waiting[position]
        if self._delays is not None:
            self._delays[len(self.rows) - 1 - position] += 1

    def _leave_alone(self, position: int, suppression: str) -> None:
        if position not in self._due:
            raise Violation(f"the tuple at position {position} left alone before it was due")
        if suppression not in ("", self.algorithm.suppression):
            raise Violation(f"a tuple was suppressed otherwise than by {self.algorithm.suppression}")

    def _check_withheld(self, out: Releases) -> list[tuple[str, int]]:
        withheld = []
        columns = (out.suppressed_reason, out.suppressed_position, out.suppressed_event_time)
        for reason, position, event_time in zip(*(column.tolist() for column in columns), strict=True):
            self._leave(position)
            name = self.privacy.reasons[reason]
            if name == LINKABLE:
                self._linkable.add(position)
                self.confidence["lonely"] += position not in self._due
            else:
                self._leave_alone(position, "withhold")
            expect("event time of a suppressed tuple", event_time, self.rows[position].event_time)
            self.reasons[name] += 1
            self.confidence["waited on and was suppressed"] += position in self._waits_on
            withheld.append((name, position))
        return withheld

    def _check_releases(self, out: Releases) -> None:
        lower, upper, node, diversity = (a.tolist() for a in (out.lower, out.upper, out.node, out.diversity))
        kinds = out.kind.tolist()
        for i, kind in enumerate(kinds):
            members = self._members(out, i)
            box = Box(tuple(lower[i]), tuple(upper[i]), tuple(node[i]))
            stated, loss = Stated(box, int(out.subjects[i]), tuple(diversity[i])), float(out.loss[i])
            for position in members:
                if not self.space.contains(box, self.points[position]):
                    raise Violation(f"the tuple at position {position} lies outside its generalization")
            if self.space.published(box) != box:
                raise Violation("a generalization has an end that is not on its grid")
            possible = self._check_time(members, box, loss)
            self._check_event_time(members, int(out.event_time[i]))
            if kind == _REUSED:
                self._check_reused(stated, members)
            elif kind == _GENERALIZED:
                self._check_generalized(stated, members, possible)
            elif kind > _GENERALIZED:
                self._check_later(kind, stated, members)
            else:
                self._check_cluster(stated, members, self._loss_before_rounding(members, loss, possible))
                columns = [column[out.offsets[i] : out.offsets[i + 1]] for column in out.members]
                self._classes.append((members, [list(values) for values in zip(*columns, strict=True)]))
            self.confidence["waited on and left"] += not self._waits_on.isdisjoint(members)
            self.kinds[KINDS[kind]] += 1
            self.released += len(members)
            self.loss_sum += loss * len(members)
        runs = release_runs(kinds)
        # A part without a release had a member excluded; so had a due tuple that is in no part.
        if sum(kinds[run[0]] == _SPLIT and len(run) < 2 for run in runs) > len(self._linkable):
            raise Violation("a split has one part only")
        left = [{position for i in run for position in self._positions(out, i)} for run in runs]
        if sum(map(self._due.isdisjoint, left)) > len(self._due & self._linkable):
            raise Violation("a release holds no tuple that was due")

    def _positions(self, out: Releases, release: int) -> list[int]:
        identities = out.members[self._identity][out.offsets[release] : out.offsets[release + 1]]
        if not self._position.keys() >= set(identities):
            raise Violation("a member was published that never came")
        return [self._position[identity] for identity in identities]

    def _members(self, out: Releases, release: int) -> list[int]:
        positions = self._positions(out, release)
        for position, m in zip(positions, range(out.offsets[release], out.offsets[release + 1]), strict=True):
            self._leave(position)
            check_published(self.policy, [column[m] for column in out.members], self.rows[position].published)
        return positions

    def _check_time(self, members: Sequence[int], box: Box, loss: float) -> list[Ranges]:
        """Require that no member waited longer, and that the loss fits the ranges at the time of the release.

        Releases stand in the order in which they were made, so how many tuples had come by then never falls.
        """
        least, most = max(self._least_placed, max(members) + 1), len(self.rows)
        if self.algorithm.delay.tuples is not None and not self._ended:
            most = min(most, 1 + min(map(self._stays_until, members)))
        if least > most:
            raise Violation(f"the tuple at position {min(members)} waited for more tuples than it may")
        until = [seen.since for seen in self._seen[1:]] + [most + 1]
        possible = [seen for seen, end in zip(self._seen, until, strict=True) if seen.since <= most and end > least]
        fitting = [s for s in possible if isclose(loss, self.space.loss(box, s), rel_tol=1e-9, abs_tol=1e-12)]
        if not fitting:
            raise Violation(f"a release states a loss of {loss}; it is {self.space.loss(box, possible[-1])}")
        self._least_placed = max(least, fitting[0].since)
        return fitting

    def _loss_before_rounding(self, members: Sequence[int], loss: float, possible: Sequence[Ranges]) -> float:
        """Return the losses that tau averages: of the least generalization, which is stated where there is no grid."""
        if not self.space.on_a_grid:
            return loss
        around = self._around(members)
        least = [self.space.loss(around, seen) for seen in possible]
        self._unsure |= not isclose(min(least), max(least), rel_tol=1e-9, abs_tol=1e-12)
        return least[0]

    def _around(self, members: Sequence[int]) -> Box:
        return self.space.around([self.points[position] for position in members])

    def _check_event_time(self, members: Sequence[int], stated: int) -> None:
        newest = max(self.rows[position].event_time for position in members)
        expect("event time of a release", stated, newest)

    def _check_models(self, stated: Stated) -> None:
        if stated.subjects < self.privacy.k:
            raise Violation(f"a release has {stated.subjects} subjects, fewer than k = {self.privacy.k}")
        if any(found < self.privacy.l for found in stated.diversity):
            raise Violation(f"a release has {stated.diversity} sensitive values, fewer than l = {self.privacy.l}")

    def _check_cluster(self, stated: Stated, members: Sequence[int], loss: float) -> None:
        box = self.space.published(self._around(members))
        found = Stated(box, self._subjects(members), self._diversity(members))
        self._check_models(found)
        self._check_models(stated)
        expect("subjects", stated.subjects, found.subjects)
        if found.subjects == len(members):
            expect("diversity", stated.diversity, found.diversity)
        elif any(stated_value > true for stated_value, true in zip(stated.diversity, found.diversity, strict=True)):
            raise Violation(f"a release states the diversity {stated.diversity}; it is {found.diversity}")
        expect("the least generalization", stated.box, found.box)
        self._ring[self._clusters % len(self._ring)] = loss
        self._clusters += 1
        self._unsure |= self.space.on_a_grid and not self.keeps_all and isclose(loss, self.tau, rel_tol=1e-9)
        self._kept.append(stated)
        # With confidence nothing is reused.
        if (loss < self.tau or self.keeps_all) and self._linking is None:
            self.omega.append(stated)

    def _subjects(self, positions: Iterable[int]) -> int:
        if self.policy.subject is None:
            return len(set(positions))
        return len({self.rows[position].subject for position in positions})

    def _diversity(self, positions: Iterable[int]) -> tuple[int, ...]:
        """Return the largest l of each sensitive attribute for which no l - 1 values name one of each person's own."""
        people = self._people(positions)
        return tuple(diversity([values[a] for values in people]) for a in range(len(self.policy.sensitive)))

    def _diversity_by_sums(self, positions: Iterable[int]) -> tuple[int, ...]:
        """Return the same by what is promised to be used: the commonest values together, persons summed over them."""
        people = self._people(positions)
        found = []
        for a in range(len(self.policy.sensitive)):
            held = sorted(Counter(value for values in people for value in values[a]).values(), reverse=True)
            found.append(1 + sum(sum(held[: j + 1]) < len(people) for j in range(len(held))))
        return tuple(found)

    def _people(self, positions: Iterable[int]) -> list[list[set[Any]]]:
        """Return the values of each sensitive attribute, of each person."""
        people: dict[Any, list[set[Any]]] = {}
        for position in positions:
            row = self.rows[position]
            name = position if self.policy.subject is None else row.subject
            values = people.setdefault(name, [set() for _ in self.policy.sensitive])
            for a, value in enumerate(values):
                value.add(row.published[a])
        return list(people.values())

    def _check_reused(self, stated: Stated, members: Sequence[int]) -> None:
        expect("tuples of a reused generalization", len(members), 1)
        self._leave_alone(members[0], "")
        self._check_models(stated)
        if stated not in (self._kept if self._unsure and not self.keeps_all else self.omega):
            raise Violation("a generalization was reused that Omega does not hold, or with other counts than its own")

    def _check_generalized(self, stated: Stated, members: Sequence[int], possible: Sequence[Ranges]) -> None:
        expect("tuples of a full generalization", len(members), 1)
        self._leave_alone(members[0], "generalize")
        expect("what stands behind a full generalization", stated[1:], (1, (1,) * len(self.policy.sensitive)))
        if stated.box not in [self.space.published(self.space.everything(seen)) for seen in possible]:
            raise Violation("a suppressed tuple was not fully generalized")
        waiting = {*self.waiting, *members}  # and those who were withheld from a class later in the step
        self._check_hopeless(members[0], SUPPRESSIONS, waiting, waiting | self._linkable, self.omega)

    def _check_later(self, kind: int, stated: Stated, members: Sequence[int]) -> None:
        raise Violation(f"a release is {KINDS[kind]}, and nothing lasts")

    # Why it left so.

    def _check_reasons(self, withheld: Sequence[tuple[str, int]], waited: set[int], reusable: Iterable[Stated]) -> None:
        for number, (reason, position) in enumerate(withheld):
            later = {position for _, position in withheld[number:]}
            if reason != LINKABLE:
                self._check_hopeless(position, (reason,), {*self.waiting, *later}, waited, reusable)
            waited.remove(position)

    def _check_hopeless(
        self, position: int, reasons: Sequence[str], lower: set[int], upper: set[int], reusable: Iterable[Stated]
    ) -> None:
        """Require that at least ``lower``, of those then read, and at most ``upper`` wait at a suppression."""
        if len(self.rows) - self._placed_before > 1:
            lower = {other for other in lower if other < self._placed_before or other <= position}
        known = self.keeps_all or not self._unsure
        if known and any(self.space.contains(stated.box, self.points[position]) for stated in reusable):
            raise Violation("a tuple was suppressed though a published generalization contains it")
        possible = {
            # More than half of the clusters are larger: two at least, of two subjects or more each.
            "outlier": isinstance(self.algorithm, Castle)
            and self.algorithm.max_clusters > 2
            and len(upper) > 4
            and self._subjects(upper) > 1,
            "too_few_subjects": self._subjects(lower) < self.privacy.k,
            "too_little_diversity": self._subjects(upper) >= self.privacy.k and self._may_lack_diversity(lower, upper),
        }
        if not any(possible[reason] for reason in reasons):
            raise Violation(f"a tuple was suppressed as {' or '.join(reasons)}, which it cannot be")

    def _may_lack_diversity(self, lower: set[int], upper: set[int]) -> bool:
        """Return whether some tuples, these at least and those at most, are not diverse.

        One more tuple can make them less diverse too: it can give a person the value that the others have.
        """
        between = sorted(upper - lower)
        if len(between) > _TRIED_OUT:
            return True
        return any(
            found < self.privacy.l
            for count in range(len(between) + 1)
            for more in combinations(between, count)
            for found in self._diversity_by_sums({*lower, *more})
        )

    def _check_outlier(self, reason: str, position: int, gamma: Gamma | None) -> None:
        """Require that Gamma is unchanged by a tuple suppressed at its arrival, except for its cluster."""
        own = next((id for id, held in (self._gamma or {}).items() if position in held), None)
        if gamma is None or own is None:
            return
        then = {**gamma, own: gamma.get(own, frozenset()) | {position}}
        size = self._subjects(then[own])
        larger = sum(self._subjects(held) > size for held in then.values())
        if (2 * larger > len(then)) != (reason == "outlier"):
            raise Violation(
                f"a tuple was suppressed as {reason}; {larger} of {len(then)} clusters were larger than its"
            )

    def _check_order_of_expiry(self, out: Releases) -> None:
        by_time, by_tuples = self.algorithm.delay.event_time is not None, self.algorithm.delay.tuples is not None

        def expiry(position: int) -> tuple[int, int]:
            return self._last_time(position) if by_time else self._last_position(position) * by_tuples, position

        positions = [position for position in out.suppressed_position.tolist() if position not in self._linkable]
        withheld, linkable = [expiry(position) for position in positions], [expiry(p) for p in self._linkable]
        ordered, due = withheld == sorted(withheld), (NO_TIME, -1)
        for run in release_runs(out.kind.tolist()):
            first = min(expiry(position) for i in run for position in self._positions(out, i))
            ordered &= first > due
            # The due tuple is in the release, or was excluded from it.
            due = min(time for time in (first, *linkable) if time > due) if first > due else first
        if not ordered:
            raise Violation("at the end of the input tuples left out of the order of their expiry")

    # Exclusions by confidence.

    def _check_gamma(self, gamma: Gamma | None) -> list[frozenset[int]]:
        """Find the clusters of tuples that waited in another cluster before; each buffered tuple is in one cluster."""
        if gamma is None:
            return []
        in_clusters = sorted(position for held in gamma.values() for position in held)
        expect("who is in open clusters", in_clusters, list(self.waiting))
        moved = []
        for id, held in gamma.items():
            older = {position for position in held if position < self._placed_before}
            if self._gamma is not None and not older <= self._gamma.get(id, frozenset()):
                if id in self._gamma:
                    raise Violation("a tuple that waits was moved into a cluster that there was")
                moved.append(held)
        return moved

    def _check_confidence(self, moved: Sequence[frozenset[int]], gamma: Gamma | None, present: frozenset[int]) -> None:
        """Judge the members that a step excluded from its classes: those suppressed, and those still buffered."""
        assert self._linking is not None
        withheld = self._rows_of(self._linkable)
        for members, published in self._classes:
            if self._linking.shows_too_much(self._rows_of(members), published, withheld, whole=False):
                raise Violation("too few subjects are near what was published of a member")
        if moved and not self._linkable:
            raise Violation("tuples wait on though nobody was withheld from their class")
        self._waits_on.update(*moved)
        if not self._linkable:
            return
        left = {*self._linkable, *(position for members, _ in self._classes for position in members)}
        if self._due.isdisjoint(left) or self._subjects(present) < self.privacy.k:
            raise Violation("a tuple was withheld as linkable though no class was about to leave")
        if len(moved) > len(self._due & left):
            raise Violation("the rest of a class waits on in more than one cluster")
        if gamma is None or len(self._due) > 1 or len(self.rows) - self._placed_before > 1:
            return
        waiting = [frozenset[int]().union(*moved)]
        if not moved:  # a tuple that came in this step may have been alone before
            waiting += [held for id, held in gamma.items() if id not in (self._gamma or {})]
        if not self._due <= left or not any(self._is_class(left, held) for held in waiting):
            raise Violation("tuples were withheld as linkable, or wait on, that cannot have been")

    def _is_class(self, left: set[int], waiting: frozenset[int]) -> bool:
        """Return whether a due class can have ended as it did: ``left``, and its members that wait on."""
        assert self._linking is not None
        whole, k, (due,) = left | waiting, self.privacy.k, self._due
        failed = len(whole) // k - len(self._classes)  # parts, at most: each had k tuples of k subjects
        if not self._satisfies_models(whole) or failed < (len(waiting) > 0):
            return False
        if self.privacy.l == 1 and self._subjects(waiting) > failed * (k - 1):
            return False
        if waiting and failed == 1 and all(self._satisfies_models(rest) for rest in (waiting, waiting | {due})):
            return False
        if len(whole) >= 2 * k:
            return True  # it may have been split, who knows how
        of_class = self._rows_of(whole)
        withheld = self._rows_of(self._linkable)
        if not self._classes:  # who is due is withheld with the rest
            rest, remaining = self._rows_of(set(self._linkable) - {due}), self._rows_of(waiting)
            return self._linking.may_be_withheld(rest or withheld, of_class, remaining) or (
                self._linking.may_be_withheld(withheld, of_class, remaining)
            )
        ((members, published),) = self._classes
        remaining = self._rows_of(members)
        return self._linking.may_be_withheld(withheld, of_class, remaining) and not self._linking.shows_too_much(
            remaining, published, withheld, whole=True
        )

    def _rows_of(self, positions: Iterable[int]) -> list[Row]:
        return [self.rows[position] for position in positions]

    def _satisfies_models(self, positions: Collection[int]) -> bool:
        diverse = all(found >= self.privacy.l for found in self._diversity_by_sums(positions))
        return diverse and self._subjects(positions) >= self.privacy.k

    # Statements about all steps.

    def agree(self, counters: Counters) -> None:
        """Judge the shard's counters by what was observed so far."""
        withheld, waiting = self.reasons.total(), len(self.waiting)
        left = self.released + withheld + self.forgotten
        expect("in = released + suppressed + forgotten + buffered", len(self.rows), left + waiting)
        expect("forgotten", counters.forgotten, self.forgotten)
        expect("tuples_in", counters.tuples_in, len(self.rows))
        expect("released", counters.released, self.released)
        expect("buffered", counters.buffered, waiting)
        expect("suppressed", sum(counters.suppressed.values()), withheld + self.kinds["generalized"])
        if self.algorithm.suppression == "withhold" or self._linking is not None:
            expect("linkable", counters.suppressed.get(LINKABLE, 0), self.reasons[LINKABLE])
        if self.algorithm.suppression == "withhold":
            expect("suppressed", counters.suppressed, {reason: self.reasons[reason] for reason in self.privacy.reasons})
        expect("releases", counters.releases, {kind: self.kinds[kind] for kind in KINDS})
        if not self.space.on_a_grid:
            expect("tau", counters.tau, self.tau)
        elif not self._unsure and not isclose(counters.tau, self.tau, rel_tol=1e-9, abs_tol=1e-12):
            raise Violation(f"tau: stated {counters.tau}, found {self.tau}")
        expect("oldest_waiting", counters.oldest_waiting, len(self.rows) - next(iter(self.waiting), len(self.rows)))
        expect("delays", int(counters.delays.sum()), self.released + withheld)
        if not isclose(counters.loss_sum, self.loss_sum, rel_tol=1e-9, abs_tol=1e-9):
            raise Violation(f"loss_sum: stated {counters.loss_sum}, found {self.loss_sum}")
        self._agree_on_clusters(counters)
        if self._delays is not None:
            expect("longest_delay", counters.longest_delay, max(self._delays, default=0))
            exact = {waited: int(count) for waited, count in enumerate(counters.delays[:64]) if count}
            expect("delays", exact, {waited: count for waited, count in self._delays.items() if waited < 64})

    def _agree_on_clusters(self, counters: Counters) -> None:
        waiting = len(self.waiting)
        if not min(waiting, 1) <= counters.open_clusters <= min(waiting, self.algorithm.max_clusters):
            raise Violation(f"open_clusters: {counters.open_clusters} cannot be, where {waiting} tuples wait")
        if self._gamma is not None:
            expect("open_clusters", counters.open_clusters, len(self._gamma))
        if counters.merges < self.kinds["merged"]:
            raise Violation("merges: fewer than the releases of merged clusters")
        if not min(self.kinds["split"], 1) <= counters.splits <= (self.kinds["split"] + self.reasons[LINKABLE]) // 2:
            raise Violation("splits: do not go with the releases of their parts")


def forgotten_of(step: Forget, rows: Sequence[Row], waiting: Iterable[int]) -> set[int]:
    """Positions of the tuples that wait and are of persons to be forgotten."""
    return {position for position in waiting if rows[position].subject in step.subjects}


def check_published(policy: Policy, published: Sequence[Any], came: Sequence[Any]) -> None:
    """Require that each value is the original; noised ones are on their grid, in their domain, and of their type."""
    noised = {attribute.name: attribute for attribute in policy.noised.values()}
    for name, value, before in zip(policy.members, published, came, strict=True):
        if (attribute := noised.get(name)) is None:
            if value != before:
                raise Violation("a published value is not the one that came")
            continue
        lowest, highest = attribute.domain or (0.0, 0.0)
        step = Decimal(repr(attribute.step))
        if type(value) is not type(before) or not lowest <= value <= highest:
            raise Violation("a noised value is of another type, or outside its domain")
        if float(round(Decimal(value) / step) * step) != value and value not in (lowest, highest):
            raise Violation("a noised value is not on its grid")


def diversity(people: Sequence[set[Any]]) -> int:
    """Return the largest l such that no l - 1 values are enough to name, for every person, a value that the person has.

    By trying out, fewer values first: one more than the fewest of which everybody has one is too many. Whatever the
    values are, one of them is the first person's, one that of the first of those who have not got it, and so on.
    """
    holders: dict[Any, int] = {}  # a bit for each person
    for bit, person in enumerate(people):
        for value in person:
            holders[value] = holders.get(value, 0) | 1 << bit

    def enough(left: int, unnamed: int) -> bool:
        if unnamed == 0 or left == 0:
            return unnamed == 0
        first = people[(unnamed & -unnamed).bit_length() - 1]
        return any(enough(left - 1, unnamed & ~holders[value]) for value in first)

    sizes = range(1, len(holders) + 1)
    return next((size for size in sizes if enough(size, (1 << len(people)) - 1)), 0)


def expect(what: str, stated: object, found: object) -> None:
    """Raise ``Violation`` where two values differ that must be equal."""
    if stated != found:
        raise Violation(f"{what}: stated {stated}, found {found}")


def release_runs(kinds: Sequence[int]) -> list[list[int]]:
    """Releases in order, parts of a split together (of two splits in a row as well: nothing tells them apart)."""
    runs: list[list[int]] = []
    for i, kind in enumerate(kinds):
        if kind == _SPLIT and runs and kinds[runs[-1][0]] == _SPLIT:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs
