"""Stored bytes: what is written is read back, and nothing damaged or unknown is."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.testing import assert_array_equal

from crenel.state import codec
from crenel.state.block import NO_TIME, Block, Rejected
from crenel.state.castle import VERSION
from crenel.state.codec import KINDS, StateError, array, pack, raw, readable, unpack
from crenel.state.shard import StoredShard
from tests.golden.make import HERE, read, restored

DTYPES = ["i1", "u1", "i2", "i4", "i8", "u8", "f8", "?"]
MEMBERS = pa.schema([("s", pa.string()), ("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_())])

shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
text = st.text('a "\n\0é東😀', max_size=5)
columns = st.dictionaries(
    st.text("ab_", max_size=9),
    st.binary(max_size=20) | st.sampled_from(DTYPES).flatmap(lambda dtype: arrays.arrays(dtype, shapes)),
    max_size=4,
)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    rows, numeric, categorical, sensitive = (draw(st.integers(0, 4)) for _ in range(4))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    members = {
        "s": draw(listed(text | st.none(), rows)),
        "i": draw(listed(st.integers(-(2**63), 2**63 - 1) | st.none(), rows)),
        "f": draw(listed(finite | st.none(), rows)),
        "b": draw(listed(st.booleans() | st.none(), rows)),
    }
    rejected = draw(st.integers(0, 3))
    return Block(
        shard=draw(st.integers(0, 2**31 - 1)),
        numeric=draw(arrays.arrays("f8", (rows, numeric), elements=finite)),
        categorical=draw(arrays.arrays("i4", (rows, categorical))),
        subject=draw(st.none() | arrays.arrays("u8", rows)),
        sensitive=draw(arrays.arrays("u8", (rows, sensitive))),
        event_time=draw(arrays.arrays("i8", rows)),
        members=pa.record_batch(members, schema=MEMBERS),
        rejected=Rejected(
            draw(arrays.arrays("i2", rejected)),
            draw(arrays.arrays("i1", rejected)),
            draw(arrays.arrays("i8", rejected)),
            tuple(draw(listed(text | st.none(), rejected))) if draw(st.booleans()) else (),
        ),
    )


def listed(element: st.SearchStrategy[Any], size: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(element, min_size=size, max_size=size)


@given(columns, st.sampled_from(sorted(KINDS)), st.integers(1, 65535))
def test_columns_are_read_back_as_they_were(written: dict[str, Any], kind: str, version: int) -> None:
    found, read = unpack(kind, pack(kind, version, written), newest=version)
    assert found == version
    assert list(read) == list(written)
    for name, column in written.items():
        assert_same(read[name], column)


@given(blocks())
def test_a_block_is_read_back_as_it_was(block: Block) -> None:
    read = Block.from_bytes(block.to_bytes(), MEMBERS)
    assert (read.shard, len(read), read.rejected.reference) == (block.shard, len(block), block.rejected.reference)
    assert read.members.equals(block.members)
    for name in ("numeric", "categorical", "sensitive", "event_time"):
        assert_same(getattr(read, name), getattr(block, name))
    assert (read.subject is None) == (block.subject is None)
    if block.subject is not None:
        assert_same(read.subject, block.subject)
    for name in ("column", "reason", "event_time"):
        assert_same(getattr(read.rejected, name), getattr(block.rejected, name))


def test_an_array_is_stored_alike_whatever_its_layout_and_byte_order() -> None:
    numbers = np.arange(12, dtype="<i4").reshape(3, 4)
    stored = pack("block", 1, {"a": numbers})
    assert pack("block", 1, {"a": numbers.astype(">i4")}) == stored
    assert pack("block", 1, {"a": np.asfortranarray(numbers)}) == stored


def test_a_block_of_no_published_column_is_read_back() -> None:
    none = np.zeros((2, 0))
    block = Block(
        shard=0,
        numeric=none,
        categorical=none.astype("i4"),
        subject=None,
        sensitive=none.astype("u8"),
        event_time=np.full(2, NO_TIME),
        members=pa.RecordBatch.from_arrays([], names=[]),
    )
    assert len(Block.from_bytes(block.to_bytes(), pa.schema([]))) == 2


def test_every_truncation_and_every_flipped_bit_is_noticed() -> None:
    blob = example().to_bytes()
    for size in range(len(blob)):
        with pytest.raises(StateError):
            Block.from_bytes(blob[:size], MEMBERS)
    for bit in range(8 * len(blob)):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StateError):
            Block.from_bytes(bytes(damaged), MEMBERS)
    with pytest.raises(StateError, match="checksum"):
        Block.from_bytes(blob + b"\0", MEMBERS)


@pytest.mark.parametrize("version", [0, 2, 65535])
def test_an_unknown_version_is_refused_with_its_number_and_its_place(version: int) -> None:
    with pytest.raises(StateError, match=rf"gamma state of shard 3: format version {version} is unknown.* 1 to 1"):
        unpack("gamma", pack("gamma", version, {}), newest=1, where="shard 3")


def test_an_older_version_is_given_to_the_reader() -> None:
    assert unpack("gamma", pack("gamma", 1, {}), newest=2) == (1, {})


def test_another_kind_is_refused_by_both_names() -> None:
    with pytest.raises(StateError, match="omega state: found gamma state"):
        unpack("omega", pack("gamma", 1, {}), newest=1)


def test_a_kind_of_the_future_is_refused_by_its_number() -> None:
    head = b"CRNL\x63" + pack("gamma", 1, {})[5:-4]
    with pytest.raises(StateError, match="found 99 state"):
        unpack("gamma", head + zlib.crc32(head).to_bytes(4, "little"), newest=1)


def test_bytes_of_another_program_are_refused() -> None:
    with pytest.raises(StateError, match="not written by Crenel"):
        unpack("shard", b"\x80\x04\x95 a pickle, say", newest=1)


def test_a_missing_column_is_named() -> None:
    _, read = unpack("shard", pack("shard", 1, {"a": np.zeros(1), "b": b""}), newest=1)
    for wrong in (lambda: array(read, "b"), lambda: raw(read, "a"), lambda: raw(read, "c")):
        with pytest.raises(StateError, match="is missing"):
            wrong()


def test_a_type_that_is_not_stored_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match="column 'a' has a type that is not stored: object"):
        pack("shard", 1, {"a": np.array([None])})


GOLDEN = read(HERE / "castle" / f"v{VERSION}")
ENTRIES = {
    "shard": "shard state of key 17",
    "blocks": f"clustered state of shard 0 (key 17), block {min(GOLDEN.entries['blocks'])}",
    "gamma": f"gamma state of shard 0 (key 17), cluster {min(GOLDEN.entries['gamma'])}",
    "omega": f"omega state of shard 0 (key 17), release {min(GOLDEN.entries['omega'])}",
}
"""The four states of a shard, and what errors call an entry of each."""


def entry(state: str) -> bytes:
    return GOLDEN.shard if state == "shard" else GOLDEN.entries[state][min(GOLDEN.entries[state])]


def with_entry(state: str, blob: bytes) -> StoredShard:
    """Return the golden snapshot with another blob in the place of ``entry``."""
    if state == "shard":
        return replace(GOLDEN, shard=blob)
    held = GOLDEN.entries[state]
    return replace(GOLDEN, entries=GOLDEN.entries | {state: {**held, min(held): blob}})


def resealed(blob: bytes, at: int, changed: bytes) -> bytes:
    """Return a blob with other bytes in its header, and the checksum that goes with them."""
    head, body = bytearray(blob[:9]), blob[13:]
    head[at : at + len(changed)] = changed
    return bytes(head) + zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "little") + body


def damaged(blob: bytes) -> Iterator[tuple[bytes, str]]:
    """Damaged forms of a blob, each with what the error says of it."""
    checksum = ", format version {}: checksum does not match; the bytes are damaged"
    here = checksum.format(VERSION)
    for size in range(len(blob)):
        yield blob[:size], here if size >= 13 else f": {size} bytes are too few for a header of 13"
    yield blob + b"\0", here
    for at in range(len(blob)):
        flipped = bytearray(blob)
        flipped[at] ^= 1 << at % 8
        version = int.from_bytes(flipped[5:7], "little")
        yield bytes(flipped), ": bad magic number" if at < 4 else checksum.format(version)


@pytest.mark.parametrize("state", ENTRIES)
def test_a_shard_with_a_damaged_entry_is_not_restored_and_the_entry_is_named(state: str) -> None:
    restored(with_entry(state, entry(state)), "key 17")
    for blob, problem in damaged(entry(state)):
        with pytest.raises(StateError) as error:
            restored(with_entry(state, blob), "key 17")
        assert str(error.value).startswith(ENTRIES[state] + problem)


@pytest.mark.parametrize("state", ENTRIES)
@pytest.mark.parametrize("version", [0, VERSION + 1, 65535])
def test_a_shard_with_an_entry_of_an_unknown_version_is_not_restored(state: str, version: int) -> None:
    blob = resealed(entry(state), 5, version.to_bytes(2, "little"))
    with pytest.raises(StateError, match=f"^{re.escape(ENTRIES[state])}: format version {version} is unknown"):
        restored(with_entry(state, blob), "key 17")


@pytest.mark.parametrize("state", ENTRIES)
@pytest.mark.parametrize("other", ENTRIES)
def test_a_shard_with_an_entry_of_another_state_is_not_restored(state: str, other: str) -> None:
    if state == other:
        return
    with pytest.raises(
        StateError, match=rf"^{re.escape(ENTRIES[state])}: found \w+ state \(format version {VERSION}\)"
    ):
        restored(with_entry(state, entry(other)), "key 17")


def test_errors_name_a_shard_by_its_number_where_nothing_else_is_known() -> None:
    with pytest.raises(StateError, match=rf"^gamma state of shard 0, cluster {min(GOLDEN.entries['gamma'])}: "):
        restored(with_entry("gamma", b""))
    with pytest.raises(StateError, match=r"^shard state: "):
        restored(with_entry("shard", b""))


def example() -> Block:
    return Block(
        shard=3,
        numeric=np.array([[1.5], [-2.0]]),
        categorical=np.array([[0], [7]], np.int32),
        subject=np.array([1, 2**64 - 1], np.uint64),
        sensitive=np.array([[5], [6]], np.uint64),
        event_time=np.array([NO_TIME, 1_700_000_000_000]),
        members=pa.record_batch(
            {"s": ["a", None], "i": [1, None], "f": [None, 0.5], "b": [True, None]}, schema=MEMBERS
        ),
        rejected=Rejected(np.zeros(1, np.int16), np.zeros(1, np.int8), np.zeros(1, np.int64), ("line 4",)),
    )


def assert_same(read: Any, written: Any) -> None:
    assert type(read) is type(written)
    if isinstance(written, np.ndarray):
        assert read.dtype == written.dtype
        assert_array_equal(read, written, strict=True)
    else:
        assert read == written


@pytest.mark.parametrize("changed", [lambda blob: blob[:8], lambda blob: b"", lambda blob: bytes(8) + blob[8:]])
def test_a_batch_of_arrow_that_ends_early_or_says_so_cannot_be_read(changed: Callable[[bytes], bytes]) -> None:
    batch = pa.record_batch([pa.array(["a", None])], ["text"])
    written = changed(batch.serialize().to_pybytes())
    with pytest.raises(StateError, match="its columns cannot be read"), readable("block state"):
        pa.ipc.read_record_batch(pa.py_buffer(written), batch.schema)


def test_a_kind_of_an_extension_has_a_number_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "KINDS", dict(codec.KINDS))
    for kind, number in (("mine", 128), ("mine", 128), ("yours", 255)):
        codec.add_kind(kind, number)
    for kind, number in (("mine", 129), ("others", 128), ("others", 127), ("others", 256), ("chain", 200)):
        with pytest.raises(ValueError, match=f"{kind}: must have a number of its own from 128 to 255, not {number}"):
            codec.add_kind(kind, number)
    assert {kind: codec.KINDS[kind] for kind in codec.KINDS if codec.KINDS[kind] > 127} == {"mine": 128, "yours": 255}
