"""A process that imports the library, without a job, keeps numba and ``print`` as they are, and loads no Flink."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.launch import ROOT, environment

LIBRARY = ("crenel", "crenel.anonymity.builtin", "crenel.evidence.replay", "crenel.jobs.config.load")

SCRIPT = """
import builtins, inspect, sys
import numba.core.caching, numba.core.codegen, numba.experimental.structref, numba.np.arrayobj

def attributes():
    found = {("builtins", "print"): builtins.print}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            owners = [module, *(each for each in vars(module).values() if inspect.isclass(each))]
            found.update({(id(owner), key): value for owner in owners for key, value in list(vars(owner).items())})
    return found

before = attributes()
__import__(sys.argv[1])
after = attributes()
print("changed:", sorted(key[1] for key in before if after.get(key) is not before[key] and not key[1].startswith("__")))
print("loaded:", [name for name in ("apache_beam", "pyflink", "py4j", "psutil") if name in sys.modules])
"""

WORKER = """
import builtins, sys
from pyflink.fn_execution.beam.beam_sdk_worker_main import CustomPrint
builtins.print = replaced = CustomPrint(print).print
assert "numba" not in sys.modules
import crenel.operators
assert "numba" in sys.modules and builtins.print == replaced
"""


@pytest.mark.parametrize("module", LIBRARY)
def test_the_library_changes_nothing_of_others_and_loads_no_flink(module: str) -> None:
    assert printed(SCRIPT, module).splitlines() == ["changed: []", "loaded: []"]


def test_numba_can_be_imported_in_a_worker_where_pyflink_has_replaced_print() -> None:
    printed(WORKER)


def printed(script: str, *arguments: str) -> str:
    """Return the output of a script in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(
        command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
