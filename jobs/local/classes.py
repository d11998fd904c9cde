"""Class-data-sharing archive of Flink's classes, which saves a third of the start time of a local run.

The archive holds classes that Java has already parsed and verified. The setup of the environment makes it (``python -m
crenel.jobs.local.classes``). Java ignores an archive of another Java version, or of other Flink files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from crenel.anonymity.compiled.folders import cached
from crenel.jobs.local.java import find_java

_SECONDS = 120  # for Java to write the archive after the end of the job


def flags(java: Path) -> tuple[str, ...]:
    """Return the flags for the use of the archive; empty without an archive."""
    archive = _archive(java)
    if archive is None or not archive.exists():
        return ()
    # Java would report an unusable archive on stdout.
    return f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"


def main() -> int:
    """Make the archive by running the smallest job; return 0 if it exists afterwards."""
    java = find_java()
    archive = _archive(java)
    if archive is None:
        print("there is no folder of our own to keep Flink's classes in; jobs start without", file=sys.stderr)
        return 1
    if archive.exists():
        return 0
    print("archiving Flink's classes, for a quicker start (half a minute, once)", flush=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / "classes"
        variables = os.environ | {"JAVA_HOME": str(java), "JVM_ARGS": f"-XX:ArchiveClassesAtExit={made}"}
        command = [sys.executable, "-m", "crenel.jobs.cli.main", "demo", "--rows", "100"]
        subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        # Java writes it while it ends, after the command has ended.
        until, size = time.monotonic() + _SECONDS, -1
        while not made.exists() or made.stat().st_size != size:
            if time.monotonic() > until:
                print("Java wrote no archive of Flink's classes; jobs start without it", file=sys.stderr)
                return 1
            size = made.stat().st_size if made.exists() else -1
            time.sleep(2)
        shutil.move(made, archive)
    return 0


def _archive(java: Path) -> Path | None:
    release = java / "release"
    known = (str(java), release.read_text(encoding="utf-8") if release.exists() else "", version("apache-flink"))
    name = hashlib.blake2b(repr((*known, sys.prefix)).encode(), digest_size=8).hexdigest()
    folder = cached("java")
    return None if folder is None else folder / f"{name}.jsa"


if __name__ == "__main__":
    sys.exit(main())
