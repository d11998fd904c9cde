"""Keys of shards."""

from __future__ import annotations

from collections import Counter

import pytest

from crenel.operators.shards.keys import key_group, shard_keys

# As the JVM assigned Row.of(key) to key groups: Flink 2.3, KeyGroupRangeAssignment.assignToKeyGroup.
ASSIGNED = {
    1: [0, 0, 0, 0, 0, 0],
    7: [5, 6, 3, 4, 0, 0],
    128: [33, 44, 97, 104, 126, 59],
    1024: [161, 556, 609, 232, 638, 699],
    32768: [19617, 15916, 30305, 5352, 8830, 4795],
}


@pytest.mark.parametrize("max_parallelism", ASSIGNED)
def test_key_groups_are_those_that_flink_assigns(max_parallelism: int) -> None:
    found = [key_group(key, max_parallelism) for key in (0, 1, 2, 3, 127, 2**31 - 1)]
    assert found == ASSIGNED[max_parallelism]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 31, 128, 129, 1000])
@pytest.mark.parametrize("max_parallelism", [1, 7, 128, 1024])
def test_each_shard_has_a_key_of_its_own(count: int, max_parallelism: int) -> None:
    keys = shard_keys(count, max_parallelism)
    assert len(keys) == len(set(keys)) == count
    assert all(0 <= key < 2**31 for key in keys)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 13, 64, 100, 128])
@pytest.mark.parametrize("parallelism", [1, 2, 4, 8, 16, 32, 64, 128])
def test_no_subtask_gets_two_shards_more_than_another(count: int, parallelism: int) -> None:
    subtasks = Counter(key_group(key, 128) * parallelism // 128 for key in shard_keys(count, 128))
    held = [subtasks[subtask] for subtask in range(parallelism)]
    assert max(held) - min(held) <= 1


@pytest.mark.parametrize("count", [129, 256, 1000])
def test_more_shards_than_key_groups_fall_evenly(count: int) -> None:
    groups = Counter(key_group(key, 128) for key in shard_keys(count, 128))
    assert len(groups) == 128
    assert max(groups.values()) - min(groups.values()) <= 1


def test_keys_are_the_same_whenever_they_are_chosen() -> None:
    # A savepoint holds state under these keys: a change would lose it.
    assert shard_keys(4, 128) == (299, 238, 8, 101)


@pytest.mark.parametrize(
    ("count", "max_parallelism", "field"),
    [(0, 128, "shards.count"), (4, 0, "max-parallelism"), (4, 32769, "max-parallelism")],
)
def test_what_is_out_of_range_is_named(count: int, max_parallelism: int, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        shard_keys(count, max_parallelism)
