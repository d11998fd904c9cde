"""Keys: their part in a job graph, and their reading where they are used."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from crenel.anonymity.model.errors import PolicyError
from crenel.anonymity.model.secret import EnvironmentKey, FileKey, KeySource, ProvidedKey, Secret, SubjectKey

KEY = b"sixteen bytes 16"


def provided() -> str:
    return KEY.decode()


def nothing() -> bytes:
    return b""


def failing() -> bytes:
    raise RuntimeError(f"the vault holds {KEY!r}")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(KEY + b"\r\n")
    return path


@pytest.fixture(params=["environment", "file", "provider"])
def source(request: pytest.FixtureRequest, place: Path, monkeypatch: pytest.MonkeyPatch) -> KeySource:
    monkeypatch.setenv("CRENEL_TEST_KEY", KEY.decode())
    made: dict[str, KeySource] = {
        "environment": EnvironmentKey("CRENEL_TEST_KEY"),
        "file": FileKey(str(place)),
        "provider": ProvidedKey("tests.anonymity.model.test_secret", "provided"),
    }
    return made[request.param]


def secrets_of(key: SubjectKey) -> list[bytes]:
    return [KEY, key.pseudonym_key, key.hash_key.encode(), key._material]


def test_a_key_of_a_source_leaves_its_process_neither_as_it_is_nor_stretched_nor_derived(source: KeySource) -> None:
    subject, audit = SubjectKey(Secret("subject_key", source=source)), Secret("audit_chain.key", source=source)
    assert subject.hash_key == SubjectKey.of(KEY).hash_key  # everything is derived before it is shipped
    shipped = pickle.dumps((subject, audit))
    assert not [secret for secret in secrets_of(subject) if secret in shipped]
    there, log = pickle.loads(shipped)
    assert (there.hash_key, there.pseudonym_key, log.read()) == (subject.hash_key, subject.pseudonym_key, KEY)
    again, _ = pickle.loads(pickle.dumps((there, log)))
    assert again.hash_key == subject.hash_key


def test_of_a_key_in_the_configuration_only_what_it_was_stretched_to_leaves_the_process() -> None:
    key = SubjectKey.of(KEY)
    shipped = pickle.dumps(key)
    assert KEY not in shipped
    there = pickle.loads(pickle.dumps(pickle.loads(shipped)))
    assert there
    assert (there.hash_key, there.pseudonym_key, there.stored) == (key.hash_key, key.pseudonym_key, key.stored)
    assert not pickle.loads(pickle.dumps(SubjectKey()))


def test_a_worker_that_reads_another_key_says_so(place: Path) -> None:
    subject, audit = (
        SubjectKey(Secret("subject_key", source=FileKey(str(place)))),
        Secret("audit_chain.key", source=FileKey(str(place))),
    )
    shipped = pickle.dumps((subject, audit))
    place.write_bytes(KEY[::-1])
    there, log = pickle.loads(shipped)
    for read in (lambda: there.hash_key, log.read):
        with pytest.raises(
            PolicyError, match="is another than where the job was submitted; give both the same"
        ) as error:
            read()
        assert KEY[::-1].decode() not in str(error.value)
    place.unlink()
    with pytest.raises(PolicyError, match=r"^audit_chain.key: the file of the key cannot be read: No such file"):
        log.read()


CALLS: list[int] = []


def counting() -> bytes:
    CALLS.append(1)
    return KEY


def test_a_process_asks_a_provider_once() -> None:
    secrets = [Secret(name, source=ProvidedKey("tests.anonymity.model.test_secret", "counting")) for name in ("a", "b")]
    assert [secret.read() for secret in secrets * 2] == [KEY] * 4
    assert len(import_module("tests.anonymity.model.test_secret").CALLS) == 1


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            EnvironmentKey("CRENEL_TEST_UNSET"),
            "the environment variable CRENEL_TEST_UNSET is not set; set it where the",
        ),
        (FileKey("/dev/null"), "the file of the key is empty; write the key into it"),
        (
            ProvidedKey("no_such_module", "key"),
            "the provider no_such_module:key raised ModuleNotFoundError; it must be",
        ),
        (
            ProvidedKey("tests.anonymity.model.test_secret", "failing"),
            "raised RuntimeError; it must be importable, and",
        ),
        (ProvidedKey("tests.anonymity.model.test_secret", "nothing"), "returned no key; return bytes or text"),
    ],
)
def test_a_source_without_a_key_is_named_with_the_remedy(source: KeySource, problem: str) -> None:
    with pytest.raises(PolicyError) as error:
        Secret("subject_key", source=source).read()
    assert str(error.value).startswith("subject_key: ")
    assert problem in str(error.value)
    assert KEY.decode() not in repr(error.value)
    assert error.value.__suppress_context__


def test_keys_are_derived_from_the_stretched_key_and_no_two_are_alike() -> None:
    derivations: list[Callable[[SubjectKey], object]] = [
        lambda key: key.hash_key,
        lambda key: key.pseudonym_key,
        lambda key: key.stored,
    ]
    key, other = SubjectKey.of(KEY), SubjectKey.of(KEY[::-1])
    for derive in derivations:
        assert len({derive(each) for each in (key, SubjectKey.of(key._material), other, SubjectKey())}) == 4
    assert "bytes" not in repr(key) + repr(Secret("subject_key", KEY))
