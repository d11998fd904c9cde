"""Requests to forget, between Flink and the core, in a fake runtime."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from crenel.anonymity.algorithms.castle.algorithm import Castle
from crenel.anonymity.algorithms.nearest.algorithm import Nearest
from crenel.anonymity.algorithms.suhdsa.algorithm import Suhdsa
from crenel.anonymity.model.delay import Delay
from crenel.anonymity.model.policy import SHARD_BY_SUBJECT, Shards
from crenel.anonymity.model.secret import SubjectKey
from crenel.operators.encode.columns import Read
from crenel.operators.encode.encoder import Encoder
from crenel.operators.encode.forget import code_of, requests
from crenel.operators.plan import AnonymizationPlan
from crenel.operators.shards.function import END, ShardFunction
from crenel.state.block import Block
from crenel.state.codec import StateError
from crenel.state.operator import Forget
from tests.support.encoding import GOOD, KEYS, arguments, plan_of
from tests.support.fakes import START, FakeRuntime, Harness
from tests.support.operator_stream import KEY, block, left, planned

PLANS = {
    "castle": planned(Castle(Delay(200, 10**9))),
    "nearest": planned(Nearest(Delay(200, 10**9, jitter=0.25), reuse_limit=1000)),
    "window": planned(Suhdsa(tuples=120, delay=Delay(400))),
}
_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)
PERSON = np.uint64(
    11 * int(_SPREAD) % 2**64
)  # like no count and no number of anything; whose are the tuples 11, 48, 85 and so on


def crowd(first: int, count: int, shard: int = 0) -> bytes:
    """Tuples whose subjects look like hashes."""
    tuples = block(first, count, shard)
    assert tuples.subject is not None
    return dataclasses.replace(tuples, subject=tuples.subject * _SPREAD).to_bytes()


def ask(person: np.uint64) -> bytes:
    return Forget(person, "abc").to_bytes()


def held(runtime: FakeRuntime) -> bytes:
    return b"".join(blob for entries in runtime.state.values() for blob in entries.values())


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_forgetting_leaves_no_byte_and_a_person_who_returns_is_new(plan: AnonymizationPlan) -> None:
    runtime = FakeRuntime()
    harness = Harness(ShardFunction(plan), runtime)
    harness.element(KEY, crowd(0, 100, shard=3))
    assert PERSON.tobytes() in held(runtime)
    harness.advance(50_000)
    harness.element(KEY, ask(PERSON))
    assert PERSON.tobytes() not in held(runtime)
    assert harness.side["forgotten"] == [["abc", 3, 50_000, START, 3]]
    # The function that goes on knows nothing of the request.
    harness = Harness(ShardFunction(plan), runtime)
    harness.element(KEY, crowd(100, 100, shard=3))
    harness.advance(END)
    assert sorted(left(harness)) == [i for i in range(200) if i not in (11, 48, 85)]
    (forgotten_count,) = [amount for _, name, amount in harness.side["summary"] if name == "forgotten"]
    assert forgotten_count == 3


def test_a_restored_shard_forgets_before_any_tuple_of_it_comes() -> None:
    runtime = FakeRuntime()
    Harness(ShardFunction(PLANS["castle"]), runtime).element(KEY, crowd(0, 100))
    harness = Harness(ShardFunction(PLANS["castle"]), runtime)
    harness.element(KEY, ask(PERSON))
    assert PERSON.tobytes() not in held(runtime)
    assert harness.side["forgotten"] == [["abc", 0, None, START, 3]]
    assert runtime.metrics.known["crenel.forgotten"].count == 3


def test_a_shard_to_which_nothing_has_come_tells_of_the_request_and_stays_unborn() -> None:
    runtime = FakeRuntime()
    plan = dataclasses.replace(PLANS["castle"], keys=(*range(5), KEY))
    harness = Harness(ShardFunction(plan), runtime)
    harness.element(KEY, ask(PERSON))
    assert harness.side["forgotten"] == [["abc", 5, None, START, 0]]
    assert not any(runtime.state.values())
    assert not runtime.timers


def test_a_damaged_request_is_refused() -> None:
    blob = bytearray(ask(PERSON))
    blob[-1] ^= 1
    with pytest.raises(StateError, match="checksum does not match"):
        Harness(ShardFunction(PLANS["castle"])).element(KEY, bytes(blob))


# From subjects to requests.


WHO = Read("who", "text", 0)


def plan_for(shards: int, *, by_subject: bool) -> AnonymizationPlan:
    divided = Shards(shards, SHARD_BY_SUBJECT if by_subject else "age")
    key = SubjectKey.of(b"secret")
    return dataclasses.replace(PLANS["castle"], shards=divided, keys=KEYS[:shards], subject_key=key)


def test_the_hash_is_that_of_the_encoder_and_goes_to_the_shard_where_the_person_is() -> None:
    people = [f"person {i}" for i in range(40)]
    encode = plan_of(shards=Shards(4))
    keys, blobs = Encoder(encode).encode(*arguments(encode, [GOOD | {"person": who} for who in people]))
    where = {}
    for key, blob in zip(keys.tolist(), blobs, strict=True):
        if blob is not None:
            subject = Block.from_bytes(blob, Encoder(encode)._schema).subject
            assert subject is not None
            where.update(dict.fromkeys(subject.tolist(), key))
    keys_of, found = requests(plan_for(4, by_subject=True), WHO, pd.Series(people))
    assert len(where) == len(people)
    for key, request in zip(keys_of, found, strict=True):
        assert request is not None
        assert [where[int(Forget.from_bytes(request).subject)]] == key


def test_where_shards_are_not_by_subject_all_get_the_request_and_nobody_that_of_a_missing_subject() -> None:
    keys, blobs = requests(plan_for(3, by_subject=False), WHO, pd.Series(["ann", None, "bob"]))
    assert keys == [list(KEYS[:3]), [], list(KEYS[:3])]
    assert [blob is None for blob in blobs] == [False, True, False]


def test_the_code_tells_persons_apart_follows_from_the_key_and_holds_no_hash() -> None:
    codes = {
        (n, key): code_of(np.uint64(n), SubjectKey.of(key).hash_key) for n in range(50) for key in (b"one", b"two")
    }
    assert len(set(codes.values())) == 100
    assert code_of(np.uint64(7), SubjectKey.of(b"one").hash_key) == codes[7, b"one"]
    assert all(f"{n:016x}" not in code and len(code) == 16 for (n, _), code in codes.items())


def test_a_request_does_not_show_whom_it_is_about_beside_the_hash() -> None:
    _, (blob,) = requests(plan_for(1, by_subject=True), WHO, pd.Series(["Ann of Green Gables"]))
    assert blob is not None
    assert b"Gables" not in blob
    assert Forget.from_bytes(blob).code == code_of(Forget.from_bytes(blob).subject, SubjectKey.of(b"secret").hash_key)
