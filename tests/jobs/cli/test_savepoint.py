"""Shards in the files of a savepoint, read without Flink: all of them, and nothing that only resembles one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crenel.anonymity.builtin  # noqa: F401 - registers the kinds of their states
from crenel.anonymity.algorithms.cells.algorithm import Cells
from crenel.anonymity.model.attributes import Numeric, QuasiIdentifier, by_name
from crenel.anonymity.model.fingerprint import Fingerprint, fingerprint
from crenel.anonymity.model.policy import Policy, Shards
from crenel.anonymity.model.privacy import Privacy, SamplingAndNoise
from crenel.anonymity.model.region_tree import Cut, Region, RegionTree
from crenel.anonymity.model.secret import SubjectKey
from crenel.jobs.cli.savepoint import SavepointError, changed_settings, read_shards, require_same, restore_warnings
from crenel.state.castle import VERSION, CastleState
from crenel.state.codec import blob_at, pack
from crenel.state.columns import with_roles
from crenel.state.suhdsa import SuhdsaState

POLICY = Policy({"age": Numeric((17, 90)), "pay": Numeric()}, sensitive=("illness",), passthrough=("clinic",))
_SHARD: dict[str, Any] = {
    "shard": 0,
    "numbers": np.arange(5),
    "lower": np.array([17.0]),
    "upper": np.array([90.0]),
    "key": np.arange(8, dtype=np.uint64),
    "key_used": 5,
    "released": 7,
    "longest_delay": 3,
    "loss_sum": 0.75,
    "suppressed": {"outlier": 1},
    "kinds": np.arange(5),
    "delays": np.array([[1, 2]]),
    "members": with_roles(pa.schema([("illness", pa.string()), ("clinic", pa.string())]), POLICY.roles),
}
STATE = CastleState(
    **_SHARD,
    fingerprint={"shards.count": "aa", "policy.missing": "bb"},
    oldest=3,
    gone=np.array([4, 6]),
    ring=np.array([0.25, 0.5]),
    ring_used=1,
    ring_next=1,
    merges=2,
    splits=1,
)
SUHDSA = SuhdsaState(
    **_SHARD,
    fingerprint={"algorithm": "cc", "shards.count": "aa"},
    reason=np.zeros(2, np.int8),
    reasons=("outlier",),
    kept={"swaps": 1},
)
KEY = SubjectKey.of(b"key")
PUBLISHED = {"illness": "STRING", "clinic": "STRING"}


def shard(number: int) -> bytes:
    return replace(STATE, shard=number).to_bytes()


def other(kind: str, text: bytes) -> bytes:
    return pack(kind, 1, {"text": text, "number": np.arange(3)})


def savepoint(folder: Path, *files: bytes) -> str:
    """Return a folder of files; the first of them is ``_metadata``."""
    for number, content in enumerate(files):
        (folder / (f"part-{number}" if number else "_metadata")).write_bytes(content)
    return str(folder)


def found(place: str) -> list[int]:
    return [state.shard for state in read_shards(place)]


def problems(place: str) -> list[str]:
    with pytest.raises(SavepointError) as error:
        read_shards(place)
    assert error.value.place == place
    for problem in error.value.problems:
        assert problem in str(error.value)
    return list(error.value.problems)


numbers = st.integers(0, 2**31 - 1)
# Bytes of Flink between our values may hold beginnings of our magic number.
noise = st.binary(max_size=40).filter(lambda data: b"CRNL" not in data) | st.sampled_from(
    [b"C", b"CRNL", b"CRNCRNLCRNL"]
)
parts = st.one_of(
    noise.map(lambda data: (data + b"\xff", ())),
    numbers.map(lambda number: (shard(number), (number,))),
    numbers.map(lambda number: (replace(SUHDSA, shard=number).to_bytes(), (number,))),
    st.builds(
        lambda kind, text: (other(kind, text), ()),
        st.sampled_from(["block", "clustered", "gamma", "omega", "buffered"]),
        noise | numbers.map(shard),
    ),
)


@given(st.lists(st.lists(parts, max_size=6), min_size=1, max_size=4))
def test_every_shard_is_found_between_whatever_else_the_files_hold(
    files: list[list[tuple[bytes, Sequence[int]]]],
) -> None:
    stored = sorted(number for file in files for _, held in file for number in held)
    with TemporaryDirectory() as folder:
        place = savepoint(Path(folder), *(b"".join(data for data, _ in file) for file in files))
        if stored:
            assert found(place) == stored
        else:
            assert len(problems(place)) == 1


def test_what_is_found_is_what_was_stored(tmp_path: Path) -> None:
    (state,) = read_shards(savepoint(tmp_path, b"before" + STATE.to_bytes() + b"after"))
    assert state.to_bytes() == STATE.to_bytes()


def test_the_state_of_windows_is_found_as_well(tmp_path: Path) -> None:
    (state,) = read_shards(savepoint(tmp_path, b"before" + SUHDSA.to_bytes() + b"after"))
    assert state.to_bytes() == SUHDSA.to_bytes()


def test_a_file_may_be_one_blob_from_end_to_end(tmp_path: Path) -> None:
    assert found(savepoint(tmp_path, shard(7), shard(3))) == [3, 7]


def test_a_shard_in_the_text_of_a_record_is_none(tmp_path: Path) -> None:
    assert found(savepoint(tmp_path, other("buffered", b"text " + shard(8)) + shard(1))) == [1]


@given(st.data())
def test_every_flipped_bit_and_every_truncation_is_noticed(data: st.DataObject) -> None:
    blob = bytearray(STATE.to_bytes())
    if data.draw(st.booleans()):
        bit = data.draw(st.integers(0, 8 * len(blob) - 1))
        blob[bit // 8] ^= 1 << bit % 8
    else:
        del blob[data.draw(st.integers(0, len(blob) - 1)) :]
    with TemporaryDirectory() as folder:
        assert problems(savepoint(Path(folder), b"before" + bytes(blob)))


@pytest.mark.parametrize(("kind", "version"), [("shard", VERSION), ("suhdsa", SUHDSA.VERSION), ("buffered", 1)])
def test_damaged_state_of_any_kind_is_told_with_its_place(tmp_path: Path, kind: str, version: int) -> None:
    states = {"shard": shard(4), "suhdsa": SUHDSA.to_bytes()}
    damaged = bytearray(states.get(kind, other(kind, b"secret")))
    damaged[-1] ^= 1
    place = savepoint(tmp_path, shard(1), b"12345" + bytes(damaged) + shard(2), other("gamma", b"long enough")[:-4])
    first, second = problems(place)
    assert first.startswith(f"{kind} state of part-1 at byte 5, format version {version}: checksum does not match")
    assert second.startswith("gamma state of part-2 at byte 0: does not end inside the file")
    assert "secret" not in first + second


def test_damage_in_many_places_is_told_for_the_first_of_them(tmp_path: Path) -> None:
    lines = problems(savepoint(tmp_path, shard(0), (shard(1)[:-1] + b"!") * 15))
    assert (len(lines), lines[10]) == (11, "and 5 more such places")


def test_state_of_a_newer_version_is_not_read(tmp_path: Path) -> None:
    (problem,) = problems(savepoint(tmp_path, pack("shard", 60_000, {"shard": np.zeros(1)})))
    assert "format version 60000 is unknown" in problem


@pytest.mark.parametrize("files", [(b"",), (b"no state of ours", b"", b"CRNL"), (other("omega", b"a"),)])
def test_a_savepoint_without_a_shard_is_told_with_likely_reasons(tmp_path: Path, files: tuple[bytes, ...]) -> None:
    (problem,) = problems(savepoint(tmp_path, *files))
    assert problem.startswith("no state of a shard was found in its files; either it is not of this job")
    for reason in ("no record had come", "another format", "--type canonical"):
        assert reason in problem


@pytest.mark.parametrize(
    ("mark", "what"),
    [
        (b"\x00\x0fMANIFEST-000004", "RocksDB's savepoints by '--type canonical' are"),
        (b"\xff\x06\x00\x00sNaPpY", "savepoints without execution.checkpointing.snapshot-compression are"),
    ],
)
def test_state_of_a_format_that_is_not_read_is_not_called_damaged(tmp_path: Path, mark: bytes, what: str) -> None:
    place = savepoint(tmp_path, b"head" + mark, shard(1)[:-4] + shard(2))
    (problem,) = problems(place)
    assert what in problem
    assert "damaged" not in problem
    (warning,) = restore_warnings(place, {})
    assert warning == f"the configuration was not compared with {place}: {problem}"
    # The name alone may be in a text of a record.
    assert found(savepoint(tmp_path, mark[2:], shard(1))) == [1]


def test_blocks_in_flight_may_be_in_pieces(tmp_path: Path) -> None:
    pieces = other("block", b"long enough")
    assert found(savepoint(tmp_path, shard(1), pieces[:-4] + b"......" + pieces[-4:], shard(2))) == [1, 2]


def test_a_job_does_not_start_from_state_that_would_refuse_it(tmp_path: Path) -> None:
    place = savepoint(tmp_path, replace(STATE, fingerprint={"a": "1", "source.query": "x"}).to_bytes())
    warnings = restore_warnings(place, {"a": "1", "source.query": "y"})
    assert any(warning.startswith("source.query: the query has changed") for warning in warnings)
    with pytest.raises(SavepointError, match="a: has changed"):
        restore_warnings(place, {"a": "2", "source.query": "x"})
    (tmp_path / "damaged").write_bytes(shard(1)[:-1] + b"!")
    with pytest.raises(SavepointError, match="checksum does not match"):
        restore_warnings(place, {"a": "1", "source.query": "x"})


def test_what_is_no_savepoint_is_reported(tmp_path: Path) -> None:
    (tmp_path / "savepoint-1").mkdir()
    savepoint(tmp_path / "savepoint-1", shard(1))
    assert problems(str(tmp_path / "none"))[0].startswith("is not a folder; ")
    assert problems(str(tmp_path))[0].startswith("holds no file '_metadata'; give the folder of one savepoint")
    assert problems("s3://bucket/savepoint-1")[0].startswith("is not on this machine; copy")
    assert problems(f"file://elsewhere{tmp_path}/savepoint-1")[0].startswith("is not on this machine; copy")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    place = savepoint(tmp_path, shard(1))
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")  # no file: passed over
    assert found(place) == [1]
    (tmp_path / "_metadata").chmod(0)
    try:
        (tmp_path / "_metadata").read_bytes()
    except PermissionError:
        assert problems(place) == ["_metadata cannot be read: Permission denied"]


@pytest.mark.parametrize("written", ["{}", "file:{}", "file://{}", "file://localhost{}", "{}/", "{}/_metadata"])
@pytest.mark.parametrize("name", ["savepoint-1", "a b%20c"])
def test_a_savepoint_is_named_as_flink_names_it(tmp_path: Path, written: str, name: str) -> None:
    (tmp_path / name).mkdir()
    savepoint(tmp_path / name, shard(5))
    assert found(written.format(tmp_path / name)) == [5]


def test_a_quoted_uri_is_understood(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    savepoint(tmp_path / "a b", shard(5))
    assert found((tmp_path / "a b").as_uri()) == [5]


def test_a_blob_ends_where_its_own_lengths_say() -> None:
    blob = shard(3)
    assert blob_at(blob, 0) == blob
    assert blob_at(b"..." + blob + b"CRNL" + blob, 3) == blob
    assert blob_at(blob[:-1], 0) is None
    assert blob_at(b"." + blob, 0) is None
    assert blob_at(b"CRNX" + blob[4:], 0) is None
    assert blob_at(blob[:4] + b"\x63" + blob[5:], 0) is None
    assert blob_at(blob[:10], 0) is None
    assert blob_at(blob[:20], 0) is None


def test_fields_are_named_in_order() -> None:
    with pytest.raises(SavepointError) as error:
        require_same("there", [replace(STATE, fingerprint={})], dict.fromkeys("hgfedcba", "1"))
    assert [problem[0] for problem in error.value.problems] == list("abcdefgh")


def test_every_field_that_is_not_as_it_was_is_named_once() -> None:
    shards = [replace(STATE, shard=number, fingerprint={"a": "1", "b": "2", "c": "3"}) for number in range(2)]
    require_same("there", shards, {"a": "1", "b": "2", "c": "3"})
    with pytest.raises(SavepointError) as error:
        require_same("there", shards, {"a": "1", "b": "x", "d": "4"})
    assert [problem.split(" since")[0] for problem in error.value.problems] == [
        "b: has changed",
        "c: is gone",
        "d: is new",
    ]
    assert error.value.place == "there"


def test_a_query_that_has_changed_is_told_once_and_not_refused() -> None:
    was, now = (
        fingerprint(
            POLICY,
            Shards(4),
            KEY,
            PUBLISHED,
            source={"source.query": query, "source.ddl": ""},
        )
        for query in ("SELECT UPPER(person) AS person FROM source", "SELECT person FROM source")
    )
    shards = [replace(STATE, shard=number, fingerprint=dict(was)) for number in range(2)]
    require_same("there", shards, now)
    (warning,) = changed_settings(shards, now)
    assert warning.startswith("source.query: the query has changed since the state was stored. Where it")
    assert "one person counts as two" in warning
    assert "person FROM" not in warning
    assert changed_settings(shards, was) == changed_settings([replace(STATE, fingerprint={})], now) == []


@pytest.mark.parametrize("release", ["sampled", "noisy"])
def test_a_guarantee_that_adds_up_over_a_restore_is_reported_and_not_refused(
    release: Literal["sampled", "noisy"],
) -> None:
    rate, leaf = 0.2 if release == "sampled" else None, Region(0.5, 0.5)
    first, *others = (
        Cells(
            RegionTree.of(Cut(0, cut, leaf, leaf), spent),
            4.0,
            1e-6,
            sample_rate=rate,
            window=1000,
            windows=4,
            release=release,
        )
        for spent in (0.5, 0.0)
        for cut in (40.0, 50.0)
    )

    def stored(k: int, cells: Cells) -> Fingerprint:
        budgeted = cells.budgeted(Privacy(k))
        return fingerprint(POLICY, Shards(4), KEY, PUBLISHED, algorithm="cells", budgeted=budgeted)

    def reported(now: Fingerprint, was: Fingerprint) -> list[str]:
        shards = [replace(STATE, shard=number, fingerprint=dict(was)) for number in range(2)]
        assert require_same("there", shards, now)
        return [warning.partition(":")[0] for warning in changed_settings(shards, now)]

    was = stored(16, first)
    assert reported(was, was) == []
    assert reported(stored(16, replace(first, lateness=5)), was) == []
    more = replace(first, epsilon=5.0, delta=1e-5, windows=5)
    assert reported(stored(16, more), was) == ["cells.delta, cells.epsilon, cells.windows"]
    # A count of sampled persons hides a person behind k; a threshold follows from epsilon and delta.
    assert reported(stored(20, first), was) == (["privacy.k"] if release == "sampled" else [])
    # Each private partition spends an epsilon of its own, and a declared one spends nothing.
    private, *declared = (stored(16, other) for other in others)
    assert reported(private, was) == reported(declared[0], was) == ["cells.partition"]
    assert reported(declared[1], declared[0]) == []
    (warning,) = changed_settings([replace(STATE, fingerprint=dict(was))], stored(16, more))
    assert "epsilon and delta are the sums of the earlier ones and these" in warning


def test_shards_that_were_stored_apart_must_all_be_the_same() -> None:
    shards = [replace(STATE, fingerprint={"a": "1"}), replace(STATE, fingerprint={"a": "2"})]
    for now in ("1", "2"):
        with pytest.raises(SavepointError, match="a: has changed"):
            require_same("there", shards, {"a": now})


@pytest.mark.parametrize(("was", "is_now", "what"), [(False, True, "is new"), (True, False, "is gone")])
def test_sampling_and_noise_that_were_switched_are_reported(was: bool, is_now: bool, what: str) -> None:
    prints = [
        fingerprint(
            POLICY,
            Shards(4),
            KEY,
            PUBLISHED,
            sampling_and_noise=SamplingAndNoise(0.5, 9.0) if on else None,
        )
        for on in (was, is_now)
    ]
    with pytest.raises(SavepointError) as error:
        require_same("there", [replace(STATE, fingerprint=prints[0])], prints[1])
    assert [problem.split(" since")[0] for problem in error.value.problems] == [
        f"{field}: {what}"
        for field in (
            "policy.quasi_identifiers.age.step",
            "policy.quasi_identifiers.pay.step",
            "sampling_and_noise",
        )
    ]


def test_only_a_drained_job_goes_on_with_another_epoch() -> None:
    was, now = (fingerprint(POLICY, Shards(4), KEY, PUBLISHED, epoch=epoch) for epoch in (1, 2))
    changed = fingerprint(replace(POLICY, missing="value"), Shards(8), KEY, PUBLISHED, epoch=2)
    drained = [replace(STATE, shard=n, fingerprint=dict(was), entries={"blocks": [0, "0"]}) for n in range(2)]
    assert require_same("there", drained, was)
    assert not require_same("there", drained, now)
    assert not require_same("there", drained, changed)
    waiting = [drained[0], replace(drained[1], entries={"blocks": [1, "0"]})]
    with pytest.raises(SavepointError) as error:
        require_same("there", waiting, changed)
    (problem,) = error.value.problems
    assert problem.startswith("epoch: has changed since the state was stored, and the tuples that wait in 1 of 2")
    # Of one epoch, the way is told that is left.
    for shards, way in ((drained, "with another epoch, as no tuple waits in it"), (waiting, "flink stop --drain")):
        with pytest.raises(SavepointError, match=way):
            require_same("there", shards, fingerprint(POLICY, Shards(8), KEY, PUBLISHED))


@pytest.mark.parametrize("was", ["castle", "suhdsa"])
def test_state_of_the_other_algorithm_is_told_by_name(was: str) -> None:
    prints = {
        name: fingerprint(POLICY, Shards(4), KEY, PUBLISHED, algorithm=name)  # type: ignore[arg-type]
        for name in ("castle", "suhdsa")
    }
    stored = replace(STATE if was == "castle" else SUHDSA, fingerprint=prints.pop(was))
    (now,) = prints.values()
    with pytest.raises(SavepointError) as error:
        require_same("there", [stored], now)
    (problem,) = error.value.problems
    assert problem.startswith("algorithm: has changed since the state was stored, and cannot")


CHANGED: list[tuple[tuple[QuasiIdentifier, ...], Shards, SubjectKey, dict[str, str], str]] = [
    (POLICY.attributes, Shards(4), KEY, PUBLISHED, ""),
    (
        (Numeric((17, 91)).named("age"), Numeric().named("pay")),
        Shards(4),
        KEY,
        PUBLISHED,
        "policy.quasi_identifiers.age.domain",
    ),
    (POLICY.attributes, Shards(5), KEY, PUBLISHED, "shards.count"),
    (POLICY.attributes, Shards(4), SubjectKey.of(b"another key"), PUBLISHED, "subject_key"),
    (POLICY.attributes, Shards(4), KEY, PUBLISHED | {"clinic": "INT"}, "type of the column clinic"),
]


@pytest.mark.parametrize(("attributes", "shards", "key", "published", "field"), CHANGED)
def test_a_change_of_the_policy_is_told_by_field(
    attributes: tuple[QuasiIdentifier, ...], shards: Shards, key: bytes, published: dict[str, str], field: str
) -> None:
    stored = replace(STATE, fingerprint=fingerprint(POLICY, Shards(4), KEY, PUBLISHED))
    now = fingerprint(replace(POLICY, quasi_identifiers=by_name(attributes)), shards, key, published)
    if not field:
        require_same("there", [stored], now)
        return
    with pytest.raises(SavepointError) as error:
        require_same("there", [stored], now)
    (problem,) = error.value.problems
    assert problem.startswith(f"{field}: has changed")
