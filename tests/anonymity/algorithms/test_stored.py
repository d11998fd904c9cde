"""Stored state of a shard: bounded by the buffer, and refused where its parts do not belong together."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import Privacy
from crenel.state.block import NO_TIME, BufferedTuples
from crenel.state.castle import CastleState, ClusteredTuples
from crenel.state.codec import StateError
from crenel.state.shard import Entries, Inventory, ShardState, StoredShard
from crenel.state.suhdsa import SuhdsaState
from tests.golden import make, make_windows
from tests.golden.make import FINGERPRINT, HERE, read
from tests.support.drive import Kept, Setting, columns_of
from tests.support.example_counts import FEW, reach
from tests.support.source import IDENTITY, Advance, Finish, Push, Row
from tests.support.strategies import Case, cases, cuts
from tests.support.window_drive import WindowSetting, window_cases

POLICY = Policy(
    {"x": Numeric((0, 1000))}, sensitive=("illness",), passthrough=(IDENTITY,), subject="who", event_time="at"
)
TYPES = (pa.string(), pa.int64())


@dataclass(frozen=True)
class Kind:
    """Stored state of an algorithm.

    Attributes
    ----------
    golden, setting : a snapshot, and the settings under which it was made
    bursting, burst : settings by a delay of 10,000 ms, and the tuples of a burst that they buffer
    slots : arrays of a shard whose length follows what it buffers, with the most that they have after a burst
    """

    golden: StoredShard
    setting: Setting
    state: type[ShardState]
    tuples: type[BufferedTuples]
    bursting: Setting
    burst: int
    slots: Callable[[Any], tuple[int, ...]]

    def restored(self, stored: StoredShard, where: str = "") -> Any:
        return self.setting.again(stored, FINGERPRINT, where)

    def with_inventory(self, shard: bytes, entries: Entries) -> StoredShard:
        """Return a shard whose inventory is that of these entries, so that the content of an entry is judged."""
        try:
            shard = replace(self.state.from_bytes(shard), entries=Inventory.of(entries).recorded()).to_bytes()
        except (StateError, ValueError, TypeError):
            pass
        return StoredShard(shard, entries)


KINDS = {
    "castle": Kind(
        read(HERE / "castle/v1"),
        make.SETTING,
        CastleState,
        ClusteredTuples,
        Setting(POLICY, Privacy(3), Castle(Delay(event_time=10_000), max_clusters=20), TYPES),
        30_000,
        lambda shard: (len(shard.arrays.tuples.position), len(shard.arrays.waiting.counts.owner) // 4),
    ),
    "suhdsa": Kind(
        read(HERE / "suhdsa/v1"),
        make_windows.SETTING,
        SuhdsaState,
        BufferedTuples,
        WindowSetting(POLICY, Privacy(3), Suhdsa(event_time=5000, delay=Delay(event_time=10_000)), TYPES),
        8000,
        lambda shard: (len(shard.arrays.held),),
    ),
}
ENTRIES = [("castle", "blocks"), ("castle", "gamma"), ("castle", "omega"), ("suhdsa", "blocks")]
of_all = pytest.mark.parametrize("of", KINDS.values(), ids=KINDS)


def size(stored: StoredShard) -> int:
    """Bytes of the blobs whose size depends on what has come."""
    return len(stored.shard) + sum(map(len, stored.entries["blocks"].values()))


def require_no_growth(setting: Setting, ahead: Callable[[int], bool], persons: int, times: float) -> Kept:
    """Require that the stored bytes of a tuple do not grow where some tuples are dated far ahead."""
    kept, sizes, chance = Kept(setting), [], Random(1)
    for first in range(0, 4000, 20):
        moments = [10**12 if ahead(i) else 1000 * i for i in range(first, first + 20)]
        rows = [
            Row((chance.random() * 1000,), ("ab"[i % 2], i), i % persons, at) for i, at in enumerate(moments, first)
        ]
        kept.take(Push(tuple(rows), 1000 * first - 5000))
        kept.take(Advance(1000 * (first + 20) - 5000))
        sizes.append(size(kept.stored) / (40 + kept.live.counters.buffered))
    third = len(sizes) // 3
    assert max(sizes[2 * third :]) < times * max(sizes[:third])
    return kept


def test_tuples_dated_far_ahead_do_not_let_the_state_grow() -> None:
    parameters = Castle(Delay(event_time=20_000), max_clusters=30, reuse_limit=50)
    kept = require_no_growth(Setting(POLICY, Privacy(2), parameters, TYPES), lambda i: i == 0, 10**6, 1.2)
    assert kept.live.counters.releases["reused"] > 100
    # With two persons no window reaches k: a tuple waits until its time is over, and one in twenty for ever.
    windows = Suhdsa(event_time=1000, delay=Delay(event_time=10_000))
    kept = require_no_growth(WindowSetting(POLICY, Privacy(3), windows, TYPES), lambda i: i % 20 == 0, 2, 2)
    assert kept.live.counters.suppressed["too_few_subjects"] > 3000


WAITING = {
    "castle": cases(timed=True, delay=Delay(None, 20), max_clusters=3),
    "suhdsa": window_cases(),
}


def run(name: str, case: Case, cut: tuple[int, ...]) -> bool:
    """Judge what is stored after each step; whether a block was ever stored anew."""
    kept, anew = Kept(case.setting), False
    for step in case.steps(cut):
        before = kept.stored.entries.get("blocks", {})
        kept.take(step)
        after = kept.stored.entries.get("blocks", {})
        anew |= any(key in after and after[key] != blob for key, blob in before.items())
        waiting, of = kept.live.counters.buffered, KINDS[name].tuples
        stored = sum(len(of.from_bytes(blob, case.setting.members)) for blob in after.values())
        assert waiting <= stored <= 4 * waiting
        if name == "suhdsa":
            assert len(SuhdsaState.from_bytes(kept.stored.shard).reason) <= waiting
    return anew


@pytest.mark.parametrize("name", WAITING)
@given(st.data(), cuts)
@FEW
def test_what_is_stored_is_what_waits_four_times_over_at_most(
    name: str, data: st.DataObject, cut: tuple[int, ...]
) -> None:
    run(name, data.draw(WAITING[name]), cut)


def test_blocks_that_are_stored_anew_are_among_them() -> None:
    reach(window_cases(), lambda case: run("suhdsa", case, (0,)))


@of_all
def test_memory_is_given_back_after_a_burst_and_nothing_else_changes(of: Kind) -> None:
    kept, other = Kept(of.bursting), Kept(of.bursting)
    burst = [Row((float(i % 1000),), ("abc"[i % 3], i), i % 700, i % 4000) for i in range(of.burst)]
    later = [
        Push(tuple(Row((7.0 * (i % 90),), ("abc"[i % 3], i), i % 50, i) for i in range(first, first + 40)), first)
        for first in range(30_000, 31_000, 40)
    ]
    out, found, most = [], [], 0
    for step in [Push(tuple(burst)), Advance(39_000), *later, Finish()]:
        out.append(kept.take(step))
        most = max(most, of.slots(kept.live)[0])
        found.append(other.take(step))
        other.restore()  # which never has more slots than it needs
    assert most >= of.burst
    assert max(of.slots(kept.live)) < 5000
    assert columns_of(out) == columns_of(found)


@pytest.mark.parametrize(("name", "entries"), ENTRIES)
@pytest.mark.parametrize("how", ["dropped", "doubled", "swapped", "of another time"])
def test_entries_that_do_not_belong_together_are_refused_by_kind(name: str, entries: str, how: str) -> None:
    golden = KINDS[name].golden
    changed = {kind: dict(held) for kind, held in golden.entries.items()}
    held = changed[entries]
    first, second = sorted(held)[:2]
    if how == "dropped":
        del held[second]
    elif how == "doubled":
        held[max(held) + 1] = held[first]
    elif how == "swapped":
        held[first], held[second] = held[second], held[first]
    else:
        held[first] = held[second]
    with pytest.raises(StateError, match=rf"{entries} state of shard 0 \(key 5\): .*does not belong together"):
        KINDS[name].restored(replace(golden, entries=changed), "key 5")


def mended(blob: bytes, at: int, value: int) -> bytes:
    """Return a blob with another byte and a checksum that fits."""
    changed = bytearray(blob)
    changed[at] = value
    head, content = bytes(changed[:9]), bytes(changed[13:])
    return head + zlib.crc32(content, zlib.crc32(head)).to_bytes(4, "little") + content


@of_all
@given(st.data())
@FEW
def test_bytes_that_were_changed_with_their_checksum_do_not_crash(of: Kind, data: st.DataObject) -> None:
    # Whatever they say, reading them raises what it may raise, or gives a shard that goes on to its end.
    entries, shard = {name: dict(held) for name, held in of.golden.entries.items()}, of.golden.shard
    kind = data.draw(st.sampled_from(["shard", *(name for name, held in entries.items() if held)]))
    at, value = st.integers(13, 10**6), st.integers(0, 255)
    if kind == "shard":
        shard = mended(shard, data.draw(at) % (len(shard) - 13) + 13, data.draw(value))
    else:
        key = data.draw(st.sampled_from(sorted(entries[kind])))
        blob = entries[kind][key]
        entries[kind][key] = mended(blob, data.draw(at) % (len(blob) - 13) + 13, data.draw(value))
    try:
        made = of.restored(of.with_inventory(shard, entries))
        made.push(of.setting.block([]), NO_TIME)
        made.finish()
    except (StateError, PolicyError, RuntimeError):
        pass


STATE = SuhdsaState.from_bytes(KINDS["suhdsa"].golden.shard)


@pytest.mark.parametrize(
    "changed",
    [
        replace(STATE, reason=np.full_like(STATE.reason, 9)),
        replace(STATE, reason=np.zeros(99, np.int8)),
        replace(STATE, numbers=STATE.numbers - STATE.numbers[0]),
        replace(STATE, numbers=STATE.numbers[:1]),
        replace(STATE, kept={**STATE.kept, "target": -9}),
        replace(STATE, kept={**STATE.kept, "entropy": float("nan")}),
        replace(STATE, kept={**STATE.kept, "further": 1}),
        replace(STATE, lower=STATE.lower[1:]),
        replace(STATE, key=STATE.key + 2**40),
        replace(STATE, delays=STATE.delays + 10**6),
        replace(STATE, reason=STATE.reason.astype(np.float64)),
    ],
)
def test_numbers_of_a_stored_window_are_judged_before_they_are_used(changed: SuhdsaState) -> None:
    of = KINDS["suhdsa"]
    with pytest.raises(StateError, match=r"(suhdsa|blocks) state of shard 0 .*cannot be read"):
        of.restored(replace(of.golden, shard=changed.to_bytes()), "key 5")


@of_all
def test_numbers_of_stored_tuples_are_judged_before_they_are_used(of: Kind) -> None:
    key, blob = next(iter(of.golden.entries["blocks"].items()))
    held: Any = of.tuples.from_bytes(blob, of.setting.members)
    for changed in (
        replace(held, categorical=np.full_like(held.categorical, 99)),
        replace(held, numeric=np.full_like(held.numeric, np.nan)),
        replace(held, position=held.position[::-1].copy()),
        replace(held, sensitive=held.sensitive[:, :0]),
        replace(held, subject=None),
    ):
        entries = {**of.golden.entries, "blocks": of.golden.entries["blocks"] | {key: changed.to_bytes()}}
        with pytest.raises(StateError, match=r"blocks state of shard 0: its columns cannot be read"):
            of.restored(of.with_inventory(of.golden.shard, entries))
