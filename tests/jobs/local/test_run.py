"""What a run in this process prints, and what it does not."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs.local.run import hang_up_quietly, local_settings


class EndedError(Exception):
    """What gRPC raises."""

    def __init__(self, name: str) -> None:
        self._name = name

    def code(self) -> SimpleNamespace:
        return SimpleNamespace(name=self._name)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """The errors of threads that are reported."""
    found: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda ended: found.append(ended.exc_value))
    hang_up_quietly()
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


def test_checkpoints_are_kept_beside_the_run_unless_the_configuration_says_where(tmp_path: Path) -> None:
    # In Flink's default, memory, a shard's state could take 5 MB at most.
    assert local_settings({}, None, tmp_path)["execution.checkpointing.dir"] == (tmp_path / "checkpoints").as_uri()
    for name, value in (
        ("execution.checkpointing.dir", "file:/kept"),
        ("execution.checkpointing.storage", "jobmanager"),
    ):
        found = local_settings({name: value}, 3, tmp_path)
        assert found[name] == value
        assert "execution.checkpointing.dir" not in found or name == "execution.checkpointing.dir"
        assert found["parallelism.default"] == "3"
