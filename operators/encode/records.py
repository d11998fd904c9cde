"""Fields of records as arguments of encode: parsing each record once replaces SQL that parses it for each field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pandas as pd
import pyarrow as pa

from crenel.operators.encode.cells import ArrayCells, FieldCells
from crenel.operators.encode.columns import Form, as_arrow, reading


class Fields(Protocol):
    """Fields to read from each record of one format; unreadable values are missing."""

    def columns(self, records: pa.BinaryArray) -> Sequence[FieldCells | ArrayCells]:
        """Return the values of each field; ``records``: (rows,) bytes, null where one is missing."""
        ...


class UnknownFields:
    """Counts of records with fields that the configuration does not know, because a newer writer has added them.

    Attributes
    ----------
    records : number of records with at least one such field
    by_field : number of records by field; at most 1,000 fields are counted apart
    """

    LARGEST = 1000

    def __init__(self) -> None:
        self.records = 0
        self.by_field: dict[str, int] = {}

    def add(self, fields: Iterable[str], records: int) -> None:
        """Count records that all have the same unknown fields."""
        self.records += records
        for name in fields:
            if name in self.by_field or len(self.by_field) < self.LARGEST:
                self.by_field[name] = self.by_field.get(name, 0) + records


@runtime_checkable
class EvolvingFields(Fields, Protocol):
    """Fields of records whose schema may grow while the job runs."""

    @property
    def unknown(self) -> UnknownFields:
        """Counts of fields that only a newer schema has."""
        ...


@dataclass(frozen=True)
class RecordArguments:
    """Arguments of encode that are read from records.

    Attributes
    ----------
    fields : the fields to read
    arguments : number and form of the field for each argument; None where SQL provides the argument
    """

    fields: Fields
    arguments: tuple[tuple[int, Form] | None, ...]

    def read(self, records: pd.Series[Any], *others: Any) -> tuple[Any, ...]:
        """Return the arguments of encode.

        Parameters
        ----------
        records : (rows,) bytes, None where a record is missing
        others : the arguments that SQL provides, in order

        Raises
        ------
        UnreadableError
            An argument is unreadable.
        """
        columns, given = self.fields.columns(as_arrow(records, pa.binary())), iter(others)
        arguments = []
        for position, field in enumerate(self.arguments):
            with reading(position):
                arguments.append(next(given) if field is None else argument(columns[field[0]], field[1]))
        return tuple(arguments)

    def readable(self, record: pd.Series[Any], *others: Any) -> tuple[Any, ...]:
        """Return the arguments of one record for which ``read`` raises, with None for each unreadable one."""
        given = iter(others)
        arguments = [next(given) if field is None else None for field in self.arguments]
        with suppress(Exception):
            columns = self.fields.columns(as_arrow(record, pa.binary()))
            for position, field in enumerate(self.arguments):
                if field is not None:
                    with suppress(Exception):
                        arguments[position] = argument(columns[field[0]], field[1])
        return tuple(arguments)


def argument(cells: FieldCells | ArrayCells, form: Form) -> pd.Series[Any] | pa.Array:
    """Return values in a form, which ``cells`` has as an attribute, as an argument of encode."""
    found = getattr(cells, form)
    return found if isinstance(found, pa.Array) else pd.Series(found)
