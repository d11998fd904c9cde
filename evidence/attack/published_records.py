"""Attacks on the outputs of a run and its input, without ground truth.

These attacks need no link from rows to persons. The success of a guess among all fits is known, because one fit must be
right. Disclosure has its truth in the input. Homogeneity needs rows alone, and intersection needs a pseudonym that
links rows.
"""

from __future__ import annotations

import numpy as np

from crenel.anonymity.model.policy import Shards
from crenel.evidence.attack import disclosure, identity
from crenel.evidence.attack.attack_data import RowGroups, Scene, groups, placed, runs, spawned
from crenel.evidence.attack.queries import errors, median
from crenel.evidence.attack.result import ALL, PLACED, AttackError, AttackResults, Effort, InputNames, Sums, Tries
from crenel.evidence.attack.search import Integers, crowds
from crenel.evidence.outputs import RunOutputs
from crenel.evidence.sample import Sample


def attack_outputs(
    outputs: RunOutputs,
    sample: Sample,
    k: int,
    effort: Effort,
    *,
    exact: bool = True,
    shards: Shards | None = None,
    names: InputNames | None = None,
) -> AttackResults:
    """Attack the outputs of a run.

    Parameters
    ----------
    sample : the complete input
    k : of the privacy model
    exact : whether each row lies in its generalization, because no noise was added before
    shards : how the run divided the input; None: it had one shard
    names : of the inputs, for messages; None: those of a job

    Raises
    ------
    AttackError
        Nothing was released, or ``sample`` is not the input of the run.
    """
    names = names or InputNames()
    if not len(outputs.released):
        raise AttackError(f"{names.released}: holds no rows to attack")
    random, sums = np.random.default_rng(0), Sums("outputs")
    scene = Scene.of(outputs, sample, shards)
    seen = groups(scene)
    if exact:
        _require_input(scene, seen, names)
    observers = [(ALL, seen, random)]
    if scene.placement is not None:
        # A separate random generator keeps the other results unchanged.
        reader, apart = placed(scene, scene.placement), runs(scene, scene.placement)
        observers.append((PLACED, groups(reader, apart), spawned(random, 1)[0]))
    weights = [identity.weights(observed, own) for _, observed, own in observers]
    most = effort.seeds * effort.targets
    targets = random.permutation(len(sample))[:most]
    blind = Tries(len(targets), len(targets) / len(seen.group_of_row))
    note = "an upper limit, as if each target had one of the best-fitting rows"
    for (knows, observed, _), weight in zip(observers, weights, strict=True):
        fits = identity.fits(observed, weight, observed.points[targets])
        sums.add("re-identification at 1", knows, fits, baseline=blind, promised=1 / k, note=note)
    rows = random.permutation(len(seen.group_of_row))[:most]
    blind = Tries(len(rows), len(rows) / len(sample))
    note = "of one row; persons with several rows are linked as often or more often"
    for knows, observed, _ in observers:
        sums.add("linking", knows, identity.link_unseen(observed, rows), baseline=blind, promised=1 / k, note=note)
    for name in sample.policy.sensitive:
        known, arrays = sample.tuples.members.column(name), name in dict(sample.policy.arrays)
        value = disclosure.values(outputs.released[name], known, arrays=arrays)
        for (knows, observed, _), weight in zip(observers, weights, strict=True):
            right, usual = disclosure.disclose(observed, weight, observed.points[targets], value, value.known[targets])
            sums.add(f"disclosure of {name}", knows, right, baseline=usual)
        for knows, observed, own in observers:
            add_homogeneity(sums, name, knows, disclosure.homogeneity(observed, value, own))
    pseudonym = outputs.policy.pseudonym
    if pseudonym is not None and pseudonym.links_releases and pseudonym.column in outputs.released.column_names:
        codes = outputs.released[pseudonym.column].to_pandas().astype(str)
        owner = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        add_intersection(sums, identity.intersect(scene, owner, random, effort.targets), k)
    return AttackResults(
        tuple(sums.attacks()),
        median(errors(scene, seen, random, effort.seeds * effort.queries)),
        len(seen.group_of_row),
    )


def _require_input(scene: Scene, seen: RowGroups, names: InputNames) -> None:
    """Raise if the rows cannot come from this input."""
    if len(seen.group_of_row) > len(scene.points):
        rows, records = len(seen.group_of_row), len(scene.points)
        raise AttackError(f"{names.released}: has {rows:,} rows, and {names.sample} {records:,}; give {names.remedy}")
    if any(f"{name}_min" not in scene.outputs.released.column_names for name in scene.numbers):
        return  # a representative value need not be any member's value
    every = np.arange(len(seen.size))
    inside = crowds(seen.lower, seen.upper, seen.points, seen.metric, *seen.reach(every, seen.points))
    strange = int((inside == 0).sum())
    if strange:
        raise AttackError(
            f"{names.released}: no record of {names.sample} lies in {strange:,} of {len(inside):,} generalizations; "
            f"give {names.remedy}"
        )


def add_homogeneity(sums: Sums, name: str, knows: str, tries: tuple[Tries, Tries]) -> None:
    """Add the rows in groups of a single value, and their number by chance."""
    sums.add(
        f"homogeneity in {name}",
        knows,
        tries[0],
        baseline=tries[1],
        note="rows of groups with a single value; baseline: values assigned by chance",
    )


def add_intersection(sums: Sums, left: Integers, k: int) -> None:
    """Add the success of guesses among the persons that remain for all rows of one person."""
    sums.add(
        "intersection",
        f"{ALL} at all times, and the rows of each person",
        Tries(len(left), float((1 / np.maximum(left, 1)).sum())),
        promised=1 / k,
        note=f"persons of two rows or more; {(left < k).mean() if len(left) else 0:.0%} have fewer than k candidates",
    )
