"""Checks of k-anonymity and of privacy models for sensitive values, recomputed from released rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.privacy_model import Parameter
from crenel.anonymity.model.reference import Reference
from crenel.evidence.outputs import RunOutputs, values_of
from crenel.evidence.verify import formulas
from crenel.evidence.verify.classes import ALONE, FOLLOWING, ReleasedClasses, counted, numbered
from crenel.evidence.verify.verdict import Check, Finding, judged, unseen

ROWS, CODES, UNKNOWN = "rows", "codes", "unknown"
"""Ways to distinguish persons: each row is one person, pseudonyms identify persons, or neither."""


Members: TypeAlias = Mapping[int, tuple[int, Mapping[int, int]]]
"""Number of persons, and of persons by value number, by index of the release in ``audit``."""

Keeps: TypeAlias = Callable[[int, Mapping[int, int]], bool | None]
"""A test of a privacy model on the number of persons, and of persons by value; None where it cannot decide."""

_BY_COUNTS: Mapping[str, Callable[..., bool]] = {
    "alpha": formulas.keeps_alpha,
    "entropy_l": formulas.keeps_entropy,
    "recursive": formulas.keeps_recursive,
}
_BY_VALUES: Mapping[str, Callable[[float, int, Mapping[str, int], Reference], bool | None]] = {
    "t": formulas.keeps_t,
    "beta": formulas.keeps_beta,
}


_MIXED = ("alpha", "entropy_l", "t", "beta")
"""Privacy models that hold for the union of several releases if they hold for each."""


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

    def members(
        self, classes: ReleasedClasses, rows: NDArray[np.int64], values: NDArray[np.int64]
    ) -> dict[int, tuple[int, dict[int, int]]]:
        """Return by index in ``audit`` the persons of each release, and the persons by value number.

        Where persons are unknown, the result covers releases for which ``audit`` states as many subjects as tuples.
        ``rows`` and ``values``: (values,) distinct values of each row of ``released``.
        """
        keys, persons = classes.released[rows], classes.rows
        if self.by == CODES:
            triples = np.unique(np.stack([keys, self.person[rows], values], axis=1), axis=0)
            keys, values = triples[:, 0], triples[:, 2]
            pairs = np.unique(triples[:, :2], axis=0)
            persons = np.bincount(pairs[:, 0], minlength=classes.count)
        stated, tuples = self.audit["subjects"].to_numpy(), self.audit["tuples"].to_numpy()
        return {
            place: (int(persons[key]), counts)
            for key, counts in counted(keys, values)
            if (place := int(self.only_release[key])) >= 0 and (self.by != UNKNOWN or stated[place] == tuples[place])
        }

    def joint_members(self, classes: ReleasedClasses, rows: NDArray[np.int64], values: NDArray[np.int64]) -> Members:
        """Return the persons, and persons by value, of several releases that share one generalization.

        The key is the index of the first of these releases. The result covers releases for which ``audit`` states as
        many subjects as tuples. A model in ``_MIXED`` that holds for each release holds for their union.
        """
        stated, tuples = self.audit["subjects"].to_numpy(), self.audit["tuples"].to_numpy()
        plain = ~np.isin(classes.kind.astype(str), (*ALONE, *FOLLOWING)) & (stated == tuples)
        fit = np.bincount(classes.audit, plain, minlength=classes.count) == classes.releases
        keys, first = np.unique(classes.audit, return_index=True)
        row_of_key = {
            key: place for key, place in zip(keys.tolist(), first.tolist(), strict=True) if self.only_release[key] < 0
        }
        return {
            row_of_key[key]: (int(classes.rows[key]), counts)
            for key, counts in counted(classes.released[rows], values)
            if key in row_of_key and fit[key]
        }


def subjects(outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses, k: int) -> list[Check]:
    """Check that every release states at least k persons, and that the rows confirm this where they reveal persons."""
    seen = RevealedReleases.from_outputs(outputs, audit, classes)
    stated, tuples = audit["subjects"].to_numpy(), audit["tuples"].to_numpy()
    kinds = classes.kind.astype(str)
    findings: list[Finding] = []
    for place in np.flatnonzero((stated < k) & (kinds != "generalized")).tolist():
        findings.append(seen.release(place, f"has {stated[place]} persons"))
    grouped = ~np.isin(kinds, (*ALONE, *FOLLOWING))
    for place in np.flatnonzero((stated > tuples) & grouped).tolist():
        findings.append(seen.release(place, f"states {stated[place]} persons, and has {tuples[place]} rows"))
    words = f"{k} persons or more, and no more than rows, as each of {audit.num_rows:,} releases says"
    checks = [judged("k", words, findings)]
    if seen.by == UNKNOWN:
        scope = "is not published" if outputs.policy.pseudonym is None else "stays the same for a day only"
        why = f"a pseudonym {scope}, so rows do not identify persons; audit counts persons, each with one or more rows"
        return [*checks, unseen("distinct persons", why)]
    persons = {key: len(counts) for key, counts in counted(classes.released, seen.person)}
    wrong = [
        seen.release(place, f"states {stated[place]} persons, and its rows have {count}")
        for place in seen.place.tolist()
        if (count := persons.get(int(classes.audit[place]), 0)) != stated[place]
    ]
    by = "each row is one" if seen.by == ROWS else "by their pseudonyms"
    words = (
        f"as many as audit says, {by}, in {len(seen.place):,} releases whose rows are all under their generalization"
    )
    return [*checks, judged("distinct persons", words, wrong)]


def records(outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses, k: int) -> Check:
    """Check that every release states k synthetic records or more, and exactly as many as it has."""
    seen = RevealedReleases.from_outputs(outputs, audit, classes)
    stated, tuples = audit["subjects"].to_numpy(), audit["tuples"].to_numpy()
    findings = [seen.release(place, f"has {stated[place]} records") for place in np.flatnonzero(stated < k).tolist()]
    for place in np.flatnonzero(stated != tuples).tolist():
        findings.append(seen.release(place, f"states {stated[place]} records, and has {tuples[place]} rows"))
    words = f"{k} synthetic records or more, and one row for each, as each of {audit.num_rows:,} releases says"
    return judged("k", words, findings)


def sensitive(outputs: RunOutputs, audit: pa.Table, classes: ReleasedClasses, privacy: Privacy) -> Iterator[Check]:
    """Check each privacy model of each sensitive column, recomputed from the rows."""
    seen = RevealedReleases.from_outputs(outputs, audit, classes)
    for column in outputs.policy.sensitive:
        rows, texts_of_rows = values_of(outputs, column)
        values = numbered(texts_of_rows)
        members = seen.members(classes, rows, values)
        least = privacy.l_of(column)[0]
        yield judged(
            f"l of {column}",
            _how_many(f"{least} or more, as each release says, and as many as its rows have,", members, audit),
            list(_undiverse(seen, classes, column, least, (rows, values), members)),
        )
        texts = dict(zip(values.tolist(), texts_of_rows.to_pylist(), strict=True))
        for model, parameter, _ in privacy.further_of(column):
            name = f"{model.name} of {column}"
            reference = privacy.reference_of(column)
            keeps = _judge(model.name, parameter, texts, reference)
            if keeps is None and model.compares and reference is not None and reference.of_stream:
                yield unseen(name, "it compares with the stream so far, and the outputs show its released tuples only")
            elif keeps is None:
                yield unseen(name, "how it is computed is not known here")
            else:
                joint_members = seen.joint_members(classes, rows, values) if model.name in _MIXED else {}
                yield _kept(seen, name, keeps, members, joint_members)


def _undiverse(
    seen: RevealedReleases,
    classes: ReleasedClasses,
    column: str,
    least: int,
    values: tuple[NDArray[np.int64], NDArray[np.int64]],
    members: Members,
) -> Iterator[Finding]:
    stated, kinds = seen.audit[f"diversity_{column}"].to_numpy(), classes.kind.astype(str)
    for place in np.flatnonzero((stated < least) & (kinds != "generalized")).tolist():
        yield seen.release(place, f"has a diversity of {stated[place]}")
    distinct = {key: len(counts) for key, counts in counted(classes.released[values[0]], values[1])}
    grouped = ~np.isin(kinds, ("generalized", *FOLLOWING))
    for place in np.flatnonzero(grouped).tolist():
        if place in members:
            persons, counts = members[place]
            actual = formulas.diversity(persons, list(counts.values()))
            if actual != stated[place]:
                yield seen.release(place, f"states a diversity of {stated[place]}, and its rows have {actual}")
        elif stated[place] > distinct.get(int(classes.audit[place]), 0):
            actual = distinct.get(int(classes.audit[place]), 0)
            yield seen.release(place, f"states a diversity of {stated[place]}, and its rows have {actual} values")


def _kept(seen: RevealedReleases, name: str, keeps: Keeps, members: Members, joint_members: Members) -> Check:
    findings, judgments = [], {place: keeps(persons, counts) for place, (persons, counts) in members.items()}
    for place in sorted(place for place, kept in judgments.items() if kept is False):
        findings.append(seen.release(place, f"does not keep {name}"))
    for place, (persons, counts) in joint_members.items():
        if keeps(persons, counts) is False:
            findings.append(seen.release(place, f"does not keep {name}, with others under its generalization"))
    known = {place: members[place] for place, kept in judgments.items() if kept is not None}
    if not known and not joint_members:
        return unseen(name, _how_many("recomputed", known, seen.audit))
    mixed = f"; {len(joint_members):,} generalizations of several keep it as a whole" if joint_members else ""
    return judged(name, _how_many("kept", known, seen.audit) + mixed, findings)


def _how_many(words: str, members: Members, audit: pa.Table) -> str:
    rest = audit.num_rows - len(members)
    others = f"; the rows do not show members or persons of {rest:,} others" if rest else ""
    return f"{words} in {len(members):,} releases{others}"


def _judge(
    name: str, parameter: Parameter, texts: Mapping[int, str | None], reference: Reference | None
) -> Keeps | None:
    """Return the test of a privacy model; None where the outputs do not suffice to decide it."""
    numbers = parameter if isinstance(parameter, tuple) else (parameter,)
    if name in _BY_COUNTS:
        of_counts = _BY_COUNTS[name]
        return lambda persons, counts: of_counts(*numbers, formulas.falling(persons, list(counts.values())))
    if name not in _BY_VALUES or reference is None or reference.of_stream:
        return None
    of_values, compared = _BY_VALUES[name], reference

    def keeps(persons: int, counts: Mapping[int, int]) -> bool | None:
        named: dict[str, int] = {}
        for number, count in counts.items():
            named[texts[number] or ""] = count
        return of_values(numbers[0], persons, named, compared)

    return keeps
