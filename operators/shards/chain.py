"""Hash chain over the audit log of a shard, which reveals changed, added and missing rows, and a lost end.

Each row has a hash of the row before it and of its own content: HMAC-SHA256 with a key and SHA-256 without. The hash
input can be reconstructed from the output of a sink, in CSV as in JSON ("The chain" in
``docs/reference/evidence/verify.md``). The first row after each start states the run, the configuration, and the form
in which each published column is hashed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import pairwise
from math import isfinite
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from crenel.anonymity.model.secret import Secret
from crenel.state.operator import ChainState

_MEMBERS = 2**128
_KEPT = 10_000
_PLAIN = ":._-"
"""Characters, beside letters and digits, that a closing record writes unescaped in names."""

_TIME = re.compile(r"(?:(\d{4,}-\d\d-\d\d)[ T])?(\d\d:\d\d)(?::(\d\d)(\.\d+)?)?Z?", re.ASCII)
_EXACT = Context(prec=500)
"""Digits for the rounding of a float64 to a decimal fraction: more than any float64 has."""

Form: TypeAlias = Literal["text", "time", "decimal", "double", "float"]
"""How the values of a column are hashed: as the text itself, or in one notation for all that sinks use for its type."""


@dataclass(frozen=True)
class ChainColumn:
    """A published column, as its values are hashed.

    Attributes
    ----------
    name : of the column in ``released``
    form : of its values
    longest : maximum number of characters of a text, of a time those that the sink holds; None: no limit
    padded : whether shorter texts are padded
    scale : digits behind the point to which the sink rounds a number; None: it does not
    unit : milliseconds to which the sink rounds a time down; None: the column holds no time as a number
    """

    name: str
    form: Form = "text"
    longest: int | None = None
    padded: bool = False
    scale: int | None = None
    unit: int | None = None


@dataclass(frozen=True)
class ChainSettings:
    """Settings of a hash chain.

    Attributes
    ----------
    key : of the HMAC; without one, rows contain no hash of members, because the values could be guessed
    in_force : values in force in each row, in the order of its columns
    run : identity of the run that a job begins; a restored job continues the run of its state
    version, policy, hierarchies, settings : of the code and of the configuration, in the first row after each start
    null_text : text of a missing value in the released output
    generalization, members : columns of the published records, without a pseudonym
    """

    key: Secret
    in_force: tuple[str | float | None, ...]
    run: str
    version: str
    policy: str
    hierarchies: str
    settings: str
    null_text: str
    generalization: tuple[ChainColumn, ...]
    members: tuple[ChainColumn, ...]

    def begin(self, stored: ChainState | None = None) -> ChainState:
        """Return the state of a shard's chain: the stored one, or the beginning of a chain of this run."""
        return ChainState(b"", 0, -1, self.run) if stored is None else stored


class Chain:
    """The chain of one shard.

    Parameters
    ----------
    settings : of the chain
    members : names and types of the published columns
    state : stored end of the chain, or its beginning (``ChainSettings.begin``)
    """

    def __init__(self, settings: ChainSettings, members: pa.Schema, state: ChainState) -> None:
        self._settings = settings
        self.run = state.run
        self._key = settings.key.read()
        self._head = state.head
        self._following = state.following
        self._start = state.start + 1
        pseudonym = (ChainColumn(name) for name in members.names[len(settings.members) :])
        columns = (*settings.members, *pseudonym)
        self._texts = [
            _Texts(_as_text(kind, column), settings.null_text)
            for kind, column in zip(members.types, columns, strict=True)
        ]
        self._generalized = [_as_published(column) for column in settings.generalization]
        self._in_force = b"".join(_field(_hash_text(value)) for value in settings.in_force)
        forms = ((column.name, column.form) for column in (*settings.generalization, *columns))
        own = (settings.version, settings.policy, settings.hierarchies, settings.settings, self.run, _pairs(forms))
        self._origin: tuple[str | None, ...] = own

    @property
    def state(self) -> ChainState:
        """The state to store."""
        return ChainState(self._head, self._following, self._start, self.run)

    def columns(
        self,
        leading: Sequence[Sequence[Any]],
        generalization: Sequence[Sequence[Any]],
        members: Sequence[Sequence[Any]],
        offsets: Sequence[int],
    ) -> list[list[Any]]:
        """Return the chain's columns for consecutive releases, and extend the chain by them.

        Parameters
        ----------
        leading : columns of the audit log before the privacy parameters, beginning with the release ids
        generalization : columns after the privacy parameters
        members : published columns
        offsets : index of each release's first member, and the end of the last
        """
        ids = leading[0]
        if ids:
            self._begin_behind(ids[0])
        digests = self._members(members, offsets) if self._key else [None] * len(ids)
        before = zip(*([_field(_hash_text(value)) for value in column] for column in leading), strict=True)
        published = zip(self._generalized, generalization, strict=True)
        behind = zip(*([_field(text(value)) for value in column] for text, column in published), strict=True)
        rows = [self._link(*row) for row in zip(before, behind, digests, strict=True)]
        if ids:
            self._following = ids[-1] + 1
        return [list(column) for column in zip(*rows, strict=True)]

    def close(self, leading: Sequence[Any], generalization: Sequence[Any], counts: Mapping[str, int]) -> list[Any]:
        """Return the chain's columns of a closing record, and continue behind it.

        A closing record uses no release id: the next release, if the job continues, has the id of the record.

        Parameters
        ----------
        leading : values of the audit log before the privacy parameters, beginning with the id of the next release
        generalization : values after the privacy parameters
        counts : counts of the shard by name, which replace the hashes of members in the record
        """
        self._begin_behind(leading[0])
        self._following = leading[0]
        first, last = ([_field(_hash_text(value)) for value in values] for values in (leading, generalization))
        return list(self._link(first, last, _pairs(counts.items())))

    def _begin_behind(self, release: int) -> None:
        """Restart the chain after releases that were published without one."""
        if release != self._following:
            self._head = b""

    def _link(self, leading: Sequence[bytes], generalization: Sequence[bytes], digest: str | None) -> tuple[Any, ...]:
        """Return the chain's columns of the next row."""
        own = (self._start, *self._origin, digest)
        self._origin = (None,) * len(self._origin)
        content = b"".join((*leading, self._in_force, *generalization, *(_field(_hash_text(value)) for value in own)))
        self._head = self._hash(b"release", _field(self._head.hex()) + content)
        return (*own, self._head.hex())

    def _members(self, members: Sequence[Sequence[Any]], offsets: Sequence[int]) -> list[str | None]:
        """Return for each release the sum of its members' hashes, because rows of one class have no order."""
        # Without published columns there is a placeholder that no sink receives.
        columns = [texts.of(column) for texts, column in zip(self._texts, members, strict=False)]
        rows = zip(*columns, strict=True) if columns else [()] * offsets[-1]
        hashes = [int.from_bytes(self._hash(b"member", b"".join(row))[:16], "big") for row in rows]
        return [f"{sum(hashes[start:stop]) % _MEMBERS:032x}" for start, stop in pairwise(offsets)]

    def _hash(self, what: bytes, content: bytes) -> bytes:
        message = what + content
        return hmac.digest(self._key, message, "sha256") if self._key else hashlib.sha256(message).digest()


class _Texts:
    """Hash input of the values of a published column, with a cache of frequent values."""

    def __init__(self, text: Callable[[Any], str], null_text: str) -> None:
        self._text, self._null = text, null_text
        self._known: dict[Any, bytes] = {}

    def of(self, column: Iterable[Any]) -> list[bytes]:
        if len(self._known) > _KEPT:
            self._known.clear()
        return [found if (found := self._known.get(value)) is not None else self._new(value) for value in column]

    def _new(self, value: Any) -> bytes:
        text = "" if value is None else self._text(value)
        found = self._known[value] = _field("" if text == self._null else text)
        return found


def _pairs(amounts: Iterable[tuple[str, Any]]) -> str:
    """Return pairs of a name and an amount as one text."""
    return " ".join(f"{quote(name, _PLAIN)}={amount}" for name, amount in amounts)


def _as_text(kind: pa.DataType, column: ChainColumn) -> Callable[[Any], str]:
    """Return a function from a value of a published column to its hash input."""
    if pa.types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pa.types.is_timestamp(kind):
        return lambda value: _time(str(np.datetime64(value, "ms")))
    if column.form == "time":
        return lambda value: _time(value[: column.longest])
    if column.form == "decimal":
        return lambda value: _digits(Decimal(value))
    if column.form == "float":
        return _single
    longest, padded = column.longest, column.padded
    if longest is None:
        return _hash_text
    return lambda value: value[:longest].ljust(longest if padded else 0)


def _as_published(column: ChainColumn) -> Callable[[Any], str]:
    """Return a function from a value of a generalization to its hash input, which a reader has from a float64."""
    scale, unit = column.scale, column.unit
    if column.form == "text":
        return _hash_text
    if column.form == "float":
        return lambda value: "" if value is None else _single(float(value))
    if scale is not None:
        last = Decimal(1).scaleb(-scale)
        return lambda value: (
            "" if value is None else _hash_text(float(Decimal(repr(value)).quantize(last, ROUND_HALF_UP, _EXACT)))
        )
    if unit is not None:
        return lambda value: "" if value is None else _hash_text(value // unit * unit)
    return lambda value: "" if value is None else _hash_text(float(value))


def _time(text: str) -> str:
    """Return the same text for all notations of a time."""
    if time := _TIME.fullmatch(text):
        day, minute, second, fraction = time.groups()
        shown = f"{minute}:{second or '00'}{(fraction or '').rstrip('0').rstrip('.')}"
        return shown if day is None else f"{day} {shown}"
    return text


def _digits(number: Decimal) -> str:
    """Return the digits of a decimal number, without a point where it is whole."""
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _hash_text(value: Any) -> str:
    """Return the hash input of a value; for a fraction the big-endian bytes of its float64."""
    if value is None:
        return ""
    return _real(value, ">d") if isinstance(value, float) else str(value)


def _single(value: float) -> str:
    """Return the hash input of a value that sinks hold as float32."""
    with np.errstate(over="ignore"):
        return _real(float(np.float32(value)), ">f")


def _real(value: float, layout: str) -> str:
    if not isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return str(int(value)) if value.is_integer() else f"f{struct.pack(layout, value).hex()}"


def _field(text: str) -> bytes:
    """Return a text with its length, so that different rows of texts have different hash inputs."""
    content = text.encode()
    return b"%d:%b" % (len(content), content)
