"""Stored state of a SUHDSA shard: bounded by the buffer, and refused where its parts do not belong together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.suhdsa.parameters import SuhdsaParameters
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME, BufferedTuples
from crenel.state.codec import StateError
from crenel.state.shard import StoredShard
from crenel.state.suhdsa import SuhdsaState
from tests.anonymity.algorithms.castle.test_stored import mended
from tests.golden.make import FINGERPRINT, read
from tests.golden.make_windows import HERE, SETTING
from tests.support.drive import columns_of
from tests.support.example_counts import FEW, LAWS, reach
from tests.support.source import IDENTITY, Advance, Finish, Push, Row
from tests.support.strategies import Case, cuts
from tests.support.window_drive import KeptWindow, WindowSetting, window_cases

POLICY = Policy(
    (Numeric("x", (0, 1000)),), sensitive=("illness",), passthrough=(IDENTITY,), subject="who", event_time="at"
)


def setting(parameters: SuhdsaParameters, k: int = 2) -> WindowSetting:
    return WindowSetting(POLICY, Privacy(k), parameters, (pa.string(), pa.int64()))


def size(stored: StoredShard) -> int:
    return len(stored.shard) + sum(map(len, stored.entries["blocks"].values()))


def test_tuples_dated_far_ahead_do_not_keep_what_came_with_them() -> None:
    # With two people no window reaches k: a tuple waits until its time is over, and one in twenty for ever.
    shard = KeptWindow(setting(SuhdsaParameters(event_time=1000, delay_event_time=10_000), 3))
    sizes = []
    for first in range(0, 4000, 20):
        times = [10**12 if i == first else 1000 * i for i in range(first, first + 20)]
        rows = [Row((float(i % 1000),), ("ab"[i % 2], i), i % 2, at) for i, at in enumerate(times, first)]
        shard.take(Push(tuple(rows), 1000 * first - 5000))
        shard.take(Advance(1000 * (first + 20) - 5000))
        waiting = shard.window.counters.buffered
        assert waiting >= first // 20
        assert stored_tuples(shard) <= 4 * waiting
        sizes.append(size(shard.stored) / (20 + waiting))
    assert shard.window.counters.suppressed["too_few_subjects"] > 3000
    third = len(sizes) // 3
    assert max(sizes[2 * third :]) < 2 * max(sizes[:third])


def stored_tuples(shard: KeptWindow) -> int:
    blocks = shard.stored.entries.get("blocks", {}).values()
    return sum(len(BufferedTuples.from_bytes(blob, shard.setting.members)) for blob in blocks)


def run(case: Case, cut: tuple[int, ...]) -> bool:
    """Judge what is stored after each step; whether a block was ever stored anew."""
    assert isinstance(case.setting, WindowSetting)
    shard, anew = KeptWindow(case.setting), False
    for step in case.steps(cut):
        before = shard.stored.entries.get("blocks", {})
        shard.take(step)
        after = shard.stored.entries.get("blocks", {})
        anew |= any(key in after and after[key] != blob for key, blob in before.items())
        waiting = shard.window.counters.buffered
        assert waiting <= stored_tuples(shard) <= 4 * waiting
        assert len(SuhdsaState.from_bytes(shard.stored.shard).carried) <= waiting
    return anew


@given(window_cases(), cuts)
@FEW
def test_what_is_stored_is_what_waits_four_times_over_at_most(case: Case, cut: tuple[int, ...]) -> None:
    run(case, cut)


def test_blocks_that_are_stored_anew_are_among_them() -> None:
    reach(window_cases(), lambda case: run(case, (0,)))


def test_memory_is_given_back_after_a_burst_and_nothing_else_changes() -> None:
    made = setting(SuhdsaParameters(event_time=5000, delay_event_time=10_000), 3)
    shard, other = KeptWindow(made), KeptWindow(made)
    burst = Push(tuple(Row((float(i % 1000),), ("abc"[i % 3], i), i % 700, i % 4000) for i in range(8000)))
    later = [
        Push(tuple(Row((7.0 * (i % 90),), ("abc"[i % 3], i), i % 50, i) for i in range(first, first + 40)), first)
        for first in range(30_000, 31_000, 40)
    ]
    out, found, most = [], [], 0
    for step in [burst, Advance(20_000), *later, Finish()]:
        out.append(shard.take(step))
        most = max(most, len(shard.window.arrays.held))
        found.append(other.take(step))
        other.restore()  # which never has more slots than it needs
    assert most >= 8000
    assert len(shard.window.arrays.held) < 5000
    assert columns_of(out) == columns_of(found)


GOLDEN = read(HERE / "v2")


@pytest.mark.parametrize("how", ["dropped", "doubled", "swapped", "of another time"])
def test_blocks_that_do_not_belong_together_are_refused(how: str) -> None:
    held = dict(GOLDEN.entries["blocks"])
    first, second = sorted(held)[:2]
    if how == "dropped":
        del held[second]
    elif how == "doubled":
        held[max(held) + 1] = held[first]
    elif how == "swapped":
        held[first], held[second] = held[second], held[first]
    else:
        held[first] = held[second]
    with pytest.raises(StateError, match=r"blocks state of shard 0 \(key 5\): .*does not belong together"):
        SETTING.again(StoredShard(GOLDEN.shard, {"blocks": held}), FINGERPRINT, "key 5")


def without_inventory(shard: bytes) -> bytes:
    """Return the blob of a shard that tells of no entries, so that what is in them is looked at."""
    try:
        return replace(SuhdsaState.from_bytes(shard), entries=None).to_bytes()
    except (StateError, ValueError, TypeError):
        return shard


@given(st.data())
@LAWS
def test_bytes_that_were_changed_with_their_checksum_do_not_crash(data: st.DataObject) -> None:
    # Whatever they say, reading them raises what it may raise, or gives a shard that goes on to its end.
    held, shard = dict(GOLDEN.entries["blocks"]), GOLDEN.shard
    at, value = st.integers(13, 10**6), st.integers(0, 255)
    if data.draw(st.booleans()):
        shard = mended(shard, data.draw(at) % (len(shard) - 13) + 13, data.draw(value))
    else:
        key = data.draw(st.sampled_from(sorted(held)))
        held[key] = mended(held[key], data.draw(at) % (len(held[key]) - 13) + 13, data.draw(value))
    try:
        window = SETTING.again(StoredShard(without_inventory(shard), {"blocks": held}), FINGERPRINT)
        window.push(SETTING.block([]), NO_TIME)
        window.finish()
    except (StateError, PolicyError, RuntimeError):
        pass


STATE = SuhdsaState.from_bytes(GOLDEN.shard)


@pytest.mark.parametrize(
    "changed",
    [
        replace(STATE, carried=STATE.carried[::-1].copy()),
        replace(STATE, carried=STATE.carried + STATE.first),
        replace(STATE, reason=np.full_like(STATE.reason, 9)),
        replace(STATE, reason=STATE.reason[1:]),
        replace(STATE, first=STATE.first - 1),
        replace(STATE, numbers=STATE.numbers + 1),
        replace(STATE, numbers=STATE.numbers[:3]),
        replace(STATE, controllers=STATE.controllers - 9),
        replace(STATE, control=np.full_like(STATE.control, np.nan)),
        replace(STATE, lower=STATE.lower[1:]),
        replace(STATE, key=STATE.key + 2**40),
        replace(STATE, delays=STATE.delays + 10**6),
        replace(STATE, carried=STATE.carried.astype(np.float64)),
    ],
)
def test_numbers_of_a_stored_shard_are_judged_before_they_are_used(changed: SuhdsaState) -> None:
    with pytest.raises(StateError, match=r"(window|blocks) state of shard 0 .*cannot be read"):
        SETTING.again(replace(GOLDEN, shard=changed.to_bytes()), FINGERPRINT, "key 5")


def test_numbers_of_stored_tuples_are_judged_before_they_are_used() -> None:
    key, blob = next(iter(GOLDEN.entries["blocks"].items()))
    held = BufferedTuples.from_bytes(blob, SETTING.members)
    for changed in (
        replace(held, categorical=np.full_like(held.categorical, 99)),
        replace(held, numeric=np.full_like(held.numeric, np.nan)),
        replace(held, position=held.position[::-1].copy()),
        replace(held, position=held.position + 1),
        replace(held, sensitive=held.sensitive[:, :0]),
        replace(held, subject=None),
    ):
        entries = {"blocks": GOLDEN.entries["blocks"] | {key: changed.to_bytes()}}
        with pytest.raises(StateError, match=r"blocks state of shard 0: its columns cannot be read"):
            SETTING.again(StoredShard(without_inventory(GOLDEN.shard), entries), FINGERPRINT)
