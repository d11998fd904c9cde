"""Keys of shards that Flink spreads evenly over its subtasks."""

from __future__ import annotations

_MASK = 0xFFFF_FFFF


def key_group(key: int, max_parallelism: int) -> int:
    """Return the key group of an int key of a PyFlink stream that is keyed by ``Types.INT()``.

    The JVM hashes such a key as a ``Row`` of one ``Integer`` and spreads the hash by MurmurHash3
    (``KeyGroupRangeAssignment.assignToKeyGroup``, ``MathUtils.murmurHash`` of Flink 1.20 to 2.3).

    Parameters
    ----------
    key : 0 to 2**31 - 1
    max_parallelism : ``pipeline.max-parallelism``, 1 to 32768
    """
    code = (62 + key) & _MASK  # Row.hashCode of one Integer in a row of kind INSERT
    code = code * 0xCC9E2D51 & _MASK
    code = (code << 15 | code >> 17) & _MASK
    code = code * 0x1B873593 & _MASK
    code = (code << 13 | code >> 19) & _MASK
    code = (code * 5 + 0xE6546B64) & _MASK
    code ^= 4
    code ^= code >> 16
    code = code * 0x85EBCA6B & _MASK
    code ^= code >> 13
    code = code * 0xC2B2AE35 & _MASK
    code ^= code >> 16
    signed = code - (1 << 32) if code >> 31 else code
    # Java's Math.abs of the minimum int is negative; Flink uses 0 for it.
    return 0 if signed == -(1 << 31) else abs(signed) % max_parallelism


def shard_keys(count: int, max_parallelism: int) -> tuple[int, ...]:
    """Return one key for each shard: distinct, and with evenly spaced key groups.

    Shard i gets the smallest free key of key group ``floor((i + 0.5) * max_parallelism / count)``. If the parallelism
    divides ``max_parallelism``, the numbers of shards per subtask differ by at most one. With more shards than key
    groups, groups contain several shards.

    Parameters
    ----------
    count : number of shards, at least 1
    max_parallelism : ``pipeline.max-parallelism``, 1 to 32768; the keys stay valid only while it does not change

    Raises
    ------
    ValueError
        Either is out of range.
    """
    if count < 1:
        raise ValueError(f"shards.count: must be 1 or more, not {count}")
    if not 1 <= max_parallelism <= 1 << 15:
        raise ValueError(f"flink.pipeline.max-parallelism: must be from 1 to 32768, not {max_parallelism}")
    wanted = [(2 * i + 1) * max_parallelism // (2 * count) for i in range(count)]
    lacking: dict[int, list[int]] = {}
    for shard, group in reversed(list(enumerate(wanted))):
        lacking.setdefault(group, []).append(shard)
    keys = [0] * count
    key = 0
    while lacking:
        group = key_group(key, max_parallelism)
        if shards := lacking.get(group):
            keys[shards.pop()] = key
            if not shards:
                del lacking[group]
        key += 1
    return tuple(keys)
