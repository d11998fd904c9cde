"""Fields of CSV lines: Arrow parses all lines of a batch at once, and unreadable values are missing.

A line is unreadable as a whole if it has a wrong number of fields, or an unclosed quote. A line break is an ordinary
character, except at the end. Byte-order marks at the beginning of a line are removed. The result of a record depends on
no other record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from crenel.anonymity.model.errors import InvariantError
from crenel.operators.encode.cells import CellType, FieldCells
from crenel.operators.encode.csv_values import read_as

_LINE_FEED, _RETURN = 10, 13
_MARK = "\ufeff"
_NOTHING: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CsvFields:
    """Fields to read from each line: an implementation of ``crenel.operators.encode.records.Fields``.

    Attributes
    ----------
    width : number of fields per line
    fields : position, from 0, and type of each field to read
    delimiter : one ASCII character
    quote : one ASCII character, doubled inside a quoted field; None: no quotes
    null : text of a missing value, quoted or not
    """

    width: int
    fields: tuple[tuple[int, CellType], ...]
    delimiter: str = ","
    quote: str | None = '"'
    null: str = ""

    def columns(self, records: pa.BinaryArray) -> list[FieldCells]:
        """Return the values of each field; ``records`` are (rows,), null where a record is missing."""
        texts = self._texts(_without_bom(_as_text(records.fill_null(b""))))
        return [FieldCells(read_as(kind, texts[str(place)].combine_chunks())) for place, kind in self.fields]

    def _texts(self, lines: pa.BinaryArray) -> pa.Table:
        """Return the texts of each field to read, null where missing or unreadable."""
        joined, breaks = self._joined(lines), _NOTHING
        if not _apart(joined, len(lines)):
            lines, breaks = _without_breaks(lines, self.delimiter, self.quote)
            joined = self._joined(lines)
        readable = pc.invert(pc.is_in(lines, pa.array([b"", b"\r"])))
        rows, unfit = self._parsed(joined)
        if rows.num_rows + len(unfit) != len(lines) + 1:
            # An unclosed quote swallows the next lines.
            readable = pc.and_(readable, pc.match_substring_regex(lines, self._ending))
            rows, unfit = self._parsed(self._joined(pc.if_else(readable, lines, b"")))
        if rows.num_rows + len(unfit) != len(lines) + 1:
            raise InvariantError("source.from_csv: lines run into each other; nothing of them is let in")
        fit = readable.to_numpy(zero_copy_only=False)
        fit[unfit] = False
        if fit.all():
            texts = rows.slice(0, len(lines))
        else:
            there = np.ones(len(lines), np.bool_)
            there[unfit] = False
            texts = rows.take(pa.array(np.cumsum(there) - 1, mask=~fit))
        for placeholder, line_break in breaks:
            texts = pa.table(
                [pc.replace_substring(column, placeholder, line_break) for column in texts.columns], texts.column_names
            )
        return texts

    def _joined(self, lines: pa.BinaryArray) -> pa.Buffer:
        """Join the lines and one more, before which an unclosed quote in any line becomes visible."""
        last = pa.array([b"0" + self.delimiter.encode() * (self.width - 1)])
        lines = pa.concat_arrays([lines, last])
        joined_lines = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
        return pc.binary_join(joined_lines, b"\n")[0].as_buffer()

    def _parsed(self, data: pa.Buffer) -> tuple[pa.Table, list[int]]:
        """Return the rows of lines with the right number of fields, and the numbers of the other lines."""
        unfit: list[int] = []

        def skip(row: Any) -> str:
            unfit.append(row.number - 1)
            return "skip"

        table = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(
                use_threads=False, block_size=data.size + 1, column_names=list(map(str, range(self.width)))
            ),
            csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=self.quote or False,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(self._names, pa.string()),
                include_columns=self._names,
                null_values=[self.null],
                strings_can_be_null=True,
            ),
        )
        return table, unfit

    @cached_property
    def _ending(self) -> str:
        """Regular expression that matches a line without an unclosed quote."""
        delimiter, quote = re.escape(self.delimiter), re.escape(self.quote or "")
        # A quote ends the quoted part; a doubled quote is a character of it.
        field = f"(?:{quote}(?:[^{quote}]|{quote}{quote})*{quote})?(?:[^{delimiter}{quote}][^{delimiter}]*)?"
        return f"^{field}(?:{delimiter}{field})*$"

    @cached_property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(str(place) for place, _ in self.fields))


def _apart(joined: pa.Buffer, lines: int) -> bool:
    """Return whether a parser splits the joined text exactly into the given lines, and one more."""
    data = np.frombuffer(joined, np.uint8)
    if np.count_nonzero(data == _LINE_FEED) != lines:
        return False
    returns = np.flatnonzero(data == _RETURN)
    return bool((data[returns + 1] == _LINE_FEED).all())  # the joined text does not end with one


def _without_breaks(lines: pa.BinaryArray, *taken: str | None) -> tuple[pa.BinaryArray, tuple[tuple[str, str], ...]]:
    """Return the lines with placeholders for line breaks, and pairs of placeholder and line break."""
    lines = pc.replace_substring_regex(lines, "\r$", "")
    first, run, last = [character for character in map(chr, range(1, 6)) if character not in taken][:3]
    longest = max(map(len, re.findall(f"{run}+".encode(), b"\n".join(lines.to_pylist()))), default=0)
    breaks = tuple((first + run * (longest + more) + last, end) for more, end in ((1, "\n"), (2, "\r")))
    for placeholder, line_break in breaks:
        lines = pc.replace_substring(lines, line_break, placeholder)
    return lines, breaks


def _without_bom(lines: pa.BinaryArray) -> pa.BinaryArray:
    """Return the lines without byte-order marks at their beginnings.

    Arrow would remove only that of a batch's first line, and a person would count twice.
    """
    if not pc.any(pc.starts_with(lines, _MARK)).as_py():
        return lines
    return pc.replace_substring_regex(lines, f"^(?:{_MARK})+", "")


def _as_text(records: pa.BinaryArray) -> pa.BinaryArray:
    """Return the records with invalid UTF-8 replaced."""
    try:
        pc.cast(records, pa.string())
    except pa.ArrowInvalid:
        texts = [record.decode("utf-8", "replace").encode() for record in records.to_pylist()]
        return pa.array(texts, pa.binary())
    return records
