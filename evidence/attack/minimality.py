"""Minimality attack: inference from the fact that an algorithm formed a class.

After Wong and others, "Minimality Attack in Privacy Preserving Data Publishing" (2007). The attacker attacks one class
at a time, and knows all but the assignment of its sensitive values to its members: all quasi-identifiers, the order of
arrival, the members of each release, the values of all other records, and the algorithm. The attacker exchanges the
values within the class, and runs the algorithm. An assignment is excluded if any release up to that of the class has
other members. So a class discloses values of its members both by its own formation and by that of earlier classes, for
which its members were buffered and not chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import comb

import numpy as np
from numpy.typing import NDArray

from crenel.evidence.attack.result import Tries
from crenel.evidence.attack.search import Floats, Integers
from crenel.evidence.replay import replay_shard
from crenel.evidence.sample import ReplaySetting, Sample
from crenel.evidence.tables import ShardOutput

_RARE = 0.5
"""Maximum number of records with a rare value, relative to the most common value."""

_CERTAIN = 0.95
"""Minimum probability of a value that the attacker counts as deduced."""

_LEAST = 5
"""Minimum number of consistent assignments that would give a member another value than the most common one by chance.

With fewer, all of them may agree by chance, and the attacker guesses by the shares of the values.
"""

_AT_ONCE = 500
"""Maximum tuples per step of a replay, which ends with the first step that differs."""


@dataclass(frozen=True)
class Posterior:
    """Inference about the members of a class with several values.

    Attributes
    ----------
    values : (values,) numbers of the values of the class, ascending
    is_rare : (values,) whether each is rare
    own : (members,) index of the true value among them
    share : (values,) share of each in the class
    likely : (members, values) probability of each
    """

    values: Integers
    is_rare: NDArray[np.bool_]
    own: Integers
    share: Floats
    likely: Floats

    @classmethod
    def of(cls, held: Integers, is_rare: NDArray[np.bool_]) -> Posterior:
        """Return the state before the attack: each value is as likely as its share of the class."""
        values, own, counts = np.unique(held, return_inverse=True, return_counts=True)
        share = counts / len(held)
        return cls(values, is_rare[values], own.reshape(-1), share, np.repeat(share[None], len(held), axis=0))


@dataclass(frozen=True)
class Inferred:
    """Success of inference about members of classes with several values.

    Attributes
    ----------
    guessed : guesses of each member's value
    usual : the same by the most common value of the class
    rare : guesses, one in each class with rare values, which member has such a value
    usual_rare : the same by chance
    deduced : values that are certain to the attacker
    usual_deduced : the same members by the most common value of the class
    rare_deduced : the members with a rare value; success: it is certain to the attacker
    """

    guessed: Tries
    usual: Tries
    rare: Tries
    usual_rare: Tries
    deduced: Tries
    usual_deduced: Tries
    rare_deduced: Tries


@dataclass(frozen=True)
class _Class:
    """A class of a replay: its shard, the output and the release there that hold it, and the rows of its members."""

    shard: int
    output: int
    release: int
    members: Integers


def minimality(
    sample: Sample, setting: ReplaySetting, column: int, draws: int, classes: int, random: np.random.Generator
) -> Inferred:
    """Infer the values of the members of some classes.

    The attacker even knows the seed. A deterministic algorithm needs none.

    Parameters
    ----------
    column : index of the sensitive attribute; of an array, the attacker infers all values together
    draws : assignments of a class, at most; where there are more, as many are drawn by chance
    classes : number of classes, at most
    """
    columns = _columns(sample, column)
    codes = np.unique(sample.tuples.sensitive[:, columns], axis=0)
    value, is_rare = numbered(sample, column)
    formed = {
        number: [*replay_shard(sample, setting, number, _AT_ONCE)]
        for number in np.unique(sample.shards(setting.shards)).tolist()
    }
    several = [one for one in _classes(formed, len(sample) - 1) if len(np.unique(value[one.members])) > 1]
    posteriors = []
    for number in random.permutation(len(several))[:classes]:
        one = several[number]
        known = Posterior.of(value[one.members], is_rare)
        assignments, is_complete = _assignments(known.own, draws, random)
        votes = np.zeros_like(known.likely)
        for assigned in assignments:
            changed = sample.tuples.sensitive.copy()
            changed[one.members, columns] = codes[known.values[assigned]]
            other = replace(sample, tuples=replace(sample.tuples, sensitive=changed))
            if (assigned == known.own).all() or _forms(other, setting, one, formed[one.shard]):
                votes[np.arange(len(votes)), assigned] += 1
        consistent = votes[0].sum()
        if is_complete:
            posteriors.append(replace(known, likely=votes / consistent))
        elif consistent * (1 - known.share.max()) < _LEAST:
            posteriors.append(known)
        else:
            # Nothing is certain that one of some assignments contradicts.
            likely = np.where(votes < consistent, np.minimum(votes / consistent, _CERTAIN - 1e-9), 1.0)
            posteriors.append(replace(known, likely=likely))
    return judged(posteriors)


def numbered(sample: Sample, column: int) -> tuple[Integers, NDArray[np.bool_]]:
    """Return (tuples,) the number of the value of a sensitive attribute, from 0, and (values,) whether each is rare.

    All values of an array count as one value.
    """
    codes = sample.tuples.sensitive[:, _columns(sample, column)]
    _, number, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    return number.reshape(-1).astype(np.int64), counts <= _RARE * counts.max(initial=0)


def judged(posteriors: Sequence[Posterior]) -> Inferred:
    """Return the success of an attacker."""
    nothing = Tries(0, 0.0)
    names = ("guessed", "usual", "rare", "usual_rare", "deduced", "usual_deduced", "rare_deduced")
    sums = dict.fromkeys(names, nothing)
    for one in posteriors:
        # Of equally likely values, the attacker guesses the most common one of the class.
        guess = np.argmax(one.likely + 1e-9 * one.share, axis=1)
        right, usual, rare = guess == one.own, one.own == one.share.argmax(), one.is_rare[one.own]
        certain = one.likely.max(axis=1) >= max(_CERTAIN, float(one.share.max()) + 1e-9)
        tried = {"guessed": right, "usual": usual, "deduced": right[certain], "usual_deduced": usual[certain]}
        tried["rare_deduced"] = (right & certain)[rare]
        if rare.any():
            tried["rare"] = rare[[one.likely[:, one.is_rare].sum(axis=1).argmax()]]
            tried["usual_rare"] = rare.mean(keepdims=True)
        for name, succeeded in tried.items():
            sums[name] += Tries(len(succeeded), float(succeeded.sum()))
    return Inferred(**sums)


def _columns(sample: Sample, column: int) -> slice:
    """Return the columns of the codes of a sensitive attribute."""
    begin = sum(sample.policy.widths[:column])
    return slice(begin, begin + sample.policy.widths[column])


def _classes(formed: dict[int, list[ShardOutput]], last: int) -> Iterator[_Class]:
    """Yield all classes, without those of the end of the sample where there are others."""
    ended = all(output.after == last for outputs in formed.values() for output in outputs)
    for number, outputs in formed.items():
        for i, output in enumerate(outputs):
            if output.after < last or ended:
                ends = np.concatenate([[0], np.cumsum(output.releases.tuples)]).tolist()
                for release, (start, stop) in enumerate(pairwise(ends)):
                    yield _Class(number, i, release, output.rows[start:stop])


def _forms(sample: Sample, setting: ReplaySetting, one: _Class, formed: list[ShardOutput]) -> bool:
    """Return whether a sample forms a class and all releases of its shard before."""
    again = replay_shard(sample, setting, one.shard, _AT_ONCE)
    for i in range(one.output + 1):
        output = next(again, None)
        if output is None:
            return False
        if i == one.output:
            return _same(output, formed[i], one.release + 1)
        if not (_same(output, formed[i]) and np.array_equal(output.suppressed_rows, formed[i].suppressed_rows)):
            return False
    return True


def _same(one: ShardOutput, other: ShardOutput, releases: int | None = None) -> bool:
    """Return whether two outputs have the same members in each release, or in each of the first ``releases``."""
    first, second = (_sorted(output, releases) for output in (one, other))
    return one.after == other.after and np.array_equal(first, second)


def _sorted(output: ShardOutput, releases: int | None) -> Integers:
    """Return (members, 2) release and row of each, in this order."""
    release = np.repeat(np.arange(len(output.releases.tuples)), output.releases.tuples)
    both = np.column_stack([release, output.rows])[: None if releases is None else int(np.sum(release < releases))]
    return np.asarray(both[np.lexsort(both.T[::-1])])


def _assignments(held: Integers, draws: int, random: np.random.Generator) -> tuple[list[Integers], bool]:
    """Return assignments of values to members, and whether these are all; otherwise ``draws`` by chance."""
    count, left = 1, len(held)
    for of_value in np.bincount(held).tolist():
        count *= comb(left, of_value)
        left -= of_value
    if count > draws:
        return [random.permutation(held) for _ in range(draws)], False
    return [np.array(values) for values in _arranged(sorted(held.tolist()))], True


def _arranged(values: list[int]) -> Iterator[list[int]]:
    """Yield each distinct order of values."""
    if not values:
        yield []
    for value in sorted(set(values)):
        left = values.copy()
        left.remove(value)
        for order in _arranged(left):
            yield [value, *order]
