"""An independent judge of what a shard of windows did: see ``tests.support.checker``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import isclose, log2
from typing import TYPE_CHECKING

from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.algorithms.suhdsa.log import ACTIONS, Repairs
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.model.outcomes import KINDS, LINKABLE
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME
from tests.support.checker import Violation, check_published, diversity, expect, forgotten_of
from tests.support.linking import linking_of
from tests.support.source import IDENTITY, Finish, Forget, Push, Row, Step
from tests.support.space import Box, Space

if TYPE_CHECKING:
    from crenel.anonymity.algorithms.suhdsa.shard import SuhdsaCounters


class WindowChecker:
    """Follows one shard step by step and raises ``Violation`` at the first promise that is broken.

    Parameters
    ----------
    policy, privacy, parameters : what was promised; ``policy.passthrough`` holds ``IDENTITY``
    """

    def __init__(self, policy: Policy, privacy: Privacy, parameters: Suhdsa) -> None:
        self.policy, self.privacy, self.algorithm = policy, privacy, parameters
        self.space = Space(policy)
        self.rows: list[Row] = []
        self.points: list[Box] = []
        self.waiting: dict[int, None] = {}  # positions, oldest first
        self.kinds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.actions: Counter[str] = Counter()
        self.confidence: Counter[str] = Counter()  # what it brought about
        self.released = self.forgotten = self.windows = self.carried = 0
        self.loss_sum = 0.0
        self._identity = policy.members.index(IDENTITY)
        self._position: dict[int, int] = {}
        self._seen = [self.space.nothing_seen()]
        self._watermark = NO_TIME
        self._ended = False
        self._linking = linking_of(policy, privacy)
        self._classes: list[tuple[list[int], list[list[object]]]] = []  # that left: members, and what was published
        self._may_wait_on: set[int] = set()  # carried by a window with an excluded member
        self._waits_on: set[int] = set()  # was carried for no other reason

    def observe(self, step: Step, out: Releases, repairs: Repairs) -> None:
        """Judge one step by its input, its releases, and its reports."""
        if isinstance(step, Forget):
            self._forget(step, out, repairs)
            return
        self._ended = isinstance(step, Finish)
        if not isinstance(step, Finish):
            self._watermark = step.watermark
        for row in step.rows if isinstance(step, Push) else ():
            self._place(row)
        self._classes = []
        expect("release_id", out.release_id.tolist(), [self.kinds.total() + i for i in range(len(out))])
        expect("tuples", [0, *out.tuples.cumsum().tolist()], out.offsets.tolist())
        mixing = [self._check_release(out, i) for i in range(len(out))]
        linkable = self._check_withheld(out)
        self._check_delay()
        self._check_confidence(linkable, repairs)
        self._check_log(out, repairs, mixing)

    def _forget(self, step: Forget, out: Releases, repairs: Repairs) -> None:
        left = (len(out), len(out.suppressed_reason), len(repairs.windows), len(repairs.actions.window))
        expect("what leaves where somebody is forgotten", left, (0, 0, 0, 0))
        gone = forgotten_of(step, self.rows, self.waiting)
        for position in gone:
            del self.waiting[position]
        self.forgotten += len(gone)
        self._waits_on -= gone
        self._may_wait_on -= gone

    def _place(self, row: Row) -> None:
        position = len(self.rows)
        self._position[row.published[self._identity]] = position
        self.rows.append(row)
        self.points.append(self.space.point(row))
        self.waiting[position] = None
        seen = self.space.widened(self._seen[-1], self.points[-1], position + 1)
        if seen is not self._seen[-1]:
            self._seen.append(seen)

    def _leave(self, position: int) -> None:
        if position not in self.waiting:
            raise Violation(f"the tuple at position {position} left, though it does not wait")
        del self.waiting[position]

    # Releases.

    def _check_release(self, out: Releases, i: int) -> float:
        """Judge one release; the entropy of its sensitive values, the least of several."""
        members, shown = [], []
        for m in range(out.offsets[i], out.offsets[i + 1]):
            position = self._position[out.members[self._identity][m]]
            self._leave(position)
            shown.append([column[m] for column in out.members])
            check_published(self.policy, shown[-1], self.rows[position].published)
            members.append(position)
        self._classes.append((members, shown))
        self.confidence["waited on and left"] += not self._waits_on.isdisjoint(members)
        subjects = {p if self.policy.subject is None else self.rows[p].subject for p in members}
        columns = [[self.rows[p].published[a] for p in members] for a in range(len(self.policy.sensitive))]
        found = [diversity(list(self._values(members, a).values())) for a in range(len(self.policy.sensitive))]
        if len(subjects) < self.privacy.k:
            raise Violation(f"a release has {len(subjects)} subjects, fewer than k = {self.privacy.k}")
        if any(values < self.privacy.l for values in found):
            raise Violation(f"a release is {found}-diverse, less than l = {self.privacy.l}")
        expect("subjects", int(out.subjects[i]), len(subjects))
        self._check_diversity(out.diversity[i].tolist(), found, alone=len(subjects) == len(members))
        self._check_event_time(members, int(out.event_time[i]))
        around = self.space.around([self.points[p] for p in members])
        stated = Box(tuple(out.lower[i].tolist()), tuple(out.upper[i].tolist()), tuple(out.node[i].tolist()))
        if self.algorithm.output == "generalization":
            around = self.space.published(around)
            expect("the least generalization", stated, around)
        else:
            self._check_representative(stated, around, members)
        until = [*(seen.since for seen in self._seen[1:]), len(self.rows) + 1]
        possible = [seen for seen, end in zip(self._seen, until, strict=True) if end > max(members) + 1]
        if not any(isclose(out.loss[i], self.space.loss(around, s), rel_tol=1e-9, abs_tol=1e-12) for s in possible):
            raise Violation(f"a release states a loss of {out.loss[i]}; it is {self.space.loss(around, possible[-1])}")
        delay = self.algorithm.longest_delay.tuples
        if delay is not None and max(members) - min(members) > delay:
            raise Violation(f"the tuple at position {min(members)} waited for more tuples than it may")
        self.kinds[KINDS[out.kind[i]]] += 1
        self.released += len(members)
        self.loss_sum += float(out.loss[i]) * len(members)
        return min((entropy(column) for column in columns), default=0.0)

    def _values(self, members: Sequence[int], attribute: int) -> dict[object, set[object]]:
        """Return the values of a sensitive attribute of each person."""
        found: dict[object, set[object]] = {}
        for p in members:
            who = p if self.policy.subject is None else self.rows[p].subject
            found.setdefault(who, set()).add(self.rows[p].published[attribute])
        return found

    def _check_diversity(self, stated: Sequence[int], found: Sequence[int], *, alone: bool) -> None:
        if alone:
            expect("diversity", list(stated), list(found))
        if any(not self.privacy.l <= says <= true for says, true in zip(stated, found, strict=True)):
            raise Violation(f"a release states a diversity of {stated}, where it is {found}")

    def _check_event_time(self, members: Sequence[int], stated: int) -> None:
        newest = max(self.rows[p].event_time for p in members)
        expect("event time, that of the newest member", stated, newest)

    def _check_representative(self, stated: Box, around: Box, members: Sequence[int]) -> None:
        expect("an interval of no width", stated.lower, stated.upper)
        for a, (low, value, high) in enumerate(zip(around.lower, stated.lower, around.upper, strict=True)):
            numbers = sorted(self.points[p].lower[a] for p in members)
            near = min((high - low) * 1e-9, 1e290) + 1e-300
            if self.algorithm.numeric == "mean":
                middle = float(sum(map(Fraction, numbers)) / len(numbers))
                near += sum(abs(x) * 2**-52 for x in numbers)  # where terms cancel out, what adding rounds off
            else:
                middle = numbers[(len(numbers) - 1) // 2] / 2 + numbers[len(numbers) // 2] / 2
            if not (low <= value <= high and isclose(value, middle, rel_tol=1e-9, abs_tol=near)):
                raise Violation(f"a representative is {value}, not the {self.algorithm.numeric} {middle}")
        for a, (node, above) in enumerate(zip(stated.node, around.node, strict=True)):
            found = Counter(self.points[p].node[a] for p in members)
            if self.algorithm.categorical == "ancestor":
                expect("the common ancestor", node, above)
            else:
                expect("the mode", node, min(leaf for leaf in found if found[leaf] == max(found.values())))

    def _check_withheld(self, out: Releases) -> list[int]:
        """Judge who was suppressed; who as linkable."""
        linkable = []
        columns = (out.suppressed_reason, out.suppressed_position, out.suppressed_event_time)
        for reason, position, event_time in zip(*(column.tolist() for column in columns), strict=True):
            self._leave(position)
            expect("event time of a suppressed tuple", event_time, self.rows[position].event_time)
            name, due = self.privacy.reasons[reason], self._ended or self._is_due(position)
            if not due and name != LINKABLE:
                raise Violation(f"the tuple at position {position} was suppressed before it was due")
            self.reasons[name] += 1
            self.confidence["waited on and was suppressed"] += position in self._waits_on
            if name == LINKABLE:
                linkable.append(position)
                self.confidence["lonely"] += not due
            if name == "outlier":
                raise Violation("a window suppressed a tuple as an outlier")
        return linkable

    def _check_confidence(self, linkable: Sequence[int], repairs: Repairs) -> None:
        """Judge who was withheld from a group of a window that closed, or waited on since its group could not leave."""
        windows = repairs.windows
        closed = (windows.groups - windows.merges).tolist()  # so many groups were about to leave
        if not any(closed) and not self._may_wait_on.issuperset(linkable):
            raise Violation("a tuple was withheld as linkable though no group was about to leave")
        withheld = [self.rows[position] for position in linkable]
        for members, published in self._classes if self._linking is not None else ():
            of_class = [self.rows[position] for position in members]
            if self._linking is not None and self._linking.shows_too_much(of_class, published, withheld, whole=False):
                raise Violation("too few subjects are near what was published of a member")
        left = int((windows.tuples - windows.carried).sum())
        released = sum(len(members) for members, _ in self._classes)
        if not released <= left <= released + len(linkable):
            raise Violation(
                f"windows tell that {left} tuples left, where it was {released} and {len(linkable)} withheld"
            )
        if sum(closed) - len(self._classes) - int(windows.unrepaired.sum()) > left - released:
            raise Violation("a group stays though it keeps what is promised and nobody was withheld from it")
        if closed:
            carried = list(self.waiting)[: int(windows.carried[-1])]
            self._may_wait_on = set(carried) if left > released else set()
            self._waits_on = set(carried) if closed[-1] and not windows.violations[-1] else set()

    def _is_due(self, position: int) -> bool:
        by_tuples, by_time = self.algorithm.longest_delay.tuples, self.algorithm.longest_delay.event_time
        if by_tuples is not None and position < len(self.rows) - by_tuples:
            return True
        return by_time is not None and self.rows[position].event_time + by_time <= self._watermark

    def _check_delay(self) -> None:
        if late := [p for p in self.waiting if self._ended or self._is_due(p)]:
            raise Violation(f"the tuple at position {late[0]} waits longer than it may")

    # Reports.

    def _check_log(self, out: Releases, repairs: Repairs, mixing: list[float]) -> None:
        windows, actions = repairs.windows, repairs.actions
        expect("window", windows.window.tolist(), [self.windows + i for i in range(len(windows))])
        expect("releases", int(windows.releases.sum()), len(out))
        if not (windows.lsr == 1).all():
            raise Violation("a window released a group that is not l-diverse")
        at = 0
        for i in range(len(windows)):
            found = mixing[at : at + int(windows.releases[i])]
            at += len(found)
            stated = float(windows.entropy_mean[i]), float(windows.entropy_least[i])
            exact = (sum(found) / len(found), min(found)) if found else (0.0, 0.0)
            if not all(isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(stated, exact, strict=True)):
                raise Violation(f"a window states entropies of {stated}; they are {exact}")
            mine = actions.window == windows.window[i]
            expect("swaps", int(windows.swaps[i]), int((actions.action[mine] == ACTIONS.index("swap")).sum()))
            expect("merges", int(windows.merges[i]), int((actions.action[mine] == ACTIONS.index("merge")).sum()))
            # The set of violating groups only shrinks; each merge takes one group away.
            if windows.unrepaired[i] > windows.violations[i] or windows.violations[i] > windows.groups[i]:
                raise Violation("a window has more violating groups than before its repairs")
            if windows.releases[i] > windows.groups[i] - windows.merges[i]:
                raise Violation("a window has more releases than groups")
        for i, action in enumerate(actions.action.tolist()):
            same = actions.tuples_after[i] == actions.tuples_before[i]
            if same != (ACTIONS[action] == "swap") or actions.tuples_after[i] < actions.tuples_before[i]:
                raise Violation("a swap changes a group's size, or a merge does not enlarge it")
            if not 1 <= actions.inspected[i] <= self.algorithm.neighbors:
                raise Violation("a repair looked at more neighbors than it may")
            before, after = actions.diversity_before[i], actions.diversity_after[i]
            if self.privacy.further:  # it may have been another promise that was sought; none becomes worse
                worse = after < min(before, self.privacy.l)
            else:
                worse = after < before or (len(self.policy.sensitive) == 1 and after == before)
            if worse:
                raise Violation("a repair left a group no more diverse")
            if actions.time_change[i] <= 0:
                raise Violation("a repair that takes no time")
            self.actions[ACTIONS[action]] += 1
        self.windows += len(windows)
        if len(windows):
            self.carried = int(windows.carried[-1])

    def agree(self, counters: SuhdsaCounters, deadline: int | None) -> None:
        """Judge the shard's counters and its next deadline by what was observed so far."""
        withheld, waiting = self.reasons.total(), len(self.waiting)
        left = self.released + withheld + self.forgotten
        expect("in = released + suppressed + forgotten + buffered", len(self.rows), left + waiting)
        expect("forgotten", counters.forgotten, self.forgotten)
        expect("tuples_in", counters.tuples_in, len(self.rows))
        expect("released", counters.released, self.released)
        expect("buffered", counters.buffered, waiting)
        expect("suppressed", counters.suppressed, {reason: self.reasons[reason] for reason in self.privacy.reasons})
        expect("releases", counters.releases, {kind: self.kinds[kind] for kind in KINDS})
        expect("windows", counters.windows, self.windows)
        expect("repairs", (counters.swaps, counters.merges), (self.actions["swap"], self.actions["merge"]))
        expect("oldest_waiting", counters.oldest_waiting, len(self.rows) - next(iter(self.waiting), len(self.rows)))
        expect("delays", int(counters.delays.sum()), self.released + withheld)
        if not isclose(counters.loss_sum, self.loss_sum, rel_tol=1e-9, abs_tol=1e-9):
            raise Violation(f"loss_sum: stated {counters.loss_sum}, found {self.loss_sum}")
        new = waiting - counters.carried
        if counters.size is not None and waiting >= counters.size and new >= min(self.privacy.k, counters.size):
            raise Violation("a window is full and has not closed")
        due = []
        if self.algorithm.event_time is not None and new:
            due.append(self.rows[list(self.waiting)[counters.carried]].event_time + self.algorithm.event_time)
        if self.algorithm.longest_delay.event_time is not None and waiting:
            due.append(min(self.rows[p].event_time for p in self.waiting) + self.algorithm.longest_delay.event_time)
        expect("next_deadline", deadline, min(*due, 2**63 - 2) if due else None)


def entropy(values: Sequence[object]) -> float:
    """Return the entropy of some values, in bits."""
    return sum(-n / len(values) * log2(n / len(values)) for n in Counter(values).values())
