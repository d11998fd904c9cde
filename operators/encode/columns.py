"""Columns of a batch as arrays: their form in PyFlink, and their meaning."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import ITEMS
from crenel.anonymity.model.values import days, is_list, without_zeros
from crenel.anonymity.model.values import texts as texts_of
from crenel.operators.encode import hashing
from crenel.state.block import NO_TIME
from crenel.state.columns import NO_FURTHER

Form: TypeAlias = Literal[
    "number", "integer", "text", "boolean", "time", "day", "list", "packed", "missing", "watermark"
]
"""Form of a column as an argument of encode.

- ``number``: whole numbers, or float64 in which NaN stands for a missing value: it equals no number, not even itself
- ``integer``: int64, 0 where missing
- ``text``: text, null where missing. The text of a float32 or float64 is made here; a numeric attribute is parsed here
- ``boolean``: bool, None where missing
- ``time``: datetime64, in UTC where it has a zone, NaT where missing
- ``day``: text such as 2024-02-29, or datetime64 of which the day is taken; null where missing
- ``list``: lists of text or int64, null where missing; JSON where it is published
- ``packed``: a value of a nested type or bytes, as bytes, None where missing
- ``missing``: whether the value is missing
- ``watermark``: the watermark at the arrival of the record, as a time
"""

Argument: TypeAlias = tuple[str, Form]
"""An argument of encode: a column, and its form."""

EARLIEST, LATEST = -62_135_596_800_000, 253_402_300_799_999
"""Valid event times in epoch milliseconds: the years 1 to 9999, which both Flink and Python can represent."""

Mask: TypeAlias = NDArray[np.bool_]
"""(rows,) true where a condition holds."""

_FORMULA = r"^[=+\-@\t\r]"
"""Start of a text that spreadsheets evaluate, according to OWASP's page on CSV injection."""

_TYPES: dict[Form, pa.DataType] = {
    **dict.fromkeys(("text", "day", "list"), pa.string()),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("ms"),
    "packed": pa.binary(),
}


@dataclass(frozen=True)
class Read:
    """Form in which one column of the source arrives.

    Attributes
    ----------
    name : name of the column
    form : form of its values
    value : position of its argument
    missing : position of a boolean argument that marks missing values; None where the values mark them, or where none
        can be missing
    longest : maximum number of characters of a published text, longer texts are cut; None: no limit
    padded : whether shorter texts are padded with spaces to ``longest``
    neutralized : whether texts that a spreadsheet would evaluate get an apostrophe in front
    element : form of the elements of an array, ``text`` or ``integer``; None for other columns
    packed : position of the argument with the published form of an array; None: JSON is
    generalized : whether a label of a hierarchy is published in place of the value, as text
    labels : type of the values that the leaves of a hierarchy without a builder denote; None: text
    normalization : of a subject, as ``Policy.subject_normalization``
    is_clock : whether texts, or those of elements, are times of day with a fraction, which is dropped where it is 0
    is_float32 : whether numbers were rounded to float32
    """

    name: str
    form: Form
    value: int
    missing: int | None = None
    longest: int | None = None
    padded: bool = False
    neutralized: bool = False
    element: Form | None = None
    packed: int | None = None
    generalized: bool = False
    labels: pa.DataType | None = None
    normalization: tuple[str, ...] = ()
    is_clock: bool = False
    is_float32: bool = False

    @property
    def published(self) -> Form:
        """Form of the published values, where it is not ``packed``."""
        return "text" if self.generalized else self.form


class UnreadableError(Exception):
    """An unreadable argument of encode.

    Attributes
    ----------
    argument : position of the argument
    error : the original exception
    """

    def __init__(self, argument: int, error: Exception) -> None:
        super().__init__(f"the argument {argument} of encode cannot be read")
        self.argument, self.error = argument, error


@contextmanager
def reading(argument: int) -> Iterator[None]:
    """Convert any exception to an ``UnreadableError`` that names the argument."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise UnreadableError(argument, error) from error


def members_schema(reads: tuple[Read, ...]) -> pa.Schema:
    """Return the schema of ``Block.members`` for the published columns."""
    return pa.schema(
        [(read.name, pa.binary() if read.packed is not None else _TYPES[read.published]) for read in reads]
    )


class Batch:
    """The arguments of one call of encode.

    Parameters
    ----------
    arguments : each a Series, an Arrow array for text, or a value that the planner found constant over all rows

    Raises
    ------
    PolicyError
        Every argument is constant, so the number of rows is unknown.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        rows = next((len(column) for column in arguments if isinstance(column, pd.Series | pa.Array)), None)
        if rows is None:
            raise PolicyError(
                "source: its query gives the same in all rows; it must read at least one column that varies"
            )
        self.rows = rows
        self._arguments = arguments

    def values(self, read: Read) -> NDArray[Any]:
        """Return (rows,) the values of a column in their original dtype; for text str, None where missing."""
        if read.form in ("text", "day"):
            return _objects(self.texts(read))
        return self._argument(read.value).to_numpy()

    def texts(self, read: Read) -> pa.StringArray:
        """Return (rows,) the texts of a column, null where missing."""
        argument = self._argument(read.value)
        if isinstance(argument, pd.Series) and argument.dtype.kind == "f":
            texts = texts_of(pa.array(argument, from_pandas=True))
        elif isinstance(argument, pd.Series) and argument.dtype.kind == "M":
            texts = days(pa.array(self._timestamps(read).view("datetime64[ms]")))
        else:
            texts = as_arrow(argument, pa.string())
        if read.is_clock:
            texts = without_zeros(texts)
        return without_formulas(texts) if read.neutralized else texts

    def distinct(self, read: Read) -> tuple[NDArray[np.object_], NDArray[np.int32]]:
        """Return a column's distinct texts, followed by None, and (rows,) the index of each row's text."""
        return _distinct(self.texts(read))

    def flag(self, read: Read) -> Mask | None:
        """Return the mask of rows that are flagged as missing, or are NaN; None without any."""
        missing = np.zeros(self.rows, np.bool_)
        if read.missing is not None:
            missing = self._argument(read.missing).to_numpy(dtype=np.bool_)
        if read.form == "number":
            missing = missing | np.isnan(self.values(read).astype(np.float64, copy=False))
        return missing if missing.any() else None

    def numbers(self, read: Read) -> tuple[NDArray[np.float64], Mask | None, Mask | None]:
        """Return the values of a numeric column, and masks of missing ones and of missing or non-finite ones.

        Timestamps are epoch milliseconds.
        """
        if read.form == "time":
            times = self._timestamps(read)
            missing_time = times == NO_TIME
            return times.astype(np.float64), missing_time, missing_time if missing_time.any() else None
        values = self.values(read)
        parsed = _parsed(values) if read.form == "text" else values.astype(np.float64, copy=False)
        odd = ~np.isfinite(parsed)
        if not odd.any():
            return parsed, self.flag(read), None
        return parsed, _absent(self.texts(read)) if read.form == "text" else self.flag(read), odd

    def watermark(self, read: Read) -> NDArray[np.int64]:
        """Return (rows,) the watermark at each row's arrival in epoch milliseconds, ``NO_TIME`` before the first."""
        return np.minimum(self._timestamps(read), LATEST)

    def event_time(
        self, read: Read, watermark: NDArray[np.int64] | None = None, limit: int | None = None
    ) -> tuple[NDArray[np.int64], Mask | None, Mask | None]:
        """Return epoch milliseconds, and masks of missing times and of times out of range; both are ``NO_TIME``.

        ``limit`` is the number of milliseconds by which a time may exceed the watermark; before the first watermark
        there is no limit.
        """
        if read.form == "time":
            times = self._timestamps(read)
            missing: Mask | None = times == NO_TIME
        else:
            times, missing = self.values(read).astype(np.int64, copy=False), self.flag(read)
        outside = (times < EARLIEST) | (times > LATEST)
        if limit is not None and watermark is not None:
            outside |= (watermark != NO_TIME) & (times > watermark + limit)
        unknown = outside if missing is None else outside | missing
        return np.where(unknown, np.int64(NO_TIME), times) if unknown.any() else times, missing, outside

    def subject(self, read: Read, key: str) -> tuple[NDArray[np.uint64], Mask | None]:
        """Return the hashes of the subjects, and the mask of missing ones."""
        texts = normalized(self.texts(read), read.normalization)
        return _text_codes(texts, key, repeated=False), _absent(texts)

    def member(self, read: Read) -> tuple[pa.Array, Mask | None]:
        """Return a published column, and the mask of missing values."""
        if read.form == "time":
            times = self._timestamps(read)
            unknown = times == NO_TIME
            column = pa.array(times, pa.int64(), mask=unknown).view(_TYPES[read.form])
            return column, unknown if column.null_count else None
        if read.packed is not None:
            return as_arrow(self._argument(read.packed), pa.binary()), None
        if read.form == "list":
            return array_texts(self._lists(read)), None
        if read.form in ("text", "packed"):
            column = self.texts(read) if read.form == "text" else as_arrow(self._argument(read.value), pa.binary())
            return column, _absent(column)
        values, missing = self.values(read), self.flag(read)
        column = pa.array(values, _TYPES[read.form], mask=missing, from_pandas=read.form == "boolean")
        return column, _absent(column) if missing is None else missing

    def codes(self, read: Read, key: str, missing: Mask | None, *, repeated: bool) -> NDArray[np.uint64]:
        """Return 64-bit codes of a published column, equal for equal values.

        ``repeated`` is that of ``hashing.text_codes``.
        """
        if read.form == "text":
            codes = _text_codes(self.texts(read), key, repeated=repeated)
            return codes if missing is None else np.where(missing, hashing.NULL, codes)
        if read.form == "packed":
            return hashing.text_codes(_objects(self.member(read)[0]), key, repeated=repeated)
        values = self.values(read)
        if read.form == "integer":
            codes = hashing.integer_codes(values.astype(np.int64, copy=False))
        elif read.form == "number":
            codes = hashing.real_codes(values.astype(np.float64, copy=False))
        else:
            codes = hashing.boolean_codes(values.astype(np.bool_))
        return codes if missing is None else np.where(missing, hashing.NULL, codes)

    def array_codes(
        self, read: Read, key: str, width: int, null_text: str | None
    ) -> tuple[NDArray[np.uint64], Mask, Mask]:
        """Return the codes of the distinct values of each array, and two masks of records.

        An empty array counts as one missing value, which equals an empty text, as some formats write both alike.

        Parameters
        ----------
        width : maximum number of distinct values of a record
        null_text : as for ``published_codes``

        Returns
        -------
        codes : (rows, width) in ascending order, followed by ``NO_FURTHER``; undefined in records with too many values
        missing : whether the array is missing, or has a missing element
        too_many : whether the array has more than ``width`` distinct values
        """
        lists = self._lists(read)
        lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        elements = lists.flatten()
        row = np.concatenate([np.repeat(np.arange(self.rows), lengths), np.flatnonzero(lengths == 0)])
        absent = np.ones(len(row), np.bool_)
        absent[: len(elements)] = elements.is_null().to_numpy(zero_copy_only=False)
        elements = pa.concat_arrays([elements, pa.nulls(len(row) - len(elements), elements.type)])
        if read.element == "integer":
            elements = pd.Series(elements.fill_null(0).to_numpy())
        element = Read(read.name, read.element or "text", 0)
        codes = Batch((elements,)).published_codes(element, key, absent, null_text or "")
        codes = np.where(codes == NO_FURTHER, hashing.NULL, codes)
        order = np.lexsort((codes, row))
        row, codes, absent = row[order], codes[order], absent[order]
        first = np.ones(len(row), np.bool_)
        first[1:] = (np.diff(row) != 0) | (codes[1:] != codes[:-1])
        missing = lists.is_null().to_numpy(zero_copy_only=False)
        missing[row[absent & (lengths[row] > 0)]] = True
        row, codes = row[first], codes[first]
        counts = np.bincount(row, minlength=self.rows)
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.full((self.rows, width), NO_FURTHER)
        fits = place < width
        table[row[fits], place[fits]] = codes[fits]
        return table, missing, counts > width

    def _lists(self, read: Read) -> pa.ListArray:
        lists = as_arrow(self._argument(read.value), pa.list_(_TYPES[read.element or "text"]))
        return with_elements(lists, without_zeros(lists.values)) if read.is_clock else lists

    def published_codes(self, read: Read, key: str, missing: Mask | None, null_text: str | None) -> NDArray[np.uint64]:
        """Return ``codes`` of a published column that are also equal for values with the same published form.

        ``null_text`` is the published form of a missing value. A missing value then equals an empty text, which some
        formats write alike, and any value written as ``null_text``. None: records with a missing value are rejected.
        """
        if read.form != "text":
            codes = self.codes(read, key, missing, repeated=True)
            alike = None if null_text is None else hashing.code_of(null_text, read.form)
            return codes if alike is None else np.where(codes == alike, hashing.NULL, codes)
        texts = self.texts(read)
        if read.longest is not None:
            # As the CAST to CHAR or VARCHAR converts them.
            texts = pc.utf8_slice_codeunits(texts, 0, read.longest)
            texts = pc.utf8_rpad(texts, read.longest) if read.padded else texts
        if null_text is not None:
            same = pc.equal(texts.fill_null(null_text), null_text)
            texts = pc.if_else(same, "", texts)
        return _text_codes(texts, key, repeated=True)

    def _timestamps(self, read: Read) -> NDArray[np.int64]:
        # Times arrive as UTC under the name of the session's zone, which is UTC as well.
        return self._argument(read.value).dt.tz_localize(None).to_numpy("datetime64[ms]").view(np.int64)

    def _argument(self, position: int) -> pd.Series[Any] | pa.Array:
        argument = self._arguments[position]
        return argument if isinstance(argument, pd.Series | pa.Array) else pd.Series([argument] * self.rows)


def as_arrow(column: pd.Series[Any] | pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column as one array, without a copy where it is an Arrow column already."""
    if isinstance(column, pa.Array):
        return column
    found = pa.array(column, kind, from_pandas=True)
    if isinstance(found, pa.ChunkedArray):
        return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
    return found


def without_nan(column: pa.Array) -> pa.Array:
    """Return a column of floats, or of a dictionary of floats, with null in the place of NaN; another unchanged."""
    if pa.types.is_dictionary(column.type):
        values = without_nan(column.dictionary)
        if values is column.dictionary:
            return column
        is_nan = values.is_null().take(column.indices)
        indices = pc.if_else(is_nan.fill_null(True), pa.scalar(None, column.indices.type), column.indices)
        # The values keep a NaN that no row has: Arrow does not join dictionaries with null.
        return pa.DictionaryArray.from_arrays(indices, column.dictionary, ordered=column.type.ordered)
    if not pa.types.is_floating(column.type):
        return column
    numbers = column.to_numpy(zero_copy_only=False)  # null is NaN
    is_nan = np.isnan(numbers)
    return column if is_nan.sum() == column.null_count else pa.array(numbers, column.type, mask=is_nan)


def with_elements(lists: pa.ListArray, elements: pa.Array) -> pa.ListArray:
    """Return lists with other elements in the place of all of ``lists.values``."""
    # Arrow takes a mask only with offsets that are no slice of others.
    offsets = pa.array(lists.offsets.to_numpy(zero_copy_only=False), lists.offsets.type)
    return type(lists).from_arrays(offsets, elements, mask=lists.is_null())


def array_texts(lists: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """Return arrays as JSON, null where missing; elements other than whole numbers are text."""
    if not pa.types.is_integer(lists.type.value_type):
        lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
        lists = with_elements(lists, texts_of(lists.values))
    return pa.array([None if array is None else json.dumps(array) for array in lists.to_pylist()], pa.string())


def field_at(column: pa.Array, path: Sequence[str]) -> pa.Array:
    """Return a field of nested values; it is missing where a struct around it is.

    ``path`` begins with the name of the column. A step from a list to its structs ends with ``ITEMS``: the result is a
    list with the field of each struct.
    """
    for number, step in enumerate(path):
        if number:
            name = step if column.type.get_field_index(step) >= 0 else step.removesuffix(ITEMS)
            column = pc.struct_field(column, [name])
        if step.endswith(ITEMS) and is_list(column.type):
            return _field_of_items(column, path[number + 1 :])
    return column


def _field_of_items(lists: pa.Array, path: Sequence[str]) -> pa.Array:
    if pa.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.list_(lists.type.value_type))
    return with_elements(lists, field_at(lists.values, ("", *path)))


def without_formulas(texts: pa.StringArray) -> pa.StringArray:
    """Return the texts with an apostrophe in front of each that a spreadsheet would evaluate."""
    formulas = pc.match_substring_regex(texts, _FORMULA)
    if not pc.any(formulas).as_py():
        return texts
    mark, nothing = pa.scalar("'", texts.type), pa.scalar("", texts.type)
    return pc.if_else(formulas, pc.binary_join_element_wise(mark, texts, nothing), texts)


def _objects(texts: pa.StringArray) -> NDArray[np.object_]:
    """Return texts as str, None where missing."""
    values: NDArray[np.object_] = texts.to_numpy(zero_copy_only=False)
    return values


def _absent(column: pa.Array) -> Mask | None:
    """Return the mask of null values; None without any."""
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


def _distinct(texts: pa.StringArray) -> tuple[NDArray[np.object_], NDArray[np.int32]]:
    coded = texts.dictionary_encode()
    values = np.array([*coded.dictionary.to_pylist(), None], object)
    return values, coded.indices.fill_null(len(values) - 1).to_numpy()


def _text_codes(texts: pa.StringArray, key: str, *, repeated: bool) -> NDArray[np.uint64]:
    """Return codes of texts, as ``hashing.text_codes`` does."""
    if not repeated:
        return hashing.text_codes(_objects(texts), key, repeated=False)
    values, which = _distinct(texts)
    return hashing.text_codes(values, key, repeated=False)[which]


def _parsed(texts: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers in SQL or JSON notation; NaN where a text is not a number, or missing."""
    joined_texts = "".join(filter(None, texts))
    if _plain(joined_texts):
        try:
            return texts.astype(np.float64)
        except ValueError:
            pass  # at least one text is not a number
    return np.fromiter(map(_number, texts), np.float64, len(texts))


def _number(text: str | None) -> float:
    if text is None or not _plain(text):
        return np.nan
    try:
        return float(text)
    except ValueError:
        return np.nan


def _plain(text: str) -> bool:
    """Return whether ``float`` accepts no more of a text than SQL does."""
    return text.isascii() and "_" not in text


def codes_of(values: Sequence[str], read: Read, key: str, null_text: str | None) -> list[int | None]:
    """Return the code of each value of a reference distribution, None where no column value has this text.

    Parameters
    ----------
    values : as text
    read : form of the column; with ``is_float32``, a number is rounded as in such a column
    key, null_text : as for ``Batch.published_codes``
    """
    if read.form == "list":
        read = Read(read.name, read.element or "text", 0, is_clock=read.is_clock)
    if read.form == "text":
        alone = replace(read, value=0)
        texts = pd.Series([*values, ""], dtype=object)
        codes = Batch((texts,)).published_codes(alone, key, None, null_text)
        return [int(code) for code in codes[:-1]]
    return [_number_code(text, read, null_text) for text in values]


def _number_code(text: str, read: Read, null_text: str | None) -> int | None:
    if null_text is not None and text in ("", null_text):
        return int(hashing.NULL)
    if read.is_float32:
        rounded = hashing.code_of(text, "number")
        return None if rounded is None else int(hashing.real_codes(np.array([float(np.float32(text))]))[0])
    code = hashing.code_of(text, read.form)
    return None if code is None else int(code)


def normalized(texts: pa.StringArray, normalization: Collection[str]) -> pa.StringArray:
    """Return the texts of subjects by ``Policy.subject_normalization``.

    Examples
    --------
    >>> normalized(pa.array(["A\u030asa ", "\u00c5sa"]), ("nfc", "trim")).unique().to_pylist()
    ['\u00c5sa']
    """
    if "nfc" in normalization:
        texts = pc.utf8_normalize(texts, "NFC")
    return pc.utf8_trim_whitespace(texts) if "trim" in normalization else texts
