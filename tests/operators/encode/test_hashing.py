"""Codes of subjects and sensitive values, and the shards that follow from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crenel.anonymity.model.attributes import Categorical, Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.secret import SubjectKey
from crenel.operators.encode import hashing
from crenel.operators.encode.encoder import Encoder
from crenel.operators.plan import AnonymizationPlan
from tests.support.encoding import AREA, GOOD, INF, NAN, ODD, blocks_of, encoded, plan_of

SENSITIVE: list[tuple[str, list[list[Any]]]] = [
    ("STRING", [["a"], ["b"], ["a "], ["", None], ["None"], ["nan"], ["é"], ["e\u0301"]]),
    ("DOUBLE", [[0.0, -0.0], [1.0], [5e-324], [INF], [-INF], [NAN, -NAN, None]]),
    ("BIGINT", [[0], [1], [-1], [2**53], [2**53 + 1], [2**63 - 1], [-(2**63)], [None]]),
    ("BOOLEAN", [[True], [False], [None]]),
]


@pytest.mark.parametrize(("sql", "classes"), SENSITIVE)
def test_sensitive_codes_are_equal_where_values_are(sql: str, classes: list[list[Any]]) -> None:
    policy = Policy(quasi_identifiers={"area": Categorical(AREA.with_missing())}, sensitive=("s",), missing="value")
    plan = plan_of(policy, {"area": "STRING", "s": sql})
    rows = [{"area": "", "s": value} for group in classes for value in group + group]
    [block] = blocks_of(plan, rows)
    codes = iter(block.sensitive[:, 0].tolist())
    found = [{next(codes) for _ in group + group} for group in classes]
    assert [len(group) for group in found] == [1] * len(classes)
    assert len(set.union(*found)) == len(classes)


def test_text_codes_are_siphash_2_4() -> None:
    # The test vector of the SipHash paper (Aumasson and Bernstein, 2012, Appendix A), then pandas' finalizer.
    key, text = ("".join(map(chr, range(length))) for length in (16, 15))
    code = 0xA129CA6149BE45E5
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        code = (code ^ code >> shift) * factor % 2**64
    values = np.array([text, "other", text], object)
    for repeated in (False, True):
        codes = hashing.text_codes(values, key, repeated=repeated).tolist()
        assert codes[0] == codes[2] == code != codes[1]


def test_subject_hashes_depend_on_the_key_and_keep_16_ascii_characters_of_it() -> None:
    keys = [SubjectKey.of(key).hash_key for key in (b"", b"a", b"b", b"a" * 1000)]
    assert len(set(keys)) == 4
    assert all(len(key.encode("ascii")) == 16 for key in keys)
    person = np.array(["ann"], object)
    assert len({hashing.text_codes(person, key, repeated=False)[0] for key in keys}) == 4


PEOPLE = ["ann", "bob", "Zürich", "東京 🏯", "", "7"]


def test_codes_are_the_same_in_another_process() -> None:
    script = (
        "import sys, json, numpy as np\nfrom crenel.operators.encode import hashing\n"
        "from crenel.anonymity.model.secret import SubjectKey\n"
        "values = np.array(json.loads(sys.argv[1]), object)\nkey = SubjectKey.of(b'secret').hash_key\n"
        "codes = hashing.text_codes(values, key, repeated=False)\n"
        "print(codes.tolist(), hashing.slices(codes, 7).tolist(), hashing.combined([codes, codes]).tolist())"
    )
    values, key = np.array(PEOPLE, object), SubjectKey.of(b"secret").hash_key
    codes = hashing.text_codes(values, key, repeated=True)
    here = f"{codes.tolist()} {hashing.slices(codes, 7).tolist()} {hashing.combined([codes, codes]).tolist()}"
    root = Path(__file__).parents[3]
    for seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", script, json.dumps(PEOPLE)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == here


def test_stored_codes_and_shards_are_what_they_always_were() -> None:
    # Savepoints hold them: another value here means that people in old state are strangers in the new one.
    rows = [{**GOOD, "person": person} for person in PEOPLE]
    [block] = blocks_of(plan_of(), rows)
    assert block.subject is not None
    assert block.subject.tolist() == [
        15855333261193137159,
        4557465298542012746,
        9212239141722723737,
        3875495916875680519,
        12873038272941986214,
        11294116068149923005,
    ]
    assert hashing.slices(block.subject, 7).tolist() == [3, 0, 6, 5, 6, 0]


def shard_of(plan: AnonymizationPlan, rows: Sequence[dict[str, Any]]) -> list[int]:
    """Return the shard of each row, which is known by its ``trip``."""
    rows = [{**row, "trip": i} for i, row in enumerate(rows)]
    found = {
        int(members[-2]): shard for shard, tuples in encoded(plan, [rows]).tuples.items() for *_, members in tuples
    }
    return [found[i] for i in range(len(rows))]


def test_a_subject_has_one_shard_whatever_else_its_rows_hold() -> None:
    people = [f"person {i}" for i in range(400)]
    plan = plan_of(shards=Shards(8))
    first = shard_of(plan, [{**GOOD, "person": person} for person in people])
    second = shard_of(plan, [{**GOOD, "person": p, "age": i % 90, "income": "x"} for i, p in enumerate(people)])
    assert first == second
    assert min(np.bincount(first, minlength=8)) > 400 / 8 / 2


def test_order_of_arrival_is_kept_in_large_batches() -> None:
    rows = [{**GOOD, "person": f"p{i % 700}", "age": i % 102, "trip": i} for i in range(5000)]
    outcome = encoded(plan_of(shards=Shards(5)), [rows])
    assert len(outcome.tuples) == 5
    for tuples in outcome.tuples.values():
        trips = [int(members[2]) for *_, members in tuples]
        assert trips == sorted(trips)


def test_hashes_within_one_shard_still_differ_in_every_bit() -> None:
    hashes = np.random.default_rng(0).integers(0, 2**64, 100_000, np.uint64, endpoint=False)
    inside = hashes[hashing.slices(hashes, 16) == 3]
    ones = [int(((inside >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)]
    assert all(abs(one / len(inside) - 0.5) < 0.05 for one in ones)


def test_without_a_subject_equal_rows_share_a_shard_and_others_spread() -> None:
    policy = Policy(quasi_identifiers={"age": Numeric(), "area": Categorical(AREA)}, passthrough=("trip",))
    plan = plan_of(policy, shards=Shards(4))
    same = encoded(plan, [[{"age": 1, "area": "", "trip": 1}] * 50])
    assert [len(tuples) for tuples in same.tuples.values()] == [50]
    for column, values in (("age", range(400)), ("trip", range(400)), ("area", ODD)):
        found = encoded(plan, [[{"age": 1, "area": "", "trip": 1, column: value} for value in values]])
        assert len(found.tuples) >= 3, column


def test_a_numeric_quasi_identifier_divides_its_domain_into_equal_slices() -> None:
    plan = plan_of(shards=Shards(4, "age"))
    ages = [0, 24, 25, 49, 50, 74, 75, 99, 100]
    assert shard_of(plan, [{**GOOD, "age": age} for age in ages]) == [0, 0, 1, 1, 2, 2, 3, 3, 3]
    single = Policy(quasi_identifiers={"age": Numeric((5, 5))}, passthrough=("trip", "ok"))
    assert shard_of(plan_of(single, shards=Shards(4, "age")), [GOOD | {"age": 5}]) == [0]
    wide = Policy(quasi_identifiers={"speed": Numeric((-8e307, 8e307))}, passthrough=("trip", "ok"))
    rows = [{**GOOD, "speed": speed} for speed in (-8e307, 0.0, 8e307, 1.7e308, NAN)]
    found = encoded(plan_of(wide, shards=Shards(4, "speed")), [rows])
    assert sorted(found.tuples) == [0, 2, 3]
    assert [reason for _, reason, *_ in found.rejected] == ["outside_domain", "missing"]


def test_a_categorical_quasi_identifier_divides_its_leaves_into_neighbors() -> None:
    plan = plan_of(shards=Shards(3, "area"))
    leaves = AREA.labels[: AREA.leaves]
    found = shard_of(plan, [{**GOOD, "area": label} for label in leaves])
    assert found == sorted(found)
    assert np.bincount(found).tolist() == [3, 3, 3]


@pytest.mark.parametrize("by", ["pay", "income", "nothing"])
def test_shards_that_cannot_be_told_are_refused(by: str) -> None:
    with pytest.raises(PolicyError, match=r"shards\.by"):
        Encoder(plan_of(shards=Shards(4, by)))
