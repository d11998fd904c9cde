"""Checks of k-anonymity and of privacy models for sensitive values, recomputed from released rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.privacy import Privacy
from crenel.evidence.outputs import RunOutputs, values_of
from crenel.evidence.verify.classes import ALONE, FOLLOWING, ReleasedClasses, counted, numbered
from crenel.evidence.verify.formulas import FORMULAS, diversity
from crenel.evidence.verify.verdict import Check, Finding, judged, unchecked, unseen

ROWS, CODES, UNKNOWN = "rows", "codes", "unknown"
"""Ways to distinguish persons: each row is one person, pseudonyms identify persons, or neither."""


Members: TypeAlias = dict[int, tuple[int, dict[str, int]]]
"""Number of persons, and of persons by value, by index of the release in ``audit``."""


class _Values(NamedTuple):
    """Distinct values of each row of ``released`` in a column: row and number of each, and the text of each number."""

    rows: NDArray[np.int64]
    numbers: NDArray[np.int64]
    texts: Mapping[int, str | None]

    def named(self, counts: Mapping[int, int]) -> dict[str, int]:
        """Return counts by value from those by its number."""
        return {self.texts[number] or "": count for number, count in counts.items()}


@dataclass(frozen=True)
class RevealedReleases:
    """Releases whose members the rows reveal, and the persons among them.

    Attributes
    ----------
    audit : one row per release
    place : (releases,) rows of ``audit`` whose members are exactly the rows under their generalization
    only_release : (generalizations,) index in ``audit`` of the only release under each; -1 where there are several
    by : how persons are distinguished: ``ROWS``, ``CODES`` or ``UNKNOWN``
    person : (rows of released,) number of the person; empty where persons are unknown
    """

    audit: pa.Table
    place: NDArray[np.int64]
    only_release: NDArray[np.int64]
    by: str
    person: NDArray[np.int64]

    @classmethod
    def from_outputs(cls, outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses) -> RevealedReleases:
        """Return the releases and persons that a run's outputs reveal."""
        place = np.flatnonzero(classes.reveals_members)
        only_release = np.full(classes.count, -1, np.int64)
        only_release[classes.audit[place]] = place
        pseudonym = outputs.policy.pseudonym
        if pseudonym is not None and pseudonym.scope != "day":
            return cls(audit, place, only_release, CODES, numbered(outputs.released[pseudonym.column]))
        once = outputs.policy.subject is None
        rows = np.arange(outputs.released.num_rows) if once else np.zeros(0, np.int64)
        return cls(audit, place, only_release, ROWS if once else UNKNOWN, rows)

    def release(self, place: int, text: str) -> Finding:
        """Return a finding about the release in one row of ``audit``."""
        row = self.audit.slice(place, 1).to_pylist()[0]
        return Finding(text, row["shard"], row["release_id"])

    def members(self, classes: ReleasedClasses, column: _Values) -> Members:
        """Return the persons of each release, and the persons by value.

        Where persons are unknown, the result covers releases for which ``audit`` states as many subjects as tuples.
        """
        rows, values = column.rows, column.numbers
        keys, persons = classes.released[rows], classes.rows
        if self.by == CODES:
            triples = np.unique(np.stack([keys, self.person[rows], values], axis=1), axis=0)
            keys, values = triples[:, 0], triples[:, 2]
            pairs = np.unique(triples[:, :2], axis=0)
            persons = np.bincount(pairs[:, 0], minlength=classes.count)
        stated, tuples = self.audit["subjects"].to_numpy(), self.audit["tuples"].to_numpy()
        return {
            place: (int(persons[key]), column.named(counts))
            for key, counts in counted(keys, values)
            if (place := int(self.only_release[key])) >= 0 and (self.by != UNKNOWN or stated[place] == tuples[place])
        }

    def joint_members(self, classes: ReleasedClasses, column: _Values) -> Members:
        """Return the persons, and persons by value, of several releases that share one generalization.

        The key is the index of the first of these releases. The result covers releases for which ``audit`` states as
        many subjects as tuples.
        """
        stated, tuples = self.audit["subjects"].to_numpy(), self.audit["tuples"].to_numpy()
        plain = classes.judged & ~np.isin(classes.kind.astype(str), (*ALONE, *FOLLOWING)) & (stated == tuples)
        fit = np.bincount(classes.audit, plain, minlength=classes.count) == classes.releases
        keys, first = np.unique(classes.audit, return_index=True)
        row_of_key = {
            key: place for key, place in zip(keys.tolist(), first.tolist(), strict=True) if self.only_release[key] < 0
        }
        return {
            row_of_key[key]: (int(classes.rows[key]), column.named(counts))
            for key, counts in counted(classes.released[column.rows], column.numbers)
            if key in row_of_key and fit[key]
        }


def subjects(outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses, k: int, *, synthetic: bool) -> list[Check]:
    """Check that every release states at least k persons, and that the rows confirm this where they reveal persons.

    ``synthetic``: whether releases count synthetic records instead, exactly as many as each has.
    """
    seen = RevealedReleases.from_outputs(outputs, audit, classes)
    stated, tuples = audit["subjects"].to_numpy(), audit["tuples"].to_numpy()
    if synthetic:
        unit, least = "records", f"{k} synthetic records or more, and one row for each"
        few, wrong = stated < k, stated != tuples
    else:
        unit, least, kinds = "persons", f"{k} persons or more, and no more than rows", classes.kind.astype(str)
        few = (stated < k) & (kinds != "generalized")
        wrong = (stated > tuples) & ~np.isin(kinds, (*ALONE, *FOLLOWING))
    findings = [
        seen.release(place, f"has {stated[place]} {unit}") for place in np.flatnonzero(few & classes.judged).tolist()
    ]
    for place in np.flatnonzero(wrong & classes.judged).tolist():
        findings.append(seen.release(place, f"states {stated[place]} {unit}, and has {tuples[place]} rows"))
    checks = [judged("k", f"{least}, as each of {classes.judged.sum():,} releases says", findings)]
    if synthetic:
        return checks
    if seen.by == UNKNOWN:
        scope = "is not published" if outputs.policy.pseudonym is None else "stays the same for a day only"
        why = f"a pseudonym {scope}, so rows do not identify persons; audit counts persons, each with one or more rows"
        return [*checks, unseen("distinct persons", why)]
    persons = {key: len(counts) for key, counts in counted(classes.released, seen.person)}
    wrong_rows = [
        seen.release(place, f"states {stated[place]} persons, and its rows have {count}")
        for place in seen.place.tolist()
        if (count := persons.get(int(classes.audit[place]), 0)) != stated[place]
    ]
    by = "each row is one" if seen.by == ROWS else "by their pseudonyms"
    words = (
        f"as many as audit says, {by}, in {len(seen.place):,} releases whose rows are all under their generalization"
    )
    return [*checks, judged("distinct persons", words, wrong_rows)]


def sensitive(outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses, privacy: Privacy) -> Iterator[Check]:
    """Check each privacy model of each sensitive column, recomputed from the rows."""
    seen = RevealedReleases.from_outputs(outputs, audit, classes)
    for column in outputs.policy.sensitive:
        rows, texts = values_of(outputs, column)
        numbers, least, reference = numbered(texts), privacy.l_of(column)[0], privacy.reference_of(column)
        values = _Values(rows, numbers, dict(zip(numbers.tolist(), texts.to_pylist(), strict=True)))
        members = seen.members(classes, values)
        yield judged(
            f"l of {column}",
            _how_many(f"{least} or more, as each release says, and as many as its rows have,", members, classes),
            list(_undiverse(seen, classes, column, least, values, members)),
        )
        for model, parameter, _ in privacy.further_of(column):
            name, formula = f"{model.name} of {column}", FORMULAS.get(model.name)
            if model.compares and reference is not None and reference.of_stream:
                yield unseen(name, "it compares with the stream so far, and the outputs show its released tuples only")
            elif formula is None:
                yield unchecked(name, "verify has no formula of its own for this privacy model")
            else:
                keeps = partial(formula.keeps, reference, *model.named(parameter).values())
                joint_members = seen.joint_members(classes, values) if formula.holds_for_unions else {}
                yield _kept(seen, classes, name, keeps, members, joint_members)


def _undiverse(
    seen: RevealedReleases,
    classes: ReleasedClasses,
    column: str,
    least: int,
    values: _Values,
    members: Members,
) -> Iterator[Finding]:
    stated, kinds = seen.audit[f"diversity_{column}"].to_numpy(), classes.kind.astype(str)
    for place in np.flatnonzero((stated < least) & (kinds != "generalized") & classes.judged).tolist():
        yield seen.release(place, f"has a diversity of {stated[place]}")
    distinct = {key: len(counts) for key, counts in counted(classes.released[values.rows], values.numbers)}
    grouped = classes.judged & ~np.isin(kinds, ("generalized", *FOLLOWING))
    for place in np.flatnonzero(grouped).tolist():
        if place in members:
            persons, counts = members[place]
            actual = diversity(persons, list(counts.values()))
            if actual != stated[place]:
                yield seen.release(place, f"states a diversity of {stated[place]}, and its rows have {actual}")
        elif stated[place] > distinct.get(int(classes.audit[place]), 0):
            actual = distinct.get(int(classes.audit[place]), 0)
            yield seen.release(place, f"states a diversity of {stated[place]}, and its rows have {actual} values")


def _kept(
    seen: RevealedReleases,
    classes: ReleasedClasses,
    name: str,
    keeps: Callable[[int, dict[str, int]], bool | None],
    members: Members,
    joint_members: Members,
) -> Check:
    findings, judgments = [], {place: keeps(persons, counts) for place, (persons, counts) in members.items()}
    for place in sorted(place for place, kept in judgments.items() if kept is False):
        findings.append(seen.release(place, f"does not keep {name}"))
    of_unions = {place: keeps(persons, counts) for place, (persons, counts) in joint_members.items()}
    for place in (place for place, kept in of_unions.items() if kept is False):
        findings.append(seen.release(place, f"does not keep {name}, with others under its generalization"))
    known = {place: members[place] for place, kept in judgments.items() if kept is not None}
    unions = sum(kept is not None for kept in of_unions.values())
    if not known and not unions:
        return unseen(name, _how_many("recomputed", known, classes))
    mixed = f"; {unions:,} generalizations of several keep it as a whole" if unions else ""
    return judged(name, _how_many("kept", known, classes) + mixed, findings)


def _how_many(words: str, members: Members, classes: ReleasedClasses) -> str:
    rest = int(classes.judged.sum()) - len(members)
    others = f"; the rows do not show members or persons of {rest:,} others" if rest else ""
    return f"{words} in {len(members):,} releases{others}"
