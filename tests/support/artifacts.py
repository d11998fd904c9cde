"""Artifacts of Maven projects that tests run, such as a Kafka broker: fetched once, and kept outside the checkout.

``python -m tests.support.artifacts`` fetches those of all projects.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

_PROJECTS = Path(__file__).parent


def jars(project: str) -> Path:
    """Return the folder of the artifacts of ``PROJECT.pom.xml``.

    Several processes may ask at once: the first one fetches, and the others wait for it. Skips the test where the
    artifacts are missing and Maven is not there to fetch them; in CI that is a failure.
    """
    pinned = _PROJECTS / f"{project}.pom.xml"
    content = hashlib.sha256(pinned.read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crenel" / "tests"
    kept = cache / f"{project}-{content}"
    if kept.is_dir():
        return kept
    maven = shutil.which("mvn")
    if maven is None:
        if os.environ.get("CI"):
            pytest.fail("Maven is missing, which fetches Kafka for its tests")
        pytest.skip("Maven is missing, which fetches Kafka for its tests (on Debian: apt install maven)")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases it with the process
        if not kept.is_dir():
            partial = cache / f"{kept.name}.partial"
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
            _fetch(maven, pinned, partial)
            partial.rename(kept)
    return kept


def _fetch(maven: str, pinned: Path, folder: Path) -> None:
    command = (maven, "--quiet", "--batch-mode", "--file", pinned, "dependency:copy-dependencies")
    done = subprocess.run(
        [*command, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    for each in sorted(_PROJECTS.glob("*.pom.xml")):
        print(jars(each.name.removesuffix(".pom.xml")))
