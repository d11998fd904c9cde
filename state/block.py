"""Micro-batches of tuples of one shard, as columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crenel.state.codec import Column, StateError, array, pack, raw, readable, unpack

if TYPE_CHECKING:
    from typing_extensions import Self

VERSION = 1

NO_TIME = np.iinfo(np.int64).min
"""Event time of a tuple without event time."""

LAST_TIMER = 2**63 - 2
"""Maximum epoch milliseconds at which a timer can fire before the end of the input."""


@dataclass(frozen=True)
class Rejected:
    """Rejected records with column, reason and event time; never a value.

    Attributes
    ----------
    column : (rows,) position of the offending column among the columns that encode reads
    reason : (rows,) position in ``crenel.anonymity.model.outcomes.REJECTIONS``
    event_time : (rows,) epoch milliseconds, ``NO_TIME`` where the record has none
    reference : one string per record (None where it has none), or empty where the policy names no reference column
    """

    column: NDArray[np.int16]
    reason: NDArray[np.int8]
    event_time: NDArray[np.int64]
    reference: tuple[str | None, ...] = ()

    @classmethod
    def none(cls) -> Rejected:
        return cls(np.zeros(0, np.int16), np.zeros(0, np.int8), np.zeros(0, np.int64))

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """The positions of column and reason of each record."""
        return zip(self.column.tolist(), self.reason.tolist(), strict=True)


@dataclass(frozen=True, kw_only=True)
class TupleColumns:
    """Tuples of one shard in order of arrival, as columns.

    Attributes
    ----------
    numeric : (tuples, numeric quasi-identifiers), finite
    categorical : (tuples, categorical quasi-identifiers), leaf positions in each hierarchy
    subject : (tuples,) 64-bit keyed hashes; None where each tuple is its own person
    sensitive : (tuples, codes) 64-bit codes of sensitive values, equal where the values are equal. A sensitive array
        has several columns, filled up with ``crenel.state.columns.NO_FURTHER``
    event_time : (tuples,) epoch milliseconds, ``NO_TIME`` where there is none
    members : the published columns, one row per tuple
    """

    numeric: NDArray[np.float64]
    categorical: NDArray[np.int32]
    subject: NDArray[np.uint64] | None
    sensitive: NDArray[np.uint64]
    event_time: NDArray[np.int64]
    members: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.event_time)

    def chosen(self, rows: NDArray[np.bool_]) -> dict[str, Any]:
        """Return the fields of this class for the selected tuples; unchanged where all are selected."""
        columns = {field.name: getattr(self, field.name) for field in fields(TupleColumns)}
        if rows.all():
            return columns
        members = columns.pop("members")
        if members.num_columns:  # without published columns the batch has no rows either
            members = members.filter(pa.array(rows))
        return {name: None if column is None else column[rows] for name, column in columns.items()} | {
            "members": members
        }

    def part(self, rows: NDArray[np.bool_]) -> Self:
        """Return the selected tuples, in their order, with the additional columns of a subclass."""
        return type(self)(**self.chosen(rows), **{name: getattr(self, name)[rows] for name in self._own()})

    @classmethod
    def _own(cls) -> list[str]:
        """Return the names of the additional columns of a subclass."""
        return [f.name for f in fields(cls) if f.name not in _OF_ALL]

    def written(self) -> dict[str, Column]:
        """Return the columns by name, for ``crenel.state.codec.pack``."""
        columns: dict[str, Column] = {
            "numeric": self.numeric,
            "categorical": self.categorical,
            "sensitive": self.sensitive,
            "event_time": self.event_time,
            **written_members(self.members),
        }
        if self.subject is not None:
            columns["subject"] = self.subject
        return columns

    @staticmethod
    def read(columns: Mapping[str, Column], members: pa.Schema) -> dict[str, Any]:
        """Return the fields of this class from the result of ``unpack``; raise ``StateError`` where one is missing."""
        return {
            "numeric": array(columns, "numeric"),
            "categorical": array(columns, "categorical"),
            "subject": array(columns, "subject") if "subject" in columns else None,
            "sensitive": array(columns, "sensitive"),
            "event_time": array(columns, "event_time"),
            "members": read_members(columns, members),
        }


def written_members(members: pa.RecordBatch) -> dict[str, Column]:
    """Return the stored column of published values, by name."""
    return {"members": members.serialize().to_pybytes()}


def read_members(columns: Mapping[str, Column], schema: pa.Schema) -> pa.RecordBatch:
    """Return published values from the result of ``unpack``, stored under this schema."""
    return pa.ipc.read_record_batch(pa.py_buffer(raw(columns, "members")), schema)


def _digest(schema: pa.Schema) -> bytes:
    # Arrow reads a batch under any schema with as many columns.
    columns = [(f.name, str(f.type)) for f in schema]
    return hashlib.blake2b(repr(columns).encode(), digest_size=8).digest()


_OF_ALL = tuple(f.name for f in fields(TupleColumns))


@dataclass(frozen=True, kw_only=True)
class BufferedTuples(TupleColumns):
    """Tuples of one block that were buffered when the block was stored.

    Attributes
    ----------
    KIND, VERSION : kind and newest format version of the blob
    position : (tuples,) ascending
    """

    KIND: ClassVar[str] = "buffered"
    VERSION: ClassVar[int] = 1

    position: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        return pack(self.KIND, self.VERSION, self.written() | {name: getattr(self, name) for name in self._own()})

    @classmethod
    def from_bytes(cls, blob: bytes, members: pa.Schema, where: str = "") -> Self:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged or unknown."""
        _, columns = unpack(cls.KIND, blob, newest=cls.VERSION, where=where)
        with readable(f"{cls.KIND} state of {where}"):
            return cls(**cls.read(columns, members), **{name: array(columns, name) for name in cls._own()})


@dataclass(frozen=True, kw_only=True)
class Block(TupleColumns):
    """A micro-batch of tuples, and the records that were rejected with them.

    Attributes
    ----------
    shard : 0 to shards - 1
    rejected : records that were read with this block and rejected
    watermark : (tuples,) watermark at each tuple's arrival in epoch milliseconds, ``NO_TIME`` before the first
        watermark; None where it is unknown
    encoder : number of the encoder that made the block, among parallel encoders with watermarks of their own
    """

    shard: int
    rejected: Rejected = field(default_factory=Rejected.none)
    watermark: NDArray[np.int64] | None = None
    encoder: int = 0

    def to_bytes(self) -> bytes:
        """Return one blob, which ``from_bytes`` reads with the schema of ``members``."""
        columns = self.written() | {
            "shard": np.array([self.shard], np.int64),
            "rejected_column": self.rejected.column,
            "rejected_reason": self.rejected.reason,
            "rejected_time": self.rejected.event_time,
            "schema": _digest(self.members.schema),
        }
        if self.rejected.reference:
            strings = pa.record_batch([pa.array(self.rejected.reference, pa.string())], ["reference"])
            columns["reference"] = strings.serialize().to_pybytes()
        if self.watermark is not None:
            columns |= {"watermark": self.watermark, "encoder": np.array([self.encoder], np.int64)}
        return pack("block", VERSION, columns)

    @classmethod
    def from_bytes(cls, blob: bytes, members: pa.Schema, where: str = "") -> Block:
        """Read a blob; raise ``crenel.state.codec.StateError`` where it is damaged, unknown or has other members."""
        _, columns = unpack("block", blob, newest=VERSION, where=where)
        if raw(columns, "schema") != _digest(members):
            raise StateError(
                f"block state of {where}: was in flight with other published columns; columns change at a restore of a "
                "savepoint, or of a checkpoint that is not unaligned"
            )
        reference: tuple[str | None, ...] = ()
        if "reference" in columns:
            schema = pa.schema([("reference", pa.string())])
            strings = pa.ipc.read_record_batch(pa.py_buffer(raw(columns, "reference")), schema)
            reference = tuple(strings.column(0).to_pylist())
        return cls(
            shard=int(array(columns, "shard")[0]),
            **cls.read(columns, members),
            rejected=Rejected(
                array(columns, "rejected_column"),
                array(columns, "rejected_reason"),
                array(columns, "rejected_time"),
                reference,
            ),
            watermark=array(columns, "watermark") if "watermark" in columns else None,
            encoder=int(array(columns, "encoder")[0]) if "watermark" in columns else 0,
        )
