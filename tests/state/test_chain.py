"""Stored position of a hash chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from crenel.state.codec import StateError, pack
from crenel.state.operator import ChainState
from tests.golden.make_chain import STATE

SNAPSHOTS = Path(__file__).parents[1] / "golden" / "chain"


@pytest.mark.parametrize("folder", sorted(SNAPSHOTS.iterdir()), ids=lambda folder: folder.name)
def test_every_snapshot_loads(folder: Path) -> None:
    assert ChainState.from_bytes((folder / "chain.bin").read_bytes()) == STATE


def test_this_version_has_a_snapshot_and_writes_the_same_bytes() -> None:
    assert (SNAPSHOTS / f"v{ChainState.VERSION}" / "chain.bin").read_bytes() == STATE.to_bytes()


def test_what_cannot_be_read_is_told_by_its_place() -> None:
    with pytest.raises(StateError, match="chain state of key 7"):
        ChainState.from_bytes(STATE.to_bytes()[:-1], "key 7")
    with pytest.raises(StateError, match="format version 2 is unknown"):
        ChainState.from_bytes(pack("chain", 2, {}), "key 7")
    with pytest.raises(StateError, match="'numbers' is missing"):
        ChainState.from_bytes(pack("chain", 1, {"head": b""}), "key 7")
