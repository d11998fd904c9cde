"""What is begun ahead of its need does not outlast the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.launch import ROOT

PROGRAM = """
import sys, time
from pathlib import Path
from anonymity.compiled.jit import leaf
from jobs.local.ahead import core_loading

def compile():
    begun = 0
    try:
        for begun in range(10_000):
            leaf(lambda number: number + begun).compile("int64(int64)")
    finally:
        time.sleep(0.2)
        Path(sys.argv[1]).write_text(str(begun))

with core_loading(compile):
    time.sleep(2)
"""


def test_a_command_that_ends_while_the_core_compiles_lets_the_compiler_end_first(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    done = subprocess.run([sys.executable, "-c", PROGRAM, ended], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 < int(ended.read_text(encoding="ascii")) < 9_999
