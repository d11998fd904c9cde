"""Stored state of a shard: bounded by the buffer, and refused where its parts do not belong together."""

from __future__ import annotations

import zlib
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.castle.algorithm import CastleParameters
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.anonymity.space.domain import NONE
from crenel.state.block import NO_TIME
from crenel.state.codec import StateError
from crenel.state.shard import StoredShard
from tests.golden.make import HERE, SETTING, read, restored
from tests.support.drive import Kept, Setting, columns_of
from tests.support.example_counts import FEW
from tests.support.source import IDENTITY, Advance, Finish, Push, Row
from tests.support.strategies import Case, cases, cuts

POLICY = Policy(
    (Numeric("x", (0, 1000)),), sensitive=("illness",), passthrough=(IDENTITY,), subject="who", event_time="at"
)


def setting(parameters: CastleParameters, k: int = 2) -> Setting:
    return Setting(POLICY, Privacy(k), parameters, (pa.string(), pa.int64()))


def size(stored: StoredShard) -> int:
    """Bytes of the blobs whose size depends on what has come."""
    return len(stored.shard) + sum(map(len, stored.entries["blocks"].values()))


def far_ahead(tuples: int, each: int) -> list[Push | Advance]:
    """Return tuples far from each other, each published alone when it is due; the first waits for ever."""
    chance = Random(1)
    steps: list[Push | Advance] = [Push((Row((0.0,), ("a", 0), 0, 10**12),))]
    for first in range(1, tuples, each):
        rows = [Row((chance.random() * 1000,), ("ab"[i % 2], i), i, 1000 * i) for i in range(first, first + each)]
        steps += [Push(tuple(rows), 1000 * first - 5000), Advance(1000 * (first + each) - 5000)]
    return steps


def test_one_tuple_dated_far_ahead_does_not_let_the_state_grow() -> None:
    shard = Kept(setting(CastleParameters(delay_event_time=20_000, max_clusters=30, reuse_limit=50)))
    sizes = []
    for step in far_ahead(6000, 20):
        shard.take(step)
        sizes.append(size(shard.stored) / (40 + shard.castle.counters.buffered))
    third = len(sizes) // 3
    assert max(sizes[2 * third :]) < 1.2 * max(sizes[:third])
    assert shard.castle.counters.releases["reused"] > 100


@given(cases(timed=True, delay_tuples=None, delay_event_time=20, max_clusters=3), cuts)
@FEW
def test_what_is_stored_is_what_waits_four_times_over_at_most(case: Case, cut: tuple[int, ...]) -> None:
    shard = Kept(case.setting)
    for step in case.steps(cut):
        shard.take(step)
        ledger, waiting = shard.castle._ledger, shard.castle.counters.buffered
        assert ledger is not None
        stored = int(ledger.blocks._stored.sum())
        assert waiting <= stored <= 4 * waiting
        assert len(ledger._gone) <= stored - waiting
        assert int(ledger.blocks._waiting.sum()) == waiting


def burst(count: int) -> Push:
    return Push(tuple(Row((float(i % 1000),), ("abc"[i % 3], i), i % 700, i) for i in range(count)))


def test_memory_is_given_back_after_a_burst_and_nothing_else_changes() -> None:
    made = setting(CastleParameters(delay_event_time=10_000, max_clusters=20), 3)
    shard, other = Kept(made), Kept(made)
    later = [
        Push(tuple(Row((7.0 * (i % 90),), ("abc"[i % 3], i), i % 50, i) for i in range(first, first + 40)), first)
        for first in range(30_000, 31_000, 40)
    ]
    out, found = [], []
    for step in [burst(30_000), Advance(39_000), *later, Finish()]:
        out.append(shard.take(step))
        found.append(other.take(step))
        other.restore()  # which never has more slots than it needs
        if step is not later[0] and len(out) == 1:
            assert len(shard.castle.arrays.tuples.position) >= 30_000
    assert len(shard.castle.arrays.tuples.position) < 5000
    assert len(shard.castle.arrays.waiting.counts.owner) < 20_000
    assert columns_of(out) == columns_of(found)
    assert (shard.castle.arrays.tuples.cluster == NONE).all()


GOLDEN = read(sorted(HERE.glob("v3"))[0])


@pytest.mark.parametrize("kind", ["blocks", "gamma", "omega"])
@pytest.mark.parametrize("how", ["dropped", "doubled", "swapped", "of another time"])
def test_entries_that_do_not_belong_together_are_refused_by_kind(kind: str, how: str) -> None:
    entries = {name: dict(held) for name, held in GOLDEN.entries.items()}
    held = entries[kind]
    first, second = sorted(held)[:2]
    if how == "dropped":
        del held[second]
    elif how == "doubled":
        held[max(held) + 1] = held[first]
    elif how == "swapped":
        held[first], held[second] = held[second], held[first]
    else:
        held[first] = held[second]
    with pytest.raises(StateError, match=rf"{kind} state of shard 0 \(key 5\): .*does not belong together"):
        restored(replace(GOLDEN, entries=entries), "key 5")


def mended(blob: bytes, at: int, value: int) -> bytes:
    """Return a blob with another byte and a checksum that fits."""
    changed = bytearray(blob)
    changed[at] = value
    head, content = bytes(changed[:9]), bytes(changed[13:])
    return head + zlib.crc32(content, zlib.crc32(head)).to_bytes(4, "little") + content


@given(st.data())
@FEW
def test_bytes_that_were_changed_with_their_checksum_do_not_crash(data: st.DataObject) -> None:
    # Whatever they say, reading them raises what it may raise, or gives a shard that goes on to its end.
    kind = data.draw(st.sampled_from(["shard", "blocks", "gamma", "omega"]))
    entries = {name: dict(held) for name, held in GOLDEN.entries.items()}
    shard = GOLDEN.shard
    if kind == "shard":
        shard = mended(shard, data.draw(st.integers(13, len(shard) - 1)), data.draw(st.integers(0, 255)))
    else:
        key = data.draw(st.sampled_from(sorted(entries[kind])))
        blob = entries[kind][key]
        entries[kind][key] = mended(blob, data.draw(st.integers(13, len(blob) - 1)), data.draw(st.integers(0, 255)))
    try:
        made = restored(StoredShard(without_inventory(shard), entries))
        made.push(Setting.block(SETTING, []), NO_TIME)
        made.finish()
    except (StateError, PolicyError, RuntimeError):
        pass


def without_inventory(shard: bytes) -> bytes:
    """Return the blob of a shard that tells of no entries, so that what is in them is looked at."""
    from crenel.state.castle import CastleState

    try:
        return replace(CastleState.from_bytes(shard), entries=None).to_bytes()
    except (StateError, ValueError, TypeError):
        return shard


def test_numbers_of_a_stored_shard_are_judged_before_they_are_used() -> None:
    from crenel.state.castle import ClusteredTuples

    key, blob = next(iter(GOLDEN.entries["blocks"].items()))
    block = ClusteredTuples.from_bytes(blob, SETTING.members)
    for changed in (
        replace(block, categorical=np.full_like(block.categorical, 99)),
        replace(block, numeric=np.full_like(block.numeric, np.nan)),
        replace(block, position=block.position[::-1].copy()),
        replace(block, sensitive=block.sensitive[:, :0]),
        replace(block, subject=None),
    ):
        entries = {**GOLDEN.entries, "blocks": {**GOLDEN.entries["blocks"], key: changed.to_bytes()}}
        with pytest.raises(StateError, match="cannot be read"):
            restored(StoredShard(without_inventory(GOLDEN.shard), entries))
