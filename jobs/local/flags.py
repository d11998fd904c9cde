"""Java flags for a local run: a quicker start, and a bound on garbage.

On a cluster Flink sets memory bounds for Java. In this process Java would let garbage grow to a quarter of the
machine's memory before it collects any.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from importlib import import_module
from types import SimpleNamespace

from crenel.jobs.local import classes
from crenel.jobs.local.java import find_java
from crenel.jobs.local.stop import folder_until_exit, watched
from crenel.jobs.pipeline.sockets import require_token

_MEMORY = (
    # Garbage is collected each 256 MB. Live data, such as buffered tuples, may take as much as Java lets it: a quarter
    # of the machine.
    "-Xmn256m",
    # At Java's default size, loading Flink's classes would trigger many full collections.
    "-XX:MetaspaceSize=256m",
)
_COLLECTOR = "-XX:+UseSerialGC"
_START = (
    # Ten times Java's defaults: planning runs once and would keep the optimizing compiler busy for seconds of a core.
    # The code that processes rows reaches these thresholds soon enough.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)


def prepare_java() -> None:
    """Choose the Java that this process will start, and its flags; ``JVM_ARGS`` of the environment take precedence.

    Raises
    ------
    crenel.jobs.local.java.JavaError
        No Java 17 or newer was found.
    """
    if getattr(sys.modules.get("pyflink.java_gateway"), "_gateway", None) is not None:
        return  # it runs already
    require_token()
    java = find_java()
    os.environ["JAVA_HOME"] = str(java)
    given = os.environ.get("JVM_ARGS", "")
    if _START[0] not in given:
        # Java refuses to start with two collectors.
        collector = () if re.search(r"-XX:\+Use\w+GC\b", given) else (_COLLECTOR,)
        chosen = (*classes.flags(java), *_MEMORY, *collector, *_START, *_temporary(), given)
        os.environ["JVM_ARGS"] = " ".join(chosen).strip()


def _temporary() -> tuple[str, ...]:
    """Return the flag for a private temporary folder, because Java leaves its files if it is killed."""
    if not watched():
        return ()
    folder = folder_until_exit("crenel-java-")
    # Java writes its address into this folder. PyFlink removes it, unless the process is stopped at that moment.
    kept = SimpleNamespace(mkdtemp=lambda: tempfile.mkdtemp(dir=folder), mkstemp=tempfile.mkstemp)
    import_module("pyflink.java_gateway").tempfile = kept  # type: ignore[attr-defined]
    return () if re.search(r"\s", str(folder)) else (f"-Djava.io.tmpdir={folder}",)
