"""Run benchmarks: speed, latency, memory and state of Crenel, as Markdown tables.

``python -m benchmarks.chaos``, which kills processes of a cluster, is a command of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import (
    core,
    job,
    kafka,
    latency,
    memory,
    readers,
    release_noise,
    restore,
    scale_out,
    stages,
    state,
    utility,
)
from benchmarks.measure import Table, update

_BENCHMARKS: dict[str, tuple[str, Callable[[], Iterable[Table]]]] = {
    "core": ("tuples per second of the core alone, by delay", core.tables),
    "release-noise": ("cost of noise within releases in the core", release_noise.tables),
    "job": ("rows per second of the whole job, beside jobs that do not anonymize", job.tables),
    "scale-out": ("rows per second of one and two TaskManagers, each on one core", scale_out.tables),
    "stages": ("processor time of a row by stage of the job; draws docs/figures/where.svg", stages.tables),
    "latency": ("milliseconds from source to sink, by algorithm", latency.tables),
    "kafka": ("records per second and latency from topic to topic, beside a plain copy", kafka.tables),
    "readers": ("core time of a record of Avro and Protobuf, flat and with arrays", readers.tables),
    "memory": ("peak memory of a local run, by number of rows", memory.tables),
    "state": ("bytes of a buffered tuple, and cost of checkpoints", state.tables),
    "utility": ("query error, means and classification from each published form, beside raw rows", utility.tables),
    "restore": ("seconds from the submission of a job to its first release, with a savepoint", restore.tables),
}

_RESULTS = Path(__file__).with_name("RESULTS.md")
"""Tables of the last runs, which the documentation includes."""


def main() -> None:
    """Print the tables of the named benchmarks."""
    names = "\n".join(f"  {name:<14}{summary}" for name, (summary, _) in _BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=f"benchmarks:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; all of them by default")
    parser.add_argument("--update", action="store_true", help="replace the tables of these titles in RESULTS.md")
    given = parser.parse_args()
    chosen = given.names or list(_BENCHMARKS)
    if unknown := [name for name in chosen if name not in _BENCHMARKS]:
        parser.error(f"no such benchmark: {', '.join(unknown)}; choose from {', '.join(_BENCHMARKS)}")
    for name in chosen:
        for table in _BENCHMARKS[name][1]():
            print(table, flush=True)
            if given.update and not update(_RESULTS, table):
                print("RESULTS.md has no table with this title", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
