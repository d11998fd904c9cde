"""The random stream of a shard: ChaCha20's own test vectors, no bias, and the same words after a restore."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from crenel.anonymity.compiled.jit import entry
from crenel.anonymity.compiled.random import (
    CounterRandom,
    RandomStream,
    chacha20_block,
    counter_random,
    next_word,
    randbelow,
    random_stream,
    shard_key,
    shuffle,
    uniform_at,
)
from tests.support.deadlines import drawn as lot_of

KEY = bytes(range(32))


@entry
def words(stream: RandomStream, count: int) -> NDArray[np.int64]:
    found = np.empty(count, np.int64)
    for i in range(count):
        found[i] = next_word(stream)
    return found


@entry
def drawn(stream: RandomStream, bound: int, count: int) -> NDArray[np.int64]:
    found = np.empty(count, np.int64)
    for i in range(count):
        found[i] = randbelow(stream, bound)
    return found


@entry
def shuffled(stream: RandomStream, values: NDArray[np.int32], start: int, stop: int) -> None:
    shuffle(stream, values, start, stop)


@entry
def uniforms(stream: CounterRandom, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    found = np.empty(len(numbers))
    for i in range(len(numbers)):
        found[i] = uniform_at(stream, numbers[i])
    return found


@pytest.mark.parametrize(
    ("key", "position", "block"),
    [
        (  # RFC 8439, Section 2.3.2
            KEY,
            (1, 0x09000000, 0x4A000000, 0),
            "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3 "
            "466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2",
        ),
        (  # RFC 8439, Appendix A.1, test vector 1
            bytes(32),
            (0, 0, 0, 0),
            "ade0b876 903df1a0 e56a5d40 28bd8653 b819d2bd 1aed8da0 ccef36a8 c70d778b "
            "7c5941da 8d485751 3fe02477 374ad8b8 f4b8436a 1ca11815 69b687c3 8665eeb2",
        ),
    ],
)
def test_a_block_is_that_of_the_rfc(key: bytes, position: tuple[int, ...], block: str) -> None:
    out = np.zeros(16, np.uint32)
    chacha20_block(np.frombuffer(key, "<u4").copy(), np.array(position, np.uint32), out)
    assert " ".join(f"{word:08x}" for word in out.tolist()) == block


def test_the_stream_is_the_blocks_one_after_the_other() -> None:
    found = words(random_stream(bytes(32)), 40)
    for number in range(2):
        out = np.zeros(16, np.uint32)
        chacha20_block(np.zeros(8, np.uint32), np.array([number, 0, 0, 0], np.uint32), out)
        assert found[16 * number : 16 * number + 16].tolist() == out.tolist()


@given(st.integers(0, 100), st.binary(min_size=32, max_size=32))
def test_a_stream_goes_on_where_it_was_stored(used: int, key: bytes) -> None:
    stream = random_stream(key)
    words(stream, used)
    assert stream.used.tolist() == [used]
    assert words(random_stream(key, used), 40).tolist() == words(stream, 40).tolist()


@pytest.mark.parametrize("used", [16 * 2**32 - 3, 16 * 2**32, 16 * 2**32 + 5])
def test_the_counter_carries_beyond_32_bits(used: int) -> None:
    found = words(random_stream(KEY, used), 4)
    for i, word in enumerate(found.tolist()):
        out = np.zeros(16, np.uint32)
        block = (used + i) // 16
        position = np.array([block & 0xFFFFFFFF, block >> 32, 0, 0], np.uint32)
        chacha20_block(np.frombuffer(KEY, "<u4").copy(), position, out)
        assert word == out[(used + i) % 16]


@pytest.mark.parametrize("bound", [2, 3, 5, 6, 7, 100])
def test_every_value_below_a_bound_is_as_likely(bound: int) -> None:
    draws = 2000 * bound
    counts = np.bincount(drawn(random_stream(KEY), bound, draws), minlength=bound)
    assert len(counts) == bound
    # Chi-square with bound - 1 degrees of freedom: mean bound - 1, variance 2 (bound - 1). The key is fixed.
    statistic = float(((counts - 2000) ** 2 / 2000).sum())
    assert statistic < bound - 1 + 4 * (2 * (bound - 1)) ** 0.5


def test_the_largest_bound_reaches_all_of_32_bits() -> None:
    found = drawn(random_stream(KEY), 2**32, 1000)
    assert found.tolist() == words(random_stream(KEY), 1000).tolist()
    assert found.max() >= 2**31


def test_one_choice_costs_no_word() -> None:
    stream = random_stream(KEY)
    assert drawn(stream, 1, 10).tolist() == [0] * 10
    assert stream.used.tolist() == [0]


def test_every_order_is_as_likely_and_what_lies_outside_stays() -> None:
    stream = random_stream(KEY)
    orders: Counter[tuple[int, ...]] = Counter()
    for _ in range(2400):
        values = np.arange(6, dtype=np.int32)
        shuffled(stream, values, 1, 5)
        assert (values[0], values[5]) == (0, 5)
        orders[tuple(values[1:5].tolist())] += 1
    assert len(orders) == 24
    assert sum((count - 100) ** 2 / 100 for count in orders.values()) < 23 + 4 * 46**0.5


def test_keys_of_shards_differ_and_repeat_under_a_seed_only() -> None:
    keys = {shard_key(seed, shard) for seed in (1, 11) for shard in (1, 11)}
    assert len(keys) == 4
    assert shard_key(1, 1) in keys
    assert shard_key(None, 1) != shard_key(None, 1)
    assert {len(key) for key in (*keys, shard_key(None, 0))} == {32}


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"32 bytes, not {length}"):
        random_stream(bytes(length))


@given(st.lists(st.integers(0, 40) | st.integers(2**34, 2**34 + 40) | st.integers(0, 2**63 - 1), max_size=20))
def test_a_number_follows_from_its_index_alone(numbers: list[int]) -> None:
    found = uniforms(counter_random(np.frombuffer(KEY, "<u4")), np.array(numbers, np.int64))
    assert found.tolist() == [float(lot_of(KEY, number)) for number in numbers]


def test_numbers_by_index_are_uniform_and_not_the_shards_random_stream() -> None:
    found = uniforms(counter_random(np.frombuffer(KEY, "<u4")), np.arange(10_000))
    counts = np.bincount((found * 20).astype(int), minlength=20)
    statistic = float(((counts - 500) ** 2 / 500).sum())
    assert len(counts) == 20
    assert statistic < 19 + 4 * 38**0.5
    assert not set((found * 2**32).astype(np.int64).tolist()) & set(words(random_stream(KEY), 20_000).tolist())
