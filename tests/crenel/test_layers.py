"""The library loads nothing of a job."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
import crenel, pyarrow as pa

visits = pa.table({"age": [20 + i * 7 % 60 for i in range(300)]})
settings = crenel.Settings(
    policy=crenel.Policy(quasi_identifiers={"age": crenel.Numeric((0, 110))}),
    privacy=crenel.Privacy(k=7),
    algorithm=crenel.Nearest(crenel.Delay(tuples=50)),
    seed=1,
)
result = crenel.anonymize(visits, settings)
with crenel.open_stream(settings) as stream:
    stream.push(visits)
crenel.verify(result, settings)
crenel.attack(visits, settings, seeds=1)
crenel.plan(visits, settings, vary={"k": [5]})
crenel.why(visits, settings)
import crenel.reporting
crenel.profile(visits)
crenel.report(result, settings)
print(*(name for name in sys.modules if name == "crenel.jobs" or name.startswith("crenel.jobs.")))
"""


def test_the_library_loads_no_module_of_a_job() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
