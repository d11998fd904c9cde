"""Hash chain over the audit log of a shard, which reveals changed, added and missing rows, and a lost end.

Each row has a hash of the row before it and of its own content: HMAC-SHA256 with a key and SHA-256 without. The hash
input can be reconstructed from the output of a sink, in CSV as in JSON ("The chain" in
``docs/reference/evidence/verify.md``). It never changes, so that rows of earlier runs stay verifiable.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isinf, isnan
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from crenel.anonymity.model.secret import Secret
from crenel.state.operator import ChainState

_MEMBERS = 2**128
_KEPT = 10_000
_PLAIN = ":._-"
"""Characters, beside letters and digits, that a closing record writes unescaped in names."""

_TIME = re.compile(r"(\d{4,}-\d\d-\d\d)[ T](\d\d:\d\d)(?::(\d\d)(\.\d+)?)?Z?", re.ASCII)
_REAL = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"-?\d+", re.ASCII)


@dataclass(frozen=True)
class ChainPlan:
    """Settings of a hash chain.

    Attributes
    ----------
    key : of the HMAC; without one, rows contain no hash of members, because the values could be guessed
    in_force : privacy parameters in each row, in the order of its columns
    version, policy, hierarchies : of the code and of the configuration, in the first row after each start
    null_text : text of a missing value in the released output
    lengths : maximum number of characters of each published column, None: no limit, and whether shorter texts are
        padded
    """

    key: Secret
    in_force: tuple[float | None, ...]
    version: str
    policy: str
    hierarchies: str
    null_text: str
    lengths: tuple[tuple[int | None, bool], ...]


class Chain:
    """The chain of one shard.

    Parameters
    ----------
    plan : settings of the chain
    members : names and types of the published columns
    stored : stored end of the chain; None where nothing is stored
    """

    def __init__(self, plan: ChainPlan, members: pa.Schema, stored: ChainState | None = None) -> None:
        self._plan = plan
        self._key = plan.key.read()
        self._head = b"" if stored is None else stored.head
        self._following = 0 if stored is None else stored.following
        self._start = 0 if stored is None else stored.start + 1
        self._first = True
        unbounded = [(None, False)] * (len(members) - len(plan.lengths))  # of a pseudonym
        lengths = zip(members.types, (*plan.lengths, *unbounded), strict=True)
        self._texts = [_Texts(_as_text(kind, *length), plan.null_text) for kind, length in lengths]
        self._in_force = b"".join(_field(_hash_text(value)) for value in plan.in_force)

    @property
    def state(self) -> ChainState:
        """The state to store."""
        return ChainState(self._head, self._following, self._start)

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
        behind = zip(*([_field(_hash_text(value)) for value in column] for column in generalization), strict=True)
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
        return list(self._link(first, last, " ".join(f"{quote(name, _PLAIN)}={n}" for name, n in counts.items())))

    def _begin_behind(self, release: int) -> None:
        """Restart the chain after releases that were published without one."""
        if release != self._following:
            self._head = b""

    def _link(self, leading: Sequence[bytes], generalization: Sequence[bytes], digest: str | None) -> tuple[Any, ...]:
        """Return the chain's columns of the next row."""
        plan = self._plan
        origin = (plan.version, plan.policy, plan.hierarchies) if self._first else (None, None, None)
        self._first = False
        own = (self._start, *origin, digest)
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
        alike = text if type(value) is int and self._text is _hash_text else _alike(text)
        found = self._known[value] = _field("" if text == self._null else alike)
        return found


def _as_text(kind: pa.DataType, longest: int | None, padded: bool) -> Callable[[Any], str]:
    """Return a function that writes a value of a published column."""
    if pa.types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pa.types.is_timestamp(kind):
        return lambda value: str(np.datetime64(value, "ms"))
    if longest is None:
        return _hash_text
    return lambda value: value[:longest].ljust(longest if padded else 0)


def _alike(text: str) -> str:
    """Return the same text for all notations of a number or a time."""
    if time := _TIME.fullmatch(text):
        day, minute, second, fraction = time.groups()
        return f"{day} {minute}:{second or '00'}{(fraction or '').rstrip('0').rstrip('.')}"
    if _REAL.fullmatch(text) and not _WHOLE.fullmatch(text):
        return _hash_text(float(text))
    return text


def _hash_text(value: Any) -> str:
    """Return the hash input of a value; for a fraction the big-endian bytes of its float32."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    try:
        single = struct.pack(">f", value)
    except OverflowError:
        single = struct.pack(">d", value)
    if value.is_integer():
        return str(int(value))
    (rounded,) = struct.unpack(">f", single)
    return str(int(rounded)) if rounded.is_integer() else f"f{single.hex()}"


def _field(text: str) -> bytes:
    """Return a text with its length, so that different rows of texts have different hash inputs."""
    content = text.encode()
    return b"%d:%b" % (len(content), content)
