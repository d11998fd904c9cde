"""Reference distributions with the codes of their values, as encode codes those of the stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf

from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy, Sensitive
from crenel.anonymity.model.reference import Reference
from crenel.anonymity.model.secret import SubjectKey
from crenel.operators.column_types import INTEGERS, REALS, ColumnType, element_of
from crenel.operators.encode.columns import Read, codes_of

_NUMBERS = (*INTEGERS, *REALS, "DECIMAL")

Coded = Mapping[str, list[int | None]]


def with_codes(
    privacy: Privacy,
    policy: Policy,
    reads: tuple[Read, ...],
    types: Mapping[str, ColumnType],
    subject_key: SubjectKey,
    null_text: str,
) -> tuple[Privacy, list[str]]:
    """Return the privacy models with codes for the values of their references, and problems of references.

    A problem is a value that its column cannot have, or two values that are equal there.

    Parameters
    ----------
    reads : how the sensitive columns are read
    types : type of each column, as it is published
    null_text : text of a missing value in the released output
    """
    columns = {name: _in_order(name, column, types) for name, column in privacy.sensitive.items()}
    compared = {name: column.reference for name, column in columns.items() if column.reference is not None}
    alike = null_text if policy.missing == "value" else None
    read = {of.name: replace(of, form=of.published) for of in reads}
    coded = {
        name: _codes(name, reference, policy, read[name], subject_key, alike) for name, reference in compared.items()
    }
    problems = [problem for name in compared for problem in _problems(name, coded, types)]
    if problems:
        return privacy, problems
    for name, reference in compared.items():
        codes = tuple(code for code in coded[name] if code is not None)
        columns[name] = replace(columns[name], reference=replace(reference, codes=codes))
    return replace(privacy, sensitive=columns), problems


def _in_order(name: str, column: Sensitive, types: Mapping[str, ColumnType]) -> Sensitive:
    """Sort the reference values of a numeric column with ordered distance."""
    reference = column.reference
    if reference is None or column.distance != "ordered" or _type(name, types).name not in _NUMBERS:
        return column
    rows = sorted(zip(reference.values, reference.shares, strict=True), key=lambda row: _number(row[0]))
    values, shares = zip(*rows, strict=True)
    return replace(column, reference=replace(reference, values=values, shares=shares))


def _type(name: str, types: Mapping[str, ColumnType]) -> ColumnType:
    """Return the type of the values of a column; of an array, that of its elements."""
    return element_of(types[name]) or types[name]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # a missing value comes first; ``_problems`` reports others
        return -inf


def _codes(
    name: str, reference: Reference, policy: Policy, read: Read, subject_key: SubjectKey, null_text: str | None
) -> list[int | None]:
    codes = codes_of(reference.values, read, subject_key.hash_key, null_text)
    labels = policy.generalized[name].labels if name in policy.generalized else reference.values
    return [code if value in labels else None for value, code in zip(reference.values, codes, strict=True)]


def _problems(name: str, coded: Coded, types: Mapping[str, ColumnType]) -> Iterator[str]:
    place, kind = f"privacy.sensitive.{name}.reference", _type(name, types).text
    first: dict[int, int] = {}
    for number, code in enumerate(coded[name], 1):
        if code is None:
            yield f"{place}: value {number} is none of a column of type {kind}; write it as the column does"
        elif code in first:
            yield f"{place}: values {first[code]} and {number} are the same in a column of type {kind}; add them up"
        else:
            first[code] = number
