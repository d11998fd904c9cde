"""What a run in this process prints, and what it does not."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from jobs.run import hang_up_quietly


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
