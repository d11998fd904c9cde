"""Reader of this job's state in the files of a savepoint, without a restore and without Flink.

In Flink's canonical format a value of keyed state is stored verbatim. Crenel's values are blobs with a length and a
checksum (``crenel.state.codec``), so they can be found among Flink's own data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from crenel.anonymity.algorithm import known_algorithms
from crenel.anonymity.model.fingerprint import (
    BUDGETED,
    COUNTED,
    EPOCH,
    REPORTED_FIELDS,
    UNCOUNTED,
    Fingerprint,
    changed_fields,
    reported_fields,
)
from crenel.jobs.config.start_warnings import DRAIN_FIRST
from crenel.state.codec import KINDS, MAGIC, StateError, blob_at, unpack
from crenel.state.columns import StoredColumns
from crenel.state.shard import ShardState as StateOfShard

_ANY_VERSION = 65535
_MOST = 10  # maximum number of damaged places to report
_IN_FLIGHT = ("block", "forget", "refusal", "report")
"""Kinds that are never stored. An unaligned checkpoint holds them in pieces, on their way to a shard."""

_FORMATS = {
    b"\x00\x0fMANIFEST-": "it has the native format of RocksDB or ForSt, and is not read here; RocksDB's savepoints by "
    "'--type canonical' are. A job with the same state.backend.type can start from it all the same",
    b"\xff\x06\x00\x00sNaPpY": "it is compressed, and not read here; savepoints without "
    "execution.checkpointing.snapshot-compression are. A job can start from it all the same",
}
"""Formats that are not read, by bytes that their files hold: a name in ``_metadata``, and the start of a stream."""


class SavepointError(ValueError):
    """Error for a savepoint that a job cannot resume from.

    Attributes
    ----------
    place : the savepoint, as given
    problems : all problems; never a record's values
    lead : text between the name of the configuration and the savepoint
    """

    lead: ClassVar = "cannot go on from"

    def __init__(self, place: str, problems: Iterable[str]) -> None:
        self.place = place
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"{place}:", *self.problems]))


class UnreadStateError(SavepointError):
    """Error for a savepoint that is not read here; Flink may read it."""

    lead: ClassVar = "was not compared with"


def read_shards(place: str) -> list[StateOfShard]:
    """Return the shards whose state a savepoint holds, by number; ``place``: its folder, a path or a ``file:`` URI.

    Raises
    ------
    SavepointError
        State is damaged, or of an unknown version.
    UnreadStateError
        The folder is no savepoint, holds no state of a shard, or has another format.
    """
    folder = _folder(place)
    try:
        files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    except OSError as error:
        raise UnreadStateError(place, [f"its files cannot be listed: {error.strerror}"]) from None
    shards: list[StateOfShard] = []
    damaged: list[str] = []
    for path in files:
        try:
            if unread := _unread_format(path):
                raise UnreadStateError(place, [unread])
            for state in _states(path):
                if isinstance(state, StateError):
                    damaged.append(str(state))
                elif state is not None:
                    shards.append(state)
        except OSError as error:
            raise UnreadStateError(place, [f"{path.name} cannot be read: {error.strerror}"]) from None
    if damaged:
        more = [f"and {len(damaged) - _MOST} more such places"] if len(damaged) > _MOST else []
        raise SavepointError(place, [*damaged[:_MOST], *more])
    if not shards:
        raise UnreadStateError(
            place,
            [
                "no state of a shard was found in its files; either it is not of this job, or no record had come by "
                "then, or it has another format; a savepoint by '--type canonical' can be read"
            ],
        )
    return sorted(shards, key=lambda state: state.shard)


def require_same(place: str, shards: Sequence[StateOfShard], now: Mapping[str, str]) -> bool:
    """Compare the fingerprints of stored shards with that of a policy (``crenel.anonymity.model.fingerprint``).

    Returns
    -------
    Whether the job resumes with these shards; False: they are of another epoch, and no tuple waits in them.

    Raises
    ------
    SavepointError
        Names every field that must not change; or tuples are buffered in shards of another epoch.
    """
    waiting = sum(_waits(state) for state in shards)
    if any(state.fingerprint.get(EPOCH) != now.get(EPOCH) for state in shards):
        if waiting:
            problem = (
                f"{EPOCH}: has changed since the state was stored, and the tuples that wait in {waiting} of "
                f"{len({state.shard for state in shards})} shards would be dropped; undo that, or {DRAIN_FIRST}"
            )
            raise SavepointError(place, [problem])
        return False
    otherwise = DRAIN_FIRST if waiting else "go on from here with another epoch, as no tuple waits in it"
    problems: dict[str, str] = {}
    for state in shards:
        stored = state.fingerprint
        changed = changed_fields(stored, now, StoredColumns.of(state.members).roles)
        for name in changed:
            what = "is new" if name not in stored else "is gone" if name not in now else "has changed"
            if name.startswith(COUNTED):
                problems[name] = f"{name}: {UNCOUNTED}"
                continue
            problems[name] = (
                f"{name}: {what} since the state was stored, and cannot; undo that, or "
                f"{otherwise}. Started without state, the job loses the tuples that wait, and publishes again what it "
                "reads again"
            )
    if problems:
        raise SavepointError(place, [problems[name] for name in sorted(problems)])
    return True


def _waits(state: StateOfShard) -> bool:
    """Return whether a shard holds buffered tuples."""
    return bool(state.entries.get("blocks", [0])[0])


def restore_warnings(place: str, now: Mapping[str, str]) -> list[str]:
    """Return caveats of a job that is to resume from a savepoint, also where that cannot be read here.

    Raises
    ------
    SavepointError
        The job would fail at each start, as ``require_same`` says or because the state is damaged.
    """
    try:
        shards = read_shards(place)
    except UnreadStateError as error:
        return [f"the configuration {error.lead} {place}: {'; '.join(error.problems)}"]
    return compare(place, shards, now) or []


def compare(place: str, shards: Sequence[StateOfShard], now: Mapping[str, str]) -> list[str] | None:
    """Return ``changed_settings`` of shards with which a job resumes; None where ``require_same`` returns False.

    Raises
    ------
    SavepointError
        As ``require_same`` does.
    """
    return changed_settings(shards, now) if require_same(place, shards, now) else None


def changed_settings(shards: Iterable[StateOfShard], now: Mapping[str, str]) -> list[str]:
    """Return a sentence for each field that changed since the state was stored, possibly by intention."""
    shards = list(shards)
    changed = {name for state in shards for name in reported_fields(state.fingerprint, now)}
    budgeted = sorted(name.removeprefix(BUDGETED) for name in changed if name.startswith(BUDGETED))
    adds_up = (
        f"{', '.join(budgeted)}: changed since the state was stored. Over a horizon with windows from before and "
        "after, epsilon and delta are the sums of the earlier ones and these"
    )
    return [*_changed_columns(shards, now), *([adds_up] if budgeted else [])] + [
        f"{name}: {REPORTED_FIELDS[name]} has changed since the state was stored. Where it gives a column another "
        "meaning, waiting tuples and new ones do not go together; where it writes a subject in another way, one "
        "person counts as two"
        for name in sorted(changed & REPORTED_FIELDS.keys())
    ]


def _changed_columns(shards: Iterable[StateOfShard], now: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each column that came or went since the state was stored."""
    roles: Mapping[str, str] = now.roles if isinstance(now, Fingerprint) else {}
    stored = [StoredColumns.of(state.members).roles for state in shards]
    came = {(name, role) for before in stored for name, role in roles.items() if name not in before}
    went = {(name, role) for before in stored for name, role in before.items() if name not in roles}
    for name, role in sorted(came):
        yield f"policy.{role}: the column {name} is new; it is null in the records that wait"
    for name, role in sorted(went):
        yield f"policy.{role}: the column {name} is gone; the records that wait are published without it"


def _unread_format(path: Path) -> str | None:
    """Return why the state in a file is not read, by its format; None for a format that is."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return None  # cannot be mapped
        with mmap(file.fileno(), 0, access=ACCESS_READ) as stored:
            return next((why for mark, why in _FORMATS.items() if stored.find(mark) >= 0), None)


def _states(path: Path) -> Iterator[StateOfShard | StateError | None]:
    """Yield for each blob of a file the shard's state, an error for damage, or None for other intact state."""
    if not path.stat().st_size:
        return  # cannot be mapped
    # Here, because extensions register kinds and algorithms of their own.
    kinds = {number: kind for kind, number in KINDS.items()}
    states = dict(algorithm.state for algorithm in known_algorithms().values())
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as stored:
        offset = stored.find(MAGIC)
        while offset >= 0:
            following = offset + len(MAGIC)
            kind = kinds.get(stored[following]) if following < len(stored) else None
            if kind is not None:
                where = f"{path.name} at byte {offset}"
                blob = blob_at(stored, offset)
                try:
                    yield _read(kind, states.get(kind), blob, where)
                    # The content of a blob may be a record's text, so the search skips it.
                    following = offset + len(blob or b"")
                except StateError as error:
                    if kind not in _IN_FLIGHT:
                        yield error
            offset = stored.find(MAGIC, following)


def _read(kind: str, of_shards: type[StateOfShard] | None, blob: bytes | None, where: str) -> StateOfShard | None:
    if blob is None:
        raise StateError(f"{kind} state of {where}: does not end inside the file; the bytes are damaged")
    if of_shards is not None:
        return of_shards.from_bytes(blob, where)
    unpack(kind, blob, newest=_ANY_VERSION, where=where)
    return None


def _folder(place: str) -> Path:
    path = Path(place)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", place):
        uri = urlsplit(place)
        if uri.scheme.lower() != "file" or uri.netloc not in ("", "localhost"):
            raise UnreadStateError(place, ["is not on this machine; copy the folder here, and give its path"])
        # Flink prints such URIs without quoting them.
        literal = Path(place.partition(":")[2].removeprefix(f"//{uri.netloc}"))
        path = literal if literal.exists() else Path(unquote(uri.path))
    path = path.parent if path.name == "_metadata" else path
    if not path.is_dir():
        raise UnreadStateError(place, ["is not a folder; give the one that 'flink stop' or 'flink savepoint' named"])
    if not (path / "_metadata").is_file():
        raise UnreadStateError(
            place, ["holds no file '_metadata'; give the folder of one savepoint, as 'flink stop' named it"]
        )
    return path
