"""An independent judge of algorithms that divide all of a window when it closes: see ``tests.support.checker``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isclose
from typing import Any

from crenel.anonymity.algorithms.batch.windows import WindowsCounters
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.delay import Window
from crenel.anonymity.model.outcomes import KINDS, LINKABLE
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from tests.support.checker import Violation, check_published, diversity, expect, forgotten_of
from tests.support.linking import linking_of
from tests.support.source import IDENTITY, Advance, Finish, Forget, Push, Row, Step
from tests.support.space import Box, Ranges, Space


class AtRestChecker:
    """Follows one shard step by step and raises ``Violation`` at the first promise that is broken.

    Parameters
    ----------
    policy, privacy, window : what was promised; ``policy.passthrough`` holds ``IDENTITY``
    """

    def __init__(self, policy: Policy, privacy: Privacy, window: Window) -> None:
        self.policy, self.privacy, self.window = policy, privacy, window
        self.space = Space(policy)
        self.rows: list[Row] = []
        self.points: list[Box] = []
        self.waiting: list[int] = []  # positions
        self.kinds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.confidence: Counter[str] = Counter()  # what it brought about
        self.released = self.forgotten = self.windows = 0
        self.loss_sum = 0.0
        self.parts: list[tuple[list[int], Ranges]] = []  # members of each release, and the ranges it is measured by
        self.closed: list[list[int]] = []
        self._identity = policy.members.index(IDENTITY)
        self._position: dict[int, int] = {}
        self._seen = self.space.nothing_seen()
        self._delays: Counter[int] = Counter()
        self._linking = linking_of(policy, privacy)

    def observe(self, step: Step, out: Releases) -> None:
        """Judge one step by its input and its releases."""
        if isinstance(step, Forget):
            expect("what leaves where somebody is forgotten", (len(out), len(out.suppressed_reason)), (0, 0))
            gone = forgotten_of(step, self.rows, self.waiting)
            self.waiting = [position for position in self.waiting if position not in gone]
            self.forgotten += len(gone)
            return
        closed = list(self._closing(step))
        of = {position: number for number, (members, _) in enumerate(closed) for position in members}
        expect("release_id", out.release_id.tolist(), [self.kinds.total() + i for i in range(len(out))])
        expect("tuples", [0, *out.tuples.cumsum().tolist()], out.offsets.tolist())
        left: list[int] = []
        numbers = []
        shown: list[list[list[Any]]] = []
        for i in range(len(out)):
            members = self._members(out, i)
            (number,) = {of.get(position, -1) for position in members}
            numbers.append(number)
            columns = [column[out.offsets[i] : out.offsets[i + 1]] for column in out.members]
            shown.append([list(values) for values in zip(*columns, strict=True)])
            self._check_release(out, i, members, closed[number][1])
            left += members
        expect("windows of the releases", numbers, sorted(numbers))
        withheld = self._check_withheld(out, [members for members, _ in closed])
        expect("what left", sorted([*left, *withheld]), sorted(of))
        for number, (members, _) in enumerate(closed):
            if self._linking is not None and self.broken(members) is None:
                first, end = numbers.index(number) if number in numbers else 0, numbers.count(number)
                released = [members for members, _ in self.parts[len(self.parts) - len(numbers) :]][first : first + end]
                self._check_confidence(members, list(zip(released, shown[first : first + end], strict=True)))

    def _closing(self, step: Push | Advance | Finish) -> Iterator[tuple[list[int], Ranges]]:
        """Yield the windows that a step closes, tuple by tuple, and the ranges seen by then."""
        watermark = NO_TIME if isinstance(step, Finish) else step.watermark
        if self.waiting and self._is_due(watermark):
            yield self._close()
        for row in step.rows if isinstance(step, Push) else ():
            self._position[row.published[self._identity]] = len(self.rows)
            self.waiting.append(len(self.rows))
            self.rows.append(row)
            self.points.append(self.space.point(row))
            self._seen = self.space.widened(self._seen, self.points[-1], len(self.rows))
            if self._is_due(watermark):
                yield self._close()
        if self.waiting and isinstance(step, Finish):
            yield self._close()

    def _is_due(self, watermark: int) -> bool:
        if self.window.tuples is not None and len(self.waiting) >= self.window.tuples:
            return True
        first = self.rows[self.waiting[0]].event_time
        return self.window.event_time is not None and first + self.window.event_time <= watermark

    def _close(self) -> tuple[list[int], Ranges]:
        members, self.waiting = self.waiting, []
        self.windows += 1
        self.closed.append(members)
        for position in members:
            self._delays[len(self.rows) - 1 - position] += 1
        return members, self._seen

    def _members(self, out: Releases, i: int) -> list[int]:
        members = []
        for m in range(out.offsets[i], out.offsets[i + 1]):
            position = self._position[out.members[self._identity][m]]
            check_published(self.policy, [column[m] for column in out.members], self.rows[position].published)
            members.append(position)
        return members

    def _check_release(self, out: Releases, i: int, members: list[int], seen: Ranges) -> None:
        if (reason := self.broken(members)) is not None:
            raise Violation(f"a release is one of {reason}")
        people = self._people(members)
        expect("subjects", int(out.subjects[i]), len(people))
        for a, stated in enumerate(out.diversity[i].tolist()):
            found = diversity([values[a] for values in people])
            if not (self.privacy.l <= stated <= found and (len(people) < len(members) or stated == found)):
                raise Violation(f"a release states a diversity of {stated}, where it is {found}")
        expect("event time, that of the newest", int(out.event_time[i]), max(self.rows[p].event_time for p in members))
        around = self.space.published(self.space.around([self.points[p] for p in members]))
        stated_box = Box(tuple(out.lower[i].tolist()), tuple(out.upper[i].tolist()), tuple(out.node[i].tolist()))
        expect("the least generalization", stated_box, around)
        if not isclose(out.loss[i], self.space.loss(around, seen), rel_tol=1e-9, abs_tol=1e-12):
            raise Violation(f"a release states a loss of {out.loss[i]}; it is {self.space.loss(around, seen)}")
        self.kinds[KINDS[out.kind[i]]] += 1
        self.released += len(members)
        self.loss_sum += float(out.loss[i]) * len(members)
        self.parts.append((members, seen))

    def _check_withheld(self, out: Releases, closed: Sequence[list[int]]) -> list[int]:
        positions = out.suppressed_position.tolist()
        reasons = [self.privacy.reasons[reason] for reason in out.suppressed_reason]
        expected: list[tuple[int, str]] = []
        for members in closed:
            reason = self.broken(members)
            there = [p for p in positions if p in members] if reason is None and self._linking is not None else members
            expected += [(p, reason or LINKABLE) for p in there if reason is not None or self._linking is not None]
        expect("suppressed", list(zip(positions, reasons, strict=True)), expected)
        expect("event times", out.suppressed_event_time.tolist(), [self.rows[p].event_time for p in positions])
        self.reasons.update(reasons)
        return positions

    def _check_confidence(self, window: Sequence[int], parts: Sequence[tuple[list[int], list[list[Any]]]]) -> None:
        """Judge who was withheld from the parts of a window, and with it the rest of those that were too small then."""
        assert self._linking is not None
        released = {position for members, _ in parts for position in members}
        withheld = [position for position in window if position not in released]
        whole = not withheld or next(self.cuts(window), None) is None  # it was not cut, or all parts left whole
        rows = [self.rows[position] for position in withheld]
        for members, published in parts:
            if self._linking.shows_too_much([self.rows[p] for p in members], published, rows, whole=whole):
                raise Violation("too few subjects are near what was published of a member")
        if whole and withheld:
            of_class = [self.rows[p] for p in window]
            remaining = [self.rows[p] for p in sorted(released)]
            if not self._linking.may_be_withheld(rows, of_class, remaining):
                raise Violation("a tuple was withheld as linkable that cannot have been")
        self.confidence["lonely"] += bool(parts and withheld)
        self.confidence["too few are left"] += not parts

    def broken(self, members: Sequence[int]) -> str | None:
        """Why some tuples may not leave together."""
        people = self._people(members)
        if len(people) < self.privacy.k:
            return "too_few_subjects"
        for a in range(len(self.policy.sensitive)):
            held = sorted(Counter(value for values in people for value in values[a]).values(), reverse=True)
            if 1 + sum(sum(held[: j + 1]) < len(people) for j in range(len(held))) < self.privacy.l:
                return "too_little_diversity"
        return None

    def _people(self, members: Sequence[int]) -> list[list[set[Any]]]:
        """Return the values of each sensitive attribute, of each person."""
        people: dict[Any, list[set[Any]]] = {}
        for p in members:
            name = p if self.policy.subject is None else self.rows[p].subject
            values = people.setdefault(name, [set() for _ in self.policy.sensitive])
            for a, value in enumerate(values):
                value.add(self.rows[p].published[a])
        return list(people.values())

    def loss_of(self, members: Sequence[int], seen: Ranges) -> float:
        """InfoLoss of some tuples' least generalization, times the tuples."""
        return len(members) * self.space.loss(self.space.around([self.points[p] for p in members]), seen)

    def cuts(self, members: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
        """Return every cut of some tuples whose sides satisfy the privacy models."""
        around = self.space.around([self.points[p] for p in members])
        found = []
        for a in range(len(self.policy.numeric)):
            values = sorted({self.points[p].lower[a] for p in members})
            found += [[p for p in members if self.points[p].lower[a] <= value] for value in values[:-1]]
        for a, tree in enumerate(self.space.trees):
            below = {p: tree.child(around.node[a], self.points[p].node[a]) for p in members}
            leaf = {
                child: min(self.points[p].node[a] for p in members if below[p] == child) for child in below.values()
            }
            children = sorted(leaf, key=leaf.__getitem__)
            found += [[p for p in members if below[p] in children[:j]] for j in range(1, len(children))]
            found += [[p for p in members if below[p] == child] for child in children[1:-1]]
        for side in found:
            others = [p for p in members if p not in set(side)]
            if self.broken(side) is None and self.broken(others) is None:
                yield side, others

    def agree(self, counters: WindowsCounters, deadline: int | None) -> None:
        """Judge the shard's counters and its next deadline by what was observed so far."""
        withheld = self.reasons.total()
        expect("in", len(self.rows), self.released + withheld + self.forgotten + len(self.waiting))
        expect("forgotten", counters.forgotten, self.forgotten)
        expect("tuples_in", counters.tuples_in, len(self.rows))
        expect("released", counters.released, self.released)
        expect("buffered", counters.buffered, len(self.waiting))
        expect("suppressed", counters.suppressed, {reason: self.reasons[reason] for reason in self.privacy.reasons})
        expect("releases", counters.releases, {kind: self.kinds[kind] for kind in KINDS})
        expect("windows", counters.windows, self.windows)
        expect("oldest_waiting", counters.oldest_waiting, len(self.rows) - min(self.waiting, default=len(self.rows)))
        expect("longest_delay", counters.longest_delay, max(self._delays, default=0))
        exact = {waited: int(count) for waited, count in enumerate(counters.delays[:64]) if count}
        expect("delays", exact, {waited: count for waited, count in self._delays.items() if waited < 64})
        if not isclose(counters.loss_sum, self.loss_sum, rel_tol=1e-9, abs_tol=1e-9):
            raise Violation(f"loss_sum: stated {counters.loss_sum}, found {self.loss_sum}")
        expected = None
        if self.window.event_time is not None and self.waiting:
            expected = min(self.rows[self.waiting[0]].event_time + self.window.event_time, 2**63 - 2)
        expect("next_deadline", deadline, expected)
