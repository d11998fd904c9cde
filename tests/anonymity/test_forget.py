"""Invariants of erasure: of every algorithm, on any stream."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crenel.anonymity.algorithms.batch.stored import between
from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.mondrian.algorithm import Mondrian
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.buffer.releases import Releases
from crenel.anonymity.builtin import T
from crenel.anonymity.model.attributes import Noised, Numeric, by_name
from crenel.anonymity.model.delay import Delay, Window
from crenel.anonymity.model.policy import Policy
from crenel.anonymity.model.privacy import NoiseWithinRelease, Persons, Privacy
from crenel.state.block import BufferedTuples
from tests.support.drive import Kept, Setting, columns_of, hashes, judged
from tests.support.example_counts import FEW, LAWS, examples
from tests.support.forgets import forgets_of, with_forgets
from tests.support.lasting_drive import LastingSetting, lasting_cases
from tests.support.mondrian_drive import MondrianSetting, mondrian_cases
from tests.support.nearest_drive import NearestSetting, nearest_cases
from tests.support.settings import models_of
from tests.support.source import IDENTITY, Finish, Forget, Push, Row
from tests.support.strategies import Case, cases, cuts
from tests.support.window_drive import WindowSetting, window_cases

CASES: dict[str, Callable[..., st.SearchStrategy[Case]]] = {
    "castle": cases,
    "nearest": nearest_cases,
    "lasting": lambda named: lasting_cases() | lasting_cases(forgets=True),  # which needs a subject
    "window": window_cases,
    "mondrian": mondrian_cases,
}
restores = st.lists(st.integers(0, 60), max_size=8)


@pytest.mark.parametrize("algorithm", CASES)
@given(st.data(), cuts, cuts, restores)
@LAWS
def test_a_forgotten_person_is_not_published_and_others_are_however_blocks_are_cut_and_restored(
    algorithm: str, data: st.DataObject, one: tuple[int, ...], other: tuple[int, ...], restores: list[int]
) -> None:
    case = data.draw(CASES[algorithm](named=True))
    forgets = data.draw(forgets_of(case))
    first, counters, _ = judged(case.setting, list(with_forgets(case.steps(one), forgets)))
    kept, outputs = Kept(case.setting), []
    for number, step in enumerate(with_forgets(case.steps(other), forgets)):
        outputs.append(kept.take(step))
        if number in restores or isinstance(step, Forget):
            kept.restore()
    assert columns_of(outputs) == columns_of(first)
    again = kept.live.counters
    assert again.delays.tolist() == counters.delays.tolist()
    assert replace(again, delays=counters.delays) == counters


# No byte of a person in any state.

TOP = 2.0**41


def _reusing(delay: int) -> Nearest:
    return Nearest(Delay(delay, jitter=0.25), reuse_limit=1000)


SETTINGS: dict[str, Callable[[Policy, Privacy, int, tuple[pa.DataType, ...]], Setting]] = {
    "castle": lambda policy, privacy, delay, types: Setting(policy, privacy, Castle(Delay(delay)), types),
    "nearest": lambda policy, privacy, delay, types: NearestSetting(policy, privacy, _reusing(delay), types),
    "priced": lambda policy, privacy, delay, types: NearestSetting(
        policy, privacy, Nearest(Delay(delay), isolation_price=0.55), types
    ),
    "lasting": lambda policy, privacy, delay, types: LastingSetting(
        policy, replace(privacy, noise_within_release=None, persons=Persons("lasting")), Nearest(Delay(delay)), types
    ),
    "lasting, counting": lambda policy, privacy, delay, types: LastingSetting(
        policy,
        replace(privacy, noise_within_release=None, persons=Persons("lasting", None, "count")),
        Nearest(Delay(delay)),
        types,
    ),
    "lasting, reusing": lambda policy, privacy, delay, types: LastingSetting(
        policy, replace(privacy, noise_within_release=None, persons=Persons("lasting")), _reusing(delay), types
    ),
    "window": lambda policy, privacy, delay, types: WindowSetting(
        policy, privacy, Suhdsa(max(delay // 2, privacy.k), delay=Delay(4 * delay)), types
    ),
    "mondrian": lambda policy, privacy, delay, types: MondrianSetting(
        policy, privacy, Mondrian(Window(max(delay, privacy.k))), types
    ),
}


def crowd(chance: Random, people: int, *, noised: bool) -> list[Row]:
    """Tuples of which no two share a value, each like no count and no number of anything."""

    def number() -> float:
        return chance.uniform(1.0, TOP)

    return [
        Row(
            values=(number(), number()),
            published=(
                f"illness {chance.getrandbits(64):x}",
                *((number(),) if noised else ()),
                f"remark {chance.getrandbits(64):x}",
                number(),
                -chance.getrandbits(62),
            ),
            subject=chance.randrange(people),
        )
        for _ in range(chance.choice((3, 20, 60, 120)))
    ]


def setting_of(algorithm: str, k: int, delay: int, *, noised: bool, compared: bool = False) -> Setting:
    """Return a policy and its privacy; ``compared``: with the stream so far, by a model that every set satisfies."""
    policy = Policy(
        {"age": Numeric((0.0, TOP)), "pay": Numeric((0.0, TOP))},
        sensitive=("illness",),
        noised=by_name((Noised((0.0, TOP), 4.0).named("dose"),) if noised else ()),
        passthrough=("remark", "visit", IDENTITY),
        subject="who",
    )
    privacy = Privacy(
        k,
        1,
        models=models_of(((T, 1.0),) if compared else ()),
        noise_within_release=NoiseWithinRelease(1.0) if noised else None,
    )
    dose = (pa.float64(),) if noised else ()
    return SETTINGS[algorithm](policy, privacy, delay, (pa.string(), *dose, pa.string(), pa.float64(), pa.int64()))


def bytes_of(row: Row, shown: set[float]) -> Iterator[bytes]:
    """Return the bytes of a tuple that a state must not hold, except published ends of intervals that are reused."""
    yield struct.pack("<Q", hashes([row.subject])[0])
    yield struct.pack("<Q", hashes([row.published[0]])[0])
    for value in (*row.values, *row.published):
        if isinstance(value, float) and value not in shown:
            yield struct.pack("<d", value)
        elif isinstance(value, int):
            yield struct.pack("<q", value)
        elif isinstance(value, str):
            yield value.encode()


@pytest.mark.parametrize("algorithm", SETTINGS)
@given(
    st.integers(0, 2**32),
    st.integers(2, 4),
    st.sampled_from((2, 8, 30, 100)),
    st.sampled_from((1, 3, 17)),
    st.booleans(),
    st.booleans(),
)
@settings(LAWS, max_examples=examples(60))
def test_no_byte_of_the_forgotten_is_in_any_state(
    algorithm: str, seed: int, k: int, delay: int, block: int, noised: bool, compared: bool
) -> None:
    compared = compared and "lasting" not in algorithm
    noised = noised and "lasting" not in algorithm  # which does not go with noise
    chance = Random(seed)
    people = chance.choice((2, 6, 30))
    rows = crowd(chance, people, noised=noised)
    setting = setting_of(algorithm, k, delay, noised=noised, compared=compared)
    shard, reuses = Kept(setting), getattr(setting.algorithm, "reuse_limit", 0) > 0
    shown: set[float] = set()
    for start in range(0, len(rows), block):
        for who in chance.sample(range(people), chance.choice((0, 0, 1, 2))):
            shown |= published(shard.take(Forget((who,))))
            held = b"".join(shard.blobs())
            for row in rows[:start]:
                if row.subject == who:
                    assert not any(found in held for found in bytes_of(row, shown if reuses else set()))
            if chance.random() < 0.3:
                shard.restore()
        shown |= published(shard.take(Push(tuple(rows[start : start + block]))))
    shard.take(Finish())


@pytest.mark.parametrize(
    ("algorithm", "noised"), [(name, noised) for name in SETTINGS for noised in (False, True) if "lasting" not in name]
)
def test_what_waits_of_a_person_is_in_the_state_until_the_person_is_forgotten(algorithm: str, noised: bool) -> None:
    # Else the law above would hold of anything.
    shard = Kept(setting_of(algorithm, 3, 500, noised=noised))
    rows = crowd(Random(1), 200, noised=noised)
    shard.take(Push(tuple(rows)))
    who = rows[-1].subject
    held = b"".join(shard.blobs())
    assert all(found in held for found in bytes_of(rows[-1], set()))
    assert isinstance(who, int)
    shard.take(Forget((who,)))
    mine = sum(row.subject == who for row in rows)
    counters = shard.live.counters
    assert (counters.forgotten, counters.buffered) == (mine, len(rows) - mine)
    assert not any(found in b"".join(shard.blobs()) for found in bytes_of(rows[-1], set()))


def test_the_code_of_a_value_stays_where_so_many_published_tuples_had_it_as_the_stream_is_compared_with() -> None:
    # Guarantees lists it: nothing tells whose these tuples were.
    shard = Kept(setting_of("nearest", 2, 4, noised=False, compared=True))
    values = [(1.0, 5.0), (2.0, 6.0)]
    rows = [Row(values[i % 2], ("rare" if i % 2 else f"illness {i}", "", 0.0, i), i % 2) for i in range(20)]
    shard.take(Push(tuple(rows)))
    shard.take(Forget((1,)))
    held = b"".join(shard.blobs())
    assert struct.pack("<Q", hashes(["rare"])[0]) in held
    assert struct.pack("<Q", hashes([1])[0]) not in held


def published(releases: Releases) -> set[float]:
    """Return the ends of all intervals that left."""
    return {*np.ravel(releases.lower).tolist(), *np.ravel(releases.upper).tolist()}


@pytest.mark.parametrize("algorithm", [name for name in CASES if name != "lasting"])  # which needs a subject
@given(st.data())
@FEW
def test_nobody_can_be_forgotten_who_is_not_known_by_a_subject(algorithm: str, data: st.DataObject) -> None:
    case = data.draw(CASES[algorithm](named=False))
    shard: Any = Kept(case.setting).live
    with pytest.raises(ValueError, match=r"policy\.subject: is missing"):
        shard.forget(hashes([1]))


def test_a_part_of_a_block_is_stored_without_truth_values_of_later_tuples() -> None:
    """Arrow stores a slice in whole bytes, and a later tuple may be forgotten before the part is written anew."""

    def stored(later: bool) -> bytes:
        members = pa.record_batch([pa.array([True, False, later, later])], ["ill"])
        tuples = BufferedTuples(
            numeric=np.zeros((4, 0)),
            categorical=np.zeros((4, 0), np.int32),
            subject=None,
            sensitive=np.zeros((4, 0), np.uint64),
            event_time=np.zeros(4, np.int64),
            members=members,
            position=np.arange(4),
        )
        return between(tuples, 0, 2).to_bytes()

    assert stored(True) == stored(False)
