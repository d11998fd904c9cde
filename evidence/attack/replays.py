"""Attacks on replays of a sample, where the person behind each row is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.durations import format_duration
from crenel.evidence.attack import disclosure, identity
from crenel.evidence.attack.attack_data import (
    Moments,
    Placement,
    RowGroups,
    Scene,
    Truth,
    groups,
    groups_at_moment,
    groups_by_moment,
    moments_of_order,
    part_of,
    persons_of,
    placed,
    points_of,
    runs,
    spawned,
)
from crenel.evidence.attack.downcoding import downcode, downcode_placed
from crenel.evidence.attack.formation import learned_minimality
from crenel.evidence.attack.minimality import Inferred, minimality
from crenel.evidence.attack.published_records import add_homogeneity, add_intersection
from crenel.evidence.attack.queries import errors, median
from crenel.evidence.attack.result import ALL, PLACED, AttackError, AttackResults, Effort, InputNames, Sums, Tries
from crenel.evidence.attack.search import Floats, Integers
from crenel.evidence.replay import replay_outputs
from crenel.evidence.sample import ReplaySetting, Sample

RELEASE_KNOWN = f"{ALL}, and the release"
"""Knowledge of an attacker who knows the release of a person's row."""
MOMENT_KNOWN = f"{ALL}, and the moment"
"""Knowledge of the rows that were released together with the row of a person."""
FORMATION_KNOWN = f"{ALL}, order, and the releases"
"""Knowledge of the order of arrival and of the members of each release."""
SEED_KNOWN = f"{ALL}, order, all other values, and the seed"
"""Knowledge of all but the assignment of the sensitive values of one class to its members."""
FOLDS = 5
"""Number of folds of persons: each seed holds out one fold, and attacks another."""

_SETS = 6
"""Maximum number of attribute sets per size, for partially informed attackers."""
_LOOKS = 16
"""Tuples of a shard between two observations of an attacker who watches releases, at most."""


def attack_replays(
    sample: Sample,
    setting: ReplaySetting,
    effort: Effort,
    on_progress: Callable[[], object] = lambda: None,
    names: InputNames | None = None,
) -> AttackResults:
    """Replay a sample under a setting, with seeds from ``setting.seed`` on, and attack its outputs.

    Each seed holds out a fifth of the persons as the control group.

    Parameters
    ----------
    on_progress : called after each seed
    names : of the inputs, for messages; None: those of a job

    Raises
    ------
    AttackError
        There are too few persons, or nothing was released.
    """
    names = names or InputNames()
    sums, wrong, released = Sums("replay"), [np.zeros(0)], 0
    person = persons_of(sample)
    people = int(person.max(initial=-1)) + 1
    if people < FOLDS:
        raise AttackError(
            f"{names.sample} has {people} persons, and a fifth is the control group; give {FOLDS}, or a few thousand"
        )
    fold = np.random.default_rng(setting.seed).permutation(people) % FOLDS
    for number in range(effort.seeds):
        random = np.random.default_rng([setting.seed, number])
        inside = np.flatnonzero(fold[person] != number % FOLDS)
        outside = random.permutation(np.flatnonzero(fold[person] == number % FOLDS))
        outside = outside[np.unique(person[outside], return_index=True)[1]]
        known = part_of(sample, inside)
        replayed = replay_outputs(known, replace(setting, seed=setting.seed + number), _LOOKS)
        scene = Scene.of_replay(replayed, known, setting.shards)
        released += len(scene.lower)
        if len(scene.lower):
            wanted = fold[person[inside]] == (number + 1) % FOLDS
            attacker = _Attacker(scene, setting, effort, sums, random)
            targets = attacker.targets(wanted)
            attacker.identity(targets, attacker.rows(wanted))
            attacker.intersection()
            attacker.disclosure(targets, part_of(sample, random.permutation(outside)[: effort.targets]))
            attacker.downcoding()
            attacker.minimality()
            wrong.append(errors(scene, attacker.blind.seen, random, effort.queries))
        on_progress()
    if not released:
        raise AttackError(f"privacy: nothing of {names.sample} was released under it; there is nothing to attack")
    return AttackResults(tuple(sums.attacks()), median(np.concatenate(wrong)), released)


@dataclass(frozen=True)
class _Observer:
    """An attacker's knowledge in words, the groups it cannot distinguish, and the weights of these groups."""

    knows: str
    seen: RowGroups
    weight: Floats


class _Attacker:
    """Attacks on one replay; results are added to ``sums``."""

    def __init__(
        self, scene: Scene, setting: ReplaySetting, effort: Effort, sums: Sums, random: np.random.Generator
    ) -> None:
        if scene.truth is None or scene.placement is None:
            raise ValueError("it is not known whose the rows are, or where they lie")
        self._placement = scene.placement
        # Separate random generators keep the other results unchanged.
        self._random_placed, random_moment = spawned(random, 2)
        self._scene, self._truth, self._setting, self._effort = scene, scene.truth, setting, effort
        self._sums, self._random = sums, random
        self._k = setting.privacy.k
        seen = groups(scene)
        self.blind = _Observer(ALL, seen, identity.weights(seen, random))
        self._timed = [*self._watchers(scene.truth)]
        self._placed = [*self._readers(scene.truth, scene.placement)]
        self._releases = groups_by_moment(scene, scene.truth.position, 0, self._k)
        at_moment = groups_at_moment(scene, scene.truth)
        self._momentary = _Observer(MOMENT_KNOWN, at_moment, identity.weights(at_moment, random_moment))

    def _known(self, truth: Truth) -> list[tuple[str, Moments, int]]:
        """Return variants of arrival knowledge: words, times, and the error of the attacker's knowledge."""
        known = [
            (f"order to within {rows}" if rows else "exact order", truth.position, rows)
            for rows in self._effort.within_rows
        ]
        if truth.time is not None:
            known += [
                (f"times to within {format_duration(time)}", truth.time, time) for time in self._effort.within_time
            ]
        return known

    def _watchers(self, truth: Truth) -> Iterator[_Observer]:
        for words, moments, within in self._known(truth):
            seen = groups_by_moment(self._scene, moments, within, self._k)
            yield _Observer(f"{ALL}, {words}", seen, identity.weights(seen, self._random))

    def _readers(self, truth: Truth, placement: Placement) -> Iterator[_Observer]:
        """Yield attackers who read placements, and did not watch releases."""
        scene, random = placed(self._scene, placement), self._random_placed
        seen = groups(scene, runs(scene, placement))
        yield _Observer(PLACED, seen, identity.weights(seen, random))
        for words, moments, within in self._known(truth)[:1]:
            clock = moments.came if moments is truth.position else scene.sample.clock
            guessed = moments_of_order(scene, placement, moments.came, clock)
            seen = groups_by_moment(scene, guessed, within, self._k)
            yield _Observer(f"{PLACED}, {words}", seen, identity.weights(seen, random))

    def targets(self, wanted: NDArray[np.bool_]) -> Integers:
        """Return persons among the wanted tuples, each by one of their released tuples."""
        candidates: Integers = identity.targets_of(self._scene, self._truth, self._random)
        chosen: Integers = candidates[wanted[candidates]]
        return chosen[: self._effort.targets]

    def rows(self, wanted: NDArray[np.bool_]) -> Integers:
        """Return released rows of the wanted tuples, in random order."""
        rows: Integers = self._random.permutation(np.flatnonzero(wanted[self._truth.row]))
        return rows[: self._effort.targets]

    def identity(self, targets: Integers, rows: Integers) -> None:
        """Run re-identification of some tuples, and linkage of some released rows."""
        scene, truth, add, promised = self._scene, self._truth, self._sums.add, 1 / self._k
        blind = Tries(len(targets), len(targets) / len(truth.row))
        five = Tries(blind.count, min(5 * blind.succeeded, blind.count))
        release = identity.rank_by_release(scene, truth, self._releases, targets)
        recalled: dict[tuple[int, str], Tries] = {}
        for most, limit, baseline in ((1, promised, blind), (5, min(5 * promised, 1.0), five)):
            for who in (self.blind, *self._timed, *self._placed, self._momentary):
                ranked = identity.rank(scene, truth, who.seen, who.weight, targets, most)
                tries = ranked.within(most)
                add(f"re-identification at {most}", who.knows, tries, baseline=baseline, promised=limit)
                if who is self.blind or who is self._momentary:
                    recalled[most, who.knows] = ranked.recalled(most)
                if who is self.blind and most == 1:
                    self._some_known(targets, blind)
            add(f"re-identification at {most}", RELEASE_KNOWN, release.within(most), baseline=baseline, promised=limit)
        for (most, knows), tries in recalled.items():
            add(f"class recall at {most}", knows, tries)
        blind = Tries(len(rows), len(rows) / len(scene.points))
        for who in (self.blind, *self._timed, *self._placed):
            tries = identity.link(scene, truth, who.seen, rows)
            add("linking", who.knows, tries, baseline=blind, promised=promised)
        for who in (*self._timed, *self._placed):
            alone = rows[who.seen.size[who.seen.group_of_row[rows]] < self._k]
            tries = identity.link(scene, truth, who.seen, alone)
            note = "{count} rows released with fewer than k at a time under their generalization"
            add("linking of rows in small releases", who.knows, tries, promised=promised, note=note)

    def _some_known(self, targets: Integers, blind: Tries) -> None:
        """Run re-identification with only some of the attributes known."""
        count = len(self._scene.names)
        for size in (size for size in self._effort.known if size < count):
            sets = _sets(count, size)
            tries = []
            for columns in sets:
                seen = self.blind.seen.only(columns)
                weight = identity.weights(seen, self._random, identity.CROWD)
                tries.append(identity.rank(self._scene, self._truth, seen, weight, targets, 1).within(1))
            best = max(range(len(sets)), key=lambda i: tries[i].succeeded)
            names = ", ".join(self._scene.names[i] for i in sets[best])
            self._sums.add(
                "re-identification at 1",
                f"{size} of {count} of them",
                Tries(len(targets), sum(tried.succeeded for tried in tries) / len(sets)),
                baseline=blind,
                promised=1 / self._k,
                note=f"mean of {len(sets)} sets; most by {names}: {tries[best].share:.2%}",
            )

    def intersection(self) -> None:
        """Count the persons that remain for all rows of one person."""
        if self._scene.sample.tuples.subject is not None:
            owner = self._scene.person[self._truth.row]
            left = identity.intersect(self._scene, owner, self._random, max(self._effort.targets // 10, 1))
            add_intersection(self._sums, left, self._k)

    def disclosure(self, targets: Integers, control: Sample) -> None:
        """Infer sensitive values of some tuples and of the control group, and measure homogeneity."""
        scene, outside = self._scene, points_of(control)
        for name in scene.sample.policy.sensitive:
            came = [part.tuples.members.column(name) for part in (scene.sample, control)]
            arrays = name in dict(scene.sample.policy.arrays)
            value = disclosure.values(scene.outputs.released[name], pa.concat_arrays(came), arrays=arrays)
            truth, control_truth = value.known[targets], value.known[len(scene.sample) :]
            for who in (self.blind, *self._timed, *self._placed, self._momentary):
                right, usual = disclosure.disclose(who.seen, who.weight, who.seen.points[targets], value, truth)
                self._sums.add(f"disclosure of {name}", who.knows, right, baseline=usual)
            for who in (self.blind, self._momentary):
                first = identity.rank(scene, self._truth, who.seen, who.weight, targets, 1)
                majority = disclosure.majorities(who.seen, value)[first.first[:, 0]]
                right_class = (first.own[:, 0] > 0) & value.holds(truth, majority)
                tries = Tries(len(targets), float(right_class.sum()))
                self._sums.add(f"disclosure of {name}, class found", who.knows, tries)
            released_groups, common = self._releases, disclosure.majorities(self._releases, value)
            row = np.empty(len(scene.points), np.int64)
            row[self._truth.row] = np.arange(len(self._truth.row))
            hits = Tries(
                len(targets), float(value.holds(truth, common[released_groups.group_of_row[row[targets]]]).sum())
            )
            self._sums.add(f"disclosure of {name}", RELEASE_KNOWN, hits, baseline=usual)
            right, _ = disclosure.disclose(self.blind.seen, self.blind.weight, scene.points[targets], value, truth)
            others, _ = disclosure.disclose(self.blind.seen, self.blind.weight, outside, value, control_truth)
            attack = f"disclosure of {name}, beside control"
            self._sums.add(attack, ALL, right, baseline=others, excess=True)
            for who, random in (
                *((who, self._random) for who in (self.blind, *self._timed[:1])),
                (self._placed[0], self._random_placed),
            ):
                add_homogeneity(self._sums, name, who.knows, disclosure.homogeneity(who.seen, value, random))

    def downcoding(self) -> None:
        """Infer finer generalizations than published."""
        tries, chance = downcode(self._scene, self._truth, self.blind.seen)
        note = "rows with a correct finer generalization; baseline: persons drawn by chance"
        self._sums.add("downcoding", "no values", tries, baseline=chance, note=note)
        tries, without = downcode_placed(self._scene, self._truth, self._placement.writer)
        knows = "placement, no values"
        note = "{count} fully generalized rows; each gets its writer's range; baseline: drawn by chance"
        self._sums.add("downcoding of fully generalized rows", knows, tries, baseline=without, note=note)

    def minimality(self) -> None:
        """Infer sensitive values from the way classes were formed."""
        effort, setting = self._effort, self._setting
        sample = self._scene.sample.first(effort.tuples)
        for column, name in enumerate(sample.policy.sensitive):
            if not effort.draws or not _matters(setting, name):
                continue
            inferred = learned_minimality(self._scene.sample.first(2 * effort.tuples), setting, column, self._random)
            self._inferred(name, FORMATION_KNOWN, inferred)
            inferred = minimality(sample, setting, column, effort.draws, effort.classes, self._random)
            self._inferred(name, SEED_KNOWN, inferred)

    def _inferred(self, name: str, knows: str, inferred: Inferred) -> None:
        add, attack, usual = self._sums.add, f"minimality in {name}", "baseline: the commonest value of the class"
        note = f"{{count}} members of classes with several values; {usual}"
        add(attack, knows, inferred.guessed, baseline=inferred.usual, note=note)
        note = "{count} classes with rare values, a member of each; baseline: by chance"
        add(f"{attack}, rare value at 1", knows, inferred.rare, baseline=inferred.usual_rare, note=note)
        note = f"{{count}} values that are certain to the attacker; {usual}"
        add(f"{attack}, deduced", knows, inferred.deduced, baseline=inferred.usual_deduced, note=note)
        note = "{count} members with a rare value, of which the attacker is certain"
        add(f"{attack}, rare values deduced", knows, inferred.rare_deduced, note=note)


def _sets(count: int, size: int) -> list[Integers]:
    """Return attribute sets of one size, the same ones for each seed."""
    if comb(count, size) <= _SETS:
        return [np.array(columns) for columns in combinations(range(count), size)]
    random = np.random.default_rng(size)
    return [np.sort(random.permutation(count)[:size]) for _ in range(_SETS)]


def _matters(setting: ReplaySetting, name: str) -> bool:
    """Return whether groups depend on the values of a sensitive column."""
    return setting.privacy.l_of(name)[0] > 1 or bool(setting.privacy.further_of(name))
