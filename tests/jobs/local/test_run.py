"""Output of a run in this process."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from crenel.jobs.local.run import ignore_disconnects, local_settings


class EndedError(Exception):
    """Error as gRPC raises it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def code(self) -> SimpleNamespace:
        return SimpleNamespace(name=self._name)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """Return the errors of threads that are reported."""
    found: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda ended: found.append(ended.exc_value))
    ignore_disconnects()
    return found


@pytest.mark.parametrize(
    ("error", "count"), [(EndedError("CANCELLED"), 0), (EndedError("UNAVAILABLE"), 1), (ValueError(), 1)]
)
def test_only_a_hang_up_is_not_reported(reported: list[BaseException | None], error: Exception, count: int) -> None:
    def fail() -> None:
        raise error

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert reported == [error] * count


def test_checkpoints_are_kept_beside_the_run(tmp_path: Path) -> None:
    # In Flink's default, memory, a shard's state could take 5 MB at most.
    # Flink takes a URI literally: as it is encoded elsewhere, it would name a folder that nobody cleans.
    for name in ("", "a b%20ß"):
        assert kept({}, tmp_path / name) == {"execution.checkpointing.dir": f"file://{tmp_path / name}/checkpoints"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("execution.checkpointing.dir", "file:/kept"),
        ("state.checkpoints.dir", "file:/kept"),
        ("execution.checkpointing.storage", "jobmanager"),
    ],
)
def test_checkpoints_are_kept_where_the_configuration_says(tmp_path: Path, name: str, value: str) -> None:
    assert kept({name: value}, tmp_path) == {name: value}


def kept(settings: dict[str, str], folder: Path) -> dict[str, str]:
    """Return the settings of a run that say where checkpoints are kept."""
    names = ("execution.checkpointing.dir", "state.checkpoints.dir", "execution.checkpointing.storage")
    found = local_settings(settings, None, folder)
    return {name: found[name] for name in names if name in found}


def test_parallelism_is_the_command_lines_then_the_configurations_then_one(tmp_path: Path) -> None:
    given = {"parallelism.default": "2"}
    for settings, parallelism, expected in (({}, None, "1"), (given, None, "2"), (given, 3, "3")):
        assert local_settings(settings, parallelism, tmp_path)["parallelism.default"] == expected
