"""Stored state of each kind loads and goes on as it did (``tests/golden/kinds.py``), and an older one is upgraded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from crenel.state.batch import BatchState
from crenel.state.codec import Column, StateError, array, pack, unpack
from crenel.state.operator import ChainState
from crenel.state.shard import StateColumn, numbers
from tests.golden.kinds import KINDS, stored
from tests.golden.make import HERE

CHAIN = ChainState(bytes(range(32)), 4711, 3, "00112233445566ff")


@pytest.mark.parametrize("name", KINDS)
def test_a_snapshot_releases_what_it_released_when_it_was_made(name: str) -> None:
    kind = KINDS[name]
    assert all(len(held) > 1 for held in stored(name).entries.values())  # something of everything
    _, released, shard = kind.run(stored(name))
    assert json.loads(json.dumps(released)) == json.loads((HERE / name / "released.json").read_text("ascii")), (
        "a job that is upgraded goes on otherwise than before: if that is meant, write released.json anew, and say so "
        "in CHANGELOG.md"
    )
    assert len(released["release_id"]) > 5
    assert shard.counters.buffered == 0


@pytest.mark.parametrize("name", KINDS)
def test_what_this_version_writes_is_what_its_snapshot_holds(name: str) -> None:
    kind, found = KINDS[name], stored(name)
    message = (
        "the stored format has changed: give it a new version, read the old one too, and make a snapshot of the new"
    )
    state = kind.state.from_bytes(found.shard)
    assert state.to_bytes() == found.shard, message
    assert unpack(kind.state.KIND, found.shard, newest=kind.state.VERSION)[0] == kind.state.VERSION, message
    for entries, again in kind.written.items():
        assert {key: again(blob) for key, blob in found.entries[entries].items()} == found.entries[entries], message
    blobs = (found.shard, kind.run()[0].shard)
    columns = [unpack(kind.state.KIND, blob, newest=kind.state.VERSION)[1].keys() for blob in blobs]
    assert columns[0] == columns[1], message


@dataclass(frozen=True, kw_only=True)
class LaterState(BatchState):
    """A version 2 of the state of batches, as a change of the format would make it.

    Attributes
    ----------
    position, release : the two of ``numbers``, each in a column of its own
    doubled : twice the released tuples, which version 1 did not store
    """

    VERSION: ClassVar[int] = 2
    COLUMNS: ClassVar[tuple[StateColumn, ...]] = (
        *(column for column in BatchState.COLUMNS if column.name != "numbers"),
        numbers("position"),
        numbers("release"),
        numbers("doubled"),
    )

    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, np.int64))
    position: int
    release: int
    doubled: int

    @classmethod
    def _upgraded(cls, version: int, columns: Mapping[str, Column]) -> dict[str, Any]:
        if version > 1:
            return {}
        position, release = array(columns, "numbers").tolist()
        return {"position": position, "release": release, "doubled": 2 * int(array(columns, "counts")[1])}


def test_an_older_version_is_upgraded_when_it_is_read_and_a_newer_one_is_refused() -> None:
    blob = stored("batch/v1").shard
    before, after = BatchState.from_bytes(blob), LaterState.from_bytes(blob)
    assert before.numbers.tolist() == [after.position, after.release]
    assert after.doubled == 2 * before.released > 0
    assert (after.fingerprint, after.entries, after.delays.tolist()) == (
        before.fingerprint,
        before.entries,
        before.delays.tolist(),
    )
    written = after.to_bytes()
    assert LaterState.from_bytes(written).to_bytes() == written != blob
    assert LaterState.from_bytes(written).doubled == after.doubled
    with pytest.raises(StateError, match="batch state of key 7: format version 2 is unknown; this Crenel reads 1 to 1"):
        BatchState.from_bytes(written, "key 7")


def test_the_position_of_a_chain() -> None:
    blob = (HERE / "chain" / f"v{ChainState.VERSION}" / "chain.bin").read_bytes()
    assert (ChainState.from_bytes(blob), CHAIN.to_bytes()) == (CHAIN, blob)
    for bad, message in (
        (blob[:-1], "chain state of key 7"),
        (pack("chain", 2, {}), "format version 2 is unknown"),
        (pack("chain", 1, {"head": b""}), "'numbers' is missing"),
    ):
        with pytest.raises(StateError, match=message):
            ChainState.from_bytes(bad, "key 7")
