"""Reference distributions of a job, with the codes of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path

from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.model.privacy_model import Sensitive
from crenel.jobs.config.file import ConfigError
from crenel.jobs.pipeline.layout import Layout
from crenel.jobs.pipeline.sql_types import SqlType, element_of, parse
from crenel.operators.encode.columns import codes_of

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")

Coded = Mapping[str, list[int | None]]


def with_codes(privacy: Privacy, found: Layout, where: Path | str = "source") -> Privacy:
    """Return the privacy models with codes for the values of their references.

    Parameters
    ----------
    where : place that an error names

    Raises
    ------
    ConfigError
        Lists references with a value that its column cannot have, or with two values that are equal there.
    """
    privacy = replace(privacy, sensitive=tuple(_in_order(column, found) for column in privacy.sensitive))
    columns = [column for column in privacy.sensitive if column.reference is not None]
    coded = {column.name: _codes(column, found) for column in columns}
    if problems := [problem for column in columns for problem in _problems(column, coded, found)]:
        raise ConfigError(where, problems)
    made = tuple(
        column
        if column.reference is None
        else replace(
            column,
            reference=replace(column.reference, codes=tuple(code for code in coded[column.name] if code is not None)),
        )
        for column in privacy.sensitive
    )
    return replace(privacy, sensitive=made)


def _in_order(column: Sensitive, found: Layout) -> Sensitive:
    """Sort the reference values of a numeric column with ordered distance."""
    reference = column.reference
    kind = _type(column, found).name if reference is not None else ""
    if reference is None or reference.distance != "ordered" or kind not in _NUMBERS:
        return column
    rows = sorted(zip(reference.values, reference.shares, strict=True), key=lambda row: _number(row[0]))
    values, shares = zip(*rows, strict=True)
    return replace(column, reference=replace(reference, values=values, shares=shares))


def _type(column: Sensitive, found: Layout) -> SqlType:
    """Return the type of the values of a column; of an array, that of its elements."""
    sql = parse(found.published[column.name])
    return element_of(sql) or sql


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # a missing value comes first; ``_problems`` reports others
        return -inf


def _codes(column: Sensitive, found: Layout) -> list[int | None]:
    encode = found.encode
    read = encode.sensitive[found.policy.sensitive.index(column.name)]
    read = replace(read, kind=read.published)
    if found.published[column.name] == "FLOAT":
        read = replace(read, kind="single")
    null_text = encode.null_text if found.policy.missing == "value" else None
    values = () if column.reference is None else column.reference.values
    codes = codes_of(values, read, encode.subject_key.hash_key, null_text)
    labels = next((attribute.labels for attribute in found.policy.generalized if attribute.name == column.name), values)
    return [code if value in labels else None for value, code in zip(values, codes, strict=True)]


def _problems(column: Sensitive, coded: Coded, found: Layout) -> Iterator[str]:
    place, kind = f"privacy.sensitive.{column.name}.reference", _type(column, found).text
    first: dict[int, int] = {}
    for number, code in enumerate(coded[column.name], 1):
        if code is None:
            yield f"{place}: value {number} is none of a column of type {kind}; write it as the column does"
        elif code in first:
            yield f"{place}: values {first[code]} and {number} are the same in a column of type {kind}; add them up"
        else:
            first[code] = number
