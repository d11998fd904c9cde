"""Temporary folders end with the process that owns them, whatever ends it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crenel.jobs.cli.app import app
from crenel.jobs.local import folders
from tests.support.launch import ROOT

OWNER = """
import sys, time
from pathlib import Path
from crenel.jobs.local import stop

with stop.temporary_folder("crenel-") as folder:
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "raw").write_text("a value of a record")
    stop.make_folder("crenel-log-")
    stop.folder_until_exit("crenel-java-")
    print(folder, flush=True)
    sys.stdin.read()
"""
NEXT = """
import threading
from crenel.jobs.local import stop

with stop.temporary_folder("crenel-"):
    [thread.join() for thread in threading.enumerate() if thread.name == "crenel-clean"]
"""
RACE = """
import sys, tempfile, uuid
from pathlib import Path
from crenel.jobs.local import folders

for number in range(150):
    path = Path(tempfile.gettempdir()) / f"crenel-{uuid.uuid4().hex}"
    folders.make(path)
    (path / "mine").touch()
    folders.clean(kept=True)
    assert (path / "mine").exists(), "a living process's folder was removed"
    if number % 3:
        folders.remove(path)
        assert not path.exists()
    else:
        folders._release(path)  # as where the process is killed
"""


def python(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def owner(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that owns three folders; killed after the block."""
    with python(OWNER, folder) as process:
        assert process.stdout is not None
        assert Path(process.stdout.readline().strip()).parent == folder
        try:
            yield process
        finally:
            process.kill()


def kept(path: Path, days: float = 0) -> Path:
    """Return a folder of logs that a failed run has kept so long ago."""
    folders.make(path)
    (path / "flink.log").write_text("x" * 1000, encoding="utf-8")
    folders.keep(path)
    then = time.time() - days * 86_400
    os.utime(path / "KEPT", (then, then))
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_the_next_command_removes_what_one_that_was_killed_has_left(temporary: Path) -> None:
    with owner(temporary) as process:
        process.kill()
        process.wait(20)
        assert len(list(temporary.iterdir())) == 3
    ended = python(NEXT, temporary)
    assert ended.communicate(timeout=60) == ("", "")
    assert list(temporary.iterdir()) == []


def test_folders_of_a_living_process_stay(temporary: Path) -> None:
    with owner(temporary):
        there = set(temporary.rglob("*"))
        assert folders.clean(kept=True) == folders.Cleaned(0, 0, 3, ())
        assert set(temporary.rglob("*")) == there
    found = folders.clean()
    assert (found.removed, found.size, found.owned) == (3, len("a value of a record"), 0)


def test_only_folders_of_ours_are_removed_and_no_link_is_followed(temporary: Path, tmp_path: Path) -> None:
    elsewhere = kept(tmp_path / f"crenel-{'0' * 32}")
    (temporary / f"crenel-{'1' * 32}").symlink_to(elsewhere)
    open_to_others = kept(temporary / f"crenel-{'2' * 32}")
    open_to_others.chmod(0o755)
    (temporary / f"crenel-{'3' * 32}").mkdir(mode=0o700)  # without a lock: made by something else
    linked = temporary / f"crenel-{'4' * 32}"
    linked.mkdir(mode=0o700)
    (linked / ".crenel-owner").symlink_to(elsewhere / "flink.log")
    kept(temporary / "crenel-0")  # where compiled code lies without a home
    inside = kept(temporary / f"crenel-{'5' * 32}")
    (inside / "link").symlink_to(elsewhere)
    assert folders.clean(kept=True).removed == 1
    assert {path.name for path in temporary.iterdir()} == {
        "crenel-0",
        *(f"crenel-{digit * 32}" for digit in "1234"),
    }
    assert (elsewhere / "flink.log").read_text(encoding="utf-8") == "x" * 1000


def test_logs_of_a_failed_run_stay_for_a_week_or_until_they_are_cleaned(temporary: Path) -> None:
    young = kept(temporary / f"crenel-log-{'a' * 32}", days=6.9)
    kept(temporary / f"crenel-log-{'b' * 32}", days=7.1)
    assert folders.clean().removed == 1
    assert list(temporary.iterdir()) == [young]
    with owner(temporary):
        cleaned = CliRunner().invoke(app, ["clean"])
    assert cleaned.exit_code == 0
    size = 1000 + len("Logs of a failed run, which may hold values of records. `crenel clean` removes them at once.\n")
    assert cleaned.stdout == (
        f"Removed folders of ended commands: 1, with {size:,} bytes.\nFolders of running commands, which are kept: 3.\n"
    )
    assert not young.exists()


def test_a_removal_that_was_cut_off_is_ended_by_the_next(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = temporary / f"crenel-{'a' * 32}"
    folders.make(path)
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / "raw").touch()
    with monkeypatch.context() as cut_off:  # rights would not keep root from it
        cut_off.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
        folders.remove(path)
        assert (path / ".crenel-owner").exists()
        assert folders.clean().failed == (path,)
    assert folders.clean().removed == 1
    assert not path.exists()


def test_commands_that_start_together_leave_each_other_alone(temporary: Path) -> None:
    racing = [python(RACE, temporary) for _ in range(3)]
    assert [process.communicate(timeout=120)[1] for process in racing] == [""] * 3
    folders.clean(kept=True)
    assert list(temporary.iterdir()) == []
