"""Output of a shard: releases with their members, suppressed tuples, and pseudonyms."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crenel.anonymity.buffer.release_buffer import ReleaseBuffer, ReleaseColumns
from crenel.anonymity.model.policy import Pseudonym
from crenel.anonymity.noise.release_noise import NoiseArrays


@dataclass(frozen=True)
class Releases(ReleaseColumns):
    """All releases and suppressed tuples of one step, as columns.

    Attributes
    ----------
    release_id : (releases,) number of the release in the shard, from 0
    tuples : (releases,) members published now
    lower, upper : (releases, numeric quasi-identifiers) the published interval, both ends included
    node : (releases, categorical quasi-identifiers) the published node of each hierarchy
    offsets : (releases + 1,) release i has the members offsets[i] to offsets[i + 1]
    members : one list per published column, in the order of ``Policy.members``; None where a value is missing
    linked : (releases,) members whose noised values are nearest to an original value of their own subject, among the
        members of the release (``crenel.anonymity.noise.linking``); 0 for ``reused``, whose class is no longer known
    noise_expected, noise_error : (releases, noised) mean relative error of the noise over values other than 0: expected
        ((k, epsilon)-anonymity, equation 7) and actual
    suppressed_reason : (suppressed,) position in ``Privacy.reasons``
    suppressed_position : (suppressed,) position in the shard, counted from 0
    suppressed_event_time : (suppressed,) epoch milliseconds, ``NO_TIME`` without event time
    suppressed_members : one list per published column, of the suppressed tuples; no output has them
    listed : one list per quasi-identifier with ``publish: set``, in the order of ``Policy.sets``: the set of each
        release, as text (``crenel.anonymity.buffer.published_forms``)
    published_loss : (releases,) as ``loss``, of the published sets and intervals (``Policy.states_published_loss``);
        empty where these are those that classes are formed by
    subject, member_event_time : (members,) keyed hashes, the input of pseudonyms, and epoch milliseconds; empty where
        the policy has no pseudonym
    """

    release_id: NDArray[np.int64]
    tuples: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    node: NDArray[np.int32]
    offsets: NDArray[np.int64]
    members: tuple[list[Any], ...]
    linked: NDArray[np.int64]
    noise_expected: NDArray[np.float64]
    noise_error: NDArray[np.float64]
    suppressed_reason: NDArray[np.int8]
    suppressed_position: NDArray[np.int64]
    suppressed_event_time: NDArray[np.int64]
    subject: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    member_event_time: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    suppressed_members: tuple[list[Any], ...] = ()
    listed: tuple[list[str], ...] = ()
    published_loss: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.release_id)

    @staticmethod
    def joined(parts: Sequence[Releases], nothing: Releases) -> Releases:
        """Concatenate the releases of several parts of a step, in order; return ``nothing`` where there are none."""
        if len(parts) < 2:
            return parts[0] if parts else nothing
        columns: dict[str, Any] = {}
        lists = ("members", "suppressed_members", "listed")
        for name in vars(parts[0]):
            if name not in ("offsets", *lists):
                columns[name] = np.concatenate([getattr(part, name) for part in parts])
        columns["offsets"] = np.concatenate([np.zeros(1, np.int64), np.cumsum(columns["tuples"])])
        for name in lists:
            column_lists = zip(*(getattr(part, name) for part in parts), strict=True)
            columns[name] = tuple([value for values in column for value in values] for column in column_lists)
        return Releases(**columns)


@dataclass(frozen=True)
class Leaving:
    """Published and suppressed tuples of one step, by slot.

    Attributes
    ----------
    released : (members,) slots of members, release by release
    suppressed : (suppressed,) slots of suppressed tuples
    position, event_time : (slots,) of all tuples
    subject : (slots,) keyed hashes of all tuples; None where the policy has no pseudonym
    """

    released: NDArray[np.int32]
    suppressed: NDArray[np.int32]
    position: NDArray[np.int64]
    event_time: NDArray[np.int64]
    subject: NDArray[np.uint64] | None = None

    @property
    def of_subjects(self) -> dict[str, NDArray[Any]]:
        """``Releases.subject`` and ``member_event_time``, as keyword arguments."""
        if self.subject is None:
            return {}
        return {"subject": self.subject[self.released], "member_event_time": self.event_time[self.released]}


def collect(
    out: ReleaseBuffer,
    following: int,
    leaving: Leaving,
    take: Callable[[NDArray[np.int32]], tuple[list[Any], ...]],
    nodes: NDArray[np.int32],
    noise: NoiseArrays,
) -> Releases:
    """Copy the output of the compiled procedures with the members' published values.

    Parameters
    ----------
    following : id of the next release after these
    take : returns the published values in some slots, one list per column
    nodes : (categorical,) number of the first node of each hierarchy
    """
    releases, suppressed = int(out.filled.releases), leaving.suppressed
    offsets = np.concatenate([np.zeros(1, np.int64), out.end[:releases]])
    collected = Releases(
        release_id=np.arange(following - releases, following),
        **{column.name: getattr(out, column.name)[:releases].copy() for column in fields(ReleaseColumns)},
        tuples=np.diff(offsets),
        lower=out.box.lower[:releases].copy(),
        upper=out.box.upper[:releases].copy(),
        node=out.box.node[:releases] - nodes,
        offsets=offsets,
        members=take(leaving.released),
        **noise_of(noise, leaving.released, offsets),
        suppressed_reason=out.reason[: len(suppressed)].copy(),
        suppressed_position=leaving.position[suppressed],
        suppressed_event_time=leaving.event_time[suppressed],
        **leaving.of_subjects,
        listed=(),
        suppressed_members=take(suppressed),
    )
    return with_noise(collected, noise, leaving.released)


def noise_of(noise: NoiseArrays, released: NDArray[np.int32], offsets: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the noise statistics of releases: ``Releases.linked``, ``noise_expected`` and ``noise_error``.

    Parameters
    ----------
    released : (members,) slots of members, release by release
    offsets : (releases + 1,) index of the first member of each release
    """
    releases, count = len(offsets) - 1, noise.value.shape[1]
    if count == 0 or releases == 0:
        nothing = np.zeros((releases, count))
        return {"linked": np.zeros(releases, np.int64), "noise_expected": nothing, "noise_error": nothing}
    value, moved = noise.value[released], np.abs(noise.shown[released] - noise.value[released])
    is_stated = value != 0
    inverse = np.divide(1.0, np.abs(value), out=np.zeros_like(value), where=is_stated)
    each = np.maximum(np.add.reduceat(is_stated, offsets[:-1], dtype=np.int64), 1)
    return {
        "linked": np.add.reduceat(noise.linked[released], offsets[:-1], dtype=np.int64),
        "noise_expected": noise.scale[:releases] * np.add.reduceat(inverse, offsets[:-1]) / each,
        "noise_error": np.add.reduceat(moved * inverse, offsets[:-1]) / each,
    }


def with_noise(releases: Releases, noise: NoiseArrays, released: NDArray[np.int32]) -> Releases:
    """Return the releases with noised values in place of the originals; ``released`` holds the members' slots."""
    members = list(releases.members)
    for place, shown in zip(noise.place.tolist(), noise.shown[released].T, strict=True):
        is_integer = bool(members[place]) and isinstance(members[place][0], int)
        members[place] = np.rint(shown).astype(np.int64).tolist() if is_integer else shown.tolist()
    return replace(releases, members=tuple(members))


_CODE_BYTES = 16
_DAY = 86_400_000


def codes(pseudonym: Pseudonym, key: bytes, random_key: bytes, releases: Releases) -> list[str]:
    """Return a pseudonym for each member of the releases of one shard, in their order: 32 hexadecimal digits.

    Pseudonyms link the records of one person without naming the person. Each is a keyed BLAKE2b hash of 128 bits. Its
    input is the keyed hash of the person, as stored in state, and the pseudonym's scope: nothing, the UTC day of the
    record's event time, or the release. The key is derived from the subject key with a BLAKE2b personalization of its
    own. A reader of state and output therefore cannot link a code to a stored hash. A holder of the subject key can
    compute the code of any person. The hash input never changes, so that codes of earlier runs can be found again.

    Parameters
    ----------
    key : ``crenel.anonymity.model.secret.SubjectKey.pseudonym_key``
    random_key : 32 bytes unique to this shard and run. Release numbers start at 0 in each shard, and codes of the scope
        ``release`` must not repeat
    releases : with ``subject``, and ``member_event_time`` for the scope ``day``
    """
    subjects = releases.subject.astype("<u8")
    if pseudonym.scope == "release":
        key = hashlib.blake2b(random_key, digest_size=32, key=key, person=b"crenel-shard").digest()
        changing = np.repeat(releases.release_id, releases.tuples)
    elif pseudonym.scope == "day":
        changing = releases.member_event_time // _DAY
    else:
        changing = np.zeros(len(subjects), np.int64)
    messages = np.stack([subjects, changing.astype("<i8").view("<u8")], axis=1).tobytes()
    keyed = hashlib.blake2b(digest_size=_CODE_BYTES, key=key, person=f"crenel-{pseudonym.scope}".encode())
    hashes = []
    for start in range(0, len(messages), 16):
        one = keyed.copy()
        one.update(messages[start : start + 16])
        hashes.append(one.hexdigest())
    return hashes
