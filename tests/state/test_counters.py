"""A counter is declared in one place, and every kind of state stores it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crenel.state.batch import BatchState
from crenel.state.castle import CastleState
from crenel.state.codec import unpack
from crenel.state.counters import CounterState, declared
from crenel.state.shard import ShardState
from crenel.state.suhdsa import SuhdsaState
from tests.golden.make import HERE, read

SNAPSHOTS: dict[str, type[ShardState]] = {"castle/v1": CastleState, "suhdsa/v1": SuhdsaState, "batch/v1": BatchState}


@pytest.mark.parametrize("folder", SNAPSHOTS)
@pytest.mark.parametrize("name", [declaration.name for declaration in declared(CounterState)])
def test_a_counter_is_stored_while_it_is_not_0(folder: str, name: str) -> None:
    made, blob = SNAPSHOTS[folder], read(HERE / folder).shard
    state = made.from_bytes(blob)
    assert getattr(state, name) == 0
    counted = replace(state, **{name: 7}).to_bytes()
    assert getattr(made.from_bytes(counted), name) == 7
    columns = [unpack(made.KIND, stored, newest=made.VERSION)[1].keys() for stored in (blob, counted)]
    assert columns[1] - columns[0] == {name}
