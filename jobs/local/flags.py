"""How Java is started for a local run: sooner than by itself, and with a bound on the memory that nothing needs.

On a cluster Flink gives Java its bounds; for a run in this process nobody does, and Java takes a quarter of the
machine for what rows leave behind before it gathers any of that.
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
from crenel.jobs.pipeline.gateway import require_token

_MEMORY = (
    # What rows leave behind is gathered each 256 MB. What is kept, such as tuples that wait, may take as much as Java
    # lets it: a quarter of the machine.
    "-Xmn256m",
    # Java's own would gather all there is again and again while Flink's classes come in.
    "-XX:MetaspaceSize=256m",
)
_COLLECTOR = "-XX:+UseSerialGC"
_START = (
    # Ten times Java's own: planning runs once and keeps its best compiler busy for seconds of a core; what rows go
    # through comes to these numbers soon enough.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)


def prepare_java() -> None:
    """Choose the Java that this process will start, and how; ``JVM_ARGS`` of the environment win over what is here.

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
        # Two collectors are one too many for Java.
        collector = () if re.search(r"-XX:\+Use\w+GC\b", given) else (_COLLECTOR,)
        chosen = (*classes.flags(java), *_MEMORY, *collector, *_START, *_temporary(), given)
        os.environ["JVM_ARGS"] = " ".join(chosen).strip()


def _temporary() -> tuple[str, ...]:
    """Where Java keeps what it takes away when it ends by itself, and leaves when it is killed."""
    if not watched():
        return ()
    folder = folder_until_exit("crenel-java-")
    # Where Java writes how to reach it. PyFlink takes that away, unless the process is told to stop just then.
    kept = SimpleNamespace(mkdtemp=lambda: tempfile.mkdtemp(dir=folder), mkstemp=tempfile.mkstemp)
    import_module("pyflink.java_gateway").tempfile = kept  # type: ignore[attr-defined]
    return () if re.search(r"\s", str(folder)) else (f"-Djava.io.tmpdir={folder}",)
