"""Pseudonyms: what a code is made of is fixed for ever, and it changes with its scope and nothing else."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crenel.anonymity.buffer.releases import Releases, codes
from crenel.anonymity.model.attributes import Numeric
from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.policy import Policy, Pseudonym
from crenel.anonymity.model.secret import SubjectKey

DAY = 86_400_000
SUBJECTS = st.integers(0, 2**64 - 1)

Scope = Literal["stream", "day", "release"]


def releases(first: int, sizes: list[int], subjects: list[int], times: list[int]) -> Releases:
    """Releases of so many members each, of which no more is known."""
    count, none = len(sizes), np.zeros(0, np.int64)
    return Releases(
        release_id=np.arange(first, first + count),
        kind=np.zeros(count, np.int8),
        subjects=np.array(sizes),
        tuples=np.array(sizes),
        diversity=np.zeros((count, 0), np.int64),
        loss=np.zeros(count),
        event_time=np.zeros(count, np.int64),
        lower=np.zeros((count, 0)),
        upper=np.zeros((count, 0)),
        node=np.zeros((count, 0), np.int32),
        offsets=np.cumsum([0, *sizes]),
        members=(),
        linked=np.zeros(count, np.int64),
        noise_expected=np.zeros((count, 0)),
        noise_error=np.zeros((count, 0)),
        suppressed_reason=none.astype(np.int8),
        suppressed_position=none,
        suppressed_event_time=none,
        subject=np.array(subjects, np.uint64),
        member_event_time=np.array(times, np.int64),
    )


def made(scope: Scope, out: Releases, subject_key: bytes = b"a key", random_key: bytes = bytes(32)) -> list[str]:
    return codes(Pseudonym("who", scope), SubjectKey.of(subject_key).pseudonym_key, random_key, out)


GOLDEN: dict[Scope, list[str]] = {
    "stream": [
        "52de8035ce5c509739aaf0f29a17f6c3",
        "3966df2549162505387de06038daa341",
        "52de8035ce5c509739aaf0f29a17f6c3",
    ],
    "day": [
        "9f61f13b88760abf19b2ee1b44c99596",
        "9d557f2cf4c78be5069dbbd64f6ecdca",
        "80d1c8de1204b057128b6b2ff9cf805c",
    ],
    "release": [
        "c417aab297eaa1ed5a62b32525d531fc",
        "1ce1938a6222b14f68716b26fef58c17",
        "5e9bffaf18e4f51f0ab1db9b5aff6dcb",
    ],
}
"""Codes that were published once are to be found again by every later version."""


@pytest.mark.parametrize("scope", GOLDEN)
def test_codes_do_not_change_between_versions(scope: Scope) -> None:
    out = releases(7, [1, 2], [1, 2**64 - 1, 1], [DAY - 1, -1, DAY])
    assert made(scope, out, b"sixteen bytes 16", bytes(range(32))) == GOLDEN[scope]


@given(st.lists(st.tuples(SUBJECTS, st.integers(-(10**14), 10**14)), min_size=1, max_size=8))
def test_a_code_is_of_the_person_and_of_what_its_scope_changes_with(rows: list[tuple[int, int]]) -> None:
    subjects, times = [subject for subject, _ in rows], [time for _, time in rows]
    changing: dict[Scope, list[object]] = {
        "stream": [None for _ in rows],
        "day": [time // DAY for time in times],
        "release": list(range(len(rows))),
    }
    for scope, values in changing.items():
        found = made(scope, releases(3, [1] * len(rows), subjects, times))
        assert all(len(code) == 32 and set(code) <= set("0123456789abcdef") for code in found)
        same = dict(zip(zip(subjects, values, strict=True), found, strict=True))
        assert [same[pair] for pair in zip(subjects, values, strict=True)] == found
        assert len(set(same.values())) == len(same)


def test_another_key_makes_other_codes_and_the_scopes_have_none_in_common() -> None:
    out = releases(0, [3], [1, 2, 1], [0, 0, 0])
    found = [code for scope in GOLDEN for key in (b"a key", b"another") for code in set(made(scope, out, key))]
    assert len(found) == len(set(found)) == 12


def test_releases_of_one_number_in_two_shards_or_runs_have_nothing_in_common() -> None:
    out = releases(0, [3], [1, 2, 1], [0, 0, 0])
    one, other = made("release", out), made("release", out, random_key=bytes([1] * 32))
    assert one[0] == one[2] != one[1]
    assert set(one).isdisjoint(other)


@pytest.mark.parametrize(
    ("column", "scope", "subject", "event_time", "problem"),
    [
        ("code", "stream", None, None, r"policy\.pseudonym: is a code of persons, but policy\.subject"),
        ("code", "day", "who", None, r"policy\.pseudonym\.scope: a day is one of event time"),
        ("age_max", "stream", "who", None, r"policy\.pseudonym\.column: 'age_max' is published already"),
        ("visit", "stream", "who", None, r"policy\.pseudonym\.column: 'visit' is published already"),
    ],
)
def test_a_pseudonym_that_cannot_be_is_refused(
    column: str, scope: Scope, subject: str | None, event_time: str | None, problem: str
) -> None:
    with pytest.raises(PolicyError, match=problem):
        Policy(
            {"age": Numeric()},
            passthrough=("visit",),
            subject=subject,
            event_time=event_time,
            pseudonym=Pseudonym(column, scope),
        )
